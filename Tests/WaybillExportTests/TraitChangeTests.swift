import Testing
import WaybillEvent
import WaybillExport
import WaybillServerTestSupport
import WaybillSystem

/// What providers get of traits that are set once or added to; `traits-events.ndjson` has whole records.
@Suite struct TraitChangeTests {
    private static let once = event(kind: "user", members: #","traits":{},"traits_once":{"first":"2025","n":null}"#)
    private static let added = event(kind: "user", members: #","traits":{},"traits_add":{"visits":1,"text":"1"}"#)
    private static let all = event(
        kind: "user",
        members:
            #","traits_add":{"visits":1.50,"plan":1},"traits":{"plan":"pro","old":null},"traits_once":{"first":"2025"}"#
    )

    private func export(_ line: String, _ provider: Destination) -> RecordingSink {
        WaybillServerTestSupport.export([line], ExportOptions(provider: provider))
    }

    @Test(arguments: [Destination.ga4, .segment])
    func `a provider that can only set traits gets no others, and they are counted`(provider: Destination) throws {
        #expect(self.export(Self.once, provider).skipped == [.nothing])
        #expect(self.export(Self.added, provider).skipped == [.nothing])
        let record = try #require(self.export(Self.all, provider).records.first)
        #expect(record.fixes[.dropField] == 3)
        #expect(record.text.contains("pro") && !record.text.contains("2025\"") && !record.text.contains("1.50"))
        // An event without any trait still names the user.
        #expect(self.export(event(kind: "user", members: #","traits":{}"#), provider).records.count == 1)
    }

    @Test func `PostHog sets once and cannot add`() throws {
        let once = try #require(self.export(Self.once, .posthog).records.first)
        #expect(once.text.contains(##""$set":{},"$set_once":{"first":"2025"},"##))
        #expect(once.fixes[.dropNull] == 1)
        #expect(self.export(Self.added, .posthog).skipped == [.nothing])
        let all = try #require(self.export(Self.all, .posthog).records.first)
        #expect(all.text.contains(##""$set":{"plan":"pro"},"$set_once":{"first":"2025"},"$unset":["old"]"##))
        #expect(all.fixes[.dropField] == 2)
    }

    @Test func `Amplitude gets an operation for each kind of change, and a trait in one of them`() throws {
        let once = try #require(self.export(Self.once, .amplitude).records.first)
        #expect(once.text.hasSuffix("\"user_properties\":{\"$setOnce\":{\"first\":\"2025\"}}}\n"))
        let added = try #require(self.export(Self.added, .amplitude).records.first)
        #expect(added.text.hasSuffix("\"user_properties\":{\"$add\":{\"visits\":1}}}\n"))
        #expect(added.fixes[.dropField] == 1)
        let all = try #require(self.export(Self.all, .amplitude).records.first)
        #expect(
            all.text.hasSuffix(
                ##""user_properties":{"$set":{"plan":"pro"},"$setOnce":{"first":"2025"},"$add":{"visits":1.50},"$unset":{"old":"-"}}}"##
                    + "\n"))
        #expect(all.fixes[.collide] == 1)
    }

    @Test func `Mixpanel gets an update for each kind of change, and none that changes nothing`() throws {
        func updates(_ line: String) throws -> [String] {
            let record = try #require(self.export(line, .mixpanelProfiles).records.first)
            return record.text.split(separator: "},{").map { $0.split(separator: "\"$distinct_id\":\"u-1\",")[1] }
                .map(String.init)
        }
        #expect(try updates(Self.once) == [##""$set_once":{"first":"2025"}}"##])
        #expect(try updates(Self.added) == [##""$add":{"visits":1}}"##])
        #expect(
            try updates(Self.all) == [
                ##""$set":{"plan":"pro"}"##, ##""$unset":["old"]"##, ##""$set_once":{"first":"2025"}"##,
                ##""$add":{"visits":1.50}}"##,
            ])
        let same = event(kind: "user", members: #","traits":{"a":1},"traits_once":{"a":2},"traits_add":{"a":3}"#)
        #expect(try updates(same) == [##""$set":{"a":1}}"##])
        let useless = event(kind: "user", members: #","traits":{},"traits_once":{"a":null},"traits_add":{"a":"1"}"#)
        #expect(self.export(useless, .mixpanelProfiles).skipped == [.nothing])
    }

    @Test func `Snowplow gets them as entities`() throws {
        let record = try #require(self.export(Self.all, .snowplow).records.first)
        let text = record.text.replacing("\\\"", with: "'")
        #expect(
            text.contains(
                "{'schema':'iglu:com.example.shop/user_traits_once/jsonschema/1-0-0','data':{'first':'2025'}},"
                    + "{'schema':'iglu:com.example.shop/user_traits_add/jsonschema/1-0-0','data':{'visits':1.50,'plan':1}}"
            ))
        #expect(text.contains("user_traits/jsonschema/1-0-0','data':{'plan':'pro','old':null}"))
        let plain = try #require(
            self.export(event(kind: "user", members: #","traits":{"a":1}"#), .snowplow).records.first)
        #expect(!plain.text.contains("\"co\""))
        for name in ["user_traits_once", "user_traits_add"] {
            let own = try #require(self.export(event(name: name), .snowplow).records.first)
            #expect(own.text.contains("/x_\(name)/"))
        }
    }

    @Test(arguments: [CSVOptions.Others.cell, .columns])
    func `a table has them under names of their own`(others: CSVOptions.Others) throws {
        var options = ExportOptions(provider: .csv)
        options.csv.includesUsers = true
        options.csv.others = others
        let sink = WaybillServerTestSupport.export([Self.all], options)
        let separator = others == .cell ? ";" : ","
        let pairs = ["plan=pro", "traits_once.first=2025", "traits_add.visits=1.50", "traits_add.plan=1"]
        #expect(sink.output.hasSuffix(",set_user,,\(pairs.joined(separator: separator))\r\n"))
        #expect(sink.records.map { $0.fixes[.dropNull] } == [1])
    }

    @Test(arguments: [Destination.syslog, .journald])
    func `a log has none of them`(provider: Destination) throws {
        let record = try #require(self.export(Self.all, provider).records.first)
        #expect(!record.text.contains("2025\"") && !record.text.contains("visits"))
        #expect(record.fixes[.dropField] == 5)
    }

    @Test func `columns of an operator's own can have them`() throws {
        var options = ExportOptions(provider: .custom("warehouse"))
        var column = CustomOptions.Column(name: "visits", from: "traits_add.visits")
        column.type = .number
        options.custom = CustomOptions(
            format: .ndjson, columns: [column, CustomOptions.Column(name: "first", from: "traits_once.first")])
        options.custom?.kinds = KindSet([.user])
        let sink = WaybillServerTestSupport.export([Self.all], options)
        #expect(sink.output == "{\"visits\":1.50,\"first\":\"2025\"}\n")
    }

    @Test func `members of these names are fields of a foreign line that is not about a user`() throws {
        let source = SourceDescription(
            env: .prod, bundle: "b", isForeign: true, stream: LineStream(principal: "web", id: "a"))
        let start = "{\"time\":\"2025-03-01T09:14:19Z\",\"event\":\"GET\",\"anon\":\"b5372db0\""
        let members = ",\"traits_once\":{\"a\":1},\"traits_add\":5}"
        let event = WaybillServerTestSupport.export(
            [start + members], ExportOptions(provider: .amplitude), source: source)
        #expect(event.output.contains("\"event_properties\":{\"traits_once\":{\"a\":1},\"traits_add\":5}"))
        let user = WaybillServerTestSupport.export(
            [start + ",\"kind\":\"user\",\"traits\":{}" + members], ExportOptions(provider: .amplitude), source: source)
        #expect(user.output.contains("\"user_properties\":{\"$setOnce\":{\"a\":1}}"))
    }

    @Test func `the longest properties leave room for every operation`() throws {
        var options = ExportOptions(provider: .amplitude)
        options.amplitude.mode = .httpAPI
        let value = String(repeating: "x", count: 1024)
        func object(_ name: String) -> String {
            (0..<450).map { "\"\(name)\($0)\":\"\(value)\"" }.joined(separator: ",")
        }
        let line = event(
            kind: "user",
            members: ",\"traits\":{\(object("s"))},\"traits_once\":{\(object("o"))},\"traits_add\":{\"n\":1}")
        let sink = WaybillServerTestSupport.export([line], options)
        let record = try #require(sink.records.first)
        #expect(record.text.utf8.count < 900_000 && record.text.utf8.count > 890_000)
        #expect(record.fixes[.dropField] > 0)
        #expect(try PlainJSON(String(record.text.dropLast()))["user_properties"]?["$add"] != nil)
    }
}
