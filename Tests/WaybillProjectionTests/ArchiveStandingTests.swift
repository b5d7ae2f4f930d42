import Testing
import WaybillData
import WaybillProjection
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

/// What a start knows of streams when only the archive still has them.
@Suite struct ArchiveStandingTests {
    private static func line(_ day: Int, _ number: Int, filler: Int = 60) -> String {
        let id = "01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))"
        return "{\"v\":1,\"id\":\"\(id)\",\"ts\":\"2026-11-\(day)T09:00:00.000Z\",\"kind\":\"event\",\"name\":\"n\","
            + "\"env\":\"prod\",\"bundle\":\"com.example.shop\",\"anon\":\"\(String(repeating: "y", count: filler))\"}\n"
    }

    /// Archives batches of lines; a batch is one text.
    private static func archived(
        _ batches: [(stream: Int, text: String)], isSealed: Bool = false
    ) throws -> ProjectionBench {
        let bench = try ProjectionBench()
        try bench.write(batches.map { (ProjectionBench.description($0.stream), Array($0.text.utf8)) })
        var projection = try ArchiveProjection(data: bench.data, zone: .utc)
        var position = try projection.recover().position
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        let now = WallTime(milliseconds: ProjectionBench.noon)
        try projection.checkpoint(at: position, sealing: isSealed ? .everything(now: now) : nil)
        while projection.isSealing { try projection.continueSealing() }
        return bench
    }

    private static func loseJournal(_ bench: ProjectionBench) throws {
        for name in try bench.disk.list(bench.data.journal) {
            try bench.disk.unlink(Path.join(bench.data.journal, name))
        }
    }

    /// The proof for a whole file, or for as many of its last bytes.
    private static func proof(_ stream: Int, of text: String, _ byteCount: Int = 512) -> StreamProof {
        StreamProof(
            of: ProjectionBench.description(stream).id, at: StreamOffset(UInt64(text.utf8.count)),
            tail: Array(text.utf8.suffix(byteCount)))
    }

    @Test(arguments: [false, true])
    func `streams of a lost journal stand where the archive has them, with the proofs of their bytes`(
        isSealed: Bool
    ) throws {
        var batches: [(stream: Int, text: String)] = []
        for number in 0..<12 {
            batches.append((1, Self.line(19, number)))
            batches.append((2, Self.line(19, 100 + number) + Self.line(19, 200 + number)))
        }
        batches.append((3, Self.line(20, 1000, filler: 5)))
        let bench = try Self.archived(batches, isSealed: isSealed)
        try Self.loseJournal(bench)
        var journal = try bench.data.openJournal()
        #expect(journal.recovery.isLossy)
        #expect(journal.end == bench.end)
        for stream in 1...3 {
            let text = batches.filter { $0.stream == stream }.map(\.text).joined()
            let name = ProjectionBench.description(stream).name
            #expect(journal.position(of: name) == StreamOffset(UInt64(text.utf8.count)))
            #expect(journal.proof(of: name) == Self.proof(stream, of: text))
        }
        let seed = StartSeed(id: 1, incarnation: Incarnation(2, 3))
        try journal.begin(seed, isLossy: false, at: WallTime(milliseconds: ProjectionBench.noon))
        #expect(journal.identity(name: "r").starts == [ReceiverStart(id: 1, position: UInt64(bench.end.rawValue))])
    }

    @Test func `a batch in several files and empty lines are proved; a file that cannot be read ends it`() throws {
        let spread = Self.line(19, 1) + Self.line(20, 2)
        let whole = Self.line(19, 3)
        let empty = Self.line(19, 4) + "\n"
        let batches = [
            (1, Self.line(19, 0)), (1, spread), (1, whole), (2, whole), (2, "no JSON\n"), (3, spread),
            (4, empty + whole),
        ]
        for isReadable in [true, false] {
            let bench = try Self.archived(batches)
            try Self.loseJournal(bench)
            if !isReadable { try bench.disk.unlink("/data/quarantine/date=2026-11-20/not-json.ndjson") }
            let journal = try bench.data.openJournal()
            let first = Self.line(19, 0) + spread + whole
            let names = (0...4).map { ProjectionBench.description($0).name }
            #expect(journal.proof(of: names[1]) == Self.proof(1, of: first))
            let second = Self.proof(2, of: whole + "no JSON\n")
            #expect(journal.proof(of: names[2]) == (isReadable ? second : .empty))
            #expect(journal.proof(of: names[3]) == Self.proof(3, of: spread))
            #expect(journal.proof(of: names[4]) == Self.proof(4, of: empty + whole))
            #expect(journal.position(of: names[3]) == StreamOffset(UInt64(spread.utf8.count)))
        }
    }

