internal import Synchronization
package import WaybillSystem

/// A disk in memory whose calls fail on demand: the n-th call, whichever it is, or each with a probability.
package final class FaultyFileSystem: FileSystem {
    /// What a call does instead of its work.
    package enum Fault: Hashable, Sendable {
        /// Nothing but the error.
        case error(Int32)
        /// A write stores half of its bytes and says so; the next call works. Other calls: work.
        case half
        /// A write stores half of its bytes and says so; the next call fails. Other calls: the error.
        case short(thenError: Int32)
        /// A write stores half of its bytes and says that it failed. Other calls: the error.
        case dirty(Int32)
    }

    private struct Node {
        var bytes: [UInt8] = []
        var isDirectory = false
        /// By the files that hold it.
        var locks: [Int32: LockMode] = [:]
        var durableByteCount = 0
        var modified: Int64 = 0
    }

    private struct Disk {
        var nodes: [UInt64: Node] = [0: Node(isDirectory: true)]
        var names: [String: UInt64] = ["/": 0]
        var files: [Int32: UInt64] = [:]
        var nextNode: UInt64 = 1
        var nextFile: Int32 = 3
        var callCount = 0
        var openedCount = 0
        var time: Int64 = 0
        var freeByteCount = 1 << 30
        var fault: (Int) -> Fault? = { _ in nil }
        var pending: Fault?
    }

    /// `@unchecked Sendable`: reached through the mutex alone; the closure in it is called under it.
    private final class Box: @unchecked Sendable {
        var disk = Disk()
    }

    private let box = Mutex(Box())

    package init() {}

    // MARK: For tests

    /// Asks `fault` before every call, with the number of the call.
    package func setFaults(_ fault: sending @escaping (Int) -> Fault?) {
        self.box.withLock { $0.disk.fault = fault }
    }

    package func clearFaults() {
        self.box.withLock {
            $0.disk.fault = { _ in nil }
            $0.disk.pending = nil
        }
    }

    package var callCount: Int { self.box.withLock { $0.disk.callCount } }
    package var openCount: Int { self.box.withLock { $0.disk.files.count } }

    package func bytes(_ path: String) -> [UInt8]? {
        self.box.withLock { box in box.disk.names[path].flatMap { box.disk.nodes[$0]?.bytes } }
    }

    package func durableByteCount(_ path: String) -> Int? {
        self.box.withLock { box in box.disk.names[path].flatMap { box.disk.nodes[$0]?.durableByteCount } }
    }

    package func isLocked(_ path: String) -> Bool {
        self.box.withLock { box in
            box.disk.names[path].flatMap { box.disk.nodes[$0]?.locks.isEmpty == false } ?? false
        }
    }

    /// Says what time files are written at from now on, in nanoseconds since 1970.
    package func setTime(_ time: Int64) {
        self.box.withLock { $0.disk.time = time }
    }

    package func setFreeByteCount(_ byteCount: Int) {
        self.box.withLock { $0.disk.freeByteCount = byteCount }
    }

    package func put(_ path: String, _ bytes: [UInt8]) {
        self.box.withLock { box in
            box.disk.nodes[box.disk.nextNode] = Node(bytes: bytes)
            box.disk.names[path] = box.disk.nextNode
            box.disk.nextNode += 1
        }
    }

    /// Names in a directory, without asking for a fault.
    package func names(_ directory: String) -> [String] {
        self.box.withLock { box in
            box.disk.names.keys.filter { Path.parent(of: $0) == directory && $0 != "/" }.map(Path.name).sorted()
        }
    }

    // MARK: FileSystem

    private func call<Value: Sendable>(
        _ operation: String, _ path: String,
        _ body: (inout Disk, Fault?) throws(FileSystemError) -> Value
    ) throws(FileSystemError) -> Value {
        try self.box.withLock { box throws(FileSystemError) in
            let index = box.disk.callCount
            box.disk.callCount += 1
            let fault = box.disk.pending ?? box.disk.fault(index)
            box.disk.pending = nil
            switch fault {
            case nil: return try body(&box.disk, nil)
            case .half: return try body(&box.disk, fault)
            case .error(let errno): throw FileSystemError(operation, path: path, errno: errno)
            case .short(let errno), .dirty(let errno):
                guard operation == "write" else { throw FileSystemError(operation, path: path, errno: errno) }
                return try body(&box.disk, fault)
            }
        }
    }

    package func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> FileID {
        try self.call("open", path) { disk, _ throws(FileSystemError) in
            if disk.names[path] == nil {
                guard mode != .read, disk.names[Path.parent(of: path)] != nil else {
                    throw FileSystemError("open", path: path, errno: Errno.noEntry)
                }
                disk.nodes[disk.nextNode] = Node()
                disk.names[path] = disk.nextNode
                disk.nextNode += 1
            } else if mode == .appendNew {
                throw FileSystemError("open", path: path, errno: Errno.exists)
            }
            let node = disk.names[path]!  // Made just now where it was missing.
            if mode == .replace { disk.nodes[node]?.bytes = [] }
            disk.files[disk.nextFile] = node
            disk.nextFile += 1
            return FileID(rawValue: disk.nextFile - 1)
        }
    }

    package func close(_ file: FileID) {
        self.box.withLock { box in
            guard let node = box.disk.files.removeValue(forKey: file.rawValue) else { return }
            box.disk.nodes[node]?.locks[file.rawValue] = nil
        }
    }

    package func read(
        _ file: FileID, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(FileSystemError) -> Int {
        let bytes = try self.call("read", "\(file)") { disk, _ in disk.nodes[disk.files[file.rawValue]!]!.bytes }
        let part = bytes.dropFirst(offset).prefix(buffer.count)
        buffer.copyBytes(from: part)
        return part.count
    }

    package func write(_ file: FileID, _ bytes: UnsafeRawBufferPointer) throws(FileSystemError) -> Int {
        let bytes = Array(bytes)
        return try self.call("write", "\(file)") { disk, fault throws(FileSystemError) in
            let node = disk.files[file.rawValue]!
            let part = fault == nil ? bytes[...] : bytes.prefix(max(1, bytes.count / 2))
            disk.nodes[node]!.bytes += part
            disk.nodes[node]!.modified = disk.time
            switch fault {
            case .short(let errno): disk.pending = .error(errno)
            case .dirty(let errno): throw FileSystemError("write", path: "\(file)", errno: errno)
            case .half, .error, nil: break
            }
            return part.count
        }
    }

    package func write(_ file: FileID, vector: [UnsafeRawBufferPointer]) throws(FileSystemError) -> Int {
        try self.write(file, vector.first ?? UnsafeRawBufferPointer(start: nil, count: 0))
    }

    package func synchronize(_ file: FileID) throws(FileSystemError) {
        try self.call("synchronize", "\(file)") { disk, _ in
            let node = disk.files[file.rawValue]!
            disk.nodes[node]!.durableByteCount = disk.nodes[node]!.bytes.count
        }
    }

    package func truncate(_ file: FileID, to byteCount: Int) throws(FileSystemError) {
        try self.call("truncate", "\(file)") { disk, _ in
            let node = disk.files[file.rawValue]!
            disk.nodes[node]!.bytes.removeLast(disk.nodes[node]!.bytes.count - byteCount)
        }
    }

    package func status(_ file: FileID) throws(FileSystemError) -> FileStatus {
        try self.call("status", "\(file)") { disk, _ in Self.status(disk, disk.files[file.rawValue]!) }
    }

    package func status(at path: String) throws(FileSystemError) -> FileStatus? {
        try self.call("status", path) { disk, _ in disk.names[path].map { Self.status(disk, $0) } }
    }

    private static func status(_ disk: Disk, _ node: UInt64) -> FileStatus {
        let found = disk.nodes[node]!
        return FileStatus(
            identity: FileIdentity(device: 1, inode: node), kind: found.isDirectory ? .directory : .regular,
            byteCount: found.bytes.count, modified: found.modified, birth: 0)
    }

    package func lock(_ file: FileID, _ mode: LockMode) throws(FileSystemError) -> Bool {
        try self.call("lock", "\(file)") { disk, _ in
            let node = disk.files[file.rawValue]!
            let others = disk.nodes[node]!.locks.filter { $0.key != file.rawValue }
            guard others.isEmpty || mode == .shared && !others.values.contains(.exclusive) else { return false }
            disk.nodes[node]!.locks[file.rawValue] = mode
            return true
        }
    }

    package func rename(_ path: String, to newPath: String) throws(FileSystemError) {
        try self.call("rename", path) { disk, _ throws(FileSystemError) in
            guard let node = disk.names.removeValue(forKey: path) else {
                throw FileSystemError("rename", path: path, errno: Errno.noEntry)
            }
            disk.names[newPath] = node
        }
    }

    package func exchange(_ path: String, with otherPath: String) throws(FileSystemError) {
        try self.call("exchange", path) { disk, _ in
            let node = disk.names[path]
            disk.names[path] = disk.names[otherPath]
            disk.names[otherPath] = node
        }
    }

    package func unlink(_ path: String) throws(FileSystemError) {
        try self.call("unlink", path) { disk, _ throws(FileSystemError) in
            guard disk.names.removeValue(forKey: path) != nil else {
                throw FileSystemError("unlink", path: path, errno: Errno.noEntry)
            }
        }
    }

    package func createDirectory(_ path: String) throws(FileSystemError) {
        try self.call("createDirectory", path) { disk, _ in
            guard disk.names[path] == nil else { return }
            disk.nodes[disk.nextNode] = Node(isDirectory: true)
            disk.names[path] = disk.nextNode
            disk.nextNode += 1
        }
    }

    package func removeDirectory(_ path: String) throws(FileSystemError) {
        try self.call("removeDirectory", path) { disk, _ in disk.names[path] = nil }
    }

    package func list(_ path: String) throws(FileSystemError) -> [String] {
        try self.call("list", path) { disk, _ in
            disk.names.keys.filter { Path.parent(of: $0) == path && $0 != "/" }.map(Path.name).sorted()
        }
    }

    package func synchronizeDirectory(_ path: String) throws(FileSystemError) {
        try self.call("synchronizeDirectory", path) { _, _ in }
    }

    package func space(at path: String) throws(FileSystemError) -> DiskSpace {
        try self.call("space", path) { disk, _ in
            DiskSpace(freeByteCount: disk.freeByteCount, totalByteCount: 1 << 30)
        }
    }
}
