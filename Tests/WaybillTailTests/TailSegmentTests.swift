import Testing
import WaybillProtocol
import WaybillSpool
import WaybillSystem
import WaybillTail
import WaybillTestSupport

struct TailSegmentTests {
    private static let writer = "0195505e-aaaa-7000-8000-0000000000aa"
    let files = FaultyFiles()

    private func path(_ sequence: Int) -> String {
        let digits = String(sequence)
        return "/spool/\(Self.writer)-" + String(repeating: "0", count: 20 - digits.count) + digits + ".ndjson"
    }

    private func lockAsWriter(_ path: String) throws -> FileID {
        let file = try files.open(path, .append)
        #expect(try files.lock(file, .shared))
        return file
    }

    @Test
    func `a segment is deleted when its writer is gone and the receiver sealed it`() throws {
        let bench = try TailBench(files)
        files.append(path(1), "one\n")
        let writer = try lockAsWriter(path(1))
        bench.settle()
        #expect(bench.texts == ["one\n"])
        #expect(files.exists(path(1)))
        files.append(path(1), "two\n")
        files.close(writer)
        bench.settle()
        #expect(bench.texts == ["one\ntwo\n"])
        #expect(bench.order == ["0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001"])
        #expect(files.unlinkedPaths == [path(1)])
        try bench.checkpoint()
        #expect(bench.withTail { $0.fileCount } == 0)
        #expect(files.memory.openDescriptorCount <= 1)
    }

    @Test
    func `a segment of which another receiver held less is still checked for a departed writer`() throws {
        let bench = try TailBench(files)
        files.append(path(1), "one\n")
        let writer = try lockAsWriter(path(1))
        bench.run()
        let first = bench.receiver
        bench.loseConnection()
        bench.receiver = BenchReceiver(name: "other")
        try bench.meet()
        bench.scan()
        bench.loseConnection()
        bench.receiver = first
        files.close(writer)
        bench.settle()
        #expect(files.unlinkedPaths == [path(1)])
        #expect(bench.texts == ["one\n"])
    }

    @Test
    func `a segment that was evicted while it was open is not shipped`() throws {
        let bench = try TailBench(files)
        files.append(path(1), "one\n")
        bench.run()
        files.append(path(1), "two\n")
        bench.scan()
        try files.rename(path(1), to: path(1) + ".evicted")
        bench.scan()
        bench.run()
        try files.unlink(path(1) + ".evicted")
        bench.settle()
        #expect(bench.texts == ["one\n"])
        #expect(files.memory.openDescriptorCount <= 1)
    }

    @Test
    func `no segment is deleted before its last byte was acknowledged`() throws {
        let bench = try TailBench(files)
        for number in 1...20 { files.append(path(number), "line \(number)\n") }
        for _ in 0..<200 {
            bench.scan()
            bench.ship(readCountMax: 1)
            for deleted in files.unlinkedPaths {
                let id = deleted.dropFirst("/spool/".count).dropLast(".ndjson".count)
                #expect(bench.sealed.contains(String(id)))
            }
            bench.loseConnection()
        }
        bench.settle()
        #expect(bench.texts.sorted() == (1...20).map { "line \($0)\n" }.sorted())
        #expect(files.unlinkedPaths.count == 20)
    }

    @Test
    func `a segment whose writer took back what no one had read of it goes once the writer is gone`() throws {
        for kept in ["", "one\n"] {
            let files = FaultyFiles()
            let bench = try TailBench(files)
            files.append(path(1), kept)
            let writer = try files.open(path(1), .append)
            #expect(try files.lock(writer, .shared))
            if !kept.isEmpty { bench.run() }
            files.append(path(1), "half a li")
            bench.scan()
            try files.truncate(writer, to: kept.utf8.count)
            bench.run()
            files.close(writer)
            bench.settle()
            #expect(bench.texts.joined() == kept)
            #expect(files.unlinkedPaths == [path(1)])
        }
    }

    @Test
    func `what was in flight when the connection was lost is read again`() throws {
        let bench = try TailBench(files)
        files.append(path(1), "one\ntwo\n")
        bench.scan()
        bench.isSlow = true
        bench.ship(byteCountMax: 4)
        bench.loseConnection()
        #expect(files.unlinkedPaths == [])
        bench.settle()
        #expect(bench.texts == ["one\ntwo\n"])
        #expect(files.unlinkedPaths == [path(1)])
    }

