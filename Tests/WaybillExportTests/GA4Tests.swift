import Testing
import WaybillExport
import WaybillServerTestSupport

@Suite struct GA4Tests {
    /// The one event of the one request that a line becomes.
    private func event(
        _ line: String, _ change: (inout GA4Options) -> Void = { _ in }
    ) throws -> PlainJSON {
        var options = ExportOptions(provider: .ga4)
        change(&options.ga4)
        let sink = export([line], options)
        let record = try #require(sink.records.first, "\(sink.refusals)")
        return try PlainJSON(String(record.text.dropLast()))
    }

    private func parameters(_ data: String) throws -> String {
        let sink = export([WaybillServerTestSupport.event(members: ",\"data\":\(data)")], ExportOptions(provider: .ga4))
        let text = try #require(sink.records.first?.text)
        let start = try #require(text.firstRange(of: "\"engagement_time_msec\":1"))
        let end = try #require(text.firstRange(of: "},\"timestamp_micros\""))
        return String(text[start.upperBound..<end.lowerBound].drop { $0 == "," })
    }

    private func fixes(_ data: String) throws -> [String: Int] {
        let sink = export([WaybillServerTestSupport.event(members: ",\"data\":\(data)")], ExportOptions(provider: .ga4))
        let counts = try #require(sink.records.first?.fixes)
        return Dictionary(
            uniqueKeysWithValues: FixCode.allCases.filter { counts[$0] > 0 }.map { ($0.rawValue, counts[$0]) })
    }

    @Test(arguments: [
        ("login", "login"), ("productName", "product_name"), ("Product Tapped", "product_tapped"),
        ("session_start", "x_session_start"), ("firebase_screen", "x_firebase_screen"), ("로그인", "x_7cb69c7a"),
        ("error", "x_error"), ("app_store_subscription_renew", "x_app_store_subscription_renew"), ("ga_x", "x_ga_x"),
        ("google_x", "x_google_x"), ("gtag.x", "gtag_x"), ("_hidden_", "hidden"), ("9lives", "x_9lives"), ("!!!", "x_"),
        ("screen_view", "screen_view"), ("ad_impression", "ad_impression"), ("HTTPServer", "httpserver"),
        ("a--b", "a__b"), ("iPhone16Plus", "i_phone16plus"), ("café", "caf_98ad42b5"),
    ])
    func `an event name is mapped`(name: String, mapped: String) throws {
        let json = try self.event(WaybillServerTestSupport.event(name: name))
        let found = json["events"]?.elements.first?["name"]?.text
        #expect(found == mapped)
    }

    @Test func `long names are cut and stay different`() throws {
        let names = try ["a", "b"].map { end in
            let json = try self.event(WaybillServerTestSupport.event(name: String(repeating: "long", count: 10) + end))
            return json["events"]?.elements.first?["name"]?.text ?? ""
        }
        #expect(names.allSatisfy { $0.hasPrefix("longlonglonglonglonglonglonglon_") && $0.count == 40 })
        #expect(Set(names).count == 2)
    }

