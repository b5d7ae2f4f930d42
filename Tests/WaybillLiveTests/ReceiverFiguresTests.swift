import Testing
import WaybillJSON
import WaybillSystem

@testable import WaybillLive

struct ReceiverFiguresTests {
    private func report(exported: Int) throws -> ReceiverReport {
        let text = """
            {"journal_end":900,"agents":[{"name":"a"}],"projections":[
            {"name":"archive","exported":9,"pending":4,"unaccounted":1,"quarantined":{"json":2}},
            {"name":"ga4","exported":\(exported),"pending":7,"held":1,"refused":{"ga4.a":1,"ga4.b":3}}]}
            """
        return try #require(ReceiverReport(Array(text.utf8)))
    }

    private func json(_ figures: ReceiverFigures, at seconds: Int64) throws -> JSONValue {
        let bytes = JSONWriter.object { json in
            figures.write(providers: ["csv", "ga4"], now: WallTime(milliseconds: seconds * 1000), to: &json)
        }
        return try #require(JSONValue(bytes))
    }

    @Test func `providers have what the receiver counted, and their rates by second`() throws {
        var figures = ReceiverFigures()
        for (second, count) in [(Int64(100), 10), (101, 25)] {
            figures.take(try report(exported: count), now: WallTime(milliseconds: second * 1000))
        }
        #expect(figures.quarantined == ["json": 2])
        let json = try json(figures, at: 101)
        #expect(json["unaccounted"]?.count == 1)
        #expect(json["pending"]?.count == 7)
        let providers = try #require(json["providers"]?.elements)
        #expect(providers.map { $0["name"]?.string } == ["ga4", "csv"])
        #expect(providers[0]["exported"]?.count == 25)
        #expect(providers[0]["refused"]?.count == 4)
        #expect(providers[0]["rate"]?.elements?.suffix(2).map(\.count) == [0, 15])
        #expect(providers[0]["reasons"]?.elements?.map { $0["reason"]?.string } == ["ga4.b", "ga4.a"])
        #expect(providers[1]["exported"]?.count == nil)
    }

    @Test func `without a receiver only the providers' names are known`() throws {
        let figures = ReceiverFigures()
        let json = try json(figures, at: 100)
        #expect(figures.quarantined == nil)
        #expect(json["unaccounted"]?.count == nil && json["pending"]?.count == nil)
        #expect(json["providers"]?.elements?.map { $0["name"]?.string } == ["csv", "ga4"])
    }
}
