import Testing
import WaybillSystem
import WaybillTail
import WaybillTestSupport

/// Sources that change while the agent runs.
struct TailSourceTests {
    private static let segment = "/spool/0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001.ndjson"
    let files = FaultyFiles()

    private func logs(_ number: Int, _ patterns: String...) -> SourceConfiguration {
        SourceConfiguration(name: "\(number):\(patterns.joined(separator: ","))", kind: .files(patterns: patterns))
    }

    private func spool(_ number: Int) -> SourceConfiguration {
        SourceConfiguration(name: "\(number):/spool", kind: .spool(directory: "/spool"))
    }

    private func makeBench() throws -> TailBench<FaultyFiles> {
        try TailBench(files, sources: [logs(0, "/log/*.log"), spool(1)])
    }

    @Test func `a source that is removed keeps its offsets, and continues when it returns`() throws {
        let bench = try makeBench()
        files.append("/log/a.log", "one\n")
        files.append(Self.segment, "uno\n")
        let writer = try files.open(Self.segment, .append)
        #expect(try files.lock(writer, .shared))
        bench.run()
        #expect(bench.follow([]) == 2)
        #expect(files.memory.openDescriptorCount <= 2, "the registry and the writer")
        files.append("/log/a.log", "two\n")
        files.append(Self.segment, "dos\n")
        bench.settle()
        #expect(bench.texts == ["one\n", "uno\n"])
        try bench.checkpoint()
        #expect(bench.follow([spool(0), logs(1, "/log/*.log")]) == 0)
        bench.run()
        #expect(bench.texts == ["one\ntwo\n", "uno\ndos\n"])
        #expect(bench.sealed.isEmpty)
        // What a checkpoint wrote under the former number is found again under the new one.
        try bench.checkpoint()
        try bench.restart()
        files.append("/log/a.log", "three\n")
        bench.run()
        #expect(bench.texts == ["one\ntwo\nthree\n", "uno\ndos\n"])
    }

    private func logs(without excludes: [String]) -> SourceConfiguration {
        SourceConfiguration(name: "0:/log/**", kind: .files(patterns: ["/log/**"]), excludes: excludes)
    }

    @Test func `scans, hints and reloads leave out the same files`() throws {
        let bench = try TailBench(files, sources: [logs(without: ["*.gz", "/log/old"])])
        for (path, text) in [("/log/a.log", "a\n"), ("/log/x/b.log", "b\n")] { files.place(path, Array(text.utf8)) }
        for path in ["/log/a.gz", "/log/old/c.log", "/log/x/d.gz"] { files.place(path, Array("left out\n".utf8)) }
        bench.run()
        #expect(bench.texts.sorted() == ["a\n", "b\n"])
        #expect(bench.withTail { $0.watchDirectories } == ["/log", "/log/x"])
        files.append("/log/old/c.log", "more\n")
        files.append("/log/x/b.log", "more\n")
        bench.hint("/log/old/c.log", "/log/x/d.gz", "/log/x/b.log")
        bench.settle()
        #expect(bench.texts.sorted() == ["a\n", "b\nmore\n"])
        // What was followed and is left out now is set aside, as a file of a source that is removed.
        #expect(bench.follow([logs(without: ["/log/x"])]) == 1)
        files.append("/log/x/b.log", "yet more\n")
        bench.run()
        #expect(bench.texts.sorted() == ["a\n", "b\nmore\n", "left out\n", "left out\nmore\n"])
        #expect(bench.follow([logs(without: [])]) == 0)
        bench.run()
        #expect(bench.texts.contains("b\nmore\nyet more\n"))
    }

    @Test func `what was on its way at a reload arrives once`() throws {
        let bench = try makeBench()
        files.append("/log/a.log", "one\n")
        bench.run()
        for patterns in [["/log/*.log"], ["/log/a.*"], ["/none"], ["/log/*.log"]] {
            files.append("/log/a.log", "more \(patterns)\n")
            bench.isSlow = true
            bench.scan()
            bench.ship()
            bench.follow([SourceConfiguration(name: "0:x", kind: .files(patterns: patterns))])
        }
        bench.run()
        let lines = [["/log/*.log"], ["/log/a.*"], ["/none"], ["/log/*.log"]].map { "more \($0)\n" }
        #expect(bench.texts == ["one\n" + lines.joined()])
    }

    @Test func `a file that was deleted is read to its end although its source has changed`() throws {
        let bench = try makeBench()
        files.append("/log/a.log", "one\n")
        bench.run()
        files.append("/log/a.log", "two\n")
        bench.scan()
        files.remove("/log/a.log")
        bench.scan()
        #expect(bench.follow([logs(0, "/log/*.log", "/log/*.json"), spool(1)]) == 0)
        bench.settle()
        #expect(bench.texts == ["one\ntwo\n"])
        #expect(bench.notices.allSatisfy { !$0.isLoss })
    }

    @Test func `what only a removed source's descriptor led to is reported as lost`() throws {
        let bench = try makeBench()
        files.append("/log/a.log", "one\n")
        bench.run()
        files.append("/log/a.log", "two\n")
        bench.scan()
        files.remove("/log/a.log")
        bench.scan()
        #expect(bench.follow([spool(0)]) == 1)
        #expect(bench.notices.count { $0.isLoss } == 1)
        #expect(bench.withTail { $0.notices.loss.byteCount } == 4)
    }

    @Test func `a renamed file is found at a restart although its source has another number`() throws {
        let bench = try makeBench()
        files.append("/log/a.log", "one\n")
        bench.run()
        try bench.checkpoint()
        files.append("/log/a.log", "two\n")
        files.move("/log/a.log", "/log/a.log.1")
        bench.kill()
        let moved = try TailBench(files, sources: [spool(0), logs(1, "/log/*.log")])
        moved.receiver = bench.receiver
        moved.received = bench.received
        moved.order = bench.order
        moved.settle()
        #expect(moved.texts == ["one\ntwo\n"])
    }
}

extension TailNotice {
    fileprivate var isLoss: Bool {
        switch self {
        case .vanished(_, _, _, let lostByteCount): lostByteCount > 0
        default: false
        }
    }
}
