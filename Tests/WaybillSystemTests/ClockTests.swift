import Testing
import WaybillSystem

@Suite struct ClockTests {
    @Test(
        arguments: [
            (.milliseconds(1500), 1_500_000_000, 1500), (.milliseconds(-1500), -1_500_000_000, -1500),
            (.nanoseconds(Int64.max), .max, 9_223_372_036_854), (.nanoseconds(Int64.min), .min, -9_223_372_036_854),
            // What a peer may say about its clock.
            (.milliseconds((1 << 53) - 1), .max, (1 << 53) - 1), (.milliseconds(-(1 << 53)), .min, -(1 << 53)),
            (.seconds(Int64.max), .max, .max), (.seconds(Int64.min), .min, .min),
        ] as [(Duration, Int64, Int64)])
    func `a duration is a number, or the limit that it exceeds`(
        duration: Duration, nanoseconds: Int64, milliseconds: Int64
    ) {
        #expect(duration.nanoseconds == nanoseconds)
        #expect(duration.milliseconds == milliseconds)
    }

    @Test func `a sum of lengths is a number, or the limit that it exceeds`() {
        #expect(Int.max.saturatingSum(1) == .max && Int.min.saturatingSum(-1) == .min)
        #expect(Int.max.saturatingSum(-1) == .max - 1 && 2.saturatingSum(3) == 5)
    }
}
