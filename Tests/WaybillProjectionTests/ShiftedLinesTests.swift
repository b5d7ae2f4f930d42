import Testing
import WaybillData
import WaybillExport
import WaybillProjection
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

@Suite struct ShiftedLinesTests {
    private static func description(_ number: Int, _ principal: String) -> StreamDescription {
        var description = ProjectionBench.description(number)
        description.owner = StreamOwner(principal: principal)
        return description
    }

    /// Received on 2026-11-20; `day` is of January 2020, or 0 for the day of receipt.
    private static func line(_ number: Int, day: Int, app: String = "a") -> String {
        let id = "01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))"
        let date = day == 0 ? "2026-11-20" : "2020-01-\(day < 10 ? "0" : "")\(day)"
        return "{\"v\":1,\"id\":\"\(id)\",\"ts\":\"\(date)T09:00:00.000Z\",\"kind\":\"event\","
            + "\"name\":\"n\",\"env\":\"prod\",\"bundle\":\"\(app)\",\"anon\":\"a\"}\n"
    }

    /// Six batches: of `evil` with days that may be too many, and of `good` with days that are not.
    private static func bench() throws -> ProjectionBench {
        let bench = try ProjectionBench()
        let days: [(principal: String, days: [Int])] = [
            ("evil", [0, 1, 2, 3, 4, 1]), ("good", [0, 3]), ("evil", [3, 2, 5]), ("evil", [0, 0]), ("evil", [6, 3, 1]),
            ("good", [7, 0]),
        ]
        var number = 0
        try bench.write(
            days.map { batch in
                let lines = batch.days.map { day in
                    number += 1
                    return Self.line(number, day: day)
                }
                return (
                    Self.description(batch.principal == "evil" ? 1 : 2, batch.principal), Array(lines.joined().utf8)
                )
            }, perGroup: 1)
        return bench
    }

    private static func quotas(_ dayCount: Int) -> PartitionQuotas {
        var quotas = PartitionQuotas()
        quotas.dayCountMaxOfPrincipals = ["evil": dayCount]
        return quotas
    }

    /// Projects so many batches, or all, from the checkpoint on, and makes a checkpoint.
    private static func project(
        _ projection: inout some Projection & ~Copyable, _ bench: ProjectionBench, batchCount: Int = .max
    ) throws {
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try projection.recover().position
        var count = 0
        while position < bench.end, count < batchCount {
            position = try run.advance(&projection, from: position, upTo: bench.end, batchCountMax: 1)
            count += 1
        }
        try projection.checkpoint(at: position)
    }

    private static func archive(
        _ bench: ProjectionBench, days: Int, batchCount: Int = .max
    ) throws {
        var archive = try ArchiveProjection(data: bench.data, zone: .utc, quotas: Self.quotas(days))
        try Self.project(&archive, bench, batchCount: batchCount)
    }

    private static func export(_ bench: ProjectionBench, batchCount: Int = .max) throws {
        var export = try ExportProjection.live(ExportOptions(provider: .csv), data: bench.data)
        try Self.project(&export, bench, batchCount: batchCount)
    }

    /// By day: the last digits of the ids, in order.
    private static func days(of bench: ProjectionBench, _ folder: String = "exports/csv") -> [String: [String]] {
        var days: [String: [String]] = [:]
        for (path, text) in bench.tree(folder).sorted(by: { $0.key < $1.key }) where path.hasSuffix(".ids") {
            let date = String(Path.parent(of: path).suffix(10))
            days[date, default: []] += text.split(separator: "\n").map { String($0.suffix(2)) }
        }
        return days
    }

    private static let expected = [
        "2020-01-01": ["02", "06", "10"], "2020-01-02": ["03", "0a"], "2020-01-03": ["08"], "2020-01-07": ["11"],
        // The others' own days were too many.
        "2026-11-20": ["01", "04", "05", "07", "09", "0b", "0c", "0d", "0e", "0f", "12"],
    ]

