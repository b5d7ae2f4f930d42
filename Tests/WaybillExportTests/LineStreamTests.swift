import Testing
import WaybillEvent
import WaybillExport
import WaybillServerTestSupport
import WaybillSystem

/// The ids of foreign lines, and the people in them.
@Suite struct LineStreamTests {
    private static let stream = LineStream(principal: "web", id: "web-01-fe01-2a-18c3f0-a1b2c3d4e5f60718-0")
    private static let person = "b5372db0-c21e-41e4-8dfc-aa07a5b093db"
    private static let own = "019550FC-2dfb-7b1c-82d3-000000000001"

    private static func source(
        user: String? = nil, anonymous: String? = nil, stream: LineStream? = Self.stream
    ) -> SourceDescription {
        SourceDescription(
            env: .prod, bundle: "com.example.web", isForeign: true, userMember: user, anonymousMember: anonymous,
            stream: stream)
    }

    private static func line(_ members: String) -> String {
        "{\"time\":\"2025-03-01T09:14:19Z\",\"event\":\"GET\",\(members)}"
    }

    // Python: hashlib.sha256(hashlib.sha256(f"{principal}\0{stream}".encode()).digest() + offset.to_bytes(8, "big"))
    @Test(arguments: [
        ("web", "web-01-fe01-2a-18c3f0-a1b2c3d4e5f60718-0", 0, "388ef39c-b0b4-8782-a739-a70592f77680"),
        ("web", "web-01-fe01-2a-18c3f0-a1b2c3d4e5f60718-0", 118, "998a2787-290f-835f-beca-6734b37b5606"),
        ("", "a", 9007199254740991, "04c0fd11-3982-8ffc-8997-06709e07153c"),
        ("장바구니", "a", 1, "caf647fb-9fcb-88eb-a32d-3b6b9a606e59"),
    ])
    func `an id is made of principal, stream and offset`(
        principal: String, stream: String, offset: UInt64, id: String
    ) {
        #expect(LineStream(principal: principal, id: stream).lineID(at: offset).text == id)
    }

    @Test func `each foreign line without a UUID has the id of its place, whatever else its id says`() {
        let lines = [
            Self.line("\"n\":1"), Self.line("\"id\":\"order-17\""), Self.line("\"id\":\"\(Self.own)\""),
            Self.line("\"id\":17"), Self.line("\"id\":\"00000000-0000-0000-0000-000000000000\""),
        ]
        let sink = export(lines, ExportOptions(provider: .csv), source: Self.source())
        var offset: UInt64 = 0
        var ids: [String] = []
        for line in lines {
            ids.append(Self.stream.lineID(at: offset).text)
            offset += UInt64(line.utf8.count) + 1
        }
        ids[2] = Self.own
        #expect(sink.records.map(\.ids) == ids)
        #expect(Set(ids).count == 5)
        // An id that is not the event's is a field like others.
        let fields = ["id=order-17", "id=17", "id=00000000-"]
        #expect(fields.allSatisfy(sink.output.contains) && !sink.output.contains("id=019"))
    }

    @Test(arguments: [Destination.mixpanel, .amplitude, .segment, .posthog, .snowplow])
    func `a line of a web server with a cookie is a record`(provider: Destination) throws {
        let line = Self.line("\"cookie_id\":\"\(Self.person)\",\"login\":\"-\",\"user\":\"root\",\"status\":200")
        let source = Self.source(user: "login", anonymous: "cookie_id")
        let sink = export([line], ExportOptions(provider: provider), source: source)
        #expect(sink.refusals.isEmpty)
        let record = try #require(sink.records.first)
        #expect(record.ids == Self.stream.lineID(at: 0).text)
        #expect(record.text.contains(Self.person))
        // The members of people are no fields; a member that another source would take as its user is one.
        #expect(!record.text.contains("cookie_id") && !record.text.contains("login"))
        #expect(record.text.contains("root"))
    }

    @Test func `a named user counts, and one with an escaped name`() throws {
        let line = Self.line("\"c\":\"\(Self.person)\",\"log\\u0069n\":\"u-1\"")
        let sink = export(
            [line], ExportOptions(provider: .segment), source: Self.source(user: "login", anonymous: "c"))
        let record = try #require(sink.records.first)
        #expect(
            record.text.contains("\"userId\":\"u-1\"") && record.text.contains("\"anonymousId\":\"\(Self.person)\""))
    }

    @Test func `without a stream a line has its own id or none`() {
        let lines = [Self.line("\"n\":1"), Self.line("\"id\":\"order-17\"")]
        let sink = export(lines, ExportOptions(provider: .csv), source: Self.source(stream: nil))
        #expect(sink.records.map(\.ids) == ["-", "order-17"])
    }

    @Test func `a dead letter points to its line, and has the event if that is wanted or nothing points to it`() throws
    {
        let lines = [Self.line("\"n\":1"), Self.line("\"n\":2")]
        var options = ExportOptions(provider: .ga4)
        let id = Self.stream.lineID(at: UInt64(lines[0].utf8.count) + 1).text
        let place = "\"principal\":\"web\",\"stream\":\"\(Self.stream.id)\",\"offset\":\(lines[0].utf8.count + 1)"
        let pointing = try #require(export(lines, options, source: Self.source()).refusals.last).line
        #expect(pointing.contains("\"id\":\"\(id)\"") && pointing.hasSuffix("\"mapping\":0,\(place)}\n"))
        options.keepsRefusedEvents = true
        let holding = try #require(export(lines, options, source: Self.source()).refusals.last).line
        #expect(holding.hasSuffix("\"mapping\":0,\(place),\"event\":\(lines[1])}\n"))
        let alone = try #require(export(lines, options, source: Self.source(stream: nil)).refusals.last).line
        #expect(alone.hasSuffix("\"mapping\":0,\"event\":\(lines[1])}\n"))
    }
}
