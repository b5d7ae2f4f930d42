import Testing
import WaybillData
import WaybillExport
import WaybillProjection
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

/// Parts that close by age, as the journal's clock says.
@Suite struct ExportAgeTests {
    private typealias Export = ExportProjection<FaultyFiles>

    private static let folder = "exports/mixpanel/env=prod/date=2026-11-20"
    private static let minute: Int64 = 60_000

    private static func options(_ closeAfter: Duration = .seconds(300)) -> ExportOptions {
        var options = ExportOptions(provider: .mixpanel)
        options.closeAfter = closeAfter
        return options
    }

    private static func line(_ number: Int, id: Bool = true) -> String {
        let id = id ? "\"id\":\"01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))\"," : ""
        return "{\"v\":1,\(id)\"ts\":\"2026-11-20T09:00:00.000Z\",\"kind\":\"event\",\"name\":\"n\",\"env\":\"prod\","
            + "\"bundle\":\"b\",\"anon\":\"a\"}\n"
    }

    /// A journal with one event at each time, which is counted from noon; `nil` is an unknown one.
    private static func bench(_ times: [Int64?], mark: Int64? = nil) throws -> ProjectionBench {
        let bench = try ProjectionBench()
        for (number, time) in times.enumerated() {
            try bench.write(
                [(ProjectionBench.description(0), Array(Self.line(number).utf8))],
                at: time.map { ProjectionBench.noon + $0 } ?? WallTime.unknown.milliseconds)
        }
        if let mark { try bench.mark(at: ProjectionBench.noon + mark) }
        return bench
    }

    private static func finish(
        _ bench: ProjectionBench, _ options: ExportOptions = Self.options(), perCheckpoint count: Int = 64
    ) throws {
        var export = try Export.live(options, data: bench.data)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try export.recover().position
        while position < bench.end {
            position = try run.advance(&export, from: position, upTo: bench.end, batchCountMax: count)
            try export.checkpoint(at: position)
        }
        try export.finishSealing()
    }

    /// The numbers of the events in each part, and whether it is closed.
    private static func parts(_ bench: ProjectionBench) -> [(numbers: [Int], isClosed: Bool)] {
        let tree = bench.tree(Self.folder)
        return tree.keys.filter { $0.hasSuffix(".ids") }.sorted().map { path in
            let numbers = (tree[path] ?? "").split(separator: "\n").compactMap { Int($0.suffix(12), radix: 16) }
            return (numbers, tree[path.dropLast(4) + ".manifest.json"] != nil)
        }
    }

    private static func expect(
        _ bench: ProjectionBench, closed: [[Int]], open: [Int], _ location: SourceLocation = #_sourceLocation
    ) {
        let parts = Self.parts(bench)
        #expect(parts.filter(\.isClosed).map(\.numbers) == closed, sourceLocation: location)
        #expect(parts.filter { !$0.isClosed }.flatMap(\.numbers) == open, sourceLocation: location)
    }

    @Test func `a part takes what is received in five minutes from its first record on`() throws {
        let bench = try Self.bench([0, 4 * Self.minute, 5 * Self.minute - 1, 5 * Self.minute, 9 * Self.minute])
        try Self.finish(bench)
        Self.expect(bench, closed: [[0, 1, 2]], open: [3, 4])
    }

    @Test func `a time alone in the journal closes a part, once it is past it`() throws {
        let early = try Self.bench([0, 1000], mark: 5 * Self.minute - 1)
        try Self.finish(early)
        Self.expect(early, closed: [], open: [0, 1])
        try early.mark(at: ProjectionBench.noon + 5 * Self.minute)
        try Self.finish(early)
        Self.expect(early, closed: [[0, 1]], open: [])
        let entries = try StateStore(path: early.data.statePath("export-mixpanel"), files: early.disk).entries
        #expect(OpenPart.all(in: entries).isEmpty)
    }