    /// The archive counts its files in full only where its checkpoint is rebuilt from them.
    @Test(arguments: [false, true])
    func `lines after a checkpoint without files count when another reader was further, and are cut off otherwise`(
        isOtherAhead: Bool
    ) throws {
        let bench = try ProjectionBench()
        let line = Self.line(19, 0)
        try bench.write([(ProjectionBench.description(1), Array(line.utf8))])
        var projection = try ArchiveProjection(data: bench.data, zone: .utc)
        var position = try projection.recover().position
        // In the head of the first segment.
        let checkpoint = JournalPosition(1)
        try projection.checkpoint(at: checkpoint, sealing: nil)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        if isOtherAhead {
            var state = try StateStore(path: bench.data.statePath("export-csv"), files: bench.disk)
            try state.commit(["position": String(bench.end.rawValue)])
        }
        try Self.loseJournal(bench)
        var journal = try bench.data.openJournal()
        #expect(journal.recovery.isLossy)
        let end = isOtherAhead ? bench.end : checkpoint
        #expect(journal.end == end)
        let held = isOtherAhead ? line : ""
        #expect(journal.position(of: ProjectionBench.description(1).name) == StreamOffset(UInt64(held.utf8.count)))
        let seed = StartSeed(id: 1, incarnation: Incarnation(2, 3))
        try journal.begin(seed, isLossy: false, at: WallTime(milliseconds: ProjectionBench.noon))
        var again = try ArchiveProjection(data: bench.data, zone: .utc)
        _ = try again.recover()
        let archived = bench.tree("archive").filter { $0.key.hasSuffix(".ndjson") }.map(\.value).joined()
        #expect(archived == held)
    }

