import Testing
import WaybillEvent
import WaybillExport
import WaybillJSON
import WaybillServerTestSupport
import WaybillSystem

@Suite struct EventReaderTests {
    private static let own =
        #"{"v":1,"id":"x","ts":"2025-03-01T09:14:15.926Z","kind":"screen","name":"로그인","bundle":"com.example.shop","env":"prod"}"#

    private func time(_ text: String, source: SourceDescription = foreignSource) -> Int64? {
        guard case .event(let facts) = read("{\"ts\":\(text)}", source: source) else { return nil }
        return facts.time.milliseconds
    }

    @Test func `an own line is judged in one look`() throws {
        guard case .event(let facts) = read(Self.own) else {
            Issue.record("no event")
            return
        }
        let bytes = Array(Self.own.utf8)
        #expect(facts.time == WallTime(milliseconds: 1_740_820_455_926))
        #expect(facts.env == .prod)
        #expect(facts.kind == .screen)
        #expect(String(decoding: bytes[try #require(facts.name)], as: UTF8.self) == "로그인")
        #expect(String(decoding: bytes[try #require(facts.bundle)], as: UTF8.self) == "com.example.shop")
        let text = bytes.withUnsafeBytes { facts.bundleText(in: $0, source: foreignSource) }
        #expect(text == "com.example.shop")
    }

    @Test(
        arguments: [
            ("\"v\":1,", "", nil), ("\"v\":1", "\"v\":2", .badVersion), ("\"v\":1", "\"v\":\"1\"", .badVersion),
            ("\"ts\":\"2025-03-01T09:14:15.926Z\",", "", .noTime), ("2025-03-01T", "2025-02-29T", .badTime),
            ("\"2025-03-01T09:14:15.926Z\"", "1740820455926", .badTime),
            ("2025-03-01T09:14:15.926Z", "1999-12-31T23:59:59.999Z", .timeOutOfRange),
            ("2025-03-01T09:14:15.926Z", "2000-01-01T00:00:00.000Z", nil),
            ("2025-03-01T09:14:15.926Z", "2099-12-31T23:59:59.999Z", nil),
            ("2025-03-01T09:14:15.926Z", "2100-01-01T00:00:00.000Z", .timeOutOfRange),
            ("\"name\":\"로그인\",", "", .noName), ("로그인", "", .noName), ("\"로그인\"", "7", .noName),
            (",\"env\":\"prod\"", "", .noEnv), ("prod", "staging", .badEnv), ("\"prod\"", "null", .badEnv),
            ("prod", "internal", nil), ("prod", "pr\\u006fd", nil), ("\"env\"", "\"\\u0065nv\"", nil),
            ("\"bundle\":\"com.example.shop\",", "", .noBundle), ("com.example.shop", "", .noBundle),
            ("\"kind\":\"screen\",", "", nil), ("screen", "later", nil),
        ] as [(String, String, QuarantineReason?)])
    func `an own line lacks or spoils one member`(part: String, other: String, reason: QuarantineReason?) throws {
        let start = try #require(Self.own.firstRange(of: part))
        let line = Self.own.replacingCharacters(in: start, with: other)
        switch read(line) {
        case .event: #expect(reason == nil, "\(line)")
        case .quarantine(let found): #expect(found == reason, "\(line)")
        }
    }

    @Test func `the first of two equal members counts`() {
        let line = Self.own.dropLast() + ",\"env\":\"dev\",\"name\":\"later\"}"
        guard case .event(let facts) = read(String(line)) else {
            Issue.record("no event")
            return
        }
        #expect(facts.env == .prod)
    }

    @Test(arguments: [
        ("", QuarantineReason.empty), (" \r", .empty), ("{", .notJSON), ("{\"a\":1}x", .notJSON), ("[1,2]", .notObject),
        ("7", .notObject), ("[1,", .notJSON), ("{\"a\":\"\u{0}\"}", .nul), ("\u{0}\u{0}", .nul), ("hello", .notJSON),
    ])
    func `what is no object is named by why`(line: String, reason: QuarantineReason) {
        #expect(read(line) == .quarantine(reason))
        #expect(read(line, source: foreignSource) == .quarantine(reason))
    }

    @Test func `bytes that are not UTF-8 are named so wherever the scan gave up`() {
        #expect(read([0x7B, 0x22, 0xFF, 0x22]) == .quarantine(.badUTF8))
        #expect(read([0x78, 0xED, 0xA0, 0x80]) == .quarantine(.badUTF8))
    }

    @Test func `a line may have a mebibyte and no more`() {
        let frame = #"{"ts":"2025-03-01T09:14:15Z","x":""}"#.utf8.count
        let filler = String(repeating: "x", count: (1 << 20) - frame)
        let longest = "{\"ts\":\"2025-03-01T09:14:15Z\",\"x\":\"\(filler)\"}"
        #expect(self.isEvent(read(longest, source: foreignSource)))
        #expect(read(longest + " ", source: foreignSource) == .quarantine(.tooLong))
    }

    private func isEvent(_ reading: EventReading) -> Bool {
        if case .event = reading { true } else { false }
    }

