import Testing
import WaybillSpool
import WaybillSystem
import WaybillTail
import WaybillTestSupport

/// Spools that are followed in turn.
struct TailSpoolTests {
    private static let writer = "0195505e-aaaa-7000-8000-0000000000a"
    let files = FaultyFiles()

    private func path(_ spool: Int) -> String { "/spools/\(spool)/\(Self.writer)\(spool)-00000000000000000001.ndjson" }

    private func bench() throws -> TailBench<FaultyFiles> {
        for spool in 1...2 { try files.createDirectories("/spools/\(spool)") }
        return try TailBench(
            files, sources: [SourceConfiguration(name: "spools", kind: .spool(directory: "/spools/*"))])
    }

    private func follow(_ bench: TailBench<FaultyFiles>, _ spools: Int...) -> Int {
        bench.withTail { $0.follow(spools: Set(spools.map { PathKey("/spools/\($0)") })).count }
    }

    @Test func `a spool that waits is neither read nor deleted from, also when a hint names it`() throws {
        let bench = try self.bench()
        for spool in 1...2 { files.append(path(spool), "line of \(spool)\n") }
        #expect(self.follow(bench, 1) == 0)
        bench.settle()
        bench.hint(path(2), "/spools/2")
        bench.ship()
        #expect(bench.texts == ["line of 1\n"])
        #expect(files.unlinkedPaths == [path(1)])
        #expect(self.follow(bench, 2) == 0)
        bench.settle()
        #expect(bench.texts == ["line of 1\n", "line of 2\n"])
        #expect(bench.withTail { $0.spoolsAtWork } == [])
        #expect(bench.withTail { $0.notices.loss } == TailLoss())
    }

    @Test func `a segment whose writer lives continues at the next turn, and nothing is lost or sent twice`() throws {
        let bench = try self.bench()
        for spool in 1...2 { files.append(path(spool), "one of \(spool)\n") }
        let writers = try (1...2).map { spool in
            let file = try files.open(path(spool), .append)
            #expect(try files.lock(file, .shared))
            return file
        }
        for turn in 1...6 {
            let spool = 1 + turn % 2
            bench.loseConnection()
            _ = self.follow(bench, spool)
            bench.run()
            #expect(bench.withTail { $0.spoolsAtWork } == [PathKey("/spools/\(spool)")])
            files.append(path(1), "\(turn)\n")
            if turn == 4 {
                try bench.checkpoint()
                try bench.restart()
            }
        }
        for writer in writers { files.close(writer) }
        bench.loseConnection()
        #expect(bench.withTail { $0.follow(spools: nil) } == [])
        bench.settle()
        #expect(bench.texts.sorted() == ["one of 1\n1\n2\n3\n4\n5\n6\n", "one of 2\n"])
        #expect(files.unlinkedPaths.sorted() == [path(1), path(2)])
        #expect(bench.withTail { $0.notices.loss } == TailLoss())
        #expect(!bench.notices.contains { if case .vanished = $0 { true } else { false } })
    }

    // MARK: Copies

    /// A segment of the first writer in a spool.
    private func copy(in spool: Int) -> String { "/spools/\(spool)/\(Self.writer)1-00000000000000000001.ndjson" }

    @Test(arguments: [(1, 2), (2, 1)])
    func `of a segment and an earlier copy of it all lines are shipped once`(whole: Int, earlier: Int) throws {
        let bench = try self.bench()
        files.append(copy(in: whole), "one\ntwo\n")
        files.append(copy(in: earlier), "one\n")
        bench.run()
        #expect(bench.texts == ["one\ntwo\n"])
        #expect(!files.exists(copy(in: whole)))
        #expect(bench.notices.contains { if case .duplicateSegment = $0 { true } else { false } })
        #expect(bench.withTail { $0.notices.loss } == TailLoss())
    }

    @Test func `a longer file of other bytes does not take a segment's place`() throws {
        let bench = try self.bench()
        files.append(copy(in: 1), "one\n")
        files.append(copy(in: 2), "other\nlines\n")
        bench.isSlow = true
        bench.scan()
        bench.ship()
        bench.isSlow = false
        bench.scan()
        #expect(bench.batches.map(\.bytes) == [Array("one\n".utf8)])
    }

