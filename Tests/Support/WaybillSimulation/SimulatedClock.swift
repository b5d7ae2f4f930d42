internal import WaybillSystem

/// The clocks of one simulated machine: the one drifts, the other jumps as well.
///
/// `@unchecked Sendable`: a life runs on one thread.
final class SimulatedClock: SystemClock, @unchecked Sendable {
    private let schedule: Schedule
    /// Parts in a million by which this machine's clocks are fast.
    private let drift: Int64
    /// By how much each reading moves the clock on, where no schedule does.
    private let tick: Int64
    private var ticked: Int64 = 0
    private var jumped: Int64 = 0
    private var passed: Int64 = 0

    /// 2026-11-20T22:00:00Z, so that lives pass midnight.
    private static let start: Int64 = 1_795_212_000_000

    init(_ schedule: Schedule, drift: Int = 0, tick: Int64 = 0) {
        self.schedule = schedule
        self.drift = Int64(drift)
        self.tick = tick
    }

    private func elapsed() -> Int64 {
        self.ticked += self.tick
        return self.schedule.now + self.schedule.now / 1_000_000 * self.drift + self.ticked + self.passed
    }

    func monotonicTime() -> MonotonicTime { MonotonicTime(nanoseconds: 1_000_000_000 + self.elapsed()) }

    func wallTime() -> WallTime {
        WallTime(milliseconds: Self.start + self.elapsed() / 1_000_000 + self.jumped)
    }

    /// Time passes of which the schedule knows nothing.
    func pass(hours: Int) { self.passed += .seconds(hours * 3600) }

    func pass(seconds: Int) { self.passed += .seconds(seconds) }

    func jump(milliseconds: Int64) { self.jumped += milliseconds }

    /// What the file system stamps files with.
    var fileTime: Int64 { self.wallTime().milliseconds * 1_000_000 }
}
