import Testing
import WaybillEvent
import WaybillExport
import WaybillMetrics
import WaybillStore
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
        #expect(progress.condition.name == "backing-off")
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
        let board = DeliveryBoard(software: "waybill/1", started: WallTime(milliseconds: 0))
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
        report.oldestOpen = WallTime(milliseconds: 90_000)
        progress.observed(report)
        #expect(progress.oldestUnsentSeconds(at: now) == 10)
        report.oldestClosed = WallTime(milliseconds: 40_000)
        progress.observed(report)
        #expect(progress.oldestUnsentSeconds(at: now) == 60)
    }

    @Test func `the page has every label of every delivery`() {
        let board = DeliveryBoard(software: "waybill/1", started: WallTime(milliseconds: 0))
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

/// The configuration as `waybill` hands it over.
@Suite struct DeliverySetupTests {
    private static func json(_ deliveries: [[String: String]], data: String = "/data") -> [UInt8] {
        let usual = [
            "provider": "ga4", "name": "ga4", "env": "none", "credentials_file": "none", "region": "none",
            "endpoint": "none", "ambiguous": "skip", "rate": "none", "timeout_seconds": "30", "backoff_seconds": "60",
            "retry_seconds": "600", "force": "off",
        ]
        let list = deliveries.map { changes in
            let members = usual.merging(changes) { $1 }.sorted { $0.key < $1.key }
            return "{" + members.map { "\"\($0.key)\":\"\($0.value)\"" }.joined(separator: ",") + "}"
        }
        return Array(
            "{\"data\":\"\(data)\",\"metrics\":\"none\",\"status_socket\":\"none\",\"status_token_file\":\"none\",\"deliveries\":[\(list.joined(separator: ","))],\"written\":{}}"
                .utf8)
    }

    @Test func `every key arrives`() throws {
        let setup = try DeliverySetup(
            json: Self.json([["rate": "200", "env": "prod", "region": "eu", "force": "on", "ambiguous": "resend"]]))
        let entry = try #require(setup.entries.first)
        #expect(entry.delivery.eventsPerSecond == 200)
        #expect(entry.delivery.env == .prod)
        #expect(entry.delivery.region == .eu)
        #expect(entry.delivery.isForced && entry.delivery.isFollowing)
        #expect(entry.delivery.ambiguity == .resend)
        #expect(entry.timeout == .seconds(30) && entry.retryLongest == .seconds(600))
        #expect(entry.credentialsFile == nil && setup.metrics == nil)
    }

    @Test func `the bucket of a fleet needs a restart when it changes`() throws {
        func setup(_ name: String, endpoint: String) throws -> DeliverySetup {
            let store =
                "\"store\":{\"url\":\"s3://example-events/w\",\"endpoint\":\"\(endpoint)\",\"region\":\"none\","
                + "\"addressing\":\"path\",\"checksum\":\"none\",\"ca\":\"none\",\"merger\":\"\(name)\"},"
            return try DeliverySetup(json: Array("{\(store)".utf8) + Self.json([[:]]).dropFirst())
        }
        let old = try setup("m1", endpoint: "none")
        let fleet = try #require(old.fleet)
        #expect(fleet.merger == "m1" && fleet.location.text == "s3://example-events/w")
        #expect(fleet.location.endpoint == nil && fleet.location.checksum == .none)
        let new = try setup("m2", endpoint: "https://storage.example.com")
        #expect(
            old.changes(to: new, started: old) == [
                DeliverySetup.Change(
                    key: "store.endpoint", old: "none", new: "https://storage.example.com", needsRestart: true),
                DeliverySetup.Change(key: "receiver.name", old: "m1", new: "m2", needsRestart: true),
            ])
        #expect(throws: DeliverySetup.Failure.self) { try setup("a b", endpoint: "none") }
    }

    @Test func `a reload says which keys changed`() throws {
        let old = try DeliverySetup(json: Self.json([[:], ["name": "b", "provider": "segment"]]))
        let new = try DeliverySetup(
            json: Self.json([["rate": "5"], ["name": "c", "provider": "posthog"]], data: "/x"))
        #expect(
            old.changes(to: new, started: old) == [
                DeliverySetup.Change(key: "deliver.data", old: "/data", new: "/x", needsRestart: true),
                DeliverySetup.Change(key: "deliver.deliveries.ga4.rate", old: "none", new: "5", needsRestart: false),
                DeliverySetup.Change(key: "deliver.deliveries.c", old: "absent", new: "present", needsRestart: false),
                DeliverySetup.Change(key: "deliver.deliveries.b", old: "present", new: "absent", needsRestart: false),
            ])
    }

    @Test func `another program's output is refused`() {
        #expect(throws: DeliverySetup.Failure.self) { try DeliverySetup(json: Array("{}".utf8)) }
        #expect(throws: DeliverySetup.Failure.self) { try DeliverySetup(json: Self.json([["provider": "csv"]])) }
    }
}
