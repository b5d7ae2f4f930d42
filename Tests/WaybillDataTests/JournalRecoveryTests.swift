import Testing
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@Suite struct JournalRecoveryTests {
    /// Three groups in one segment: two streams open, one continues and is skipped in, one is sealed.
    private static func threeGroups() throws -> (bench: JournalBench, bytes: [UInt8], ends: [Int]) {
        let bench = try JournalBench()
        var journal = try bench.open()
        var ends: [Int] = []
        for round in 0..<3 {
            bench.stageBatch(1, in: &journal)
            bench.stageBatch(2 + round, in: &journal)
            let position = journal.position(of: JournalBench.description(1).name)
            bench.stage(try JournalBench.skip(1, at: position, byteCount: 5, .tooLong), of: 1, in: &journal)
            if round == 1 {
                let other = JournalBench.description(2).name
                bench.stage(.seal(length: journal.position(of: other)), of: 2, in: &journal)
            }
            try bench.commit(&journal)
            ends.append(journal.end.rawValue)
        }
        let bytes = try #require(bench.disk.bytes(of: "/journal/00000000000000000000.journal"))
        return (bench, bytes, ends)
    }

    @Test func `a segment cut at any byte gives the batches before the cut, and keeps what is torn`() throws {
        let (source, bytes, ends) = try Self.threeGroups()
        for count in 1...bytes.count {
            let bench = try JournalBench()
            bench.disk.place("/journal/00000000000000000000.journal", Array(bytes[..<count]))
            var journal = try bench.open()
            let found = try bench.read(upTo: journal.end)
            #expect(found.batches == Array(source.batches.prefix(found.batches.count)))
            let wholeGroupCount = ends.count { $0 <= count }
            #expect(found.batches.count >= wholeGroupCount * 2)
            #expect(found.damages == [])
            if ends.contains(count) {
                #expect(journal.recovery.tornByteCount == 0 && journal.recovery.tornPath == nil)
            }
            if let path = journal.recovery.tornPath {
                #expect(bench.disk.bytes(of: path) == Array(bytes[journal.end.rawValue..<count]))
            } else {
                #expect(journal.recovery.setAsidePaths.count == (journal.segments.isEmpty ? 1 : 0))
            }
            bench.batches = found.batches
            bench.standings = bench.table(of: journal) ?? [:]
            bench.stageBatch(9, in: &journal)
            try bench.commit(&journal)
            bench.expectBatches(upTo: journal.end)
            journal = try bench.recover()
        }
    }

    @Test func `a flipped bit anywhere is reported, and costs no batch of another group`() throws {
        let (source, bytes, ends) = try Self.threeGroups()
        for index in 0..<ends[1] {
            var damaged = bytes
            damaged[index] ^= 0x10
            let bench = try JournalBench()
            bench.disk.place("/journal/00000000000000000000.journal", damaged)
            let journal = try bench.open()
            let found = try bench.read(upTo: journal.end)
            for batch in found.batches { #expect(source.batches.contains(batch), "byte \(index)") }
            #expect(!found.damages.isEmpty, "byte \(index)")
            #expect(journal.recovery.damages.map(\.start) == found.damages.map(\.start), "byte \(index)")
            #expect(journal.recovery.setAsidePaths == [])
            // Streams 2 and 4 open in the first and third group, and have their batches there alone.
            let group = index < ends[0] ? 0 : 1
            let intact = source.batches.enumerated().filter { number, batch in
                number / 2 > group && (batch.id != "stream-1" || group > 0)
            }
            for (_, batch) in intact { #expect(found.batches.contains(batch), "byte \(index) costs \(batch.id)") }
            // What is known of streams is never more than what was committed.
            for (id, standing) in journal.streams {
                #expect(standing.durable.rawValue <= source.standings[id]?.durable ?? 0, "byte \(index)")
            }
        }
    }

    @Test func `damage in the head of the last segment leaves its table to the segment before`() throws {
        let source = try JournalBench()
        do {
            var journal = try source.open()
            source.stageBatch(1, in: &journal)
            source.stageBatch(2, in: &journal)
            let name = JournalBench.description(2).name
            source.stage(.seal(length: journal.position(of: name)), of: 2, in: &journal)
            try source.commit(&journal)
        }
        var journal = try source.open()
        let base = journal.end
        for _ in 0..<3 {
            source.stageBatch(3, in: &journal)
            try source.commit(&journal)
        }
        let path = JournalPath.segment(base, in: "/journal")
        let bytes = try #require(source.disk.bytes(of: path))
        let head = try #require(String(decoding: bytes, as: UTF8.self).firstRange(of: "OPEN 3"))
        let headByteCount = String(decoding: bytes, as: UTF8.self)[..<head.lowerBound].utf8.count - 50
        for index in 0..<headByteCount {
            var damaged = bytes
            damaged[index] ^= 0x10
            source.disk.place(path, damaged)
            let again = try source.open()
            #expect(source.table(of: again) == source.standings, "byte \(index)")
            #expect(again.segments == journal.segments)
            #expect(again.end == journal.end)
            #expect(again.recovery.damages.count == 1)
        }
    }

    @Test func `a segment that was being created is set aside, with what an abandoned one before it holds`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        bench.stageBatch(1, in: &journal)
        try bench.commit(&journal)
        let end = journal.end
        let path = "/journal/00000000000000000000.journal"
        let whole = try #require(bench.disk.bytes(of: path))
        bench.stageBatch(1, in: &journal)
        _ = try journal.commit(at: bench.groupTime)
        // The second group's sync failed, so a new segment was begun where it began; that one is torn.
        bench.disk.place(JournalPath.segment(end, in: "/journal"), Array("OPEN 1 {\"id".utf8))
        bench.staged = []
        journal = try bench.recover()
        #expect(journal.end == end)
        #expect(journal.recovery.setAsidePaths == [JournalPath.segment(end, in: "/journal") + ".torn-1"])
        #expect(bench.disk.bytes(of: path) == whole)
    }

    @Test func `recovery that fails anywhere leaves a journal that opens`() throws {
        let (source, bytes, ends) = try Self.threeGroups()
        let torn = Array(bytes[..<(ends[2] - 3)])
        for fault in [FaultyFiles.Fault.error(Errno.inputOutput), .half(Errno.noSpace)] {
            var call = 1
            while true {
                let bench = try JournalBench()
                bench.disk.place("/journal/00000000000000000000.journal", torn)
                bench.disk.fail(call: call, fault)
                do {
                    _ = try bench.open()
                } catch {
                    #expect(bench.disk.faultCount == 1)
                }
                if bench.disk.faultCount == 0 { break }
                #expect(bench.disk.memory.openDescriptorCount == 0)
                bench.disk.crash(seed: UInt64(call))
                let journal = try bench.open()
                #expect(try bench.read(upTo: journal.end).batches == source.batches)
                call += 1
            }
            #expect(call > 8)
        }
    }

    @Test(arguments: [Errno.inputOutput, Errno.noSpace])
    func `a torn end that cannot be copied stops no start, and is lost to a full disk alone`(errno: Int32) throws {
        let (source, bytes, ends) = try Self.threeGroups()
        let tail = Array("BATCH 1 2 of a group that a crash interrupted".utf8)
        let path = "/journal/00000000000000000000.journal"
        var startCount = 0
        for verb in [FileVerb.open, .write, .synchronize] {
            let bench = try JournalBench()
            bench.disk.place(path, Array(bytes[..<ends[1]]) + tail)
            bench.disk.fail(verb, of: "/journal/\(ends[1]).torn-1", .error(errno))
            var journal = try bench.open()
            startCount += 1
            #expect(journal.end.rawValue == ends[1])
            #expect(journal.recovery.tornByteCount == tail.count)
            #expect(bench.disk.bytes(of: "/journal/\(ends[1]).torn-1") == nil)
            let isKept = errno != Errno.noSpace
            #expect(journal.recovery.tornPath == (isKept ? path : nil))
            #expect(bench.disk.bytes(of: path) == bytes[..<ends[1]] + (isKept ? tail : []))
            // What is acknowledged from here on is behind the tail for every reader, and for the next start.
            bench.batches = Array(source.batches.prefix(4))
            bench.standings = bench.table(of: journal) ?? [:]
            bench.stageBatch(1, in: &journal)
            try bench.commit(&journal)
            bench.expectBatches(upTo: journal.end, everyPosition: true)
            bench.disk.crash(seed: 1)
            journal = try bench.recover()
            #expect(journal.recovery.tornByteCount == 0)
            #expect(bench.disk.bytes(of: path) == bytes[..<ends[1]] + (isKept ? tail : []))
        }
        #expect(startCount == 3)
    }

    @Test func `a start that left a torn end in its place and died has it still`() throws {
        let (source, bytes, ends) = try Self.threeGroups()
        let tail = Array("BATCH 1 2 of a group that a crash interrupted".utf8)
        var isOpen = false
        for call in 1...100 where !isOpen {
            let bench = try JournalBench()
            bench.disk.place("/journal/00000000000000000000.journal", Array(bytes[..<ends[1]]) + tail)
            bench.disk.fail(.write, of: "/journal/\(ends[1]).torn-1", .error(Errno.inputOutput))
            bench.disk.stop(atCall: call)
            isOpen = (try? bench.open()) != nil
            bench.disk.crash(seed: UInt64(call))
            let journal = try bench.open()
            #expect(try bench.read(upTo: journal.end).batches == Array(source.batches.prefix(4)))
            let kept = try #require(journal.recovery.tornPath)
            #expect(bench.disk.bytes(of: kept)?.suffix(tail.count) == tail[...])
        }
        #expect(isOpen)
    }
}
