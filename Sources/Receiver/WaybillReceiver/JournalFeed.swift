package import WaybillData
internal import WaybillProjection
internal import WaybillProtocol
package import WaybillSystem

/// A durable, inflated batch on its way to the projections.
package struct FeedEntry: Sendable {
    let position: JournalPosition
    let end: JournalPosition
    let description: StreamDescription
    let offset: StreamOffset
    let receivedAt: WallTime
    let lineCount: Int
    let raw: SharedBytes
    /// Who brought it.
    let account: Account

    /// Its approximate size in memory: even an empty batch has a description and a position.
    fileprivate var byteCount: Int { 1024 + self.raw.count }
}

/// The newest batches in memory, so that projections that keep up neither read nor inflate them again.
///
/// Bounded by bytes: the oldest entries are dropped, and projections that still need them read the journal instead.
package final class JournalFeed: Sendable {
    /// What a projection finds after its position.
    package enum Next: Sendable {
        case entry(FeedEntry)
        /// The entry was dropped: read the journal up to there.
        case behind(upTo: JournalPosition)
        /// Nothing follows up to there, and the journal has come to this time.
        case passed(WallTime, upTo: JournalPosition)
        /// The receiver is stopping; everything up to the end was handed out.
        case closed
        /// The receiver ends now; the journal has what was not handed out.
        case abandoned
    }

    private struct State {
        var entries: [FeedEntry?] = []
        /// The index of the oldest entry in ``entries``.
        var first = 0
        var byteCount = 0
        /// Positions from here on are in ``entries``.
        var start: JournalPosition
        var end: JournalPosition
        /// The last known time in the journal since the start.
        var time = WallTime.unknown
        var isClosed = false
        /// Of everything before it, a checkpoint of the archive has what was decided about days.
        var decidedEnd = JournalPosition(0)
        /// Whether the archive decides nothing more.
        var isDecided = false
    }

    private let monitor: Monitor<State>
    private let byteCountMax: Int
    /// Set when readers must not write anything more.
    package let abandonment = StopFlag()
    /// Those who wait for its end to move on.
    package let watch: JournalWatch

    /// Where the journal ended when this began, if it had no batch before; else 0.
    private let emptyBelow: JournalPosition

    /// - Parameter isNew: whether the journal has no batch yet.
    package init(end: JournalPosition, byteCountMax: Int, isNew: Bool = false) {
        self.emptyBelow = isNew ? end : JournalPosition(0)
        self.monitor = Monitor(State(start: end, end: end))
        self.byteCountMax = byteCountMax
        self.watch = JournalWatch(end: end)
    }

    /// Adds a durable group; `end` is the journal's new end, and `time` the time of the group.
    func publish(_ group: [FeedEntry], end: JournalPosition, at time: WallTime = .unknown) {
        self.monitor.update { state in
            if time != .unknown { state.time = time }
            var last = state.end
            for entry in group {
                precondition(
                    last <= entry.position && entry.position < entry.end,
                    "a batch at \(entry.position) to \(entry.end) follows the journal up to \(last)")
                last = entry.end
                state.entries.append(entry)
                state.byteCount += entry.byteCount
            }
            precondition(last <= end, "a group that ends at \(last) is in a journal that ends at \(end)")
            state.end = end
            while state.byteCount > self.byteCountMax, let entry = state.entries[state.first] {
                state.byteCount -= entry.byteCount
                state.start = entry.end
                state.entries[state.first] = nil
                state.first += 1
            }
            if state.first > 64, state.first * 2 > state.entries.count {
                state.entries.removeFirst(state.first)
                state.first = 0
            }
        }
        self.watch.reached(end)
    }

    /// Makes readers read the journal's files up to `end`.
    package func extend(to end: JournalPosition) {
        self.monitor.update { state in
            state.start = end
            state.end = end
        }
        self.watch.reached(end)
    }

    package func close() {
        self.monitor.update { $0.isClosed = true }
        self.watch.close()
    }

    /// Hands out again, to readers that start where the last ones ended.
    package func reopen() {
        self.monitor.update {
            $0.isClosed = false
            $0.isDecided = false
        }
        self.watch.reopen()
    }

    /// Says up to where those who follow the archive may read.
    func decided(upTo position: JournalPosition) {
        self.monitor.update { $0.decidedEnd = max($0.decidedEnd, position) }
    }

    /// Says that the archive decides nothing more: who follows it ends where it is.
    func endDecisions() {
        self.monitor.update { $0.isDecided = true }
    }

    /// Hands out nothing more, and lets readers write nothing more: a stop does not wait for them, or the data directory
    /// at their paths is not theirs any more.
    package func abandon() {
        self.abandonment.set()
        self.monitor.update { $0.isClosed = true }
        self.watch.close()
    }

    /// The position up to which the journal is durable.
    package var end: JournalPosition {
        self.monitor.update { $0.end }
    }

    /// What follows a position: when it was received.
    enum Waiting: Hashable {
        case nothing
        case since(WallTime)
        /// It is no longer in memory, or its time is not known.
        case unknown
    }

    func waiting(after position: JournalPosition) -> Waiting {
        self.monitor.update { state in
            if max(position, self.emptyBelow) < state.start { return .unknown }
            guard let entry = Self.firstEntry(from: position, in: state) else { return .nothing }
            return entry.receivedAt == .unknown ? .unknown : .since(entry.receivedAt)
        }
    }

    /// Waits for what comes at or after `position`; `nil` when the deadline passes first.
    ///
    /// - Parameters:
    ///   - known: the time that the reader has come to; any other one of the journal is returned when nothing follows.
    ///     `nil`: times are not returned.
    ///   - followsArchive: what the archive has not decided does not come yet.
    package func next(
        after position: JournalPosition, until deadline: MonotonicTime?, known: WallTime? = nil,
        followsArchive: Bool = false
    ) -> Next? {
        self.monitor.wait(until: deadline) { state in
            if self.abandonment.isSet { return .abandoned }
            if followsArchive, state.decidedEnd < state.end {
                if let next = Self.decided(after: position, in: state) { return next }
                return state.isClosed && state.isDecided ? .closed : nil
            }
            if position < state.start { return .behind(upTo: state.end) }
            if let entry = Self.firstEntry(from: position, in: state) { return .entry(entry) }
            if let known, state.time != .unknown, state.time != known {
                return .passed(state.time, upTo: state.end)
            }
            return state.isClosed ? .closed : nil
        }
    }

    /// What follows of what is decided, while more is not.
    private static func decided(after position: JournalPosition, in state: State) -> Next? {
        guard position < state.decidedEnd else { return nil }
        if position < state.start { return .behind(upTo: min(state.end, state.decidedEnd)) }
        guard let entry = Self.firstEntry(from: position, in: state), entry.position < state.decidedEnd else {
            return nil
        }
        return .entry(entry)
    }

    private static func firstEntry(from position: JournalPosition, in state: State) -> FeedEntry? {
        let index = state.entries[state.first...].partitionIndex { $0.map { $0.position < position } ?? false }
        return index < state.entries.count ? state.entries[index] : nil
    }

    /// Whether anything follows a position, decided or not.
    package func hasMore(after position: JournalPosition) -> Bool {
        self.monitor.update { position < $0.start || Self.firstEntry(from: position, in: $0) != nil }
    }

    /// Waits until the journal is durable past a position, the receiver stops, or the deadline passes.
    func waitForEnd(
        beyond position: JournalPosition, until deadline: MonotonicTime?
    ) -> (end: JournalPosition, isClosed: Bool, isAbandoned: Bool) {
        let isReached = self.monitor.wait(until: deadline) { $0.end > position || $0.isClosed ? true : nil } ?? false
        return self.monitor.update { ($0.end, isReached && $0.isClosed, self.abandonment.isSet) }
    }

    /// Sleeps until `deadline`; returns `true` at once when the receiver stops.
    func waitForClose(until deadline: MonotonicTime) -> Bool {
        self.monitor.wait(until: deadline) { $0.isClosed ? true : nil } ?? false
    }
}
