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

    @Test func `a segment whose writer lives goes on at the next turn, and nothing is lost or sent twice`() throws {
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
}
