/// The seam between Waybill and the disk, the clock and randomness.
///
/// Every file call of every module goes through ``FileSystem``: the real one is ``POSIXFileSystem``, tests and the
/// simulator supply others that fail, tear and lose writes. One verb is one system call, so that a fault can be
/// injected between any two of them. Nothing here retries, buffers or logs; only `EINTR` is hidden.
///
///     write → synchronize → (new name: synchronizeDirectory)      how bytes become durable
///     write temporary → synchronize → rename → synchronizeDirectory   how a file is replaced

/// An open file; valid until ``FileSystem/close(_:)``.
package struct FileID: Hashable, Sendable {
    package let rawValue: Int32

    package init(rawValue: Int32) {
        self.rawValue = rawValue
    }
}

/// Distinguishes two files on one machine for as long as both exist.
package struct FileIdentity: Hashable, Sendable {
    package let device: UInt64
    package let inode: UInt64

    package init(device: UInt64, inode: UInt64) {
        self.device = device
        self.inode = inode
    }
}

/// The kind of file at a path.
package enum FileKind: Hashable, Sendable {
    case regular
    case directory
    /// A symbolic link, where it was not followed.
    case link
    /// A socket, pipe, device or anything else that is never tailed.
    case other
}

/// A file's attributes at one instant.
package struct FileStatus: Hashable, Sendable {
    package let identity: FileIdentity
    package let kind: FileKind
    package let byteCount: Int
    /// Nanoseconds since 1970.
    package let modified: Int64
    /// Nanoseconds since 1970 at which the file was created.
    ///
    /// 0 if unknown; known for open files only.
    package let birth: Int64
    /// The permission bits, which are the twelve lowest bits of its mode; 0 if unknown.
    package let permissions: UInt16
    /// The ids of the user and the group that own it.
    package let owner: UInt32
    package let group: UInt32
    /// How many names it has.
    package let linkCount: Int

    package init(
        identity: FileIdentity, kind: FileKind, byteCount: Int, modified: Int64, birth: Int64, permissions: UInt16 = 0,
        owner: UInt32 = 0, group: UInt32 = 0, linkCount: Int = 1
    ) {
        self.identity = identity
        self.kind = kind
        self.byteCount = byteCount
        self.modified = modified
        self.birth = birth
        self.permissions = permissions
        self.owner = owner
        self.group = group
        self.linkCount = linkCount
    }
}

/// How a file is opened.
package enum OpenMode: Hashable, Sendable {
    /// For reading; it must exist.
    case read
    /// For reading at any offset and writing at the end; created when missing.
    case append
    /// Like ``append``, but it must not exist yet.
    case appendNew
    /// Like ``append``, but existing content is deleted.
    case replace
    /// A folder itself, for the calls that take an open folder; not through a link in the path's last component.
    case folder
}

/// How a file is locked, across processes, until it is closed or the process dies.
package enum LockMode: Hashable, Sendable {
    case shared
    case exclusive
}

/// The space on the file system that holds a path.
package struct DiskSpace: Hashable, Sendable {
    package let freeByteCount: Int
    package let totalByteCount: Int

    package init(freeByteCount: Int, totalByteCount: Int) {
        self.freeByteCount = freeByteCount
        self.totalByteCount = totalByteCount
    }
}

