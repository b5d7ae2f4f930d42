import Testing
import WaybillSystem
import WaybillTestSupport

/// The helpers of the seam on the operating system's files, in a folder that is gone when the test is.
private final class Folder {
    let files = POSIXFileSystem()
    let path = "/tmp/waybill-system-\(Hexadecimal.text(SystemRandom.seed(), digitCount: 16))"

    init() throws {
        try self.files.createDirectory(self.path)
    }

    deinit {
        do throws(FileSystemError) {
            try self.remove(self.path)
        } catch {
            Issue.record(error)
        }
    }

    private func remove(_ path: String) throws(FileSystemError) {
        guard try self.files.status(at: path)?.kind == .directory else { return try self.files.unlink(path) }
        for name in try self.files.list(path) { try self.remove(Path.join(path, name)) }
        try self.files.removeDirectory(path)
    }

    func text(_ name: String) throws -> String? {
        try self.files.contents(of: Path.join(self.path, name)).map { String(decoding: $0, as: UTF8.self) }
    }
}

@Suite struct FileSystemTests {
    @Test func `writes go to the end, reads come from anywhere, and cutting shortens`() throws {
        let folder = try Folder()
        let path = folder.path + "/file"
        let file = try folder.files.open(path, .append)
        defer { folder.files.close(file) }
        try folder.files.writeAll(file, Array("0123456789".utf8))
        try folder.files.truncate(file, to: 4)
        try folder.files.writeAll(file, Array("ab".utf8))
        try folder.files.synchronize(file)
        var buffer = [UInt8](repeating: 0, count: 16)
        let count = try buffer.withUnsafeMutableBytes { try folder.files.readFully(file, at: 2, into: $0) }
        #expect(String(decoding: buffer[..<count], as: UTF8.self) == "23ab")
        let status = try folder.files.status(file)
        #expect(status.byteCount == 6 && status.kind == .regular)
        #expect(try folder.files.status(at: path)?.identity == status.identity)
    }

    #if os(Linux)
        @Test func `a file is written while a process has it open for writing`() throws {
            let folder = try Folder()
            let path = folder.path + "/file"
            let writer = try folder.files.open(path, .append)
            let reader = try folder.files.open(path, .read)
            let other = try folder.files.open(path, .read)
            defer { for file in [reader, other] { folder.files.close(file) } }
            #expect(folder.files.isWritten(reader))
            folder.files.close(writer)
            #expect(!folder.files.isWritten(reader))
            // Nothing is left that would hold the next writer up.
            folder.files.close(try folder.files.open(path, .append))
            #expect(!folder.files.isWritten(reader))
        }
    #endif

