import Testing
import WaybillData
import WaybillExport
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport
@testable import WaybillProjection

/// The parts besides sealed days: the quarantine, what was set aside, unsealed days and dead letters; and days that stay
/// until they are delivered.
@Suite struct RetentionPartsTests {
    private static let now = WallTime(text: "2026-11-22T12:00:00.000Z") ?? WallTime(milliseconds: 0)

    private static func line(_ number: Int, day: Int) -> String {
        // Some are refused: Mixpanel takes no event without an id.
        let id =
            number % 5 == 0
            ? "" : "\"id\":\"01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))\","
        return
            "{\"v\":1,\(id)\"ts\":\"2026-11-\(day)T09:00:00.000Z\",\"kind\":\"event\",\"name\":\"n\",\"env\":\"prod\","
            + "\"bundle\":\"b\",\"anon\":\"a\"}\n"
    }

    private static var noonOfTheNineteenth: Int64 { ProjectionBench.noon - 86_400_000 }

    /// Events of November 18 and 19, and lines that are none.
    private static func bench() throws -> ProjectionBench {
        let bench = try ProjectionBench()
        bench.disk.memory.now = Self.noonOfTheNineteenth * 1_000_000
        try bench.write(
            (0..<12).map { batch in
                let lines = (0..<5).map { Self.line(batch * 5 + $0, day: 18 + batch % 2) }
                return (ProjectionBench.description(0), Array((lines.joined() + "no event \(batch)\n").utf8))
            }, at: Self.noonOfTheNineteenth)
        return bench
    }

    private static func settle<P: Projection & ~Copyable>(
        _ projection: inout P, _ bench: ProjectionBench, isSealing: Bool
    ) throws -> JournalPosition {
        var position = try projection.recover().position
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        try projection.checkpoint(
            at: position,
            sealing: isSealing ? .everything(now: WallTime(milliseconds: ProjectionBench.noon)) : nil)
        while projection.isSealing { try projection.continueSealing() }
        return position
    }

    /// The archive with a policy.
    private static func retire(
        _ bench: ProjectionBench, isSealing: Bool = true, at now: WallTime = Self.now,
        _ change: (inout RetentionPolicy) -> Void
    ) throws -> RetentionReport {
        var archive = try ArchiveProjection(data: bench.data, zone: .utc)
        _ = try Self.settle(&archive, bench, isSealing: isSealing)
        var policy = RetentionPolicy()
        change(&policy)
        return try archive.retire(policy, now: now)
    }

    private static func retireExport(
        _ bench: ProjectionBench, isSealing: Bool = true, _ change: (inout RetentionPolicy) -> Void
    ) throws -> RetentionReport {
        var export = try ExportProjection.live(ExportOptions(provider: .mixpanel), data: bench.data)
        _ = try Self.settle(&export, bench, isSealing: isSealing)
        var policy = RetentionPolicy()
        policy.sentExports = ["mixpanel"]
        change(&policy)
        return try export.retire(policy, now: Self.now)
    }

    @Test func `a day of the quarantine goes with its lines counted, and its name can be used again`() throws {
        let bench = try Self.bench()
        #expect(try Self.retire(bench) { $0.quarantine.dayCountMax = 4 } == RetentionReport())
        let report = try Self.retire(bench) { $0.quarantine.dayCountMax = 2 }
        #expect(report.deletions.map(\.path) == ["quarantine/date=2026-11-19"])
        #expect(report.deletions.map(\.lineCount) == [12])
        #expect(report.deletions.map(\.part) == [.quarantine])
        #expect(bench.tree("quarantine").isEmpty)
        #expect(bench.tree("archive").keys.contains { $0.hasSuffix("part-00001.ndjson.gz") })
        try bench.write(
            [(ProjectionBench.description(0), Array("no event at all\n".utf8))], at: Self.noonOfTheNineteenth + 100_000)
        bench.disk.crash(seed: 5)
        _ = try Self.retire(bench) { $0.quarantine.dayCountMax = 30 }
        #expect(bench.tree("quarantine")["quarantine/date=2026-11-19/not-json.ndjson"] == "no event at all\n")
        let record = try #require(bench.tree("archive")["archive/_deleted.ndjson"])
        #expect(record.contains("{\"day\":\"quarantine/date=2026-11-19\",\"lines\":12,"))
    }