/// The file calls that Waybill makes, one verb for each.
package protocol FileSystem: Sendable {
    func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> FileID
    func close(_ file: FileID)
    /// Reads into `buffer` from `offset` on; may be short, 0 at the end of the file.
    func read(
        _ file: FileID, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(FileSystemError) -> Int
    /// Where the bytes begin that were written at or after `offset` (`SEEK_DATA`): everything before it is a hole, and reads
    /// as NULs; `nil` when nothing follows but a hole, or the end of the file.
    ///
    /// A file system that knows no holes, or that keeps written NULs, returns `offset`.
    func seekData(_ file: FileID, from offset: Int) throws(FileSystemError) -> Int?
    /// Appends with one `write(2)`; may be short, never 0 unless `bytes` is empty.
    func write(_ file: FileID, _ bytes: UnsafeRawBufferPointer) throws(FileSystemError) -> Int
    /// Appends with one `writev(2)`; may be short.
    func write(_ file: FileID, vector: [UnsafeRawBufferPointer]) throws(FileSystemError) -> Int
    /// Returns once the file's bytes and length are durable (`fdatasync(2)`).
    func synchronize(_ file: FileID) throws(FileSystemError)
    /// Returns once everything on the file system of an open folder is durable, names included (`syncfs(2)`).
    ///
    /// With many files it takes about as long as one ``synchronize(_:)``, unless another process has written much there.
    /// An error is reported once for each open folder, and means that any file may lack bytes.
    ///
    /// - Returns: `false` if this system does not promise that; then nothing was done.
    func synchronizeAll(in folder: FileID) throws(FileSystemError) -> Bool
    func truncate(_ file: FileID, to byteCount: Int) throws(FileSystemError)
    func status(_ file: FileID) throws(FileSystemError) -> FileStatus
    /// Follows symbolic links; `nil` when nothing exists at the path.
    func status(at path: String) throws(FileSystemError) -> FileStatus?
    /// The path without links that leads to the same place; `nil` when nothing exists at the path.
    func realPath(of path: String) throws(FileSystemError) -> String?
    /// Describes a link itself; `nil` when nothing exists at the path.
    func status(ofEntry path: String) throws(FileSystemError) -> FileStatus?
    /// Sets the permission bits of a file or folder (``FileStatus/permissions``).
    func setPermissions(_ permissions: UInt16, of file: FileID) throws(FileSystemError)
    func lock(_ file: FileID, _ mode: LockMode) throws(FileSystemError) -> Bool
    func rename(_ path: String, to newPath: String) throws(FileSystemError)
    /// Swaps the files at two paths atomically.
    func exchange(_ path: String, with otherPath: String) throws(FileSystemError)
    func unlink(_ path: String) throws(FileSystemError)
    /// Creates one directory; does nothing when it exists.
    func createDirectory(_ path: String) throws(FileSystemError)
    func removeDirectory(_ path: String) throws(FileSystemError)
    /// The names in a directory, without `.` and `..`, sorted by their bytes.
    func list(_ path: String) throws(FileSystemError) -> [String]
    /// Returns once the names in a directory are durable.
    func synchronizeDirectory(_ path: String) throws(FileSystemError)
    func space(at path: String) throws(FileSystemError) -> DiskSpace
    /// Whether a path lies in a file system that others may use, whose locks are not seen here: a network's, or FUSE.
    func isShared(at path: String) -> Bool
    /// Whether a process has a file open for writing, as far as the system tells: `file` is open for reading alone.
    func isWritten(_ file: FileID) -> Bool
    /// Opens a file below an open folder for reading; follows no link, neither to the file nor on the way to it.
    func open(_ path: String, in folder: FileID) throws(FileSystemError) -> FileID
    /// Describes the entry of an open folder, a link itself; `nil` when there is none.
    func status(of name: String, in folder: FileID) throws(FileSystemError) -> FileStatus?
    func rename(_ name: String, to newName: String, in folder: FileID) throws(FileSystemError)
    func unlink(_ name: String, in folder: FileID) throws(FileSystemError)
}

extension FileSystem {
    /// Of a file system without links.
    package func realPath(of path: String) throws(FileSystemError) -> String? {
        try self.status(at: path) == nil ? nil : path
    }
}

/// A failed file call: the operation, the path and the cause.
package struct FileSystemError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The verb's name in ``FileSystem``.
    package let operation: String
    package let path: String
    package let errno: Int32
    /// What is wrong, if a number does not say it.
    package let detail: String?

    package init(_ operation: String, path: String, errno: Int32, detail: String? = nil) {
        self.operation = operation
        self.path = path
        self.errno = errno
        self.detail = detail
    }

    /// Why there is nothing at a path whose name was listed; `nil` if it is only gone.
    ///
    /// Bytes of a name that are not UTF-8 are read as U+FFFD, under which there is no file.
    package init?(absent path: String) {
        guard path.unicodeScalars.contains("\u{FFFD}") else { return nil }
        self.init("open", path: path, errno: Errno.notText, detail: "its name is not UTF-8")
    }

    /// The kind of failure.
    package var code: Code {
        Code(errno: self.errno)
    }

    /// Whether there is no space left on the file system or in this user's quota.
    package var isDiskFull: Bool {
        self.code == .diskFull
    }

    package var description: String {
        "\(self.operation) \(self.path): \(self.detail ?? Errno.message(self.errno)) (\(self.code)); \(self.remedy)"
    }
}

