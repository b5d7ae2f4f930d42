import Testing
import WaybillExport
import WaybillServerTestSupport
import WaybillSystem

@Suite struct MixpanelTests {
    private func properties(_ line: String, _ change: (inout MixpanelOptions) -> Void = { _ in }) throws -> PlainJSON {
        var options = ExportOptions(provider: .mixpanel)
        change(&options.mixpanel)
        let sink = export([line], options)
        let record = try #require(sink.records.first, "\(sink.refusals)")
        return try #require(try PlainJSON(String(record.text.dropLast()))["properties"])
    }

    /// What stands behind `"ip":"0"`, and the fixes.
    private func fields(_ data: String) throws -> (text: String, fixes: [String: Int]) {
        let sink = export([event(members: ",\"data\":\(data)")], ExportOptions(provider: .mixpanel))
        let record = try #require(sink.records.first, "\(sink.refusals)")
        let start = try #require(record.text.firstRange(of: "\"ip\":\"0\""))
        let counts = record.fixes
        return (
            String(record.text[start.upperBound...].dropLast(3).drop { $0 == "," }),
            Dictionary(
                uniqueKeysWithValues: FixCode.allCases.filter { counts[$0] > 0 }.map { ($0.rawValue, counts[$0]) })
        )
    }

    @Test(arguments: [
        (
            #"{"a":"x","b":1.10,"c":true,"d":[1, 2],"e":{"f" : 3}}"#,
            #""a":"x","b":1.10,"c":true,"d":[1,2],"e":{"f":3}"#, [:]
        ),
        (#"{"a":null}"#, "", ["drop_null": 1]),
        (
            #"{"time":1,"$ignore":2,"mp_x":3,"token":4,"":5}"#,
            #""x_time":1,"x_$ignore":2,"x_mp_x":3,"x_token":4,"x_":5"#, ["rename": 5]
        ),
        (#"{"a":1,"\u0061":2,"screen":3}"#, #""a":1,"screen":3"#, ["drop_field": 1]),
        (#"{"$a":1,"x_$a":2}"#, #""x_$a":1"#, ["rename": 1, "collide": 1]),
        (#"{"a":[[[[1]]]]}"#, #""a":"[[[[1]]]]""#, ["coerce": 1]),
        (#"{"a":{"b":{"c":{}}}}"#, #""a":{"b":{"c":{}}}"#, [:]),
        (#"{"q\u0022":1}"#, #""q\"":1"#, [:]),
    ])
    func `fields become properties`(data: String, text: String, fixes: [String: Int]) throws {
        let fields = try self.fields(data)
        #expect(fields.text == text)
        #expect(fields.fixes == fixes)
    }

    @Test func `strings are cut at 255 bytes, in lists too`() throws {
        let korean = String(repeating: "한", count: 86)
        let fields = try self.fields("{\"a\":\"\(korean)\",\"b\":[\"\(korean)\"]}")
        let cut = String(repeating: "한", count: 85)
        #expect(fields.text == "\"a\":\"\(cut)\",\"b\":[\"\(cut)\"]")
        #expect(fields.fixes == ["trunc_value": 2])
    }

    @Test func `a list keeps 254 elements and 8 KB`() throws {
        let many = try self.fields("{\"a\":[\((0..<300).map(String.init).joined(separator: ","))]}")
        #expect(many.text == "\"a\":[\((0..<254).map(String.init).joined(separator: ","))]")
        #expect(many.fixes == ["trunc_value": 1])
        let long = try self.fields(
            "{\"a\":[\((0..<100).map { _ in "\"\(String(repeating: "x", count: 200))\"" }.joined(separator: ","))]}")
        #expect(try PlainJSON("{\(long.text)}")["a"]?.elements.count == 40)
        #expect(long.text.utf8.count <= 8192 + 4)
    }

    @Test func `an object that is too large becomes a string`() throws {
        let object = "{" + (0..<255).map { "\"f\($0)\":1" }.joined(separator: ",") + "}"
        let fields = try self.fields("{\"a\":\(object)}")
        #expect(fields.fixes == ["coerce": 1, "trunc_value": 1])
        #expect(try PlainJSON("{\(fields.text)}")["a"]?.text == String(object.prefix(255)))
    }

    @Test func `properties beyond 254 are dropped from the end`() throws {
        let data = "{" + (0..<300).map { "\"f\($0)\":1" }.joined(separator: ",") + "}"
        let properties = try self.properties(event(members: ",\"data\":\(data)"))
        #expect(properties.members.count == 254)
        #expect(properties.members.last?.key == "f246")
    }

    @Test func `an event below a megabyte drops fields rather than fail`() throws {
        let list = "[\((0..<31).map { _ in "\"\(String(repeating: "x", count: 250))\"" }.joined(separator: ","))]"
        let data = "{" + (0..<130).map { "\"f\($0)\":\(list)" }.joined(separator: ",") + ",\"z\":1}"
        let fields = try self.fields(data)
        let dropped = try #require(fields.fixes["drop_field"])
        #expect(fields.fixes.count == 1 && 2...10 ~= dropped)
        #expect(try PlainJSON("{\(fields.text)}").members.count == 131 - dropped)
        #expect(!fields.text.contains("\"z\":"))
    }

