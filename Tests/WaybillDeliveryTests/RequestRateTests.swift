import Testing
import WaybillSystem

@testable import WaybillDelivery

@Suite struct RetryAfterTests {
    private let now = WallTime(milliseconds: 1_795_165_200_000)  // 2026-11-20T09:00:00Z

    @Test(arguments: [("0", 0), (" 120 ", 120), ("99999999999999999999999", 86_400), ("100000", 86_400)])
    func `seconds are read, up to a day`(text: String, seconds: Int) {
        #expect(RetryAfter.duration(text, now: self.now) == .seconds(seconds))
    }

    @Test(
        arguments: [
            ("Fri, 20 Nov 2026 09:00:30 GMT", 30), ("Fri, 20 Nov 2026 08:00:00 GMT", 0),
            ("Sun, 22 Nov 2026 09:00:00 GMT", 86_400), ("Fri, 20 Nov 2026 09:00:60 GMT", 60),
        ])
    func `dates are read against the clock`(text: String, seconds: Int) {
        #expect(RetryAfter.duration(text, now: self.now) == .seconds(seconds))
    }

    @Test(
        arguments: [
            "", "soon", "-1", "1.5", "Fri, 31 Feb 2026 09:00:00 GMT", "Fri, 20 Nov 2026 25:00:00 GMT",
            "Fri, 20 Nov 2026 09:00 GMT", "20 Nov 2026 09:00:00 GMT", "Fri, 20 Foo 2026 09:00:00 GMT",
            "Fri, 20 Nov 2026 09:00:00 CET", "Fri, 20 Nov 99999 09:00:00 GMT",
        ])
    func `anything else says nothing`(text: String) {
        #expect(RetryAfter.duration(text, now: self.now) == nil)
    }
}

@Suite struct RequestRateTests {
    @Test func `events go out at the rate, the first at once`() {
        var pace = RequestRate(eventsPerSecond: 100)
        let start = MonotonicTime(nanoseconds: 5)
        #expect(pace.reserve(eventCount: 50, at: start) == start)
        #expect(pace.reserve(eventCount: 200, at: start) == start + .milliseconds(500))
        #expect(pace.reserve(eventCount: 1, at: start + .seconds(1)) == start + .milliseconds(2500))
        // What was not used is gone.
        #expect(pace.reserve(eventCount: 1, at: start + .seconds(60)) == start + .seconds(60))
    }

    @Test func `without a rate nothing waits`() {
        var pace = RequestRate(eventsPerSecond: nil)
        let start = MonotonicTime(nanoseconds: 5)
        for _ in 0..<5 { #expect(pace.reserve(eventCount: 1 << 40, at: start) == start) }
    }
}
