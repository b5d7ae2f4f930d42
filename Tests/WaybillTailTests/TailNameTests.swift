import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@testable import WaybillTail

/// The agent's name in the keys of its registry.
struct TailNameTests {
    let files = FaultyFiles()

    @Test(
        arguments: [
            ("agent-fe01-2a-18c3f0-a1b2c3d4e5f60718-0", "agent"),
            ("web-1.a:b-fe01-2a-0-a1b2c3d4e5f60718-12", "web-1.a:b"),
            ("0195505e-aaaa-7000-8000-0000000000aa-00000000000000000042", nil),
            ("0195505e-aaaa-7000-8000-0000000000aa-00000000000000000042:0011223344556677", nil),
            ("fe01-2a-18c3f0-a1b2c3d4e5f60718-0", nil), ("-fe01-2a-18c3f0-a1b2c3d4e5f60718-0", nil),
            ("agent-fe01-2a-18c3f0-a1b2c3d4e5f60718-x", nil), ("agent-fe01-2a-18c3f0-a1b2-0", nil),
            ("good", nil), ("@1", nil), ("@fleet", nil), ("", nil),
        ] as [(String, String?)])
    func `the name is what precedes the five parts of a log's identity`(key: String, name: String?) {
        #expect(AgentName(ofStream: key)?.description == name)
    }

    /// A registry with a log and a segment of an agent.
    private func bench() throws -> TailBench<FaultyFiles> {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        let segment = "/spool/0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001.ndjson"
        files.append(segment, "two\n")
        #expect(try files.lock(try files.open(segment, .append), .shared))
        bench.run()
        try bench.checkpoint()
        bench.kill()
        return bench
    }

    @Test func `a registry tells how many logs it has under which name`() throws {
        let bench = try self.bench()
        let registry = try StateLog(path: bench.registryPath, files: files)
        let counts = AgentName.counts(in: registry)
        #expect(counts == [bench.agent: 1])
    }

    @Test func `a log of another name is shipped again from its beginning, and nothing of it is reported lost`() throws
    {
        let bench = try self.bench()
        bench.agent = try #require(AgentName("other"))
        try bench.start()
        bench.loseConnection()
        #expect(bench.withTail { $0.recovery.formerKeys.count } == 1)
        #expect(bench.withTail { $0.recovery.unreadableKeys } == [])
        files.append("/log/a.log", "three\n")
        bench.run()
        #expect(bench.texts.sorted() == ["one\n", "one\nthree\n", "two\n"])
        #expect(bench.withTail { $0.notices.loss } == TailLoss())
        #expect(!bench.notices.contains { if case .vanished = $0 { true } else { false } })
        try bench.checkpoint()
        bench.kill()
        let registry = try StateLog(path: bench.registryPath, files: files)
        let counts = AgentName.counts(in: registry)
        #expect(counts == [bench.agent: 1])
    }
}