    @Test
    func `a segment that grew behind its seal is kept and named`() throws {
        let bench = try TailBench(files)
        files.append(path(1), "one\n")
        bench.scan()
        try bench.meet()
        var sealed: StreamKey?
        let now = bench.now
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)
        defer { buffer.deallocate() }
        for _ in 0..<4 {
            bench.withTail { tail in
                guard let key = tail.nextReady() else { return }
                switch tail.nextBatch(for: key, byteCountMax: 1 << 20, into: buffer, now) {
                case .unpositioned: #expect(tail.positionLearned(key, at: 0, .empty) == .goOn)
                case .batch(_, let count, _, _): tail.acked(key, upTo: count)
                case .sealed: sealed = key
                case .skip, .nothing: break
                }
            }
            bench.scan()
        }
        let key = try #require(sealed)
        files.append(path(1), "two\n")
        let proof = StreamProof(of: bench.withTail { $0.id(of: key) }, at: StreamOffset(4), tail: "one\n".utf8)
        #expect(bench.withTail { $0.sealedByReceiver(key, proof) } == .disputed)
        bench.scan()
        #expect(files.exists(path(1)))
        let id = bench.withTail { $0.id(of: key) }
        #expect(
            bench.notices.last
                == .segmentGrewAfterSeal(id, path: path(1), sealedByteCount: 4, byteCount: 8))
    }

    @Test
    func `the torn end of a dead writer's segment is skipped by name`() throws {
        let bench = try TailBench(files)
        files.append(path(1), "one\ntw")
        bench.settle()
        #expect(bench.skipped == ["0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001": ["4+2 torn-tail"]])
        #expect(files.unlinkedPaths == [path(1)])
    }

    @Test
    func `an empty segment is deleted when it is old and its writer gone`() throws {
        let bench = try TailBench(files)
        files.append(path(1), "")
        let writer = try lockAsWriter(path(1))
        bench.run()
        bench.advance(61_000)
        bench.run()
        #expect(files.exists(path(1)))
        files.close(writer)
        bench.run()
        #expect(files.unlinkedPaths == [path(1)])
        #expect(bench.order == [])
    }

    @Test
    func `an empty segment from before the clock was set back is deleted`() throws {
        let bench = try TailBench(files)
        files.append(path(1), "")
        bench.advance(-86_400_000)
        bench.run()
        #expect(files.unlinkedPaths == [path(1)])
    }

    @Test
    func `an unfinished segment is deleted when it is empty, old, and its writer gone`() throws {
        let bench = try TailBench(files)
        // Left by dead writers: the one to delete; names that are not ours.
        let left = path(1) + ".new"
        let others = ["/spool/notes.ndjson.new", "/spool/install.json.new", path(4) + ".news"]
        files.append(left, "")
        for path in others { files.append(path, "") }
        files.append(path(2) + ".new", "")
        let writer = try lockAsWriter(path(2) + ".new")
        bench.run()
        #expect(files.unlinkedPaths == [])
        // A moment too early: what was found is too young.
        bench.advance(59_000)
        bench.run()
        #expect(files.unlinkedPaths == [])
        bench.advance(62_000)
        bench.run()
        #expect(files.unlinkedPaths == [left])
        #expect(bench.notices == [.emptySegmentDeleted(path: left)])
        files.close(writer)
        bench.advance(61_000)
        bench.run()
        #expect(files.unlinkedPaths == [left, path(2) + ".new"])
        for path in others { #expect(files.exists(path), "\(path)") }
        #expect(bench.order == [])
        #expect(files.memory.openDescriptorCount <= 1)
    }

    @Test
    func `a segment that lost its name in a power cut is shipped under it`() throws {
        let bench = try TailBench(files)
        files.append(path(1) + ".new", "one\ntw")
        files.append(path(2) + ".new", "other\n")
        files.append(path(2), "two\n")
        files.append(path(3) + ".new", "three\n")
        let writer = try lockAsWriter(path(3) + ".new")
        bench.run()
        bench.advance(61_000)
        bench.settle()
        #expect(bench.received["\(Self.writer)-00000000000000000001"]?.starts(with: Array("one\n".utf8)) == true)
        #expect(bench.skipped["\(Self.writer)-00000000000000000001"] == ["4+2 torn-tail"])
        #expect(!files.exists(path(1)) && !files.exists(path(1) + ".new"))
        #expect(files.exists(path(3) + ".new"))
        #expect(bench.texts.contains("two\n"))
        files.close(writer)
        bench.advance(61_000)
        bench.settle()
        #expect(bench.received["\(Self.writer)-00000000000000000003"] == Array("three\n".utf8))
        // Once its namesake is shipped and deleted, the other has the name; the receiver holds as many bytes of it.
        #expect(!files.exists(path(2) + ".new"))
    }

    @Test
    func `a known segment that cannot get its name back yet is not given up`() throws {
        let bench = try TailBench(files)
        files.append(path(1), "one\n")
        bench.scan()
        try bench.checkpoint()
        bench.kill()
        files.move(path(1), path(1) + ".new")
        files.fail(.rename, of: path(1) + ".new", .error(5))
        try bench.start()
        bench.settle()
        #expect(bench.sealed == [])
        files.fail(.rename, of: path(1) + ".new", nil)
        bench.advance(61_000)
        bench.settle()
        #expect(bench.texts == ["one\n"])
        #expect(files.unlinkedPaths == [path(1)])
    }

    @Test(arguments: [false, true])
    func `a writer whose unfinished segment was deleted makes another`(isDeleted: Bool) throws {
        let bench = try TailBench(files)
        files.append(path(1) + ".new", "")
        bench.advance(3_600_000)
        if isDeleted { bench.run() }
        #expect(files.exists(path(1) + ".new") == !isDeleted)
        do {
            var writer = try SpoolWriter(directory: "/spool", writer: Self.writer, on: files)
            let line = Array("line\n".utf8)
            try line.withUnsafeBytes { line in try writer.append(line) }
        }
        bench.settle()
        #expect(bench.texts == ["line\n"])
        #expect(!files.exists(path(1)))
    }

    @Test
    func `a segment evicted by its writer's quota ends where reading stopped`() throws {
        let bench = try TailBench(files)
        files.append(path(1), "one\n")
        let writer = try lockAsWriter(path(1))
        bench.run()
        files.close(writer)
        files.remove(path(1))
        bench.settle()
        #expect(bench.texts == ["one\n"])
        #expect(bench.sealed == ["0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001"])
        #expect(files.memory.openDescriptorCount <= 1)
    }

    @Test
    func `a segment that has its name elsewhere is not sealed, and continues when it comes back`() throws {
        let bench = try TailBench(files)
        files.append(path(1), "one\n")
        let writer = try lockAsWriter(path(1))
        bench.run()
        // As behind a link that leads to another spool for a while.
        let elsewhere = "/elsewhere.ndjson"
        try files.rename(path(1), to: elsewhere)
        bench.settle()
        #expect(bench.sealed == [])
        files.append(elsewhere, "two\n")
        try files.rename(elsewhere, to: path(1))
        bench.run()
        files.close(writer)
        bench.settle()
        #expect(bench.texts == ["one\ntwo\n"])
        #expect(bench.sealed == ["0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001"])
        #expect(bench.disputed == [])
        #expect(!files.exists(path(1)))
    }

    @Test
    func `a segment deleted before a crash is sealed again and forgotten`() throws {
        let bench = try TailBench(files)
        files.append(path(1), "one\n")
        let writer = try lockAsWriter(path(1))
        bench.run()
        try bench.checkpoint()
        files.close(writer)
        bench.kill()
        files.remove(path(1))
        try bench.start()
        bench.run()
        #expect(bench.sealed == ["0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001"])
        try bench.checkpoint()
        bench.kill()
        let left = try StateStore(path: bench.registryPath, files: files)
        #expect(Set(left.entries.keys) == ["@1"])
    }

    @Test(arguments: [false, true])
    func `a segment that is gone is not sealed where nothing of it is held, and shipped when it comes back`(
        isHeldElsewhere: Bool
    ) throws {
        let bench = try TailBench(files)
        let id = "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001"
        files.append(path(1), "one\n")
        let writer = try lockAsWriter(path(1))
        bench.run()
        var other = BenchStore(receiver: BenchReceiver(name: "other"))
        if isHeldElsewhere {
            bench.exchange(with: &other)
            bench.run()
        }
        try bench.checkpoint()
        files.close(writer)
        bench.kill()
        bench.received = [:]
        files.remove(path(1))
        try bench.start()
        bench.run()
        bench.run()
        #expect(bench.losses == ["vanished \(path(1)) 0+4"])
        #expect(bench.sealed == [])
        if isHeldElsewhere {
            bench.exchange(with: &other)
            bench.run()
            #expect(bench.sealed == [id])
            bench.exchange(with: &other)
        }
        // A power failure brings it back.
        files.append(path(1), "one\n")
        bench.settle()
        #expect(bench.received == [id: Array("one\n".utf8)])
        #expect(bench.sealed == [id])
        #expect(!files.exists(path(1)))
        #expect(bench.disputed == [])
        #expect(bench.losses.count == 1)
    }

    @Test(arguments: [false, true])
    func `a segment that is gone is not sealed where a part of it is held, and continues when it comes back`(
        isHeldElsewhere: Bool
    ) throws {
        let bench = try TailBench(files)
        let id = "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001"
        files.append(path(1), "one\n")
        let writer = try lockAsWriter(path(1))
        bench.run()
        files.append(path(1), "two\n")
        var other = BenchStore(receiver: BenchReceiver(name: "other"))
        if isHeldElsewhere {
            bench.exchange(with: &other)
            bench.run()
            bench.exchange(with: &other)
        }
        bench.scan()
        try bench.checkpoint()
        files.close(writer)
        bench.kill()
        files.remove(path(1))
        try bench.start()
        bench.run()
        #expect(bench.losses == ["vanished \(path(1)) 4+4"])
        #expect(bench.sealed == [])
        if isHeldElsewhere {
            bench.exchange(with: &other)
            bench.run()
            #expect(bench.sealed == [id])
            bench.exchange(with: &other)
        }
        // A power failure brings it back.
        files.append(path(1), "one\ntwo\n")
        bench.settle()
        #expect(bench.received == [id: Array("one\ntwo\n".utf8)])
        #expect(bench.sealed == [id])
        #expect(!files.exists(path(1)))
        #expect(bench.disputed == [])
        #expect(bench.losses.count == 1)
    }

    @Test
    func `a segment that is deleted while a part of it is held is not sealed, and continues when it comes back`() throws
    {
        var limits = TailLimits()
        limits.openFileCountMax = 1
        let bench = try TailBench(files, limits: limits)
        let id = "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001"
        files.append(path(1), "one\n")
        let writer = try lockAsWriter(path(1))
        bench.run()
        // Its place among the open files goes to another.
        files.append(path(2), "other\n")
        let otherWriter = try lockAsWriter(path(2))
        bench.run()
        files.append(path(1), "two\n")
        bench.scan()
        files.close(writer)
        files.remove(path(1))
        bench.settle()
        #expect(bench.losses == ["vanished \(path(1)) 4+4"])
        #expect(bench.sealed == [])
        files.append(path(1), "one\ntwo\n")
        bench.settle()
        #expect(bench.received[id] == Array("one\ntwo\n".utf8))
        #expect(bench.sealed == [id])
        #expect(!files.exists(path(1)))
        #expect(bench.disputed == [])
        files.close(otherWriter)
    }

    @Test
    func `an undeletable segment is reported once and deleted later`() throws {
        let bench = try TailBench(files)
        files.append(path(1), "one\n")
        files.fail(.unlink, of: path(1), .error(13))
        bench.settle()
        #expect(bench.notices.filter { if case .segmentUndeletable = $0 { true } else { false } }.count == 1)
        files.fail(.unlink, of: path(1), nil)
        bench.run()
        #expect(files.unlinkedPaths == [path(1)])
        #expect(bench.texts == ["one\n"])
    }

    @Test(arguments: [
        "x.ndjson", "0195505e-aaaa-7000-8000-0000000000aa-1.ndjson", "-00000000000000000001.ndjson",
        "0195505e-aaaa-7000-8000-0000000000aa-0000000000000000000a.ndjson",
    ])
    func `other names in a spool are reported and left alone`(name: String) throws {
        let bench = try TailBench(files)
        files.append("/spool/" + name, "one\n")
        bench.settle()
        #expect(bench.notices == [.notSegment(path: "/spool/" + name)])
        #expect(files.exists("/spool/" + name))
    }
}
