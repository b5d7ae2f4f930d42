import Testing
import WaybillData
import WaybillExport
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport
@testable import WaybillProjection

/// Options that change between two starts and while an export runs.
@Suite(.serialized) struct ExportOptionsTests {
    private typealias Export = ExportProjection<FaultyFiles>

    private static let folder = "exports/mixpanel/env=prod/date=2026-11-20"

    private static func id(_ number: Int) -> String {
        "01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))"
    }

    private static func line(_ number: Int) -> String {
        "{\"v\":1,\"id\":\"\(Self.id(number))\",\"ts\":\"2026-11-20T09:00:00.000Z\",\"kind\":\"event\","
            + "\"name\":\"n\",\"env\":\"prod\",\"bundle\":\"com.example.shop\",\"anon\":\"a\"}\n"
    }

    /// Every record of a version says which one wrote it.
    private static func options(version: Int) -> ExportOptions {
        var rules = OperatorMapping.Rules(version: version)
        var rule = OperatorMapping.FieldRule()
        rule.constants = [.init(name: "written_by", json: "\(version)")]
        rules.fields = [rule]
        var options = ExportOptions(provider: .mixpanel)
        options.mapping = OperatorMapping(rules, path: "mixpanel.yaml")
        return options
    }

    private static let batchCount = 24
    private static let eventsPerBatch = 5

    private static func bench() throws -> ProjectionBench {
        let bench = try ProjectionBench()
        let contents = (0..<Self.batchCount).map { batch in
            (
                ProjectionBench.description(batch % 3),
                (0..<Self.eventsPerBatch).flatMap { Array(Self.line(batch * Self.eventsPerBatch + $0).utf8) }
            )
        }
        try bench.write(contents, perGroup: 1)
        return bench
    }

    /// Projects from the checkpoint up to the end, or so many batches.
    private static func advance(
        _ bench: ProjectionBench, _ export: inout Export, batchCount: Int = .max
    ) throws -> JournalPosition {
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try export.recover().position
        var done = 0
        while position < bench.end, done < batchCount {
            position = try run.advance(&export, from: position, upTo: bench.end, batchCountMax: 1)
            done += 1
        }
        return position
    }

    private struct Part: Equatable {
        var writers: Set<Substring> = []
        var recordCount = 0
        /// What the manifest says; `nil` for an open part.
        var version: Substring?
    }

    /// Each part, and the ids of all.
    private static func parts(_ bench: ProjectionBench) -> (parts: [Part], ids: [Substring]) {
        let tree = bench.tree(Self.folder)
        var parts: [Part] = []
        var ids: [Substring] = []
        for path in tree.keys.sorted() where path.hasSuffix(".ndjson") && !path.contains("/dead/") {
            var part = Part()
            for record in (tree[path] ?? "").split(separator: "\n") {
                part.recordCount += 1
                part.writers.insert(
                    record.firstRange(of: "\"written_by\":").map {
                        record[$0.upperBound...].prefix { $0.isNumber }
                    } ?? "none")
            }
            let stem = path.dropLast(7)
            if let manifest = tree["\(stem).manifest.json"], let range = manifest.firstRange(of: "\"mapping\":") {
                part.version = manifest[range.upperBound...].prefix { $0.isNumber }
            }
            ids += (tree["\(stem).ids"] ?? "").split(separator: "\n").map { $0[...] }
            parts.append(part)
        }
        return (parts, ids)
    }

