internal import CWaybillSystem

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// The operating system's files.
package struct POSIXFileSystem: FileSystem {
    package init() {}

    package func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> FileID {
        let flags: Int32 =
            switch mode {
            case .read: O_RDONLY | O_NONBLOCK  // A pipe in a tailed folder must not block the open.
            case .append: O_RDWR | O_APPEND | O_CREAT
            case .appendNew: O_RDWR | O_APPEND | O_CREAT | O_EXCL
            case .replace: O_RDWR | O_APPEND | O_CREAT | O_TRUNC
            }
        while true {
            #if canImport(Glibc)
                let descriptor = Glibc.open(path, flags | O_CLOEXEC, 0o644)
            #else
                let descriptor = Darwin.open(path, flags | O_CLOEXEC, 0o644)
            #endif
            if descriptor >= 0 { return FileID(rawValue: descriptor) }
            if errno != EINTR { throw FileSystemError("open", path: path, errno: errno) }
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

    package func truncate(_ file: FileID, to byteCount: Int) throws(FileSystemError) {
        _ = try self.retry("truncate", file) { Int(ftruncate(file.rawValue, off_t(byteCount))) }
    }

    package func status(_ file: FileID) throws(FileSystemError) -> FileStatus {
        var status = stat()
        _ = try self.retry("status", file) { Int(fstat(file.rawValue, &status)) }
        return FileStatus(status, birth: waybill_birth_time(file.rawValue))
    }

    package func status(at path: String) throws(FileSystemError) -> FileStatus? {
        var status = stat()
        guard stat(path, &status) == 0 else {
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
        #if canImport(Glibc)
            let result = Glibc.rename(path, newPath)
        #else
            let result = Darwin.rename(path, newPath)
        #endif
        if result != 0 { throw FileSystemError("rename", path: path, errno: errno) }
    }

    package func exchange(_ path: String, with otherPath: String) throws(FileSystemError) {
        if waybill_exchange(path, otherPath) != 0 { throw FileSystemError("exchange", path: path, errno: errno) }
    }

    package func unlink(_ path: String) throws(FileSystemError) {
        #if canImport(Glibc)
            let result = Glibc.unlink(path)
        #else
            let result = Darwin.unlink(path)
        #endif
        if result != 0 { throw FileSystemError("unlink", path: path, errno: errno) }
    }

    package func createDirectory(_ path: String) throws(FileSystemError) {
        if mkdir(path, 0o755) != 0, errno != EEXIST {
            throw FileSystemError("createDirectory", path: path, errno: errno)
        }
    }

    package func removeDirectory(_ path: String) throws(FileSystemError) {
        if rmdir(path) != 0 { throw FileSystemError("removeDirectory", path: path, errno: errno) }
    }

    package func list(_ path: String) throws(FileSystemError) -> [String] {
        guard let directory = opendir(path) else { throw FileSystemError("list", path: path, errno: errno) }
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
            birth: birth, permissions: UInt16(truncatingIfNeeded: status.st_mode & 0o777))
    }
}
