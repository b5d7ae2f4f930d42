import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTail
import WaybillTestSupport

/// What another user put into a spool or a log folder, for an agent that may read every file.
struct TailRefusalTests {
    private static let writer = "0195505e-aaaa-7000-8000-0000000000aa"
    let files = FaultyFiles()

    private func path(_ sequence: Int, in folder: String = "/spool") -> String {
        let digits = String(sequence)
        return "\(folder)/\(Self.writer)-" + String(repeating: "0", count: 20 - digits.count) + digits + ".ndjson"
    }

    private func refusals(_ bench: TailBench<FaultyFiles>) -> [String] {
        bench.notices.compactMap { notice in
            if case .refused(let path, let refusal) = notice { "\(path) \(refusal)" } else { nil }
        }
    }

    private func readCount(of path: String) -> Int { self.files.memory.node(at: path)?.readEnd ?? 0 }

    // MARK: Segments

    @Test(
        arguments: [
            // Of the file: owner, group, permissions, names; of the folder, whose owner is 7 and whose group is 8: permissions.
            (7, 9, 0o600, 1, 0o755, nil), (7, 9, 0o600, 2, 0o755, .hardLink), (7, 8, 0o640, 2, 0o2770, .hardLink),
            (0, 0, 0o600, 1, 0o755, .owner), (0, 8, 0o640, 1, 0o770, .owner), (0, 8, 0o640, 1, 0o2770, nil),
            (0, 8, 0o600, 1, 0o2770, .owner), (0, 9, 0o640, 1, 0o2770, .owner), (3, 8, 0o660, 1, 0o2770, nil),
        ] as [(UInt32, UInt32, UInt16, Int, UInt16, FileRefusal?)])
    func `a segment belongs to its folder's owner or is readable for the group that shares the folder`(
        owner: UInt32, group: UInt32, permissions: UInt16, linkCount: Int, folder: UInt16, refusal: FileRefusal?
    ) {
        func status(_ kind: FileKind, _ permissions: UInt16, _ owner: UInt32, _ group: UInt32, _ count: Int)
            -> FileStatus
        {
            FileStatus(
                identity: FileIdentity(device: 1, inode: 1), kind: kind, byteCount: 1, modified: 0, birth: 0,
                permissions: permissions, owner: owner, group: group, linkCount: count)
        }
        let folder = status(.directory, folder, 7, 8, 2)
        #expect(FileRefusal(ofSegment: status(.regular, permissions, owner, group, linkCount), in: folder) == refusal)
        #expect(FileRefusal(ofSegment: status(.link, permissions, 7, 8, 1), in: folder) == .link)
    }

    @Test func `links among segments are refused once and do not hold up the others`() throws {
        let bench = try TailBench(files)
        files.place("/root/secret", Array("secret\n".utf8))
        files.memory.link(path(1), to: "/root/secret")
        files.memory.link(path(2) + ".new", to: "/root/secret")
        files.memory.hardLink(path(3), to: "/root/secret")
        files.append(path(4), "mine\n")
        bench.settle()
        #expect(bench.texts == ["mine\n"])
        #expect(refusals(bench) == ["\(path(2)).new link", "\(path(1)) link", "\(path(3)) hardLink"])
        #expect(bench.withTail { $0.notices.refusals } == [.link: 2, .hardLink: 1])
        #expect(readCount(of: "/root/secret") == 0)
        #expect(files.unlinkedPaths == [path(4)])
        #expect(files.bytes(of: "/root/secret") == Array("secret\n".utf8))
        #expect(files.names(in: "/spool").count == 3)
    }

