/// Files whose calls return within a limited time, wherever they are: on a remote mount, its thread makes them.
///
/// A call that does not return in time throws ``FileSystemError/Code/hanging``, and so do all others on that mount
/// until it answers. What it did late is undone where that matters: a file that was opened is closed. A name that was
/// deleted or changed late stays so, as if the caller had not seen the answer. A read goes through memory of its own,
/// so that a late one writes into no buffer that has another use by then.
package struct GuardedFiles<Base: FileSystem>: FileSystem {
    private let base: Base
    private let mounts: RemoteMounts

    package init(_ base: Base, _ mounts: RemoteMounts) {
        self.base = base
        self.mounts = mounts
    }

    /// More is read with several calls.
    private static var readByteCountMax: Int { 256 << 10 }

    package func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> FileID {
        guard let route = self.mounts.route(at: path, followsLast: mode != .folder) else {
            return try self.base.open(path, mode)
        }
        return try self.opened("open", path, on: route) { [base] () throws(FileSystemError) in
            try base.open(path, mode)
        }
    }

    package func open(_ path: String, in folder: FileID) throws(FileSystemError) -> FileID {
        guard let route = self.mounts.route(of: path, in: folder) else { return try self.base.open(path, in: folder) }
        return try self.opened("open", path, on: route) { [base] () throws(FileSystemError) in
            try base.open(path, in: folder)
        }
    }

    private func opened(
        _ operation: String, _ path: String, on route: MountRoute,
        _ body: @escaping @Sendable () throws(FileSystemError) -> FileID
    ) throws(FileSystemError) -> FileID {
        let file = try route.call(operation, path, undo: { [base] in base.close($0) }, body)
        self.mounts.opened(file, on: route)
        return file
    }

    package func close(_ file: FileID) {
        guard let route = self.mounts.closing(file) else { return self.base.close(file) }
        route.close { [base] in base.close(file) }
    }

    // MARK: Open files

    package func read(
        _ file: FileID, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(FileSystemError) -> Int {
        guard let route = self.mounts.route(of: file) else {
            return try self.base.read(file, at: offset, into: buffer)
        }
        let room = CallMemory(byteCount: min(buffer.count, Self.readByteCountMax))
        let count = try route.call("read", Self.path(of: file)) { [base] () throws(FileSystemError) in
            try base.read(file, at: offset, into: room.bytes)
        }
        buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: room.bytes[..<count]))
        return count
    }

    package func seekData(_ file: FileID, from offset: Int) throws(FileSystemError) -> Int? {
        guard let route = self.mounts.route(of: file) else { return try self.base.seekData(file, from: offset) }
        return try route.call("seekData", Self.path(of: file)) { [base] () throws(FileSystemError) in
            try base.seekData(file, from: offset)
        }
    }

    package func write(_ file: FileID, _ bytes: UnsafeRawBufferPointer) throws(FileSystemError) -> Int {
        guard let route = self.mounts.route(of: file) else { return try self.base.write(file, bytes) }
        let room = CallMemory(byteCount: bytes.count)
        room.bytes.copyMemory(from: bytes)
        return try route.call("write", Self.path(of: file)) { [base] () throws(FileSystemError) in
            try base.write(file, UnsafeRawBufferPointer(room.bytes))
        }
    }

    package func write(_ file: FileID, vector: [UnsafeRawBufferPointer]) throws(FileSystemError) -> Int {
        guard self.mounts.route(of: file) != nil else { return try self.base.write(file, vector: vector) }
        // A write may be short.
        return try self.write(file, vector.first { !$0.isEmpty } ?? UnsafeRawBufferPointer(start: nil, count: 0))
    }

    package func synchronize(_ file: FileID) throws(FileSystemError) {
        try self.call("synchronize", file) { (base) throws(FileSystemError) in try base.synchronize(file) }
    }

    package func synchronizeAll(in folder: FileID) throws(FileSystemError) -> Bool {
        try self.call("synchronizeAll", folder) { (base) throws(FileSystemError) in
            try base.synchronizeAll(in: folder)
        }
    }

    package func truncate(_ file: FileID, to byteCount: Int) throws(FileSystemError) {
        try self.call("truncate", file) { (base) throws(FileSystemError) in try base.truncate(file, to: byteCount) }
    }

    package func status(_ file: FileID) throws(FileSystemError) -> FileStatus {
        guard let route = self.mounts.route(of: file) else { return try self.base.status(file) }
        return try route.call("status", Self.path(of: file)) { [base] () throws(FileSystemError) in
            try base.status(file)
        }
    }

    package func setPermissions(_ permissions: UInt16, of file: FileID) throws(FileSystemError) {
        try self.call("setPermissions", file) { (base) throws(FileSystemError) in
            try base.setPermissions(permissions, of: file)
        }
    }

    package func lock(_ file: FileID, _ mode: LockMode) throws(FileSystemError) -> Bool {
        try self.call("lock", file) { (base) throws(FileSystemError) in try base.lock(file, mode) }
    }

    package func isWritten(_ file: FileID) -> Bool {
        do throws(FileSystemError) {
            return try self.call("isWritten", file) { (base) throws(FileSystemError) in base.isWritten(file) }
        } catch {
            // What does not answer is not known to be closed.
            return true
        }
    }

    private func call<Value>(
        _ operation: String, _ file: FileID, _ body: @escaping @Sendable (Base) throws(FileSystemError) -> Value
    ) throws(FileSystemError) -> Value {
        guard let route = self.mounts.route(of: file) else { return try body(self.base) }
        return try route.call(operation, Self.path(of: file)) { [base] () throws(FileSystemError) in try body(base) }
    }

    private static func path(of file: FileID) -> String {
        SymbolicLink.target(of: "/proc/self/fd/\(file.rawValue)") ?? "file \(file.rawValue)"
    }
}

