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

/// Refused events that are exported after all, each once, beside what was sent.
@Suite struct RefusedTests {
    private static let folder = "exports/ga4/env=prod/date=2026-11-17"
    private static let count = 12

    /// Of every four events of a day, the first was more than 72 hours old when it came.
    private static func line(_ number: Int, user: String) -> String {
        let hour = number % 4 == 0 ? "09" : "15"
        return #"{"v":1,"id":"\#(Self.id(number))","ts":"2026-11-17T\#(hour):00:00.000Z","kind":"event","name":"n","#
            + #""env":"prod","bundle":"b","user":"\#(user)","ids":{"ga4":"0a1b2c3d4e5f60718293a4b5c6d7e8f9"}}"# + "\n"
    }

    private static func id(_ number: Int) -> String {
        "01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))"
    }

    private static let refused = Set((0..<count).filter { $0 % 4 == 0 }.map(Self.id))
    private static let accepted = Set((0..<count).filter { $0 % 4 != 0 }.map(Self.id))

    private static func options(_ tooOld: GA4Options.TooOld) -> ExportOptions {
        var options = ExportOptions(provider: .ga4)
        options.ga4.tooOld = tooOld
        return options
    }

    /// Archives and exports the events; a sealed day counts as sent.
    private static func bench(isSealed: Bool = true, poison: Int? = nil) throws -> ProjectionBench {
        let bench = try ProjectionBench()
        try bench.write(
            (0..<3).map { batch in
                let lines = (0..<4).map { Self.line(batch * 4 + $0, user: "u-\($0 % 2)-\(batch)") }
                return (ProjectionBench.description(batch), Array(lines.joined().utf8))
            })
        if let poison {
            let line = PoisonedLine(
                reader: PoisonOffsets.exports, stream: ProjectionBench.description(0).name, offset: UInt64(poison),
                byteCount: 10, signal: 11, version: "0.0.9", at: .unknown)
            #expect(try PoisonedLines.add(line, in: bench.data) != nil)
        }
        var archive = try ArchiveProjection(data: bench.data, zone: .utc)
        try Self.settle(&archive, bench, isSealed: isSealed)
        while archive.isSealing { try archive.continueSealing() }
        var export = try ExportProjection.live(Self.options(.reject), data: bench.data)
        try Self.settle(&export, bench, isSealed: isSealed)
        try export.finishSealing()
        if isSealed { bench.disk.place("/data/\(Self.folder)/part-00000.delivered", []) }
        return bench
    }

    private static func settle(
        _ projection: inout some Projection & ~Copyable, _ bench: ProjectionBench, isSealed: Bool
    ) throws {
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try projection.recover().position
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        let now = WallTime(milliseconds: ProjectionBench.noon + 9_000_000)
        try projection.checkpoint(at: position, sealing: isSealed ? .everything(now: now) : nil)
    }

    private static func replayer(_ bench: ProjectionBench, _ tooOld: GA4Options.TooOld) throws -> Replayer<FaultyFiles>
    {
        var request = Replay.Request(providers: [.ga4], now: WallTime(milliseconds: ProjectionBench.noon + 10_000_000))
        request.options[.ga4] = Self.options(tooOld)
        request.resending = .allowed
        return try Replayer(dataDirectory: "/data", files: bench.disk, request: request)
    }

    private static func retake(
        _ bench: ProjectionBench, _ tooOld: GA4Options.TooOld = .clamp, readingPoisonBefore version: String? = nil
    ) throws -> Replay.Retaken {
        let report = try Self.replayer(bench, tooOld).retakeRefused(
            readingPoisonBefore: version.flatMap { ProgramVersion($0) })
        return try #require(report.retaken[.ga4])
    }

    /// The ids in a part, or in all.
    private static func ids(_ bench: ProjectionBench, part: String = "part-") -> [String] {
        let tree = bench.tree(Self.folder).filter { $0.key.hasSuffix(".ids") && $0.key.contains(part) }
        return tree.values.flatMap { $0.split { $0 == "\n" || $0 == "," }.map(String.init) }.sorted()
    }

    private static func problems(_ bench: ProjectionBench, _ tooOld: GA4Options.TooOld = .clamp) -> [Problem] {
        var verifier = DataVerifier(data: bench.data, exports: [Self.options(tooOld)])
        // The mark of the sent part has no delivery's state.
        return verifier.verify().problems.filter { !$0.path.hasSuffix(".delivered") && !$0.path.contains("deliver-") }
    }

    @Test func `they are a late part beside the one that was sent, of which nothing changes`() throws {
        let bench = try Self.bench()
        let before = bench.tree(Self.folder)
        let report = try Self.retake(bench)
        #expect((report.letters, report.exported, report.parts) == (3, 3, [Self.folder + "/part-00001"]))
        let after = bench.tree(Self.folder)
        for (path, text) in before where Path.name(of: path) != ".standing" {
            #expect(after[path] == text, "\(path) changed")
        }
        #expect(Set(Self.ids(bench, part: "part-00001")) == Self.refused)
        #expect(after[Self.folder + "/part-00001.manifest.json"]?.contains("\"late\":true") ?? false)
        #expect(after[Self.folder + "/part-00001.delivered"] == nil)
        #expect(Self.problems(bench) == [])
        let again = try Self.retake(bench)
        #expect((again.letters, again.takenBefore, again.parts) == (0, 3, []))
        #expect(bench.tree(Self.folder) == after)
        // The next seal adds it to the day.
        var export = try ExportProjection.live(Self.options(.clamp), data: bench.data)
        try Self.settle(&export, bench, isSealed: true)
        try export.finishSealing()
        let manifest = bench.tree(Self.folder)[Self.folder + "/manifest.json"] ?? ""
        #expect(manifest.contains("\"events\":12") && manifest.contains("part-00001.ndjson.gz"), "\(manifest)")
        #expect(Self.problems(bench) == [])
    }

