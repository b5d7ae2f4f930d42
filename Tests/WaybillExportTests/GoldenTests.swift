import Testing
import WaybillExport
import WaybillServerTestSupport
import WaybillSystem

/// The files in `Protocol/vectors/providers` are the contract.
@Suite struct GoldenTests {
    private func seoul(_ provider: Destination) throws -> ExportOptions {
        ExportOptions(
            provider: provider, zone: try TimeZoneRules(named: "Asia/Seoul", from: POSIXFileSystem()))
    }

    @Test func `four events become exactly the golden GA4 requests`() throws {
        let sink = export(lines(try vector("golden-events.ndjson")), ExportOptions(provider: .ga4))
        #expect(sink.output == (try vector("ga4.ndjson")))
        #expect(sink.records.map(\.eventCount) == [1, 2, 1])
        #expect(
            sink.records[1].ids
                == "019550fc-2dfb-7b1c-82d3-000000000002,019550fc-37bc-7b1c-82d3-000000000003")
        #expect(sink.records[1].firstID == "019550fc-2dfb-7b1c-82d3-000000000002")
        #expect(sink.records[1].lastID == "019550fc-37bc-7b1c-82d3-000000000003")
        #expect(sink.records[1].oldest == 1_740_820_459_003)
        #expect(sink.records.map { $0.fixes[.rename] } == [0, 5, 0])
        #expect(sink.records.map { $0.fixes[.dropNull] } == [0, 0, 1])
        #expect(sink.refusals.isEmpty && sink.held.isEmpty && sink.skipped.isEmpty)
    }

    @Test func `four events become exactly the golden Mixpanel events`() throws {
        let sink = export(lines(try vector("golden-events.ndjson")), ExportOptions(provider: .mixpanel))
        #expect(sink.output == (try vector("mixpanel.ndjson")))
        #expect(sink.skipped == [.kind])
        #expect(sink.records.allSatisfy { $0.fixes == FixCounts() })
    }

    /// Everything but time zones is as it is by default.
    @Test(
        arguments: Set(Destination.allCases).subtracting([.ga4, .mixpanel, .csv]).sorted { $0.rawValue < $1.rawValue },
        ["golden-events.ndjson", "odd-events.ndjson", "traits-events.ndjson"])
    func `events become exactly the golden file`(provider: Destination, events: String) throws {
        let sink = export(lines(try vector(events)), ExportOptions(provider: provider))
        let description = Exporter.description(of: provider)
        let records = sink.records.map { Array($0.text.utf8) }.joined(separator: description.separator)
        let prefix = ["odd-events.ndjson": "odd-", "traits-events.ndjson": "traits-"][events] ?? ""
        let golden = try vector("\(prefix)\(provider.rawValue).\(description.fileExtension)")
        #expect(description.header + records + description.footer == Array(golden.utf8))
        #expect(sink.accounted == lines(try vector(events)).count)
        #expect(sink.refusals.isEmpty && sink.held.isEmpty)
    }

    @Test func `changes of traits become exactly the golden GA4 requests`() throws {
        let sink = export(lines(try vector("traits-events.ndjson")), ExportOptions(provider: .ga4))
        #expect(sink.output == (try vector("traits-ga4.ndjson")))
        #expect(sink.skipped == [.nothing, .nothing])
        #expect(sink.records.map { $0.fixes[.dropField] } == [8])
    }

    @Test(arguments: [
        ("golden-events.ndjson", "csv.csv"), ("guard-event.ndjson", "guard.csv"),
        ("traits-events.ndjson", "traits.csv"),
    ])
    func `events become exactly the golden rows`(events: String, file: String) throws {
        var options = try self.seoul(.csv)
        options.csv.includesUsers = events == "traits-events.ndjson"
        let sink = export(lines(try vector(events)), options)
        let header = String(decoding: Exporter.description(of: .csv).header, as: UTF8.self)
        let expected = try vector(file)
        #expect(header + sink.output == expected)
    }
}
