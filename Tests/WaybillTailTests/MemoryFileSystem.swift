import Synchronization
import WaybillSystem

/// A disk in memory: inodes that are given out again, files that live on while they are open, locks, faults.
final class MemoryFileSystem: FileSystem {
    private struct Node {
        var bytes: [UInt8] = []
        var kind = FileKind.regular
        var modified: Int64 = 0
        var birth: Int64 = 0
        var nameCount = 1
    }

    private struct Descriptor {
        let inode: UInt64
        let path: String
        var lock: LockMode?
    }

    private struct State {
        var nodes: [UInt64: Node] = [:]
        var names: [String: UInt64] = [:]
        var descriptors: [Int32: Descriptor] = [:]
        var links: [String: String] = [:]
        var time: Int64 = 1_790_000_000_000_000_000
        var hasBirths = true
        var device: UInt64 = 0xFE01
        var faults: [String: Int32] = [:]
        var openCount = 0
        var callCount = 0
        var failingCall = 0
        var unlinked: [String] = []

        mutating func tick() -> Int64 {
            self.time += 1
            return self.time
        }

        mutating func create(_ path: String, _ kind: FileKind) -> UInt64 {
            // The lowest number that no name and no descriptor holds, as ext4 does: reuse is the rule here.
            var inode: UInt64 = 2
            while self.nodes[inode] != nil { inode += 1 }
            let now = self.tick()
            self.nodes[inode] = Node(kind: kind, modified: now, birth: self.hasBirths ? now : 0)
            self.names[path] = inode
            return inode
        }

        mutating func release(_ inode: UInt64) {
            guard self.nodes[inode]?.nameCount == 0, !self.descriptors.values.contains(where: { $0.inode == inode })
            else { return }
            self.nodes[inode] = nil
        }

        func resolve(_ path: String) -> String { self.links[path] ?? path }

        mutating func fault(_ operation: String, _ path: String) throws(FileSystemError) {
            self.callCount += 1
            if self.callCount == self.failingCall {
                throw FileSystemError(operation, path: path, errno: Errno.inputOutput)
            }
            guard let errno = self.faults["\(operation) \(path)"] else { return }
            throw FileSystemError(operation, path: path, errno: errno)
        }

        func status(of inode: UInt64, isOpen: Bool) -> FileStatus {
            let node = self.nodes[inode] ?? Node()
            return FileStatus(
                identity: FileIdentity(device: self.device, inode: inode), kind: node.kind,
                byteCount: node.bytes.count, modified: node.modified, birth: isOpen ? node.birth : 0)
        }
    }

    private let state: Mutex<State>

    init(hasBirths: Bool = true) {
        var state = State()
        state.hasBirths = hasBirths
        _ = state.create("/", .directory)
        self.state = Mutex(state)
    }

    // MARK: For tests

    var openDescriptorCount: Int { self.state.withLock { $0.descriptors.count } }
    /// How often a file was opened.
    var openCount: Int { self.state.withLock { $0.openCount } }
    var unlinkedPaths: [String] { self.state.withLock { $0.unlinked } }

    func inode(of path: String) -> UInt64? { self.state.withLock { $0.names[path] } }

    func exists(_ path: String) -> Bool { self.inode(of: path) != nil }

    func bytes(of path: String) -> [UInt8]? {
        self.state.withLock { state in state.names[path].flatMap { state.nodes[$0]?.bytes } }
    }

    /// Appends, creating the file.
    func append(_ path: String, _ bytes: some Sequence<UInt8>) {
        self.state.withLock { state in
            let inode = state.names[path] ?? state.create(path, .regular)
            state.nodes[inode]?.bytes.append(contentsOf: bytes)
            let now = state.tick()
            state.nodes[inode]?.modified = now
        }
    }

    func append(_ path: String, _ text: String) { self.append(path, Array(text.utf8)) }

    /// Replaces a file's bytes in place.
    func rewrite(_ path: String, _ text: String) {
        self.state.withLock { state in
            guard let inode = state.names[path] else { return }
            state.nodes[inode]?.bytes = Array(text.utf8)
            let now = state.tick()
            state.nodes[inode]?.modified = now
        }
    }

    func remove(_ path: String) {
        self.state.withLock { state in
            guard let inode = state.names.removeValue(forKey: path) else { return }
            state.nodes[inode]?.nameCount -= 1
            state.release(inode)
        }
    }

    func move(_ path: String, _ newPath: String) {
        self.state.withLock { state in
            guard let inode = state.names.removeValue(forKey: path) else { return }
            let old = state.names.updateValue(inode, forKey: newPath)
            guard let old else { return }
            state.nodes[old]?.nameCount -= 1
            state.release(old)
        }
    }

    func makeDirectory(_ path: String) {
        self.state.withLock { state in
            if state.names[path] == nil { _ = state.create(path, .directory) }
        }
    }

    func link(_ path: String, to target: String) {
        self.state.withLock { $0.links[path] = target }
    }

    /// Makes a call fail from now on; `nil` heals it.
    func fail(_ operation: String, _ path: String, _ errno: Int32?) {
        self.state.withLock { $0.faults["\(operation) \(path)"] = errno }
    }

    /// Makes the `number`th call from now on fail with `EIO`, once.
    func failCall(_ number: Int) {
        self.state.withLock { state in
            state.callCount = 0
            state.failingCall = number
        }
    }

    /// Whether the call named by ``failCall(_:)`` was made.
    var hasFailed: Bool { self.state.withLock { $0.callCount >= $0.failingCall } }

    func renumberDevice() { self.state.withLock { $0.device += 1 } }

    // MARK: FileSystem

