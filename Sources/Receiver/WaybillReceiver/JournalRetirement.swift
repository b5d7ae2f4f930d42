package import WaybillData
internal import WaybillExport
package import WaybillFleet
internal import WaybillSystem

/// Each projection's last checkpoint, so that the journal can delete what all of them have passed.
package final class JournalRetirement: Sendable {
    private struct State {
        var positions: [String: JournalPosition] = [:]
        var lastAsked: MonotonicTime?
        var retention: Duration
        var unread: UnreadJournalLimit
        var required: Set<String> = ["archive"]

        func passed(by count: Int) -> JournalPosition? {
            self.positions.count == count ? self.positions.values.min() : nil
        }
    }

    package let names: Set<String>
    private let state: Lock<State>

    /// Prepares for these projections: nothing is deleted before each of them has reported a position.
    package init(names: Set<String>, retention: Duration, unread: UnreadJournalLimit = UnreadJournalLimit()) {
        self.names = names
        self.state = Lock(State(retention: retention, unread: unread))
    }

    /// How long the journal is kept after every projection has passed it; a reload may change it.
    package var retention: Duration {
        get { self.state.withLock { $0.retention } }
        set { self.state.withLock { $0.retention = newValue } }
    }

    /// What is kept at most for exports that have not read it; a reload may change it.
    package var unread: UnreadJournalLimit {
        get { self.state.withLock { $0.unread } }
        set { self.state.withLock { $0.unread = newValue } }
    }

    /// The projections that must have read a segment before ``unread`` deletes it; a reload may change them.
    package var required: Set<String> {
        get { self.state.withLock { $0.required } }
        set { self.state.withLock { $0.required = newValue } }
    }

    package func checkpointed(_ name: String, at position: JournalPosition) {
        self.state.withLock { $0.positions[name] = position }
    }

    /// The position that one projection has passed; `nil` when it has not recovered yet, or there is none.
    package func position(of name: String) -> JournalPosition? {
        self.state.withLock { $0.positions[name] }
    }

    /// The position that every projection has passed; `nil` when one has not recovered yet.
    package var passedPosition: JournalPosition? {
        self.state.withLock { $0.passed(by: self.names.count) }
    }

    /// How far the projections have read.
    struct Standing {
        /// The position that every projection has passed; `nil` when one has not recovered yet.
        let passed: JournalPosition?
        /// The position that those have passed which must read everything; `nil` when one has not recovered yet.
        let required: JournalPosition?
    }

    /// The positions; `nil` when this was called less than ten seconds ago.
    func dueStanding(now: MonotonicTime) -> Standing? {
        self.state.withLock { state in
            if let last = state.lastAsked, now - last < .seconds(10) { return nil }
            state.lastAsked = now
            let needed = state.required.compactMap { state.positions[$0] }
            return Standing(
                passed: state.passed(by: self.names.count),
                required: needed.count == state.required.count ? needed.min() : nil)
        }
    }

    /// The projections that have not passed a position.
    func names(before position: JournalPosition) -> [String] {
        self.state.withLock { state in
            self.names.filter { (state.positions[$0] ?? JournalPosition(0)) < position }.sorted()
        }
    }

    /// How far a reader has read, by the name that a line has that is not read (``PoisonOffsets``).
    package func standing(of reader: String) -> ReaderStanding {
        let names =
            reader == PoisonOffsets.exports
            ? self.names.subtracting([PoisonOffsets.archive]) : self.names.intersection([reader])
        let positions = names.compactMap { self.position(of: $0) }
        guard positions.count == names.count else { return .unknown }
        return positions.min().map { .read(upTo: $0) } ?? .none
    }
}
