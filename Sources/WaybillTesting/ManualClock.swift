package import WaybillSystem

/// A clock that tests set.
package final class ManualClock: SystemClock {
    private let times = Lock((wall: Int64(1_740_820_455_926), monotonic: Int64(1_000_000_000)))

    /// Creates a clock that starts `milliseconds` after 2025-03-01T09:14:15.926Z.
    package init(after milliseconds: Int64 = 0) {
        self.advance(milliseconds: milliseconds)
    }

    package func wallTime() -> WallTime { self.times.withLock { WallTime(milliseconds: $0.wall) } }
    package func monotonicTime() -> MonotonicTime { self.times.withLock { MonotonicTime(nanoseconds: $0.monotonic) } }

    /// Advances both clocks.
    package func advance(milliseconds: Int64) {
        self.jump(milliseconds: milliseconds)
        self.times.withLock { $0.monotonic += milliseconds * 1_000_000 }
    }

    /// Moves only the wall clock.
    package func jump(milliseconds: Int64) {
        self.times.withLock { $0.wall += milliseconds }
    }
}
