import Testing
import WaybillEvent
import WaybillIngest
import WaybillJSON
import WaybillSystem

/// Requests as lines.
@Suite struct IngestTests {
    static let receivedAt: Int64 = 1_795_165_200_000

    static func context(_ policy: AddressPolicy = .drop, address: String? = nil) -> IngestContext {
        IngestContext(
            source: IngestSource(
                key: "wk_test0001", bundle: "com.example.shop", environment: .prod, addressPolicy: policy),
            receivedAt: Self.receivedAt, address: address, userAgent: "curl/8", generator: SeededGenerator(seed: 1))
    }

    static func events(
        _ body: String, _ dialect: Dialect, type: SegmentType? = nil, _ context: IngestContext = Self.context()
    ) throws -> IngestedEvents {
        var batch = IngestBatch()
        let reading = IngestBody(RequestBody.unwrap(Array(body.utf8)), as: dialect)
            .read(type: type, context, into: &batch)
        try #require(reading == .read)
        return batch.finish()
    }

    static func lines(_ events: IngestedEvents) -> [String] {
        var buffer = ByteBuilder()
        for (index, line) in events.lines.enumerated() {
            events.append(line, number: UInt64(index + 1), writer: "W", to: &buffer)
        }
        return String(decoding: buffer.bytes, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    static func lines(_ body: String, _ dialect: Dialect, type: SegmentType? = nil) throws -> [String] {
        Self.lines(try Self.events(body, dialect, type: type))
    }

    @Test func `a track call becomes an event`() throws {
        let lines = try Self.lines(
            #"{"writeKey":"wk_test0001","batch":[{"type":"track","event":"bought \"토\"","messageId":"0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b","userId":"u-1","anonymousId":"a-1","timestamp":"2026-11-20T08:59:59.000Z","properties":{"b":1,"a":[2]},"context":{"app":{"name":"Shop","version":"1.4.2","build":118},"os":{"name":"iOS","version":"17.0"},"device":{"model":"iPhone16,2"},"locale":"ko-KR","ip":"10.1.2.3","library":{"name":"x"}},"integrations":{"All":true,"Mixpanel":false}}],"sentAt":"2026-11-20T09:00:00.000Z"}"#,
            .segment)
        #expect(
            lines == [
                #"{"v":1,"id":"0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b","writer":"W","seq":1,"ts":"2026-11-20T08:59:59.000Z","kind":"event","name":"bought \"토\"","user":"u-1","anon":"a-1","app":"1.4.2","build":"118","bundle":"com.example.shop","os":"iOS","os_version":"17.0","model":"iPhone16,2","lang":"ko-KR","user_agent":"curl/8","env":"prod","data":{"b":1,"a":[2],"context":{"app":{"name":"Shop"},"library":{"name":"x"}}},"overrides":{"mixpanel":{"skip":true}}}"#
            ])
    }

    @Test func `a value on several lines of the request stays on one line, and cannot begin another one`() throws {
        let lines = try Self.lines(
            "{\"type\":\"track\",\"event\":\"e\",\"userId\":\"u\",\"properties\":{\"x\":[\r\n{\"v\":1,\"name\":\"evil\"}\n]}}",
            .segment,
            type: .track)
        #expect(lines.count == 1)
        #expect(lines[0].contains(#""data":{"x":[  {"v":1,"name":"evil"} ]}"#))
    }

    @Test(arguments: [Dialect.posthog, .segment, .amplitude])
    func `a fault in a list points at the event as it came`(dialect: Dialect) throws {
        let body = #" [1,{"token":"wk_test0001"}]"#
        let events = try Self.events(body, dialect)
        #expect(events.lines.isEmpty)
        let texts = events.faults.map { String(decoding: Array(body.utf8)[$0.range], as: UTF8.self) }
        #expect(texts == (dialect == .amplitude ? [body] : ["1", #"{"token":"wk_test0001"}"#]))
    }

    @Test func `more events than a request may have are refused as a whole`() {
        let event = #"{"event":"a","userId":1}"#
        let many = Array(repeating: event, count: IngestLimits.eventCountMax + 1)
        for (body, dialect) in [
            ("{\"batch\":[\(many.joined(separator: ","))]}", Dialect.segment),
            (many.map { _ in "1\n" }.joined(), .native),
        ] {
            var batch = IngestBatch()
            let reading = IngestBody(Array(body.utf8), as: dialect).read(Self.context(), into: &batch)
            #expect(reading == .tooManyEvents)
        }
    }

    @Test func `PostHog's insert id is an event's id, and a number is one, too`() throws {
        let ids = try [
            #"{"event":"e","distinct_id":"d","properties":{"$insert_id":"i-1"}}"#,
            #"{"event":"e","distinct_id":"d","properties":{"$insert_id":"i-1","x":1}}"#,
            #"{"event":"e","distinct_id":"d","properties":{"$insert_id":17}}"#,
            #"{"event":"e","distinct_id":"d","properties":{"$insert_id":"17"}}"#,
        ].map { try #require(try Self.events($0, .posthog).lines.first).id }
        #expect(ids[0] == ids[1] && ids[2] == ids[3] && ids[0] != ids[2])
    }

    @Test func `an event removes the traits that it does not set, however many there are`() throws {
        let event = { (set: String, unset: String) in
            #"{"events":[{"event_type":"$identify","user_id":"u-1","insert_id":"i","user_properties":{"$set":{\#(set)},"$unset":{\#(unset)}}}]}"#
        }
        let line = try #require(
            try Self.lines(event(#""a":1,"\u0062":2"#, #""a":"-","b":"-","c":"-""#), .amplitude).first)
        #expect(line.contains(#""c":null}"#) && !line.contains(#""a":null"#) && !line.contains(#"b":null"#))
        // Too long for a line; comparing each with each would take hours.
        let names = { (letter: String) in (0..<150_000).map { "\"\(letter)\($0)\":0" }.joined(separator: ",") }
        let events = try Self.events(event(names("s"), names("u")), .amplitude)
        #expect(events.faults.map(\.reason) == [.tooLong])
    }

    @Test func `a pixel's key is no field`() {
        let event = PixelQuery.event(of: Array("writeKey=wk_test0001&event=open&a=1".utf8))
        #expect(String(decoding: event, as: UTF8.self).contains(#""properties":{"a":"1"}"#))
    }

    @Test func `identify, page, screen, group and alias have their kinds`() throws {
        let lines = try Self.lines(
            #"""
            {"batch":[
            {"type":"identify","messageId":"m1","userId":"u-1","traits":{"plan":"pro","old":null}},
            {"type":"page","messageId":"m2","anonymousId":"a-1","properties":{"path":"/cart","title":"Cart"}},
            {"type":"screen","messageId":"m3","anonymousId":"a-1","name":"Home","category":"shop"},
            {"type":"group","messageId":"m4","userId":7,"groupId":"g","traits":{"size":3}},
            {"type":"alias","messageId":"m5","userId":"u-2","previousId":"a-1"}]}
            """#, .segment)
        let values = try lines.map { try #require(JSONValue(Array($0.utf8))) }
        #expect(values.map { $0["kind"]?.string } == ["user", "screen", "screen", "event", "event"])
        #expect(values.map { $0["name"]?.string } == ["set_user", "screen_view", "screen_view", "$group", "$alias"])
        #expect(values.map { $0["screen"]?.string } == [nil, "/cart", "Home", nil, nil])
        #expect(values[0]["traits"]?.members?.map(\.name) == ["plan", "old"])
        #expect(values[2]["data"]?["category"]?.string == "shop")
        #expect(values[3]["user"]?.string == "7")
        #expect(values[3]["data"]?.members?.map(\.name) == ["size", "group_id"])
        #expect(values[4]["data"]?["previous_id"]?.string == "a-1")
    }

    @Test func `ids are the same at every retry, and of another key others`() throws {
        let body = #"{"type":"track","event":"e","messageId":"not a uuid","userId":"u"}"#
        let first = try Self.events(body, .segment).lines.map(\.id)
        #expect(try Self.events(body, .segment).lines.map(\.id) == first)
        var other = Self.context()
        other.source.key = "wk_test0002"
        #expect(try Self.events(body, .segment, other).lines.map(\.id) != first)
        let upper = #"{"type":"track","event":"e","messageId":"0199A1B2-C3D4-7E5F-8A6B-7C8D9E0F1A2B","userId":"u"}"#
        #expect(
            try Self.events(upper, .segment).lines.map(\.id.text) == ["0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b"])
    }

    @Test(arguments: [
        // The sender's clock is an hour behind, a second behind, an hour ahead.
        ("2026-11-20T08:00:00.000Z", "x", "2026-11-20T08:59:00.000Z"),
        ("2026-11-20T08:59:59.000Z", "x", "2026-11-20T07:59:00.000Z"),
        ("2026-11-20T10:00:00.000Z", "x", "2026-11-20T06:59:00.000Z"),
        // A library that says when its batch was complete: an hour without a network is no wrong clock.
        ("2026-11-20T08:00:00.000Z", "analytics-swift", "2026-11-20T07:59:00.000Z"),
        ("2026-11-20T10:00:00.000Z", "analytics-swift", "2026-11-20T06:59:00.000Z"),
    ])
    func `a wrong clock is corrected`(sentAt: String, library: String, expected: String) throws {
        let line = try #require(
            try Self.lines(
                #"{"type":"track","event":"e","userId":"u","timestamp":"2026-11-20T07:59:00.000Z","sentAt":"\#(sentAt)","context":{"library":{"name":"\#(library)"}}}"#,
                .segment
            ).first)
        let value = try #require(JSONValue(Array(line.utf8)))
        #expect(value["ts"]?.string == expected)
        #expect(
            value["ts_client"]?.string == (expected == "2026-11-20T07:59:00.000Z" ? nil : "2026-11-20T07:59:00.000Z"))
    }

    @Test func `one bad event of a batch is a fault, and the rest is taken`() throws {
        let body = #"""
            {"batch":[1,{"type":"track","userId":"u"},{"type":"track","event":"e"},{"type":"dance","userId":"u"},
            {"type":"track","event":"e","userId":"u","timestamp":"yesterday"},{"type":"identify","userId":"u","traits":3},
            {"type":"track","event":"e","userId":"u","properties":{"x":"\#(String(repeating: "y", count: 33_000))"}},
            {"type":"track","event":"good","userId":"u"}]}
            """#
        let events = try Self.events(body, .segment)
        #expect(
            events.faults.map(\.reason) == [
                .notAnObject, .noName, .noPerson, .unknownType, .badTraits, .tooLong,
            ])
        #expect(events.faults.map(\.index) == [0, 1, 2, 3, 5, 6])
        #expect(events.remarks.map(\.reason) == [.badTime] && events.remarks.map(\.index) == [4])
        #expect(events.eventCount == 8)
        #expect(Self.lines(events).count == 2)
        let text = Array(body.utf8)
        #expect(String(decoding: text[events.faults[1].range], as: UTF8.self) == #"{"type":"track","userId":"u"}"#)
    }

    @Test func `a time that cannot be read costs no event`() throws {
        let line = try #require(
            try Self.lines(#"{"type":"track","event":"e","userId":"u","timestamp":"11/20/2026"}"#, .segment).first)
        let value = try #require(JSONValue(Array(line.utf8)))
        #expect(value["ts"]?.string == "2026-11-20T09:00:00.000Z" && value["ts_client"]?.string == "11/20/2026")
    }

    @Test(arguments: [
        ("1970-01-01T00:04:00.000Z", "1970-01-01T00:05:00.000Z"), ("2126-11-20T08:59:00Z", "2126-11-20T09:00:00Z"),
        ("1969-12-31T15:04:00Z", "1969-12-31T15:05:00Z"), ("2099-12-31T23:59:30Z", "2100-01-01T00:00:30Z"),
        ("1999-12-31T23:59:30Z", "2000-01-01T00:00:30Z"),
    ])
    func `a clock of another century is corrected as any other`(time: String, sentAt: String) throws {
        let bodies: [(String, Dialect)] = [
            (
                #"{"sentAt":"\#(sentAt)","batch":[{"type":"track","event":"e","userId":"u","timestamp":"\#(time)"}]}"#,
                .segment
            ),
            (#"{"sent_at":"\#(sentAt)","batch":[{"event":"e","distinct_id":"u","timestamp":"\#(time)"}]}"#, .posthog),
            (
                #"{"client_upload_time":"\#(sentAt)","events":[{"event_type":"e","user_id":"u","time":"\#(time)"}]}"#,
                .amplitude
            ),
        ]
        for (body, dialect) in bodies {
            let line = try #require(try Self.lines(body, dialect).first)
            let value = try #require(JSONValue(Array(line.utf8)))
            #expect(value["ts"]?.string == "2026-11-20T08:59:00.000Z", "\(dialect)")
            #expect(value["ts_client"]?.string?.prefix(19) == time.prefix(19), "\(dialect)")
        }
    }

    @Test func `no sender names an id that is made here`() throws {
        let id = { (text: String) throws -> UniqueID in
            let body = #"{"type":"track","event":"e","userId":"u","messageId":"\#(text)"}"#
            return try #require(try Self.events(body, .segment).lines.first).id
        }
        let made = try id("order 17")
        #expect(try id(made.text) != made)
        #expect(try id(made.text) == id(made.text.uppercased()))
        // The user event that another event's properties make.
        let own = "0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b"
        let both = try Self.events(
            #"{"event":"e","distinct_id":"u","uuid":"\#(own)","properties":{"$set":{"a":1}}}"#, .posthog)
        let addition = try #require(both.lines.last)
        #expect(addition.isAddition)
        for text in ["traits \(own)", #"\u0000traits\u0000wk_test0001\u0000\#(own)"#, addition.id.text] {
            #expect(try id(text) != addition.id)
        }
    }

    @Test(
        arguments: [
            (AddressPolicy.drop, nil), (.truncate, "192.0.2.0"), (.keep, "192.0.2.33"),
        ] as [(AddressPolicy, String?)])
    func `addresses are dropped, truncated or kept`(policy: AddressPolicy, expected: String?) throws {
        #expect(policy.apply(to: "192.0.2.33") == expected)
        let body = #"{"type":"track","event":"e","userId":"u","context":{"ip":"192.0.2.33"}}"#
        let events = try Self.events(body, .segment, Self.context(policy, address: policy.apply(to: "198.51.100.7")))
        let line = try #require(JSONValue(Array(Self.lines(events)[0].utf8)))
        #expect(line["data"]?["context"]?["ip"]?.string == expected)
        #expect(AddressPolicy.truncate.apply(to: "2001:db8:1:2::3") == "2001:db8:1::")
        #expect(AddressPolicy.truncate.apply(to: "no address") == nil)
    }

    @Test func `PostHog's captures become events, screens and traits`() throws {
        let lines = try Self.lines(
            #"""
            [{"event":"$pageview","uuid":"0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b","properties":{"distinct_id":"d-1","$device_id":"d-1","$pathname":"/a","$session_id":"0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2c","token":"t"}},
            {"event":"$identify","distinct_id":"u-1","properties":{"$anon_distinct_id":"d-1","$set":{"plan":"pro"},"$set_once":{"first":1}}},
            {"event":"paid","distinct_id":"u-1","properties":{"amount":3,"$set":{"paid":true}},"timestamp":"2026-11-20T08:00:00Z"}]
            """#, .posthog)
        let values = try lines.map { try #require(JSONValue(Array($0.utf8))) }
        #expect(values.map { $0["kind"]?.string } == ["screen", "user", "event", "user"])
        #expect(values[0]["anon"]?.string == "d-1" && values[0]["user"] == nil)
        #expect(values[0]["screen"]?.string == "/a")
        #expect(values[0]["session"]?.string == "0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2c")
        #expect(values[1]["user"]?.string == "u-1" && values[1]["anon"]?.string == "d-1")
        #expect(values[1]["traits_once"]?["first"]?.integer == 1)
        #expect(values[2]["data"]?.members?.map(\.name) == ["amount"])
        #expect(values[3]["traits"]?["paid"]?.bool == true)
    }

    @Test func `Amplitude's events become events and traits`() throws {
        let lines = try Self.lines(
            #"""
            {"api_key":"wk_test0001","events":[
            {"event_type":"paid","user_id":"u-1","device_id":"d-1","time":1795165190000,"insert_id":"i-1","event_properties":{"a":1},"user_properties":{"$set":{"x":1},"$add":{"n":2},"$unset":{"gone":"-"}},"os_name":"iOS","carrier":"c"},
            {"event_type":"$identify","device_id":"d-1","user_properties":{"plain":1}}]}
            """#, .amplitude)
        let values = try lines.map { try #require(JSONValue(Array($0.utf8))) }
        #expect(values.map { $0["kind"]?.string } == ["event", "user", "user"])
        #expect(values[0]["ts"]?.string == "2026-11-20T08:59:50.000Z")
        #expect(values[0]["data"]?["context"]?["carrier"]?.string == "c")
        #expect(values[1]["traits"]?.members?.map(\.name) == ["x", "gone"])
        #expect(values[1]["traits_add"]?["n"]?.integer == 2)
        #expect(values[2]["traits"]?.members?.map(\.name) == ["plain"])
    }

    @Test func `native lines keep their members, and the key decides the app`() throws {
        let events = try Self.events(
            "{\"name\":\"e\",\"bundle\":\"evil\",\"env\":\"dev\",\"user\":\"u\",\"data\":{\"b\":1,\"a\":2}}\n\nnot json\n",
            .native)
        let line = try #require(JSONValue(Array(Self.lines(events)[0].utf8)))
        #expect(line["bundle"]?.string == "com.example.shop" && line["env"]?.string == "prod")
        #expect(line["data"]?.members?.map(\.name) == ["b", "a"])
        #expect(line["ts"]?.string == "2026-11-20T09:00:00.000Z")
        #expect(events.faults.map(\.reason) == [.notJSON])
    }

    @Test func `bodies come plain, compressed, as a form and as base64`() throws {
        let json = #"{"type":"track","event":"ü+/","userId":"u"}"#
        let base64 = "eyJ0eXBlIjoidHJhY2siLCJldmVudCI6IsO8Ky8iLCJ1c2VySWQiOiJ1In0="
        for text in [json, base64, "data=" + base64.replacing("=", with: "%3D") + "&ip=1", "data=" + base64] {
            #expect(String(decoding: RequestBody.unwrap(Array(text.utf8)), as: UTF8.self) == json)
        }
        #expect(RequestBody.unwrap(Array("garbage!".utf8)) == Array("garbage!".utf8))
    }

    /// What ``FormText/value(of:in:)`` is, word for word: pairs, of which the first with the name is decoded.
    private static func value(of name: String, in text: [UInt8]) -> [UInt8]? {
        for pair in text.split(separator: UInt8(ascii: "&")) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, Self.decode(parts[0]) == Array(name.utf8) else { continue }
            return Self.decode(parts[1])
        }
        return nil
    }

    private static func decode(_ text: ArraySlice<UInt8>) -> [UInt8] {
        var result: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            let digits = rest.prefix(2)
            if byte == UInt8(ascii: "%"), digits.count == 2,
                digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit })
            {
                result += UInt8(String(decoding: digits, as: UTF8.self), radix: 16).map { [$0] } ?? []
                rest = rest.dropFirst(2)
            } else {
                result.append(byte == UInt8(ascii: "+") ? 0x20 : byte)
            }
        }
        return result
    }

    @Test(arguments: 0..<UInt64(20))
    func `the value that a form has is the one of its pairs`(seed: UInt64) {
        let pieces = [
            "data", "data=", "&data=", "d", "a", "t", "ta=", "%64", "%61", "%74", "%3D", "%3d", "%26", "%", "%6", "%zz",
            "=",
            "&", "+", "x", "eyJ4IjoxfQ==", "6", "1", " ", "\u{FF}", "\u{0}",
        ].map { Array($0.utf8) }
        var dice = SeededGenerator(seed: seed)
        var foundCount = 0
        for _ in 0..<1000 {
            var body: [UInt8] = []
            for _ in 0..<Int.random(in: 0...12, using: &dice) { body += pieces.randomElement(using: &dice) ?? [] }
            let found = FormText.value(of: "data", in: body)
            let expected = Self.value(of: "data", in: body)
            if found != expected || FormText.value(of: "t=", in: body) != Self.value(of: "t=", in: body) {
                Issue.record("\(String(decoding: body, as: UTF8.self))")
            }
            if let expected {
                foundCount += 1
                #expect(RequestBody.unwrap(body) == Base64Text.decode(expected) ?? expected)
            }
        }
        #expect((100..<1000).contains(foundCount))
    }

    @Test(arguments: [
        ("data=", ""), ("data=a=b&data=c", "a=b"), ("&&data=1", "1"), ("data&data=2", "2"), ("dat=1&data=3", "3"),
        ("data2=1&xdata=2&data=4", "4"), ("%64%61%74%61=5", "5"), ("data%=1&data=6", "6"), ("dat%6=1&data=7", "7"),
        ("dat%61=8", "8"), ("data%3D=1&data=9", "9"), ("data=%26%3D%2", "&=%2"), ("DATA=1&data=+", " "),
    ])
    func `a form's value is found by its name alone`(form: String, value: String) {
        #expect(FormText.value(of: "data", in: Array(form.utf8)) == Array(value.utf8))
    }

    @Test(arguments: [
        "", "&", "=", "data", "data&", "=data", "xdata=1", "data =1", "dat", "dat%61", "d%61ta%3D1", "%", "a&b",
    ])
    func `a form without the name has no value`(form: String) {
        #expect(FormText.value(of: "data", in: Array(form.utf8)) == nil)
    }

    @Test func `a bomb is refused before it is whole, and a torn stream as malformed`() {
        // 1 MiB of zeros as gzip members of 64 KiB, made by the product's own deflater elsewhere, is not needed: a deflate
        // stream of one stored block that claims more than it has is torn.
        #expect(throws: RequestBody.Refusal.notCompressedAsSaid) {
            try RequestBody.inflate([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3], encoding: "gzip")
        }
        #expect(throws: RequestBody.Refusal.encoding) { try RequestBody.inflate([1], encoding: "br") }
    }
}

@Suite struct IngestRouteTests {
    @Test(arguments: SegmentType.allCases)
    func `each of Segment's calls has two paths`(type: SegmentType) throws {
        for path in ["/v1/\(type.rawValue)", "/v1/\(type.rawValue.prefix(1))/"] {
            #expect(try IngestRoute(method: "POST", path: path[...]) == .events(.segment, type: type))
        }
    }

    @Test func `unknown paths and methods are told apart`() throws {
        #expect(throws: IngestRoute.Refusal.notFound) { try IngestRoute(method: "POST", path: "/v1/dance") }
        #expect(throws: IngestRoute.Refusal.notFound) { try IngestRoute(method: "GET", path: "/") }
        #expect(throws: IngestRoute.Refusal.method(allowed: ["POST"])) { try IngestRoute(method: "GET", path: "/v1/b") }
        #expect(try IngestRoute(method: "GET", path: "/e/") == .events(.posthog, type: nil))
        #expect(try IngestRoute(method: "GET", path: "/v1/projects/wk/settings") == .settings(key: "wk"))
    }

    /// Looked at from its start for each slash, this path would take hours.
    @Test func `slashes at the end have no meaning, however many they are`() throws {
        let slashes = String(repeating: "/", count: 1 << 20)
        #expect(throws: IngestRoute.Refusal.notFound) { try IngestRoute(method: "POST", path: slashes[...]) }
        #expect(throws: IngestRoute.Refusal.notFound) { try IngestRoute(method: "POST", path: "") }
        #expect(try IngestRoute(method: "POST", path: "/v1/b" + slashes) == .events(.segment, type: nil))
        #expect(throws: IngestRoute.Refusal.notFound) { try IngestRoute(method: "POST", path: "/v1/b\u{301}//") }
    }
}

@Suite struct RepeatWindowTests {
    @Test func `an id is known for the window, and forgotten after it`() {
        let start = MonotonicTime(nanoseconds: 0)
        var window = RepeatWindow(.seconds(600), byteCountMax: 1 << 20, key: Array(repeating: 7, count: 16))
        var generator = SeededGenerator(seed: 3)
        let ids = (0..<100).map { _ in UniqueID.random(&generator) }
        for (index, id) in ids.enumerated() { window.add(id, of: 0, at: start + .seconds(index)) }
        for second in stride(from: 100, through: 2000, by: 10) {
            let now = start + .seconds(second)
            window.turn(now)
            for (index, id) in ids.enumerated() where second - index <= 600 {
                let isKnown = window.contains(id, of: 0)
                #expect(isKnown, "\(index) at \(second)")
            }
            let isKnownElsewhere = window.contains(ids[0], of: 1)
            #expect(!isKnownElsewhere)
        }
        var knownCount = 0
        for id in ids where window.contains(id, of: 0) { knownCount += 1 }
        #expect(knownCount == 0)
    }

    @Test func `memory shortens the window, which says so`() {
        let start = MonotonicTime(nanoseconds: 0)
        let countMax = 1000
        var window = RepeatWindow(
            .seconds(600), byteCountMax: countMax * RepeatWindow.markByteCount, key: Array(repeating: 7, count: 16))
        var generator = SeededGenerator(seed: 3)
        for index in 0..<10_000 {
            window.add(.random(&generator), of: 0, at: start + .milliseconds(index * 100))
        }
        let reach = window.reach
        #expect(reach < .seconds(600) && reach > .zero)
    }

    @Test func `a key that fills the memory forgets its own ids, and no other key's`() {
        let start = MonotonicTime(nanoseconds: 0)
        let countMax = 1000
        var window = RepeatWindow(
            .seconds(600), byteCountMax: countMax * RepeatWindow.markByteCount, key: Array(repeating: 7, count: 16))
        var generator = SeededGenerator(seed: 3)
        let ids = (0..<400).map { _ in UniqueID.random(&generator) }
        for id in ids { window.add(id, of: 1, at: start) }
        for index in 0..<100_000 { window.add(.random(&generator), of: 2, at: start + .milliseconds(index)) }
        var knownCount = 0
        for id in ids where window.contains(id, of: 1) { knownCount += 1 }
        #expect(knownCount == 400)
        let reach = window.reach
        #expect(reach < .seconds(600), "it says that not all of the window is known")
    }

    @Test func `a window that lacks ids reaches back as far as it has all, and grows`() {
        let start = MonotonicTime(nanoseconds: 0)
        var window = RepeatWindow(.seconds(600), byteCountMax: 1 << 20, key: Array(repeating: 7, count: 16))
        window.lacks(before: start + .seconds(-30), now: start)
        window.lacks(before: start + .seconds(-90), now: start)
        for (seconds, expected) in [(0, 30), (500, 530), (570, 600), (900, 600)] {
            window.turn(start + .seconds(seconds))
            let reach = window.reach
            #expect(reach == .seconds(expected))
        }
    }
}