// MARK: Paths

extension GuardedFiles {
    package func status(at path: String) throws(FileSystemError) -> FileStatus? {
        guard let route = self.mounts.route(at: path) else { return try self.base.status(at: path) }
        return try route.call("status", path) { [base] () throws(FileSystemError) in try base.status(at: path) }
    }

    package func isShared(at path: String) -> Bool {
        guard let route = self.mounts.route(at: path) else { return self.base.isShared(at: path) }
        do throws(FileSystemError) {
            return try route.call("isShared", path) { [base] () throws(FileSystemError) in base.isShared(at: path) }
        } catch {
            // A mount that does not answer is one.
            return true
        }
    }

    package func realPath(of path: String) throws(FileSystemError) -> String? {
        guard let route = self.mounts.route(at: path) else { return try self.base.realPath(of: path) }
        return try route.call("realPath", path) { [base] () throws(FileSystemError) in try base.realPath(of: path) }
    }

    package func status(ofEntry path: String) throws(FileSystemError) -> FileStatus? {
        guard let route = self.mounts.route(at: path, followsLast: false) else {
            return try self.base.status(ofEntry: path)
        }
        return try route.call("status", path) { [base] () throws(FileSystemError) in try base.status(ofEntry: path) }
    }

    package func rename(_ path: String, to newPath: String) throws(FileSystemError) {
        try self.call("rename", path, newPath) { (base) throws(FileSystemError) in
            try base.rename(path, to: newPath)
        }
    }

    package func exchange(_ path: String, with otherPath: String) throws(FileSystemError) {
        try self.call("exchange", path, otherPath) { (base) throws(FileSystemError) in
            try base.exchange(path, with: otherPath)
        }
    }

    package func unlink(_ path: String) throws(FileSystemError) {
        try self.call("unlink", path) { (base) throws(FileSystemError) in try base.unlink(path) }
    }

    package func createDirectory(_ path: String) throws(FileSystemError) {
        try self.call("createDirectory", path) { (base) throws(FileSystemError) in try base.createDirectory(path) }
    }

    package func removeDirectory(_ path: String) throws(FileSystemError) {
        try self.call("removeDirectory", path) { (base) throws(FileSystemError) in try base.removeDirectory(path) }
    }

    package func list(_ path: String) throws(FileSystemError) -> [String] {
        guard let route = self.mounts.route(at: path) else { return try self.base.list(path) }
        return try route.call("list", path) { [base] () throws(FileSystemError) in try base.list(path) }
    }

    package func synchronizeDirectory(_ path: String) throws(FileSystemError) {
        guard let route = self.mounts.route(at: path) else { return try self.base.synchronizeDirectory(path) }
        try route.call("synchronizeDirectory", path) { [base] () throws(FileSystemError) in
            try base.synchronizeDirectory(path)
        }
    }

    package func space(at path: String) throws(FileSystemError) -> DiskSpace {
        guard let route = self.mounts.route(at: path) else { return try self.base.space(at: path) }
        return try route.call("space", path) { [base] () throws(FileSystemError) in try base.space(at: path) }
    }

    /// Makes a call about an entry, or two.
    private func call(
        _ operation: String, _ path: String, _ otherPath: String? = nil,
        _ body: @escaping @Sendable (Base) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        let route =
            self.mounts.route(at: path, followsLast: false)
            ?? otherPath.flatMap { self.mounts.route(at: $0, followsLast: false) }
        guard let route else { return try body(self.base) }
        try route.call(operation, path) { [base] () throws(FileSystemError) in try body(base) }
    }

    // MARK: In an open folder

    package func status(of name: String, in folder: FileID) throws(FileSystemError) -> FileStatus? {
        guard let route = self.mounts.route(of: name, in: folder) else {
            return try self.base.status(of: name, in: folder)
        }
        return try route.call("status", name) { [base] () throws(FileSystemError) in
            try base.status(of: name, in: folder)
        }
    }

    package func rename(_ name: String, to newName: String, in folder: FileID) throws(FileSystemError) {
        guard let route = self.mounts.route(of: name, in: folder) else {
            return try self.base.rename(name, to: newName, in: folder)
        }
        try route.call("rename", name) { [base] () throws(FileSystemError) in
            try base.rename(name, to: newName, in: folder)
        }
    }

    package func unlink(_ name: String, in folder: FileID) throws(FileSystemError) {
        guard let route = self.mounts.route(of: name, in: folder) else {
            return try self.base.unlink(name, in: folder)
        }
        try route.call("unlink", name) { [base] () throws(FileSystemError) in try base.unlink(name, in: folder) }
    }
}

/// Memory of one call, which lives as long as the call, whether its caller waits or not.
///
/// `@unchecked Sendable`: the thread that makes the call owns it, until the caller has the answer.
private final class CallMemory: @unchecked Sendable {
    let bytes: UnsafeMutableRawBufferPointer

    init(byteCount: Int) {
        self.bytes = .allocate(byteCount: byteCount, alignment: 16)
    }

    deinit {
        self.bytes.deallocate()
    }
}
