import Testing
import WaybillSystem
import WaybillTestSupport

/// Permissions and links on the operating system's files.
///
/// The mask is the process's, so that end-to-end tests vary it.
struct PermissionTests {
    private func permissions(of path: String) throws -> UInt16 {
        try #require(try POSIXFileSystem().status(at: path)).permissions
    }

    private func write(_ path: String, _ text: String, _ files: POSIXFileSystem = POSIXFileSystem()) throws {
        let file = try files.open(path, .append)
        defer { files.close(file) }
        try files.writeAll(file, Array(text.utf8))
    }

    @Test(arguments: [
        (FilePermissions.data, UInt16(0o640), UInt16(0o750)), (.state, 0o600, 0o700), (.spool, 0o640, 0o750),
    ])
    func `what is created has the permissions of its kind`(
        permissions: FilePermissions, file: UInt16, folder: UInt16
    ) throws {
        try withFolder { root in
            let files = POSIXFileSystem(permissions)
            try files.createDirectories(root + "/a/b")
            for mode in [OpenMode.append, .appendNew, .replace] {
                files.close(try files.open(root + "/a/b/\(mode)", mode))
                #expect(try self.permissions(of: root + "/a/b/\(mode)") == file)
            }
            try files.replace(root + "/a/state", with: [1])
            #expect(try self.permissions(of: root + "/a/state") == file)
            #expect(try self.permissions(of: root + "/a") == folder)
            #expect(try self.permissions(of: root + "/a/b") == folder)
        }
    }

    @Test func `what exists keeps its permissions, and a set-group-ID bit is inherited`() throws {
        try withFolder { root in
            let files = POSIXFileSystem(.data)
            try self.write(root + "/old", "1")
            let folder = try files.open(root, .folder)
            defer { files.close(folder) }
            try files.setPermissions(0o2751, of: folder)
            let old = try files.open(root + "/old", .append)
            defer { files.close(old) }
            try files.setPermissions(0o604, of: old)
            files.close(try files.open(root + "/old", .append))
            files.close(try files.open(root + "/old", .replace))
            try files.createDirectory(root + "/new")
            try files.createDirectory(root)
            #expect(try self.permissions(of: root + "/old") == 0o604)
            #expect(try self.permissions(of: root) == 0o2751)
            #expect(try self.permissions(of: root + "/new") == 0o2750)
        }
    }

    @Test func `the spool of a group has the group, and its members write to the folder`() throws {
        try withFolder { root in
            let own = try #require(try POSIXFileSystem().status(at: root)).group
            // Any group will do for root; others can only give their own.
            let id = try #require(try POSIXFileSystem().status(at: root)).owner == 0 ? own + 12_345 : own
            let group = try #require(UserGroup(named: "\(id)"))
            let files = POSIXFileSystem(.spool(sharedBy: group))
            try files.createDirectories(root + "/spool")
            files.close(try files.open(root + "/spool/segment", .appendNew))
            for (name, wanted) in [("/spool", UInt16(0o2770)), ("/spool/segment", 0o640)] {
                let status = try #require(try files.status(at: root + name))
                #expect(status.permissions == wanted)
                #expect(status.group == group.id)
            }
            try POSIXFileSystem().createDirectory(root + "/private")
            try files.share(root + "/private")
            #expect(try self.permissions(of: root + "/private") == 0o2770)
            #expect(try files.status(at: root + "/private")?.group == group.id)
        }
    }

    @Test func `permissions are only taken away`() throws {
        try withFolder { root in
            let files = POSIXFileSystem(.data)
            try POSIXFileSystem(.data).createDirectory(root + "/folder")
            #expect(try files.narrowFolder(root + "/folder", to: 0o770) == nil)
            #expect(try files.narrowFolder(root + "/missing", to: 0o770) == nil)
            #expect(try files.narrowFolder(root + "/folder", to: 0o700) == 0o750)
            #expect(try self.permissions(of: root + "/folder") == 0o700)
            for (source, wanted) in [(UInt16(0o600), UInt16(0o600)), (0o444, 0o640), (0o666, 0o640)] {
                let original = try files.open(root + "/original", .replace)
                let copy = try files.open(root + "/copy-\(source)", .replace)
                defer { for file in [original, copy] { files.close(file) } }
                try files.setPermissions(source, of: original)
                try files.narrow(copy, like: original)
                #expect(try files.status(copy).permissions == wanted)
            }
        }
    }

    // MARK: Links

