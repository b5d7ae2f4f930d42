import Testing
import WaybillEvent
import WaybillExport
import WaybillServerTestSupport

/// What a strict JSON reader refuses never reaches one: numbers, halves of characters and names written twice.
@Suite struct StrictJSONTests {
    private static let faulty =
        #","data":{"n":1e400,"s":"a\ud800b","o":{"x":1,"x":2},"a":1,"\u0061":2,"t":"\ud83d\ude00"}"#
    private static let strict: [Destination] = [.ga4, .mixpanel, .amplitude, .segment, .posthog, .snowplow]

    @Test(arguments: Self.strict)
    func `a faulty event is repaired and each repair counted`(provider: Destination) throws {
        let sink = export([event(user: "u-88123", members: Self.faulty)], ExportOptions(provider: provider))
        let record = try #require(sink.records.first, "\(sink.refusals)")
        #expect(record.text.contains("1e400") && !record.text.contains(":1e400"))
        #expect(record.text.contains("a\u{FFFD}b") && !record.text.contains("ud800"))
        #expect(record.text.contains("😀") || record.text.contains(#"\ud83d"#))
        // GA4 writes the nested object as a string, which is a change of its own.
        let coerced = provider == .ga4 ? 2 : 1
        #expect(record.fixes[.coerce] == coerced && record.fixes[.badText] == 1 && record.fixes[.dropField] == 2)
        #expect(record.fixes.total == coerced + 3)
    }

