import Testing
import WaybillSystem
import WaybillTestSupport

@Suite struct MemoryDiskTests {
    @Test func `what is not synced may be lost, what is synced is not`() throws {
        var sizes: Set<Int> = []
        var namesLost = 0
        for seed in 0..<UInt64(200) {
            let disk = FaultyFiles()
            let kept = try disk.open("/kept", .append)
            try disk.writeAll(kept, Array("durable".utf8))
            try disk.synchronize(kept)
            try disk.synchronizeDirectory("/")
            try disk.writeAll(kept, Array(" and more".utf8))
            let other = try disk.open("/other", .append)
            try disk.writeAll(other, [1, 2, 3])
            try disk.synchronize(other)
            disk.crash(seed: seed)
            let bytes = try #require(disk.bytes(of: "/kept"))
            #expect(bytes.starts(with: "durable".utf8))
            sizes.insert(bytes.count)
            if disk.bytes(of: "/other") == nil { namesLost += 1 }
        }
        #expect(sizes.count > 5 && (50..<150).contains(namesLost))
    }

    @Test func `after a failed sync the bytes are readable, and lost in the crash`() throws {
        let disk = FaultyFiles()
        let file = try disk.open("/file", .append)
        try disk.synchronizeDirectory("/")
        try disk.writeAll(file, [1, 2, 3])
        disk.fail(call: 1, .error(Errno.inputOutput))
        #expect(throws: FileSystemError.self) { try disk.synchronize(file) }
        #expect(disk.memory.hasDroppedPages)
        try disk.synchronize(file)
        #expect(disk.bytes(of: "/file") == [1, 2, 3])
        disk.crash(seed: 1)
        #expect(disk.bytes(of: "/file") == [0, 0, 0])
    }

    @Test func `a truncation and a rename are on the disk once they are synced`() throws {
        var sizes: Set<Int> = []
        var names: Set<[String]> = []
        for seed in 0..<UInt64(200) {
            let disk = FaultyFiles()
            disk.place("/old", Array("12345678".utf8))
            let file = try disk.open("/old", .append)
            try disk.truncate(file, to: 4)
            if seed % 2 == 0 { try disk.synchronize(file) }
            try disk.rename("/old", to: "/new")
            #expect(disk.bytes(of: "/new")?.count == 4)
            disk.crash(seed: seed)
            let found = disk.names(in: "/")
            names.insert(found)
            let size = try #require(disk.bytes(of: "/" + found[0])).count
            #expect(seed % 2 == 1 || size == 4)
            sizes.insert(size)
        }
        #expect(sizes == [4, 8])
        // Both names or none would be two changes.
        #expect(names == [["old"], ["new"]])
    }

    @Test func `a number is given out again once no name, no power cut and no open file leads to its file`() throws {
        let disk = FaultyFiles()
        let number = { try disk.status(at: $0)?.identity.inode }
        let file = try disk.open("/a", .append)
        try disk.synchronizeDirectory("/")
        let first = try number("/a")
        try disk.unlink("/a")
        disk.close(try disk.open("/b", .append))
        #expect(try number("/b") != first)
        try disk.synchronizeDirectory("/")
        disk.close(try disk.open("/c", .append))
        #expect(try number("/c") != first)
        disk.close(file)
        disk.close(try disk.open("/d", .append))
        #expect(try number("/d") == first)
    }

    @Test func `a process that dies in a call leaves no lock, and its values close nothing of the next one`() throws {
        let disk = FaultyFiles()
        let other = FaultyFiles(disk.memory)
        let file = try disk.open("/a", .append)
        #expect(try disk.lock(file, .exclusive))
        let waiting = try other.open("/a", .append)
        #expect(try !other.lock(waiting, .shared))
        disk.stop(atCall: 1)
        #expect(throws: FileSystemError.self) { try disk.writeAll(file, [1, 2, 3, 4]) }
        #expect(disk.isStopped && disk.bytes(of: "/a") == [1, 2])
        #expect(throws: FileSystemError.self) { try disk.status(at: "/a") }
        #expect(try other.lock(waiting, .exclusive))
        disk.kill()
        let next = try disk.open("/a", .read)
        disk.close(file)
        #expect(try disk.status(next).byteCount == 2)
    }

    // MARK: Owners, permissions and links

    @Test func `names are counted, also after a power cut that brings some back`() throws {
        for seed in UInt64(0)..<20 {
            let disk = FaultyFiles()
            disk.place("/a", [1])
            disk.memory.hardLink("/b", to: "/a")
            #expect(try disk.status(at: "/a")?.linkCount == 2)
            try disk.rename("/b", to: "/c")
            #expect(try disk.status(at: "/c")?.linkCount == 2)
            try disk.unlink("/a")
            #expect(try disk.status(at: "/c")?.linkCount == 1)
            disk.crash(seed: seed)
            let names = disk.names(in: "/")
            for name in names { #expect(try disk.status(at: "/\(name)")?.linkCount == names.count) }
        }
    }

    @Test func `what is changed through a link is changed at its own path`() throws {
        let disk = FaultyFiles()
        disk.place("/real/file", [1, 2])
        disk.memory.link("/linked", to: "/real")
        #expect(disk.bytes(of: "/real/file") == [1, 2])
        try disk.unlink("/linked/file")
        #expect(disk.bytes(of: "/real/file") == nil)
    }

    @Test func `calls in an open folder follow no link, and calls by a path do`() throws {
        let disk = FaultyFiles()
        disk.place("/real/file", [1, 2])
        disk.memory.link("/linked", to: "/real")
        disk.memory.link("/real/link", to: "/real/file")
        disk.memory.own("/real", by: 7, 8, permissions: 0o2770)
        #expect(try disk.status(at: "/linked/link")?.byteCount == 2)
        #expect(try disk.status(ofEntry: "/real/link")?.kind == .link)
        #expect(try disk.status(ofEntry: "/linked")?.kind == .link)
        #expect(throws: FileSystemError("open", path: "/linked", errno: Errno.link)) {
            try disk.open("/linked", .folder)
        }
        let folder = try disk.open("/real", .folder)
        let status = try disk.status(folder)
        #expect((status.owner, status.group, status.permissions) == (7, 8, 0o2770))
        try disk.setPermissions(0o750, of: folder)
        #expect(try disk.status(at: "/real")?.permissions == 0o750)
        #expect(throws: FileSystemError("open", path: "/real/link", errno: Errno.link)) {
            try disk.open("link", in: folder)
        }
        #expect(try disk.status(of: "link", in: folder)?.kind == .link)
        disk.close(try disk.open("file", in: folder))
        try disk.rename("file", to: "other", in: folder)
        try disk.unlink("link", in: folder)
        #expect(disk.names(in: "/real") == ["other"])
        #expect(disk.unlinkedPaths == ["/real/link"])
        disk.fail(.unlink, of: "/real/other", .error(Errno.inputOutput))
        #expect(throws: FileSystemError("unlink", path: "/real/other", errno: Errno.inputOutput)) {
            try disk.unlink("other", in: folder)
        }
        disk.close(folder)
        #expect(disk.memory.openDescriptorCount == 0)
    }
}
