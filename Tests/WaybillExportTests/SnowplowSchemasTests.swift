import Testing
import WaybillExport
import WaybillServerTestSupport

/// Drafts of schemas, from the records of parts.
@Suite struct SnowplowSchemasTests {
    private func part(_ lines: [String]) -> [UInt8] {
        Array(export(lines, ExportOptions(provider: .snowplow)).output.utf8)
    }

    private let first = event(name: "Tap", id: 1, members: #","log":"1.2","data":{"n":1,"s":"x","o":{}}"#)
    private let second = event(name: "Tap", id: 2, members: #","log":"1.2","data":{"n":1.5,"s":null,"l":[],"b":true}"#)

    @Test func `a draft lists the members and types seen in all parts`() throws {
        var schemas = SnowplowSchemas()
        schemas.add(part: self.part([self.first, self.second, event(name: "home", id: 3, kind: "screen")]))
        #expect(schemas.paths == ["com.example.shop/tap/jsonschema/1-0-2"])
        let draft = String(decoding: schemas.draft(at: try #require(schemas.paths.first)), as: UTF8.self)
        #expect(
            draft == """
                {"$schema":"http://iglucentral.com/schemas/com.snowplowanalytics.self-desc/schema/jsonschema/1-0-0#",\
                "description":"Draft from events seen; tighten it before you put it into a registry.",\
                "self":{"vendor":"com.example.shop","name":"tap","format":"jsonschema","version":"1-0-2"},\
                "type":"object","properties":{"b":{"type":["boolean"]},"l":{"type":["array"]},"n":{"type":["number"]},\
                "o":{"type":["object"]},"s":{"type":["null","string"]}},"additionalProperties":true}\n
                """)
    }

    @Test func `parts may come one by one, in any order, and twice`() throws {
        var all = SnowplowSchemas()
        all.add(part: self.part([self.first, self.second]))
        let path = try #require(all.paths.first)
        var kept: [UInt8] = []
        for line in [self.second, self.first, self.second] {
            var schemas = SnowplowSchemas()
            schemas.add(part: self.part([line]))
            schemas.add(draft: kept, at: path)
            kept = schemas.draft(at: path)
        }
        #expect(kept == all.draft(at: path))
    }

    @Test func `an event without fields has a draft too`() {
        var schemas = SnowplowSchemas()
        schemas.add(part: self.part([event(name: "tap")]))
        #expect(schemas.paths == ["com.example.shop/tap/jsonschema/1-0-0"])
    }

    @Test(arguments: [("1.0", "1-0-0"), ("3", "3-0-0"), ("12.345", "12-0-345")])
    func `a log version becomes a SchemaVer`(log: String, version: String) {
        var schemas = SnowplowSchemas()
        schemas.add(part: self.part([event(name: "tap", members: ",\"log\":\"\(log)\"")]))
        #expect(schemas.paths == ["com.example.shop/tap/jsonschema/\(version)"])
    }

    @Test(arguments: ["0.1", "1.", "1.02", "v1", "1.2.3", "\\u0031.0", "99999999999.1"])
    func `what is no log version is counted`(log: String) {
        let sink = export([event(members: ",\"log\":\"\(log)\"")], ExportOptions(provider: .snowplow))
        #expect(sink.records.map { $0.fixes[.coerce] } == [1])
        #expect(sink.output.contains("jsonschema/1-0-0"))
    }

    @Test(arguments: [("..", "_."), (".a/b\\\\c", "_a_b_c"), ("", "com.example.shop")])
    func `a bundle becomes a name that no path leaves`(bundle: String, vendor: String) {
        var line = event(name: "tap")
        if !bundle.isEmpty { line = line.replacing("com.example.shop", with: bundle) }
        var schemas = SnowplowSchemas()
        schemas.add(part: self.part([line]))
        #expect(schemas.paths == ["\(vendor)/tap/jsonschema/1-0-0"])
    }

    @Test func `a draft has so many members, and those that it has stay`() throws {
        let long = String(repeating: "n", count: 256)
        func line(_ names: some Sequence<String>, id: Int) -> String {
            event(name: "tap", id: id, members: ",\"data\":{\(names.map { "\"\($0)\":1" }.joined(separator: ","))}")
        }
        let path = "com.example.shop/tap/jsonschema/1-0-0"
        var first = SnowplowSchemas()
        first.add(part: self.part([line((200..<700).map { "m\($0)" } + [long], id: 1)]))
        let kept = first.draft(at: path)
        #expect(kept.firstRange(of: Array("\"m699\"".utf8)) != nil)
        #expect(kept.firstRange(of: Array(long.utf8)) == nil)
        var second = SnowplowSchemas()
        second.add(part: self.part([line((0..<400).map { "m\($0)" }, id: 2)]))
        second.add(draft: kept, at: path)
        #expect(second.draft(at: path) == kept)
    }

    @Test func `a part has so many drafts`() {
        var schemas = SnowplowSchemas()
        schemas.add(part: self.part((0..<1200).map { event(name: "tap\($0)", id: $0) }))
        #expect(schemas.paths.count == 1000)
    }
}
