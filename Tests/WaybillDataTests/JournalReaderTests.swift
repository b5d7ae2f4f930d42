import Testing
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@Suite struct JournalReaderTests {
    @Test(arguments: 0..<UInt64(24))
    func `a reader that follows the writer gets every batch once, in order`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let bench = try JournalBench(segmentByteCountMax: [200, 3_000, 256 << 20][Int(seed % 3)])
        var journal = try bench.open()
        var reader = JournalReader(directory: bench.directory, position: JournalPosition(0), files: bench.disk)
        var found: [ReadBatch] = []
        bench.disk.failAtRandom(seed: seed, perMille: 30)
        for _ in 0..<50 {
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let stream = Int.random(in: 0..<20, using: &generator)
                bench.stageBatch(stream, rawByteCount: Int.random(in: 1...500, using: &generator), in: &journal)
            }
            do { try bench.commit(&journal) } catch { #expect(journal.hasStaged == true) }
            guard Bool.random(using: &generator) else { continue }
            // Not always to its end: the next call continues.
            while let record = try reader.next(upTo: journal.end) {
                found.append(ReadBatch(record))
                if Int.random(in: 0..<5, using: &generator) == 0 { break }
            }
            #expect(found == Array(bench.batches.prefix(found.count)))
        }
        while let record = try reader.next(upTo: journal.end) { found.append(ReadBatch(record)) }
        #expect(found == bench.batches)
        #expect(reader.takeDamages() == [])
        #expect(reader.position == journal.end)
    }

    @Test func `damage is reported once, and never again by a reader that begins behind it`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        var ends: [JournalPosition] = []
        for _ in 0..<4 {
            bench.stageBatch(1, in: &journal)
            try bench.commit(&journal)
            ends.append(journal.end)
        }
        let path = "/journal/00000000000000000000.journal"
        var bytes = try #require(bench.disk.bytes(of: path))
        bytes[ends[1].rawValue - 1] ^= 1
        bench.disk.place(path, bytes)
        let all = try bench.read(upTo: journal.end)
        #expect(all.batches == [0, 2, 3].map { bench.batches[$0] })
        #expect(all.damages.count == 1)
        let damage = try #require(all.damages.first)
        #expect(ends[0] < damage.start && damage.start < ends[1] && damage.end == ends[1])
        #expect(damage.reason == "the checksum of a batch is wrong")
        let rest = try bench.read(from: ends[2], upTo: journal.end)
        #expect(rest.batches == [bench.batches[3]])
        #expect(rest.damages == [])
    }

    @Test func `a reader steps over damage at the end and finds the groups that come later`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        for _ in 0..<2 {
            bench.stageBatch(1, in: &journal)
            try bench.commit(&journal)
        }
        let path = "/journal/00000000000000000000.journal"
        var bytes = try #require(bench.disk.bytes(of: path))
        bytes[journal.end.rawValue - 1] ^= 1
        bench.disk.place(path, bytes)
        var reader = JournalReader(directory: bench.directory, position: JournalPosition(0), files: bench.disk)
        var found: [ReadBatch] = []
        while let record = try reader.next(upTo: journal.end) { found.append(ReadBatch(record)) }
        #expect(reader.takeDamages().count == 1)
        #expect(reader.position == journal.end)
        bench.stageBatch(1, in: &journal)
        try bench.commit(&journal)
        while let record = try reader.next(upTo: journal.end) { found.append(ReadBatch(record)) }
        #expect(found == [bench.batches[0], bench.batches[2]])
        #expect(reader.takeDamages() == [])
    }

    @Test func `segments are retired when they are behind every reader and old enough`() throws {
        let bench = try JournalBench(segmentByteCountMax: 100)
        var journal = try bench.open()
        var modified: [Int64] = []
        for round in 0..<5 {
            bench.disk.memory.now += 1_000_000_000
            modified.append(bench.disk.memory.now / 1_000_000)
            bench.stageBatch(round, rawByteCount: 200, in: &journal)
            try bench.commit(&journal)
        }
        let segments = journal.segments
        #expect(segments.count == 5)
        let late = WallTime(milliseconds: .max)
        #expect(try journal.retire(before: JournalPosition(0), writtenBefore: late) == 0)
        #expect(try journal.retire(before: JournalPosition(segments[1].rawValue - 1), writtenBefore: late) == 0)
        let second = WallTime(milliseconds: modified[1])
        #expect(try journal.retire(before: journal.end, writtenBefore: second) == 2)
        #expect(journal.segments == Array(segments[2...]))
        let rest = try bench.read(from: segments[2], upTo: journal.end)
        #expect(rest.batches == Array(bench.batches[2...]))
        let gone = try bench.read(upTo: journal.end)
        #expect(gone.batches == Array(bench.batches[2...]))
        #expect(
            gone.damages == [
                JournalDamage(
                    segment: segments[2], start: JournalPosition(0), end: segments[2], reason: "the segment is gone")
            ])
        // The one that is being written stays, and knows every stream.
        #expect(try journal.retire(before: journal.end, writtenBefore: late) == 2)
        #expect(journal.segments == [segments[4]])
        bench.disk.crash(seed: 3)
        journal = try bench.open()
        #expect(bench.table(of: journal) == bench.standings)
    }

    @Test func `segments that the archive has are freed beyond a size or an age, and readers are told`() throws {
        let bench = try JournalBench(segmentByteCountMax: 100)
        var journal = try bench.open()
        for round in 0..<5 {
            bench.disk.memory.now += 1_000_000_000
            bench.stageBatch(round, rawByteCount: 200, in: &journal)
            try bench.commit(&journal)
        }
        let segments = journal.segments
        let now = WallTime(milliseconds: bench.disk.memory.now / 1_000_000)
        func free(_ archived: JournalPosition, bytes: Int? = nil, age: Duration? = nil) throws -> [FreedSegment] {
            var freed: [FreedSegment] = []
            let limit = UnreadJournalLimit(byteCountMax: bytes, ageMax: age)
            while let segment = try journal.freeUnread(before: archived, beyond: limit, now: now) {
                freed.append(segment)
            }
            return freed
        }
        #expect(try free(journal.end) == [])
        // What the archive lacks stays, whatever the limit is.
        #expect(try free(JournalPosition(segments[1].rawValue - 1), bytes: 1, age: .zero) == [])
        let old = try free(journal.end, age: .seconds(4))
        #expect(old.map(\.start) == [segments[0]] && old.map(\.reason) == [.age])
        #expect(old.map(\.end) == [segments[1]] && old.allSatisfy { $0.byteCount >= 100 })
        #expect(old.allSatisfy { $0.written.milliseconds == now.milliseconds - 4000 })
        let large = try free(segments[3], bytes: 1)
        #expect(large.map(\.start) == [segments[1], segments[2]] && large.map(\.reason) == [.bytes, .bytes])
        #expect(journal.segments == Array(segments[3...]))
        let gone = try bench.read(upTo: journal.end)
        #expect(gone.batches == Array(bench.batches[3...]))
        #expect(gone.damages.map(\.isGone) == [true])
        // The last one is being written.
        #expect(try free(journal.end, bytes: 1, age: .zero).map(\.start) == [segments[3]])
        bench.disk.crash(seed: 3)
        journal = try bench.open()
        #expect(bench.table(of: journal) == bench.standings)
    }

    @Test func `what starts set aside is retired as segments of its age and place are`() throws {
        let bench = try JournalBench(segmentByteCountMax: 100)
        var journal = try bench.open()
        for round in 0..<3 {
            bench.stageBatch(round, rawByteCount: 200, in: &journal)
            try bench.commit(&journal)
        }
        let segments = journal.segments
        let first = JournalPath.segment(segments[0], in: "/journal")
        let leftovers = [
            "/journal/\(segments[1].rawValue).torn-1", "/journal/0.group", "/journal/0.group.tmp",
            first + ".torn-12", first + ".suspect-1",
        ]
        let foreign = [
            "/journal/notes.txt", "/journal/x.torn-1", "/journal/1.torn-", "/journal/1.torn-1x", "/journal/+1.torn-1",
            "/journal/1.torn-1.gz", "/journal/1.groups", "/journal/1.groups.tmp", "/journal/.group",
            "/journal/1.journal.torn-1",
            first + ".suspect", "/journal/99999999999999999999.torn-1",
        ]
        bench.disk.memory.now += 1_000_000_000
        let time = WallTime(milliseconds: bench.disk.memory.now / 1_000_000)
        for path in leftovers + foreign { bench.disk.close(try bench.disk.open(path, .appendNew)) }
        func left() -> [String] {
            leftovers.filter { bench.disk.bytes(of: $0) != nil }
        }
        // Too young, then before a reader that is not past them.
        _ = try journal.retire(before: journal.end, writtenBefore: WallTime(milliseconds: time.milliseconds - 1))
        #expect(left() == leftovers)
        _ = try journal.retire(before: JournalPosition(segments[1].rawValue - 1), writtenBefore: time)
        #expect(left() == [leftovers[0]])
        _ = try journal.retire(before: segments[1], writtenBefore: time)
        #expect(left() == [])
        for path in foreign { #expect(bench.disk.bytes(of: path) != nil, "\(path)") }
    }

    @Test func `the torn end that a start kept goes with the segments of its age`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        bench.stageBatch(1, in: &journal)
        try bench.commit(&journal)
        let path = "/journal/00000000000000000000.journal"
        bench.disk.place(path, try #require(bench.disk.bytes(of: path)) + Array("BATCH 1 2".utf8))
        journal = try bench.recover()
        let torn = try #require(journal.recovery.tornPath)
        let start = bench.disk.memory.now / 1_000_000
        bench.disk.memory.now += 60_000_000_000
        bench.stageBatch(1, in: &journal)
        try bench.commit(&journal)
        _ = try journal.retire(before: journal.end, writtenBefore: WallTime(milliseconds: start - 1))
        #expect(bench.disk.bytes(of: torn) == Array("BATCH 1 2".utf8))
        _ = try journal.retire(before: journal.end, writtenBefore: WallTime(milliseconds: start))
        #expect(bench.disk.bytes(of: torn) == nil)
    }

    @Test func `a retirement that fails is gone on with`() throws {
        let bench = try JournalBench(segmentByteCountMax: 100)
        var journal = try bench.open()
        for round in 0..<4 {
            bench.stageBatch(round, rawByteCount: 200, in: &journal)
            try bench.commit(&journal)
        }
        let segments = journal.segments
        // Its calls for each segment: status, unlink.
        bench.disk.fail(call: 4, .error(Errno.inputOutput))
        let late = WallTime(milliseconds: .max)
        #expect(throws: FileSystemError.self) { try journal.retire(before: journal.end, writtenBefore: late) }
        #expect(journal.segments == Array(segments[1...]))
        #expect(try journal.retire(before: journal.end, writtenBefore: late) == 2)
        #expect(journal.segments == [segments[3]])
    }

    @Test func `many sealed streams go from segment to segment`() throws {
        let bench = try JournalBench(segmentByteCountMax: 5_000)
        var journal = try bench.open()
        for stream in 0..<80 {
            bench.stageBatch(stream, in: &journal)
            let name = JournalBench.description(stream).name
            bench.stage(.seal(length: journal.position(of: name)), of: stream, in: &journal)
            try bench.commit(&journal)
        }
        #expect(journal.segments.count > 2)
        journal = try bench.recover()
        #expect(bench.standings.values.filter { !$0.isSealed } == [])
    }
}
