internal import CWaybillSystem

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// The operating system's files.
///
/// What it creates has its ``FilePermissions``. With a data directory, no link below that directory's own folders is
/// followed: `data/exports` may be a link to another disk, `data/exports/csv` may not. Such a call fails with `ELOOP`.
package struct POSIXFileSystem: FileSystem {
    private let permissions: FilePermissions
    /// The data directory, with a slash at its end; empty without one.
    private let data: String

    package init(_ permissions: FilePermissions = .usual, dataDirectory: String = "") {
        self.permissions = permissions
        self.data = dataDirectory.isEmpty || dataDirectory.hasSuffix("/") ? dataDirectory : dataDirectory + "/"
    }

    package func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> FileID {
        if mode == .folder {
            return try self.opened(path) { waybill_open_folder(AT_FDCWD, path) }
        }
        let place = try Place(path, below: self.data, "open")
        if mode == .read {
            // A pipe in a tailed folder must not block the open.
            let flags = O_RDONLY | O_NONBLOCK | (place.isBelowData ? O_NOFOLLOW : 0)
            return try self.opened(path) { openat(place.folder, place.path, flags | O_CLOEXEC) }
        }
        let flags = O_RDWR | O_APPEND | O_CLOEXEC | (mode == .replace ? O_TRUNC : 0)
        if self.permissions.followsLinks, !place.isBelowData {
            let creation = O_CREAT | (mode == .appendNew ? O_EXCL : 0)
            return try self.opened(path) {
                openat(place.folder, place.path, flags | creation, mode_t(self.permissions.file))
            }
        }
        while true {
            do throws(FileSystemError) {
                if mode == .appendNew { return try self.create(place, path, flags) }
                return try self.opened(path) { openat(place.folder, place.path, flags | O_NOFOLLOW) }
            } catch  where mode != .appendNew && error.errno == ENOENT {
                do throws(FileSystemError) {
                    return try self.create(place, path, flags)
                } catch  where error.errno == EEXIST {
                    // Another process has just created it.
                    continue
                }
            }
        }
    }

    private func opened(_ path: String, _ call: () -> Int32) throws(FileSystemError) -> FileID {
        while true {
            let descriptor = call()
            if descriptor >= 0 { return FileID(rawValue: descriptor) }
            if errno != EINTR { throw FileSystemError("open", path: path, errno: errno) }
        }
    }

    // MARK: What is created

    private func create(
        _ place: borrowing Place, _ path: String, _ flags: Int32
    ) throws(FileSystemError) -> FileID {
        let (folder, name) = (place.folder, place.path)
        let file = try self.opened(path) {
            openat(folder, name, flags | O_CREAT | O_EXCL, mode_t(self.permissions.file))
        }
        do throws(FileSystemError) {
            try self.settle(file, self.permissions.file)
        } catch {
            self.close(file)
            _ = unlinkat(folder, name, 0)
            throw FileSystemError(error.operation, path: path, errno: error.errno)
        }
        return file
    }

    package func createDirectory(_ path: String) throws(FileSystemError) {
        let place = try Place(path, below: self.data, "createDirectory")
        guard mkdirat(place.folder, place.path, mode_t(self.permissions.folder & 0o777)) == 0 else {
            if errno == EEXIST { return }
            throw FileSystemError("createDirectory", path: path, errno: errno)
        }
        guard !self.permissions.isMasked else { return }
        let folder = try self.opened(path) { waybill_open_folder(place.folder, place.path) }
        defer { self.close(folder) }
        do throws(FileSystemError) {
            try self.settle(folder, self.permissions.folder)
        } catch {
            _ = unlinkat(place.folder, place.path, AT_REMOVEDIR)
            throw FileSystemError(error.operation, path: path, errno: error.errno)
        }
    }

    /// Gives a new file or folder its group and its permissions, which the mask or the folder above may have changed.
    private func settle(_ file: FileID, _ wanted: UInt16) throws(FileSystemError) {
        guard !self.permissions.isMasked else { return }
        let status = try self.status(file)
        if let group = self.permissions.group, group.id != status.group {
            _ = try self.retry("setGroup", file) { Int(fchown(file.rawValue, uid_t.max, gid_t(group.id))) }
        }
        let permissions = wanted | status.permissions & UInt16(S_ISGID)
        if permissions != status.permissions { try self.setPermissions(permissions, of: file) }
    }

    /// Gives an existing folder the group and the permissions that a new one would get, where it has others.
    package func share(_ path: String) throws(FileSystemError) {
        let folder = try self.open(path, .read)
        defer { self.close(folder) }
        let status = try self.status(folder)
        guard status.group != self.permissions.group?.id || status.permissions != self.permissions.folder else {
            return
        }
        try self.settle(folder, self.permissions.folder)
    }

    package func setPermissions(_ permissions: UInt16, of file: FileID) throws(FileSystemError) {
        _ = try self.retry("setPermissions", file) { Int(fchmod(file.rawValue, mode_t(permissions))) }
    }

    /// Sets the permissions of what cannot be opened, such as a socket.
    package func setPermissions(_ permissions: UInt16, at path: String) throws(FileSystemError) {
        guard chmod(path, mode_t(permissions)) == 0 else {
            throw FileSystemError("setPermissions", path: path, errno: errno)
        }
    }

    package func setGroup(_ group: UserGroup, at path: String) throws(FileSystemError) {
        guard chown(path, uid_t.max, gid_t(group.id)) == 0 else {
            throw FileSystemError("setGroup", path: path, errno: errno)
        }
    }

    package func close(_ file: FileID) {
        #if canImport(Glibc)
            _ = Glibc.close(file.rawValue)
        #else
            _ = Darwin.close(file.rawValue)
        #endif
    }

    package func read(
        _ file: FileID, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(FileSystemError) -> Int {
        try self.retry("read", file) { pread(file.rawValue, buffer.baseAddress, buffer.count, off_t(offset)) }
    }

    package func seekData(_ file: FileID, from offset: Int) throws(FileSystemError) -> Int? {
        let data = waybill_seek_data(file.rawValue, Int64(offset))
        if data >= 0 { return Int(data) }
        switch errno {
        case ENXIO: return nil
        // It knows no holes.
        case EINVAL, ENOTSUP: return try self.status(file).byteCount > offset ? offset : nil
        default: throw self.failure("seekData", file, errno)
        }
    }

    package func write(_ file: FileID, _ bytes: UnsafeRawBufferPointer) throws(FileSystemError) -> Int {
        while true {
            #if canImport(Glibc)
                let count = Glibc.write(file.rawValue, bytes.baseAddress, bytes.count)
            #else
                let count = Darwin.write(file.rawValue, bytes.baseAddress, bytes.count)
            #endif
            if count >= 0 { return count }
            if errno != EINTR { throw self.failure("write", file, errno) }
        }
    }

    package func write(_ file: FileID, vector: [UnsafeRawBufferPointer]) throws(FileSystemError) -> Int {
        let vectors = vector.map {
            iovec(iov_base: UnsafeMutableRawPointer(mutating: $0.baseAddress), iov_len: $0.count)
        }
        return try self.retry("write", file) { writev(file.rawValue, vectors, Int32(vectors.count)) }
    }

    package func synchronize(_ file: FileID) throws(FileSystemError) {
        _ = try self.retry("synchronize", file) {
            #if canImport(Glibc)
                Int(fdatasync(file.rawValue))
            #else
                Int(fcntl(file.rawValue, F_FULLFSYNC))
            #endif
        }
    }

    package func synchronizeAll(in folder: FileID) throws(FileSystemError) -> Bool {
        try self.retry("synchronizeAll", folder) { Int(waybill_sync_all(folder.rawValue)) } == 1
    }

    package func truncate(_ file: FileID, to byteCount: Int) throws(FileSystemError) {
        _ = try self.retry("truncate", file) { Int(ftruncate(file.rawValue, off_t(byteCount))) }
    }

    package func status(_ file: FileID) throws(FileSystemError) -> FileStatus {
        var status = stat()
        _ = try self.retry("status", file) { Int(fstat(file.rawValue, &status)) }
        return FileStatus(status, birth: waybill_birth_time(file.rawValue))
    }

    package func status(at path: String) throws(FileSystemError) -> FileStatus? {
        try self.status(at: path, flags: 0)
    }

    package func realPath(of path: String) throws(FileSystemError) -> String? {
        guard let found = realpath(path, nil) else {
            guard errno != ENOENT, errno != ENOTDIR else { return nil }
            throw FileSystemError("realPath", path: path, errno: errno)
        }
        defer { free(found) }
        return String(cString: found)
    }

    package func status(ofEntry path: String) throws(FileSystemError) -> FileStatus? {
        try self.status(at: path, flags: AT_SYMLINK_NOFOLLOW)
    }

    private func status(at path: String, flags: Int32) throws(FileSystemError) -> FileStatus? {
        do throws(FileSystemError) {
            let place = try Place(path, below: self.data, "status")
            return try Self.status(
                of: place.path, in: place.folder, flags: place.isBelowData ? AT_SYMLINK_NOFOLLOW : flags)
        } catch  where error.errno == ENOENT || error.errno == ENOTDIR {
            return nil
        } catch {
            throw FileSystemError("status", path: path, errno: error.errno)
        }
    }

    private static func status(
        of path: String, in folder: Int32, flags: Int32
    ) throws(FileSystemError) -> FileStatus? {
        var status = stat()
        guard fstatat(folder, path, &status, flags) == 0 else {
            if errno == ENOENT || errno == ENOTDIR { return nil }
            throw FileSystemError("status", path: path, errno: errno)
        }
        return FileStatus(status, birth: 0)
    }

    package func lock(_ file: FileID, _ mode: LockMode) throws(FileSystemError) -> Bool {
        let operation = mode == .shared ? LOCK_SH : LOCK_EX
        while flock(file.rawValue, operation | LOCK_NB) != 0 {
            if errno == EWOULDBLOCK { return false }
            if errno != EINTR { throw FileSystemError("lock", path: self.path(of: file), errno: errno) }
        }
        return true
    }

    package func rename(_ path: String, to newPath: String) throws(FileSystemError) {
        let from = try Place(path, below: self.data, "rename")
        let to = try Place(newPath, below: self.data, "rename")
        guard renameat(from.folder, from.path, to.folder, to.path) == 0 else {
            throw FileSystemError("rename", path: path, errno: errno)
        }
    }

    package func exchange(_ path: String, with otherPath: String) throws(FileSystemError) {
        let first = try Place(path, below: self.data, "exchange")
        let second = try Place(otherPath, below: self.data, "exchange")
        guard waybill_exchange(first.folder, first.path, second.folder, second.path) == 0 else {
            throw FileSystemError("exchange", path: path, errno: errno)
        }
    }

    package func unlink(_ path: String) throws(FileSystemError) {
        let place = try Place(path, below: self.data, "unlink")
        guard unlinkat(place.folder, place.path, 0) == 0 else {
            throw FileSystemError("unlink", path: path, errno: errno)
        }
    }

    package func removeDirectory(_ path: String) throws(FileSystemError) {
        let place = try Place(path, below: self.data, "removeDirectory")
        guard unlinkat(place.folder, place.path, AT_REMOVEDIR) == 0 else {
            throw FileSystemError("removeDirectory", path: path, errno: errno)
        }
    }

    package func list(_ path: String) throws(FileSystemError) -> [String] {
        guard let directory = try self.openDirectory(path) else {
            throw FileSystemError("list", path: path, errno: errno)
        }
        defer { closedir(directory) }
        var names: [String] = []
        errno = 0
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != ".", name != ".." { names.append(name) }
            errno = 0
        }
        if errno != 0 { throw FileSystemError("list", path: path, errno: errno) }
        return names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }

    #if canImport(Glibc)
        private typealias DirectoryStream = OpaquePointer
    #else
        private typealias DirectoryStream = UnsafeMutablePointer<DIR>
    #endif

    /// `nil` with `errno` set if it cannot be opened.
    private func openDirectory(_ path: String) throws(FileSystemError) -> DirectoryStream? {
        let place = try Place(path, below: self.data, "list")
        guard place.isBelowData else { return opendir(path) }
        let descriptor = waybill_open_folder(place.folder, place.path)
        return descriptor < 0 ? nil : fdopendir(descriptor)
    }

    package func synchronizeDirectory(_ path: String) throws(FileSystemError) {
        let directory = try self.open(path, .read)
        defer { self.close(directory) }
        while fsync(directory.rawValue) != 0 {
            if errno != EINTR { throw FileSystemError("synchronizeDirectory", path: path, errno: errno) }
        }
    }

    package func space(at path: String) throws(FileSystemError) -> DiskSpace {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { throw FileSystemError("space", path: path, errno: errno) }
        return DiskSpace(
            freeByteCount: Int(status.f_bavail) * Int(status.f_frsize),
            totalByteCount: Int(status.f_blocks) * Int(status.f_frsize))
    }

    package func isShared(at path: String) -> Bool { FileSystemType.isShared(at: path) }

    package func isWritten(_ file: FileID) -> Bool { waybill_is_written(file.rawValue) != 0 }

    // MARK: In an open folder

    package func open(_ path: String, in folder: FileID) throws(FileSystemError) -> FileID {
        let descriptor = waybill_open_below(folder.rawValue, path, O_RDONLY | O_NONBLOCK)
        if descriptor >= 0 { return FileID(rawValue: descriptor) }
        throw self.failure("open", path, in: folder, errno)
    }

    package func status(of name: String, in folder: FileID) throws(FileSystemError) -> FileStatus? {
        do throws(FileSystemError) {
            return try Self.status(of: name, in: folder.rawValue, flags: AT_SYMLINK_NOFOLLOW)
        } catch {
            throw self.failure("status", name, in: folder, error.errno)
        }
    }

    package func rename(_ name: String, to newName: String, in folder: FileID) throws(FileSystemError) {
        if renameat(folder.rawValue, name, folder.rawValue, newName) != 0 {
            throw self.failure("rename", name, in: folder, errno)
        }
    }

    package func unlink(_ name: String, in folder: FileID) throws(FileSystemError) {
        if unlinkat(folder.rawValue, name, 0) != 0 { throw self.failure("unlink", name, in: folder, errno) }
    }

    @inline(never)
    private func failure(_ operation: String, _ name: String, in folder: FileID, _ errno: Int32) -> FileSystemError {
        FileSystemError(operation, path: Path.join(self.path(of: folder), name), errno: errno)
    }

    private func retry(_ operation: String, _ file: FileID, _ call: () -> Int) throws(FileSystemError) -> Int {
        while true {
            let result = call()
            if result >= 0 { return result }
            if errno != EINTR { throw self.failure(operation, file, errno) }
        }
    }

    /// - Parameter errno: read before the file's path, because finding the path makes further calls.
    @inline(never)
    private func failure(_ operation: String, _ file: FileID, _ errno: Int32) -> FileSystemError {
        FileSystemError(operation, path: self.path(of: file), errno: errno)
    }

    /// The path of an open file, for messages.
    private func path(of file: FileID) -> String {
        #if canImport(Glibc)
            var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
            let count = buffer.withUnsafeMutableBytes { bytes in
                bytes.baseAddress.map { readlink("/proc/self/fd/\(file.rawValue)", $0, bytes.count) } ?? 0
            }
            return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : "file \(file.rawValue)"
        #else
            return "file \(file.rawValue)"
        #endif
    }
}

extension FileStatus {
    fileprivate init(_ status: stat, birth: Int64) {
        let kind: FileKind =
            switch status.st_mode & S_IFMT {
            case S_IFREG: .regular
            case S_IFDIR: .directory
            case S_IFLNK: .link
            default: .other
            }
        #if canImport(Glibc)
            let modified = status.st_mtim
        #else
            let modified = status.st_mtimespec
        #endif
        self.init(
            identity: FileIdentity(device: UInt64(status.st_dev), inode: UInt64(status.st_ino)),
            kind: kind,
            byteCount: Int(status.st_size),
            modified: Int64(modified.tv_sec).saturatingProduct(1_000_000_000).saturatingSum(Int64(modified.tv_nsec)),
            birth: birth, permissions: UInt16(truncatingIfNeeded: status.st_mode & 0o7777), owner: status.st_uid,
            group: status.st_gid, linkCount: Int(status.st_nlink))
    }
}
