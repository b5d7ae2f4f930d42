import Testing
import WaybillExport
import WaybillServerTestSupport

/// A destination described by its columns.
@Suite struct CustomTests {
    private typealias Column = CustomOptions.Column

    private func column(
        _ name: String, _ from: String, _ type: CustomOptions.ColumnType = .string,
        _ change: (inout CustomOptions.Column) -> Void = { _ in }
    ) -> CustomOptions.Column {
        var column = Column(name: name, from: from)
        column.type = type
        change(&column)
        return column
    }

    private func options(_ format: CustomOptions.Format, _ columns: [CustomOptions.Column]) -> ExportOptions {
        var options = ExportOptions(provider: .custom("warehouse"))
        options.custom = CustomOptions(format: format, columns: columns)
        return options
    }

    @Test(arguments: [
        ("warehouse", true), ("w", true), ("a-1", true), ("csv", false), ("archive", false), ("custom", false),
        ("", false), ("1a", false), ("Warehouse", false), ("a_b", false), ("../x", false), ("é", false),
        (String(repeating: "a", count: 32), true), (String(repeating: "a", count: 33), false),
    ])
    func `a name is a plain word that means nothing else`(name: String, isGood: Bool) {
        #expect((Destination(customName: name) != nil) == isGood)
    }

    @Test(arguments: [
        ("name", true), ("ts", true), ("received_at", true), ("data", true), ("data.a.b", true), ("traits.x", true),
        ("traits_once.x", true), ("traits_add", true),
        ("ids.ga4", true), ("consent", true), ("user", true), ("name.x", false), ("data.", false), ("", false),
        ("colour", false), ("providers", false), ("user.x", false), (".", false),
    ])
    func `a column comes from a member of the event`(from: String, isSource: Bool) {
        #expect(CustomOptions.isSource(from) == isSource)
    }

