import Testing
import WaybillData
import WaybillFleet
import WaybillSystem
import WaybillTestSupport

@Suite struct CheckpointTests {
    /// A merger over some rounds, with a checkpoint behind them.
    private func merged(
        _ bench: CheckpointBench, _ files: FaultyFiles, rounds: Int = 4
    ) throws -> Merger<FaultyFiles> {
        var merger = try bench.merger("m1", files)
        for number in 0..<rounds {
            try bench.receive(number % 3)
            try bench.merge(&merger, files)
        }
        return merger
    }

    @Test func `a merger that is restored at each barrier continues with the same bytes`() throws {
        let bench = CheckpointBench()
        let (stays, lost) = (try CheckpointBench.disk(), try CheckpointBench.disk())
        var first = try bench.merger("m1", stays)
        var second = try bench.merger("m2", lost)
        var files = lost
        var unprovenCount = 0
        for number in 0..<24 {
            try bench.receive(number % 4, by: "a")
            // Another receiver gets all of it again: within the window of comparison, and beyond it.
            if number % 11 == 10 { for stream in 0..<4 { try bench.receive(stream, by: "b", lines: 0) } }
            try bench.merge(&first, stays)
            try bench.merge(&second, files)
            let end = first.end.rawValue
            #expect(second.end.rawValue == end)
            let journal = CheckpointBench.journal(files, from: 0)
            #expect(journal == CheckpointBench.journal(stays, from: end - journal.count))
            #expect(second.missing == first.missing)
            try bench.make(second, files, seed: UInt64(number))
            // The power fails, and the disk is another one.
            files = try CheckpointBench.disk()
            guard case .restored(let report) = try bench.restore(files) else {
                Issue.record("nothing was restored")
                return
            }
            #expect(report.round == first.round)
            #expect(report.damaged == [])
            second = try bench.merger("m2", files)
            #expect(second.round == first.round)
            #expect(second.end == first.end)
            #expect(second.through == first.through)
            unprovenCount = first.tally.unprovenLineCount
        }
        #expect(first.tally.droppedLineCount > 0)
        #expect(unprovenCount > 0, "some of it came again behind the window")
        #expect(first.tally.conflictLineCount == 0)
    }