    @Test func `every open part of any day and environment is closed by the same time`() throws {
        let bench = try ProjectionBench()
        let other = Self.line(1).replacing("\"prod\"", with: "\"dev\"")
        try bench.write(
            [(ProjectionBench.description(0), Array((Self.line(0) + other).utf8))], at: ProjectionBench.noon)
        try bench.write(
            [(ProjectionBench.description(0), Array(Self.line(2).utf8))], at: ProjectionBench.noon + 6 * Self.minute)
        try Self.finish(bench)
        Self.expect(bench, closed: [[0]], open: [2])
        let closed = bench.tree("exports").keys.filter { $0.hasSuffix(".manifest.json") }.sorted()
        #expect(closed.map { $0.split(separator: "/")[2] } == ["env=dev", "env=prod"])
    }

    @Test func `without an age only full parts are closed`() throws {
        let bench = try Self.bench([0, 60 * Self.minute], mark: 24 * 60 * Self.minute)
        try Self.finish(bench, Self.options(.zero))
        Self.expect(bench, closed: [], open: [0, 1])
        #expect(ExportOptions(provider: .ga4).closeAfter == .seconds(300))
        #expect(ExportOptions(provider: .csv).closeAfter == .zero)
    }

    @Test func `a stop of an hour ends the part that was open before it, whenever it starts again`() throws {
        let bench = try Self.bench([0, Self.minute])
        try Self.finish(bench)
        Self.expect(bench, closed: [], open: [0, 1])
        try bench.write(
            [(ProjectionBench.description(0), Array(Self.line(2).utf8))], at: ProjectionBench.noon + 62 * Self.minute)
        try Self.finish(bench)
        Self.expect(bench, closed: [[0, 1]], open: [2])
        // The age of an open part outlives a start.
        try bench.write(
            [(ProjectionBench.description(0), Array(Self.line(3).utf8))],
            at: ProjectionBench.noon + 67 * Self.minute - 1)
        try Self.finish(bench)
        try bench.write(
            [(ProjectionBench.description(0), Array(Self.line(4).utf8))], at: ProjectionBench.noon + 67 * Self.minute)
        try Self.finish(bench)
        Self.expect(bench, closed: [[0, 1], [2, 3]], open: [4])
    }

    @Test func `a clock that jumps ahead ends a part, and one that is set back ends it too`() throws {
        let year = 365 * 24 * 60 * Self.minute
        let bench = try Self.bench([0, year, year + 1, 1000, 2000])
        try Self.finish(bench)
        Self.expect(bench, closed: [[0], [1, 2]], open: [3, 4])
    }

    @Test func `while the time is unknown no part ends by age`() throws {
        let bench = try Self.bench([0, nil, nil, 4 * Self.minute, nil, 5 * Self.minute, 5 * Self.minute + 1])
        try Self.finish(bench)
        Self.expect(bench, closed: [[0, 1, 2, 3, 4]], open: [5, 6])
        // A part that began at an unknown time ends with the first known one.
        let unknown = try Self.bench([nil, nil])
        try Self.finish(unknown)
        Self.expect(unknown, closed: [], open: [0, 1])
        let standing = try StateStore(path: unknown.data.statePath("export-mixpanel"), files: unknown.disk).entries
        #expect(OpenPart.all(in: standing).map(\.receivedAt) == [nil])
        try unknown.mark(at: ProjectionBench.noon)
        try Self.finish(unknown)
        Self.expect(unknown, closed: [[0, 1]], open: [])
    }

    @Test func `an event that is refused counts for the part that is open by then`() throws {
        let bench = try Self.bench([0])
        try bench.write(
            [(ProjectionBench.description(0), Array(Self.line(1, id: false).utf8))],
            at: ProjectionBench.noon + 6 * Self.minute)
        try bench.write(
            [(ProjectionBench.description(0), Array(Self.line(2).utf8))], at: ProjectionBench.noon + 7 * Self.minute)
        try bench.mark(at: ProjectionBench.noon + 12 * Self.minute)
        try Self.finish(bench)
        Self.expect(bench, closed: [[0], [2]], open: [])
        let tree = bench.tree(Self.folder)
        let refused = "\"dead\":{\"mixpanel.no_insert_id\":1}"
        #expect(tree[Self.folder + "/part-00000.manifest.json"]?.contains("\"dead\":{}") == true)
        #expect(tree[Self.folder + "/part-00001.manifest.json"]?.contains(refused) == true)
    }

