import Testing
import WaybillData
import WaybillExport
import WaybillProjection
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

/// What a start and the closing of parts do with files that were cut, lost or damaged.
@Suite struct ExportDamageTests {
    private typealias Export = ExportProjection<FaultyFiles>

    private static let state = "/data/state/export-mixpanel.state"

    private static func folder(_ day: Int) -> String { "exports/mixpanel/env=prod/date=2026-11-\(day)" }

    /// Every fifth event has no id and is refused; of the last day, every fifth comes hours early and is held.
    private static func line(_ number: Int, day: Int) -> String {
        let id =
            number % 5 == 3
            ? "" : "\"id\":\"01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))\","
        let hour = day == 20 && number % 5 == 4 ? "23" : "09"
        return "{\"v\":1,\(id)\"ts\":\"2026-11-\(day)T\(hour):00:00.000Z\",\"kind\":\"event\",\"name\":\"n\","
            + "\"env\":\"prod\",\"bundle\":\"b\",\"anon\":\"a\"}\n"
    }

    /// Ten events of each of three days.
    private static func write(_ bench: ProjectionBench, from start: Int, at time: Int64 = 0) throws {
        let lines = (start..<start + 30).map { Self.line($0, day: 18 + $0 % 3) }
        try bench.write(
            [(ProjectionBench.description(0), Array(lines.joined().utf8))], at: ProjectionBench.noon + time)
    }

    private static func make(_ bench: ProjectionBench) throws(FileSystemError) -> Export {
        try ExportProjection.live(ExportOptions(provider: .mixpanel), data: bench.data)
    }

    private static func advance(
        _ export: inout Export, _ bench: ProjectionBench, from start: JournalPosition, sealing: Bool = false
    ) throws -> JournalPosition {
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = start
        while position < bench.end { position = try run.advance(&export, from: position, upTo: bench.end) }
        let now = WallTime(milliseconds: ProjectionBench.noon)
        try export.checkpoint(at: position, sealing: sealing ? .everything(now: now) : nil)
        return position
    }

    /// Three sealed days, whose parts are not compressed yet.
    private static func sealed() throws -> (bench: ProjectionBench, position: JournalPosition) {
        let bench = try ProjectionBench()
        try Self.write(bench, from: 0)
        var export = try Self.make(bench)
        let start = try export.recover().position
        return (bench, try Self.advance(&export, bench, from: start, sealing: true))
    }

    private static func entries(_ bench: ProjectionBench) throws -> [String: String] {
        try StateStore(path: bench.data.statePath("export-mixpanel"), files: bench.disk).entries
    }

    private static func names(_ bench: ProjectionBench, _ folder: String) -> Set<String> {
        Set(bench.disk.tree("/data/" + folder).keys.map { String($0.dropFirst(folder.utf8.count + 7)) })
    }

    // MARK: Starts