    @Test(arguments: [("anonymous", "u-1"), ("00000000-0000-0000-0000-000000000000", "u-1"), ("n/a", "u-1")])
    func `a placeholder as anonymous id is refused`(anon: String, user: String) {
        let line = event(user: user).replacingFirst("b5372db0-c21e-41e4-8dfc-aa07a5b093db", with: anon)
        #expect(export([line], ExportOptions(provider: .mixpanel)).refusals.map(\.reason) == [.mixpanelBadID])
    }

    @Test func `a placeholder as user counts as none`() throws {
        let properties = try self.properties(event(user: "undefined"))
        #expect(properties["distinct_id"]?.text == "$device:b5372db0-c21e-41e4-8dfc-aa07a5b093db")
        #expect(properties["$user_id"] == nil)
        let original = try self.properties(event(user: nil)) { $0.identityMerge = .original }
        #expect(original["distinct_id"]?.text == "b5372db0-c21e-41e4-8dfc-aa07a5b093db")
    }

    @Test(arguments: [
        ("2025-03-01T11:00:00.000Z", 1, 0), ("2025-03-01T11:00:00.001Z", 0, 1), ("2025-03-02T10:00:00.000Z", 0, 1),
        ("2025-03-02T10:00:00.001Z", 0, 0),
    ])
    func `an event from the future waits up to a day`(ts: String, exported: Int, held: Int) {
        let sink = export([event(ts: ts)], ExportOptions(provider: .mixpanel))
        #expect(sink.eventCount == exported)
        #expect(sink.held.count == held)
        #expect(sink.refusals.count == 1 - exported - held)
    }

    @Test func `a held event has its record, which a replay writes once the provider takes it`() {
        var options = ExportOptions(provider: .mixpanel)
        let line = event(id: 9, ts: "2025-03-01T12:00:00.000Z")
        let held = export([line], options).held
        #expect(held.map(\.id) == ["019550fc-2dfb-7b1c-82d3-000000000009"])
        #expect(held.map(\.notBefore) == [receivedAt.milliseconds + 3_600_000])
        options.replayTime = WallTime(milliseconds: receivedAt.milliseconds + 3_599_999)
        #expect(export([line], options).held == held)
        options.replayTime = WallTime(milliseconds: receivedAt.milliseconds + 3_600_000)
        let sink = export([line], options)
        #expect(sink.held == [])
        #expect(sink.records.map(\.text) == held.map(\.text))
    }

    @Test func `an event from the future that breaks a rule is refused at once`() {
        let line = event(id: 9, ts: "2025-03-01T12:00:00.000Z", user: nil)
            .replacing("b5372db0-c21e-41e4-8dfc-aa07a5b093db", with: "unknown")
        let sink = export([line], ExportOptions(provider: .mixpanel))
        #expect(sink.held == [])
        #expect(sink.refusals.map(\.reason) == [.mixpanelBadID])
    }

    @Test(arguments: ["$device:x", "$device:", "\\u0024device:x"])
    func `a user whose id is a device's counts as none`(user: String) throws {
        let properties = try self.properties(event(user: user))
        #expect(properties["distinct_id"]?.text == "$device:b5372db0-c21e-41e4-8dfc-aa07a5b093db")
        #expect(properties["$user_id"] == nil)
    }

    @Test func `an event of no one has an empty id, which is no person`() throws {
        let properties = try self.properties(event(user: "null").replacing("\"anon\":", with: "\"none\":"))
        #expect(properties["distinct_id"]?.text == "")
        #expect(properties["$device_id"] == nil && properties["$user_id"] == nil)
    }

    @Test(arguments: ["$identify", "$create_alias", "$merge", "$mp_x", "mp_page", "$"])
    func `a name that is a command or reserved gets a prefix`(name: String) {
        for line in [event(name: name), event(members: #","overrides":{"mixpanel":{"name":"\#(name)"}}"#)] {
            let sink = export([line], ExportOptions(provider: .mixpanel))
            #expect(sink.output.hasPrefix("{\"event\":\"x_\(name)\","))
            #expect(sink.records.map { $0.fixes[.reservedName] } == [1])
        }
    }

    @Test(arguments: ["null", "0", "anonymous", "undefined", "true", "00000000-0000-0000-0000-000000000000"])
    func `an id that Mixpanel refuses is no insert id`(id: String) {
        let line = event().replacing("019550fc-2dfb-7b1c-82d3-000000000001", with: id)
        #expect(export([line], ExportOptions(provider: .mixpanel)).refusals.map(\.reason) == [.mixpanelBadInsertID])
    }

    @Test func `a trait cannot name another person`() {
        let line = event(kind: "user", members: #","traits":{"$distinct_id":"u-2","$email":"a@b","$token":null}"#)
        let sink = export([line], ExportOptions(provider: .mixpanelProfiles))
        #expect(sink.output.contains(#""$set":{"x_$distinct_id":"u-2","$email":"a@b"}"#))
        #expect(sink.output.contains(#""$unset":["x_$token"]"#))
        #expect(sink.records.map { $0.fixes[.rename] } == [2])
    }

    @Test func `names are cut at 255 bytes and screens have one name`() throws {
        let sink = export(
            [event(name: String(repeating: "한", count: 100)), event(id: 2, kind: "screen")],
            ExportOptions(provider: .mixpanel))
        #expect(sink.records[0].text.hasPrefix("{\"event\":\"\(String(repeating: "한", count: 85))\","))
        #expect(sink.records[0].fixes[.truncateName] == 1)
        #expect(sink.records[0].fixes.total == 1)
        #expect(sink.records[1].text.hasPrefix("{\"event\":\"Screen View\","))
    }
}
