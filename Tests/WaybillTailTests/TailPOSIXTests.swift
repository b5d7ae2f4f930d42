import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTail

/// The same on a real file system, whose inodes, births and locks are the kernel's.
struct TailPOSIXTests {
    /// A folder that is gone when the test is.
    private final class Folder {
        let files = POSIXFileSystem()
        let path: String

        init() throws {
            self.path = "/tmp/waybill-tail-\(Hexadecimal.text(SystemRandom.seed(), digitCount: 16))"
            try self.files.createDirectory(self.path)
        }

        deinit {
            do throws(FileSystemError) {
                try Self.remove(self.path, self.files)
            } catch {
                Issue.record(error)
            }
        }

        private static func remove(_ path: String, _ files: POSIXFileSystem) throws(FileSystemError) {
            guard try files.status(at: path)?.kind == .directory else {
                try files.unlink(path)
                return
            }
            for name in try files.list(path) { try Self.remove(Path.join(path, name), files) }
            try files.removeDirectory(path)
        }

        func append(_ name: String, _ text: String) throws {
            let file = try self.files.open(self.path + name, .append)
            defer { self.files.close(file) }
            try self.files.writeAll(file, Array(text.utf8))
        }
    }

    @Test
    func `rotation, truncation and deletion are followed`() throws {
        let folder = try Folder()
        let bench = try TailBench(folder.files, root: folder.path)
        try folder.append("/log/a.log", "one\ntw")
        bench.run()
        try folder.append("/log/a.log", "o\n")
        try folder.files.rename(folder.path + "/log/a.log", to: folder.path + "/log/a.log.1")
        try folder.append("/log/a.log", "uno\n")
        bench.run()
        let file = try folder.files.open(folder.path + "/log/a.log", .replace)
        folder.files.close(file)
        bench.run()
        try folder.append("/log/a.log", "dos")
        bench.run()
        try folder.files.unlink(folder.path + "/log/a.log")
        bench.settle()
        #expect(bench.texts == ["one\ntwo\n", "uno\n", "dos"])
        #expect(bench.sealed == Set(bench.order))
        try bench.checkpoint()
        bench.kill()
        let left = try StateStore(path: bench.registryPath, files: folder.files)
        #expect(Set(left.entries.keys) == ["@1"])
    }

    @Test
    func `an inode that is used again is another stream`() throws {
        let folder = try Folder()
        let bench = try TailBench(folder.files, root: folder.path)
        var expected: [String] = []
        // ext4 gives a freed inode to the next file; elsewhere this is just deletion and creation.
        for (round, text) in ["one\n", "one\n", "one\ntwo\n", "x\n"].enumerated() {
            try folder.append("/log/a.log", text)
            expected.append(text)
            bench.run()
            try bench.checkpoint()
            bench.kill()
            if round < 3 { try folder.files.unlink(folder.path + "/log/a.log") }
            try bench.start()
        }
        bench.settle()
        #expect(bench.texts == expected)
    }

    @Test
    func `names that differ in their bytes alone are two files`() throws {
        let folder = try Folder()
        let sources = [SourceConfiguration(name: "app", kind: .files(patterns: [folder.path + "/log/*/*"]))]
        let bench = try TailBench(folder.files, root: folder.path, sources: sources)
        // macOS has one folder for the first two.
        let folders = ["/log/ä", "/log/a\u{308}", "/log/\u{308}x"]
        for (number, path) in folders.enumerated() {
            try folder.files.createDirectory(folder.path + path)
            try folder.append(path + "/a.log", "\(number)\n")
            try folder.append(path + "/\u{308}.log", "\(number) mark\n")
        }
        bench.settle()
        #expect(Set(bench.texts) == Set(folders.indices.flatMap { ["\($0)\n", "\($0) mark\n"] }))
        #expect(bench.texts.count == 6)
    }

    @Test
    func `a segment is deleted after its writer's lock is gone`() throws {
        let folder = try Folder()
        let bench = try TailBench(folder.files, root: folder.path)
        let path = folder.path + "/spool/0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001.ndjson"
        let writer = try folder.files.open(path, .appendNew)
        #expect(try folder.files.lock(writer, .shared))
        try folder.files.writeAll(writer, Array("one\n".utf8))
        bench.settle()
        #expect(bench.texts == ["one\n"])
        #expect(try folder.files.status(at: path) != nil)
        folder.files.close(writer)
        bench.settle()
        #expect(try folder.files.status(at: path) == nil)
        #expect(bench.notices.last == .segmentDeleted(try #require(bench.notices.compactMap(Self.discovered).first)))
    }

    #if os(Linux)
        @Test
        func `a segment that is open for writing without a lock is not complete`() throws {
            let folder = try Folder()
            let bench = try TailBench(folder.files, root: folder.path)
            let path = folder.path + "/spool/0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001.ndjson"
            let copy = try folder.files.open(path, .appendNew)
            try folder.files.writeAll(copy, Array("one\nha".utf8))
            bench.settle()
            #expect(bench.texts == ["one\n"])
            #expect(try folder.files.status(at: path) != nil)
            try folder.files.writeAll(copy, Array("lf\ntwo\n".utf8))
            folder.files.close(copy)
            bench.settle()
            #expect(bench.texts == ["one\nhalf\ntwo\n"])
            #expect(try folder.files.status(at: path) == nil)
        }
    #endif

    private static func discovered(_ notice: TailNotice) -> StreamID? {
        if case .discovered(let id, _) = notice { id } else { nil }
    }
}