    @Test func `a late part that was cut is set aside, and what was sealed before stays as it is`() throws {
        let (bench, position) = try Self.sealed()
        var export = try Self.make(bench)
        _ = try export.recover()
        try export.finishSealing()
        let before = bench.disk.tree("/data/" + Self.folder(20))
        let released = HeldRecord.releasedByteCount(of: Self.folder(20), in: try Self.entries(bench))
        #expect(released > 0)
        try Self.write(bench, from: 30)
        _ = try Self.advance(&export, bench, from: position)
        let part = "/data/\(Self.folder(20))/part-00001.ndjson"
        bench.disk.place(part, Array(try #require(bench.disk.bytes(of: part)).dropLast(10)))

        var next = try Self.make(bench)
        let report = try next.recover().report
        #expect(report.contains("part-00001 is damaged") && report.contains("waybill replay"))
        #expect(bench.disk.bytes(of: part) == nil)
        for (path, bytes) in before where !path.hasSuffix("/held") {
            #expect(bench.disk.bytes(of: path) == bytes, "\(path)")
        }
        let entry = try #require(try Self.entries(bench)["part:" + Self.folder(20)])
        #expect(entry.contains("number=2 ") && entry.contains(" revision=1") && entry.contains(" released=\(released)"))
        #expect(entry.contains("dead.mixpanel.no_insert_id=2"))

        // Records that were released once are not released again.
        _ = try Self.advance(&next, bench, from: bench.end, sealing: true)
        try next.finishSealing()
        let ids = bench.tree(Self.folder(20)).filter { $0.key.hasSuffix(".ids") }.values
            .flatMap { $0.split(separator: "\n") }
        #expect(ids.count == Set(ids).count)
        #expect(Self.names(bench, Self.folder(20)).isSuperset(of: ["dead/part-00001.manifest.json", "_SUCCESS"]))
    }

    @Test(arguments: [false, true])
    func `refused events of a sealed day that lost their manifest get it again`(isCompressed: Bool) throws {
        let (bench, _) = try Self.sealed()
        var export = try Self.make(bench)
        _ = try export.recover()
        try export.finishSealing()
        let before = bench.disk.tree("/data/exports")
        let stem = "/data/\(Self.folder(19))/dead/part-00000"
        let lines = try #require(bench.tree(Self.folder(19))["\(Self.folder(19))/dead/part-00000.ndjson"])
        try bench.disk.unlink(stem + ".manifest.json")
        if !isCompressed {
            try bench.disk.unlink(stem + ".ndjson.gz")
            bench.disk.place(stem + ".ndjson", Array(lines.utf8))
        }
        var next = try Self.make(bench)
        #expect(try next.recover().report.contains("had lost its manifest"))
        try next.finishSealing()
        #expect(bench.disk.tree("/data/exports") == before)
    }

    @Test func `refused events that cannot be read are kept and named`() throws {
        let (bench, _) = try Self.sealed()
        var export = try Self.make(bench)
        _ = try export.recover()
        try export.finishSealing()
        let stem = "/data/\(Self.folder(19))/dead/part-00000"
        try bench.disk.unlink(stem + ".manifest.json")
        let cut = Array(try #require(bench.disk.bytes(of: stem + ".ndjson.gz")).dropLast(9))
        bench.disk.place(stem + ".ndjson.gz", cut)
        var next = try Self.make(bench)
        #expect(try next.recover().report.contains("\(Self.folder(19))/dead/part-00000 has no manifest and cannot be"))
        #expect(bench.disk.bytes(of: stem + ".ndjson.gz") == cut)
    }

    @Test func `a part that an older checkpoint continues is set aside whole if its compressed file is damaged`() throws
    {
        let bench = try ProjectionBench()
        try Self.write(bench, from: 0)
        var export = try Self.make(bench)
        var position = try export.recover().position
        position = try Self.advance(&export, bench, from: position)
        let older = try #require(bench.disk.bytes(of: bench.data.statePath("export-mixpanel")))
        _ = try Self.advance(&export, bench, from: position, sealing: true)
        try export.finishSealing()
        let stem = "/data/\(Self.folder(18))/part-00000"
        bench.disk.place(stem + ".ndjson.gz", [0x1F, 0x8B])
        bench.disk.place(stem + ".delivered", [])
        bench.disk.place(bench.data.statePath("export-mixpanel"), older)
        var next = try Self.make(bench)
        let report = try next.recover().report
        #expect(report.contains("after it was sent to the provider"), "\(report)")
        let aside = Self.names(bench, "set-aside/" + Self.folder(18))
        #expect(
            aside.isSuperset(of: ["part-00000.ndjson.gz.1", "part-00000.manifest.json.1", "part-00000.ids.1"]),
            "\(aside)")
        #expect(!Self.names(bench, Self.folder(18)).contains("part-00000.manifest.json"))
    }

    // MARK: Closing

    @Test func `a closed part that cannot be read holds up no other day, and is tried again after a minute`() throws {
        let (bench, position) = try Self.sealed()
        let part = "/data/\(Self.folder(18))/part-00000.ndjson"
        bench.disk.fail(.open, of: part, .error(Errno.inputOutput))
        var export = try Self.make(bench)
        _ = try export.recover()
        while export.isSealing { try export.continueSealing() }
        #expect(export.takeSealed().map(\.path) == [Self.folder(19), Self.folder(20)])
        #expect(export.owedDays == [Self.folder(18)])
        let failures = export.takeFailures()
        #expect(failures.map(\.folder) == [Self.folder(18)])
        let text = try #require(failures.first?.description)
        #expect(text.contains("part-00000") && text.contains("disk-error"))
        #expect(text.hasSuffix("waybill replay --data /data --provider mixpanel --from 2026-11-18 --to 2026-11-18"))
        #expect(export.needsMarks == true)

        bench.disk.clearFaults()
        try export.pass(WallTime(milliseconds: ProjectionBench.noon))
        try export.checkpoint(at: position)
        #expect(export.isSealing == true)
        while export.isSealing { try export.continueSealing() }
        #expect(export.takeSealed().map(\.path) == [Self.folder(18)])
        #expect(export.takeFailures() == [])
        #expect(export.needsMarks == false)
    }

    @Test(arguments: [false, true])
    func `a closed part that is damaged before it is compressed is set aside, and gets no manifest`(isLost: Bool) throws
    {
        let (bench, _) = try Self.sealed()
        let stem = "/data/\(Self.folder(18))/part-00000"
        var bytes = try #require(bench.disk.bytes(of: stem + ".ndjson"))
        bytes[bytes.count / 2] ^= 1
        if isLost { try bench.disk.unlink(stem + ".ndjson") } else { bench.disk.place(stem + ".ndjson", bytes) }
        var export = try Self.make(bench)
        _ = try export.recover()
        var hasFailed = false
        do { try export.finishSealing() } catch { hasFailed = true }
        #expect(hasFailed)
        let failures = export.takeFailures().map(\.description)
        #expect(failures.count == 1 && failures[0].contains("waybill replay"), "\(failures)")
        #expect(failures[0].contains(isLost ? "missing" : "does not match"))
        #expect(Self.names(bench, Self.folder(18)).filter { $0.hasPrefix("part-00000") } == [])
        let aside = bench.disk.bytes(of: "/data/set-aside/\(Self.folder(18))/part-00000.ndjson.1")
        #expect(aside == (isLost ? nil : bytes))
        #expect(try Self.entries(bench).keys.filter { $0.hasPrefix("closed:") } == [])
        #expect(Self.names(bench, Self.folder(19)).contains("part-00000.manifest.json"))
    }

    @Test func `a compressed file that a crash left without a manifest is the part if it is whole`() throws {
        let (bench, _) = try Self.sealed()
        let whole = try bench.copy()
        var other = try Self.make(whole)
        _ = try other.recover()
        try other.finishSealing()
        let stem = "/data/\(Self.folder(18))/part-00000"
        bench.disk.place(stem + ".ndjson.gz", try #require(whole.disk.bytes(of: stem + ".ndjson.gz")))
        try bench.disk.unlink(stem + ".ndjson")
        var export = try Self.make(bench)
        _ = try export.recover()
        try export.finishSealing()
        #expect(bench.disk.tree("/data/exports") == whole.disk.tree("/data/exports"))
    }

    @Test func `when more files wait than may wait for a pause, one call compresses those above that number`() throws {
        let bench = try ProjectionBench()
        for number in 0..<80 {
            let line = Self.line(number * 5, day: 19)
            try bench.write(
                [(ProjectionBench.description(0), Array(line.utf8))],
                at: ProjectionBench.noon + Int64(number) * 1_000_000)
        }
        var export = try Self.make(bench)
        let start = try export.recover().position
        _ = try Self.advance(&export, bench, from: start)
        #expect(export.isSealingUrgent == true)
        try export.continueSealing()
        #expect(export.isSealingUrgent == false)
        #expect(export.isSealing == true)
        try export.finishSealing()
        #expect(Self.names(bench, Self.folder(19)).filter { $0.hasSuffix(".manifest.json") }.count == 79)
    }
}