    @Test func `a vector of more pieces than one call takes is written whole`() throws {
        let folder = try Folder()
        let file = try folder.files.open(folder.path + "/file", .append)
        defer { folder.files.close(file) }
        let bytes = (0..<5000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        try bytes.withUnsafeBytes { bytes in
            let pieces = (0..<2500).map { UnsafeRawBufferPointer(rebasing: bytes[($0 * 2)..<($0 * 2 + 2)]) }
            let empty = UnsafeRawBufferPointer(start: nil, count: 0)
            let vector = [empty] + pieces[..<1200] + [empty, empty] + pieces[1200...] + [empty]
            try folder.files.writeAll(file, vector: vector)
        }
        #expect(try folder.files.contents(of: folder.path + "/file") == bytes)
    }

    @Test func `short writes are gone on with`() throws {
        for call in 1...4 {
            let disk = FaultyFiles()
            let file = try disk.open("/file", .append)
            for next in 0..<call { disk.fail(call: 1 + next, .short) }
            let bytes = Array("the quick brown fox".utf8)
            try bytes.withUnsafeBytes { bytes in
                try disk.writeAll(
                    file,
                    vector: [
                        UnsafeRawBufferPointer(rebasing: bytes[..<3]), UnsafeRawBufferPointer(rebasing: bytes[3..<4]),
                        UnsafeRawBufferPointer(rebasing: bytes[4...]),
                    ])
            }
            #expect(disk.bytes(of: "/file") == bytes)
        }
    }

    @Test func `modes open what they say`() throws {
        let folder = try Folder()
        let path = folder.path + "/file"
        #expect(throws: FileSystemError("open", path: path, errno: Errno.noEntry)) {
            try folder.files.open(path, .read)
        }
        folder.files.close(try folder.files.open(path, .appendNew))
        #expect(throws: FileSystemError("open", path: path, errno: Errno.exists)) {
            try folder.files.open(path, .appendNew)
        }
        try folder.files.replace(path, with: Array("old".utf8))
        folder.files.close(try folder.files.open(path, .append))
        #expect(try folder.text("file") == "old")
        folder.files.close(try folder.files.open(path, .replace))
        #expect(try folder.text("file") == "")
    }

    @Test func `replacing leaves the new bytes and no other file`() throws {
        let folder = try Folder()
        for text in ["one", "", "three"] {
            try folder.files.replace(folder.path + "/file", with: Array(text.utf8))
            #expect(try folder.text("file") == text)
        }
        #expect(try folder.files.list(folder.path) == ["file"])
        #expect(try folder.text("other") == nil)
        #expect(try folder.files.contents(of: folder.path) == nil)
        #expect(try folder.files.contents(of: folder.path + "/file", byteCountMax: 2) == Array("th".utf8))
    }

    @Test func `a replaced file holds the old bytes or the new ones after a crash at any call`() throws {
        for call in 1...6 {
            for seed in 0..<20 {
                let disk = FaultyFiles()
                try disk.replace("/file", with: Array("old bytes".utf8))
                disk.stop(atCall: call)
                do { try disk.replace("/file", with: Array("new".utf8)) } catch { #expect(disk.isStopped) }
                let isDone = !disk.isStopped
                disk.crash(seed: UInt64(seed))
                let found = disk.bytes(of: "/file").map { String(decoding: $0, as: UTF8.self) }
                #expect(found == "new" || (!isDone && found == "old bytes"))
            }
        }
    }

    @Test func `folders are made with all that is missing above them`() throws {
        let folder = try Folder()
        let path = folder.path + "/a/b/c"
        try folder.files.createDirectories(path)
        try folder.files.createDirectories(path)
        #expect(try folder.files.status(at: path)?.kind == .directory)
        try folder.files.replace(path + "/file", with: [])
        let error = FileSystemError("createDirectory", path: path + "/file", errno: Errno.notADirectory)
        #expect(throws: error) { try folder.files.createDirectories(path + "/file") }
        #expect(error.code == .notADirectory)
        #expect(try folder.files.status(at: path + "/file/below") == nil)
        #expect(throws: FileSystemError.self) { try folder.files.removeDirectory(path) }
    }

    @Test func `a folder that a process died in making is durable once it is made again`() throws {
        for call in 1...8 {
            for seed in 0..<20 {
                let disk = FaultyFiles()
                disk.stop(atCall: call)
                do { try disk.createDirectories("/a/b") } catch { #expect(disk.isStopped) }
                disk.kill()
                try disk.createDirectories("/a/b")
                disk.crash(seed: UInt64(seed))
                #expect(try disk.status(at: "/a/b")?.kind == .directory)
            }
        }
    }

    @Test func `names are listed in the order of their bytes`() throws {
        let folder = try Folder()
        for name in ["b", "a", "B", "é", ".hidden", "a b"] {
            try folder.files.replace(folder.path + "/" + name, with: [])
        }
        #expect(try folder.files.list(folder.path) == [".hidden", "B", "a", "a b", "b", "é"])
        #expect(throws: FileSystemError("list", path: folder.path + "/none", errno: Errno.noEntry)) {
            try folder.files.list(folder.path + "/none")
        }
    }

    @Test func `renaming and exchanging move names`() throws {
        let folder = try Folder()
        for name in ["a", "b", "c"] { try folder.files.replace(folder.path + "/" + name, with: Array(name.utf8)) }
        try folder.files.rename(folder.path + "/a", to: folder.path + "/b")
        try folder.files.exchange(folder.path + "/b", with: folder.path + "/c")
        try folder.files.synchronizeDirectory(folder.path)
        #expect(try ["a", "b", "c"].map(folder.text) == [nil, "c", "a"])
        #expect(throws: FileSystemError.self) { try folder.files.rename(folder.path + "/a", to: folder.path + "/d") }
    }

    @Test func `a lock keeps others out until it is closed, and readers together`() throws {
        let folder = try Folder()
        let path = folder.path + "/lock"
        let first = try folder.files.open(path, .append)
        let second = try folder.files.open(path, .append)
        defer { folder.files.close(second) }
        #expect(try folder.files.lock(first, .shared))
        #expect(try folder.files.lock(second, .shared))
        #expect(try folder.files.lock(second, .exclusive) == false)
        folder.files.close(first)
        #expect(try folder.files.lock(second, .exclusive))
        let third = try folder.files.open(path, .append)
        defer { folder.files.close(third) }
        #expect(try folder.files.lock(third, .shared) == false)
    }

    @Test func `an error names the call, the path, the cause and the remedy`() throws {
        let folder = try Folder()
        let file = try folder.files.open(folder.path + "/file", .append)
        folder.files.close(file)
        let read = try folder.files.open(folder.path + "/file", .read)
        defer { folder.files.close(read) }
        #expect(throws: FileSystemError.self) { try folder.files.writeAll(read, [1]) }
        do {
            try folder.files.writeAll(read, [1])
        } catch {
            #expect(error.operation == "write" && error.path == folder.path + "/file" && error.code == .system)
        }
        let full = FileSystemError("write", path: "/x", errno: Errno.noSpace)
        let text = "write /x: No space left on device (disk-full); "
        #expect(full.description == text + "free space on this file system; writing resumes automatically")
    }

    @Test func `paths are joined and taken apart as text`() {
        #expect(["/a/b", "/a", "a", "a/b", "/"].map(Path.parent) == ["/a", "/", ".", "a", "/"])
        #expect(["/a/b", "/a", "a", "a/b"].map(Path.name) == ["b", "a", "a", "b"])
        #expect([Path.join("/a", "b"), Path.join("/", "b")] == ["/a/b", "/b"])
    }
}
