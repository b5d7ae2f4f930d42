import Testing
import WaybillData
import WaybillFleet
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@Suite struct CheckpointCleanerTests {
    private func pieces(_ bench: CheckpointBench) -> [String] {
        bench.store.objects.keys.filter { $0.hasPrefix("journal/") }.sorted()
    }

    private func rounds(_ bench: CheckpointBench) -> [String] {
        bench.store.objects.keys.filter { $0.hasSuffix(".wbs") }.sorted()
    }

    private func commits(_ bench: CheckpointBench) -> [String] {
        bench.store.objects.keys.filter { $0.hasSuffix(".wbc") }.sorted()
    }

    /// A fleet's life with a checkpoint behind each round.
    private func live(
        _ bench: CheckpointBench, _ count: Int, _ merger: inout Merger<FaultyFiles>, _ files: FaultyFiles
    ) throws {
        for number in 0..<count {
            try bench.receive(number % 3)
            try bench.merge(&merger, files)
            try bench.make(merger, files, seed: UInt64(bench.now))
        }
    }

    @Test func `what is before the older of two checkpoints is deleted`() throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        var merger = try bench.merger("m1", files)
        try self.live(bench, 1, &merger, files)
        #expect(try bench.clean() == CheckpointCleaner.Outcome(), "one checkpoint is not enough")
        try self.live(bench, 5, &merger, files)
        let (pieces, rounds) = (self.pieces(bench), self.rounds(bench))
        let young = try bench.clean(age: .seconds(1 << 32))
        #expect(young.objectCount > 0)
        #expect(young.pieceCount + young.roundCount == 0)
        #expect(self.pieces(bench) == pieces)
        #expect(self.rounds(bench) == rounds)

        let outcome = try bench.clean()
        let commits = try self.commits(bench).map { key in
            let position = try #require(Int(key.dropFirst("merge/s00/checkpoint/".utf8.count).prefix(20)))
            return try #require(try CheckpointCommit.read(JournalPosition(position), from: bench.store))
        }
        #expect(commits.count == 2)
        let older = try #require(commits.first)
        #expect(self.rounds(bench) == rounds.filter { $0 >= MergeRound.key(of: older.round) })
        let (chain, position) = try #require(older.chains.first)
        let before = pieces.filter { $0 < chain.key(of: position) }
        #expect(before.count > 1)
        #expect(before.count < pieces.count)
        #expect(self.pieces(bench) == Array(pieces.dropFirst(before.count)))
        #expect(outcome.pieceCount == before.count)
        #expect(try bench.clean() == CheckpointCleaner.Outcome(), "it is done")

        // Both are whole: either begins a merger.
        for _ in 0..<2 {
            let fresh = try CheckpointBench.disk()
            _ = try bench.restore(fresh)
            var again = try bench.merger("m2", fresh)
            try bench.merge(&again, fresh)
            #expect(again.end == merger.end)
            bench.store.place(try #require(self.commits(bench).last), nil)
        }
    }

    @Test func `the last piece of a chain stays`() throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        var merger = try bench.merger("m1", files)
        for _ in 0..<3 { try bench.receive(7, by: "gone") }
        let pieces = self.pieces(bench)
        #expect(pieces.count > 1)
        try self.live(bench, 4, &merger, files)
        _ = try bench.clean()
        #expect(self.pieces(bench).filter { $0.hasPrefix("journal/gone~") } == [pieces.last])
    }

    @Test func `small batches continue where they stopped`() throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        var merger = try bench.merger("m1", files)
        try self.live(bench, 6, &merger, files)
        let cleaner = CheckpointCleaner(
            fleet: CheckpointBench.fleet.text, store: bench.store, age: .zero, countMax: 3)
        var count = 0
        while true {
            let outcome = try cleaner.run(at: WallTime(milliseconds: bench.now))
            #expect(outcome.pieceCount + outcome.roundCount + outcome.objectCount <= 3)
            count += outcome.pieceCount + outcome.roundCount + outcome.objectCount
            guard outcome.isCutShort else { break }
            let fresh = try CheckpointBench.disk()
            guard case .restored(let report) = try bench.restore(fresh) else { continue }
            #expect(report.round == merger.round)
        }
        #expect(count > 6)
        #expect(try bench.clean() == CheckpointCleaner.Outcome())
    }

    @Test func `nothing is deleted while a checkpoint lacks an object`() throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        var merger = try bench.merger("m1", files)
        try self.live(bench, 4, &merger, files)
        let newest = try #require(self.commits(bench).last).dropLast(4)
        let object = try #require(bench.store.objects.keys.filter { $0.hasPrefix("\(newest)/") }.min())
        bench.store.place(object, nil)
        #expect(try bench.clean() == CheckpointCleaner.Outcome())
    }

    @Test func `a chain that no round names keeps its pieces`() throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        var merger = try bench.merger("m1", files)
        try self.live(bench, 4, &merger, files)
        try bench.receive(9, by: "z")
        let pieces = self.pieces(bench).filter { $0.hasPrefix("journal/z~") }
        #expect(pieces.count > 0)
        _ = try bench.clean()
        #expect(self.pieces(bench).filter { $0.hasPrefix("journal/z~") } == pieces)
    }

    /// Lets a merger stand where rounds are deleted.
    ///
    /// - Returns: the bucket's objects when it stopped.
    @discardableResult
    private func leave(
        _ away: inout Merger<FaultyFiles>, _ old: FaultyFiles, behind merger: inout Merger<FaultyFiles>,
        _ files: FaultyFiles, _ bench: CheckpointBench
    ) throws -> [String: [UInt8]] {
        try self.live(bench, 1, &merger, files)
        try bench.merge(&away, old)
        let objects = bench.store.objects
        try self.live(bench, 6, &merger, files)
        _ = try bench.clean()
        return objects
    }

    @Test func `a merger behind deleted rounds creates none of them, and begins again from a checkpoint`() throws {
        let bench = CheckpointBench()
        let (files, old) = (try CheckpointBench.disk(), try CheckpointBench.disk())
        var merger = try bench.merger("m1", files)
        var away = try bench.merger("m2", old)
        try self.leave(&away, old, behind: &merger, files, bench)
        let objects = bench.store.objects
        // Something is there that it could propose.
        try bench.receive(2)
        let added = Set(bench.store.objects.keys).subtracting(objects.keys)
        let error = #expect(throws: MergeFailure.self) { try bench.merge(&away, old) }
        guard case .behind = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(Set(bench.store.objects.keys) == Set(objects.keys).union(added), "no round was created")

        guard case .restored(let report) = try bench.restore(old) else {
            Issue.record("it stays behind")
            return
        }
        #expect(report.aside == "set-aside/merger-1")
        #expect(old.bytes(of: "/data/set-aside/merger-1/state/merge.state") != nil)
        var again = try bench.merger("m2", old)
        try bench.merge(&again, old)
        try bench.merge(&merger, files)
        #expect(again.end == merger.end)
    }

    @Test func `a round that a paused merger created again, before it died, is taken back`() throws {
        let bench = CheckpointBench()
        let (files, old) = (try CheckpointBench.disk(), try CheckpointBench.disk())
        var merger = try bench.merger("m1", files)
        var away = try bench.merger("m2", old)
        try self.leave(&away, old, behind: &merger, files, bench)
        let number = away.round + 1
        let key = MergeRound.key(of: number)
        #expect(bench.store.objects[key] == nil)
        let time = WallTime(milliseconds: bench.now)
        let revived = MergeRound(number: number, merger: "m2", time: time, through: away.through, pieces: [])
        bench.store.place(key, revived.encoded)
        var again = try bench.merger("m2", old)
        let error = #expect(throws: MergeFailure.self) { try bench.merge(&again, old) }
        guard case .behind = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(bench.store.objects[key] == nil)
        #expect(again.round == away.round)
    }

    @Test func `a round that was created again without an answer is taken back`() throws {
        let bench = CheckpointBench()
        let (files, old) = (try CheckpointBench.disk(), try CheckpointBench.disk())
        var merger = try bench.merger("m1", files)
        var away = try bench.merger("m2", old)
        let former = try self.leave(&away, old, behind: &merger, files, bench)
        try bench.receive(2)
        let own = MergeRound.key(of: away.round)
        let key = MergeRound.key(of: away.round + 1)
        #expect(bench.store.objects[own] == nil)
        // It looks while its last round is there, and hears nothing of the next one, which it creates.
        bench.store.place(own, former[own])
        bench.store.setFaults { $0.verb == .create && $0.key == key ? .unanswered : nil }
        #expect(throws: MergeFailure.self) { try bench.merge(&away, old) }
        bench.store.setFaults(nil)
        #expect(bench.store.objects[key] != nil)
        bench.store.place(own, nil)
        let error = #expect(throws: MergeFailure.self) { try bench.merge(&away, old) }
        guard case .behind = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(bench.store.objects[key] == nil)
    }

    @Test func `a merger that finds a piece gone is behind, too`() throws {
        let bench = CheckpointBench()
        let (files, old) = (try CheckpointBench.disk(), try CheckpointBench.disk())
        var merger = try bench.merger("m1", files)
        var away = try bench.merger("m2", old)
        try self.live(bench, 5, &merger, files)
        for key in self.pieces(bench).prefix(2) { bench.store.place(key, nil) }
        let error = #expect(throws: MergeFailure.self) { try bench.merge(&away, old) }
        guard case .behind = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        try CheckpointRestore.request(root: "/data", files: old)
        _ = try bench.restore(old)
        #expect(try bench.merger("m2", old).end == merger.end)
    }

    @Test func `a receiver put back from before the deleted pieces begins another chain`() throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        var merger = try bench.merger("m1", files)
        try self.live(bench, 2, &merger, files)
        let copy = try bench.copy("a")
        try self.live(bench, 6, &merger, files)
        _ = try bench.clean()
        // It gets other lines than it had when it went on the first time.
        try bench.putBack("a", copy)
        let chains = Set(self.pieces(bench).map { $0.split(separator: "/")[1] })
        try bench.receive(5)
        #expect(Set(self.pieces(bench).map { $0.split(separator: "/")[1] }).count == chains.count + 1)
        let count = merger.tally.lineCount
        try bench.merge(&merger, files)
        #expect(merger.tally.lineCount >= count + 3, "the new lines are merged")
    }
}
