import Testing
import WaybillSystem
import WaybillTail
import WaybillTestSupport

struct TailIdentityTests {
    @Test(arguments: [true, false], ["a\n", "uno\n", "one\n", "another line\nand more\n"])
    func `a new file in a used inode is read from its start`(hasBirths: Bool, text: String) throws {
        // Without births a file that begins alike and is not shorter cannot be told apart after a restart.
        guard hasBirths || !text.hasPrefix("one\n") else { return }
        for isStopped in [true, false] {
            let files = FaultyFiles(MemoryDisk(hasBirths: hasBirths))
            let bench = try TailBench(files)
            files.append("/log/a.log", "one\n")
            let inode = files.inode(of: "/log/a.log")
            bench.run()
            try bench.checkpoint()
            if isStopped {
                bench.kill()
            } else {
                // Descriptors pin inodes: this one is gone before the file is.
                bench.kill()
                try bench.start()
                bench.scan()
            }
            files.remove("/log/a.log")
            files.append("/log/a.log", text)
            #expect(files.inode(of: "/log/a.log") == inode)
            if isStopped { try bench.start() }
            bench.settle()
            #expect(bench.texts == ["one\n", text])
            #expect(bench.sealed == [bench.order[0]])
        }
    }

    @Test(arguments: [true, false])
    func `a segment in a log's inode, and a log in a segment's, are files of their own`(hasBirths: Bool) throws {
        let files = FaultyFiles(MemoryDisk(hasBirths: hasBirths))
        var limits = TailLimits()
        limits.openFileCountMax = 1
        let bench = try TailBench(files, limits: limits)
        let id = "019550fc-0000-7000-8000-000000000001-00000000000000000001"
        let segment = "/spool/\(id).ndjson"
        files.append("/log/a.log", "one\n")
        bench.run()
        let inode = files.inode(of: "/log/a.log")
        files.append("/log/b.log", "two\n")
        bench.run()
        #expect(bench.withTail { $0.openFileCount } == 1)
        files.remove("/log/a.log")
        files.append(segment, "three\n")
        #expect(files.inode(of: segment) == inode)
        bench.run()
        bench.settle()
        #expect(bench.received[id] == Array("three\n".utf8))
        #expect(!files.exists(segment))
        files.append("/log/c.log", "four\n")
        #expect(files.inode(of: "/log/c.log") == inode)
        bench.settle()
        #expect(bench.texts.sorted() == ["four\n", "one\n", "three\n", "two\n"])
    }

    @Test(arguments: [true, false], ["three\n", "six\n", "a longer line\n"])
    func `a segment in a shipped segment's inode is shipped before it is deleted`(
        hasBirths: Bool, text: String
    ) throws {
        let files = FaultyFiles(MemoryDisk(hasBirths: hasBirths))
        let bench = try TailBench(files)
        let ids = (1...2).map { "019550fc-0000-7000-8000-00000000000\($0)-00000000000000000001" }
        let paths = ids.map { "/spool/\($0).ndjson" }
        files.append(paths[0], "three\n")
        let inode = files.inode(of: paths[0])
        files.fail(.unlink, of: paths[0], .error(5))
        bench.settle()
        #expect(files.exists(paths[0]))
        #expect(files.memory.openDescriptorCount <= 1)
        // Someone else deletes it, and the next segment gets its inode.
        files.remove(paths[0])
        files.append(paths[1], text)
        #expect(files.inode(of: paths[1]) == inode)
        bench.settle()
        #expect(bench.received[ids[0]] == Array("three\n".utf8))
        #expect(bench.received[ids[1]] == Array(text.utf8))
        #expect(!files.exists(paths[1]))
        #expect(bench.sealed == Set(ids))
        try bench.checkpoint()
        #expect(bench.withTail { $0.fileCount } == 0)
    }

    @Test
    func `a thousand files with one head are a thousand streams`() throws {
        let files = FaultyFiles()
        var limits = TailLimits()
        limits.openFileCountMax = 16
        let bench = try TailBench(files, limits: limits)
        let head = String(repeating: "h", count: 5000) + "\n"
        for number in 0..<1000 { files.append("/log/\(number).log", head + "\(number)\n") }
        bench.run()
        #expect(bench.texts.sorted() == (0..<1000).map { head + "\($0)\n" }.sorted())
        #expect(files.memory.openDescriptorCount <= 17)
    }