    @Test func `what is restored has the files up to their checkpointed lengths, and nothing else`() throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        let merger = try self.merged(bench, files, rounds: 14)
        let published = "\(CheckpointBench.dayPath)/part-00001.ndjson.gz"
        let other = "\(CheckpointBench.dayPath)/part-00001.sources"
        let long = [UInt8](repeating: 0x61, count: 700)
        for path in [published, other] { files.place("/data/\(path)", long) }
        files.place("/data/\(CheckpointBench.dayPath)/manifest.json", Array("{}\n".utf8))
        files.place("/data/exports/csv/env=prod/date=2026-11-20/part-00000.delivered", Array("sent\n".utf8))
        files.place("/data/exports/csv/.replay-1/part-00000.csv", Array("half".utf8))
        files.place("/data/state/deliver-csv.state", Array("waybill-state 1\n".utf8))
        files.place("/data/state/lock", Array("17\n".utf8))
        // The bucket has one of the two as it is here.
        bench.store.place(published, long)
        bench.store.place(other, long.dropLast() + [0x62])
        var wanted = CheckpointBench.tree(files)
        let late = "/data/\(CheckpointBench.dayPath)/late-00001.ndjson"
        wanted[late]?.removeLast("torn".utf8.count)
        wanted["/data/state/deliver-csv.state"] = nil
        wanted["/data/exports/csv/.replay-1/part-00000.csv"] = nil
        let captured = try bench.capture(merger, files).sources
        let first = try #require(
            captured.compactMap { JournalPath.position(ofSegment: Path.name(of: $0.path)) }.min())
        for path in wanted.keys where path.hasPrefix("/data/journal/") {
            let name = Path.name(of: path)
            let base = try #require(JournalPath.position(ofSegment: name))
            // Segments that nothing is compared with stay behind.
            if base < first { wanted[path] = nil }
        }
        try bench.make(merger, files)

        let fresh = try CheckpointBench.disk()
        fresh.place("/data/archive/stray", Array("stray".utf8))
        _ = try bench.restore(fresh)
        var restored = CheckpointBench.tree(fresh)
        // What was there, and is none of the checkpoint's, is kept.
        let stray = restored.removeValue(forKey: "/data/set-aside/merger-1/archive/stray")
        #expect(stray == Array("stray".utf8))
        #expect(restored.keys.sorted() == wanted.keys.sorted())
        for (path, bytes) in wanted { #expect(restored[path] == bytes, "\(path)") }
        let folders = bench.store.objects.keys.filter { $0.hasPrefix("merge/s00/") && !$0.hasSuffix(".wbs") }
        #expect(folders.contains { $0.hasPrefix("merge/s00/journal/") })
    }

    @Test func `a second checkpoint uploads what changed`() throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        var merger = try self.merged(bench, files)
        files.place("/data/archive/large", [UInt8](repeating: 0x61, count: 50_000))
        let first = try bench.make(merger, files)
        #expect(first.uploadedByteCount > 50_000)
        try bench.receive(1)
        try bench.merge(&merger, files)
        let second = try bench.make(merger, files, seed: 2)
        #expect(second.byteCount > 50_000)
        #expect(second.uploadedByteCount < 50_000)
        // At the same barrier someone was first.
        #expect(throws: CheckpointFailure.self) { try bench.make(merger, files, seed: 3) }
    }

    @Test func `a checkpoint that is not whole is passed over for the one before`() throws {
        for number in 0... {
            let bench = CheckpointBench()
            let files = try CheckpointBench.disk()
            var merger = try self.merged(bench, files)
            try bench.make(merger, files)
            let round = merger.round
            let older = Set(bench.store.objects.keys)
            try bench.receive(1)
            try bench.merge(&merger, files)
            try bench.make(merger, files, seed: 2)
            let added = bench.store.objects.keys.filter { $0.hasPrefix("merge/s00/") && !$0.hasSuffix(".wbs") }
                .filter { !older.contains($0) }.sorted()
            guard number < added.count else {
                #expect(number > 2)
                return
            }
            let key = added[number]
            let bytes = try #require(bench.store.objects[key])
            bench.store.place(key, number % 2 == 0 ? nil : bytes.dropLast() + [bytes[bytes.count - 1] ^ 1])
            let fresh = try CheckpointBench.disk()
            guard case .restored(let report) = try bench.restore(fresh) else {
                Issue.record("nothing was restored without \(key)")
                continue
            }
            // A commit that is gone was never there.
            #expect(report.damaged.count == 1 || key.hasSuffix(".wbc"), "\(key)")
            #expect(report.round == round, "\(key)")
            var again = try bench.merger("m2", fresh)
            try bench.merge(&again, fresh)
            #expect(again.end == merger.end)
        }
    }

    @Test func `without a whole checkpoint the first rounds are taken, or it says what is missing`() throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        let merger = try self.merged(bench, files)
        try bench.make(merger, files)
        for key in bench.store.objects.keys where key.hasPrefix("merge/s00/checkpoint/") && !key.hasSuffix(".wbc") {
            bench.store.place(key, nil)
        }
        let fresh = try CheckpointBench.disk()
        guard case .restored(let report) = try bench.restore(fresh) else {
            Issue.record("nothing was said")
            return
        }
        #expect(report.round == 0)
        #expect(report.damaged.count == 1)
        var again = try bench.merger("m2", fresh)
        try bench.merge(&again, fresh)
        #expect(again.end == merger.end)

        bench.store.place(MergeRound.key(of: 1), nil)
        let error = #expect(throws: MergeFailure.self) { _ = try bench.restore(try CheckpointBench.disk()) }
        guard case .noCheckpoint(let damages) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(damages.count == 1)
    }

    @Test func `a merger that dies in any call of a checkpoint loses nothing, and the next one is whole`() throws {
        for call in 1... {
            let bench = CheckpointBench()
            let files = try CheckpointBench.disk()
            let merger = try self.merged(bench, files, rounds: 3)
            files.stop(atCall: call)
            var isMade = true
            do {
                try bench.make(merger, files)
            } catch {
                isMade = false
            }
            guard files.isStopped else {
                #expect(isMade)
                #expect(call > 20)
                return
            }
            files.crash(seed: UInt64(call))
            try CheckpointCapture.discard(root: "/data", files: files)
            var again = try bench.merger("m1", files)
            #expect(again.end == merger.end, "call \(call)")
            try bench.receive(2)
            try bench.merge(&again, files)
            try bench.make(again, files, seed: 2)
            let fresh = try CheckpointBench.disk()
            _ = try bench.restore(fresh)
            #expect(try bench.merger("m2", fresh).end == again.end, "call \(call)")
        }
    }

    @Test func `whatever call of the bucket fails, a checkpoint is whole or none`() throws {
        for fault in [MemoryStore.Fault.refused(.busy), .unanswered] {
            for call in 0... {
                let bench = CheckpointBench()
                let files = try CheckpointBench.disk()
                let merger = try self.merged(bench, files, rounds: 3)
                let start = bench.store.callCount
                bench.store.setFaults { $0.number == start + call ? fault : nil }
                do {
                    try bench.make(merger, files)
                } catch is CheckpointFailure {
                    // It is tried again at the next barrier.
                }
                let isPast = bench.store.callCount <= start + call
                bench.store.setFaults(nil)
                let fresh = try CheckpointBench.disk()
                if case .restored(let report) = try bench.restore(fresh) {
                    #expect(report.damaged == [])
                    #expect(try bench.merger("m2", fresh).end == merger.end)
                } else {
                    #expect(!isPast)
                }
                if isPast { break }
            }
        }
    }

    @Test func `a merger that dies in any call of being restored is restored by the next start`() throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        let merger = try self.merged(bench, files, rounds: 3)
        files.place("/data/archive/large", [UInt8](repeating: 0x61, count: 5_000))
        try bench.make(merger, files)
        let whole = try CheckpointBench.disk()
        _ = try bench.restore(whole)
        let wanted = CheckpointBench.tree(whole)
        for call in 1... {
            let fresh = try CheckpointBench.disk()
            fresh.stop(atCall: call)
            do {
                _ = try bench.restore(fresh)
            } catch is MergeFailure {
                #expect(fresh.isStopped)
            }
            guard fresh.isStopped else {
                #expect(call > 60)
                return
            }
            fresh.crash(seed: UInt64(call))
            _ = try bench.restore(fresh)
            #expect(CheckpointBench.tree(fresh) == wanted, "call \(call)")
            // All of it survives a power cut.
            fresh.crash(seed: UInt64(call) + 1)
            #expect(CheckpointBench.tree(fresh) == wanted, "call \(call), durable")
            #expect(try bench.restore(fresh) == .none)
            #expect(try bench.merger("m2", fresh).end == merger.end)
        }
    }

    @Test(arguments: ["archive/date=2026-11-20/part", "exports/csv/part", "quarantine/lines"])
    func `files without a journal are kept`(path: String) throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        let merger = try self.merged(bench, files)
        try bench.make(merger, files)
        let fresh = try CheckpointBench.disk()
        fresh.place("/data/\(path)", Array("old".utf8))
        guard case .restored(let report) = try bench.restore(fresh) else {
            Issue.record("nothing was restored")
            return
        }
        #expect(report.aside == "set-aside/merger-1")
        #expect(fresh.bytes(of: "/data/set-aside/merger-1/\(path)") == Array("old".utf8))
        #expect(fresh.bytes(of: "/data/\(path)") == nil)
        #expect(try bench.merger("m2", fresh).end == merger.end)
    }

    @Test func `a piece that is too large holds up its own chain alone`() throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        try bench.receive(0, by: "a")
        try bench.receive(1, by: "b")
        bench.store.setFaults { call in
            call.verb == .read && call.key.hasPrefix("journal/a~") ? .refused(.tooLarge) : nil
        }
        var merger = try bench.merger("m1", files)
        try bench.merge(&merger, files)
        #expect(merger.chains.keys.map(\.receiver) == ["b"])
        let unreadable = merger.unreadable.keys.sorted()
        #expect(unreadable.count == 1)
        #expect(unreadable.first?.hasPrefix("journal/a~") == true)
        bench.store.setFaults(nil)
        bench.now += 60_000
        try bench.merge(&merger, files)
        #expect(merger.chains.keys.map(\.receiver).sorted() == ["a", "b"])
        #expect(merger.unreadable.isEmpty)
    }

    @Test(arguments: [StoreError.Kind.forbidden, .refused])
    func `a piece that the store does not give holds up its own chain alone, and lacking rights are told`(
        kind: StoreError.Kind
    ) throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        try bench.receive(0, by: "a")
        try bench.receive(1, by: "b")
        var merger = try bench.merger("m1", files)
        func refuse(_ prefix: String) {
            bench.store.setFaults { call in
                call.verb == .read && call.key.hasPrefix(prefix) ? .refused(kind) : nil
            }
        }
        refuse("journal/")
        for _ in 0..<2 {
            #expect(throws: MergeFailure.self) { try bench.merge(&merger, files) }
        }
        refuse("journal/a~")
        bench.now += 60_000
        for _ in 0..<2 {
            try bench.merge(&merger, files)
            #expect(merger.chains.keys.map(\.receiver) == ["b"])
            #expect(merger.unreadable.count == 1)
        }
        bench.store.setFaults(nil)
        bench.now += 60_000
        try bench.merge(&merger, files)
        #expect(merger.chains.keys.map(\.receiver).sorted() == ["a", "b"])
        #expect(merger.unreadable.isEmpty)
    }

    @Test func `a state that is gone is put back, and the rest of the old directory is kept`() throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        let merger = try self.merged(bench, files)
        try bench.make(merger, files)
        for (path, _) in files.tree("/data/state") where path.hasPrefix("/data/state/merge.state") {
            try files.unlink(path)
        }
        try files.synchronizeDirectory("/data/state")
        // What a copy of a disk has is what is durable.
        let before = FaultyFiles(files.memory.copy()).tree("/data")
        for call in 1... {
            let copy = FaultyFiles(files.memory.copy())
            copy.stop(atCall: call)
            do {
                _ = try bench.restore(copy)
            } catch is MergeFailure {
                #expect(copy.isStopped)
            }
            let isPast = !copy.isStopped
            copy.kill()
            _ = try bench.restore(copy)
            #expect(try bench.merger("m1", copy).end == merger.end, "call \(call)")
            let kept = copy.tree("/data/set-aside")
            for (path, bytes) in before
            where !path.hasPrefix("/data/checkpoint") && !path.hasSuffix("lock") {
                let aside = "/data/set-aside/merger-1/" + path.dropFirst("/data/".utf8.count)
                #expect(kept[aside] == bytes, "\(aside) after call \(call)")
            }
            if isPast { return }
        }
    }
}
