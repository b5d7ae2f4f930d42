import Testing
import WaybillEvent
import WaybillExport
import WaybillJSON
import WaybillServerTestSupport
import WaybillSystem

@Suite struct ExporterTests {
    @Test func `an unknown provider is answered with those that exist`() {
        let error = #expect(throws: UnknownProvider.self) { try Destination(named: "ga5") }
        #expect(
            error?.description
                == "there is no provider \"ga5\"; choose one of: ga4, mixpanel, mixpanel-profiles, amplitude, segment, posthog, snowplow, "
                + "flurry, csv, syslog, journald")
        #expect(throws: Never.self) { try Destination(named: "csv") }
    }

    @Test(arguments: [
        (",\"providers\":[]", NotExported.notSubscribed), (",\"providers\":[\"csv\"]", .notSubscribed),
        (",\"overrides\":{\"ga4\":{\"skip\":true}}", .override),
    ])
    func `an event that is not for the provider is skipped`(members: String, reason: NotExported) {
        #expect(export([event(members: members)], ExportOptions(provider: .ga4)).skipped == [reason])
    }

    @Test(arguments: [
        ",\"providers\":[\"csv\",\"ga4\"]", ",\"overrides\":{\"csv\":{\"skip\":true}}", ",\"providers\":null",
    ])
    func `an event that is for the provider is exported`(members: String) {
        #expect(export([event(members: members)], ExportOptions(provider: .ga4)).eventCount == 1)
    }

    @Test(arguments: Destination.allCases)
    func `meta events go to the system's logs alone`(provider: Destination) {
        let sink = export([event(name: "wb.start", kind: "meta")], ExportOptions(provider: provider))
        let isLog = provider == .syslog || provider == .journald
        #expect(sink.skipped == (isLog ? [] : [.kind]))
        #expect(sink.eventCount == (isLog ? 1 : 0))
    }

    @Test func `an event without consent leaves ids and reason behind, and not its content`() {
        let line = event(members: ",\"consent\":{\"analytics\":false},\"data\":{\"secret\":1}")
        var options = ExportOptions(provider: .csv)
        options.mapping = OperatorMapping(OperatorMapping.Rules(version: 3))
        let sink = export([line], options)
        #expect(
            sink.refusals.map(\.line) == [
                """
                {"provider":"csv","reason":"consent","detail":"the person did not consent to analytics",\
                "field":"consent.analytics","limit":null,"id":"019550fc-2dfb-7b1c-82d3-000000000001","writer":null,\
                "seq":1,"at":"2025-03-01T10:00:00.000Z","mapping":3}\n
                """
            ])
    }

    @Test func `a dead letter holds the whole event as it was`() {
        let line = event().replacingFirst("\"ids\":{\"ga4\":\"0a1b2c3d4e5f60718293a4b5c6d7e8f9\"},", with: "")
        let sink = export(["\u{FEFF} " + line + "\r"], ExportOptions(provider: .ga4))
        #expect(
            sink.refusals.map(\.line) == [
                """
                {"provider":"ga4","reason":"ga4.no_app_instance_id","detail":"ids.ga4 is missing","field":"ids.ga4",\
                "limit":null,"id":"019550fc-2dfb-7b1c-82d3-000000000001","writer":null,"seq":1,\
                "at":"2025-03-01T10:00:00.000Z","mapping":0,"event":\(line)}\n
                """
            ])
        #expect(sink.refusals.map(\.day) == ["2025-03-01"])
    }

    @Test func `the day is the report's, not UTC's`() throws {
        let seoul = try TimeZoneRules(named: "Asia/Seoul", from: POSIXFileSystem())
        let line = event(ts: "2025-02-28T15:00:00.000Z")
        #expect(export([line], ExportOptions(provider: .csv, zone: seoul)).records.map(\.day) == ["2025-03-01"])
        #expect(export([line], ExportOptions(provider: .csv)).records.map(\.day) == ["2025-02-28"])
    }

    @Test func `a group never spans two days, environments or people`() {
        let lines = [
            event(id: 1, ts: "2025-02-28T23:59:59.999Z"), event(id: 2, ts: "2025-03-01T00:00:00.000Z"),
            event(id: 3, ts: "2025-03-01T00:00:01.000Z").replacingFirst("\"prod\"", with: "\"internal\""),
            event(id: 4, user: "u-2").replacingFirst("\"prod\"", with: "\"internal\""),
            event(id: 5, user: nil), event(id: 6, user: nil),
        ]
        let sink = export(lines, ExportOptions(provider: .ga4))
        #expect(
            sink.records.map { "\($0.env) \($0.day) \($0.eventCount)" } == [
                "prod 2025-02-28 1", "prod 2025-03-01 1", "internal 2025-03-01 1", "internal 2025-03-01 1",
                "prod 2025-03-01 2",
            ])
    }

    @Test func `a group ends at 25 events and before a user event, which others may follow`() {
        var lines = (1...30).map { event(id: $0) }
        lines.append(event(name: "set_user", id: 31, kind: "user", members: ",\"traits\":{\"tier\":\"A\"}"))
        lines.append(event(id: 32))
        let sink = export(lines, ExportOptions(provider: .ga4))
        #expect(sink.records.map(\.eventCount) == [25, 5, 2])
        #expect(
            sink.records[2].text.hasSuffix(
                #"],"user_properties":{"tier":{"value":"A","timestamp_micros":1740820459003000}}}"# + "\n"))
    }

    @Test func `a request stays within 120 000 bytes`() {
        let items = (0..<60).map { _ in #"{"item_id":"\#(String(repeating: "i", count: 100))"}"# }.joined(
            separator: ",")
        let lines = (1...40).map { event(id: $0, members: ",\"data\":{\"items\":[\(items)]}") }
        let sink = export(lines, ExportOptions(provider: .ga4))
        #expect(sink.eventCount == 40)
        #expect(sink.records.allSatisfy { $0.text.utf8.count <= 120_000 })
        #expect(sink.records.map(\.eventCount) == [17, 17, 6])
    }

    @Test(arguments: [Destination.ga4, .mixpanel], ["2025-02-20T10:00:00.000Z", "2031-01-01T00:00:00.000Z"])
    func `no age is judged when the time of receipt is unknown`(provider: Destination, ts: String) {
        let sink = export([event(ts: ts)], ExportOptions(provider: provider), at: .unknown)
        #expect(sink.eventCount == 1)
        #expect(sink.refusals.isEmpty && sink.held.isEmpty)
    }

    @Test func `replayed events are not judged by their age`() {
        let old = event(ts: "2024-03-01T09:14:19.003Z")
        #expect(export([old], ExportOptions(provider: .ga4)).refusals.map(\.reason) == [.ga4TooOld])
        #expect(export([old], ExportOptions(provider: .ga4), isAgeJudged: false).eventCount == 1)
        let ahead = event(ts: "2025-03-05T09:14:19.003Z")
        #expect(export([ahead], ExportOptions(provider: .mixpanel)).refusals.map(\.reason) == [.mixpanelFuture])
        #expect(export([ahead], ExportOptions(provider: .mixpanel), isAgeJudged: false).eventCount == 1)
    }

    @Test func `a batch cut in two gives the same events`() {
        let lines = (1...60).map { event(id: $0, user: $0 % 7 == 0 ? "u-2" : "u-1") }
        let whole = export(lines, ExportOptions(provider: .ga4))
        let parts = [lines[..<23], lines[23...]].map { export(Array($0), ExportOptions(provider: .ga4)) }
        let ids = parts.flatMap(\.records).flatMap { $0.ids.split(separator: ",") }
        #expect(ids == whole.records.flatMap { $0.ids.split(separator: ",") })
    }

    @Test func `what reaches the exporter without being an object is refused`() {
        var sink = RecordingSink()
        var exporter = Exporter(ExportOptions(provider: .csv))
        let line = Array("{\"ts\"".utf8)
        let facts = EventFacts(
            time: WallTime(milliseconds: 1_740_820_455_926), env: .prod, bundle: nil, name: nil, kind: .event,
            timeOffset: 0)
        line.withUnsafeBytes {
            exporter.export(
                $0, facts, source: ownSource, at: 0, receivedAt: receivedAt, isAgeJudged: true, to: &sink)
        }
        #expect(sink.refusals.map(\.reason) == [.unreadable])
    }

    @Test func `a foreign line is exported as far as it can be`() {
        let line = #"{"time":"2025-03-01T09:14:19Z","event":"GET","status":200,"user":"u-1","path":"/a;b","kind":"x"}"#
        let csv = export([line], ExportOptions(provider: .csv), source: foreignSource)
        #expect(csv.output == "2025-03-01 09:14:19,,,,GET,,status=200;path=/a\\;b;kind=x\r\n")
        #expect(csv.records.map(\.ids) == ["-"])
        #expect(csv.records.map(\.env) == [.internal])
        let mixpanel = export([line], ExportOptions(provider: .mixpanel), source: foreignSource)
        #expect(mixpanel.refusals.map(\.reason) == [.mixpanelNoInsertID])
        let ga4 = export([line], ExportOptions(provider: .ga4), source: foreignSource)
        #expect(ga4.refusals.map(\.reason) == [.ga4NoAppInstanceID])
    }

    @Test func `late events are counted for GA4's readers`() {
        let session = ",\"session\":\"019550fb-32b4-7000-8000-000000000001\""
        let early = event(id: 1, ts: "2025-02-27T09:59:00.000Z")
        // The session began on 2025-03-01T09:13:14Z.
        let lines = [early, event(id: 2, members: session)]
        #expect(export(lines, ExportOptions(provider: .ga4)).records.map(\.late) == [[1, 0], [0, 0]])
        let nextDay = WallTime(milliseconds: receivedAt.milliseconds + 86_400_000)
        #expect(export(lines, ExportOptions(provider: .csv), at: nextDay).records.map(\.late) == [[1, 0], [0, 1]])
    }

    @Test func `different event names are counted for each environment`() {
        var sink = RecordingSink()
        var exporter = Exporter(ExportOptions(provider: .ga4))
        for name in ["a", "b", "A", "a"] {
            let line = Array(event(name: name).utf8)
            guard case .event(let facts) = read(line) else { continue }
            line.withUnsafeBytes {
                exporter.export(
                    $0, facts, source: ownSource, at: 0, receivedAt: receivedAt, isAgeJudged: true, to: &sink)
            }
        }
        let counts = DeploymentEnvironment.allCases.map { exporter.eventNameCount(in: $0) }
        #expect(counts == [0, 0, 2])
    }
}
