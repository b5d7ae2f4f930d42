import Testing
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@Suite struct JournalFaultTests {
    @Test(arguments: [
        FaultyFiles.Fault.error(Errno.inputOutput), .error(Errno.noSpace), .short,
        .half(Errno.noSpace), .half(Errno.inputOutput),
    ])
    func `a commit that fails at any call is made good by the next, and survives crashes`(
        fault: FaultyFiles.Fault
    ) throws {
        // 0 begins a segment, 1 continues in one, 2 rolls.
        for scenario in 0..<3 {
            var call = 1
            while try self.failCommit(scenario: scenario, call: call, fault) { call += 1 }
            #expect(call > 2)
        }
    }

    /// - Returns: whether the fault struck.
    private func failCommit(scenario: Int, call: Int, _ fault: FaultyFiles.Fault) throws -> Bool {
        let bench = try JournalBench(segmentByteCountMax: scenario == 2 ? 100 : 1 << 20)
        var journal = try bench.open()
        if scenario > 0 {
            bench.stageBatch(1, in: &journal)
            try bench.commit(&journal)
        }
        bench.stageBatch(1, rawByteCount: 300, in: &journal)
        bench.stageBatch(2, rawByteCount: 300, in: &journal)
        bench.disk.fail(call: call, fault)
        do {
            try bench.commit(&journal)
        } catch {
            #expect(journal.hasStaged == true)
            #expect(bench.table(of: journal) == bench.standings)
            bench.expectBatches(upTo: journal.end)
        }
        let hasFailed = bench.disk.faultCount > 0
        bench.disk.clearFaults()
        bench.stageBatch(1, in: &journal)
        try bench.commit(&journal)
        bench.expectBatches(upTo: journal.end, everyPosition: true)
        for seed in 0..<5 {
            bench.disk.crash(seed: UInt64(seed))
            journal = try bench.recover()
        }
        return hasFailed
    }

    @Test func `a full disk does not fill up with attempts`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        bench.stageBatch(1, in: &journal)
        for _ in 0..<50 {
            // Calls of an attempt: status, open, write.
            bench.disk.fail(call: 3, .half(Errno.noSpace))
            #expect(throws: FileSystemError.self) { try bench.commit(&journal) }
        }
        #expect(bench.disk.tree("/journal").isEmpty)
        try bench.commit(&journal)
        #expect(bench.disk.tree("/journal").count == 1)
        #expect(bench.disk.memory.openDescriptorCount == 1)
    }

    @Test func `after a failed sync the group goes to a new segment, which cuts off the old one`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        bench.stageBatch(1, in: &journal)
        try bench.commit(&journal)
        let end = journal.end
        bench.stageBatch(1, in: &journal)
        // Its calls: write, synchronize, and the cut, which fails as well.
        bench.disk.fail(call: 2, .error(Errno.inputOutput))
        bench.disk.fail(call: 3, .error(Errno.inputOutput))
        #expect(throws: FileSystemError.self) { try bench.commit(&journal) }
        let old = try #require(bench.disk.bytes(of: "/journal/00000000000000000000.journal"))
        #expect(old.count > end.rawValue)
        bench.stageBatch(2, in: &journal)
        try bench.commit(&journal)
        #expect(journal.segments == [JournalPosition(0), end])
        bench.expectBatches(upTo: journal.end, everyPosition: true)
        bench.disk.crash(seed: 1)
        journal = try bench.recover()
        #expect(journal.segments == [JournalPosition(0), end])
    }

    @Test func `a group that was whole but not synced is durable once recovery has read it`() throws {
        for seed in 0..<UInt64(30) {
            let bench = try JournalBench()
            var journal = try bench.open()
            bench.stageBatch(1, in: &journal)
            try bench.commit(&journal)
            bench.stageBatch(1, in: &journal)
            bench.disk.stop(atCall: 2)
            #expect(throws: FileSystemError.self) { try bench.commit(&journal) }
            bench.disk.kill()
            journal = try bench.recover()
            #expect(bench.batches.count == 2)
            bench.disk.crash(seed: seed)
            journal = try bench.recover()
            #expect(bench.batches.count == 2)
        }
    }

    @Test func `a group that a failed sync left in the cache is durable before a start answers from it`() throws {
        for seed in 0..<UInt64(40) {
            let bench = try JournalBench()
            var journal = try bench.open()
            bench.stageBatch(1, in: &journal)
            try bench.commit(&journal)
            bench.stageBatch(1, rawByteCount: 3000, in: &journal)
            // The write succeeds; the sync behind it and the cut behind that do not; then the process dies.
            bench.disk.fail(call: 2, .error(Errno.inputOutput))
            bench.disk.fail(call: 3, .error(Errno.inputOutput))
            #expect(throws: FileSystemError.self) { try bench.commit(&journal) }
            #expect(bench.disk.memory.hasDroppedPages)
            bench.disk.kill()
            journal = try bench.recover()
            #expect(journal.recovery.rewrittenByteCount > 0)
            bench.disk.crash(seed: seed)
            // What was answered after the first start is there after the power cut.
            journal = try bench.recover()
            #expect(journal.recovery.damages == [])
        }
    }

    @Test func `a start that dies while it writes the last group again loses nothing`() throws {
        for isKilled in [false, true] {
            var call = 1
            while true {
                let bench = try JournalBench()
                var journal = try bench.open()
                bench.stageBatch(1, in: &journal)
                bench.stageBatch(2, rawByteCount: 3000, in: &journal)
                try bench.commit(&journal)
                bench.disk.kill()
                bench.disk.stop(atCall: call)
                let isOpen = (try? bench.open()) != nil
                if isKilled { bench.disk.kill() } else { bench.disk.crash(seed: UInt64(call)) }
                _ = try bench.recover()
                #expect(try bench.disk.list(bench.directory).allSatisfy { !$0.hasSuffix(".group") })
                if isOpen { break }
                call += 1
            }
            #expect(call > 8)
        }
    }

    @Test func `a start that dies over what another died over loses nothing when the power goes`() throws {
        var firstCall = 1
        while try self.survives(firstCall, stoppedAt: nil) {
            var secondCall = 1
            while try self.survives(firstCall, stoppedAt: secondCall) { secondCall += 1 }
            firstCall += 1
        }
        #expect(firstCall > 8)
    }

    /// One start dies at a call, the next one at another, then the power goes.
    ///
    /// - Returns: whether the last of the starts died.
    private func survives(_ firstCall: Int, stoppedAt secondCall: Int?) throws -> Bool {
        var wasStopped = false
        for seed in 0..<UInt64(4) {
            let bench = try JournalBench()
            var journal = try bench.open()
            bench.stageBatch(1, in: &journal)
            try bench.commit(&journal)
            bench.stageBatch(2, rawByteCount: 3000, in: &journal)
            try bench.commit(&journal)
            bench.disk.kill()
            for call in [firstCall, secondCall].compactMap({ $0 }) {
                bench.disk.stop(atCall: call)
                wasStopped = (try? bench.open()) == nil
                bench.disk.kill()
            }
            bench.disk.crash(seed: seed)
            _ = try bench.recover()
        }
        return wasStopped
    }

    @Test func `a start without room makes durable what one before it could not`() throws {
        var call = 1
        var isOpen = false
        while !isOpen {
            for seed in 0..<UInt64(8) {
                let bench = try JournalBench()
                var journal = try bench.open()
                bench.stageBatch(1, in: &journal)
                try bench.commit(&journal)
                let groupStart = journal.end
                bench.stageBatch(2, rawByteCount: 3000, in: &journal)
                try bench.commit(&journal)
                bench.disk.kill()
                bench.disk.fail(call: call, .error(Errno.inputOutput))
                isOpen = (try? bench.open()) != nil
                bench.disk.kill()
                let copy = "/journal/\(groupStart.rawValue).group.tmp"
                bench.disk.fail(.open, of: copy, .error(Errno.noSpace))
                journal = try bench.open()
                bench.stageBatch(1, in: &journal)
                try bench.commit(&journal)
                bench.disk.crash(seed: seed)
                _ = try bench.recover()
            }
            call += 1
        }
        #expect(call > 8)
    }

    @Test func `a segment that is gone is named, and streams continue where a reader holds them`() throws {
        let bench = try JournalBench(segmentByteCountMax: 100)
        var journal = try bench.open()
        for _ in 0..<4 {
            bench.stageBatch(1, in: &journal)
            try bench.commit(&journal)
        }
        let segments = journal.segments
        try bench.disk.unlink(JournalPath.segment(segments[1], in: "/journal"))
        let end = journal.end
        journal = try bench.open()
        #expect(journal.recovery.damages.map { [$0.start, $0.end] } == [[segments[1], segments[2]]])
        try bench.disk.unlink(JournalPath.segment(segments[3], in: "/journal"))
        var shorter = try Journal(directory: "/journal", files: bench.disk, endMin: end)
        #expect(shorter.recovery.damages.last?.end == end)
        #expect(shorter.position(of: JournalBench.description(1).name) == StreamOffset(300))
        // One byte more is the LF that the archive gave to a stream's last line.
        for (offset, expected) in [(301, 300), (400, 400), (200, 400), (401, 400)] as [(UInt64, UInt64)] {
            try shorter.advance(to: [
                StreamStanding(
                    description: JournalBench.description(1), tail: StreamTail(unknownBelow: StreamOffset(offset)))
            ])
            #expect(shorter.position(of: JournalBench.description(1).name) == StreamOffset(expected))
        }
    }
}
