import Testing
import WaybillJournal
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@Suite struct JournalModelTests {
    @Test(arguments: 0..<UInt64(40))
    func `nothing committed is lost, nothing is invented, whatever fails`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let bench = try JournalBench(segmentByteCountMax: [300, 2_000, 20_000, 256 << 20][Int(seed % 4)])
        var journal = try bench.open()
        let perMille = seed % 5 == 0 ? 0 : 50
        bench.disk.failAtRandom(seed: seed, perMille: perMille)
        for _ in 0..<20 {
            for _ in 0..<Int.random(in: 1...6, using: &generator) {
                self.stageSomething(in: &journal, bench, &generator)
            }
            if Int.random(in: 0..<8, using: &generator) == 0 {
                bench.disk.stop(atCall: Int.random(in: 1...8, using: &generator))
            }
            // What fails stays staged and is tried again with more, or is in doubt when the process dies.
            do { try bench.commit(&journal) } catch { #expect(bench.table(of: journal) == bench.standings) }
            if bench.disk.isStopped || Int.random(in: 0..<12, using: &generator) == 0 {
                // A process that dies when both a sync and the cut after it have failed leaves bytes that its successor
                // cannot tell from durable ones.
                let isKilled = Bool.random(using: &generator) && !bench.disk.memory.hasDroppedPages
                if isKilled { bench.disk.kill() } else { bench.disk.crash(seed: generator.next()) }
                journal = try bench.recover()
                if Int.random(in: 0..<3, using: &generator) == 0 {
                    // What recovery took for durable must be.
                    bench.disk.crash(seed: generator.next())
                    journal = try bench.recover()
                }
                bench.disk.failAtRandom(seed: generator.next(), perMille: perMille)
            }
        }
        bench.disk.clearFaults()
        try bench.commit(&journal)
        bench.expectBatches(upTo: journal.end, everyPosition: journal.segments.count < 10)
        bench.disk.crash(seed: seed)
        journal = try bench.recover()
    }

    private func stageSomething(
        in journal: inout Journal<FaultyFiles>, _ bench: JournalBench, _ generator: inout SeededGenerator
    ) {
        let stream = Int.random(in: 0..<5, using: &generator)
        let description = JournalBench.description(stream)
        let position = journal.position(of: description.id)
        let isSealed =
            journal.isSealed(description.id)
            || bench.staged.contains { if case .seal(description.id, _) = $0.entry { true } else { false } }
        let payload = (0..<Int.random(in: 1...300, using: &generator)).map { _ in
            UInt8.random(in: 0...255, using: &generator)
        }
        let rawByteCount = Int.random(in: 1...1000, using: &generator)
        if isSealed {
            let entry = JournalBench.batch(stream, at: position.rawValue, rawByteCount: rawByteCount, payload: payload)
            #expect(journal.stage(entry, of: description) == .alreadySealed(position))
            return
        }
        switch Int.random(in: 0..<20, using: &generator) {
        case 0:
            let entry = JournalBench.batch(stream, at: position.rawValue + 1, payload: payload)
            #expect(journal.stage(entry, of: description) == .gap(position))
        case 1 where position.rawValue > 0:
            let entry = JournalBench.batch(stream, at: 0, rawByteCount: Int(position.rawValue), payload: payload)
            #expect(journal.stage(entry, of: description) == .alreadyHeld(position))
        case 2 where position.rawValue > 0:
            let entry = JournalBench.batch(stream, at: 0, rawByteCount: Int(position.rawValue) + 1, payload: payload)
            #expect(journal.stage(entry, of: description) == .gap(position))
        case 3, 4:
            bench.stage(
                .skip(description.id, position, byteCount: UInt64(rawByteCount), .tooLong), of: stream, in: &journal)
        case 5 where Int.random(in: 0..<4, using: &generator) == 0:
            bench.stage(.seal(description.id, length: position), of: stream, in: &journal)
        default:
            bench.stageBatch(stream, rawByteCount: rawByteCount, payload: payload, in: &journal)
        }
    }

    @Test func `entries that do not continue their stream are answered with where it stands`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        let description = JournalBench.description(1)
        let id = description.id
        bench.stageBatch(1, rawByteCount: 100, payload: [1], in: &journal)
        // The same whether the bytes before are staged or durable.
        for _ in 0..<2 {
            #expect(journal.position(of: id) == StreamOffset(100))
            let held = JournalBench.batch(1, at: 0, rawByteCount: 100, payload: [1])
            #expect(journal.stage(held, of: description) == .alreadyHeld(StreamOffset(100)))
            let gap = JournalBench.batch(1, at: 101, payload: [1])
            #expect(journal.stage(gap, of: description) == .gap(StreamOffset(100)))
            let overlap = JournalBench.batch(1, at: 50, rawByteCount: 100, payload: [1])
            #expect(journal.stage(overlap, of: description) == .gap(StreamOffset(100)))
            let skipped = JournalEntry.skip(id, StreamOffset(90), byteCount: 10, .truncated)
            #expect(journal.stage(skipped, of: description) == .alreadyHeld(StreamOffset(100)))
            let early = JournalEntry.seal(id, length: StreamOffset(99))
            #expect(journal.stage(early, of: description) == .gap(StreamOffset(100)))
            if journal.hasStaged { try bench.commit(&journal) }
        }
        #expect(journal.hasStaged == false)
        bench.stage(.seal(id, length: StreamOffset(100)), of: 1, in: &journal)
        let late = JournalBench.batch(1, at: 100, payload: [1])
        #expect(journal.stage(late, of: description) == .alreadySealed(StreamOffset(100)))
        let again = JournalEntry.seal(id, length: StreamOffset(100))
        #expect(journal.stage(again, of: description) == .alreadySealed(StreamOffset(100)))
        try bench.commit(&journal)
        #expect(journal.isSealed(id) == true)
        #expect(journal.stage(late, of: description) == .alreadySealed(StreamOffset(100)))
        journal = try bench.recover()
        #expect(journal.isSealed(id) == true)
    }

    @Test func `a commit returns where a reader finds its batches`() throws {
        let bench = try JournalBench(segmentByteCountMax: 500)
        var journal = try bench.open()
        var ranges: [Range<JournalPosition>] = []
        for round in 0..<8 {
            bench.stageBatch(round % 3, payload: [UInt8](repeating: UInt8(round), count: 200), in: &journal)
            bench.stageBatch(7, payload: [UInt8(round)], in: &journal)
            ranges += try journal.commit(at: WallTime(milliseconds: Int64(round)))
        }
        var reader = JournalReader(directory: bench.directory, position: JournalPosition(0), files: bench.disk)
        var found: [Range<JournalPosition>] = []
        var times: [Int64] = []
        while let record = try reader.next(upTo: journal.end) {
            found.append(record.position..<record.end)
            times.append(record.receivedAt.milliseconds)
        }
        #expect(found == ranges)
        #expect(times == (0..<8).flatMap { [$0, $0] })
        #expect(journal.segments.count > 3)
    }

    @Test func `a segment is the text that its format says`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        bench.stageBatch(1, rawByteCount: 7, payload: Array("payload".utf8), in: &journal)
        let id = JournalBench.description(1).id
        bench.stage(.skip(id, StreamOffset(7), byteCount: 3, .tornTail), of: 1, in: &journal)
        bench.stage(.seal(id, length: StreamOffset(10)), of: 1, in: &journal)
        try bench.commit(&journal)
        let bytes = try #require(bench.disk.bytes(of: "/journal/00000000000000000000.journal"))
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n").map { line in
            // Checksums and positions are told by what reads them.
            line.hasPrefix("MARK") ? "MARK" : line.replacing(#/ [0-9a-f]{8}$/#, with: " crc")
        }
        #expect(
            lines == [
                "MARK", "MARK", "OPEN 1 \(JournalBench.description(1).json)", "MARK", "BATCH 1 0 7 1 7 crc",
                "payloadSKIP 1 7 3 torn-tail", "SEAL 1 10", "MARK",
            ])
    }
}
