import Testing
import WaybillData
import WaybillFleet
import WaybillHost
import WaybillLive
import WaybillReceiver
import WaybillSystem

@testable import WaybillCommands

/// What `waybill status` prints of a merger, and `waybill fleet` of a fleet.
@Suite struct FleetReportTests {
    private static let fleet = String(repeating: "5b", count: 16)
    private static let now: Int64 = 1_795_165_200_000

    private static func merger(
        health: String = "ok", problems: String = "", missing: String = "", different: Int = 0
    ) -> String {
        """
        {"part":"merger","name":"m1","software":"waybill/0.1.0","time":\(Self.now),"started":\(Self.now - 60_000),\
        "health":"\(health)","problems":[\(problems)],"fleet":"\(Self.fleet)","error":null,"round":1204,"rounds":7,\
        "through":1,"lag_seconds":2,"journal_end":182786,"lines":1204,"dropped_lines":20,"conflict_lines":0,\
        "unproven_lines":0,"damaged_bytes":0,"missing_bytes":0,"missing_streams":\(missing.isEmpty ? 0 : 1),\
        "missing":[\(missing)],"published":{"created":8,"present":1,"different":\(different),"failed":0},\
        "chain_count":2,"chains":[{"chain":"a~0000000000000001","position":1000,"heard":\(Self.now - 3000),"stale":false},\
        {"chain":"b~0000000000000002","position":500,"heard":\(Self.now - 2_520_000),"stale":true}],"projections":[],\
        "disk":{"free":null,"total":null,"reserve":null,"measured":null,"complete":false,"parts":[]}}
        """
    }

    private static let missing = """
        {"principal":"shop","stream":"s\\u001b1","ranges":"0-512,1024-2048","bytes":1536,"told":["b"]}
        """

    private static func receiver(unstored seconds: Int) -> String {
        """
        {"part":"receiver","name":"a","time":\(Self.now),"started":1,"health":"ok","problems":[],"lines":1,\
        "store":{"chain":"a~0000000000000001","stored":1000,"unstored_bytes":2500,"unstored_seconds":\(seconds),\
        "error":"busy"}}
        """
    }

    private static func answer(_ json: String) throws -> StatusAnswer {
        StatusAnswer(
            place: try #require(ListeningPlace(ofStatus: "127.0.0.1:4395")), result: .success(Array(json.utf8)))
    }

    @Test func `a merger's chains and missing bytes are tables`() throws {
        let json = Self.merger(
            health: "degraded", problems: "\"receivers that have been silent for long: 1\"", missing: Self.missing)
        let document = try #require(StatusDocument(Array(json.utf8)))
        #expect(
            StatusView().lines(of: document, at: "h:1").map(\.text) == [
                "merger m1 (waybill/0.1.0) at h:1: degraded, up 1 min",
                "! receivers that have been silent for long: 1",
                "round 1,204, 2 s behind, 1,204 lines since the start, 20 dropped, journal 182.8 kB, 8 files published",
                "",
                "STREAM         MISSING  TOLD  OFFSETS",
                "shop/s\\u{1b}1   1.5 kB  b     0-512,1024-2048",
                "",
                "CHAIN               MERGED       HEARD  STATE",
                "b~0000000000000002   500 B  42 min ago  silent",
                "a~0000000000000001  1.0 kB     3 s ago",
            ])
    }

    // MARK: Fleet

