package import WaybillSystem

/// The readings of both clocks at one instant.
package struct Moment: Hashable, Sendable {
    package let wall: WallTime
    package let monotonic: MonotonicTime

    /// Whole milliseconds since an earlier moment, by the monotonic clock.
    package func milliseconds(since earlier: MonotonicTime) -> UInt64 {
        UInt64(max(0, self.monotonic.nanoseconds - earlier.nanoseconds) / 1_000_000)
    }

    /// The longer of the two clocks' durations: the monotonic clock stops while a device sleeps.
    func isIdle(since earlier: Moment) -> Bool {
        self.monotonic.nanoseconds - earlier.monotonic.nanoseconds >= Self.sessionIdleMilliseconds * 1_000_000
            || self.wall.milliseconds - earlier.wall.milliseconds >= Self.sessionIdleMilliseconds
    }

    /// Milliseconds by which the wall clock advanced relative to the monotonic one since an earlier moment; negative if
    /// it fell back.
    func jump(since earlier: Moment) -> Int64 {
        self.wall.milliseconds - earlier.wall.milliseconds
            - (self.monotonic.nanoseconds - earlier.monotonic.nanoseconds) / 1_000_000
    }

    /// The inactivity that ends a session: 30 minutes, as in Segment, PostHog, Snowplow and Firebase.
    private static var sessionIdleMilliseconds: Int64 { 30 * 60 * 1000 }

    /// The same, for times that may lie in either order.
    static var sessionIdleMagnitude: UInt64 { UInt64(Self.sessionIdleMilliseconds) }
}
