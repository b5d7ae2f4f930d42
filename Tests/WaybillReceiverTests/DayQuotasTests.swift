import Testing
import WaybillProjection
import WaybillProtocol
import WaybillSystem

@testable import WaybillReceiver

struct DayQuotasTests {
    private static let now = WallTime(milliseconds: 20_000 * 86_400_000)

    @Test func `stored and skipped bytes count apart, and only what an entry bounds is refused`() throws {
        var quotas = DayQuotas(AccountQuotas())
        var principal = Principal(name: "web")
        principal.skippedByteCountMax = 100
        let unbounded = quotas.store(.max, of: principal, Self.now)
        #expect(unbounded == nil)
        principal.quotas.dayByteCountMax = 50
        let stored = [50, 1].map { quotas.store($0, of: principal, Self.now) }
        #expect(
            stored == [nil, "the receiver has stored 50 bytes for this principal today; see agents: quotas.day_mib"])
        let range = try #require(
            SkippedRange(offset: StreamOffset(0), byteCount: 60, reason: .truncated, tail: nil))
        let skipped = (0..<2).map { _ in quotas.skip(range, of: principal, Self.now) }
        #expect(skipped == [nil, "this principal has skipped 100 bytes today; see agents: skip_mib"])
    }

    @Test func `what the fleet has is not counted as skipped`() throws {
        var quotas = DayQuotas(AccountQuotas())
        var principal = Principal(name: "web")
        principal.skippedByteCountMax = 0
        let tail = [UInt8](repeating: 0x61, count: StreamProof.byteCount(at: StreamOffset(60)))
        let range = try #require(
            SkippedRange(offset: StreamOffset(0), byteCount: 60, reason: .elsewhere, tail: tail))
        let refusal = quotas.skip(range, of: principal, Self.now)
        #expect(refusal == nil)
    }

    @Test func `a stream counts when it has begun, and not when it is asked for`() {
        var bounds = AccountQuotas()
        bounds.streamCountMax = 1
        var quotas = DayQuotas(bounds)
        let account = Account(principal: "", device: "a")
        let asked = (0..<3).map { _ in quotas.begin(account, Self.now) }
        #expect(asked == [nil, nil, nil])
        quotas.begun(by: account)
        let refusal = quotas.begin(account, Self.now)
        #expect(refusal == "this agent has begun as many streams today as it may; see limits.streams")
        quotas.ended(by: account)
        let afterEnd = quotas.begin(account, Self.now)
        #expect(afterEnd == nil)
    }
}

@Suite struct DayBudgetTests {
    private static let day: Int64 = 86_400_000

    @Test func `a principal has at most so many bytes on one day`() {
        var budget = DayBudget()
        let principal = Principal(name: "web")
        let today = WallTime(milliseconds: 20_000 * Self.day)
        let taken = [60, 41, 40, 1, UInt64.max].map { budget.take($0, of: principal, max: 100, at: today) }
        #expect(taken == [true, false, true, false, false])
        var other = principal
        other.name = "api"
        let others = budget.take(100, of: other, max: 100, at: today)
        let tomorrow = budget.take(100, of: principal, max: 100, at: WallTime(milliseconds: 20_001 * Self.day))
        #expect(others && tomorrow)
    }
}