    /// A bucket of two chains: `a` is merged up to 1000 of 2000, `b` has been silent since a time.
    private static func report(
        silence: Int64 = 10, waited: Int64? = 5, answers: [String] = []
    ) throws -> FleetReport {
        var report = FleetReport(store: "s3://e/w", time: WallTime(milliseconds: Self.now))
        report.answers = try answers.map(Self.answer)
        let store = ReportStore(fleet: Self.fleet)
        var survey = try FleetSurvey(of: store, known: [:], now: report.time) { _, _ in }
        var a = FleetSurvey.Chain(name: try #require(ChainName("a~0000000000000001")))
        a.newest = JournalPosition(1900)
        a.newestByteCount = 100
        a.heard = WallTime(milliseconds: Self.now - 3000)
        a.merged = JournalPosition(1000)
        a.waitingSince = waited.map { WallTime(milliseconds: Self.now - $0 * 1000) }
        var b = FleetSurvey.Chain(name: try #require(ChainName("b~0000000000000002")))
        b.newest = JournalPosition(400)
        b.newestByteCount = 100
        b.merged = JournalPosition(500)
        b.heard = WallTime(milliseconds: Self.now - silence * 1000)
        survey.chains = [a, b]
        survey.proposers = [
            .init(name: "m1", round: 1204, time: WallTime(milliseconds: Self.now - 2000), count: 60),
            .init(name: "m2", round: 1203, time: WallTime(milliseconds: Self.now - 3000), count: 4),
        ]
        report.survey = survey
        return report
    }

    @Test func `a fleet that is well is one table`() throws {
        let report = try Self.report(answers: [Self.merger(), Self.receiver(unstored: 1)])
        #expect(report.health == .ok)
        #expect(
            report.lines(width: nil, rowCountMax: 50).map(\.text) == [
                "fleet \(Self.fleet) in s3://e/w: ok",
                "m1 made round 1,204 2 s ago, m2 made round 1,203 3 s ago",
                "merger m1: ok",
                "receiver a: ok",
                "",
                "RECEIVER  CHAIN             UPLOADED     HEARD  MERGED   WAITS  FOR  NOT STORED  STATE",
                "a         0000000000000001    2.0 kB   3 s ago  1.0 kB  1.0 kB  5 s      2.5 kB  ok",
                "b         0000000000000002     500 B  10 s ago   500 B     0 B    -           -  ok",
            ])
    }

    @Test func `each trouble is named, with what to do where something can be done`() throws {
        let cases: [(FleetReport, Health, String)] = [
            (try Self.report(silence: 2520), .degraded, "receiver b was last heard of 42 min ago"),
            (
                try Self.report(waited: 400), .degraded,
                "pieces of a~0000000000000001 have waited for a merger for 6 min 40 s"
            ),
            (try Self.report(waited: 1900), .down, "have waited for a merger for 31 min 40 s"),
            (
                try Self.report(answers: [Self.receiver(unstored: 61)]), .degraded,
                "receiver a: the bucket lacks 2.5 kB for 1 min 1 s (busy)"
            ),
            (
                try Self.report(answers: [Self.merger(missing: Self.missing)]), .degraded,
                "1.5 kB of 1 streams are missing"
            ),
            (
                try Self.report(answers: [Self.merger(health: "down", problems: "\"the bucket is not reached\"")]),
                .down,
                "merger m1: the bucket is not reached"
            ),
            (
                try Self.report(answers: [Self.merger(different: 2)]), .degraded,
                "merger m1: the bucket has other files of sealed days than it makes"
            ),
            (try Self.report(answers: ["{}"]), .down, "127.0.0.1:4395 does not answer"),
        ]
        for (report, health, text) in cases {
            #expect(report.health == health, "\(text)")
            let found = report.problems
            #expect(found.count == 1 && found[0].contains(text), "\(found)")
        }
        var unread = FleetReport(store: "s3://e/w", time: WallTime(milliseconds: Self.now))
        unread.storeFailure = "no answer"
        #expect(unread.health == .down && unread.problems == ["the bucket cannot be read: no answer"])
    }

    @Test func `former chains and those of receivers that were taken away are no trouble`() throws {
        var report = try Self.report(silence: 8 * 86_400)
        #expect(report.health == .ok)
        #expect(report.rows.map(\.state) == [.ok, .gone])
        var former = FleetSurvey.Chain(name: try #require(ChainName("a~0000000000000000")))
        former.heard = WallTime(milliseconds: Self.now - 4_000_000)
        report.survey?.chains.insert(former, at: 0)
        #expect(report.rows.map(\.state) == [.ok, .former, .gone])
        #expect(report.health == .ok)
    }

    @Test func `as JSON it has the same`() throws {
        let report = try Self.report(answers: [Self.merger(missing: Self.missing)])
        let json = report.json
        for part in [
            "\"health\":\"degraded\"", "\"fleet\":\"\(Self.fleet)\"", "\"checkpoint\":null",
            "\"chain\":\"a~0000000000000001\",\"receiver\":\"a\",\"state\":\"ok\",\"uploaded\":2000,\"heard_seconds\":3,"
                + "\"merged\":1000,\"waiting_bytes\":1000,\"waiting_seconds\":5,\"unstored_bytes\":null",
            "\"ranges\":\"0-512,1024-2048\",\"bytes\":1536,\"told\":[\"b\"]",
        ] { #expect(json.contains(part), "\(part) in \(json)") }
    }

    @Test func `what is before the fleet is a table of its own, and no trouble`() throws {
        let before = """
            "before_streams":1,"before":[{"principal":"shop","stream":"s1","ranges":"0-512","bytes":512,\
            "holders":["a","b\\u001b"]}],"published"
            """
        let merger = Self.merger().replacing("\"published\"", with: before)
        let report = try Self.report(answers: [merger])
        #expect(report.health == .ok && report.missing == [])
        let lines = report.lines(width: nil, rowCountMax: 10).map(\.text)
        #expect(lines.contains { $0.contains("BEFORE THE FLEET") && $0.contains("IN THE ARCHIVE OF") })
        #expect(lines.contains { $0.hasPrefix("shop/s1") && $0.contains("512 B") && $0.contains("a, b\\u{1b}") })
        #expect(report.json.contains("\"bytes\":512,\"holders\":[\"a\",\"b\\u001b\"]"), "\(report.json)")
    }

    @Test func `of several mergers the one that is farthest counts`() throws {
        var report = try Self.report()
        let behind = Self.merger().replacing("\"position\":1000", with: "\"position\":10")
        report.answers = try [Self.merger(), behind].map(Self.answer)
        #expect(report.positions[try #require(ChainName("a~0000000000000001"))]?.position.rawValue == 1000)
    }
}

/// A bucket that has the name of its fleet.
private struct ReportStore: ObjectStore {
    let fleet: String
    private var text: String { "{\"fleet\":\"\(self.fleet)\",\"level\":\"stored\",\"shards\":1}" }
    private func unused() -> StoreError { StoreError(.refused, detail: "a survey writes nothing") }
    func create(_ key: String, _ body: ObjectBody) throws(StoreError) -> Creation { throw self.unused() }
    func replace(_ key: String, _ body: ObjectBody) throws(StoreError) { throw self.unused() }
    func delete(_ key: String) throws(StoreError) { throw self.unused() }
    func status(of key: String) throws(StoreError) -> ObjectStatus? { throw self.unused() }
    func read(_ key: String, _ range: Range<Int>?) throws(StoreError) -> [UInt8]? { Array(self.text.utf8) }

    func list(_ prefix: String, after: String?, isFolded: Bool) throws(StoreError) -> ObjectListing {
        guard prefix == "fleet-" else { return ObjectListing() }
        return ObjectListing(objects: [.init(key: "fleet-00001.json", byteCount: 1, modified: .unknown)])
    }
}