    @Test func `columns become members and cells`() {
        let columns = [
            self.column("at", "ts", .time), self.column("what, who", "name") { $0.characterCountMax = 3 },
            self.column("price", "data.price", .number), self.column("gift", "data.gift", .boolean),
            self.column("all", "data", .json), self.column("inner", "data.o.p"), self.column("device", "ids.ga4"),
            self.column("app", "bundle") { $0.isRequired = true },
            self.column("none", "data.none", .number) { $0.defaultValue = "0" },
        ]
        let data = #"{"price":39900.50,"gift":true,"o":{"p":"=1"}}"#
        let line = event(name: "Tapped", members: ",\"data\":\(data)")
        let ndjson = export([line], self.options(.ndjson, columns))
        #expect(
            ndjson.output
                == #"{"at":"2025-03-01T09:14:19.003Z","what, who":"Tap","price":39900.50,"gift":true,"all":"# + data
                + #","inner":"=1","device":"0a1b2c3d4e5f60718293a4b5c6d7e8f9","app":"com.example.shop","none":0}"#
                + "\n")
        #expect(ndjson.records.map { $0.fixes[.truncateValue] } == [1])
        let csv = export([line], self.options(.csv, columns))
        #expect(
            csv.output
                == "2025-03-01T09:14:19.003Z,Tap,39900.50,true,\"{\"\"price\"\":39900.50,\"\"gift\"\":true,\"\"o\"\":{"
                + "\"\"p\"\":\"\"=1\"\"}}\",'=1,0a1b2c3d4e5f60718293a4b5c6d7e8f9,com.example.shop,0\r\n")
        let header = Exporter(self.options(.csv, columns)).description.header
        #expect(
            String(decoding: header, as: UTF8.self) == "at,\"what, who\",price,gift,all,inner,device,app,none\r\n")
    }

    /// What stands in a record of one column, and what was counted.
    private func render(_ json: String, _ type: CustomOptions.ColumnType, max: Int? = nil) -> String {
        let column = self.column("c", "data.v", type) { $0.characterCountMax = max }
        let sink = export([event(members: ",\"data\":{\"v\":\(json)}")], self.options(.ndjson, [column]))
        guard let record = sink.records.first else { return "no record" }
        let fixes = FixCode.allCases.filter { record.fixes[$0] > 0 }.map(\.rawValue)
        return ([String(record.text.dropFirst().dropLast(2).dropFirst(4))] + fixes).joined(separator: " ")
    }

    @Test(arguments: [
        (CustomOptions.ColumnType.string, #""a\"b""#, #""a\"b""#), (.string, "1.50", #""1.50" coerce"#),
        (.string, "true", #""true" coerce"#), (.string, "[1, 2]", #""[1,2]" coerce"#), (.string, "null", " drop_null"),
        (.number, "1e300", "1e300"), (.number, "1e400", " drop_field coerce"), (.number, #""-1.5""#, "-1.5 coerce"),
        (.number, #""1,5""#, " drop_field"),
        (.number, #""01""#, " drop_field"), (.number, #"" 1""#, " drop_field"), (.number, "false", " drop_field"),
        (.boolean, "false", "false"), (.boolean, #""true""#, "true coerce"), (.boolean, "1", "true coerce"),
        (.boolean, "2", " drop_field"), (.boolean, #""yes""#, " drop_field"), (.json, "[1, {}]", "[1,{}]"),
        (.json, #""\u0041""#, #""A""#), (.time, #""2025-03-01 18:14:15+09:00""#, #""2025-03-01T09:14:15.000Z" coerce"#),
        (.time, "1740820455", #""2025-03-01T09:14:15.000Z" coerce"#), (.time, #""noon""#, " drop_field"),
        (.time, "{}", " drop_field"), (.number, "{}", " drop_field"),
    ])
    func `a value is converted where nothing is lost and dropped where something would be`(
        type: CustomOptions.ColumnType, json: String, expected: String
    ) {
        #expect(self.render(json, type) == expected)
    }

    @Test func `a string is cut to its length, and JSON that is too long is dropped`() {
        #expect(self.render(#""가나다""#, .string, max: 2) == #""가나" trunc_value"#)
        #expect(self.render("[1,2,3]", .json, max: 6) == " drop_field")
        #expect(self.render("[1,2,3]", .json, max: 7) == "[1,2,3]")
    }

    @Test func `an event without a required value is refused, with the member's name`() throws {
        let columns = [self.column("price", "data.price", .number) { $0.isRequired = true }]
        let lines = [
            event(), event(id: 2, members: #","data":{"price":"x"}"#), event(id: 3, members: #","data":{"price":1}"#),
        ]
        let sink = export(lines, self.options(.ndjson, columns))
        #expect(sink.output == "{\"price\":1}\n")
        #expect(sink.refusals.map(\.reason) == [.customMissing, .customMissing])
        #expect(
            try #require(sink.refusals.first).line.hasPrefix(#"{"provider":"warehouse","reason":"custom.missing","#))
        #expect(sink.refusals.allSatisfy { $0.line.contains(#""field":"data.price""#) })
    }

    @Test(arguments: [(99, 1), (100, 1), (101, 0)])
    func `a record beyond the size is refused`(byteCount: Int, count: Int) {
        var options = self.options(.ndjson, [self.column("c", "data.v")])
        options.custom?.recordByteCountMax = 100
        // `{"c":""}`, and room for the line's end.
        let text = String(repeating: "x", count: byteCount - 10)
        let sink = export([event(members: #","data":{"v":"\#(text)"}"#)], options)
        #expect(sink.eventCount == count && sink.refusals.map(\.reason) == (count == 1 ? [] : [.customTooLarge]))
    }

    @Test func `events name it in providers and overrides like any other`() {
        let options = self.options(.ndjson, [self.column("n", "name")])
        let lines = [
            event(id: 1, members: #","providers":["ga4"]"#), event(id: 2, members: #","providers":["warehouse"]"#),
            event(id: 3, members: #","overrides":{"warehouse":{"name":"x"}}"#),
            event(id: 4, members: #","overrides":{"warehouse":{"skip":true}}"#), event(id: 5, kind: "user"),
        ]
        let sink = export(lines, options)
        #expect(sink.output == "{\"n\":\"tap\"}\n{\"n\":\"x\"}\n")
        #expect(sink.skipped == [.notSubscribed, .override, .kind])
    }
}
