internal import WaybillSystem

/// A recorder's disk: files in memory for one process, and one switch, full or not.
///
/// What is written is durable at once.
final class RecorderDisk: FileSystem {
    private struct Node {
        var bytes: [UInt8] = []
        var kind = FileKind.regular
        /// By the numbers of the open files that hold them.
        var locks: [Int32: LockMode] = [:]
    }

    private struct State {
        var isFull = false
        var nodes: [Node] = [Node(kind: .directory)]
        var names: [String: Int] = ["/": 0]
        /// By the number of the open file.
        var open: [Int32: Int] = [:]
        /// The path of an open file when it was opened.
        var paths: [Int32: String] = [:]
        var nextFile: Int32 = 3

        func node(_ path: String, _ operation: String) throws(FileSystemError) -> Int {
            guard let node = self.names[path] else {
                throw FileSystemError(operation, path: path, errno: Errno.noEntry)
            }
            return node
        }

        func node(_ file: FileID) -> Int {
            guard let node = self.open[file.rawValue] else { preconditionFailure("a closed file") }
            return node
        }

        mutating func make(_ path: String, _ kind: FileKind) -> Int {
            self.nodes.append(Node(kind: kind))
            self.names[path] = self.nodes.count - 1
            return self.nodes.count - 1
        }

        func status(_ node: Int) -> FileStatus {
            FileStatus(
                identity: FileIdentity(device: 1, inode: UInt64(node)), kind: self.nodes[node].kind,
                byteCount: self.nodes[node].bytes.count, modified: 0, birth: 0)
        }

        func children(of path: String) -> [String] {
            self.names.keys.filter { Path.parent(of: $0) == path && $0 != "/" }.map(Path.name).sorted()
        }
    }

    private let state = Lock(State())

    /// Whether every call fails for want of room.
    func setFull(_ isFull: Bool) { self.state.withLock { $0.isFull = isFull } }

    func bytes(of path: String) -> [UInt8] {
        self.state.withLock { state in state.names[path].map { state.nodes[$0].bytes } ?? [] }
    }

    func names(in directory: String) -> [String] { self.state.withLock { $0.children(of: directory) } }

    private func call<Value: Sendable>(
        _ operation: String, _ path: String = "", _ body: (inout State) throws(FileSystemError) -> Value
    ) throws(FileSystemError) -> Value {
        try self.state.withLock { state throws(FileSystemError) in
            if state.isFull { throw FileSystemError(operation, path: path, errno: Errno.noSpace) }
            return try body(&state)
        }
    }

    // MARK: FileSystem

    func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> FileID {
        try self.call("open", path) { state throws(FileSystemError) in
            if mode == .appendNew, state.names[path] != nil {
                throw FileSystemError("open", path: path, errno: Errno.exists)
            }
            if mode != .read, mode != .folder { _ = try state.node(Path.parent(of: path), "open") }
            let isReading = mode == .read || mode == .folder
            let node = isReading ? try state.node(path, "open") : state.names[path] ?? state.make(path, .regular)
            if mode == .replace { state.nodes[node].bytes = [] }
            defer { state.nextFile += 1 }
            state.open[state.nextFile] = node
            state.paths[state.nextFile] = path
            return FileID(rawValue: state.nextFile)
        }
    }

    func close(_ file: FileID) {
        self.state.withLock { state in
            guard let node = state.open.removeValue(forKey: file.rawValue) else { return }
            state.paths[file.rawValue] = nil
            state.nodes[node].locks[file.rawValue] = nil
        }
    }

