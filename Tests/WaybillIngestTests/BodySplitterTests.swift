import Testing
import WaybillEvent
import WaybillIngest
import WaybillJSON
import WaybillSystem

/// One broken event of a batch is a fault, and the rest is taken.
@Suite struct BodySplitterTests {
    private struct Case: CustomTestStringConvertible {
        let name: String
        /// An event that is not JSON.
        let broken: [UInt8]
        var testDescription: String { self.name }

        init(_ name: String, _ broken: String) {
            self.name = name
            self.broken = Array(broken.utf8)
        }

        init(_ name: String, bytes: [UInt8]) {
            self.name = name
            self.broken = bytes
        }
    }

    private static let cases =
        [
            Case("NaN", #"{"type":"track","event":"b","userId":"u","properties":{"x":NaN,"s":"]},{"}}"#),
            Case("infinities", #"{"x":Infinity,"y":[-Infinity, {"z":NaN}]}"#),
            Case("no number", #"{"x":01,"y":.5}"#), Case("a word alone", "NaN"),
            Case("two values", #"{"a":1} {"b":2}"#),
            Case("a bad escape", #"{"x":"\x41\"}]"}"#), Case("a line feed in a string", "{\"x\":\"a\nb\"}"),
            Case("no comma", #"{"x":1 "y":2}"#), Case("a comma at the end", #"{"x":1,}"#),
            Case("too deep", String(repeating: "[", count: 70) + String(repeating: "]", count: 70)),
            Case("bytes that are no UTF-8", bytes: Array("{\"x\":\"".utf8) + [0xFF, 0xC0] + Array("\"}".utf8)),
            Case("a zero byte", bytes: Array("{\"x\":".utf8) + [0] + Array("}".utf8)),
        ]

    private static func read(_ body: [UInt8], _ dialect: Dialect) -> (IngestReading, IngestedEvents) {
        var batch = IngestBatch()
        let reading = IngestBody(body, as: dialect).read(IngestTests.context(), into: &batch)
        return (reading, batch.finish())
    }

    private static let good = [
        Dialect.segment: #"{"type":"track","event":"e","userId":"u"}"#,
        .posthog: #"{"event":"e","distinct_id":"d"}"#, .amplitude: #"{"event_type":"e","user_id":"u"}"#,
    ]

    @Test(arguments: Self.cases, [Dialect.segment, .posthog, .amplitude])
    private func `a broken event is a fault where it stands`(one: Case, dialect: Dialect) throws {
        let good = Array(try #require(Self.good[dialect]).utf8)
        let comma = Array(" ,\n".utf8)
        let head = Array((dialect == .amplitude ? "{\"events\": [" : "{\"x\":1,\"batch\":[").utf8)
        let events = good + comma + one.broken + comma + good + comma + Array("7,".utf8) + one.broken + comma + good
        let body = head + events + Array("],\"api_key\":\"wk_test0001\"}".utf8)
        let (reading, read) = Self.read(body, dialect)
        #expect(reading == .read)
        #expect(read.lines.count == 3)
        #expect(read.faults.map(\.reason) == [.notJSON, .notAnObject, .notJSON])
        #expect(read.faults.map { Array(body[$0.range]) } == [one.broken, Array("7".utf8), one.broken])
        #expect(KeySearch.find(in: body) { $0 == "wk_test0001" } == .known("wk_test0001"))
    }

    @Test(arguments: [Dialect.segment, .posthog])
    func `a list is split, too, and its key found in the first event that is whole`(dialect: Dialect) throws {
        let good = try #require(Self.good[dialect]).dropLast() + #","properties":{"token":"wk_test0001"}}"#
        let body = Array("\u{FEFF} [{\"x\":NaN},\(good)]\n".utf8)
        let (reading, read) = Self.read(body, dialect)
        #expect(reading == .read && read.lines.count == 1)
        #expect(read.faults.map { String(decoding: body[$0.range], as: UTF8.self) } == ["{\"x\":NaN}"])
        #expect(KeySearch.find(in: body) { $0 == "wk_test0001" } == .known("wk_test0001"))
    }

    @Test func `a single call that is broken is one fault, and its key is known`() {
        let call = #"{"writeKey":"wk_test0001","type":"track","event":"e","userId":"u","properties":{"x":NaN}}"#
        let body = Array(call.utf8)
        let (reading, read) = Self.read(body, .segment)
        #expect(reading == .read && read.lines.isEmpty)
        #expect(read.faults.map(\.reason) == [.notJSON] && read.faults.first?.range == 0..<body.count)
        #expect(KeySearch.find(in: body) { $0 == "wk_test0001" } == .known("wk_test0001"))
    }

    @Test func `what is broken beside the list says nothing about its events`() {
        let body = #"{"batch":[{"type":"track","event":"e","userId":"u"}],"sentAt":NaN,"context":{"a":undefined}}"#
        let (reading, read) = Self.read(Array(body.utf8), .segment)
        #expect(reading == .read && read.lines.count == 1 && read.faults.isEmpty)
    }

    @Test(arguments: [
        #"{"batch":[{"type":"track","event":"e","userId":"u"},{"x":NaN"#, #"{"batch":[{"x":NaN}]"#,
        #"{"batch":[{"x":"a]}"#,
        #"{"batch":[{"x":NaN]}]}"#, #"{"batch":[{"x":1},,{"x":2}]}"#, #"{"batch":[{"x":1},]}"#, #"{"batch":[]} x"#,
        #"{"batch" [NaN]}"#, "[NaN", "NaN", "[1}", "", "{", "[", "{\"batch\":[NaN\\", "\u{FEFF}",
    ])
    func `a body whose events cannot be told apart is refused`(body: String) {
        for dialect in [Dialect.segment, .posthog, .amplitude] {
            let (reading, read) = Self.read(Array(body.utf8), dialect)
            #expect(reading == .malformed)
            #expect(read.lines.isEmpty && read.faults.isEmpty)
        }
    }

    @Test func `more broken events than a request may have are refused as a whole`() {
        let many = Array(repeating: "NaN", count: IngestLimits.eventCountMax + 1)
        for head in ["{\"batch\":[", "["] {
            let body = head + many.joined(separator: ",") + (head.count > 1 ? "]}" : "]")
            let (reading, _) = Self.read(Array(body.utf8), .segment)
            #expect(reading == .tooManyEvents)
        }
    }

    /// Every prefix of a body, and the body with one byte changed: it never crashes, and finds events or none at all.
    @Test func `a body that ends anywhere is read or refused`() {
        let call = #"{"type":"track","event":"e","userId":"u","properties":{"x":NaN}}"#
        let body = Array((#" {"batch":["# + call + #",{"a":"\u00e9\\"},3],"k":[1]} "#).utf8)
        for end in 0..<body.count {
            let (reading, read) = Self.read(Array(body[..<end]), .segment)
            #expect(reading == .read ? end >= body.count - 1 : read.faults.isEmpty)
            var changed = body
            for byte in Array("\"\\{}[],x ".utf8) {
                changed[end] = byte
                let (reading, read) = Self.read(changed, .segment)
                #expect(reading == .read || read.faults.isEmpty && read.lines.isEmpty)
                for fault in read.faults { #expect(fault.range.upperBound <= changed.count) }
            }
        }
    }
}