    @Test func `the tally counts the records of open parts, and knows the oldest`() throws {
        let bench = try Self.bench([0, 5 * Self.minute, 6 * Self.minute])
        var export = try Export.live(Self.options(), data: bench.data)
        #expect(export.needsMarks == false)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try export.recover().position
        while position < bench.end { position = try run.advance(&export, from: position, upTo: bench.end) }
        try export.checkpoint(at: position)
        let oldest = WallTime(milliseconds: ProjectionBench.noon + 5 * Self.minute)
        #expect(export.tally.openRecordCount == 2 && export.tally.oldestOpen == oldest)
        #expect(export.needsMarks == true)
        _ = try export.recover()
        #expect(export.tally.openRecordCount == 2 && export.tally.oldestOpen == oldest)
        #expect(export.needsMarks == true)
        try export.pass(WallTime(milliseconds: ProjectionBench.noon + 10 * Self.minute))
        #expect(export.tally.openRecordCount == 0 && export.tally.oldestOpen == nil)
        #expect(export.needsMarks == false)
    }

    /// Two hundred events at random distances, now and then with a time alone between them.
    private static func randomBench(seed: UInt64, hasMarks: Bool) throws -> ProjectionBench {
        var generator = SeededGenerator(seed: seed)
        let bench = try ProjectionBench()
        var time = ProjectionBench.noon
        for number in 0..<80 {
            let isUnknown = Int.random(in: 0..<8, using: &generator) == 0
            let text = Self.line(number, id: number % 9 != 4)
            try bench.write(
                [(ProjectionBench.description(number % 2), Array(text.utf8))],
                at: isUnknown ? WallTime.unknown.milliseconds : time)
            let step = Int64.random(in: 1...150_000, using: &generator)
            if hasMarks, step > 60_000 { try bench.mark(at: time + 60_000) }
            time += step
        }
        try bench.mark(at: time + 10 * Self.minute)
        return bench
    }

    @Test(arguments: 0..<UInt64(12))
    func `crashes, errors, checkpoints and times alone change no part`(seed: UInt64) throws {
        let plain = try Self.randomBench(seed: seed, hasMarks: false)
        try Self.finish(plain)
        let expected = plain.tree("exports")
        #expect(Self.parts(plain).count > 3 && Self.parts(plain).allSatisfy(\.isClosed))
        let marked = try Self.randomBench(seed: seed, hasMarks: true)
        try Self.finish(marked, perCheckpoint: 1)
        #expect(marked.tree("exports") == expected)
        let bench = try Self.randomBench(seed: seed, hasMarks: true)
        var driver = ProjectionDriver(bench: bench)
        driver.failuresPerMille = seed % 4 == 0 ? 0 : 12
        driver.stepsPerCrash = seed % 4 == 1 ? 0 : 5
        try driver.run(seed: seed) { () throws(FileSystemError) in
            try Export.live(Self.options(), data: bench.data)
        }
        #expect(bench.tree("exports") == expected)
        bench.disk.crash(seed: seed)
        try Self.finish(bench)
        #expect(bench.tree("exports") == expected)
    }

    /// An open part in a checkpoint, and a time in the journal that ends it.
    private static func benchBeforeClosing() throws -> ProjectionBench {
        let bench = try Self.bench([0, 1000, 2000])
        try Self.finish(bench)
        try bench.mark(at: ProjectionBench.noon + 6 * Self.minute)
        return bench
    }

