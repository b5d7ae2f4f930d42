internal import Synchronization
internal import WaybillJournal
internal import WaybillSystem

/// How far each projection has come for good, so that the journal can let go of what is behind them all.
package final class JournalRetirement: Sendable {
    private struct State {
        var positions: [String: JournalPosition] = [:]
        var lastAsked: MonotonicTime?
        var retention: Duration
    }

    let names: Set<String>
    private let state: Mutex<State>

    /// Prepares for these projections: nothing is let go before each of them has said where it stands.
    package init(names: Set<String>, retention: Duration) {
        self.names = names
        self.state = Mutex(State(retention: retention))
    }

    /// How long the journal stays after every projection is past it; a reload may change it.
    package var retention: Duration {
        get { self.state.withLock { $0.retention } }
        set { self.state.withLock { $0.retention = newValue } }
    }

    func checkpointed(_ name: String, at position: JournalPosition) {
        self.state.withLock { $0.positions[name] = position }
    }

    /// What every projection is past; `nil` when one has not recovered yet, or when this was asked for less than ten
    /// seconds ago.
    func duePosition(now: MonotonicTime) -> JournalPosition? {
        self.state.withLock { state in
            if let last = state.lastAsked, now - last < .seconds(10) { return nil }
            state.lastAsked = now
            guard Set(state.positions.keys) == self.names else { return nil }
            return state.positions.values.min()
        }
    }
}