    @Test(arguments: [0, 1, 1023, 1024, 4095, 4096, 4097])
    func `files of any size arrive whole`(byteCount: Int) throws {
        let files = FaultyFiles()
        let bench = try TailBench(files)
        let text = byteCount == 0 ? "" : String(repeating: "x", count: byteCount - 1) + "\n"
        files.append("/log/a.log", text)
        bench.run()
        #expect(bench.texts == (byteCount == 0 ? [] : [text]))
        files.append("/log/a.log", "more\n")
        bench.run()
        #expect(bench.texts == [text + "more\n"])
    }

    @Test
    func `a restart with the registry opens no idle file`() throws {
        let files = FaultyFiles()
        let bench = try TailBench(files)
        for number in 0..<100 { files.append("/log/\(number).log", "\(number)\n") }
        bench.run()
        try bench.checkpoint()
        try bench.restart()
        let openCount = files.memory.openedCount
        bench.scan()
        #expect(files.memory.openedCount == openCount)
        #expect(bench.ship() == 0)
        files.append("/log/7.log", "news\n")
        bench.run()
        #expect(bench.received[bench.order[7]] != nil)
        #expect(bench.texts.filter { $0.hasSuffix("news\n") } == ["7\nnews\n"])
        #expect(files.memory.openedCount == openCount + 1)
    }

    @Test
    func `an entry that ended the agent twice is dropped, and its file is asked for`() throws {
        let files = FaultyFiles()
        let bench = try TailBench(files)
        for number in 0..<3 { files.append("/log/\(number).log", "\(number)\n") }
        bench.run()
        try bench.checkpoint()
        bench.kill()
        let entry = try #require(
            try StateStore(path: bench.registryPath, files: files).entries.filter { $0.key.first != "@" }
                .min { $0.key < $1.key })
        var places = ReadingPlaces()
        for _ in 0..<2 {
            let records = RecordGuard(places, reader: "registry")
            if records.begin("registry").isAlone { records.enter(Int(FNV1a.hash(entry.key.utf8) >> 1), of: "registry") }
            places.place(of: "registry").mark(signal: 11)
            places = ReadingPlaces(leftBy: places)
        }
        try bench.start(records: RecordGuard(places, reader: "registry"))
        bench.withTail { tail in
            #expect(tail.recovery.poison == .init(key: entry.key, text: entry.value, signal: 11))
            #expect(tail.recovery.unreadableKeys == [entry.key])
        }
        bench.run()
        #expect(bench.texts.sorted() == ["0\n", "1\n", "2\n"])
    }

    @Test
    func `devices that are numbered anew at a restart do not repeat a line`() throws {
        let files = FaultyFiles()
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        try bench.checkpoint()
        files.memory.renumberDevice()
        files.append("/log/a.log", "two\n")
        try bench.restart()
        bench.run()
        #expect(bench.texts == ["one\ntwo\n"])
    }

    @Test
    func `the receiver's position wins over a lost registry and over one that is ahead`() throws {
        let files = FaultyFiles()
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\ntwo\nthree\n")
        bench.run()
        try bench.checkpoint()
        bench.kill()
        files.remove("/state/registry")
        try bench.start()
        bench.run()
        #expect(bench.texts == ["one\ntwo\nthree\n"])
        // A receiver restored from a backup knows less.
        let id = bench.order[0]
        bench.received[id] = Array("one\n".utf8)
        files.append("/log/a.log", "four\n")
        bench.loseConnection()
        bench.run()
        #expect(bench.texts == ["one\ntwo\nthree\nfour\n"])
    }

    @Test
    func `a stream's id has the documented parts`() throws {
        let files = FaultyFiles()
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        let parts = bench.order[0].split(separator: "-").map(String.init)
        let hash = Hexadecimal.text(FNV1a.hash(Array("one\n".utf8)), digitCount: 16)
        #expect(parts.count == 6)
        #expect([parts[0], parts[1], parts[4], parts[5]] == ["agent", "fe01", hash, "0"])
    }

    @Test
    func `unreadable files and directories are reported once and hold no one up`() throws {
        let files = FaultyFiles()
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        files.append("/log/b.log", "two\n")
        files.makeDirectory("/log/c.log")
        files.fail(.open, of: "/log/a.log", .error(13))
        bench.settle()
        #expect(bench.texts == ["two\n"])
        let complaints = bench.notices.filter {
            switch $0 {
            case .unreadable, .notRegular: true
            default: false
            }
        }
        #expect(
            complaints == [
                .unreadable(path: "/log/a.log", FileSystemError("open", path: "/log/a.log", errno: 13)),
                .notRegular(path: "/log/c.log"),
            ])
        files.fail(.open, of: "/log/a.log", nil)
        bench.run()
        #expect(bench.texts == ["two\n", "one\n"])
    }
}