    @Test(arguments: [
        (
            #"{"a":true,"b":false,"c":null,"d":1.10}"#, #""a":"true","b":"false","d":1.10"#,
            ["coerce": 2, "drop_null": 1]
        ),
        (#"{"a":[1, {"b" : null}]}"#, #""a":"[1,{\"b\":null}]""#, ["coerce": 1]),
        (#"{"aB":1,"a_b":2}"#, #""a_b":1"#, ["rename": 1, "collide": 1]),
        (#"{"session_id":1,"ga_x":2}"#, #""session_id":1,"x_ga_x":2"#, ["rename": 1]),
        (#"{"engagement_time_msec":5}"#, "", ["collide": 1]),
        (
            #"{"items":[{"item_id":"i","on":true,"n":null}]}"#, #""items":[{"item_id":"i","on":"true"}]"#,
            ["coerce": 1, "drop_null": 1]
        ),
        (#"{"items":[{"item_id":"i","a":[]}]}"#, #""items":[{"item_id":"i","a":"[]"}]"#, ["coerce": 1]),
        (
            #"{"items":[{"a":1},7,{"item_name":"n"},{"item_id":null}]}"#, #""items":[{"item_name":"n"}]"#,
            ["drop_item": 3]
        ),
        (#"{"items":"text","x_items":1}"#, #""x_items":"text""#, ["rename": 1, "collide": 1]),
        (#"{"items":{"item_id":"i"}}"#, #""x_items":"{\"item_id\":\"i\"}""#, ["rename": 1, "coerce": 1]),
        (#"{"session_id":"s-1"}"#, #""x_session_id":"s-1""#, ["rename": 1]),
        (#"{"session_id":"17"}"#, #""session_id":"17""#, [:]),
        (#"{"session_id":1.5}"#, #""x_session_id":1.5"#, ["rename": 1]),
        (#"{"a":"\ud83d\u0041\n"}"#, "\"a\":\"\u{FFFD}A\\n\"", ["bad_text": 1]),
    ])
    func `fields become parameters`(data: String, expected: String, fixes: [String: Int]) throws {
        #expect(try self.parameters(data) == expected)
        #expect(try self.fixes(data) == fixes)
    }

    @Test(arguments: [("page_title", 300), ("page_referrer", 420), ("page_location", 1000), ("other", 100)])
    func `a value is cut at its own limit`(name: String, limit: Int) throws {
        let fits = String(repeating: "한", count: limit)
        #expect(try self.parameters("{\"\(name)\":\"\(fits)\"}") == "\"\(name)\":\"\(fits)\"")
        #expect(try self.parameters("{\"\(name)\":\"\(fits)x\"}") == "\"\(name)\":\"\(fits)\"")
        #expect(try self.fixes("{\"\(name)\":\"\(fits)x\"}") == ["trunc_value": 1])
    }

    @Test(arguments: [
        // 97 units, then a family of 11, a flag of 4, a letter with its accent of 2: none is torn apart.
        ("👩‍👩‍👧‍👦", 97), ("🇰🇷", 97), ("xxe\u{301}", 99), ("xx\\r\\n", 99), ("xe\u{301}", 100),
    ])
    func `text is cut where a reader sees a character end`(tail: String, units: Int) throws {
        let parameters = try self.parameters("{\"a\":\"\(String(repeating: "x", count: 97))\(tail)z\"}")
        let json = try PlainJSON("{\(parameters)}")
        #expect(json["a"]?.text?.utf16.count == units)
    }

    @Test func `the last fields go first, and those that came with the event stay`() throws {
        let data = "{" + (1...30).map { "\"f\($0)\":\($0)" }.joined(separator: ",") + "}"
        let screen = WaybillServerTestSupport.event(
            kind: "screen",
            members:
                ",\"screen\":\"S\",\"screen_class\":\"C\",\"session\":\"019550fb-32b4-7000-8000-000000000001\",\"data\":\(data)"
        )
        let names = try self.event(screen)["events"]?.elements.first?["params"]?.members.map(\.key)
        #expect(
            names == ["session_id", "engagement_time_msec", "screen_name", "screen_class"] + (1...21).map { "f\($0)" })
        #expect(try self.fixes(data) == ["drop_field": 6])
    }

    @Test func `user properties are mapped and cut to their own limits`() throws {
        let traits =
            #"{"tier":"\#(String(repeating: "x", count: 40))","age_band":null,"user_id":1,"isPremiumCustomerOfTheShop":true}"#
        let line = WaybillServerTestSupport.event(kind: "user", members: ",\"traits\":\(traits)")
        let json = try self.event(line)
        let properties = try #require(json["user_properties"])
        #expect(properties.members.map { $0.key.prefix(15) } == ["tier", "x_user_id", "is_premium_cust"])
        #expect(properties.members[0].value["value"]?.text == String(repeating: "x", count: 36))
        #expect(properties.members[2].key.utf8.count == 24)
        #expect(properties.members[2].value["value"]?.text == "true")
        #expect(json["events"]?.elements.first?["name"]?.text == "user_updated")
    }

    @Test func `a screen event with another name for this provider is no screen any more`() throws {
        let line = WaybillServerTestSupport.event(
            kind: "screen",
            members: #","screen":"S","data":{"a":1},"overrides":{"ga4":{"name":"select","data":{"b":2}}}"#)
        let first = try self.event(line)["events"]?.elements.first
        #expect(first?["name"]?.text == "select")
        #expect(first?["params"]?.members.map(\.key) == ["engagement_time_msec", "b"])
    }

    @Test func `consent, device and debug mode are written where they are known and asked for`() throws {
        let line = WaybillServerTestSupport.event(
            members: #","consent":{"ads":false},"os":"iOS","os_version":"17.0.1","lang":"ko-KR""#
        )
        .replacingFirst("\"env\":\"prod\"", with: "\"env\":\"dev\"")
        let json = try self.event(line) { $0.includesDevice = true }
        #expect(json.members.map(\.key) == ["app_instance_id", "user_id", "consent", "device", "events"])
        #expect(json["consent"]?["ad_user_data"]?.text == "DENIED")
        #expect(json["device"]?.members.map(\.key) == ["language", "operating_system", "operating_system_version"])
        #expect(json["events"]?.elements.first?["params"]?["debug_mode"]?.number == "1")
    }

    @Test func `an event too old is refused, or exported with its time in a parameter`() throws {
        let line = WaybillServerTestSupport.event(ts: "2025-02-26T09:59:59.999Z")
        #expect(export([line], ExportOptions(provider: .ga4)).refusals.map(\.reason) == [.ga4TooOld])
        let params = try self.event(line) { $0.tooOld = .clamp }["events"]?.elements.first?["params"]
        #expect(params?["original_ts"]?.text == "2025-02-26T09:59:59.999Z")
        #expect(
            export([WaybillServerTestSupport.event(ts: "2025-02-26T10:00:00.000Z")], ExportOptions(provider: .ga4))
                .eventCount
                == 1)
    }

    @Test func `a person's id is never cut`() {
        let longest = String(repeating: "😀", count: 128)
        #expect(export([WaybillServerTestSupport.event(user: longest)], ExportOptions(provider: .ga4)).eventCount == 1)
        #expect(
            export([WaybillServerTestSupport.event(user: longest + "x")], ExportOptions(provider: .ga4)).refusals.map(
                \.reason)
                == [.ga4BadUserID])
    }

    /// A list of items with custom parameters of 100 characters each.
    private static func items(_ count: Int, parameters: Int) -> String {
        let text = String(repeating: "i", count: 100)
        let item =
            "{\"item_id\":\"i\"," + (0..<parameters).map { "\"c\($0)\":\"\(text)\"" }.joined(separator: ",") + "}"
        return "[\((0..<count).map { _ in item }.joined(separator: ","))]"
    }

    @Test func `fields are dropped from the end until a single event fits`() throws {
        for (count, parameters, dropped) in [(190, 5, 0), (200, 6, 3)] {
            let items = Self.items(count, parameters: parameters)
            let line = WaybillServerTestSupport.event(
                members: ",\"data\":{\"a\":1,\"items\":\(items),\"b\":[\(items)],\"c\":3}")
            let record = try #require(export([line], ExportOptions(provider: .ga4)).records.first)
            #expect(record.fixes[.dropField] == dropped)
            #expect(record.text.contains("\"items\"") == (dropped == 0))
        }
    }

    @Test func `a list keeps 200 items with 27 parameters of their own`() throws {
        #expect(try self.fixes("{\"items\":\(Self.items(200, parameters: 1))}") == [:])
        #expect(try self.fixes("{\"items\":\(Self.items(203, parameters: 1))}") == ["drop_item": 3])
        #expect(try self.fixes("{\"items\":\(Self.items(3, parameters: 27))}") == [:])
        #expect(try self.fixes("{\"items\":\(Self.items(3, parameters: 28))}") == ["drop_field": 3])
        #expect(try self.parameters("{\"items\":\(Self.items(201, parameters: 1))}").ranges(of: "{").count == 200)
    }
}