    @Test func `a log with a second name is refused if it is not its folder's, and a backup of one changes nothing`()
        throws
    {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        files.memory.own("/log", by: 1000, permissions: 0o755)
        files.memory.own("/log/a.log", by: 1000, permissions: 0o600)
        bench.settle()
        // A backup: the log's owner gives it another name.
        files.memory.hardLink("/backup/a.log", to: "/log/a.log")
        files.append("/log/a.log", "two\n")
        files.place("/root/secret", Array("secret\n".utf8))
        files.memory.hardLink("/log/b.log", to: "/root/secret")
        bench.settle()
        #expect(bench.texts == ["one\ntwo\n"])
        #expect(refusals(bench) == ["/log/b.log hardLink"])
        #expect(readCount(of: "/root/secret") == 0)
        // A group's folder: its members' logs may have names.
        files.memory.own("/log", by: 1000, 50, permissions: 0o2770)
        files.memory.own("/root/secret", by: 3, 50, permissions: 0o640)
        bench.settle()
        #expect(bench.texts == ["one\ntwo\n", "secret\n"])
    }

    @Test func `a segment of another user waits until its owner is the folder's`() throws {
        let bench = try TailBench(files)
        files.append(path(1), "one\n")
        files.memory.own("/spool", by: 1000, permissions: 0o755)
        files.append(path(2), "two\n")
        files.memory.own(path(2), by: 1000, permissions: 0o600)
        bench.settle()
        #expect(bench.texts == ["two\n"])
        #expect(refusals(bench) == ["\(path(1)) owner"])
        files.memory.own(path(1), by: 1000, permissions: 0o600)
        bench.settle()
        #expect(bench.texts == ["two\n", "one\n"])
    }

    @Test func `a group that shares the folder ships segments of all its members`() throws {
        let bench = try TailBench(files)
        files.memory.own("/spool", by: 0, 50, permissions: 0o2770)
        for user in 1...3 {
            files.append(path(user), "\(user)\n")
            files.memory.own(path(user), by: UInt32(user), 50, permissions: user == 3 ? 0o600 : 0o640)
        }
        bench.settle()
        #expect(bench.texts == ["1\n", "2\n"])
        #expect(refusals(bench) == ["\(path(3)) owner"])
    }

    @Test func `a segment that gets a second name is not read on until the name is gone`() throws {
        let bench = try TailBench(files)
        files.append(path(1), "one\n")
        let writer = try files.open(path(1), .append)
        #expect(try files.lock(writer, .shared))
        bench.run()
        bench.kill()
        files.append(path(1), "two\n")
        files.memory.hardLink("/spool/other", to: path(1))
        try bench.start()
        bench.run()
        #expect(bench.texts == ["one\n"])
        #expect(refusals(bench) == ["\(path(1)) hardLink"])
        files.remove("/spool/other")
        files.close(writer)
        bench.settle()
        #expect(bench.texts == ["one\ntwo\n"])
    }

    @Test func `a segment exchanged for a link between scan and read is not followed`() throws {
        var limits = TailLimits()
        limits.openFileCountMax = 1
        let bench = try TailBench(files, limits: limits)
        files.place("/root/secret", Array("secret\n".utf8))
        // The first one takes the only descriptor.
        for sequence in 1...2 { files.append(path(sequence), "mine\n") }
        bench.scan()
        for sequence in 1...2 {
            files.remove(path(sequence))
            files.memory.link(path(sequence), to: "/root/secret")
        }
        bench.settle()
        #expect(!bench.texts.contains { $0.contains("secret") })
        #expect(readCount(of: "/root/secret") == 0)
        #expect(files.bytes(of: "/root/secret") != nil)
        #expect(files.names(in: "/spool").count == 2)
    }

    @Test func `a segment exchanged for a link before its deletion leaves what the link leads to`() throws {
        let bench = try TailBench(files)
        bench.holdsSeals = true
        files.append(path(1), "one\n")
        bench.settle()
        files.move(path(1), "/log/kept")
        files.memory.link(path(1), to: "/log/kept")
        let key = try #require(bench.withTail { $0.streams.first })
        let proof = StreamProof(of: bench.withTail { $0.id(of: key) }, at: StreamOffset(4), tail: "one\n".utf8)
        _ = bench.withTail { $0.sealedByReceiver(key, proof) }
        bench.scan()
        #expect(files.bytes(of: "/log/kept") == Array("one\n".utf8))
        #expect(files.unlinkedPaths == [])
    }