    @Test(arguments: [false, true])
    func `a death at any call of closing leaves one whole part`(isPowerCut: Bool) throws {
        let source = try Self.benchBeforeClosing()
        let whole = try source.copy()
        try Self.finish(whole)
        let expected = whole.tree("exports")
        var call = 1
        while true {
            let bench = try source.copy()
            bench.disk.stop(atCall: call)
            do { try Self.finish(bench) } catch { #expect(bench.disk.isStopped) }
            if !bench.disk.isStopped { break }
            if isPowerCut { bench.disk.crash(seed: UInt64(call)) } else { bench.disk.kill() }
            // A reader between two starts finds each record once, wherever it is.
            try Self.expectReadable(bench)
            try Self.finish(bench)
            #expect(bench.tree("exports") == expected, "call \(call)")
            #expect(bench.disk.tree("/data/exports").keys.filter { $0.hasSuffix(".tmp") } == [], "call \(call)")
            call += 1
        }
        #expect(call > 30)
    }

    /// Where a manifest names the compressed file, it is whole; else the records are in the other one.
    private static func expectReadable(_ bench: ProjectionBench) throws {
        let stem = "/data/\(Self.folder)/part-00000"
        let manifest = bench.disk.bytes(of: stem + ".manifest.json").flatMap(PartManifest.init(json:))
        let bytes = try StoredBytes(
            path: stem + ".ndjson", isCompressed: manifest?.gzipSHA256 != nil, files: bench.disk)
        var digest = SHA256Digest()
        var lineCount = 0
        try bytes.visit { piece in
            digest.update(piece)
            lineCount += piece.count { $0 == 0x0A }
        }
        #expect(lineCount == 3)
        if let manifest { #expect(digest.finish() == manifest.sha256) }
    }

    @Test func `an error at any call of closing leaves one whole part`() throws {
        let source = try Self.benchBeforeClosing()
        let whole = try source.copy()
        try Self.finish(whole)
        let expected = whole.tree("exports")
        for fault in [FaultyFiles.Fault.error(Errno.inputOutput), .half(Errno.noSpace), .short] {
            var call = 1
            while true {
                let bench = try source.copy()
                bench.disk.fail(call: call, fault)
                do { try Self.finish(bench) } catch { try Self.finish(bench) }
                #expect(bench.tree("exports") == expected, "\(fault) at call \(call)")
                if bench.disk.faultCount == 0 { break }
                call += 1
            }
            #expect(call > 30)
        }
    }

    @Test func `a checkpoint from before a part was closed and compressed continues the part`() throws {
        let bench = try Self.benchBeforeClosing()
        let state = bench.data.statePath("export-mixpanel")
        let older = try #require(bench.disk.bytes(of: state))
        try Self.finish(bench)
        let expected = bench.tree("exports")
        bench.disk.place(state, older)
        // Without the beginning of the journal nothing but the compressed file has the records.
        let names = try bench.disk.list(bench.data.journal)
        if names.count > 1 { try bench.disk.unlink(Path.join(bench.data.journal, names[0])) }
        try Self.finish(bench)
        #expect(bench.tree("exports") == expected)
    }

    @Test func `compressing continues in small steps, between which the projection writes`() throws {
        let bench = try ProjectionBench()
        let text = (0..<1999).map { Self.line($0) }.joined()
        try bench.write([(ProjectionBench.description(0), Array(text.utf8))], at: ProjectionBench.noon)
        try bench.write(
            [(ProjectionBench.description(0), Array(Self.line(1999).utf8))], at: ProjectionBench.noon + 6 * Self.minute)
        var export = try Export.live(Self.options(), data: bench.data)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try export.recover().position
        while position < bench.end { position = try run.advance(&export, from: position, upTo: bench.end) }
        try export.checkpoint(at: position)
        #expect(export.isSealing == true)
        #expect(export.mayBeginSeals == true)
        #expect(export.isSealingUrgent == false)
        #expect(bench.disk.bytes(of: "/data/\(Self.folder)/part-00000.manifest.json") == nil)
        try bench.write(
            [(ProjectionBench.description(0), Array(Self.line(2000).utf8))], at: ProjectionBench.noon + 7 * Self.minute)
        while position < bench.end { position = try run.advance(&export, from: position, upTo: bench.end) }
        try export.checkpoint(at: position, sealing: .everything(now: WallTime(milliseconds: ProjectionBench.noon)))
        // The day's manifest waits for those of its parts.
        #expect(export.takeSealed() == [])
        try export.continueSealing()
        #expect(export.isSealing == true)
        #expect(export.takeSealed() == [])
        try export.continueSealing()
        #expect(export.isSealing == false)
        #expect(export.takeSealed().map(\.revision) == [1])
        Self.expect(bench, closed: [Array(0..<1999), [1999, 2000]], open: [])
    }
}