    @Test func `the size of the quarantine counts alone`() throws {
        let bench = try Self.bench()
        let report = try Self.retire(bench) { $0.quarantine.byteCountMax = 100 }
        #expect(report.deletions.map { "\($0.path) \($0.reason)" } == ["quarantine/date=2026-11-19 bytes"])
        #expect(try Self.retire(bench) { $0.quarantine.byteCountMax = 100 } == RetentionReport())
    }

    @Test func `files that were set aside go when they were moved long enough ago, whatever their own age is`() throws {
        let bench = try Self.bench()
        bench.disk.memory.now = 1_000_000_000
        bench.disk.place("/data/archive/old.ndjson", Array("content\n".utf8))
        bench.disk.memory.now = Self.now.milliseconds * 1_000_000
        let path = try SetAside(root: "/data", files: bench.disk).move("archive/old.ndjson")
        #expect(try Self.retire(bench) { $0.setAside.dayCountMax = 3 } == RetentionReport())
        let later = WallTime(milliseconds: Self.now.milliseconds + 3 * 86_400_000)
        let report = try Self.retire(bench, at: later) { $0.setAside.dayCountMax = 3 }
        #expect(report.deletions.map(\.path) == [path])
        #expect(report.deletions.map(\.byteCount) == [8])
        #expect(bench.tree("set-aside").isEmpty)
    }

    @Test func `a day that cannot be sealed goes only if its own limit says so`() throws {
        let bench = try Self.bench()
        #expect(try Self.retire(bench, isSealing: false) { $0.dayCountMax = 1 } == RetentionReport())
        #expect(try Self.retire(bench, isSealing: false) { $0.unsealedDayCountMax = 3 } == RetentionReport())
        let kept = try Self.retire(bench, isSealing: false) {
            $0.unsealedDayCountMax = 2
            $0.condition = .delivered
        }
        #expect(kept.deletions == [] && kept.kept.count == 2)
        let report = try Self.retire(bench, isSealing: false) { $0.unsealedDayCountMax = 2 }
        let days = [18, 19].map { "archive/env=prod/bundle=b/date=2026-11-\($0)" }
        #expect(report.deletions.map(\.path) == days)
        #expect(report.deletions.map(\.lineCount) == [30, 30])
        #expect(report.deletions.allSatisfy { $0.part == .unsealed && $0.byteCount > 1000 })
        // What arrives for such a day begins it again.
        let more = Self.line(77, day: 18)
        try bench.write([(ProjectionBench.description(0), Array(more.utf8))], at: Self.noonOfTheNineteenth + 100_000)
        bench.disk.crash(seed: 7)
        _ = try Self.retire(bench, isSealing: false) { _ in }
        let tree = bench.tree("archive").filter { $0.key.hasSuffix(".ndjson") && $0.key.contains("date=") }
        #expect(tree == [days[0] + "/part-00001.ndjson": more])
    }

    @Test func `an overdue late part goes alone, and the sealed part of its day stays`() throws {
        let bench = try Self.bench()
        _ = try Self.retire(bench) { _ in }
        try bench.write(
            [(ProjectionBench.description(0), Array(Self.line(81, day: 18).utf8))], at: ProjectionBench.noon)
        let later = WallTime(milliseconds: Self.now.milliseconds + 3 * 86_400_000)
        let report = try Self.retire(bench, isSealing: false, at: later) { $0.unsealedDayCountMax = 2 }
        let folder = "archive/env=prod/bundle=b/date=2026-11-18"
        #expect(report.deletions.map(\.path) == [folder + "/late-00001.ndjson"])
        #expect(report.deletions.map(\.lineCount) == [1])
        let names = bench.tree("archive").keys.filter { $0.hasPrefix(folder) }.map { Path.name(of: $0) }.sorted()
        #expect(names == ["_SUCCESS", "manifest.json", "part-00001.ndjson.gz", "part-00001.sources"])
    }