    @Test func `a segment that a mirror replaces continues where it was`() throws {
        let bench = try self.bench()
        files.append(copy(in: 1), "one\n")
        let writer = try files.open(copy(in: 1), .append)
        #expect(try files.lock(writer, .shared))
        bench.run()
        files.append("/mirror", "one\ntwo\n")
        try files.rename("/mirror", to: copy(in: 1))
        bench.run()
        #expect(bench.texts == ["one\ntwo\n"])
        #expect(!files.exists(copy(in: 1)))
        #expect(bench.batches.map { String(decoding: $0.bytes, as: UTF8.self) } == ["one\n", "two\n"])
        #expect(bench.withTail { $0.notices.loss } == TailLoss())
    }

    // MARK: Shared file systems

    @Test func `where locks are not seen a segment stays until it has rested`() throws {
        let bench = try self.bench()
        files.isShared.withLock { $0 = true }
        files.append(path(1), "one\n")
        bench.run()
        bench.advance(3_590_000)
        bench.run()
        #expect(bench.texts == ["one\n"])
        #expect(files.unlinkedPaths == [])
        files.append(path(1), "two\n")
        bench.run()
        #expect(bench.texts == ["one\ntwo\n"])
        bench.advance(20_000)
        bench.run()
        #expect(files.unlinkedPaths == [path(1)])
        let told = bench.notices.filter { if case .locksUnseen = $0 { true } else { false } }
        #expect(told == [.locksUnseen(folder: "/spools/1", grace: .seconds(3600))])
    }

    @Test func `where locks are not seen a later segment of the writer ends an earlier one`() throws {
        let bench = try self.bench()
        files.isShared.withLock { $0 = true }
        let later = path(1).replacing("00001.ndjson", with: "00002.ndjson")
        files.append(path(1), "one\n")
        files.append(later, "two\n")
        bench.run()
        #expect(bench.texts == ["one\n", "two\n"])
        #expect(files.unlinkedPaths == [path(1)])
    }

    // MARK: Behind a link

    @Test(arguments: [false, true])
    func `a segment whose spool's link leads elsewhere is not sealed, and continues when the link leads back`(
        isRestarted: Bool
    ) throws {
        var limits = TailLimits()
        limits.openFileCountMax = 1
        files.memory.link("/way", to: "/")
        try files.createDirectories("/elsewhere/spool")
        let source = SourceConfiguration(name: "spool", kind: .spool(directory: "/way/spool"))
        let bench = try TailBench(files, sources: [source], limits: limits)
        let name = "\(Self.writer)1-00000000000000000001"
        let path = "/spool/\(name).ndjson"
        files.append(path, "one\n")
        let writer = try files.open(path, .append)
        #expect(try files.lock(writer, .shared))
        bench.run()
        // Its place among the open files goes to another.
        let otherPath = "/spool/\(Self.writer)2-00000000000000000001.ndjson"
        files.append(otherPath, "other\n")
        let otherWriter = try files.open(otherPath, .append)
        #expect(try files.lock(otherWriter, .shared))
        bench.run()
        try bench.checkpoint()
        if isRestarted { bench.kill() }
        files.memory.link("/way", to: "/elsewhere")
        if isRestarted { try bench.start() }
        bench.loseConnection()
        bench.settle()
        files.append(path, "two\n")
        bench.settle()
        #expect(bench.sealed == [])
        #expect(bench.losses == [])
        files.memory.link("/way", to: "/")
        files.close(writer)
        files.close(otherWriter)
        bench.settle()
        #expect(bench.texts == ["one\ntwo\n", "other\n"])
        #expect(bench.disputed == [])
        #expect(bench.losses == [])
        #expect(!files.exists(path) && !files.exists(otherPath))
    }

    @Test func `a segment that is deleted while its spool's link leads elsewhere is sealed`() throws {
        files.memory.link("/way", to: "/")
        try files.createDirectories("/elsewhere/spool")
        let source = SourceConfiguration(name: "spool", kind: .spool(directory: "/way/spool"))
        let bench = try TailBench(files, sources: [source])
        let name = "\(Self.writer)1-00000000000000000001"
        files.append("/spool/\(name).ndjson", "one\n")
        let writer = try files.open("/spool/\(name).ndjson", .append)
        #expect(try files.lock(writer, .shared))
        bench.run()
        try bench.checkpoint()
        bench.kill()
        files.memory.link("/way", to: "/elsewhere")
        try bench.start()
        bench.run()
        #expect(bench.sealed == [])
        files.close(writer)
        files.remove("/spool/\(name).ndjson")
        bench.settle()
        #expect(bench.sealed == [name])
    }
}
