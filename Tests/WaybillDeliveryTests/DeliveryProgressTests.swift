import Testing
import WaybillEvent
import WaybillExport
import WaybillFleet
import WaybillHost
import WaybillSystem

@testable import WaybillDelivery

/// What a service knows and says of its deliveries.
@Suite struct DeliveryProgressTests {
    private static func progress(_ name: String = "ga4") -> DeliveryProgress {
        DeliveryProgress(name, .ga4, retryLongest: .seconds(600), seed: 1)
    }

    private static func report(sent: Int, trouble: String? = nil) -> DeliveryReport {
        var report = DeliveryReport()
        report.sentCount = sent
        report.requestCount = sent
        report.dead = ["ga4.too_old": 1]
        report.trouble = trouble
        return report
    }

    @Test func `counts only grow, also over starts of a delivery`() {
        var progress = Self.progress()
        progress.observed(Self.report(sent: 3))
        progress.observed(Self.report(sent: 5))
        #expect(progress.stopped(.quota(detail: "429"), Self.report(sent: 6)) != nil)
        #expect(progress.sentEventCount == 6)
        #expect(progress.failed("no export") > .zero)
        progress.observed(Self.report(sent: 2))
        #expect(progress.sentEventCount == 8)
        #expect(progress.requestCount == 8)
        #expect(progress.refusedEventCount(.tooOld) == 2)
        #expect(progress.refusedEventCount(.rejected) == 0)
        var next = Self.progress()
        next.inherit(progress)
        #expect(next.sentEventCount == 8)
        #expect(next.condition == .up)
    }

    @Test func `each trouble has its code`() {
        var progress = Self.progress()
        #expect(progress.problems == [])
        progress.observed(Self.report(sent: 0, trouble: "503"))
        #expect(progress.problems.map(\.code) == [.providerWaiting])
        #expect(progress.condition.name == .backingOff)
        progress.observed(Self.report(sent: 1))
        #expect(progress.problems == [])
        _ = progress.stopped(.credentials(detail: "401"), Self.report(sent: 1))
        #expect(progress.problems.map(\.code) == [.providerRefused])
        // Another attempt is no success yet.
        var attempt = DeliveryReport()
        attempt.remainingCount = 3
        progress.observed(attempt)
        #expect(progress.problems.map(\.code) == [.providerRefused])
        _ = progress.failed("no export")
        #expect(progress.problems.map(\.code) == [.nothingSent])
        attempt.lastSuccess = WallTime(milliseconds: 1)
        progress.observed(attempt)
        #expect(progress.problems == [])
    }

    @Test func `in a fleet it says what other mergers hold, and what the bucket does not say`() {
        var progress = Self.progress()
        var report = DeliveryReport()
        var claims = ClaimCounts()
        (claims.claimed, claims.elsewhere, claims.waiting, claims.damaged) = (1, 5, 2, 1)
        claims.overdue = [.init(merger: "m2", partCount: 3, seconds: 2700)]
        report.claims = claims
        report.claimTrouble = "no answer"
        progress.observed(report)
        #expect(progress.problems.map(\.code) == [.bucketWaiting, .nothingSent, .heldElsewhere])
        #expect(
            progress.problems.last?.text == """
                the merger m2 holds 3 parts for 45 min and does not finish them; start it, or if it is gone for good: waybill \
                deliver --config FILE --take-over m2
                """)
        let board = DeliveryStates(software: "waybill/1", started: WallTime(milliseconds: 0))
        board.begin(progress)
        let text = board.page(at: WallTime(milliseconds: 0)).text
        for line in [
            "waybill_delivery_parts{delivery=\"ga4\",claim=\"claimed\"} 1",
            "waybill_delivery_parts{delivery=\"ga4\",claim=\"elsewhere\"} 5",
            "waybill_delivery_parts{delivery=\"ga4\",claim=\"waiting\"} 2",
        ] {
            #expect(text.contains(line + "\n"), "\(line)")
        }
    }

    @Test func `a provider that refuses every record is asked again only after a reload`() {
        var progress = Self.progress()
        #expect(progress.stopped(.everythingRefused(detail: "400"), DeliveryReport()) == nil)
    }

    @Test func `the oldest unsent event may be in a closed part or in an open one`() {
        var progress = Self.progress()
        let now = WallTime(milliseconds: 100_000)
        #expect(progress.oldestUnsentSeconds(at: now) == nil)
        var report = DeliveryReport()
        report.open.oldest = WallTime(milliseconds: 90_000)
        progress.observed(report)
        #expect(progress.oldestUnsentSeconds(at: now) == 10)
        report.oldestClosed = WallTime(milliseconds: 40_000)
        progress.observed(report)
        #expect(progress.oldestUnsentSeconds(at: now) == 60)
    }

    @Test func `the page has every label of every delivery`() {
        let board = DeliveryStates(software: "waybill/1", started: WallTime(milliseconds: 0))
        board.begin(Self.progress())
        board.begin(DeliveryProgress("b", .segment, retryLongest: .seconds(1), seed: 1))
        let text = board.page(at: WallTime(milliseconds: 0)).text
        for line in [
            "waybill_delivery_sent_events_total{delivery=\"ga4\"} 0",
            "waybill_delivery_refused_events_total{delivery=\"b\",reason=\"too_old\"} 0",
            "waybill_delivery_state{delivery=\"b\",state=\"up\"} 1",
            "waybill_delivery_state{delivery=\"b\",state=\"backing-off\"} 0",
            "waybill_delivery_oldest_unsent_seconds{delivery=\"ga4\"} 0",
        ] {
            #expect(text.contains(line + "\n"), "\(line)")
        }
    }
}
