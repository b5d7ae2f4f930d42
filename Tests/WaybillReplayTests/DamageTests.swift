import Testing
import WaybillData
import WaybillEvent
import WaybillExport
import WaybillProjection
import WaybillProtocol
import WaybillReplay
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

/// Replays, seals and requeues of a data directory with files that are damaged or cannot be read.
@Suite struct DamageTests {
    private static func folder(_ day: Int) -> String { "exports/mixpanel/env=prod/date=2026-11-\(day)" }

    private static func day(_ day: Int) throws -> CalendarDay { try #require(CalendarDay("2026-11-\(day)")) }

    /// Every fourth event has no id and is refused.
    private static func line(_ number: Int, day: Int) -> String {
        let id =
            number % 4 == 3
            ? "" : "\"id\":\"01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))\","
        return "{\"v\":1,\(id)\"ts\":\"2026-11-\(day)T09:00:00.000Z\",\"kind\":\"event\",\"name\":\"n\","
            + "\"env\":\"prod\",\"bundle\":\"b\",\"anon\":\"a\"}\n"
    }

    /// Three hours with eight events each of two days.
    private static func bench() throws -> ProjectionBench {
        let bench = try ProjectionBench()
        for hour in 0..<3 {
            let lines = (0..<16).map { Self.line(hour * 16 + $0, day: 19 + $0 / 8) }
            try bench.write(
                [(ProjectionBench.description(0), Array(lines.joined().utf8))],
                at: ProjectionBench.noon + Int64(hour) * 3_600_000)
        }
        return bench
    }

    private static func archive(_ bench: ProjectionBench) throws {
        var archive = try ArchiveProjection(data: bench.data, zone: .utc)
        try Self.advance(&archive, bench)
        try archive.checkpoint(at: bench.end)
    }

    private static func advance(_ projection: inout some Projection & ~Copyable, _ bench: ProjectionBench) throws {
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try projection.recover().position
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
    }

    private enum End { case open, closed, sealed, compressed }

    private static func export(_ bench: ProjectionBench, _ end: End, keepsRefusedEvents: Bool = false) throws {
        var options = ExportOptions(provider: .mixpanel)
        options.keepsRefusedEvents = keepsRefusedEvents
        options.closeAfter = end == .open ? .seconds(300) : .zero
        var export = try ExportProjection.live(options, data: bench.data)
        try Self.advance(&export, bench)
        if end == .closed { try export.closeAll() }
        let isSealed = end == .sealed || end == .compressed
        try export.checkpoint(
            at: bench.end, sealing: isSealed ? .everything(now: WallTime(milliseconds: ProjectionBench.noon)) : nil)
        if end == .open || end == .compressed { try export.finishSealing() }
    }

    private static func replayer(_ bench: ProjectionBench, days: ClosedRange<Int> = 19...20) throws
        -> Replayer<FaultyFiles>
    {
        var request = Replay.Request(providers: [.mixpanel], now: WallTime(milliseconds: ProjectionBench.noon))
        request.range = ExportRange(from: try Self.day(days.lowerBound), to: try Self.day(days.upperBound))
        return try Replayer(dataDirectory: "/data", files: bench.disk, request: request)
    }

    private static func entries(_ bench: ProjectionBench) throws -> [String: String] {
        try StateStore(path: bench.data.statePath("export-mixpanel"), files: bench.disk).entries
    }

    // MARK: Replays

    @Test(arguments: [19, 20])
    func `a closed part that cannot be read prevents no replay, of its own day or of another`(day: Int) throws {
        let bench = try Self.bench()
        try Self.archive(bench)
        try Self.export(bench, .sealed)
        let part = Self.folder(19) + "/part-00000"
        bench.disk.fail(.open, of: "/data/\(part).ndjson", .error(Errno.inputOutput))
        var notices: [String] = []
        _ = try Self.replayer(bench, days: day...day).run(Replay.Observer(noticed: { notices.append($0) }))
        let entries = try Self.entries(bench)
        #expect((entries["closed:" + part] == nil) == (day == 19))
        #expect((entries["seal:" + Self.folder(19)] == nil) == (day == 19))
        #expect(notices.contains { $0.contains(part) && $0.contains("waybill replay") } == (day == 20))
        let replayed = bench.disk.bytes(of: "/data/\(Self.folder(day))/part-00000.ndjson.gz")
        #expect(replayed.flatMap(ProjectionBench.inflate)?.count { $0 == 0x0A } == 18)

        // What was exchanged comes back as it was, and is closed.
        #expect(try Self.replayer(bench, days: day...day).rollBack() == [Self.folder(day)])
        bench.disk.clearFaults()
        var options = ExportOptions(provider: .mixpanel)
        options.closeAfter = .zero
        var export = try ExportProjection.live(options, data: bench.data)
        _ = try export.recover()
        try export.finishSealing()
        for day in 19...20 {
            for name in ["part-00000.manifest.json", "part-00000.ndjson.gz", "manifest.json", "_SUCCESS"] {
                #expect(bench.disk.bytes(of: "/data/\(Self.folder(day))/\(name)") != nil, "\(day) \(name)")
            }
        }
    }

    @Test func `a day is sealed although a part of another cannot be read, which is named`() throws {
        let bench = try Self.bench()
        try Self.archive(bench)
        try Self.export(bench, .closed)
        bench.disk.fail(.open, of: "/data/\(Self.folder(19))/part-00000.ndjson", .error(Errno.inputOutput))
        let sealer = Sealer(
            dataDirectory: "/data", files: bench.disk, scope: .all, cutOffSecond: 0,
            exports: [ExportOptions(provider: .mixpanel)])
        var sealed: [String] = []
        var notices: [String] = []
        do throws(Replay.Failure) {
            try sealer.run(now: WallTime(milliseconds: ProjectionBench.noon)) { _, day in
                sealed.append(day.path)
            } noticed: {
                notices.append($0)
            }
            Issue.record("a day is not sealed")
        } catch {
            guard case .damagedDays(let days) = error else {
                Issue.record("\(error)")
                return
            }
            #expect(days == [Self.folder(19)])
        }
        #expect(sealed.filter { $0.hasPrefix("exports/") } == [Self.folder(20)])
        #expect(notices.count == 1 && notices[0].contains("part-00000"), "\(notices)")
    }

    @Test func `a replay closes no part by its age`() throws {
        let bench = try Self.bench()
        try Self.archive(bench)
        try Self.export(bench, .open)
        func parts() -> [String] {
            bench.disk.tree("/data/" + Self.folder(20)).keys.filter { $0.hasSuffix(".ids") }
        }
        #expect(parts().count == 3)
        _ = try Self.replayer(bench).run()
        #expect(parts().count == 1)
    }

    @Test func `a part that was sent and is damaged is named, and the replay continues`() throws {
        let bench = try Self.bench()
        try Self.archive(bench)
        try Self.export(bench, .compressed)
        for day in 19...20 { bench.disk.place("/data/\(Self.folder(day))/part-00000.delivered", []) }
        let path = "/data/\(Self.folder(19))/part-00000.ndjson.gz"
        bench.disk.place(path, Array(try #require(bench.disk.bytes(of: path)).dropLast(20)))
        let report = try Self.replayer(bench).run()
        #expect(report.damagedParts == [Self.folder(19) + "/part-00000"])
        #expect(report.counts[.mixpanel]?.partitions == 2)
    }

    // MARK: Refused events

    private static func retake(_ bench: ProjectionBench) throws -> Replay.Retaken {
        try #require(try Self.replayer(bench).retakeRefused().retaken[.mixpanel])
    }

    @Test func `a damaged file of refused events is named, and those of other days are taken`() throws {
        let bench = try Self.bench()
        try Self.archive(bench)
        try Self.export(bench, .compressed)
        let path = "/data/\(Self.folder(19))/dead/part-00000.ndjson.gz"
        let whole = try #require(bench.disk.bytes(of: path))
        bench.disk.place(path, Array(whole.dropLast(20)))
        let report = try Self.retake(bench)
        #expect(report.damagedPaths == [path])
        #expect(report.refused >= 6)
        bench.disk.place(path, whole)
        let again = try Self.retake(bench)
        #expect((again.damagedPaths, again.refused) == ([], 12))
    }
}
