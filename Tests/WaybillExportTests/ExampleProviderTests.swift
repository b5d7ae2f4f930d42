import Testing
import WaybillEvent
import WaybillExport
import WaybillServerTestSupport
import WaybillSystem

/// The provider that `Protocol/formats/providers.md` shows: made outside the module and registered in a registry.
@Suite struct ExampleProviderTests {
    private static let example = Destination(Example.self)

    @Test func `the example renames, cuts and drops, and counts what it did`() throws {
        let data = #"{"a":1,"a":2,"deep":[[[[]]]],"long":"\#(String(repeating: "x", count: 300))"}"#
        let sink = export(
            [event(name: "$tap", members: ",\"data\":\(data)")], ExportOptions(provider: Self.example))
        let record = try #require(sink.records.first)
        #expect(
            record.text
                == #"{"id":"019550fc-2dfb-7b1c-82d3-000000000001","at":"2025-03-01T09:14:19.003Z","what":"x_$tap","#
                + #""fields":{"a":1,"deep":"[[[[]]]]","long":"\#(String(repeating: "x", count: 255))"}}"# + "\n")
        let fixes = FixCode.allCases.filter { record.fixes[$0] > 0 }
        #expect(fixes == [.truncateValue, .rename, .dropField, .coerce])
        #expect(record.fixes.total == 4)
    }

    @Test func `a registry with the example knows it by its name, and the standard one does not`() throws {
        let registry = ProviderRegistry.withExample
        #expect(try Destination(named: "example", in: registry) == Self.example)
        #expect(Destination(recordedName: "example", in: registry) == Self.example)
        #expect(Destination(customName: "example", in: registry) == nil)
        #expect(registry.list == Destination.list + ", example")
        #expect(registry.delivered.map(\.rawValue) == DeliverableProvider.allCases.map(\.rawValue) + ["example"])
        #expect(Set(registry.refusals).subtracting(RefusalReason.allCases) == Set(Example.refusals))
        let error = #expect(throws: UnknownProvider.self) { try Destination(named: "example") }
        #expect(error?.description == "there is no provider \"example\"; choose one of: \(Destination.list)")
    }

    @Test func `subscriptions, its own reasons and its options count for the example as for any provider`() throws {
        var options = ExportOptions(provider: Self.example)
        #expect(options.closeAfter == ExportOptions.deliveredCloseAfter)
        let usual = options.fingerprint
        let lines = [
            event(id: 1, members: #","providers":["ga4"]"#), event(id: 2, members: #","providers":["example"]"#),
            event(id: 3, kind: "user"), event(id: 4).replacing("019550fc-2dfb-7b1c-82d3-000000000004", with: "four"),
        ]
        let sink = export(lines, options)
        #expect(sink.skipped == [.notSubscribed, .kind] && sink.records.count == 1)
        #expect(sink.refusals.map(\.reason) == Example.refusals)
        #expect(sink.refusals[0].line.contains(#""provider":"example","reason":"example.no_uuid""#))
        options.example.includesUsers = true
        #expect(options.fingerprint != usual)
        #expect(export(lines, options).records.count == 2)
    }

    @Test func `the counts of outcomes have the example's reasons after the registered ones`() throws {
        var counts = OutcomeCounts()
        counts.add(2, .refused(Example.refusals[0]))
        counts.add(3, .refused(.ga4TooOld))
        counts.add(1, .skipped(.kind))
        #expect(counts.outcomes.map(\.outcome.reason) == ["kind", "ga4.too_old", "example.no_uuid"])
        #expect(counts.outcomes.map(\.count) == [1, 3, 2])
    }

    @Test func `the page shows the example as it is compiled`() throws {
        let tests = Path.parent(of: Path.parent(of: #filePath))
        let bytes = try POSIXFileSystem().contents(
            of: Path.join(tests, "Support/WaybillServerTestSupport/ExampleProvider.swift"))
        let source = String(decoding: try #require(bytes), as: UTF8.self)
        let start = try #require(source.firstRange(of: "/// One event a line")).lowerBound
        let end = try #require(source.firstRange(of: "\n}\n")).upperBound
        let root = Path.parent(of: tests)
        let page = try #require(try POSIXFileSystem().contents(of: Path.join(root, "Protocol/formats/providers.md")))
        #expect(String(decoding: page, as: UTF8.self).contains(source[start..<end]))
    }
}
