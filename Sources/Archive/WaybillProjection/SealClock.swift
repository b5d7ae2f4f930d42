package import WaybillSystem

/// Gives the time only if it can be trusted, so that a clock change seals no day early.
///
///     start, or a jump ──▶ doubted ── 10 minutes without a jump ──▶ trusted
///                            ▲                                        │ the wall clock leaves the monotonic one
///                            └────────────────────────────────────────┘ by more than 60 s
///
/// Pure: readings in, the time or `nil` out.
package struct SealClock: Hashable, Sendable {
    /// How far the wall clock may drift from the monotonic one; more is a jump.
    package static var jumpMillisecondsMax: Int64 { 60_000 }

    private let patience: Duration
    /// The wall clock's reading minus the monotonic clock's, at the start or the last jump.
    private var difference: Int64?
    private var watchedSince = MonotonicTime(nanoseconds: 0)

    /// Prepares a clock that is not trusted yet.
    ///
    /// - Parameter patience: how long there must be no jump before the time is trusted.
    package init(patience: Duration = .seconds(600)) {
        self.patience = patience
    }

    /// Takes a reading of both clocks.
    ///
    /// - Returns: the time, if it can be trusted.
    package mutating func read(_ wall: WallTime, _ monotonic: MonotonicTime) -> WallTime? {
        let difference = wall.milliseconds - monotonic.nanoseconds / 1_000_000
        guard let known = self.difference, abs(difference - known) <= Self.jumpMillisecondsMax else {
            self.difference = difference
            self.watchedSince = monotonic
            return self.patience <= .zero ? wall : nil
        }
        return monotonic - self.watchedSince >= self.patience ? wall : nil
    }
}

/// When a time zone's days count as complete, in seconds after midnight of the next day, local time.
package struct CutOff: Sendable {
    package let zone: TimeZoneRules
    package let secondOfDay: Int

    /// 04:00.
    package static var usualSecondOfDay: Int { 4 * 3600 }

    package init(zone: TimeZoneRules, secondOfDay: Int = CutOff.usualSecondOfDay) {
        precondition((0..<86_400).contains(secondOfDay), "a cut-off is a time of day, got \(secondOfDay) s")
        self.zone = zone
        self.secondOfDay = secondOfDay
    }

    /// The instant at which a day is over; if local clocks skip it, the instant of the jump.
    package func time(of day: CalendarDay) -> WallTime {
        let next = CalendarDay(daysSince1970: day.daysSince1970 + 1)
        return WallTime(milliseconds: self.zone.firstInstant(of: next, secondOfDay: self.secondOfDay) * 1000)
    }

    /// The first cut-off of any day after a time.
    package func next(after time: WallTime) -> WallTime {
        var day = CalendarDay(daysSince1970: self.zone.day(of: time).daysSince1970 - 2)
        while true {
            let cutOff = self.time(of: day)
            if time < cutOff { return cutOff }
            day = CalendarDay(daysSince1970: day.daysSince1970 + 1)
        }
    }

    /// When a day's events may be sealed: not before the day is over, nor before the first cut-off after their arrival.
    package func dueTime(of day: CalendarDay, openedAt opened: WallTime) -> WallTime {
        max(self.time(of: day), self.next(after: opened))
    }
}

/// The permission to seal.
package struct SealMoment: Hashable, Sendable {
    /// The time that the manifests record.
    package let now: WallTime
    /// Days due at or before it may be sealed: everything received before it was projected.
    package let through: WallTime

    package init(now: WallTime, through: WallTime) {
        self.now = now
        self.through = through
    }

    /// Permits sealing everything, including days that are not over.
    package static func everything(now: WallTime) -> SealMoment {
        SealMoment(now: now, through: WallTime(milliseconds: .max))
    }
}

/// A day that was sealed, for logs.
package struct SealedDay: Hashable, Sendable {
    /// Its folder, below the data directory.
    package let path: String
    package let revision: Int
    /// The number of lines of the whole day.
    package let lineCount: Int
    package let byteCount: Int

    package init(path: String, revision: Int, lineCount: Int, byteCount: Int) {
        self.path = path
        self.revision = revision
        self.lineCount = lineCount
        self.byteCount = byteCount
    }
}

/// The days to be sealed, and when each is due.
struct OpenDays<Key: Hashable & Sendable>: Sendable {
    private struct Entry {
        let day: CalendarDay
        let opened: WallTime
        var due: WallTime
    }

    private var cutOff: CutOff
    private var entries: [Key: Entry] = [:]
    /// The earliest due time; `nil` if nothing is open.
    private(set) var nextDue: WallTime?

    init(_ cutOff: CutOff) {
        self.cutOff = cutOff
    }

    func contains(_ key: Key) -> Bool {
        self.entries[key] != nil
    }

    /// When a day is due; `nil` if it is not open.
    func due(of key: Key) -> WallTime? {
        self.entries[key]?.due
    }

    /// Adds a day, unless it was already added.
    mutating func add(_ key: Key, _ day: CalendarDay, openedAt opened: WallTime) {
        guard self.entries[key] == nil else { return }
        let due = self.cutOff.dueTime(of: day, openedAt: opened)
        self.entries[key] = Entry(day: day, opened: opened, due: due)
        self.nextDue = min(self.nextDue ?? due, due)
    }

    mutating func remove(_ keys: some Sequence<Key>) {
        for key in keys { self.entries[key] = nil }
        self.nextDue = self.entries.values.map(\.due).min()
    }

    /// Recomputes the due times for another cut-off.
    mutating func use(_ cutOff: CutOff) {
        self.cutOff = cutOff
        for (key, entry) in self.entries {
            self.entries[key]?.due = cutOff.dueTime(of: entry.day, openedAt: entry.opened)
        }
        self.nextDue = self.entries.values.map(\.due).min()
    }

    /// Moves due times that are too late, because the clock was ahead, to the next cut-off at most.
    mutating func correct(now: WallTime) {
        let latest = self.cutOff.next(after: now)
        for (key, entry) in self.entries where entry.due > latest {
            self.entries[key]?.due = max(latest, self.cutOff.time(of: entry.day))
        }
        self.nextDue = self.entries.values.map(\.due).min()
    }

    /// The days that may be sealed, in no order.
    func due(_ moment: SealMoment) -> [Key] {
        self.entries.filter { $0.value.due <= moment.through }.map(\.key)
    }
}
