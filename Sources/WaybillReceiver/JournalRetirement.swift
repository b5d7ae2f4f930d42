internal import WaybillJournal
internal import WaybillSystem

/// Each projection's last checkpoint, so that the journal can delete what all of them have passed.
package final class JournalRetirement: Sendable {
    private struct State {
        var positions: [String: JournalPosition] = [:]
        var lastAsked: MonotonicTime?
        var retention: Duration

        func passed(by count: Int) -> JournalPosition? {
            self.positions.count == count ? self.positions.values.min() : nil
        }
    }

    let names: Set<String>
    private let state: Lock<State>

    /// Prepares for these projections: nothing is deleted before each of them has reported a position.
    package init(names: Set<String>, retention: Duration) {
        self.names = names
        self.state = Lock(State(retention: retention))
    }

    /// How long the journal is kept after every projection has passed it; a reload may change it.
    package var retention: Duration {
        get { self.state.withLock { $0.retention } }
        set { self.state.withLock { $0.retention = newValue } }
    }

    func checkpointed(_ name: String, at position: JournalPosition) {
        self.state.withLock { $0.positions[name] = position }
    }

    /// The position that every projection has passed; `nil` when one has not recovered yet.
    var passedPosition: JournalPosition? {
        self.state.withLock { $0.passed(by: self.names.count) }
    }

    /// The same; also `nil` when this was called less than ten seconds ago.
    func duePosition(now: MonotonicTime) -> JournalPosition? {
        self.state.withLock { state in
            if let last = state.lastAsked, now - last < .seconds(10) { return nil }
            state.lastAsked = now
            return state.passed(by: self.names.count)
        }
    }
}
