import Testing
import WaybillEvent
import WaybillJSON
import WaybillSystem

@testable import WaybillExport
import WaybillServerTestSupport

/// One event a line: `{"id":…,"at":…,"what":…,"fields":{…}}`; 500 lines or 1 MB a request.
struct Example: Provider {
    var description: ProviderDescription {
        ProviderDescription(id: .csv, fileExtension: "ndjson", recordsPerPartMax: 500, partByteCountMax: 1_000_000)
    }

    var eventsPerRecordMax: Int { 1 }
    var recordByteCountMax: Int { 10_000 }
    var terminator: StaticString { "\n" }

    func takes(_ kind: EventKind) -> Bool {
        kind != .user && kind != .meta
    }

    func map(_ event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft) -> MappingOutcome {
        guard let id = event.uuid else {
            return .refused(RefusalCause(.unreadable, "id is missing or not a UUID", field: "id"))
        }
        draft.json.beginObject()
        draft.json.key("id")
        draft.json.string(plain: id)
        draft.json.key("at")
        draft.time(event.facts.time)
        draft.json.key("what")
        draft.eventName(event.name, limit: 40, unit: .utf16, isReserved: { $0.first == UInt8(ascii: "$") })
        draft.json.key("fields")
        draft.json.beginObject()
        var fields = event.fields()
        while let (key, value) = fields.next(in: event) {
            guard draft.beginField(key, of: event, limit: 40, unit: .utf16, isReserved: { _ in false }) else {
                continue
            }
            draft.value(value, of: event, limit: 255, depthMax: 3)
        }
        // Two braces and the line feed follow.
        draft.dropFields(toFit: self.recordByteCountMax - 3)
        draft.json.endObject()
        draft.json.endObject()
        return .written
    }
}

/// The provider that `Protocol/formats/providers.md` shows.
@Suite struct ExampleProviderTests {
    private func map(_ line: String) -> (text: String, fixes: FixCounts) {
        var view = MappedEvent()
        var draft = Draft()
        let bytes = Array(line.utf8)
        guard case .event(let facts) = read(bytes) else { preconditionFailure("not an event: \(line)") }
        let text = bytes.withUnsafeBytes { bytes in
            let result = Result { () throws(JSONError) in try view.load(bytes, facts, ownSource, at: 0) }
            guard case .success = result else { preconditionFailure("no JSON: \(line)") }
            let context = MappingContext(receivedAt: receivedAt, isAgeJudged: true, offsetSeconds: 0)
            guard case .written = Example().map(view, context, into: &draft) else { return "" }
            return String(decoding: draft.json.output.bytes, as: UTF8.self)
        }
        return (text, draft.fixes)
    }

    @Test func `the example renames, cuts and drops, and counts what it did`() {
        let data = #"{"a":1,"a":2,"deep":[[[[]]]],"long":"\#(String(repeating: "x", count: 300))"}"#
        let (text, fixes) = self.map(event(name: "$tap", members: ",\"data\":\(data)"))
        #expect(
            text == #"{"id":"019550fc-2dfb-7b1c-82d3-000000000001","at":"2025-03-01T09:14:19.003Z","what":"x_$tap","#
                + #""fields":{"a":1,"deep":"[[[[]]]]","long":"\#(String(repeating: "x", count: 255))"}}"#)
        #expect(
            [FixCode.rename, .collide, .coerce, .truncateValue].map { fixes[$0] } == [1, 1, 1, 1] && fixes.total == 4)
    }

    @Test func `the page shows the example as it is compiled`() throws {
        let tests = Path.parent(of: #filePath)
        let bytes = try POSIXFileSystem().contents(of: Path.join(tests, "ExampleProvider.swift"))
        let source = String(decoding: try #require(bytes), as: UTF8.self)
        let start = try #require(source.firstRange(of: "/// One event a line")).lowerBound
        let end = try #require(source.firstRange(of: "\n}\n")).upperBound
        let root = Path.parent(of: Path.parent(of: tests))
        let page = try #require(try POSIXFileSystem().contents(of: Path.join(root, "Protocol/formats/providers.md")))
        #expect(String(decoding: page, as: UTF8.self).contains(source[start..<end]))
    }
}
