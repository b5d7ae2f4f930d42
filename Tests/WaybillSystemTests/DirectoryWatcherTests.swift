#if canImport(Glibc)
    import Testing
    import WaybillSystem
    import WaybillTestSupport

    /// Watches of folders on the operating system's files: `/log` is the watched folder, in a folder of its own.
    private final class Bench {
        let files = POSIXFileSystem()
        let path: String
        private var watcher = DirectoryWatcher()

        init() throws {
            self.path = try makeFolder()
            try self.make("/log")
        }

        deinit { removeFolder(self.path) }

        func make(_ name: String) throws { try self.files.createDirectory(self.path + name) }

        func link(_ name: String, to target: String) throws { try makeLink(self.path + name, to: target) }

        func move(_ name: String, to newName: String) throws {
            try self.files.rename(self.path + name, to: self.path + newName)
        }

        func append(_ name: String) throws {
            let file = try self.files.open(self.path + name, .append)
            defer { self.files.close(file) }
            try self.files.writeAll(file, Array("line\n".utf8))
        }

        /// Looks at these folders and links; returns the links of which changes were no hints until now.
        @discardableResult
        func look(at folders: [String] = ["/log"], links: [String] = [], isPolled: Bool = false) -> [String] {
            self.watcher.beginLook()
            for folder in folders { self.watcher.watch(self.path + folder, isPolled: isPolled) }
            let unseen = self.watcher.watch(links: links.map { self.path + $0 })
            self.watcher.endLook()
            return unseen.map { String($0.dropFirst(self.path.utf8.count)) }
        }

        func check() -> [String] { self.texts(self.watcher.check()) }
        func read() -> [String] { self.texts(self.watcher.read()) }
        var isComplete: Bool { self.watcher.isComplete }

        /// A folder has a slash at its end.
        private func texts(_ hint: DirectoryWatcher.Hint?) -> [String] {
            switch hint {
            case .changes(let paths, let folders):
                (paths + folders.map { $0 + "/" }).map { String($0.dropFirst(self.path.utf8.count)) }
            case .everything: ["everything"]
            case nil: []
            }
        }
    }

    @Suite struct DirectoryWatcherTests {
        @Test func `a write is a hint about its file, and a look again changes nothing`() throws {
            let bench = try Bench()
            bench.look()
            bench.look()
            try bench.append("/log/a")
            #expect(bench.read() == ["/log/a"])
            #expect(bench.check() == [] && bench.read() == [])
        }

        @Test func `a folder that is renamed and made again is watched again`() throws {
            let bench = try Bench()
            bench.look()
            try bench.move("/log", to: "/log.old")
            try bench.make("/log")
            try bench.append("/log/a")
            #expect(bench.read() == ["/log/"])
            try bench.append("/log.old/b")
            try bench.append("/log/c")
            #expect(bench.read() == ["/log/c"])
        }

        @Test func `a folder that is made again only later is watched from the next check on`() throws {
            let bench = try Bench()
            bench.look()
            try bench.move("/log", to: "/log.old")
            #expect(bench.read() == ["/log/"])
            #expect(bench.check() == [] && bench.isComplete)
            try bench.make("/log")
            try bench.append("/log/a")
            #expect(bench.check() == ["/log/"])
            try bench.append("/log/b")
            #expect(bench.read() == ["/log/b"])
        }

        @Test func `a folder that is deleted and made again is watched again`() throws {
            let bench = try Bench()
            bench.look()
            try bench.files.removeDirectory(bench.path + "/log")
            try bench.make("/log")
            #expect(bench.read() == ["/log/"])
            try bench.append("/log/a")
            #expect(bench.read() == ["/log/a"])
        }

        @Test func `a folder behind a link that comes to lead elsewhere is watched from the next check on`() throws {
            let bench = try Bench()
            for release in ["/1", "/2"] { try bench.make(release) }
            try bench.link("/current", to: "1")
            bench.look(at: ["/current"])
            try bench.append("/1/a")
            #expect(bench.read() == ["/current/a"])
            try bench.link("/next", to: "2")
            try bench.move("/next", to: "/current")
            #expect(bench.check() == ["/current/"])
            try bench.append("/2/b")
            try bench.append("/1/c")
            #expect(bench.read() == ["/current/b"])
        }

        @Test func `a folder that does not exist yet is watched once it does`() throws {
            let bench = try Bench()
            bench.look(at: ["/later"])
            #expect(bench.isComplete && bench.check() == [])
            try bench.make("/later")
            #expect(bench.check() == ["/later/"])
        }

        @Test func `a new folder in a watched one is a hint about the folder`() throws {
            let bench = try Bench()
            bench.look()
            try bench.make("/log/pod")
            try bench.append("/log/a")
            #expect(bench.read() == ["/log/a", "/log/pod/"])
            try bench.move("/log/pod", to: "/log/other")
            #expect(bench.read() == ["/log/other/", "/log/pod/"])
        }

        @Test func `what happens where a link leads to is a hint about the link`() throws {
            let bench = try Bench()
            for folder in ["/pods", "/disk"] { try bench.make(folder) }
            try bench.append("/disk/1")
            try bench.link("/pods/0", to: bench.path + "/disk/1")
            try bench.link("/log/a", to: "../pods/0")
            #expect(bench.look(links: ["/log/a"]) == ["/log/a"])
            #expect(bench.look(links: ["/log/a"]) == [])
            try bench.append("/disk/1")
            #expect(bench.read() == ["/log/a"])
            // A rotation.
            try bench.move("/disk/1", to: "/disk/1.old")
            try bench.append("/disk/1")
            try bench.append("/disk/other")
            #expect(bench.read() == ["/log/a"])
            // The link on the way.
            try bench.link("/pods/next", to: bench.path + "/disk/other")
            try bench.move("/pods/next", to: "/pods/0")
            #expect(bench.read() == ["/log/a"])
        }

        @Test func `a new link into a watched folder is to be looked at again, and one that is gone is forgotten`()
            throws
        {
            let bench = try Bench()
            try bench.make("/pods")
            for name in ["a", "b"] {
                try bench.append("/pods/" + name)
                try bench.link("/log/" + name, to: "../pods/" + name)
            }
            #expect(bench.look(links: ["/log/a"]) == ["/log/a"])
            #expect(bench.look(links: ["/log/a", "/log/b"]) == ["/log/b"])
            bench.look(links: ["/log/b"])
            for name in ["a", "b"] { try bench.append("/pods/" + name) }
            #expect(bench.read() == ["/log/b"])
        }

        @Test func `a loop of links ends`() throws {
            let bench = try Bench()
            try bench.link("/log/a", to: "b")
            try bench.link("/log/b", to: "a")
            #expect(bench.look(links: ["/log/a", "/log/b"]) == ["/log/a", "/log/b"])
            #expect(bench.isComplete)
        }

        @Test func `hints are not complete where folders are polled, and where others write to the file system`() throws
        {
            let bench = try Bench()
            bench.look(isPolled: true)
            #expect(!bench.isComplete)
            bench.look()
            #expect(bench.isComplete)
            // NFS, SMB, FUSE, 9p, overlay.
            for type: UInt32 in [0x6969, 0xFF53_4D42, 0x6573_5546, 0x0102_1997, 0x794C_7630] {
                #expect(FileSystemType.isBlind(type))
            }
            // ext4, XFS, Btrfs, tmpfs.
            for type: UInt32 in [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994] {
                #expect(!FileSystemType.isBlind(type))
            }
        }

        @Test func `others may lock files on a network mount or FUSE, and no one else an overlay's`() {
            for type: UInt32 in [0x6969, 0xFF53_4D42, 0x6573_5546, 0x0102_1997] {
                #expect(FileSystemType.isShared(type))
            }
            for type: UInt32 in [0x794C_7630, 0xF15F, 0xEF53, 0x5846_5342, 0x0102_1994] {
                #expect(!FileSystemType.isShared(type))
            }
        }

        @Test func `two paths to one folder are two hints`() throws {
            let bench = try Bench()
            try bench.link("/same", to: "log")
            bench.look(at: ["/log", "/same"])
            try bench.append("/log/a")
            #expect(bench.read() == ["/log/a", "/same/a"])
            bench.look(at: ["/same"])
            try bench.append("/log/a")
            #expect(bench.read() == ["/same/a"])
        }
    }
#endif