    func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> FileID {
        try self.state.withLock { state throws(FileSystemError) in
            let path = state.resolve(path)
            try state.fault("open", path)
            let existing = state.names[path]
            if mode == .read, existing == nil { throw FileSystemError("open", path: path, errno: 2) }
            if mode == .appendNew, existing != nil { throw FileSystemError("open", path: path, errno: 17) }
            let inode = existing ?? state.create(path, .regular)
            if mode == .replace { state.nodes[inode]?.bytes = [] }
            var number: Int32 = 3
            while state.descriptors[number] != nil { number += 1 }
            state.descriptors[number] = Descriptor(inode: inode, path: path)
            state.openCount += 1
            return FileID(rawValue: number)
        }
    }

    func close(_ file: FileID) {
        self.state.withLock { state in
            guard let descriptor = state.descriptors.removeValue(forKey: file.rawValue) else { return }
            state.release(descriptor.inode)
        }
    }

    func read(
        _ file: FileID, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(FileSystemError) -> Int {
        try self.state.withLock { state throws(FileSystemError) in
            guard let descriptor = state.descriptors[file.rawValue], let node = state.nodes[descriptor.inode] else {
                throw FileSystemError("read", path: "", errno: 9)
            }
            try state.fault("read", descriptor.path)
            guard offset < node.bytes.count else { return 0 }
            let count = min(buffer.count, node.bytes.count - offset)
            buffer.copyBytes(from: node.bytes[offset..<(offset + count)])
            return count
        }
    }

    func write(_ file: FileID, _ bytes: UnsafeRawBufferPointer) throws(FileSystemError) -> Int {
        try self.state.withLock { state throws(FileSystemError) in
            guard let descriptor = state.descriptors[file.rawValue] else {
                throw FileSystemError("write", path: "", errno: 9)
            }
            try state.fault("write", descriptor.path)
            state.nodes[descriptor.inode]?.bytes.append(contentsOf: bytes)
            let now = state.tick()
            state.nodes[descriptor.inode]?.modified = now
            return bytes.count
        }
    }

    func write(_ file: FileID, vector: [UnsafeRawBufferPointer]) throws(FileSystemError) -> Int {
        var count = 0
        for bytes in vector { count += try self.write(file, bytes) }
        return count
    }

    func synchronize(_ file: FileID) throws(FileSystemError) {
        try self.state.withLock { state throws(FileSystemError) in
            try state.fault("synchronize", state.descriptors[file.rawValue]?.path ?? "")
        }
    }

    func truncate(_ file: FileID, to byteCount: Int) throws(FileSystemError) {
        self.state.withLock { state in
            guard let inode = state.descriptors[file.rawValue]?.inode, let node = state.nodes[inode] else { return }
            state.nodes[inode]?.bytes.removeLast(max(0, node.bytes.count - byteCount))
        }
    }

    func status(_ file: FileID) throws(FileSystemError) -> FileStatus {
        try self.state.withLock { state throws(FileSystemError) in
            guard let descriptor = state.descriptors[file.rawValue] else {
                throw FileSystemError("status", path: "", errno: 9)
            }
            try state.fault("status", descriptor.path)
            return state.status(of: descriptor.inode, isOpen: true)
        }
    }

    func status(at path: String) throws(FileSystemError) -> FileStatus? {
        try self.state.withLock { state throws(FileSystemError) in
            try state.fault("status", path)
            return state.names[state.resolve(path)].map { state.status(of: $0, isOpen: false) }
        }
    }

    func lock(_ file: FileID, _ mode: LockMode) throws(FileSystemError) -> Bool {
        try self.state.withLock { state throws(FileSystemError) in
            guard let own = state.descriptors[file.rawValue] else { return false }
            try state.fault("lock", own.path)
            let others = state.descriptors.filter { $0.key != file.rawValue && $0.value.inode == own.inode }
            let isFree = others.allSatisfy { other in
                other.value.lock == nil || (other.value.lock == .shared && mode == .shared)
            }
            if isFree { state.descriptors[file.rawValue]?.lock = mode }
            return isFree
        }
    }

    func rename(_ path: String, to newPath: String) throws(FileSystemError) {
        try self.state.withLock { state throws(FileSystemError) in try state.fault("rename", path) }
        self.move(path, newPath)
    }

    func exchange(_ path: String, with otherPath: String) throws(FileSystemError) {
        self.state.withLock { state in
            let first = state.names[path]
            state.names[path] = state.names[otherPath]
            state.names[otherPath] = first
        }
    }

    func unlink(_ path: String) throws(FileSystemError) {
        try self.state.withLock { state throws(FileSystemError) in
            try state.fault("unlink", path)
            guard state.names[path] != nil else { throw FileSystemError("unlink", path: path, errno: 2) }
            state.unlinked.append(path)
        }
        self.remove(path)
    }

    func createDirectory(_ path: String) throws(FileSystemError) {
        self.makeDirectory(path)
    }

    func removeDirectory(_ path: String) throws(FileSystemError) {
        self.remove(path)
    }

    func list(_ path: String) throws(FileSystemError) -> [String] {
        try self.state.withLock { state throws(FileSystemError) in
            try state.fault("list", path)
            guard let inode = state.names[path], state.nodes[inode]?.kind == .directory else {
                throw FileSystemError("list", path: path, errno: 2)
            }
            let paths = Array(state.names.keys) + Array(state.links.keys)
            let names = paths.filter { $0 != "/" && Path.parent(of: $0) == path }.map { Path.name(of: $0) }
            return names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        }
    }

    func synchronizeDirectory(_ path: String) throws(FileSystemError) {
        try self.state.withLock { state throws(FileSystemError) in try state.fault("synchronizeDirectory", path) }
    }

    func space(at path: String) throws(FileSystemError) -> DiskSpace {
        DiskSpace(freeByteCount: 1 << 40, totalByteCount: 1 << 40)
    }
}