    func read(
        _ file: FileID, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(FileSystemError) -> Int {
        try self.call("read") { state in
            let part = state.nodes[state.node(file)].bytes.dropFirst(offset).prefix(buffer.count)
            buffer.copyBytes(from: part)
            return part.count
        }
    }

    func seekData(_ file: FileID, from offset: Int) throws(FileSystemError) -> Int? {
        try self.status(file).byteCount > offset ? offset : nil
    }

    func write(_ file: FileID, _ bytes: UnsafeRawBufferPointer) throws(FileSystemError) -> Int {
        try self.call("write") { state in
            state.nodes[state.node(file)].bytes.append(contentsOf: bytes)
            return bytes.count
        }
    }

    func write(_ file: FileID, vector: [UnsafeRawBufferPointer]) throws(FileSystemError) -> Int {
        var count = 0
        for bytes in vector { count += try self.write(file, bytes) }
        return count
    }

    func synchronize(_ file: FileID) throws(FileSystemError) { try self.call("synchronize") { _ in } }

    func synchronizeAll(in folder: FileID) throws(FileSystemError) -> Bool {
        try self.call("synchronizeAll") { _ in true }
    }

    func truncate(_ file: FileID, to byteCount: Int) throws(FileSystemError) {
        try self.call("truncate") { state in
            let node = state.node(file)
            state.nodes[node].bytes.removeLast(state.nodes[node].bytes.count - byteCount)
        }
    }

    func status(_ file: FileID) throws(FileSystemError) -> FileStatus {
        try self.call("status") { $0.status($0.node(file)) }
    }

    func status(at path: String) throws(FileSystemError) -> FileStatus? {
        try self.call("status", path) { state in state.names[path].map(state.status) }
    }

    /// There are no links.
    func status(ofEntry path: String) throws(FileSystemError) -> FileStatus? { try self.status(at: path) }

    func setPermissions(_ permissions: UInt16, of file: FileID) throws(FileSystemError) {
        try self.call("setPermissions") { _ in }
    }

    func lock(_ file: FileID, _ mode: LockMode) throws(FileSystemError) -> Bool {
        try self.call("lock") { state in
            let node = state.node(file)
            let isFree = state.nodes[node].locks.allSatisfy {
                $0 == file.rawValue || $1 == .shared && mode == .shared
            }
            if isFree { state.nodes[node].locks[file.rawValue] = mode }
            return isFree
        }
    }

    func rename(_ path: String, to newPath: String) throws(FileSystemError) {
        try self.call("rename", path) { state throws(FileSystemError) in
            state.names[newPath] = try state.node(path, "rename")
            state.names[path] = nil
        }
    }

    func exchange(_ path: String, with otherPath: String) throws(FileSystemError) {
        try self.call("exchange", path) { state throws(FileSystemError) in
            let (first, second) = (try state.node(path, "exchange"), try state.node(otherPath, "exchange"))
            (state.names[path], state.names[otherPath]) = (second, first)
        }
    }

    func unlink(_ path: String) throws(FileSystemError) {
        try self.call("unlink", path) { state throws(FileSystemError) in
            _ = try state.node(path, "unlink")
            state.names[path] = nil
        }
    }

    func createDirectory(_ path: String) throws(FileSystemError) {
        try self.call("createDirectory", path) { state in
            if state.names[path] == nil { _ = state.make(path, .directory) }
        }
    }

    func removeDirectory(_ path: String) throws(FileSystemError) {
        try self.call("removeDirectory", path) { $0.names[path] = nil }
    }

    func list(_ path: String) throws(FileSystemError) -> [String] {
        try self.call("list", path) { $0.children(of: path) }
    }

    func synchronizeDirectory(_ path: String) throws(FileSystemError) {
        try self.call("synchronizeDirectory", path) { _ in }
    }

    func space(at path: String) throws(FileSystemError) -> DiskSpace {
        try self.call("space", path) { _ in DiskSpace(freeByteCount: 1 << 30, totalByteCount: 1 << 30) }
    }

    // MARK: In an open folder

    private func path(_ name: String, in folder: FileID) -> String {
        Path.join(self.state.withLock { $0.paths[folder.rawValue] ?? "" }, name)
    }

    func open(_ path: String, in folder: FileID) throws(FileSystemError) -> FileID {
        try self.open(self.path(path, in: folder), .read)
    }

    func status(of name: String, in folder: FileID) throws(FileSystemError) -> FileStatus? {
        try self.status(at: self.path(name, in: folder))
    }

    func rename(_ name: String, to newName: String, in folder: FileID) throws(FileSystemError) {
        try self.rename(self.path(name, in: folder), to: self.path(newName, in: folder))
    }

    func unlink(_ name: String, in folder: FileID) throws(FileSystemError) {
        try self.unlink(self.path(name, in: folder))
    }
}