    @Test func `a start with another mapping closes what the old one wrote`() throws {
        let bench = try Self.bench()
        var export = try Export.live(Self.options(version: 1), data: bench.data)
        try export.checkpoint(at: try Self.advance(bench, &export, batchCount: 4))
        export = try Export.live(Self.options(version: 2), data: bench.data)
        try export.checkpoint(at: try Self.advance(bench, &export))
        try export.finishSealing()
        let (parts, ids) = Self.parts(bench)
        #expect(
            parts == [
                Part(writers: ["1"], recordCount: 20, version: "1"),
                Part(writers: ["2"], recordCount: 100, version: nil),
            ])
        #expect(ids.map(String.init) == (0..<120).map(Self.id))
    }

    @Test func `another zone closes the parts of the old one, whose manifests name it`() throws {
        let bench = try Self.bench()
        var options = ExportOptions(provider: .mixpanel)
        var export = try Export.live(options, data: bench.data)
        try export.checkpoint(at: try Self.advance(bench, &export, batchCount: 4))
        options.zone = try TimeZoneRules(named: "Asia/Seoul", from: POSIXFileSystem())
        export = try Export.live(options, data: bench.data)
        try export.checkpoint(at: try Self.advance(bench, &export))
        try export.finishSealing()
        let manifests = bench.tree(Self.folder).filter { $0.key.hasSuffix(".manifest.json") }
        #expect(manifests.count == 1 && manifests.values.allSatisfy { $0.contains("\"zone\":\"UTC\"") })
    }

    @Test func `the same options close nothing`() throws {
        let bench = try Self.bench()
        for _ in 0..<3 {
            var export = try Export.live(Self.options(version: 1), data: bench.data)
            try export.checkpoint(at: try Self.advance(bench, &export, batchCount: 4))
        }
        #expect(Self.parts(bench).parts == [Part(writers: ["1"], recordCount: 60, version: nil)])
    }

    @Test func `options that come while it runs hold from the next batch on`() throws {
        let bench = try Self.bench()
        let pending = PendingOptions { _, _ in }
        var export = try Export.live(Self.options(version: 1), data: bench.data, pending: pending)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try export.recover().position
        for batch in 0..<Self.batchCount {
            if batch == 3 { pending.put(Self.options(version: 2)) }
            // Of two, the last one counts.
            if batch == 10 { pending.put(Self.options(version: 3)) }
            if batch == 10 { pending.put(Self.options(version: 4)) }
            position = try run.advance(&export, from: position, upTo: bench.end, batchCountMax: 1)
        }
        try export.checkpoint(at: position)
        try export.finishSealing()
        let (parts, ids) = Self.parts(bench)
        #expect(
            parts == [
                Part(writers: ["1"], recordCount: 15, version: "1"),
                Part(writers: ["2"], recordCount: 35, version: "2"),
                Part(writers: ["4"], recordCount: 70, version: nil),
            ])
        #expect(ids.map(String.init) == (0..<120).map(Self.id))
        #expect(export.counts == ExportCounts(exported: 120, refused: 0, held: 0, skipped: 0))
    }

    /// Restarts and reloads with any of four versions, through errors and crashes at every kind of call.
    @Test(arguments: 0..<UInt64(60))
    func `each event is written once, in a part of one version, wherever it crashes`(seed: UInt64) throws {
        let bench = try Self.bench()
        var driver = ProjectionDriver(bench: bench)
        driver.failuresPerMille = seed % 3 == 0 ? 0 : 15
        driver.stepsPerCrash = seed % 3 == 1 ? 0 : 4
        driver.batchCountMax = 2
        var generator = SeededGenerator(seed: seed)
        try driver.run(seed: seed) { () throws(FileSystemError) in
            let pending = PendingOptions { _, _ in }
            pending.put(Self.options(version: Int.random(in: 1...4, using: &generator)))
            return try Export.live(
                Self.options(version: Int.random(in: 1...4, using: &generator)), data: bench.data, pending: pending)
        }
        let (parts, ids) = Self.parts(bench)
        #expect(ids.map(String.init) == (0..<120).map(Self.id))
        for part in parts {
            #expect(part.writers.count <= 1)
            if let version = part.version { #expect(part.writers == [version]) }
        }
        #expect(parts.dropLast().allSatisfy { $0.version != nil })
    }

    @Test func `a version whose content changed is found out, also after another version`() throws {
        let bench = try Self.bench()
        for version in [1, 2] {
            var export = try Export.live(Self.options(version: version), data: bench.data)
            try export.checkpoint(at: try Self.advance(bench, &export, batchCount: 2))
        }
        let history = try ExportHistory(ofExport: "mixpanel", in: bench.data)
        #expect(history.hasMapping)
        var changed = Self.options(version: 1)
        changed.mapping = OperatorMapping(OperatorMapping.Rules(version: 1), path: "mixpanel.yaml")
        #expect(history.conflict(with: Self.options(version: 1)) == nil)
        #expect(history.conflict(with: Self.options(version: 3)) == nil)
        #expect(history.conflict(with: ExportOptions(provider: .mixpanel)) == nil)
        #expect(
            history.conflict(with: changed)
                == "mixpanel.yaml: version 1 had different content when mixpanel was written with it; "
                + "raise version: with every change")
    }

    @Test func `a custom export keeps its format`() throws {
        let bench = try Self.bench()
        var options = ExportOptions(provider: .custom("warehouse"))
        options.custom = CustomOptions(format: .csv, columns: [.init(name: "n", from: "name")])
        var export = try Export.live(options, data: bench.data)
        try export.checkpoint(at: try Self.advance(bench, &export))
        try export.finishSealing()
        #expect(bench.tree("exports/warehouse").keys.contains { $0.hasSuffix("part-00000.csv") })
        let history = try ExportHistory(ofExport: "warehouse", in: bench.data)
        #expect(history.conflict(with: options) == nil)
        options.custom?.format = .ndjson
        #expect(
            history.conflict(with: options)
                == "warehouse was written as csv so far, not as ndjson; give the export another name")
    }
}
