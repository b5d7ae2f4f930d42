import Testing
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@Suite struct JournalModelTests {
    @Test(arguments: 0..<UInt64(40))
    func `nothing committed is lost, nothing is invented, whatever fails`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        // Of five streams few or none stay awake, or all.
        let few = AwakeLimits(
            sealedCount: Int(seed % 2), openCountAtStart: Int(seed / 2 % 2), openCount: 1, openCountMax: 3,
            remadeByteCountMin: 500)
        let bench = try JournalBench(
            segmentByteCountMax: [300, 2_000, 20_000, 256 << 20][Int(seed % 4)],
            awake: seed % 3 == 0 ? AwakeLimits() : few)
        var journal = try bench.open()
        let perMille = seed % 5 == 0 ? 0 : 50
        bench.disk.failAtRandom(seed: seed, perMille: perMille)
        for _ in 0..<20 {
            for _ in 0..<Int.random(in: 1...6, using: &generator) {
                try self.stageSomething(in: &journal, bench, &generator)
            }
            if Int.random(in: 0..<8, using: &generator) == 0 {
                bench.disk.stop(atCall: Int.random(in: 1...8, using: &generator))
            }
            // What fails stays staged and is tried again with more, or is in doubt when the process dies.
            do { try bench.commit(&journal) } catch {
                let table = bench.table(of: journal)
                #expect(table == bench.standings || table == nil)
            }
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
    ) throws {
        let stream = Int.random(in: 0..<5, using: &generator)
        let description = JournalBench.description(stream)
        // A stream that cannot be looked up, or has ended and is at rest, is left alone.
        do { if try journal.wake(description) != nil { return } } catch { return }
        let position = journal.position(of: description.name)
        let isSealed =
            journal.isSealed(description.name)
            || bench.staged.contains { item in
                if case .seal = item.entry { item.description == description } else { false }
            }
        let rawByteCount = Int.random(in: 1...1000, using: &generator)
        if isSealed {
            let entry = JournalBench.batch(stream, at: position.rawValue, rawByteCount: rawByteCount)
            #expect(journal.stage(entry, of: description) == .sealed(position))
            return
        }
        switch Int.random(in: 0..<20, using: &generator) {
        case 0:
            let entry = JournalBench.batch(stream, at: position.rawValue + 1)
            #expect(journal.stage(entry, of: description) == .gap(position))
        case 1 where position.rawValue > 0:
            let entry = JournalBench.batch(stream, at: 0, rawByteCount: Int(position.rawValue))
            #expect(journal.stage(entry, of: description) == .alreadyHeld(position))
        case 2 where position.rawValue > 0:
            let entry = JournalBench.batch(stream, at: 0, rawByteCount: Int(position.rawValue) + 1)
            #expect(journal.stage(entry, of: description) == .gap(position))
        case 3, 4:
            let reason = try #require(SkipReason.allCases.randomElement(using: &generator))
            bench.stage(
                try JournalBench.skip(stream, at: position, byteCount: UInt64(rawByteCount), reason), of: stream,
                in: &journal)
        case 5 where Int.random(in: 0..<4, using: &generator) == 0:
            bench.stage(.seal(length: position), of: stream, in: &journal)
        default:
            bench.stageBatch(stream, rawByteCount: rawByteCount, in: &journal)
        }
    }

    @Test func `entries that do not continue their stream are answered with where it stands`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        let description = JournalBench.description(1)
        let name = description.name
        bench.stageBatch(1, rawByteCount: 100, in: &journal)
        // The same whether the bytes before are staged or durable.
        for _ in 0..<2 {
            #expect(journal.position(of: name) == StreamOffset(100))
            let held = JournalBench.batch(1, at: 0, rawByteCount: 100)
            #expect(journal.stage(held, of: description) == .alreadyHeld(StreamOffset(100)))
            let gap = JournalBench.batch(1, at: 101)
            #expect(journal.stage(gap, of: description) == .gap(StreamOffset(100)))
            let overlap = JournalBench.batch(1, at: 50, rawByteCount: 100)
            #expect(journal.stage(overlap, of: description) == .gap(StreamOffset(100)))
            let skipped = try JournalBench.skip(1, at: StreamOffset(90), byteCount: 10, .truncated)
            #expect(journal.stage(skipped, of: description) == .alreadyHeld(StreamOffset(100)))
            let early = JournalEntry.seal(length: StreamOffset(99))
            #expect(journal.stage(early, of: description) == .gap(StreamOffset(100)))
            if journal.hasStaged { try bench.commit(&journal) }
        }
        #expect(journal.hasStaged == false)
        bench.stage(.seal(length: StreamOffset(100)), of: 1, in: &journal)
        let late = JournalBench.batch(1, at: 100)
        #expect(journal.stage(late, of: description) == .sealed(StreamOffset(100)))
        let again = JournalEntry.seal(length: StreamOffset(100))
        #expect(journal.stage(again, of: description) == .alreadyHeld(StreamOffset(100)))
        let longer = JournalEntry.seal(length: StreamOffset(101))
        #expect(journal.stage(longer, of: description) == .gap(StreamOffset(100)))
        let held = JournalBench.batch(1, at: 0)
        #expect(journal.stage(held, of: description) == .alreadyHeld(StreamOffset(100)))
        let beyond = try JournalBench.skip(1, at: StreamOffset(100), byteCount: 1, .truncated)
        #expect(journal.stage(beyond, of: description) == .sealed(StreamOffset(100)))
        try bench.commit(&journal)
        #expect(journal.isSealed(name) == true)
        #expect(journal.stage(late, of: description) == .sealed(StreamOffset(100)))
        journal = try bench.recover()
        #expect(journal.isSealed(name) == true)
    }

    @Test func `a commit returns where a reader finds its batches`() throws {
        let bench = try JournalBench(segmentByteCountMax: 500)
        var journal = try bench.open()
        var ranges: [Range<JournalPosition>] = []
        for round in 0..<8 {
            bench.stageBatch(round % 3, rawByteCount: 200, in: &journal)
            bench.stageBatch(7, in: &journal)
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
        try journal.begin(JournalBench.seed(0xAB), isLossy: false, at: bench.groupTime)
        bench.stageBatch(1, rawByteCount: 7, in: &journal)
        bench.stageBatch(2, rawByteCount: 3, in: &journal)
        bench.stage(try JournalBench.skip(1, at: StreamOffset(7), byteCount: 3, .tornTail), of: 1, in: &journal)
        bench.stage(.seal(length: StreamOffset(10)), of: 1, in: &journal)
        let payloads = bench.staged.compactMap { item in
            if case .batch(_, let payload, _) = item.entry { Array(payload.bytes) } else { nil }
        }
        try bench.commit(&journal)
        let position = journal.end
        try journal.begin(JournalBench.seed(0xCD), isLossy: false, at: bench.groupTime)
        func lines(of segment: JournalPosition) throws -> [String] {
            var bytes = try #require(bench.disk.bytes(of: JournalPath.segment(segment, in: "/journal")))
            for payload in payloads {
                if let range = bytes.firstRange(of: payload) { bytes.replaceSubrange(range, with: "payload\n".utf8) }
            }
            return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map { line in
                // Checksums and positions are checked by the reader.
                line.hasPrefix("MARK") ? "MARK" : String(line).replacing(#/ [0-9a-f]{8}$/#, with: " crc")
            }
        }
        let incarnation = "000000000000000000000000000000ab"
        let (one, two) = (JournalBench.description(1), JournalBench.description(2))
        let (first, second) = (JournalBench.content(1, 0..<10), JournalBench.content(2, 0..<3))
        #expect(
            try lines(of: JournalPosition(0)) == [
                "START 0 00000000000000ab \(incarnation)", "MARK", "MARK", "OPEN 1 \(one.json)", "OPEN 2 \(two.json)",
                "MARK", "BATCH 1 0 7 1 \(payloads[0].count) crc", "payload",
                "BATCH 2 0 3 1 \(payloads[1].count) crc", "payload",
                "SKIP 1 7 3 torn-tail \(Base64.text(first))", "SEAL 1 10", "MARK",
            ])
        func proof(_ description: StreamDescription, _ bytes: [UInt8]) -> String {
            let proof = StreamProof(of: description.id, at: StreamOffset(UInt64(bytes.count)), tail: bytes)
            return "\(bytes.count) \(proof.digest?.text ?? "-") \(position)"
        }
        #expect(
            try lines(of: position) == [
                "START 0 00000000000000ab \(incarnation)", "START \(position) 00000000000000cd \(incarnation)",
                "OPEN 1 \(one.json)", "AT 1 10 \(proof(one, first)) 3", "SEALED 1 \(proof(one, first)) 3",
                "OPEN 2 \(two.json)", "AT 2 3 \(proof(two, second))", "TAIL 2 \(Base64.text(second))", "MARK",
            ])
    }
}