    @Test func `traits are repaired like fields`() throws {
        let line = event(kind: "user", user: "u-88123", members: #","traits":{"n":-1e999,"s":"\udc00","n":1}"#)
        for provider in [Destination.mixpanelProfiles, .amplitude, .segment, .posthog] {
            let sink = export([line], ExportOptions(provider: provider))
            #expect(sink.output.contains("\"n\":\"-1e999\",\"s\":\"\u{FFFD}\""), "\(provider)")
            #expect(sink.records.map(\.fixes.total) == [3], "\(provider)")
        }
    }

    @Test(arguments: [
        ("1e308", false), ("1e309", true), ("-1.7976931348623157e308", false), ("1.8e308", true), ("1e-999", false),
        (String(repeating: "9", count: 308), false), (String(repeating: "9", count: 309), true),
        ("9007199254740993", false), ("0.1", false),
    ])
    func `only a number beyond binary64 becomes a string`(number: String, isString: Bool) {
        let sink = export([event(members: ",\"data\":{\"n\":\(number)}")], ExportOptions(provider: .segment))
        #expect(sink.output.contains(isString ? "{\"n\":\"\(number)\"}" : "{\"n\":\(number)}"))
        #expect(sink.records.map { $0.fixes[.coerce] } == [isString ? 1 : 0])
    }

    @Test(arguments: [
        (#"\ud800"#, "\u{FFFD}"), (#"\udfff"#, "\u{FFFD}"), (#"\udc00\ud800"#, "\u{FFFD}\u{FFFD}"),
        (#"\uD83D\uDE00"#, #"\uD83D\uDE00"#), (#"\\ud800"#, #"\\ud800"#), (#"\ud800x"#, "\u{FFFD}x"),
        (#"\ud800\\udc00"#, "\u{FFFD}\\\\udc00"), (#"\ud83d\ud83d\ude00"#, "\u{FFFD}😀"), (#"\ue000"#, #"\ue000"#),
    ])
    func `half a character becomes the replacement character`(text: String, expected: String) {
        let sink = export([event(members: ",\"data\":{\"s\":\"\(text)\"}")], ExportOptions(provider: .segment))
        #expect(sink.output.contains("{\"s\":\"\(expected)\"}"))
        #expect(sink.records.map { $0.fixes[.badText] } == [text == expected ? 0 : 1])
    }

    @Test func `a user that is a number becomes its digits, for logs too`() {
        let line = event(user: nil, members: ",\"user\":8812345678")
        for (provider, text) in [
            (Destination.amplitude, "\"user_id\":\"8812345678\""), (.mixpanel, "\"$user_id\":\"8812345678\""),
            (.ga4, "\"user_id\":\"8812345678\""), (.flurry, ",8812345678,"), (.syslog, "user=\"8812345678\""),
            (.journald, "WB_USER=8812345678\n"),
        ] {
            var options = ExportOptions(provider: provider)
            options.syslog.includesUser = true
            options.journald.includesUser = true
            let sink = export([line], options)
            #expect(sink.output.contains(text), "\(provider)")
            #expect(sink.records.map { $0.fixes[.coerce] } == [1], "\(provider)")
        }
    }

    @Test func `an anonymous id that is a number becomes its digits, too`() {
        let line = event(user: nil).replacing(
            "\"anon\":\"b5372db0-c21e-41e4-8dfc-aa07a5b093db\"", with: "\"anon\":8812345678")
        for (provider, text) in [
            (Destination.amplitude, "\"device_id\":\"8812345678\""), (.mixpanel, "\"$device:8812345678\""),
            (.segment, "\"anonymousId\":\"8812345678\""), (.posthog, "\"distinct_id\":\"8812345678\""),
            (.snowplow, "\"duid\":\"8812345678\""), (.journald, "WB_ANON=8812345678\n"),
        ] {
            let sink = export([line], ExportOptions(provider: provider))
            #expect(sink.output.contains(text), "\(provider)")
            #expect(sink.records.map { $0.fixes[.coerce] } == [1], "\(provider)")
        }
    }

    @Test func `both ids of a foreign line may be numbers, wherever they are`() throws {
        let source = SourceDescription(
            env: .prod, bundle: "b", isForeign: true, userMember: "uid", anonymousMember: "cookie",
            stream: LineStream(principal: "web", id: "a"))
        let line = "{\"time\":1740820459,\"event\":\"GET\",\"cookie\":17,\"uid\":42}"
        let record = try #require(export([line], ExportOptions(provider: .segment), source: source).records.first)
        #expect(record.text.contains("\"anonymousId\":\"17\"") && record.text.contains("\"userId\":\"42\""))
        #expect(record.text.contains("\"properties\":{},") && record.fixes[.coerce] == 2)
    }

    @Test func `of members written twice the first counts, whatever they are`() throws {
        let line = event(members: #","user":"u-2","data":{"a":1},"data":{"a":2},"anon":"other""#)
        let record = try #require(export([line], ExportOptions(provider: .segment)).records.first)
        #expect(record.text.contains("{\"a\":1}") && record.text.contains("\"userId\":\"u-1\""))
        #expect(record.fixes[.dropField] == 3 && record.fixes.total == 3)
    }

    @Test func `a journal keeps both of two fields with one name`() {
        let sink = export([event(members: ",\"data\":{\"a\":1,\"a\":2}")], ExportOptions(provider: .journald))
        #expect(sink.output.contains("WB_D_A=1\nWB_D_A=2\n"))
    }

    @Test func `a foreign line is repaired, and its time and name are still no fields`() throws {
        let line = #"""
            {"time":"2025-03-01T09:14:19.003Z","id":"019550fc-2dfb-7b1c-82d3-000000000001","anon":"b5372db0c21e",\#
            "event":"a\ud800","n":1e400,"n":2,"path":"/"}
            """#
        let sink = export([line], ExportOptions(provider: .posthog), source: foreignSource)
        let record = try #require(sink.records.first)
        #expect(record.text.hasPrefix("{\"event\":\"a\u{FFFD}\","))
        #expect(record.text.contains("\"properties\":{\"n\":\"1e400\",\"path\":\"/\",\"$device_id\""))
        #expect(record.fixes.total == 3)
    }

    @Test func `a mapping sees the repaired fields, and a dead letter keeps the original`() throws {
        var rules = OperatorMapping.Rules(version: 1)
        var rule = OperatorMapping.FieldRule()
        rule.renames = [.init(from: "n", to: "m")]
        rule.constants = [.init(name: "c", json: "-1e400"), .init(name: "d", json: "-1e40")]
        rules.fields = [rule]
        var options = ExportOptions(provider: .segment)
        options.mapping = OperatorMapping(rules)
        let record = try #require(export([event(members: Self.faulty)], options).records.first)
        #expect(
            record.text.contains(
                "{\"c\":\"-1e400\",\"d\":-1e40,\"m\":\"1e400\",\"s\":\"a\u{FFFD}b\",\"o\":{\"x\":1},\"a\":1,"))
        let refused = export(
            [event(user: nil, members: Self.faulty).replacing("\"anon\":", with: "\"none\":")],
            ExportOptions(provider: .segment))
        #expect(refused.refusals.first?.line.contains(":1e400,\"s\":\"a\\ud800b\"") == true)
    }

    @Test func `names that are cut to one name inside an object stay unique`() throws {
        let long = String(repeating: "k", count: 255)
        let data = "{\"o\":{\"\(long)1\":1,\"\(long)2\":2,\"\(long)\":3,\"z\":4}}"
        let sink = export([event(members: ",\"data\":\(data)")], ExportOptions(provider: .mixpanel))
        let record = try #require(sink.records.first)
        #expect(record.text.contains("\"o\":{\"\(long)\":1,"))
        #expect(record.text.ranges(of: "\"\(long)\"").count == 1)
        #expect(record.text.contains("\"z\":4}"))
    }

    @Test func `among 90,000 names inside an object, those that are cut to one name stay unique`() throws {
        let long = String(repeating: "k", count: 1024)
        let names = (0..<90_000).map { "\"\($0)\":1" }.joined(separator: ",")
        let line = event(members: ",\"data\":{\"o\":{\"\(long)x\":1,\(names),\"\(long)y\":2}}")
        let record = try #require(export([line], ExportOptions(provider: .amplitude)).records.first)
        #expect(record.fixes[.collide] == 1 && record.fixes[.truncateValue] == 1)
        #expect(record.text.contains("\"o\":{\"\(long)\":1,\(names)}"))
    }
}
