import Testing
import WaybillSystem
import WaybillTail
import WaybillTestSupport

struct TailRotationTests {
    let files = FaultyFiles()

    @Test
    func `lines are shipped once as they come and half a line is held back`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\ntw")
        bench.run()
        #expect(bench.texts == ["one\n"])
        files.append("/log/a.log", "o\nthree\n")
        bench.run()
        bench.run()
        #expect(bench.texts == ["one\ntwo\nthree\n"])
        #expect(bench.sealed.isEmpty)
    }

    @Test
    func `a file renamed away is read to its end, sealed after the grace period, and the new one begins`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        files.append("/log/a.log", "two\n")
        files.move("/log/a.log", "/log/a.log.1")
        files.append("/log/a.log", "uno\n")
        bench.run()
        files.append("/log/a.log.1", "three\n")
        bench.run()
        #expect(bench.texts == ["one\ntwo\nthree\n", "uno\n"])
        #expect(bench.sealed.isEmpty)
        bench.settle()
        #expect(bench.sealed == [bench.order[0]])
        #expect(bench.withTail { $0.fileCount } == 1)
    }

    @Test(arguments: ["deleted", "back", "renamed"])
    func `a file that changes its place while its seal is on its way is not sealed twice`(change: String) throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        files.move("/log/a.log", "/log/a.log.1")
        bench.holdsSeals = true
        bench.settle()
        #expect(bench.heldSeals == [bench.order[0]])
        switch change {
        case "deleted": files.remove("/log/a.log.1")
        case "back": files.move("/log/a.log.1", "/log/a.log")
        default: files.move("/log/a.log.1", "/log/a.log.2")
        }
        bench.settle()
        #expect(bench.heldSeals == [bench.order[0]])
        // A new connection asks anew, and the seal is sent again where nothing more can come.
        bench.loseConnection()
        bench.holdsSeals = false
        bench.settle()
        #expect(bench.texts == ["one\n"])
        #expect(bench.sealed.contains(bench.order[0]) == (change != "back"))
    }

    @Test
    func `growth after the rename starts the grace period anew`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        files.move("/log/a.log", "/log/a.log.1")
        bench.run()
        for line in ["two\n", "three\n", "four\n"] {
            bench.advance(9_000)
            files.append("/log/a.log.1", line)
            bench.run()
        }
        #expect(bench.sealed.isEmpty)
        bench.settle()
        #expect(bench.texts == ["one\ntwo\nthree\nfour\n"])
        #expect(bench.sealed.count == 1)
    }

    @Test(arguments: [true, false])
    func `twenty rotations while the agent is stopped lose nothing that a pattern covers`(keepsRegistry: Bool) throws {
        let source = SourceConfiguration(name: "app", kind: .files(patterns: ["/log/a.log*"]))
        let bench = try TailBench(files, sources: [source])
        files.append("/log/a.log", "file 0 line 0\n")
        bench.run()
        try bench.checkpoint()
        bench.kill()
        if !keepsRegistry { files.remove("/state/registry") }
        for number in 1...20 {
            files.append("/log/a.log", "file \(number - 1) last\n")
            for old in stride(from: number - 1, to: 0, by: -1) {
                files.move("/log/a.log.\(old)", "/log/a.log.\(old + 1)")
            }
            files.move("/log/a.log", "/log/a.log.1")
            files.append("/log/a.log", "file \(number) line 0\n")
        }
        try bench.start()
        bench.run()
        let expected = (0...20).map { $0 < 20 ? "file \($0) line 0\nfile \($0) last\n" : "file 20 line 0\n" }
        #expect(bench.texts.sorted() == expected.sorted())
    }

    @Test
    func `a file renamed out of its pattern while the agent is stopped is found and read to its end`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        try bench.checkpoint()
        bench.kill()
        files.append("/log/a.log", "two\n")
        files.move("/log/a.log", "/log/old")
        files.append("/log/a.log", "uno\n")
        try bench.start()
        bench.settle()
        #expect(bench.texts == ["one\ntwo\n", "uno\n"])
        #expect(bench.sealed == [bench.order[0]])
    }

    @Test
    func `rotations while the receiver is away lose nothing`() throws {
        let bench = try TailBench(files)
        var expected: [String] = []
        for number in 0..<20 {
            files.append("/log/a.log", "file \(number)\nmore\n")
            expected.append("file \(number)\nmore\n")
            bench.scan()
            files.move("/log/a.log", "/log/rotated-\(number)")
            bench.scan()
            bench.advance(60_000)
        }
        for number in 0..<10 { files.remove("/log/rotated-\(number)") }
        bench.settle()
        #expect(bench.texts == expected)
        #expect(bench.sealed.count == 20)
        #expect(files.memory.openDescriptorCount <= 1)
    }

    @Test
    func `a deleted file is read to its end, its unterminated last line too`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\ntwo")
        bench.scan()
        files.remove("/log/a.log")
        bench.settle()
        #expect(bench.texts == ["one\ntwo"])
        #expect(bench.finalUnterminatedCount == 1)
        #expect(bench.sealed.count == 1)
        try bench.checkpoint()
        #expect(bench.withTail { $0.fileCount } == 0)
    }

    @Test
    func `a file that is deleted before it has a whole line still arrives`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "x")
        bench.run()
        #expect(bench.texts == [])
        files.remove("/log/a.log")
        bench.settle()
        #expect(bench.texts == ["x"])
        #expect(bench.sealed.count == 1)
    }

    @Test
    func `bytes that vanish unread are counted and named`() throws {
        var limits = TailLimits()
        limits.openFileCountMax = 1
        let bench = try TailBench(files, limits: limits)
        files.append("/log/a.log", "one\n")
        bench.run()
        files.append("/log/b.log", "uno\n")
        bench.run()
        files.append("/log/a.log", "two\n")
        bench.scan()
        // The one descriptor is b's by now.
        files.append("/log/b.log", "dos\n")
        bench.scan()
        files.remove("/log/a.log")
        bench.run()
        let id = StreamIDText.first(of: bench)
        let lost = bench.notices.filter { if case .vanished = $0 { true } else { false } }
        #expect(lost.map { "\($0)" }.allSatisfy { $0.contains(id) && $0.contains("lostByteCount: 4") })
        #expect(lost.count == 1)
        #expect(bench.texts == ["one\n", "uno\ndos\n"])
        #expect(bench.sealed == [id])
    }

    @Test
    func `hints alone suffice between scans`() throws {
        let bench = try TailBench(files)
        bench.scan()
        #expect(bench.withTail { $0.watchDirectories } == ["/log", "/spool"])
        files.append("/log/a.log", "one\n")
        bench.hint("/log/a.log")
        bench.ship()
        files.append("/log/a.log", "two\n")
        files.move("/log/a.log", "/log/b.log")
        files.append("/log/a.log", "uno\n")
        bench.hint("/log/a.log", "/log/b.log")
        bench.ship()
        files.move("/log/b.log", "/log/b.old")
        bench.hint("/log/b.log")
        files.append("/log/b.old", "three\n")
        bench.settle()
        #expect(bench.texts == ["one\ntwo\nthree\n", "uno\n"])
        #expect(bench.sealed.count == 1)
    }

    @Test
    func `a directory that cannot be listed proves nothing about its files`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        try bench.checkpoint()
        files.fail(.list, of: "/log", .error(13))
        try bench.restart()
        bench.settle()
        #expect(bench.sealed.isEmpty)
        files.fail(.list, of: "/log", nil)
        files.append("/log/a.log", "two\n")
        bench.run()
        #expect(bench.texts == ["one\ntwo\n"])
    }

    @Test
    func `a symbolic link and its target are one stream`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        files.memory.link("/log/current.log", to: "/log/a.log")
        bench.run()
        files.append("/log/a.log", "two\n")
        bench.run()
        #expect(bench.texts == ["one\ntwo\n"])
        #expect(!bench.notices.contains { if case .rotated = $0 { true } else { false } })
    }
}

private enum StreamIDText {
    static func first(of bench: TailBench<FaultyFiles>) -> String { bench.order.first ?? "" }
}