    @Test func `a crash at any call of a deletion leaves the whole or nothing of it`() throws {
        let source = try Self.bench()
        _ = try Self.retire(source, isSealing: false) { _ in }
        func retire(_ bench: ProjectionBench) throws {
            _ = try Self.retire(bench, isSealing: false) {
                $0.unsealedDayCountMax = 2
                $0.quarantine.dayCountMax = 2
            }
        }
        var call = 1
        while true {
            let bench = try source.copy()
            bench.disk.stop(atCall: call)
            do { try retire(bench) } catch { #expect(bench.disk.isStopped) }
            if !bench.disk.isStopped { break }
            if call % 2 == 0 { bench.disk.crash(seed: UInt64(call)) } else { bench.disk.kill() }
            try retire(bench)
            #expect(bench.tree("quarantine").isEmpty)
            let tree = bench.tree("archive")
            #expect(tree.keys.allSatisfy { $0 == "archive/_deleted.ndjson" }, "\(tree.keys)")
            let lines = (tree["archive/_deleted.ndjson"] ?? "").split(separator: "\n").filter { $0.hasSuffix("}") }
            #expect(lines.count == 3 && Set(lines).count == 3, "\(lines)")
            call += 1
        }
        #expect(call > 40)
    }

    @Test func `dead letters of sealed days go by their own limit, and the day stays`() throws {
        let bench = try Self.bench()
        let folder = "exports/mixpanel/env=prod/date=2026-11-18"
        #expect(try Self.retireExport(bench, isSealing: false) { $0.dead.dayCountMax = 1 } == RetentionReport())
        let report = try Self.retireExport(bench) { $0.dead.dayCountMax = 3 }
        #expect(report.deletions.map(\.path) == [folder + "/dead/part-00000.ndjson.gz"])
        #expect(report.deletions.map(\.lineCount) == [6])
        let names = Set(bench.tree("exports").keys)
        #expect(!names.contains { $0.hasPrefix(folder + "/dead/") })
        #expect(names.contains(folder + "/_SUCCESS") && names.contains(folder + "/part-00000.ndjson"))
        bench.disk.crash(seed: 3)
        #expect(try Self.retireExport(bench) { $0.dead.dayCountMax = 3 } == RetentionReport())
    }

    @Test func `a day stays until its parts are delivered, and the archive's day with it`() throws {
        let bench = try Self.bench()
        func policy(_ policy: inout RetentionPolicy) {
            policy.dayCountMax = 1
            policy.condition = .delivered
            policy.sentExports = ["mixpanel"]
        }
        // The export has not read anything yet.
        let early = try Self.retire(bench, policy)
        #expect(early.deletions == [] && early.kept.count == 2)
        let undelivered = try Self.retireExport(bench, policy)
        #expect(undelivered.deletions == [])
        #expect(undelivered.kept.map(\.path) == [18, 19].map { "exports/mixpanel/env=prod/date=2026-11-\($0)" })
        #expect(try Self.retire(bench, policy).kept.count == 2)
        func deliver(_ day: Int, _ digest: String? = nil) throws {
            let stem = "exports/mixpanel/env=prod/date=2026-11-\(day)/part-00000"
            let manifest = try #require(bench.tree("exports")[stem + ".manifest.json"])
            let sha256 = try #require(PartManifest(json: Array(manifest.utf8))).sha256
            bench.disk.place("/data/\(stem).delivered", Array("\(digest ?? sha256)\n".utf8))
        }
        // Of another content of the part.
        try deliver(18, String(repeating: "0", count: 64))
        #expect(try Self.retireExport(bench, policy).kept.count == 2)
        try deliver(18)
        // Events of the archive's day may be in the export's next day, by its zone.
        #expect(try Self.retire(bench, policy).kept.count == 2)
        try deliver(19)
        #expect(try Self.retire(bench, policy).deletions.count == 2)
        let delivered = try Self.retireExport(bench, policy)
        #expect(delivered.deletions.count == 2 && delivered.kept == [])
    }

    @Test func `with no space free, days that are not delivered stay and are named`() throws {
        let bench = try Self.bench()
        let report = try Self.retire(bench) {
            $0.freeByteCountMin = .max
            $0.condition = .delivered
            $0.sentExports = ["mixpanel"]
        }
        #expect(report.deletions == [])
        #expect(report.kept.map(\.reason) == [.free, .free])
        #expect(try Self.retire(bench) { $0.freeByteCountMin = .max }.deletions.count == 2)
    }
}
