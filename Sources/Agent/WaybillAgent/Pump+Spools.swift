internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail

/// When spools that share too few descriptors take turns (``SpoolClaims``).
///
///     nothing is left of a claimed one         at the next look, which costs a fifth of a core at most
///     all that are claimed rest                after 1 s; before that, segments whose writers are gone are sealed
///     some have lines that do not get away     after 10 s, unless the run ends on its own
///     each had its turn                        the next round begins 5 s after this one
struct SpoolTurns {
    private static let restingTime = Duration.seconds(1)
    private static let checkTime = Duration.milliseconds(100)
    private static let busyTime = Duration.seconds(10)
    private static let roundTime = Duration.seconds(5)

    /// When the turns are looked at next.
    private(set) var nextAt: MonotonicTime
    /// When the last turn of several began.
    private var turnedAt: MonotonicTime
    private var roundAt: MonotonicTime
    /// When it was last looked whether the writers of segments are gone.
    private var checkedAt: MonotonicTime
    /// Whether it was said that there are turns.
    var isTold = false

    init(_ now: MonotonicTime) {
        self.nextAt = now
        self.turnedAt = now
        self.roundAt = now
        self.checkedAt = now
    }

    func isRoundOver(_ now: MonotonicTime) -> Bool { now - self.roundAt >= Self.roundTime }

    func isOver(isResting: Bool, _ now: MonotonicTime) -> Bool {
        now - self.turnedAt >= (isResting ? Self.restingTime : Self.busyTime)
    }

    mutating func isCheckDue(_ now: MonotonicTime) -> Bool {
        guard now - self.checkedAt >= Self.checkTime else { return false }
        self.checkedAt = now
        return true
    }

    mutating func beganRound(_ now: MonotonicTime) { self.roundAt = now }
    mutating func turned(_ now: MonotonicTime) { self.turnedAt = now }

    mutating func looked(from start: MonotonicTime, to end: MonotonicTime) {
        self.nextAt = end + max(.milliseconds(20), (end - start) * 4)
    }

    mutating func postpone(_ now: MonotonicTime) {
        self.nextAt = now + .milliseconds(50)
    }
}

extension Pump where Hints: ~Copyable {
    /// Lets the tail follow the spools that are claimed, and says once when they are not all.
    mutating func followClaimed() {
        self.leave(self.tail.follow(spools: self.claims.allowed))
        guard self.claims.isShort, !self.turns.isTold else { return }
        self.turns.isTold = true
        self.telemetry.spoolsTakeTurns(claimed: self.claims.count, waiting: self.claims.waiting.count)
    }

    /// Ends the turns of spools for those that wait.
    mutating func passClaims(_ now: TailTime) {
        let time = now.monotonic
        guard !self.claims.waiting.isEmpty, self.turns.nextAt <= time else { return }
        self.turns.postpone(time)
        if !self.claims.hasUnserved {
            // A run that ends on its own ends after one round.
            guard !self.goal.endsByItself, self.turns.isRoundOver(time) else { return }
            self.claims.beginRound()
            self.turns.beganRound(time)
        }
        let atWork = self.tail.spoolsAtWork
        if self.claims.pass(where: { !atWork.contains($0) }) {
            self.turns.turned(time)
            return self.schedule.hurry(time)
        }
        var isResting = self.hasShippedAll && self.session.isSettled && self.retries.isEmpty
        // A segment whose writer is gone is sealed and deleted first.
        if isResting, self.turns.isCheckDue(time) { isResting = !self.tail.completesSegments(now) }
        guard self.phase == .ready, isResting || !self.goal.endsByItself,
            self.turns.isOver(isResting: isResting, time)
        else { return }
        self.part()
        self.choice.stay()
        _ = self.claims.pass { _ in true }
        self.turns.turned(time)
        self.schedule.hurry(time)
    }
}
