internal import WaybillSystem

/// When spools that share too few descriptors take turns (``SpoolClaims``).
///
///     nothing is left of a claimed one         at the next look, which costs a fifth of a core at most
///     all that are claimed rest                after 1 s; before that, segments whose writers are gone are sealed
///     some have lines that do not get away     after 10 s, unless the run ends on its own
///     each had its turn                        the next round begins 5 s after this one
struct SpoolTurns: Hashable {
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
    private var isTold = false

    init(_ now: MonotonicTime) {
        self.nextAt = now
        self.turnedAt = now
        self.roundAt = now
        self.checkedAt = now
    }

    /// Whether the turns are looked at now; they are again a little later.
    mutating func takeLook(_ now: MonotonicTime) -> Bool {
        guard self.nextAt <= now else { return false }
        self.nextAt = now + .milliseconds(50)
        return true
    }

    /// Whether to say that there are turns: once.
    mutating func takeNews() -> Bool {
        defer { self.isTold = true }
        return !self.isTold
    }

    func isRoundOver(_ now: MonotonicTime) -> Bool { now - self.roundAt >= Self.roundTime }

    /// - Parameter isResting: whether the claimed spools have nothing to ship.
    func isOver(isResting: Bool, _ now: MonotonicTime) -> Bool {
        now - self.turnedAt >= (isResting ? Self.restingTime : Self.busyTime)
    }

    /// Whether it is looked now whether the writers of segments are gone.
    mutating func takeCheck(_ now: MonotonicTime) -> Bool {
        guard now - self.checkedAt >= Self.checkTime else { return false }
        self.checkedAt = now
        return true
    }

    mutating func beganRound(_ now: MonotonicTime) { self.roundAt = now }
    mutating func turned(_ now: MonotonicTime) { self.turnedAt = now }

    /// Everything was looked at.
    mutating func looked(from start: MonotonicTime, to end: MonotonicTime) {
        self.nextAt = end + max(.milliseconds(20), (end - start) * 4)
    }
}
