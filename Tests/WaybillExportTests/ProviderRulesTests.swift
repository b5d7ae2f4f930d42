import Testing
import WaybillExport
import WaybillServerTestSupport

/// What each provider's own rules do at their edges; limits as a whole are judged from outside by `Tools/validators`.
@Suite struct ProviderRulesTests {
    private func refusal(_ provider: Destination, _ line: String) -> RefusalReason? {
        export([line], ExportOptions(provider: provider)).refusals.first?.reason
    }

    private func replacing(anon: String, in line: String) -> String {
        line.replacing("\"anon\":\"b5372db0-c21e-41e4-8dfc-aa07a5b093db\",", with: anon)
    }

    @Test(arguments: [
        (Destination.mixpanelProfiles, RefusalReason.mixpanelBadID), (.amplitude, .amplitudeBadID),
        (.segment, .segmentNoUser), (.posthog, .posthogBadID),
    ])
    func `an event of no one is refused`(provider: Destination, reason: RefusalReason) {
        let line = self.replacing(anon: "", in: event(kind: "user", user: nil, members: #","traits":{"a":1}"#))
        #expect(self.refusal(provider, line) == reason)
    }

    @Test(arguments: [
        (Destination.amplitude, RefusalReason.amplitudeNoInsertID), (.segment, .segmentNoMessageID),
        (.posthog, .posthogNoUUID), (.snowplow, .snowplowNoEventID),
    ])
    func `an event without an id is refused`(provider: Destination, reason: RefusalReason) {
        let line = event().replacing("\"id\":\"019550fc-2dfb-7b1c-82d3-000000000001\",", with: "")
        #expect(self.refusal(provider, line) == reason)
    }

    @Test(arguments: [Destination.posthog, .snowplow])
    func `an id that is no UUID is refused where one is asked for`(provider: Destination) {
        let line = event().replacing(
            "019550fc-2dfb-7b1c-82d3-000000000001", with: "019550fc-2dfb-7b1c-82d3-00000000000g")
        #expect(self.refusal(provider, line) != nil)
    }

    @Test(arguments: [
        (Destination.posthog, 200, RefusalReason.posthogBadID), (.snowplow, 255, .snowplowBadID),
        (.amplitude, 1024, .amplitudeBadID),
    ])
    func `an id is never cut, for it could be another person's`(
        provider: Destination, limit: Int, reason: RefusalReason
    ) {
        let longest = String(repeating: "한", count: limit)
        #expect(self.refusal(provider, event(user: longest)) == nil)
        #expect(self.refusal(provider, event(user: longest + "글")) == reason)
    }

    @Test(arguments: ["lmy47d", "{}", "abcd", "👨‍👩", "unknown"])
    func `Amplitude gets no ids that it refuses`(id: String) {
        let isLongEnough = id == "👨‍👩"
        #expect(
            self.refusal(.amplitude, self.replacing(anon: "\"anon\":\"\(id)\",", in: event()))
                == (isLongEnough ? nil : .amplitudeBadID))
        let sink = export([event(user: id)], ExportOptions(provider: .amplitude))
        #expect(sink.records.map { $0.fixes[.dropNull] } == [isLongEnough ? 0 : 1])
        #expect(sink.output.contains("\"user_id\"") == isLongEnough)
    }

    @Test func `a call of more than 32 KB loses fields from its end, and one that stays too large is refused`() throws {
        let long = String(repeating: "x", count: 10_000)
        let line = event(members: ",\"data\":{\"a\":\"\(long)\",\"b\":\"\(long)\",\"c\":\"\(long)\",\"d\":\"\(long)\"}")
        let sink = export([line], ExportOptions(provider: .segment))
        let record = try #require(sink.records.first)
        #expect(record.fixes[.dropField] == 1)
        #expect(record.text.utf8.count < 32_000 && record.text.contains("\"c\":") && !record.text.contains("\"d\":"))
        #expect(record.text.hasSuffix("\"userId\":\"u-1\"}\n"))
        let large = String(repeating: "x", count: 40_000)
        #expect(self.refusal(.segment, event(members: ",\"model\":\"\(large)\"")) == .segmentTooLarge)
    }

    @Test func `a small request of Amplitude's keeps the screen and loses fields`() throws {
        var options = ExportOptions(provider: .amplitude)
        options.amplitude.mode = .httpAPI
        #expect(Exporter(options).description.recordsPerPartMax == 1000)
        let fields = (0..<1100).map { "\"f\($0)\":\"\(String(repeating: "y", count: 900))\"" }.joined(separator: ",")
        let sink = export([event(members: ",\"screen\":\"home\",\"data\":{\(fields)}")], options)
        let record = try #require(sink.records.first)
        #expect(record.text.utf8.count <= 900_000)
        #expect(record.text.hasSuffix(",\"screen\":\"home\"}}\n"))
        #expect(record.fixes[.dropField] > 100)
    }

    @Test func `a session of yesterday is not PostHog's`() {
        let session = ",\"session\":\"01954f00-0000-7000-8000-000000000001\""  // Hours before.
        let old = ",\"session\":\"01950000-0000-7000-8000-000000000001\""  // Weeks before.
        #expect(export([event(members: session)], ExportOptions(provider: .posthog)).output.contains("$session_id"))
        let sink = export([event(members: old)], ExportOptions(provider: .posthog))
        #expect(!sink.output.contains("$session_id"))
        #expect(sink.records.map { $0.fixes[.dropField] } == [1])
    }

    @Test func `a device is never identified as itself`() {
        let anon = "b5372db0-c21e-41e4-8dfc-aa07a5b093db"
        for user in [nil, anon, #"\u00625372db0-c21e-41e4-8dfc-aa07a5b093db"#, "null"] {
            let line = event(kind: "user", user: user, members: #","traits":{"a":1}"#)
            let output = export([line], ExportOptions(provider: .posthog)).output
            #expect(output.contains("\"event\":\"$set\"") && !output.contains("$anon_distinct_id"))
        }
    }

    @Test func `an update that sets nothing is skipped`() {
        let line = event(kind: "user", members: #","traits":{}"#)
        #expect(export([line], ExportOptions(provider: .mixpanelProfiles)).skipped == [.nothing])
    }

    @Test func `a syslog message loses parameters from its end and says how many`() throws {
        let fields = (0..<100).map { "\"field\($0)\":\"한글한글한글\"" }.joined(separator: ",")
        let sink = export([event(name: "로그인", members: ",\"data\":{\(fields)}")], ExportOptions(provider: .syslog))
        let record = try #require(sink.records.first)
        #expect(1950...2049 ~= record.text.utf8.count)
        let dropped = record.fixes[.dropField]
        #expect(record.text.contains("d.field\(99 - dropped)=") && !record.text.contains("d.field\(100 - dropped)="))
        #expect(record.text.hasSuffix(" more=\"\(dropped)\"] \u{FEFF}로그인\n"))

        var options = ExportOptions(provider: .syslog)
        options.syslog.messageByteCountMax = 0
        #expect(export([event(members: ",\"data\":{\(fields)}")], options).output.contains("d.field99="))
    }

    @Test func `a syslog message of one long name is cut between characters`() throws {
        let line = event(name: String(repeating: "한", count: 2000))
        let record = try #require(export([line], ExportOptions(provider: .syslog)).records.first)
        #expect(2040...2049 ~= record.text.utf8.count)
        #expect(record.fixes[.truncateValue] == 1)
        #expect(record.text.contains("[wb@32473 id=\"019550fc-2dfb-7b1c-82d3-000000000001\" more=\""))
    }

    @Test func `a syslog message with an endless id is no longer than any other`() throws {
        let id = String(repeating: "9", count: 5000)
        let line = event().replacing("019550fc-2dfb-7b1c-82d3-000000000001", with: id)
        let record = try #require(export([line], ExportOptions(provider: .syslog)).records.first)
        #expect(record.text.utf8.count < 2049)
        #expect(record.text.hasSuffix("[wb@32473 more=\"5\"] tap\n"))
    }

    @Test(arguments: [("Critical", 130), ("error", 131), ("warning", 132), ("notice", 133), ("TRACE", 135), ("x", 134)])
    func `a log line's level is its severity`(level: String, priority: Int) {
        let line = event(name: "log", members: ",\"data\":{\"level\":\"\(level)\"}")
        #expect(export([line], ExportOptions(provider: .syslog)).output.hasPrefix("<\(priority)>1 "))
        let other = event(name: "tap", members: ",\"data\":{\"level\":\"\(level)\"}")
        #expect(export([other], ExportOptions(provider: .syslog)).output.hasPrefix("<134>1 "))
    }

    @Test func `logs name a user when they are told to`() {
        for provider in [Destination.syslog, .journald] {
            var options = ExportOptions(provider: provider)
            #expect(!export([event(user: "u-77")], options).output.contains("u-77"))
            options.syslog.includesUser = true
            options.journald.includesUser = true
            #expect(export([event(user: "u-77")], options).output.contains("u-77"))
        }
    }

    @Test func `an entry of the journal has fewer fields than its reader takes`() throws {
        let fields = (0..<1500).map { "\"f\($0)\":1" }.joined(separator: ",")
        let line = event(members: ",\"data\":{\(fields)}")
        let record = try #require(export([line], ExportOptions(provider: .journald)).records.first)
        #expect(record.text.split(separator: "\n").count <= 1000)
        #expect(record.text.split(separator: "\n").count > 980)
        #expect(record.fixes[.dropField] > 480)
    }

    @Test(arguments: [
        "guest", "Guest", "ANONYMOUS", "id", "email", "distinct_id", "distinctid", "not_authenticated", "Undefined",
        "TRUE", "NaN", "None", "none", "null", "0", "[object Object]", "   ", "\\u3000\\t", " guest ", "'null'",
        "\\\"undefined\\\"",
    ])
    func `PostHog makes no person of an illegal id`(id: String) {
        let sink = export([event(user: id)], ExportOptions(provider: .posthog))
        #expect(sink.output.contains("\"distinct_id\":\"b5372db0-c21e-41e4-8dfc-aa07a5b093db\""))
        #expect(sink.records.map { $0.fixes[.dropNull] } == [1])
        #expect(self.refusal(.posthog, self.replacing(anon: "\"anon\":\"\(id)\",", in: event())) == .posthogBadID)
    }

    @Test(arguments: ["unknown", "nan", "Null", "guests", "-1", "{}", "n/a", "a null", "00", "게스트"])
    func `PostHog makes a person of any other id`(id: String) {
        let sink = export([event(user: id)], ExportOptions(provider: .posthog))
        #expect(sink.output.contains("\"distinct_id\":\"\(id)\""))
    }

    @Test(arguments: [
        ("2025-03-02T09:00:00.000Z", 1, 0), ("2025-03-02T09:00:00.001Z", 0, 1), ("2025-03-02T10:00:00.000Z", 0, 1),
        ("2025-03-02T10:00:00.001Z", 0, 0),
    ])
    func `an event that PostHog would never show waits, or is refused`(ts: String, exported: Int, held: Int) {
        let sink = export([event(ts: ts)], ExportOptions(provider: .posthog))
        #expect(sink.eventCount == exported && sink.held.count == held)
        #expect(sink.refusals.map(\.reason) == (exported + held == 0 ? [.posthogFuture] : []))
    }

    @Test(arguments: ["action", "user"])
    func `an event of a megabyte loses fields for PostHog`(kind: String) throws {
        let long = String(repeating: "x", count: 340_000)
        let members = "{\"a\":\"\(long)\",\"b\":\"\(long)\",\"c\":\"\(long)\",\"gone\":null}"
        let line = event(kind: kind, members: ",\"\(kind == "user" ? "traits" : "data")\":\(members)")
        let record = try #require(export([line], ExportOptions(provider: .posthog)).records.first)
        #expect(record.fixes[.dropField] == (kind == "user" ? 1 : 2))
        #expect(record.text.contains("\"b\":") && !record.text.contains("\"c\":"))
        #expect(record.text.utf8.count < 1_000_000)
        #expect(record.text.contains("\"$unset\":[\"gone\"]") == (kind == "user"))
        #expect(record.text.hasSuffix("\"$lib\":\"waybill\"}}\n"))
    }

    @Test func `an event that stays too large for PostHog is refused`() {
        let model = String(repeating: "x", count: 1_000_000)
        #expect(self.refusal(.posthog, event(members: ",\"os\":\"\(model)\"")) == .posthogTooLarge)
    }

    @Test func `names that PostHog has no room to remove are not removed`() throws {
        let names = (0..<170).map { "\"\(String(repeating: "n", count: 6100))\($0)\":null" }.joined(separator: ",")
        let line = event(kind: "user", members: ",\"traits\":{\(names)}")
        let record = try #require(export([line], ExportOptions(provider: .posthog)).records.first)
        #expect(record.text.utf8.count < 1_000_000 && record.text.utf8.count > 980_000)
        let kept = try PlainJSON(String(record.text.dropLast()))["properties"]?["$unset"]?.elements.count
        #expect(kept.map { $0 + record.fixes[.dropField] } == 170)
    }
}
