import Testing
import WaybillAgent
import WaybillSystem

@Suite struct ReconnectionTests {
    private static func time(_ duration: Duration) -> MonotonicTime {
        MonotonicTime(nanoseconds: 0) + duration
    }

    /// When attempts would be made if each of them failed at once.
    private static func attempts(
        seed: UInt64, until end: Duration, _ cause: Reconnection.Cause = .broken
    ) -> [(at: Duration, wait: Duration)] {
        var reconnection = Reconnection(SeededGenerator(seed: seed))
        var attempts: [(at: Duration, wait: Duration)] = []
        var now = Duration.zero
        while now <= end {
            let wait = reconnection.failed(cause, at: Self.time(now))
            now += wait
            attempts.append((now, wait))
        }
        return attempts
    }

    @Test(arguments: 0..<UInt64(200))
    func `no wait is longer than the outage was, nor than its doubled bound`(seed: UInt64) {
        var doubled = Duration.milliseconds(500)
        for (at, wait) in Self.attempts(seed: seed, until: .seconds(600)) {
            #expect(wait >= .milliseconds(10))
            #expect(wait <= doubled)
            #expect(wait <= max(.seconds(2), at - wait), "after an outage of \(at - wait)")
            doubled = min(.seconds(60), doubled * 2)
        }
    }

    @Test(arguments: [1, 5, 20, 120])
    func `after an outage everyone is back within as long, or 2 s, and not together`(seconds: Int) {
        let outage = Duration.seconds(seconds)
        let width = min(.seconds(60), max(.seconds(2), outage))
        var arrivals: [Duration] = []
        for seed in 0..<UInt64(2_000) {
            guard let first = Self.attempts(seed: seed, until: outage).last else { continue }
            arrivals.append(first.at - outage)
        }
        #expect(arrivals.count == 2_000)
        #expect(arrivals.allSatisfy { $0 > .zero && $0 <= width })
        // In no twentieth of the time do more than a quarter of them come.
        for slice in 0..<20 {
            let from = width * slice / 20
            #expect(arrivals.count { $0 > from && $0 <= from + width / 20 } <= 500)
        }
    }

    @Test func `a refusal keeps the doubled bound`() {
        let waits = (0..<UInt64(100)).flatMap { seed in
            Self.attempts(seed: seed, until: .seconds(30), .refused).map(\.wait)
        }
        // No one could wait so long for a receiver that was away for as little.
        #expect(waits.contains { $0 > .seconds(30) })
    }

    @Test func `what needs a change waits longest at once`() {
        let waits = (0..<UInt64(100)).compactMap { seed -> Duration? in
            var reconnection = Reconnection(SeededGenerator(seed: seed))
            return reconnection.failed(.hopeless, at: Self.time(.zero))
        }
        #expect(waits.contains { $0 > .seconds(50) })
        #expect(waits.allSatisfy { $0 <= .seconds(60) })
    }

    @Test(arguments: 0..<UInt64(50))
    func `an acknowledgement ends the outage`(seed: UInt64) {
        var reconnection = Reconnection(SeededGenerator(seed: seed))
        for second in 0..<100 { _ = reconnection.failed(.broken, at: Self.time(.seconds(second))) }
        reconnection.succeeded()
        for bound in [0.5, 1, 2, 2, 2] {
            #expect(reconnection.failed(.broken, at: Self.time(.seconds(1_000))) <= .seconds(bound))
        }
    }

    @Test func `a receiver that accepts and never acknowledges is asked less and less`() {
        // Each connection lasts a second, so that no receiver is away for longer; nothing is ever acknowledged.
        let longest = (0..<UInt64(50)).map { seed -> Duration in
            var reconnection = Reconnection(SeededGenerator(seed: seed))
            var now = Duration.zero
            var longest = Duration.zero
            while now < .seconds(600) {
                let wait = reconnection.failed(.broken, at: Self.time(now))
                longest = max(longest, wait)
                now += wait
                reconnection.accepted(at: Self.time(now))
                now += .seconds(1)
            }
            return longest
        }
        #expect(longest.allSatisfy { $0 > .seconds(10) })
    }

    @Test(arguments: 0..<UInt64(50))
    func `a connection that lasts a minute ends the outage of an agent that has nothing to send`(seed: UInt64) {
        var reconnection = Reconnection(SeededGenerator(seed: seed))
        for second in 0..<100 { _ = reconnection.failed(.broken, at: Self.time(.seconds(second))) }
        reconnection.accepted(at: Self.time(.seconds(100)))
        for bound in [0.5, 1, 2, 2, 2] {
            #expect(reconnection.failed(.broken, at: Self.time(.seconds(160))) <= .seconds(bound))
        }
    }
}
