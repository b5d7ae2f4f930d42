import Testing
import WaybillData
import WaybillFleet
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@Suite struct RestoreTests {
    @Test(arguments: 0..<UInt64(40))
    func `a lost disk comes back byte for byte, and the receiver continues in its chain`(seed: UInt64) throws {
        let bench = try RestoreBench(seed: seed)
        let end = try bench.live(Int(seed % 3) + 1)
        let target = FaultyFiles()
        let report = try bench.restore(on: target)
        #expect(report.troubles.isEmpty && report.tails.isEmpty && report.isComplete && !report.isResumed)
        #expect(report.end == end && report.pieceCount == bench.keys.count)
        #expect(
            try RestoreBench.segments(target, before: end) == RestoreBench.segments(bench.disk, before: end))
        let original = try RestoreBench.batches(bench.disk)
        let restored = try RestoreBench.batches(target)
        #expect(restored.batches == original.batches && restored.damages.isEmpty)
        #expect(report.lineCount == original.batches.count)

        // The receiver's next start is of the restore's incarnation, and knows every stream.
        var journal = try bench.start(on: target)
        #expect(journal.identity(name: "a").incarnation == Incarnation(99, 99))
        let before = try Journal(directory: RestoreBench.data + "/journal", files: bench.disk)
        #expect(journal.streams == before.streams)
        try bench.write(5, to: &journal)
        var uploader = try bench.uploader(of: journal, on: target, seed: 77)
        #expect(uploader.stored == end && uploader.chain == report.links.last?.chain)
        try uploader.uploadAll(upTo: journal.end)
        #expect(uploader.divergenceCount == 0)

        // Twice in a row.
        let second = FaultyFiles()
        let again = try bench.restore(on: second)
        #expect(again.end == journal.end && again.links == report.links)
        #expect(
            try RestoreBench.segments(second, before: again.end) == RestoreBench.segments(target, before: again.end))
    }

    /// Its beginning is then before position 0.
    @Test(arguments: ["MARK 7 0 00000000\n", "xMARK 3 0 00000000\n", "SEAL 1 5\nMARK 3 0 00000000\n", "x\n"])
    func `a journal's first piece that is damaged and longer than it should be has nothing to read`(
        beginning: String
    ) throws {
        let object = Array(beginning.utf8) + [UInt8](repeating: 0x78, count: 40)
        let start = JournalPosition(0)
        let next = JournalPosition(10)
        let content = try #require(
            try PieceContent(object, startingAt: start, endingAt: next, files: FaultyFiles()))
        #expect(content.damages == [start..<next] && content.lineCount == 0)
    }

    @Test func `a restore that dies at any call is continued, and is then as one that did not`() throws {
        let bench = try RestoreBench(seed: 3)
        _ = try bench.live(3, groups: 8)
        let whole = FaultyFiles()
        _ = try bench.restore(on: whole)
        let callCount = whole.callCount
        let expected = try RestoreBench.tree(whole)
        #expect(callCount > 100)
        for call in 1...callCount {
            for isPower in [false, true] {
                let disk = FaultyFiles()
                disk.stop(atCall: call)
                #expect(throws: RestoreFailure.self) { try bench.restore(on: disk) }
                if isPower { disk.crash(seed: UInt64(call)) } else { disk.kill() }
                let isOver = try RestoreBench.isRestored(disk)
                if !isOver {
                    let report = try bench.restore(on: disk)
                    #expect(report.troubles.isEmpty && report.isComplete, "call \(call)")
                }
                #expect(try RestoreBench.tree(disk) == expected, "call \(call), power \(isPower)")
                // What is there is on the disk; a mark whose removal was not synced may come back, and is removed again.
                disk.crash(seed: UInt64(call) ^ 0x55)
                if isOver, try !RestoreBench.isRestored(disk) { _ = try bench.restore(on: disk) }
                #expect(try RestoreBench.tree(disk) == expected, "call \(call), power \(isPower), after")
            }
        }
    }

    @Test(arguments: [FaultyFiles.Fault.error(Errno.inputOutput), .half(Errno.noSpace), .short])
    func `a disk that fails in any call fails the restore, which is continued`(fault: FaultyFiles.Fault) throws {
        let bench = try RestoreBench(seed: 4)
        _ = try bench.live(2, groups: 6)
        let whole = FaultyFiles()
        _ = try bench.restore(on: whole)
        let expected = try RestoreBench.segments(whole, before: JournalPosition(.max))
        for call in 1...whole.callCount {
            let disk = FaultyFiles()
            disk.fail(call: call, fault)
            let isDone = (try? bench.restore(on: disk)) != nil
            disk.clearFaults()
            let data = DataDirectory(root: RestoreBench.data, files: disk)
            let isMarked = try RestoreMark.isPresent(in: RestoreBench.data, disk)
            if isMarked, try disk.status(at: data.state) != nil {
                #expect(throws: DataDirectoryError.self) { try data.lock(processID: 1) }
            }
            // Only the sync of the last step may fail when everything is done.
            if isMarked || !isDone, try isMarked || RestoredDays.read(in: data) == nil {
                _ = try bench.restore(on: disk)
            }
            #expect(try RestoreBench.segments(disk, before: JournalPosition(.max)) == expected, "call \(call)")
            #expect(try !RestoreMark.isPresent(in: RestoreBench.data, disk))
        }
    }

    @Test func `a bucket that fails in any call fails the restore, which is continued`() throws {
        let bench = try RestoreBench(seed: 5)
        _ = try bench.live(2)
        let whole = FaultyFiles()
        let before = bench.store.callCount
        _ = try bench.restore(on: whole)
        let expected = try RestoreBench.tree(whole)
        for call in 0..<(bench.store.callCount - before) {
            let disk = FaultyFiles()
            let failing = bench.store.callCount + call
            bench.store.setFaults { $0.number == failing ? .refused(.busy) : nil }
            #expect(throws: RestoreFailure.self) { try bench.restore(on: disk) }
            bench.store.setFaults(nil)
            _ = try bench.restore(on: disk)
            #expect(try RestoreBench.tree(disk) == expected, "call \(call)")
        }
    }

    // MARK: Several chains

    /// A directory that was put back from a copy, and the bytes of its former history.
    private func diverged() throws -> (bench: RestoreBench, copyEnd: JournalPosition, former: ChainName, lost: Int) {
        let bench = try RestoreBench(seed: 6)
        var journal = try bench.start()
        try bench.write(20, to: &journal)
        var uploader = try bench.uploader(of: journal)
        try uploader.uploadAll(upTo: journal.end)
        let copyEnd = journal.end
        let copy = try RestoreBench.copy(bench.disk)
        let former = uploader.chain
        try bench.write(7, to: &journal)
        try uploader.uploadAll(upTo: journal.end)
        let lost = try RestoreBench.batches(bench.disk, from: copyEnd).batches.count
        try bench.putBack(copy)
        journal = try bench.start()
        try bench.write(30, to: &journal)
        uploader = try bench.uploader(of: journal, seed: 2)
        try uploader.uploadAll(upTo: journal.end)
        #expect(uploader.divergenceCount == 1 && uploader.chain != former)
        return (bench, copyEnd, former, lost)
    }

    @Test func `a chain continues the one that stood where it began, whose tail is named`() throws {
        let (bench, copyEnd, former, lost) = try self.diverged()
        let target = FaultyFiles()
        let report = try bench.restore(on: target)
        #expect(report.links.map(\.chain).first == former && report.links.count == 2)
        #expect(report.links[1].start == copyEnd)
        #expect(
            try RestoreBench.segments(target, before: report.end)
                == RestoreBench.segments(bench.disk, before: report.end))
        #expect(report.tails.map(\.chain) == [former])
        #expect(report.tails.first?.start == copyEnd && report.tails.first?.lineCount == lost)
        #expect(report.tails.first?.isCounted == true && (report.tails.first?.byteCount ?? 0) > 0)
    }

    @Test func `another chain is restored when it is named`() throws {
        let (bench, copyEnd, former, lost) = try self.diverged()
        let target = FaultyFiles()
        let report = try bench.restore(on: target, chains: [former])
        #expect(report.links == [ChainLink(former, from: JournalPosition(0))])
        #expect(report.end > copyEnd && report.tails.count == 1 && report.tails[0].start == copyEnd)
        #expect(try RestoreBench.batches(target, from: copyEnd).batches.count == lost)
        let newest = report.tails[0].chain
        let both = try bench.restore(on: FaultyFiles(), chains: [former, newest])
        #expect(both.links.map(\.chain) == [former, newest])
        #expect(throws: RestoreFailure.self) { try bench.restore(on: FaultyFiles(), chains: [newest, former]) }
        var generator = SeededGenerator(seed: 4_242)
        let unknown = ChainName(receiver: "a", &generator)
        #expect(throws: RestoreFailure.self) { try bench.restore(on: FaultyFiles(), chains: [unknown]) }
    }

    @Test func `the same bytes under another chain are no tail`() throws {
        let bench = try RestoreBench(seed: 8)
        _ = try bench.live(1)
        // The uploader's state is lost: everything goes into a chain of its own once more.
        try bench.disk.unlink(UploadState.path(in: RestoreBench.data))
        let end = try bench.live(1)
        let report = try bench.restore(on: FaultyFiles())
        #expect(report.end == end && report.links.count == 1 && report.tails.isEmpty)
    }

    @Test func `an empty directory with the same name is another history`() throws {
        let bench = try RestoreBench(seed: 9)
        let former = try bench.live(1)
        let lineCount = try RestoreBench.batches(bench.disk).batches.count
        try bench.putBack([:])
        var journal = try bench.start()
        try bench.write(3, to: &journal)
        var uploader = try bench.uploader(of: journal, seed: 5)
        try uploader.uploadAll(upTo: journal.end)
        let report = try bench.restore(on: FaultyFiles())
        #expect(report.links.count == 1 && report.end == journal.end)
        #expect(report.tails.count == 1 && report.tails[0].lineCount == lineCount)
        #expect(report.tails[0].start == JournalPosition(0) && report.tails[0].byteCount == former.rawValue)
    }

    @Test func `two histories at one position are told apart by the operator alone`() throws {
        let bench = try RestoreBench(seed: 10)
        let end = try bench.live(1)
        let chain = try #require(bench.keys.first.flatMap { ChainName($0.split(separator: "/")[1]) })
        // Another history whose pieces have the same borders, and a chain that begins where both end.
        for key in bench.keys {
            var bytes = try #require(bench.store.objects[key])
            if RestoreBench.position(key) > JournalPosition(0) { bytes[bytes.count - 3] ^= 1 }
            bench.store.place(key.replacing(chain.description, with: "a~00000000000000aa"), bytes)
        }
        var journal = try bench.start()
        try bench.write(3, to: &journal)
        try bench.disk.unlink(UploadState.path(in: RestoreBench.data))
        let cutter = ChainName("a~00000000000000bb")
        let third = try #require(cutter)
        var state = try StateStore(path: UploadState.path(in: RestoreBench.data), files: bench.disk)
        try state.commit(["fleet": "f1", "chain": third.description, "position": "\(end)"])
        var uploader = try bench.uploader(of: journal)
        try uploader.uploadAll(upTo: journal.end)
        let other = try #require(ChainName("a~00000000000000aa"))
        #expect(throws: RestoreFailure.ambiguous(ChainLink(third, from: end), [chain, other].sorted())) {
            try bench.restore(on: FaultyFiles())
        }
        let report = try bench.restore(on: FaultyFiles(), chains: [chain, third])
        #expect(report.troubles.isEmpty && report.end == journal.end)
    }

    @Test func `of two directories from one copy the one is found whose start the chain names`() throws {
        let bench = try RestoreBench(seed: 18)
        _ = try bench.live(1, groups: 4)
        let copy = try RestoreBench.copy(bench.disk)
        var ends: [JournalPosition] = []
        var copies: [[String: [UInt8]]] = []
        for seed in [21, 22] as [UInt64] {
            try bench.putBack(copy)
            var journal = try bench.start()
            ends.append(journal.end)
            var uploader = try bench.uploader(of: journal, seed: seed)
            try uploader.uploadAll(upTo: journal.end)
            copies.append(try RestoreBench.copy(bench.disk))
            try bench.write(3, to: &journal)
            try uploader.uploadAll(upTo: journal.end)
        }
        // Both have a piece that ends at the same position, with another start in it.
        #expect(ends[0] == ends[1])
        for number in [0, 1] {
            try bench.putBack(copies[number])
            var journal = try bench.start()
            try bench.write(30 + number, to: &journal)
            var uploader = try bench.uploader(of: journal, seed: UInt64(30 + number))
            try uploader.uploadAll(upTo: journal.end)
            let target = FaultyFiles()
            let report = try bench.restore(on: target)
            #expect(report.troubles.isEmpty && report.end == journal.end && report.links.count >= 2)
            #expect(
                try RestoreBench.segments(target, before: report.end)
                    == RestoreBench.segments(bench.disk, before: report.end))
        }
    }

    // MARK: Damage

    @Test(arguments: 0..<UInt64(30))
    func `a damaged piece is named, and everything else is read`(seed: UInt64) throws {
        let bench = try RestoreBench(seed: seed)
        let end = try bench.live(2)
        var generator = SeededGenerator(seed: seed)
        let key = try #require(bench.keys.randomElement(using: &generator))
        var bytes = try #require(bench.store.objects[key])
        let index = Int.random(in: bytes.indices, using: &generator)
        bytes[index] ^= 0x20
        bench.store.place(key, bytes)
        let target = FaultyFiles()
        let report = try bench.restore(on: target)
        let original = try RestoreBench.batches(bench.disk)
        let restored = try RestoreBench.batches(target)
        if restored.batches == original.batches {
            // A byte of the piece's own head, of which nothing is in the journal, or of a time.
            #expect(report.end == end)
        } else {
            #expect(!report.troubles.isEmpty, "\(key) at \(index)")
            let start = RestoreBench.position(key)
            #expect(report.troubles.allSatisfy { $0.range.upperBound > start })
            // What is lost is in one piece, and its order stays.
            let kept = Set(restored.batches)
            #expect(original.batches.filter { kept.contains($0) } == restored.batches)
            #expect(original.batches.count - restored.batches.count <= 12)
        }
    }

    @Test(arguments: 0..<UInt64(30))
    func `a missing piece is named, and what follows is read`(seed: UInt64) throws {
        let bench = try RestoreBench(seed: seed)
        let end = try bench.live(2)
        let keys = bench.keys
        let index = 1 + Int(seed) % (keys.count - 2)
        bench.store.place(keys[index], nil)
        let target = FaultyFiles()
        let report = try bench.restore(on: target)
        let (start, next) = (RestoreBench.position(keys[index]), RestoreBench.position(keys[index + 1]))
        #expect(report.troubles.first?.kind == .missing && report.troubles.first?.range == start..<next)
        #expect(report.end == end)
        let original = try RestoreBench.batches(bench.disk).batches
        let restored = try RestoreBench.batches(target)
        #expect(!restored.damages.isEmpty)
        let lost =
            try RestoreBench.batches(bench.disk, from: start).batches.count
            - RestoreBench.batches(bench.disk, from: next).batches.count
        let unusable = report.troubles.contains { $0.kind == .unusable }
        if !unusable { #expect(restored.batches.count == original.count - lost) }
        let kept = Set(restored.batches)
        #expect(original.filter { kept.contains($0) } == restored.batches)
        // No stream stands below what the journal has of it.
        let journal = try bench.start(on: target)
        for batch in restored.batches {
            let standing = journal.streams.first { $0.key.id.text == batch.stream }?.value
            #expect((standing?.durable.rawValue ?? 0) > batch.offset)
        }
    }

    @Test func `a journal whose beginning is gone from the bucket is restored from there on`() throws {
        for count in 1...6 {
            let bench = try RestoreBench(seed: 12)
            let end = try bench.live(2)
            for key in bench.keys.prefix(count) { bench.store.place(key, nil) }
            let target = FaultyFiles()
            let report = try bench.restore(on: target)
            // So near the beginning a piece's own head may be longer than what precedes it.
            let first = report.troubles.last?.range.upperBound ?? RestoreBench.position(bench.keys[0])
            #expect(
                report.troubles.allSatisfy { $0.kind == .unusable } && report.troubles.count <= (count == 1 ? 1 : 0))
            #expect(report.start == first && report.end == end && !report.isComplete && report.firstTime != nil)
            #expect(
                try RestoreBench.batches(target, from: first).batches
                    == RestoreBench.batches(bench.disk, from: first).batches)
        }
    }

    @Test func `what is no piece behind the last one ends the journal, and stays`() throws {
        let bench = try RestoreBench(seed: 13)
        let end = try bench.live(1)
        let chain = try #require(bench.keys.first.flatMap { ChainName($0.split(separator: "/")[1]) })
        bench.store.place(chain.key(of: end), Array("an operator's notes".utf8))
        bench.store.place(chain.prefix + "README", Array("notes".utf8))
        bench.store.place("journal/a~notes/1", Array("notes".utf8))
        let target = FaultyFiles()
        let report = try bench.restore(on: target)
        #expect(report.end == end && report.troubles.map(\.kind) == [.unusable])
        // The next piece finds the key taken, and begins another chain.
        var journal = try bench.start(on: target)
        try bench.write(2, to: &journal)
        var uploader = try bench.uploader(of: journal, on: target, seed: 3)
        try uploader.uploadAll(upTo: journal.end)
        #expect(uploader.divergenceCount == 1)
        #expect(bench.store.objects[chain.key(of: end)] == Array("an operator's notes".utf8))
        let again = try bench.restore(on: FaultyFiles())
        #expect(again.end == journal.end && again.links.count == 2 && again.troubles.isEmpty)
    }

    // MARK: Refusals

    @Test func `a directory with anything in it is refused and left as it is`() throws {
        let bench = try RestoreBench(seed: 14)
        _ = try bench.live(1)
        let disk = FaultyFiles()
        try disk.createDirectories(RestoreBench.data)
        disk.place(RestoreBench.data + "/notes", [1])
        #expect(throws: RestoreFailure.notEmpty(path: RestoreBench.data, name: "notes")) {
            try bench.restore(on: disk)
        }
        #expect(try RestoreBench.tree(disk).keys.sorted() == [RestoreBench.data + "/notes"])
        // A finished restore is no exception.
        let done = FaultyFiles()
        _ = try bench.restore(on: done)
        #expect(throws: RestoreFailure.self) { try bench.restore(on: done) }
    }

    @Test func `a directory that was begun for another receiver or fleet is refused`() throws {
        let bench = try RestoreBench(seed: 15)
        _ = try bench.live(2)
        for (key, bytes) in bench.store.objects {
            bench.store.place(key.replacing("journal/a~", with: "journal/b~"), bytes)
        }
        let disk = FaultyFiles()
        disk.stop(atCall: 60)
        _ = try? bench.restore(on: disk)
        disk.kill()
        #expect(try RestoreMark.isPresent(in: RestoreBench.data, disk))
        for (receiver, fleet) in [("b", "f1"), ("a", "f2")] {
            var restorer = bench.restorer(on: disk, receiver: receiver, fleet: fleet)
            let failure = #expect(throws: RestoreFailure.self) { try restorer.run() }
            guard case .otherRestore = failure else { Issue.record("\(String(describing: failure))"); continue }
        }
        let data = DataDirectory(root: RestoreBench.data, files: disk)
        try data.create()
        #expect(throws: DataDirectoryError.self) { try data.lock(processID: 1) }
        #expect(try bench.restore(on: disk).isResumed)
        _ = try data.lock(processID: 1)
    }

    @Test func `a disk without room is found out before anything is fetched`() throws {
        let bench = try RestoreBench(seed: 17)
        let end = try bench.live(1)
        let disk = FaultyFiles()
        disk.memory.setFreeByteCount(end.rawValue)
        let failure = #expect(throws: RestoreFailure.self) { try bench.restore(on: disk) }
        #expect(failure == .noSpace(neededByteCount: end.rawValue + (16 << 20), freeByteCount: end.rawValue))
        #expect(try disk.list(RestoreBench.data + "/journal") == [])
        disk.memory.setFreeByteCount(1 << 30)
        #expect(try bench.restore(on: disk).end == end)
    }

    @Test func `a bucket without this receiver's journal says what it has`() throws {
        let bench = try RestoreBench(seed: 16)
        var restorer = bench.restorer(on: FaultyFiles())
        #expect(throws: RestoreFailure.noJournal(receiver: "a", others: [], hasArchive: false)) { try restorer.run() }
        bench.store.place("archive/env=prod/bundle=x/date=2026-11-20/_SUCCESS", [])
        restorer = bench.restorer(on: FaultyFiles())
        let failure = #expect(throws: RestoreFailure.self) { try restorer.run() }
        #expect(failure == .noJournal(receiver: "a", others: [], hasArchive: true))
        #expect(failure?.description.contains("waybill merge") == true)
        _ = try bench.live(1)
        restorer = bench.restorer(on: FaultyFiles(), receiver: "b")
        #expect(throws: RestoreFailure.noJournal(receiver: "b", others: ["a"], hasArchive: true)) {
            try restorer.run()
        }
    }
}