    @Test func `nothing is written through a link`() throws {
        try withFolder { root in
            try self.write(root + "/target", "kept")
            try makeLink(root + "/link", to: root + "/target")
            try makeLink(root + "/dangling", to: root + "/missing")
            for permissions in [FilePermissions.data, .state, .spool] {
                let files = POSIXFileSystem(permissions)
                for mode in [OpenMode.append, .replace] {
                    for name in ["/link", "/dangling"] {
                        #expect(throws: FileSystemError("open", path: root + name, errno: Errno.link)) {
                            files.close(try files.open(root + name, mode))
                        }
                    }
                }
            }
            #expect(try POSIXFileSystem().contents(of: root + "/target") == Array("kept".utf8))
            #expect(try POSIXFileSystem().status(at: root + "/missing") == nil)
        }
    }

    @Test func `an open folder leads to no other one`() throws {
        try withFolder { root in
            let files = POSIXFileSystem()
            try files.createDirectories(root + "/spool/deep/deeper")
            try self.write(root + "/spool/deep/deeper/file", "text")
            try makeLink(root + "/linked", to: root + "/spool")
            try makeLink(root + "/spool/way", to: root + "/spool/deep")
            try makeLink(root + "/spool/link", to: root + "/spool/deep/deeper/file")
            #expect(throws: FileSystemError("open", path: root + "/linked", errno: Errno.link)) {
                files.close(try files.open(root + "/linked", .folder))
            }
            #expect(throws: FileSystemError.self) {
                files.close(try files.open(root + "/spool/deep/deeper/file", .folder))
            }
            let folder = try files.open(root + "/spool", .folder)
            defer { files.close(folder) }
            let file = try files.open("deep/deeper/file", in: folder)
            #expect(try files.status(file).byteCount == 4)
            files.close(file)
            for (path, errno) in [
                ("link", Errno.link), ("way/deeper/file", Errno.link), ("deep/none", Errno.noEntry),
                ("deep/deeper/file/none", Errno.notADirectory),
            ] {
                #expect(throws: FileSystemError("open", path: root + "/spool/" + path, errno: errno)) {
                    files.close(try files.open(path, in: folder))
                }
            }
            #expect(throws: FileSystemError.self) { files.close(try files.open("../spool/deep", in: folder)) }
            #expect(try files.status(of: "link", in: folder)?.kind == .link)
            #expect(try files.status(of: "none", in: folder) == nil)
            try files.rename("link", to: "renamed", in: folder)
            try files.unlink("renamed", in: folder)
            #expect(try files.list(root + "/spool") == ["deep", "way"])
            #expect(try files.contents(of: root + "/spool/deep/deeper/file") == Array("text".utf8))
        }
    }

    @Test func `no call follows a link inside a data directory, but its own folders may be links`() throws {
        try withFolder { root in
            let outside = root + "/outside"
            let plain = POSIXFileSystem()
            try plain.createDirectories(outside + "/day")
            try plain.createDirectories(root + "/disk/app")
            try self.write(outside + "/day/file", "text")
            try plain.createDirectory(root + "/data")
            try makeLink(root + "/data/exports", to: root + "/disk")
            try makeLink(root + "/disk/day", to: outside + "/day")
            try makeLink(root + "/disk/app/file", to: outside + "/day/file")
            let files = POSIXFileSystem(.data, dataDirectory: root + "/data")
            let (day, file) = (root + "/data/exports/day", root + "/data/exports/app/file")

            try self.write(root + "/data/exports/app/good", "good", files)
            #expect(try files.list(root + "/data/exports") == ["app", "day"])
            #expect(try files.list(root + "/data/exports/app") == ["file", "good"])
            #expect(try files.status(at: root + "/data/exports/app/good")?.byteCount == 4)
            #expect(try files.status(at: day)?.kind == .link)
            #expect(try files.status(at: file)?.kind == .link)
            #expect(try files.contents(of: file) == nil)

            func refuses(_ what: String, _ call: () throws -> Void) {
                let error = #expect(throws: FileSystemError.self, "\(what)") { try call() }
                #expect(error?.errno == Errno.link, "\(what)")
            }
            refuses("status") { _ = try files.status(at: day + "/file") }
            for mode in [OpenMode.read, .append, .appendNew, .replace] {
                refuses("open below") { files.close(try files.open(day + "/new", mode)) }
            }
            for mode in [OpenMode.read, .append, .replace] {
                refuses("open") { files.close(try files.open(file, mode)) }
            }
            refuses("list") { _ = try files.list(day) }
            refuses("sync") { try files.synchronizeDirectory(day) }
            refuses("create") { try files.createDirectory(day + "/new") }
            refuses("create with parents") { try files.createDirectories(day) }
            refuses("rename") { try files.rename(root + "/data/exports/app/good", to: day + "/good") }
            refuses("unlink") { try files.unlink(day + "/file") }
            refuses("remove") { try files.removeDirectory(day + "/new") }
            refuses("exchange") { try files.exchange(day + "/file", with: root + "/data/exports/app/good") }

            try files.removeTree(day)
            #expect(try plain.list(outside + "/day") == ["file"])
            #expect(try plain.list(root + "/disk") == ["app"])
        }
    }
}