    @Test func `a byte order mark and a carriage return do not spoil a line`() {
        #expect(self.isEvent(read("\u{FEFF}" + Self.own + "\r")))
    }

    @Test(arguments: [
        ("\"2025-03-01T09:14:15.926Z\"", 1_740_820_455_926), ("\"2025-03-01t09:14:15.9269999z\"", 1_740_820_455_926),
        ("\"2025-03-01 18:14:15.9+09:00\"", 1_740_820_455_900), ("\"2025-03-01T18:14:15+0900\"", 1_740_820_455_000),
        ("\"2025-03-01T05:44:15-03:30\"", 1_740_820_455_000), ("\"2025-03-01T09:13:60Z\"", 1_740_820_440_000),
        ("1740820455", 1_740_820_455_000), ("1740820455.926", 1_740_820_455_926), ("1740820455926", 1_740_820_455_926),
        ("1740820455926123", 1_740_820_455_926), ("1740820455926123456", 1_740_820_455_926),
        ("1.740820455926e9", 1_740_820_455_926), ("17408204559E-1", 1_740_820_455_900),
        ("\"1740820455926123\"", 1_740_820_455_926), ("\"1740820455.5\"", 1_740_820_455_500),
        ("1740820455926.9999999999999999999999", 1_740_820_455_926),
    ])
    func `a foreign time is read in many forms`(text: String, milliseconds: Int64) {
        #expect(self.time(text) == milliseconds)
    }

    @Test(arguments: [
        "\"2025-03-01T09:14:15\"", "\"2025-03-01\"", "\"2025-03-01T24:00:00Z\"", "\"2025-03-01T09:60:00Z\"",
        "\"2025-03-01T09:14:61Z\"", "\"2025-3-01T09:14:15.000Z\"", "\"2025-03-01T09:14:15.Z\"",
        "\"2025-03-01T09:14:15+9:00\"", "\"2025-03-01T09:14:15+24:00\"", "\"2025-03-01T09:14:15Zx\"", "\"\"",
        "\"soon\"", "null", "true", "[]", "\"17408 \"", "1e999", "123456789012345678901",
    ])
    func `a foreign time that is none is named so`(text: String) {
        #expect(read("{\"ts\":\(text)}", source: foreignSource) == .quarantine(.badTime))
    }

    @Test(arguments: ["0", "-1740820455", "946684799", "\"1999-12-31T23:59:59.999Z\"", "99999999999", "1e-400"])
    func `a time that cannot be right is named so`(text: String) {
        #expect(read("{\"ts\":\(text)}", source: foreignSource) == .quarantine(.timeOutOfRange))
    }

    @Test func `the members that may hold time and name have an order`() throws {
        let line =
            #"{"__REALTIME_TIMESTAMP":"1740820451000000","event":"e","@timestamp":1740820452,"timestamp":1740820453,"time":1740820454,"n":"named","t":1740820456,"name":"name","ts":1740820455}"#
        func facts(_ source: SourceDescription, _ line: String) throws -> (Int64, String) {
            guard case .event(let facts) = read(line, source: source) else { throw PlainJSON.Malformed(offset: 0) }
            let bytes = Array(line.utf8)
            return (
                facts.time.milliseconds / 1000 - 1_740_820_450,
                facts.name.map { String(decoding: bytes[$0], as: UTF8.self) } ?? "log"
            )
        }
        #expect(try facts(foreignSource, line) == (5, "name"))
        var source = foreignSource
        source.timeMember = "t"
        source.nameMember = "n"
        #expect(try facts(source, line) == (6, "named"))
        var rest = line
        for (name, expected) in [
            ("\"ts\"", 4), ("\"time\"", 3), ("\"timestamp\"", 2), ("\"@timestamp\"", 1),
        ] {
            rest = rest.replacingFirst(name, with: "\"\(expected)\"")
            #expect(try facts(foreignSource, rest).0 == Int64(expected))
        }
        rest = rest.replacingFirst("\"name\"", with: "\"x\"")
        #expect(try facts(foreignSource, rest).1 == "e")
        rest = rest.replacingFirst("\"event\"", with: "\"y\"")
        #expect(try facts(foreignSource, rest).1 == "log")
    }

    @Test func `a source's own member may be spelled with escapes`() {
        #expect(self.time("1") == nil)
        var source = foreignSource
        source.timeMember = "wann"
        guard case .event(let facts) = read(#"{"ts":1,"w\u0061nn":1740820455}"#, source: source) else {
            Issue.record("no event")
            return
        }
        #expect(facts.time == WallTime(milliseconds: 1_740_820_455_000))
        #expect(facts.env == .internal)
        #expect(facts.bundle == nil)
    }
}

extension String {
    func replacingFirst(_ part: String, with other: String) -> String {
        guard let range = self.firstRange(of: part) else { return self }
        return self.replacingCharacters(in: range, with: other)
    }

    func replacingCharacters(in range: Range<Index>, with other: String) -> String {
        String(self[..<range.lowerBound]) + other + String(self[range.upperBound...])
    }
}
