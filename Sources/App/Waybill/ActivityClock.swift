internal import WaybillSystem

/// The time of the client's last event, and what becomes due from one event to the next.
struct ActivityClock {
    /// The last event, or the start before the first.
    private(set) var last: Moment
    /// The minute of the last event, in milliseconds since 1970, in which nothing is due.
    private var minute = Int64(0)..<0
    /// The number of minutes with events after that of the start.
    private(set) var minuteCount: UInt64 = 0
    private let zone: @Sendable (WallTime) -> Int
    private var zoneQuarter = Int64.min
    /// The time zone's offset, in minutes east of UTC.
    private(set) var zoneMinutes = 0

    /// What an event must do first.
    struct Due: Hashable, Sendable {
        /// The user was inactive for so long that the event begins a session.
        let isSessionOver: Bool
        /// The event is the first of its minute.
        let isMinuteNew: Bool
        /// How far the wall clock jumped, in milliseconds, if that must be reported.
        let jump: Int64?
    }

    init(at now: Moment, zone: @escaping @Sendable (WallTime) -> Int) {
        self.last = now
        self.zone = zone
        self.enterMinute(of: now.wall)
    }

    /// Records an event.
    @inline(__always)
    mutating func advance(to now: Moment) -> Due {
        let before = self.last
        self.last = now
        let isMinuteNew = !self.minute.contains(now.wall.milliseconds)
        if isMinuteNew {
            self.minuteCount += 1
            self.enterMinute(of: now.wall)
        }
        let jump = now.jump(since: before)
        return Due(
            isSessionOver: now.isIdle(since: before), isMinuteNew: isMinuteNew,
            jump: jump.magnitude > Self.jumpMillisecondsMax ? jump : nil)
    }

    /// Records that a session began without an event.
    mutating func sessionBegan(at now: Moment) {
        self.last = now
    }

    @inline(never)
    private mutating func enterMinute(of time: WallTime) {
        // Rounded down, also before 1970.
        let start = time.milliseconds - (time.milliseconds % 60_000 + 60_000) % 60_000
        self.minute = start..<start + 60_000
        // Zones change their offset only at quarters of an hour.
        let quarter = start / 900_000
        guard quarter != self.zoneQuarter else { return }
        self.zoneQuarter = quarter
        self.zoneMinutes = self.zone(time)
    }

    /// Smaller ones are corrections by network time.
    private static var jumpMillisecondsMax: UInt64 { 2000 }
}
