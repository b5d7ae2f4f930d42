import Testing
import WaybillProjection
import WaybillSystem

@testable import WaybillReceiver

/// Bytes a second, and streams, of principals whose entries bound them.
@Suite struct QuotaTests {
    private static func agent(
        _ name: String, of principal: String = "phones", all: Int? = nil, each: Int? = nil
    ) -> AdmittedAgent {
        var principal = Principal(name: principal)
        principal.quotas.byteRateMax = all
        principal.quotas.agentByteRateMax = each
        return AdmittedAgent(principal: principal, agent: name)
    }

    private static func time(_ milliseconds: Int) -> MonotonicTime {
        MonotonicTime(nanoseconds: Int64(milliseconds) * 1_000_000)
    }

    @Test func `two seconds' bytes pass at once, and after that the rate holds`() {
        var rates = ByteRates()
        let agent = Self.agent("a", all: 1000)
        #expect(ByteRates.bounds(agent))
        #expect(!ByteRates.bounds(Self.agent("a")))
        #expect(rates.take(2000, for: agent, at: Self.time(0)) == .zero)
        #expect(rates.take(500, for: agent, at: Self.time(0)) == .milliseconds(500))
        #expect(rates.take(500, for: agent, at: Self.time(500)) == .milliseconds(500))
        // A long silence makes up for two seconds and no more.
        #expect(rates.take(2000, for: agent, at: Self.time(60_000)) == .zero)
        #expect(rates.take(1, for: agent, at: Self.time(60_000)) == .milliseconds(1))
    }

    @Test func `agents of one principal wait in turn, and another principal does not`() {
        var rates = ByteRates()
        let pauses = ["a", "b", "c"].map {
            rates.take(2000, for: Self.agent($0, all: 1000), at: Self.time(0))
        }
        #expect(pauses == [.zero, .seconds(2), .seconds(4)])
        #expect(rates.take(2000, for: Self.agent("a", of: "web", all: 1000), at: Self.time(0)) == .zero)
    }

    @Test func `one agent's rate is its own, and the stricter of two counts`() {
        var rates = ByteRates()
        let first = Self.agent("a", all: 1000, each: 100)
        #expect(rates.take(300, for: first, at: Self.time(0)) == .seconds(1))
        #expect(rates.take(200, for: Self.agent("b", all: 1000, each: 100), at: Self.time(0)) == .zero)
    }

    @Test func `a batch that is not read gives its bytes back`() {
        var rates = ByteRates()
        let agent = Self.agent("a", all: 1000)
        #expect(rates.take(5000, for: agent, at: Self.time(0)) == .seconds(3))
        rates.giveBack(5000, of: agent, at: Self.time(0))
        #expect(rates.take(2000, for: agent, at: Self.time(0)) == .zero)
    }

    @Test func `agents without number do not make their principal forget what it took`() {
        var rates = ByteRates()
        for number in 0..<25_000 {
            _ = rates.take(1, for: Self.agent("\(number)", all: 1000, each: 1000), at: Self.time(0))
        }
        #expect(rates.take(1, for: Self.agent("x", all: 1000, each: 1000), at: Self.time(0)) > .seconds(22))
    }

    @Test func `streams that are sealed at once are bounded too`() {
        var quota = StreamQuota(countMax: 5)
        let account = Account(principal: "", device: "a")
        let now = WallTime(milliseconds: 20_000 * 86_400_000)
        for _ in 0..<50 {
            let mayBegin = quota.mayBegin(account, now)
            #expect(mayBegin)
            quota.begun(by: account)
            quota.ended(by: account)
        }
        let mayBegin = quota.mayBegin(account, now)
        let mayBeginTomorrow = quota.mayBegin(account, WallTime(milliseconds: now.milliseconds + 86_400_000))
        #expect(!mayBegin && mayBeginTomorrow)
    }

    @Test func `an entry's bound on streams counts in place of the receiver's`() {
        var quota = StreamQuota(countMax: 2)
        var limits = AccountLimits()
        limits.streamCountMax = 3
        let bounded = Account(principal: "phones", device: "a", limits: limits)
        let other = Account(principal: "web", device: "a")
        let now = WallTime(milliseconds: 20_000 * 86_400_000)
        for _ in 0..<2 {
            let mayBegin = [bounded, other].map { quota.mayBegin($0, now) }
            #expect(mayBegin == [true, true])
            quota.begun(by: bounded)
            quota.begun(by: other)
        }
        let mayBegin = [bounded, other].map { quota.mayBegin($0, now) }
        #expect(mayBegin == [true, false])
        quota.begun(by: bounded)
        let mayBeginMore = quota.mayBegin(bounded, now)
        #expect(!mayBeginMore)
    }
}
