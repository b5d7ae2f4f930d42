import Testing
import WaybillReport
import WaybillSystem
import WaybillTestSupport

/// The catalogue of names as a file.
@Suite struct NamesDocumentTests {
    private let fixture = ShopFixture()

    @Test func `the document has what the report has`() throws {
        let set = try self.fixture.reports([.names], wantsNames: true)
        let document = try #require(set.names)
        #expect(document.environment == "prod" && document.app == ShopFixture.app)
        let login = try #require(document.names.first { $0.name == "login" })
        #expect(login.kind == "event" && login.count == 3 && login.people == 3)
        #expect(login.versions == ["1.3.0", "1.4.0"])
        let method = try #require(login.properties.first)
        #expect(method.path == "data.method" && method.count == 3 && !method.isConflict)
        #expect(method.types == [.init(name: "string", count: 3, versions: ["1.3.0", "1.4.0"])])
        #expect(set.reports[0].rows.count == document.names.reduce(0) { $0 + 1 + $1.properties.count })
    }

    @Test func `only a request that asks for it gets the document`() throws {
        #expect(try self.fixture.reports([.names]).names == nil)
        #expect(try self.fixture.reports([.overview], wantsNames: true).names?.names.isEmpty == false)
    }

    @Test func `integer and number are one type, and other pairs are a conflict`() throws {
        func property(_ names: [String]) -> NamesDocument.Property {
            NamesDocument.Property(
                path: "data.x", count: 2, first: WallTime(milliseconds: 0), last: WallTime(milliseconds: 1),
                types: names.map { .init(name: $0, count: 1, versions: ["1"]) })
        }
        #expect(!property([]).isConflict && !property(["integer", "number"]).isConflict)
        #expect(property(["integer", "string"]).isConflict && property(["array", "number"]).isConflict)
        let document = NamesDocument(
            names: [
                .init(
                    name: "a\"b", kind: "event", count: 2, first: WallTime(milliseconds: 0),
                    last: WallTime(milliseconds: 1), versions: ["1"], properties: [property(["integer", "string"])])
            ])
        #expect(
            String(decoding: document.json, as: UTF8.self)
                == #"{"v":1,"names":[{"name":"a\"b","kind":"event","count":2,"first":"1970-01-01T00:00:00.000Z","#
                + #""last":"1970-01-01T00:00:00.001Z","versions":["1"],"properties":[{"path":"data.x","count":2,"#
                + #""first":"1970-01-01T00:00:00.000Z","last":"1970-01-01T00:00:00.001Z","types":["#
                + #"{"type":"integer","count":1,"versions":["1"]},{"type":"string","count":1,"versions":["1"]}],"#
                + #""conflict":true}]}]}"#)
    }
}