    @Test func `what is still refused changes nothing, and can be taken later`() throws {
        let bench = try Self.bench()
        let before = bench.tree(Self.folder)
        let report = try Self.retake(bench, .reject)
        #expect((report.letters, report.exported, report.refused, report.parts) == (3, 0, 3, []))
        #expect(bench.tree(Self.folder) == before)
        #expect(Self.problems(bench, .reject) == [])
        #expect(try Self.retake(bench).exported == 3)
    }

    @Test(arguments: [false, true])
    func `a crash at any call leaves each event once`(isSealed: Bool) throws {
        try Self.bench(isSealed: isSealed).crash(stride: 3) { bench in
            _ = try Self.retake(bench)
        } check: { bench, call in
            let report = try Self.retake(bench)
            #expect(report.exported + report.takenBefore == 3, "call \(call)")
            #expect(Self.ids(bench) == Self.refused.union(Self.accepted).sorted(), "call \(call)")
            #expect(Self.problems(bench) == [], "call \(call)")
        }
    }

    @Test func `a new generation has them once, and a roll-back brings back what was taken`() throws {
        let bench = try Self.bench()
        #expect(try Self.retake(bench).exported == 3)
        _ = try Self.replayer(bench, .clamp).run()
        #expect(Self.ids(bench) == Self.refused.union(Self.accepted).sorted())
        let made = try Self.retake(bench)
        #expect((made.letters, made.takenBefore) == (0, 0))
        #expect(Self.problems(bench) == [])
        _ = try Self.replayer(bench, .clamp).rollBack()
        let back = try Self.retake(bench)
        #expect((back.letters, back.takenBefore) == (0, 3))
        #expect(Self.ids(bench) == Self.refused.union(Self.accepted).sorted())
        #expect(Self.problems(bench) == [])
    }

    @Test(arguments: [false, true])
    func `an erased person's refused events stay away`(isTakenBefore: Bool) throws {
        let bench = try Self.bench()
        if isTakenBefore { #expect(try Self.retake(bench).exported == 3) }
        var eraser = Eraser(dataDirectory: bench.data.root, .user, "u-0-1", isDryRun: false, files: bench.disk)
        _ = try eraser.run(
            now: WallTime(milliseconds: ProjectionBench.noon), newKey: { [UInt8](repeating: 7, count: 32) })
        let gone: Set = [Self.id(4), Self.id(6)]
        let report = try Self.retake(bench)
        #expect((report.exported, report.takenBefore) == (isTakenBefore ? 0 : 2, isTakenBefore ? 2 : 0))
        #expect(Self.ids(bench) == Self.refused.union(Self.accepted).subtracting(gone).sorted())
        #expect(Self.problems(bench) == [])
    }

    @Test func `a line that ended the program is taken by a later version alone`() throws {
        let bench = try Self.bench(poison: 0)
        #expect(throws: Replay.Failure.self) { try Self.retake(bench, readingPoisonBefore: "0.0.9") }
        let kept = try Self.retake(bench, .reject)
        #expect((kept.exported, kept.refused) == (0, 3))
        // It is read, and it is too old.
        let read = try Self.retake(bench, .reject, readingPoisonBefore: "0.0.10")
        #expect((read.exported, read.refused) == (0, 3))
        #expect(try Self.retake(bench).exported == 2)
        #expect(try Self.retake(bench, readingPoisonBefore: "0.0.10").exported == 1)
        #expect(Self.ids(bench) == Self.refused.union(Self.accepted).sorted())
        #expect(Self.problems(bench) == [])
    }

    @Test func `the verifier compares what was taken with the dead letters`() throws {
        let bench = try Self.bench()
        #expect(try Self.retake(bench).exported == 3)
        let path = "/data/\(Self.folder)/dead/retaken"
        let lines = String(decoding: try #require(bench.disk.bytes(of: path)), as: UTF8.self)
        bench.disk.place(path, Array(("0" + lines.dropFirst()).utf8))
        #expect(Self.problems(bench).map(\.path) == [Self.folder + "/dead/retaken"])
        bench.disk.place(path, Array(lines.dropLast(33).utf8) + Array(lines.prefix(33).utf8))
        #expect(Self.problems(bench).map(\.text) == ["the line is there twice"])
    }

    @Test func `an export that never was has nothing refused, and is not begun`() throws {
        let bench = try Self.bench()
        var request = Replay.Request(providers: [.mixpanel], now: WallTime(milliseconds: ProjectionBench.noon))
        request.resending = .allowed
        let replayer = try Replayer(dataDirectory: "/data", files: bench.disk, request: request)
        #expect(throws: Replay.Failure.self) { try replayer.retakeRefused() }
        #expect(try bench.disk.status(at: bench.data.statePath("export-mixpanel")) == nil)
    }
}
