internal import WaybillEvent
internal import WaybillSystem

/// The durations that lines have: since the writer's start, since its last event, and on the current screen.
struct EventTimes {
    private let start: MonotonicTime
    private var lastStored: MonotonicTime?
    private var screenEntered: MonotonicTime
    /// Whether a separate event reported how long the current screen was shown.
    private var isScreenEnded = false

    init(start: MonotonicTime) {
        self.start = start
        self.screenEntered = start
    }

    /// The stamp of an event.
    ///
    /// - Parameter time: when it happened, in milliseconds since 1970; `nil` if it happens now.
    @inline(__always)
    func stamp(_ id: UniqueID, sequence: UInt64, time: Int64?, at now: Moment) -> EventStamp {
        EventStamp(
            id: id, sequence: sequence,
            wallMilliseconds: time.map { min($0, now.wall.milliseconds) } ?? now.wall.milliseconds,
            upMilliseconds: now.milliseconds(since: self.start),
            sincePreviousMilliseconds: time == nil ? self.lastStored.map { now.milliseconds(since: $0) } : nil,
            onScreenMilliseconds: self.isScreenEnded ? nil : now.milliseconds(since: self.screenEntered))
    }

    /// Records an event; the next one states the time since then.
    mutating func stored(at now: MonotonicTime) {
        self.lastStored = now
    }

    /// Records that a screen is shown from this time on.
    mutating func screenEntered(at now: MonotonicTime) {
        self.screenEntered = now
        self.isScreenEnded = false
    }

    /// Records that an event reported how long the current screen was shown: the next screen does not repeat it.
    mutating func screenEnded() {
        self.isScreenEnded = true
    }

    /// Excludes time in the background from the time spent on the current screen.
    mutating func wasUnseen(from start: MonotonicTime, to end: MonotonicTime) {
        self.screenEntered = self.screenEntered + (end - max(start, self.screenEntered))
    }
}