    @Test func `days that are too many are one day of exports, and of no one else`() throws {
        let bench = try Self.bench()
        try Self.archive(bench, days: 2)
        try Self.export(bench)
        #expect(Self.days(of: bench) == Self.expected)
        let sources = try #require(
            bench.tree("archive")["archive/env=prod/bundle=_overflow/date=2026-11-20/part-00001.sources"])
        #expect(sources.split(separator: "\n").filter { $0.hasPrefix("SHIFTED ") }.count == 4)
        let folders = Set(bench.tree("archive").keys.map { Path.parent(of: $0) })
        #expect(folders.count == 6)
    }

    @Test func `exports that share what was parsed have the same days`() throws {
        let bench = try Self.bench()
        try Self.archive(bench, days: 2)
        var export = try ExportProjection.live(ExportOptions(provider: .csv), data: bench.data)
        let start = try export.recover().position
        var reader = BatchReader(journalDirectory: bench.data.journal, position: start, files: bench.disk)
        let parse = SharedParse()
        while var batch = try reader.next(upTo: bench.end) {
            parse.parse(batch)
            batch.parse = parse
            try export.project(batch)
        }
        try export.checkpoint(at: bench.end)
        #expect(Self.days(of: bench) == Self.expected)
    }

    /// The quota is 2, then 50, then 1: what was decided stays, for an export that follows and for one that comes later.
    @Test func `what was decided holds whatever the quota is later`() throws {
        let bench = try Self.bench()
        for (batchCount, days) in [(1, 2), (2, 50), (1, 1), (2, 2)] {
            try Self.archive(bench, days: days, batchCount: batchCount)
            try Self.export(bench, batchCount: batchCount)
        }
        let followed = Self.days(of: bench)
        // Refused first, granted with 50, and still written with 1.
        #expect(followed["2020-01-03"] == ["08", "09", "0f"])
        #expect(followed["2020-01-05"] == ["0b"])
        #expect(followed["2020-01-06"] == nil)
        #expect(followed.values.joined().count == 18)
        let again = try bench.copy()
        try again.disk.removeTree("/data/exports")
        for path in StateImage.paths(again.data.statePath("export-csv"))
        where try again.disk.status(at: path) != nil {
            try again.disk.unlink(path)
        }
        try Self.archive(again, days: 9)
        try Self.export(again)
        #expect(Self.days(of: again) == followed)
    }

    /// As two mergers, of which one is started again behind each batch.
    @Test func `who starts again decides as who does not`() throws {
        let straight = try Self.bench()
        try Self.archive(straight, days: 2)
        let broken = try Self.bench()
        for _ in 0..<8 { try Self.archive(broken, days: 2, batchCount: 1) }
        let lines = { (bench: ProjectionBench) in bench.tree("archive").filter { $0.key.hasSuffix(".ndjson") } }
        #expect(lines(broken) == lines(straight))
    }

    @Test func `it is decided once a checkpoint has it`() throws {
        let bench = try Self.bench()
        var archive = try ArchiveProjection(data: bench.data, zone: .utc, quotas: Self.quotas(2))
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try archive.recover().position
        var undecided: [Bool] = []
        for _ in 0..<6 {
            let start = position
            position = try run.advance(&archive, from: position, upTo: bench.end, batchCountMax: 1)
            undecided.append(archive.undecided != nil)
            if let first = archive.undecided { #expect(start <= first && first < position) }
            try archive.checkpoint(at: position)
            #expect(archive.undecided == nil)
        }
        // The fourth has lines of the day of receipt alone.
        #expect(undecided == [true, true, true, false, true, true])
    }

    @Test func `days are counted anew on the next day of receipt`() throws {
        let bench = try ProjectionBench()
        for day in 0..<3 {
            try bench.write(
                [
                    (
                        Self.description(1, "evil"),
                        Array((1...3).map { Self.line(day * 10 + $0, day: day * 3 + $0) }.joined().utf8)
                    )
                ], at: ProjectionBench.noon + Int64(day) * 86_400_000)
            try Self.archive(bench, days: 2)
        }
        try Self.export(bench)
        #expect(
            Self.days(of: bench).keys.sorted() == [
                "2020-01-01", "2020-01-02", "2020-01-04", "2020-01-05", "2020-01-07", "2020-01-08", "2026-11-20",
                "2026-11-21", "2026-11-22",
            ])
        let state = try #require(try StateImage.read(bench.data.statePath("archive"), files: bench.disk))
        #expect(
            state.entries.keys.filter { $0.hasPrefix("granted:") }.sorted() == [
                "granted:evil/prod/a/2020-01-07", "granted:evil/prod/a/2020-01-08",
            ])
    }

    /// A merged journal has one receiver's batches of today before another's of yesterday.
    @Test func `batches in no order of their days give no one more days`() throws {
        let bench = try ProjectionBench()
        for (number, day) in [0, -1, 0, -7, 0].enumerated() {
            let lines = (1...3).map { Self.line(number * 10 + $0, day: number * 3 + $0) }
            try bench.write(
                [(Self.description(1, "evil"), Array(lines.joined().utf8))],
                at: ProjectionBench.noon + Int64(day) * 86_400_000)
            try Self.archive(bench, days: 2)
        }
        try Self.export(bench)
        #expect(
            Self.days(of: bench).keys.sorted() == [
                "2020-01-01", "2020-01-02", "2026-11-13", "2026-11-19", "2026-11-20",
            ])
        // A day long before: the clock that said the newest one was wrong.
        try bench.write(
            [(Self.description(1, "evil"), Array(Self.line(90, day: 30).utf8))],
            at: ProjectionBench.noon - 8 * 86_400_000)
        try Self.archive(bench, days: 2)
        try Self.export(bench)
        #expect(Self.days(of: bench)["2020-01-30"] == ["5a"])
    }

    /// An archive that goes back to its checkpoint writes its last entries again, with other numbers.
    @Test func `a file that was cut and written again is read from its beginning`() throws {
        let bench = try Self.bench()
        try Self.archive(bench, days: 0)
        let path = "archive/env=prod/bundle=_overflow/date=2026-11-20/part-00001.sources"
        let text = try #require(bench.tree("archive")[path])
        var shifted = ShiftedLines(root: "/data", files: bench.disk)
        var reader = BatchReader(journalDirectory: bench.data.journal, position: JournalPosition(0), files: bench.disk)
        var found: [ShiftedRanges] = []
        while let batch = try reader.next(upTo: bench.end) {
            found.append(try shifted.ranges(of: batch))
            let opened = text.split(separator: "\n", omittingEmptySubsequences: false).first ?? ""
            bench.disk.memory.place(
                "/data/" + path, Array((String(repeating: "\(opened)\n", count: found.count) + text).utf8))
        }
        #expect(found.map { $0 == .none } == [false, true, false, true, false, true])
    }

    @Test func `a line is shifted where a range has its beginning`() {
        let ranges = ShiftedRanges([10..<20, 20..<25, 40..<41])
        #expect((0..<60).filter { ranges.contains($0) } == Array(10..<25) + [40])
        #expect(!ShiftedRanges.none.contains(0))
        #expect(ShiftedRanges.all.contains(1 << 53))
    }
}
