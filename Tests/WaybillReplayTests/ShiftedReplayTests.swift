import Testing
import WaybillData
import WaybillExport
import WaybillProjection
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport
@testable import WaybillReplay

/// Lines whose days were too many are in a replay where they are in the receiver's own exports.
@Suite(.serialized) struct ShiftedReplayTests {
    private static let folder = "archive/env=prod/bundle=_overflow/date=2026-11-20"

    private static func line(_ number: Int, _ date: String) -> String {
        "{\"v\":1,\"id\":\"01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))\","
            + "\"ts\":\"\(date)T09:00:00.000Z\",\"kind\":\"event\",\"name\":\"n\",\"env\":\"prod\","
            + "\"bundle\":\"a\",\"anon\":\"a\"}\n"
    }

    /// Received on 2026-11-20: eight batches of a line of that day, one of the day before, and three of other years, of
    /// which the archive keeps two at their days.
    private static func bench() throws -> ProjectionBench {
        let bench = try ProjectionBench()
        try bench.write(
            (0..<8).map { round in
                let lines = (0..<5).map { index in
                    let year = 2000 + round * 3 + index
                    let date = index == 0 ? "2026-11-20" : index == 1 ? "2026-11-19" : "\(year)-02-28"
                    return Self.line(round * 5 + index, date)
                }
                return (ProjectionBench.description(round % 2), Array(lines.joined().utf8))
            })
        var quotas = PartitionQuotas()
        quotas.dayCountMax = 2
        try Self.project(bench, try ArchiveProjection(data: bench.data, zone: .utc, quotas: quotas))
        for provider in [Destination.csv, .segment] {
            try Self.project(bench, try ExportProjection.live(ExportOptions(provider: provider), data: bench.data))
        }
        return bench
    }

    private static func project(
        _ bench: ProjectionBench, _ projection: consuming some Projection & ~Copyable, sealing moment: SealMoment? = nil
    ) throws {
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try projection.recover().position
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        try projection.checkpoint(at: position, sealing: moment)
        while projection.isSealing { try projection.continueSealing() }
    }

    /// The ids of each day, sorted.
    private static func days(_ bench: ProjectionBench, _ root: String, _ provider: Destination) -> [String: [String]] {
        var days: [String: [String]] = [:]
        for (path, bytes) in bench.disk.tree("\(root)/exports/\(provider.rawValue)")
        where path.hasSuffix(".ids") || path.hasSuffix(".ids.gz") {
            let text = path.hasSuffix(".gz") ? ProjectionBench.inflate(bytes) ?? [] : bytes
            let ids = String(decoding: text, as: UTF8.self).split(separator: "\n").map(String.init)
            days[String(Path.parent(of: path).suffix(10)), default: []] += ids
        }
        return days.mapValues { $0.sorted() }
    }

    private static func replay(
        _ bench: ProjectionBench, to output: String?, origin: Replay.Origin = .archive, jobs: Int = 1
    ) throws -> Replay.Report {
        var request = Replay.Request(providers: [.csv, .segment], now: WallTime(milliseconds: ProjectionBench.noon))
        request.output = output
        request.origin = origin
        request.jobCount = jobs
        return try Replayer(dataDirectory: "/data", files: bench.disk, request: request).run()
    }

    @Test func `a replay of the archive or the journal gives the receiver's own exports`() throws {
        let bench = try Self.bench()
        let own = Self.days(bench, "/data", .csv)
        #expect(own.keys.sorted() == ["2002-02-28", "2003-02-28", "2026-11-19", "2026-11-20"])
        #expect(own.values.joined().count == 40)
        for (output, origin, jobs) in [("/a", Replay.Origin.archive, 1), ("/b", .archive, 3), ("/c", .journal, 1)] {
            let report = try Self.replay(bench, to: output, origin: origin, jobs: jobs)
            #expect(report.counts[.csv]?.events.exported == 40)
            for provider in [Destination.csv, .segment] {
                #expect(Self.days(bench, output, provider) == Self.days(bench, "/data", provider))
            }
        }
        // In place, when every day is sealed; and everything agrees for who verifies it.
        let sealing = SealMoment.everything(now: WallTime(milliseconds: ProjectionBench.noon + 86_400_000))
        try Self.project(bench, try ArchiveProjection(data: bench.data, zone: .utc), sealing: sealing)
        #expect(Self.isWhole(bench))
        _ = try Self.replay(bench, to: nil)
        #expect(Self.days(bench, "/data", .csv) == own)
        #expect(Self.isWhole(bench))
    }

    private static func isWhole(_ bench: ProjectionBench) -> Bool {
        var verifier = DataVerifier(data: bench.data)
        let report = verifier.verify()
        return report.problems.isEmpty
    }

    @Test func `a replay of one day has what was received on it`() throws {
        let bench = try Self.bench()
        var request = Replay.Request(providers: [.csv], now: WallTime(milliseconds: ProjectionBench.noon))
        let day = try #require(CalendarDay("2026-11-20"))
        request.range = ExportRange(from: day, to: day)
        request.output = "/day"
        _ = try Replayer(dataDirectory: "/data", files: bench.disk, request: request).run()
        let own = Self.days(bench, "/data", .csv)
        #expect(Self.days(bench, "/day", .csv) == own.filter { $0.key == "2026-11-20" })
    }

    /// Archives of before say `FROM` of such lines, too.
    @Test func `a replay leaves out no line of an archive that does not say which days were too many`() throws {
        let bench = try Self.bench()
        let path = Self.folder + "/part-00001.sources"
        let text = try #require(bench.tree("archive")[path])
        let old = text.split(separator: "\n").map { line in
            guard line.hasPrefix("SHIFTED ") else { return String(line) }
            return "FROM " + line.split(separator: " ").dropFirst().prefix(6).joined(separator: " ")
        }
        // Its length is in the checkpoint: what is missing is an invalid line.
        let bytes = Array((old.joined(separator: "\n") + "\n").utf8)
        bench.disk.memory.place("/data/" + path, bytes)
        let report = try Self.replay(bench, to: "/old")
        #expect(report.counts[.csv]?.events.exported == 40)
        #expect(Self.days(bench, "/old", .csv) == Self.days(bench, "/data", .csv))
    }
}