extension FileSystem {
    package func isShared(at path: String) -> Bool { false }
    package func isWritten(_ file: FileID) -> Bool { false }

    /// Appends all of `bytes`, in as many calls as it takes.
    package func writeAll(_ file: FileID, _ bytes: UnsafeRawBufferPointer) throws(FileSystemError) {
        var rest = bytes
        while !rest.isEmpty {
            let count = try self.write(file, rest)
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
    }

    /// Appends all of `vector`, in as many calls as it takes.
    package func writeAll(_ file: FileID, vector: [UnsafeRawBufferPointer]) throws(FileSystemError) {
        var rest = vector[...]
        while true {
            while let first = rest.first, first.isEmpty { rest.removeFirst() }
            guard !rest.isEmpty else { return }
            // IOV_MAX is 1024 on every supported platform.
            var count = try self.write(file, vector: Array(rest.prefix(1024)))
            while let first = rest.first, count >= first.count {
                count -= first.count
                rest.removeFirst()
            }
            if count > 0, let first = rest.first {
                rest[rest.startIndex] = UnsafeRawBufferPointer(rebasing: first[count...])
            }
        }
    }

    /// Fills `buffer` from `offset` on; returns fewer bytes than requested only at the end of the file.
    package func readFully(
        _ file: FileID, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(FileSystemError) -> Int {
        var filled = 0
        while filled < buffer.count {
            let count = try self.read(
                file, at: offset + filled, into: UnsafeMutableRawBufferPointer(rebasing: buffer[filled...]))
            guard count > 0 else { break }
            filled += count
        }
        return filled
    }

    /// Fills an array from `offset` on; returns fewer bytes than its count only at the end of the file.
    package func readFully(
        _ file: FileID, at offset: Int, into bytes: inout [UInt8]
    ) throws(FileSystemError) -> Int {
        try bytes.withMutableBytes { (buffer) throws(FileSystemError) in
            try self.readFully(file, at: offset, into: buffer)
        }
    }

    /// The content of a small file; `nil` when it does not exist.
    ///
    /// - Parameter byteCountMax: of a longer file, only this many bytes are read.
    package func contents(of path: String, byteCountMax: Int = 64 << 20) throws(FileSystemError) -> [UInt8]? {
        guard let status = try self.status(at: path), status.kind == .regular else { return nil }
        let file = try self.open(path, .read)
        defer { self.close(file) }
        var bytes = [UInt8](repeating: 0, count: min(status.byteCount, byteCountMax))
        bytes.removeLast(bytes.count - (try self.readFully(file, at: 0, into: &bytes)))
        return bytes
    }

    /// Replaces a small file so that a crash leaves either the old bytes or the new ones.
    package func replace(_ path: String, with bytes: [UInt8]) throws(FileSystemError) {
        let temporary = path + ".tmp"
        let file = try self.open(temporary, .replace)
        do {
            defer { self.close(file) }
            try self.writeAll(file, bytes)
            try self.synchronize(file)
        }
        try self.rename(temporary, to: path)
        try self.synchronizeDirectory(Path.parent(of: path))
    }

    /// Deletes a folder and everything in it; does nothing when it does not exist.
    ///
    /// A link is deleted, and what it leads to stays.
    package func removeTree(_ path: String) throws(FileSystemError) {
        guard let status = try self.status(ofEntry: path) else { return }
        guard status.kind == .directory else { return try self.unlink(path) }
        for name in try self.list(path) { try self.removeTree(Path.join(path, name)) }
        try self.removeDirectory(path)
    }

    /// Removes all other permissions from a folder.
    ///
    /// - Returns: the permissions that it had; `nil` if there were no others, or if the folder does not exist.
    package func narrowFolder(_ path: String, to permissions: UInt16) throws(FileSystemError) -> UInt16? {
        guard let found = try self.status(at: path), found.permissions & 0o777 & ~permissions != 0 else { return nil }
        let folder = try self.open(path, .read)
        defer { self.close(folder) }
        let status = try self.status(folder)
        try self.setPermissions(status.permissions & (permissions | 0o7000), of: folder)
        return status.permissions
    }

    /// Takes the permissions from a copy that its source does not have.
    package func narrow(_ copy: FileID, like source: FileID) throws(FileSystemError) {
        let (wanted, present) = (try self.status(source).permissions, try self.status(copy).permissions)
        // The writer itself must be able to read and write it.
        let narrowed = present & (wanted | 0o600)
        if narrowed != present { try self.setPermissions(narrowed, of: copy) }
    }

    /// Creates a directory and its missing parents; all their names are durable when this returns, even if the
    /// directory existed before.
    package func createDirectories(_ path: String) throws(FileSystemError) {
        if let status = try self.status(at: path) {
            guard status.kind == .directory else {
                throw FileSystemError(
                    "createDirectory", path: path, errno: status.kind == .link ? Errno.link : Errno.notADirectory)
            }
            return try self.settleName(of: path)
        }
        let parent = Path.parent(of: path)
        try self.createDirectories(parent)
        try self.createDirectory(path)
        try self.synchronizeDirectory(parent)
    }

    /// Makes the name of an existing directory durable.
    ///
    /// The process that created it may have died before the sync; the names above it were durable before it was
    /// created.
    private func settleName(of path: String) throws(FileSystemError) {
        let parent = Path.parent(of: path)
        guard parent != path else { return }
        do throws(FileSystemError) {
            try self.synchronizeDirectory(parent)
        } catch {
            // We cannot have created a name in a folder that this user may not open, or that does not support sync.
            if error.errno == Errno.inputOutput || error.isDiskFull { throw error }
        }
    }
}

/// Paths as text: no normalisation, no disk.
///
/// They are bytes to the system, and so they are here: a combining mark after a slash hides it from Swift's characters,
/// and strings that differ in their bytes are equal.
package enum Path {
    package static func isAbsolute(_ path: String) -> Bool {
        path.utf8.first == UInt8(ascii: "/")
    }

    /// What is between the slashes, without empty ones.
    package static func components(of path: String) -> [Substring] {
        path.utf8.split(separator: UInt8(ascii: "/")).map { Substring($0) }
    }

    /// Everything before the last component; `/` or `.` when nothing is left.
    package static func parent(of path: String) -> String {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// The last component.
    package static func name(of path: String) -> String {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return path }
        return String(path[path.utf8.index(after: slash)...])
    }

    /// `directory/name`.
    package static func join(_ directory: String, _ name: String) -> String {
        directory.utf8.last == UInt8(ascii: "/") ? directory + name : directory + "/" + name
    }
}

/// A path or a name as a key: equal if the bytes are.
package struct PathKey: Hashable, Sendable {
    package let text: String

    package init(_ text: String) {
        self.text = text
    }

    package static func == (left: Self, right: Self) -> Bool {
        left.text.utf8.elementsEqual(right.text.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        var text = self.text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        hasher.combine(0xFF as UInt8)
    }
}

/// A failure that a ``FileSystem`` may be the cause of.
package protocol DiskFailure: Error {
    static func disk(_ error: FileSystemError) -> Self
}

extension DiskFailure {
    /// What `body` returns; its error as one of this type.
    package static func withDisk<Answer: ~Copyable>(
        _ body: () throws(FileSystemError) -> Answer
    ) throws(Self) -> Answer {
        do throws(FileSystemError) {
            return try body()
        } catch {
            throw .disk(error)
        }
    }

    /// What the expression gives; its error as one of this type.
    package static func onDisk<Answer: ~Copyable>(
        _ body: @autoclosure () throws(FileSystemError) -> Answer
    ) throws(Self) -> Answer {
        try Self.withDisk { () throws(FileSystemError) in try body() }
    }
}