    @Test(arguments: ["/linked", "/apps/*"])
    func `a spool that is a link is refused`(directory: String) throws {
        files.makeDirectory("/apps/real")
        files.append(path(1, in: "/apps/real"), "real\n")
        files.append(path(2, in: "/private"), "private\n")
        files.memory.link("/linked", to: "/private")
        files.memory.link("/apps/linked", to: "/private")
        // A link to a file is no spool.
        files.place("/private.txt", [])
        files.memory.link("/apps/notes", to: "/private.txt")
        let source = SourceConfiguration(name: "spools", kind: .spool(directory: directory))
        let bench = try TailBench(files, sources: [source])
        bench.settle()
        #expect(bench.texts == (directory == "/linked" ? [] : ["real\n"]))
        #expect(refusals(bench) == [(directory == "/linked" ? "/linked" : "/apps/linked") + " folderLink"])
        #expect(files.bytes(of: path(2, in: "/private")) != nil)
        #expect(readCount(of: path(2, in: "/private")) == 0)
    }

    @Test func `folders above a spool may be links`() throws {
        files.makeDirectory("/disk/app")
        files.memory.link("/var", to: "/disk")
        files.append(path(1, in: "/disk/app"), "one\n")
        let bench = try TailBench(
            files, sources: [SourceConfiguration(name: "spool", kind: .spool(directory: "/var/app"))])
        bench.settle()
        #expect(bench.texts == ["one\n"])
        #expect(refusals(bench) == [])
    }

    // MARK: Foreign files

    private func logs(followsLinks: Bool) throws -> TailBench<FaultyFiles> {
        files.place("/root/secret", Array("secret\n".utf8))
        files.place("/root/app/a.log", Array("hidden\n".utf8))
        files.place("/srv/app-1/a.log", Array("one\n".utf8))
        files.memory.link("/srv/app-1/b.log", to: "/root/secret")
        files.memory.link("/srv/app-2", to: "/root/app")
        files.memory.hardLink("/srv/app-1/c.log", to: "/srv/app-1/a.log")
        files.memory.link("/var", to: "/srv")
        let kind = SourceConfiguration.Kind.files(patterns: ["/var/app-*/*.log"])
        let bench = try TailBench(
            files, sources: [SourceConfiguration(name: "logs", kind: kind, followsLinks: followsLinks)])
        bench.run()
        return bench
    }

    @Test func `links that a pattern matches are refused, and those before its first wildcard are followed`() throws {
        let bench = try self.logs(followsLinks: false)
        #expect(bench.texts == ["one\n"])
        #expect(refusals(bench) == ["/var/app-1/b.log link", "/var/app-2 folderLink"])
        #expect(readCount(of: "/root/secret") == 0)
        #expect(readCount(of: "/root/app/a.log") == 0)
        files.append("/srv/app-1/a.log", "two\n")
        bench.run()
        #expect(bench.texts == ["one\ntwo\n"])
    }

    @Test func `links are followed where the source says so`() throws {
        let bench = try self.logs(followsLinks: true)
        #expect(bench.texts.sorted() == ["hidden\n", "one\n", "secret\n"])
        #expect(refusals(bench) == [])
    }

    @Test func `a log exchanged for a link between scan and read is not followed`() throws {
        let bench = try TailBench(files)
        files.place("/root/secret", Array("one\nsecret\n".utf8))
        files.append("/log/a.log", "one\n")
        bench.run()
        try bench.checkpoint()
        bench.kill()
        files.remove("/log/a.log")
        files.memory.link("/log/a.log", to: "/root/secret")
        try bench.start()
        bench.settle()
        #expect(bench.texts == ["one\n"])
        #expect(readCount(of: "/root/secret") == 0)
    }
}
