package import WaybillSystem

/// Files below some paths of which no call returns for a while, as on a mount whose server is away.
///
/// A call that waits has begun and done nothing. ``release()`` lets all continue.
package final class StalledFiles<Base: FileSystem>: FileSystem {
    private struct State: Sendable {
        var folders: [String] = []
        var paths: [FileID: String] = [:]
        var waitingCount = 0
        var callCounts: [String: Int] = [:]
    }

    package let base: Base
    private let state = Monitor(State())

    package init(_ base: Base) {
        self.base = base
    }

    /// From now on, no call below a folder returns.
    package func stall(_ folder: String) {
        self.state.update { $0.folders.append(folder + "/") }
    }

    package func release() {
        self.state.update { $0.folders = [] }
    }

    /// Calls that wait now.
    package var waitingCount: Int { self.state.withLock { $0.waitingCount } }

    /// Files that are open.
    package var openCount: Int { self.state.withLock { $0.paths.count } }

    /// How many calls a mount's thread made at a path.
    package func threadedCount(at path: String) -> Int { self.state.withLock { $0.callCounts[path] ?? 0 } }

    private func pass(_ path: String) {
        let isThreaded = Worker.isCurrent(named: "waybill-mount")
        self.state.update { state in
            state.waitingCount += 1
            if isThreaded { state.callCounts[path, default: 0] += 1 }
        }
        _ = self.state.wait { state in
            state.folders.contains { (path + "/").utf8.starts(with: $0.utf8) } ? nil : true
        }
        self.state.update { $0.waitingCount -= 1 }
    }

    private func pass(_ file: FileID, _ name: String? = nil) {
        let path = self.state.withLock { $0.paths[file] } ?? ""
        self.pass(name.map { Path.join(path, $0) } ?? path)
    }

    private func opened(_ file: FileID, _ path: String) -> FileID {
        self.state.update { $0.paths[file] = path }
        return file
    }

    // MARK: FileSystem

    package func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> FileID {
        self.pass(path)
        return self.opened(try self.base.open(path, mode), path)
    }

    package func close(_ file: FileID) {
        self.pass(file)
        self.base.close(file)
        self.state.update { $0.paths[file] = nil }
    }

    package func read(
        _ file: FileID, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(FileSystemError) -> Int {
        self.pass(file)
        return try self.base.read(file, at: offset, into: buffer)
    }

    package func seekData(_ file: FileID, from offset: Int) throws(FileSystemError) -> Int? {
        self.pass(file)
        return try self.base.seekData(file, from: offset)
    }

    package func write(_ file: FileID, _ bytes: UnsafeRawBufferPointer) throws(FileSystemError) -> Int {
        self.pass(file)
        return try self.base.write(file, bytes)
    }

    package func write(_ file: FileID, vector: [UnsafeRawBufferPointer]) throws(FileSystemError) -> Int {
        self.pass(file)
        return try self.base.write(file, vector: vector)
    }

    package func synchronize(_ file: FileID) throws(FileSystemError) {
        self.pass(file)
        try self.base.synchronize(file)
    }

    package func synchronizeAll(in folder: FileID) throws(FileSystemError) -> Bool {
        self.pass(folder)
        return try self.base.synchronizeAll(in: folder)
    }

    package func truncate(_ file: FileID, to byteCount: Int) throws(FileSystemError) {
        self.pass(file)
        try self.base.truncate(file, to: byteCount)
    }

    package func status(_ file: FileID) throws(FileSystemError) -> FileStatus {
        self.pass(file)
        return try self.base.status(file)
    }

    package func status(at path: String) throws(FileSystemError) -> FileStatus? {
        self.pass(path)
        return try self.base.status(at: path)
    }

    package func realPath(of path: String) throws(FileSystemError) -> String? {
        self.pass(path)
        return try self.base.realPath(of: path)
    }

    package func status(ofEntry path: String) throws(FileSystemError) -> FileStatus? {
        self.pass(path)
        return try self.base.status(ofEntry: path)
    }

    package func setPermissions(_ permissions: UInt16, of file: FileID) throws(FileSystemError) {
        self.pass(file)
        try self.base.setPermissions(permissions, of: file)
    }

    package func lock(_ file: FileID, _ mode: LockMode) throws(FileSystemError) -> Bool {
        self.pass(file)
        return try self.base.lock(file, mode)
    }

    package func rename(_ path: String, to newPath: String) throws(FileSystemError) {
        self.pass(path)
        try self.base.rename(path, to: newPath)
    }

    package func exchange(_ path: String, with otherPath: String) throws(FileSystemError) {
        self.pass(path)
        try self.base.exchange(path, with: otherPath)
    }

    package func unlink(_ path: String) throws(FileSystemError) {
        self.pass(path)
        try self.base.unlink(path)
    }

    package func createDirectory(_ path: String) throws(FileSystemError) {
        self.pass(path)
        try self.base.createDirectory(path)
    }

    package func removeDirectory(_ path: String) throws(FileSystemError) {
        self.pass(path)
        try self.base.removeDirectory(path)
    }

    package func list(_ path: String) throws(FileSystemError) -> [String] {
        self.pass(path)
        return try self.base.list(path)
    }

    package func synchronizeDirectory(_ path: String) throws(FileSystemError) {
        self.pass(path)
        try self.base.synchronizeDirectory(path)
    }

    package func space(at path: String) throws(FileSystemError) -> DiskSpace {
        self.pass(path)
        return try self.base.space(at: path)
    }

    package func open(_ path: String, in folder: FileID) throws(FileSystemError) -> FileID {
        self.pass(folder, path)
        let file = try self.base.open(path, in: folder)
        let base = self.state.withLock { $0.paths[folder] } ?? ""
        return self.opened(file, Path.join(base, path))
    }

    package func status(of name: String, in folder: FileID) throws(FileSystemError) -> FileStatus? {
        self.pass(folder, name)
        return try self.base.status(of: name, in: folder)
    }

    package func rename(_ name: String, to newName: String, in folder: FileID) throws(FileSystemError) {
        self.pass(folder, name)
        try self.base.rename(name, to: newName, in: folder)
    }

    package func unlink(_ name: String, in folder: FileID) throws(FileSystemError) {
        self.pass(folder, name)
        try self.base.unlink(name, in: folder)
    }
}

/// Mounts and links as a test says.
package final class GivenMounts: MountSource {
    private struct State: Sendable {
        var text: [UInt8]?
        var links: [String: String] = [:]
    }

    private let state = Lock(State())

    /// - Parameter paths: of network file systems.
    package init(_ paths: [String], links: [String: String] = [:]) {
        self.state.withLock { $0.links = links }
        self.mount(paths)
    }

    /// These paths, and no others, are mounted; `first` is the kernel's number of the first mount.
    package func mount(_ paths: [String], first: Int = 100) {
        let lines = paths.enumerated().map { "\(first + $0) 1 0:9 / \($1) rw - nfs4 server:/ rw\n" }
        self.state.withLock { $0.text = Array(lines.joined().utf8) }
    }

    package func changed() -> [UInt8]? {
        self.state.withLock { state in
            defer { state.text = nil }
            return state.text
        }
    }

    package func target(of path: String) -> String? { self.state.withLock { $0.links[path] } }
}

/// How long calls may take: for ever, until a test wants one to be given up.
package final class GivenPatience: Sendable {
    private let isOver = Atomic(false)

    package init() {}

    package var value: Duration { self.isOver.load(ordering: .relaxed) ? .zero : .seconds(3600) }

    /// From now on, a call is given up as soon as it has begun.
    package func end() { self.isOver.store(true, ordering: .relaxed) }
    package func begin() { self.isOver.store(false, ordering: .relaxed) }
}