    /// What the rebuilt checkpoint sets aside, the archive does not have; agents ship it again from there on.
    @Test(arguments: [false, true])
    func `a stream ends before a run that a power cut has torn, also when another file has a later one`(
        hasLaterDay: Bool
    ) throws {
        let bench = try ProjectionBench()
        let (first, torn, later) = (Self.line(19, 0), Self.line(19, 1), Self.line(hasLaterDay ? 20 : 19, 2))
        try bench.write([first, torn, later].map { (ProjectionBench.description(1), Array($0.utf8)) })
        var projection = try ArchiveProjection(data: bench.data, zone: .utc)
        var position = try projection.recover().position
        try projection.checkpoint(at: JournalPosition(1), sealing: nil)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        var state = try StateStore(path: bench.data.statePath("export-csv"), files: bench.disk)
        try state.commit(["position": String(bench.end.rawValue)])
        let path = try #require(
            bench.tree("archive").keys.first { $0.hasSuffix(".ndjson") && $0.contains("2026-11-19") })
        var bytes = try #require(bench.disk.bytes(of: "/data/" + path))
        for index in (first + torn).utf8.count - 10..<(first + torn).utf8.count { bytes[index] = 0 }
        bench.disk.place("/data/" + path, bytes)
        try Self.loseJournal(bench)
        var journal = try bench.data.openJournal()
        let name = ProjectionBench.description(1).name
        #expect(journal.position(of: name) == StreamOffset(UInt64(first.utf8.count)))
        #expect(journal.proof(of: name) == Self.proof(1, of: first))
        let seed = StartSeed(id: 1, incarnation: Incarnation(2, 3))
        try journal.begin(seed, isLossy: false, at: WallTime(milliseconds: ProjectionBench.noon))
        var again = try ArchiveProjection(data: bench.data, zone: .utc)
        _ = try again.recover()
        #expect(bench.tree("archive")[path] == first)
    }

    @Test func `streams stand where a rebuilt checkpoint has them when the journal is lost again while it is empty`()
        throws
    {
        let bench = try ProjectionBench()
        let line = Self.line(19, 0)
        try bench.write([(ProjectionBench.description(1), Array(line.utf8))])
        var projection = try ArchiveProjection(data: bench.data, zone: .utc)
        var position = try projection.recover().position
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        try Self.loseJournal(bench)
        var rebuilt = try ArchiveProjection(data: bench.data, zone: .utc)
        #expect(try rebuilt.recover().position == JournalPosition(0))
        var journal = try bench.data.openJournal()
        #expect(journal.end == JournalPosition(0))
        let name = ProjectionBench.description(1).name
        #expect(journal.position(of: name) == StreamOffset(UInt64(line.utf8.count)))
        #expect(journal.proof(of: name) == Self.proof(1, of: line))
        let seed = StartSeed(id: 1, incarnation: Incarnation(2, 3))
        try journal.begin(seed, isLossy: false, at: WallTime(milliseconds: ProjectionBench.noon))
        var again = try ArchiveProjection(data: bench.data, zone: .utc)
        _ = try again.recover()
        let archived = bench.tree("archive").filter { $0.key.hasSuffix(".ndjson") }.map(\.value).joined()
        #expect(archived == line)
    }

    /// An archive whose day was sealed after the checkpoint in use, because the later ones are lost.
    private static func sealedAfterCheckpoint(_ text: String) throws -> ProjectionBench {
        let bench = try ProjectionBench()
        try bench.write([(ProjectionBench.description(1), Array(text.utf8))])
        var projection = try ArchiveProjection(data: bench.data, zone: .utc)
        var position = try projection.recover().position
        // In the head of the first segment.
        try projection.checkpoint(at: JournalPosition(1), sealing: nil)
        let checkpoint = bench.data.statePath("archive")
        let old = try #require(bench.disk.bytes(of: checkpoint))
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        let now = WallTime(milliseconds: ProjectionBench.noon)
        try projection.checkpoint(at: position, sealing: .everything(now: now))
        while projection.isSealing { try projection.continueSealing() }
        bench.disk.kill()
        bench.disk.place(checkpoint, old)
        return bench
    }

    @Test func `a sealed day takes lines of a journal that began again, also with a checkpoint from before the seal`()
        throws
    {
        let text = Self.line(19, 0) + Self.line(19, 1)
        let bench = try Self.sealedAfterCheckpoint(text)
        try Self.loseJournal(bench)
        let description = ProjectionBench.description(1)
        var journal = try bench.data.openJournal()
        #expect(journal.recovery.isLossy)
        #expect(journal.end == bench.end)
        #expect(journal.proof(of: description.name) == Self.proof(1, of: text))
        let seed = StartSeed(id: 1, incarnation: Incarnation(2, 3))
        try journal.begin(seed, isLossy: false, at: WallTime(milliseconds: ProjectionBench.noon))
        let late = Self.line(19, 2)
        try bench.write([(description, Array(late.utf8))])
        var again = try ArchiveProjection(data: bench.data, zone: .utc)
        var position = try again.recover().position
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        while position < bench.end { position = try run.advance(&again, from: position, upTo: bench.end) }
        let archived = bench.tree("archive").filter { $0.key.hasSuffix(".ndjson") }
        #expect(archived.keys.map { Path.name(of: $0) } == ["late-00001.ndjson"])
        #expect(Array(archived.values) == [late])
    }

    @Test func `a day that was sealed after the checkpoint counts only where the checkpoint is rebuilt`() throws {
        let text = Self.line(19, 0)
        let bench = try Self.sealedAfterCheckpoint(text)
        let index = try ArchiveIndex(data: bench.data)
        #expect(try index.standings(ofJournalFrom: JournalPosition(0)).isEmpty)
        let standings = try index.standings(ofJournalFrom: bench.end)
        #expect(standings.map(\.durable) == [StreamOffset(UInt64(text.utf8.count))])
    }

    /// The process died before the archive's first checkpoint.
    @Test(arguments: [true, false])
    func `what an archive without a checkpoint has of a lost journal is held and stays`(isStartWritten: Bool) throws {
        let bench = try ProjectionBench()
        let line = Self.line(19, 0)
        try bench.write([(ProjectionBench.description(1), Array(line.utf8))])
        var projection = try ArchiveProjection(data: bench.data, zone: .utc)
        var position = try projection.recover().position
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        try Self.loseJournal(bench)
        var journal = try bench.data.openJournal()
        let name = ProjectionBench.description(1).name
        #expect(journal.position(of: name) == StreamOffset(UInt64(line.utf8.count)))
        #expect(journal.proof(of: name) == Self.proof(1, of: line))
        if isStartWritten {
            let seed = StartSeed(id: 1, incarnation: Incarnation(2, 3))
            try journal.begin(seed, isLossy: false, at: WallTime(milliseconds: ProjectionBench.noon))
        }
        var again = try ArchiveProjection(data: bench.data, zone: .utc)
        let recovery = try again.recover()
        #expect(recovery.report.hasPrefix("the archive's checkpoint was lost"))
        #expect(recovery.position == JournalPosition(0), "where batches will be read")
        let archived = bench.tree("archive").filter { $0.key.hasSuffix(".ndjson") }.map(\.value).joined()
        #expect(archived == line)
    }

    @Test(arguments: [false, true])
    func `lines whose sync has failed are written again before a start relies on them`(isOpened: Bool) throws {
        let bench = try ProjectionBench()
        let line = Self.line(19, 0)
        try bench.write([(ProjectionBench.description(1), Array(line.utf8))])
        var projection = try ArchiveProjection(data: bench.data, zone: .utc)
        var position = try projection.recover().position
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        bench.disk.setFaults { call in
            call.verb == .synchronize || call.verb == .synchronizeAll ? .error(Errno.inputOutput) : nil
        }
        do {
            try projection.checkpoint(at: position, sealing: nil)
            Issue.record("a sync fails")
        } catch {
            // The process dies before it goes back to its checkpoint; the kernel shows the bytes, and counts them as clean.
            bench.disk.kill()
        }
        var state = try StateStore(path: bench.data.statePath("export-csv"), files: bench.disk)
        try state.commit(["position": String(bench.end.rawValue)])
        try Self.loseJournal(bench)
        if isOpened {
            let journal = try bench.data.openJournal()
            let name = ProjectionBench.description(1).name
            #expect(journal.position(of: name) == StreamOffset(UInt64(line.utf8.count)))
        } else {
            var rebuilt = try ArchiveProjection(data: bench.data, zone: .utc)
            #expect(try rebuilt.recover().report.hasPrefix("the archive's checkpoint was lost"))
        }
        bench.disk.crash(seed: 1)
        let archived = bench.tree("archive").filter { $0.key.hasSuffix(".ndjson") }.map(\.value).joined()
        #expect(archived == line)
    }

    @Test(arguments: [false, true])
    func `an archive is short when a file of its checkpoint lacks bytes, open or sealed`(isSealed: Bool) throws {
        let source = try Self.archived(
            [(1, Self.line(19, 0) + Self.line(20, 1)), (2, "no JSON\n")], isSealed: isSealed)
        #expect(try !source.data.isArchiveShort())
        let paths = source.tree("archive", "quarantine").keys.filter { $0.hasSuffix(".ndjson") }
        #expect(paths.count == (isSealed ? 1 : 3))
        for path in paths {
            for isGone in [false, true] {
                let bench = try source.copy()
                let bytes = try #require(bench.disk.bytes(of: "/data/" + path))
                bench.disk.place("/data/" + path, bytes + bytes)
                #expect(try !bench.data.isArchiveShort())
                if isGone {
                    try bench.disk.unlink("/data/" + path)
                } else {
                    bench.disk.place("/data/" + path, Array(bytes.dropLast()))
                }
                #expect(try bench.data.isArchiveShort())
            }
        }
        #expect(try !DataDirectory(root: "/nothing", files: source.disk).isArchiveShort())
    }
}
