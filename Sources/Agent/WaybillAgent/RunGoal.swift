internal import WaybillSystem
internal import WaybillTail

/// When a run ends: on its own, because it was asked to stop, or because something failed.
///
///     nothing left ─▶ one more look ─▶ still nothing left ─▶ the fleet has stored it ─▶ drained
///     asked to stop ─▶ drained, or stopped at the deadline
///     refused, not reached, not stored for longer than the run's patience ─▶ unreachable
struct RunGoal {
    enum End: Equatable {
        case drained
        case stopped
        /// Nothing is shipped, and waiting longer is not worth it.
        case unreachable
        /// The fleet has not stored what was sent.
        case unstored
    }

    /// What is left of a run, as far as its end depends on it.
    struct Rest {
        var isReady = false
        var isSettled = false
        /// Whether everything that can be read is sent.
        var hasShippedAll = false
        /// Whether everything sent is answered.
        var isAnswered = false
        /// When the next file is asked for again that the receiver refused.
        var nextRetry: MonotonicTime?
        /// Whether nothing but the fleet's store is waited for.
        var awaitsStorage = false
        /// When a receiver last acknowledged something.
        var acknowledgedAt: MonotonicTime
        /// Since when no receiver has accepted this agent.
        var unreadySince: MonotonicTime?
    }

    enum Settling {
        case settled
        /// Everything is to be looked at once more.
        case lookAgain
        case wait
    }

    /// How long a receiver may take to answer `BYE`: it may have to say what it put aside.
    private static let farewellPatience = Duration.seconds(6)
    /// How long a round waits for the fleet's store; the next round asks again.
    private static let storagePatience = Duration.seconds(5)

    private let mode: AgentMode
    private var stopDeadline: MonotonicTime?
    /// Until when the receiver's answer to `BYE` is awaited; `nil` before that is sent.
    private var farewell: MonotonicTime?
    /// How long each stream was when the round began; `nil` when the run has no such bound.
    private var roundEnds: [StreamKey: Int]?
    /// Whether the look requested when everything seemed settled has found nothing more.
    private var hasSettledLook = false
    private var isSettlingLookAsked = false
    /// Since when nothing but the fleet's store is waited for.
    private var awaitingStorageSince: MonotonicTime?
    /// The error that ends the run.
    private(set) var failure: FileSystemError?

    init(_ mode: AgentMode) {
        self.mode = mode
    }

    /// Whether the run was asked to stop.
    var isStopping: Bool { self.stopDeadline != nil }
    /// Whether `BYE` was sent and nothing but its answer is awaited.
    var isParting: Bool { self.farewell != nil }
    /// Whether the run may end, on its own or because it was asked to.
    var mayEnd: Bool { self.isStopping || self.endsByItself }
    /// Whether the run ends without being asked to.
    var endsByItself: Bool { self.mode.patience != nil }
    /// Whether a run that has nothing to send ends without a connection.
    var needsNoReceiver: Bool {
        if case .round = self.mode { true } else { false }
    }

    /// Whether the run ships only what was there when it began.
    var isBounded: Bool { self.roundEnds != nil }

    // MARK: What happened

    mutating func stop(by deadline: MonotonicTime) {
        self.stopDeadline = deadline
    }

    mutating func fail(_ error: FileSystemError) {
        self.failure = error
    }

    /// The first look has found what is there; a round may ship no more than that.
    mutating func begin(with lengths: () -> [StreamKey: Int]) {
        if case .round(.whatWasThere, _) = self.mode { self.roundEnds = lengths() }
    }

    mutating func lookedAtEverything() {
        self.hasSettledLook = self.isSettlingLookAsked
        self.isSettlingLookAsked = false
    }

    /// There may be more to ship than the last look found.
    mutating func foundMore() {
        self.hasSettledLook = false
    }

    /// Something else than the fleet's store is waited for.
    mutating func isBusy() {
        self.awaitingStorageSince = nil
    }

    // MARK: The end

    /// Whether everything left of a stream arrived after the round began.
    func isForNextRound(_ stream: StreamKey, from cursor: Int, to byteCount: Int) -> Bool {
        guard let roundEnds else { return false }
        return cursor < byteCount && cursor >= roundEnds[stream, default: 0]
    }

    /// Nothing is left to ship, and everything sent is acknowledged.
    ///
    /// - Parameter awaitsStorage: whether the fleet has not stored all of it.
    mutating func settle(awaitsStorage: Bool, at now: MonotonicTime) -> Settling {
        if self.hasSettledLook { return self.mustAwaitStorage(awaitsStorage, now) ? .wait : .settled }
        guard !self.isSettlingLookAsked else { return .wait }
        self.isSettlingLookAsked = true
        return .lookAgain
    }

    private mutating func mustAwaitStorage(_ awaitsStorage: Bool, _ now: MonotonicTime) -> Bool {
        guard awaitsStorage else {
            self.awaitingStorageSince = nil
            return false
        }
        guard case .round = self.mode else { return true }
        let since = self.awaitingStorageSince ?? now
        self.awaitingStorageSince = since
        return now - since < Self.storagePatience
    }

    /// How the run ends; `nil` while it continues.
    func end(_ rest: Rest, at now: MonotonicTime) -> End? {
        if let stopDeadline {
            if rest.isSettled { return .drained }
            return stopDeadline <= now || !rest.isReady ? .stopped : nil
        }
        guard let patience = self.mode.patience else { return nil }
        if rest.isSettled { return .drained }
        let isSilent = now - rest.acknowledgedAt > patience
        if rest.awaitsStorage, isSilent { return .unstored }
        let isUnready = rest.unreadySince.map { now - $0 > patience } ?? false
        guard rest.isAnswered, let nextRetry = rest.nextRetry else { return isUnready ? .unreachable : nil }
        // Only disputed files are left, and this run ends before they are asked for again.
        let isHopeless = rest.hasShippedAll && nextRetry - now > patience
        return isSilent || isHopeless || isUnready ? .unreachable : nil
    }

    /// Whether a run that reports the fate of its lines says `BYE` and waits for the answer.
    mutating func beginFarewell(at now: MonotonicTime) -> Bool {
        guard case .once = self.mode else { return false }
        self.farewell = now + Self.farewellPatience
        return true
    }

    /// Whether the answer to `BYE` is waited for no longer.
    func isParted(isConnected: Bool, at now: MonotonicTime) -> Bool {
        !isConnected || self.farewell.map { $0 <= now } ?? true
    }

    /// When the end is looked at next.
    func nextLook(unreadySince: MonotonicTime?) -> MonotonicTime? {
        if let farewell { return farewell }
        var times: [MonotonicTime] = []
        if let stopDeadline { times.append(stopDeadline) }
        if let since = self.awaitingStorageSince { times.append(since + Self.storagePatience) }
        if let patience = self.mode.patience, let unreadySince { times.append(unreadySince + patience) }
        return times.min()
    }
}
