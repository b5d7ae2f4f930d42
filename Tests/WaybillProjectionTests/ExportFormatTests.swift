import Testing
import WaybillData
import WaybillExport
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport
@testable import WaybillProjection

/// Parts of every provider's shape through errors and crashes: header, separator, footer, entries of binary fields,
/// drafts of schemas.
@Suite(.serialized) struct ExportFormatTests {
    private typealias Export = ExportProjection<FaultyFiles>

    private static func line(_ number: Int) -> String {
        // One in seven has another type, so that drafts grow.
        let size = number % 7 == 0 ? "\"large\"" : "\(number)"
        return "{\"v\":1,\"id\":\"01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))\","
            + "\"ts\":\"2026-11-20T09:00:00.000Z\",\"kind\":\"\(number % 2 == 0 ? "user" : "event")\",\"name\":\"n\","
            + "\"env\":\"prod\",\"bundle\":\"com.example.shop\",\"anon\":\"b5372db0-c21e\","
            + "\"ids\":{\"ga4\":\"0a1b2c3d4e5f60718293a4b5c6d7e8f9\"},\"data\":{\"size\":\(size),\"text\":\"a\\nb\"},"
            + "\"traits\":{\"rank\":\(size),\"old\":null}}\n"
    }

    /// A disk on which what precedes a closing part is exported and checkpointed; each batch behind it is small.
    private static func bench(before count: Int, _ options: ExportOptions) throws -> ProjectionBench {
        let bench = try ProjectionBench()
        var contents = [(ProjectionBench.description(0), (0..<count).flatMap { Array(Self.line($0).utf8) })]
        for round in 0..<8 {
            let numbers = (count + round * 12)..<(count + 12 + round * 12)
            contents.append((ProjectionBench.description(round % 2), numbers.flatMap { Array(Self.line($0).utf8) }))
        }
        try bench.write(contents, perGroup: 1)
        var export = try Export.live(options, data: bench.data)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try export.recover().position
        position = try run.advance(&export, from: position, upTo: bench.end, batchCountMax: 1)
        try export.checkpoint(at: position)
        return bench
    }

    private static func finish(_ bench: ProjectionBench, _ options: ExportOptions) throws {
        var export = try Export.live(options, data: bench.data)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try export.recover().position
        while position < bench.end {
            position = try run.advance(&export, from: position, upTo: bench.end, batchCountMax: 1)
            try export.checkpoint(at: position)
        }
        try export.finishSealing()
    }

    @Test func `a day has so many drafts of schemas`() throws {
        let options = ExportOptions(provider: .snowplow)
        let source = try Self.bench(before: 470, options)
        let undisturbed = try source.copy()
        try Self.finish(undisturbed, options)
        let drafts = undisturbed.tree("exports").keys.filter { $0.contains("/schemas/") }.sorted()
        let folder = try #require(drafts.first?.firstRange(of: "/schemas/").map { drafts[0][..<$0.upperBound] })
        for (otherCount, ownCount) in [(998, 2), (999, 1), (1000, 0), (1200, 0)] {
            let bench = try source.copy()
            for number in 0..<otherCount {
                bench.disk.place("/data/\(folder)other/n\(number / 3)/jsonschema/1-0-\(number % 3)", [0x0A])
            }
            try Self.finish(bench, options)
            let own = bench.tree("exports").keys.filter { $0.hasPrefix("\(folder)com.example.shop/") }
            #expect(own.count == ownCount, "beside \(otherCount)")
        }
    }

    /// Half of all events are of kind `user`, and profiles take 1000 of those.
    @Test(arguments: [
        (Destination.snowplow, 470), (.mixpanelProfiles, 1940), (.posthog, 960), (.journald, 20), (.flurry, 20),
    ])
    func `errors and crashes change no byte of a part, its footer or its schemas`(
        provider: Destination, count: Int
    ) throws {
        let options = ExportOptions(provider: provider)
        let source = try Self.bench(before: count, options)
        let undisturbed = try source.copy()
        try Self.finish(undisturbed, options)
        let expected = undisturbed.tree("exports")
        let hasClosed = expected.keys.contains { $0.hasSuffix(".manifest.json") }
        #expect(hasClosed == (provider != .journald && provider != .flurry))
        #expect(expected.keys.count { $0.contains("/schemas/") } == (provider == .snowplow ? 2 : 0))

        for seed in 0..<UInt64(12) {
            let bench = try source.copy()
            var driver = ProjectionDriver(bench: bench)
            driver.failuresPerMille = seed % 4 == 0 ? 0 : 12
            driver.stepsPerCrash = seed % 4 == 1 ? 0 : 5
            driver.batchCountMax = 4
            try driver.run(seed: seed) { () throws(FileSystemError) in try Export.live(options, data: bench.data) }
            #expect(bench.tree("exports") == expected, "seed \(seed)")
            bench.disk.crash(seed: seed)
            try Self.finish(bench, options)
            #expect(bench.tree("exports") == expected, "seed \(seed), after a crash")
        }
    }

    @Test func `a list of updates is closed by its footer, live and by a replay`() throws {
        let options = ExportOptions(provider: .mixpanelProfiles)
        let bench = try Self.bench(before: 1940, options)
        try Self.finish(bench, options)
        let folder = "exports/mixpanel-profiles/env=prod/date=2026-11-20"
        let tree = bench.tree(folder)
        let closed = try #require(tree["\(folder)/part-00000.json"])
        #expect(closed.hasPrefix("[{\"$token\":") && closed.hasSuffix("]}]\n"))
        #expect(closed.split(separator: "\n").count == 1000)
        #expect(closed.split(separator: "\n").dropLast().allSatisfy { $0.hasSuffix("},") })
        let open = try #require(tree["\(folder)/part-00001.json"])
        #expect(open.hasPrefix("[{\"$token\":") && open.hasSuffix("]}"))

        var export = try Export(
            data: bench.data, directory: "exports/again", statePath: bench.data.statePath("again"), options: options,
            isAgeJudged: true)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try export.recover().position
        while position < bench.end {
            position = try run.advance(&export, from: position, upTo: bench.end, batchCountMax: 1)
        }
        try export.closeAll()
        try export.checkpoint(at: position)
        try export.finishSealing()
        let again = bench.tree("exports/again/env=prod/date=2026-11-20")
        #expect(again["exports/again/env=prod/date=2026-11-20/part-00000.json"] == closed)
        #expect(again["exports/again/env=prod/date=2026-11-20/part-00001.json"] == open + "]\n")
    }
}
