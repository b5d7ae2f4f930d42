import Testing
import WaybillData
import WaybillExport
import WaybillProjection
import WaybillProtocol
import WaybillReplay
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

/// Lines that nothing reads, because reading them ended the program: what erases and requeues them.
@Suite struct PoisonFilesTests {
    private static let stream = ProjectionBench.description(1)

    private static func line(_ number: Int, user: String) -> String {
        #"{"v":1,"id":"01939a3e-0000-7000-8000-\#(Hexadecimal.text(UInt64(number), digitCount: 12))","#
            + #""ts":"2026-11-20T09:00:00.000Z","kind":"event","name":"n","env":"prod","bundle":"b","user":"\#(user)"}"#
            + "\n"
    }

    /// Archives lines of these users, the first of which are poison of the archive.
    private static func bench(_ users: [String], poison count: Int, version: String) throws -> ProjectionBench {
        let bench = try ProjectionBench()
        let lines = users.enumerated().map { Self.line($0.offset, user: $0.element) }
        try bench.write([(Self.stream, Array(lines.joined().utf8))])
        var offset = 0
        for line in lines.prefix(count) {
            let poison = PoisonedLine(
                reader: PoisonOffsets.archive, stream: Self.stream.name, offset: UInt64(offset),
                byteCount: line.utf8.count - 1, signal: 11, version: version, at: .unknown)
            #expect(try PoisonedLines.add(poison, in: bench.data) != nil)
            offset += line.utf8.count
        }
        var archive = try ArchiveProjection(data: bench.data, zone: .utc)
        let start = try archive.recover().position
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        _ = try run.advance(&archive, from: start, upTo: bench.end)
        try archive.checkpoint(at: bench.end)
        return bench
    }

    private static func requeue(
        _ bench: ProjectionBench, _ poison: Requeue<FaultyFiles>.Poison
    ) throws(Requeue<FaultyFiles>.Failure) -> Requeue<FaultyFiles>.Report {
        try Requeue(dataDirectory: bench.data.root, output: "/again", poison: poison, files: bench.disk)
            .run([])
    }

    @Test func `poison is requeued by a later version alone, and only if it is asked for`() throws {
        let bench = try Self.bench(["u-1", "u-2"], poison: 1, version: "0.3.9")
        #expect(try Self.requeue(bench, .kept).lineCount == 0)
        for early in ["0.3.8", "0.3.9"] {
            let version = try #require(ProgramVersion(early))
            #expect(throws: Requeue<FaultyFiles>.Failure.self) {
                try Self.requeue(bench, .takenAfter(version: version))
            }
        }
        let version = try #require(ProgramVersion("0.3.10"))
        let report = try Self.requeue(bench, .takenAfter(version: version))
        #expect(report.lineCount == 1)
        let path = try #require(report.paths.first)
        #expect(bench.disk.bytes(of: path).map { String(decoding: $0, as: UTF8.self) } == Self.line(0, user: "u-1"))
        #expect(try Self.requeue(bench, .takenAfter(version: version)).lineCount == 0)
    }

    @Test(arguments: ["0.1", "0.1.x", "1.2.3.4", "", "0.1.-1"])
    func `what is not three numbers is not a version`(text: String) {
        #expect(ProgramVersion(text) == nil)
    }

    @Test func `an erasure takes what the bytes do not rule out, and reads none of it`() throws {
        // A line with an escape may hide the id; one without it and without the id does not.
        let users = ["erased-person", #"er\u0061sed-person"#, "u-3", "erased-person", "u-5"]
        let bench = try Self.bench(users, poison: 3, version: "0.3.9")
        var eraser = Eraser(dataDirectory: bench.data.root, .user, "erased-person", isDryRun: false, files: bench.disk)
        let report = try eraser.run(
            now: WallTime(milliseconds: ProjectionBench.noon), newKey: { [UInt8](repeating: 7, count: 32) })
        #expect(report.lineCount == 3)
        let tree = bench.tree("archive", "quarantine")
        #expect(tree["quarantine/date=2026-11-20/poison.ndjson"] == Self.line(2, user: "u-3"))
        #expect(!tree.values.contains { $0.contains("sed-person") })
        let sources = tree["quarantine/date=2026-11-20/poison.sources"] ?? ""
        #expect(sources.split(separator: "\n").count { $0.hasPrefix("POISON ") } == 1)
        let erased = tree["quarantine/date=2026-11-20/erased.sources"] ?? ""
        #expect(erased.split(separator: "\n").count { $0.hasPrefix("ERASED ") } == 3)
        var verifier = DataVerifier(data: bench.data, exports: [])
        #expect(verifier.verify().problems == [])
    }
}
