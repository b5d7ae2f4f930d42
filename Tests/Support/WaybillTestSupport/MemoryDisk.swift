/// The one disk in memory of all tests: what is written can be read at once, and what was not synced is lost when the
/// power fails, in the ways in which real disks lose it. It never fails by itself; ``FaultyFiles`` is a process on it
/// whose calls do.
///
/// - **Bytes.** A file has the bytes that processes see and those that are on the disk. ``synchronize(_:)`` makes them
///   equal; a truncation is on the disk only after the next sync, too. At a power cut a file that has bytes which were
///   not synced keeps none of them, a beginning of them, a beginning followed by zeros or by garbage, all of them with a
///   hole of zeros, or all of them. What was synced survives.
/// - **A failed sync** (``losePages(_:from:)``) leaves pages that are clean for the kernel and not on the disk, as on
///   Linux: they are readable until the power cut and zeros after it, whatever a later sync reports.
/// - **Names.** A directory has its names in memory and on the disk, and the changes since it was last synced, in order.
///   At a power cut it keeps a prefix of those changes: one call is one change, so a rename within a directory happens
///   or does not; between two directories the new name and the loss of the old one are separate, and both, one or none
///   may survive. Syncing a file does not make its name durable, and a directory does not vouch for its parent. An
///   exchange between two directories is one transaction of the disk's journal, which carries what came before it.
/// - **Inodes.** A file lives as long as a name in memory, a name that a power cut may bring back, or an open file
///   leads to it. After that its number is given out again, the latest first.
/// - **Locks** belong to the open file, as with `flock(2)`: they end when it is closed, and so when its process dies.
/// - **Symbolic links** are followed by every call that reads or opens by a path; a rename or an unlink changes the link
///   itself, and calls in an open folder follow none.
/// - **Owners and permissions** are what a test gives (``own(_:by:_:permissions:)``); they keep no one out.
/// - **Time.** Each change moves the disk's clock by one nanosecond, unless the disk is given a clock.
package import WaybillSystem

/// A disk in memory that can lose power.
///
/// `@unchecked Sendable`: all of it is reached under `mutex`, but for the nodes that a test takes out of it on one thread.
package final class MemoryDisk: MemoryFiles, @unchecked Sendable {
    struct Descriptor {
        let node: Node
        let path: String
    }

    let mutex = Lock(())
    private let numbers = InodeNumbers()
    private let clock: (() -> Int64)?
    private let hasBirths: Bool
    let root: Node
    private var lookup: [String: Node] = [:]
    private var descriptors: [Int32: Descriptor] = [:]
    private var nextDescriptor: Int32 = 3
    private var openedFileCount = 0
    private var ticks: Int64
    private var device: UInt64 = 0xFE01
    private var freeByteCount = 1 << 40

    package var memory: MemoryDisk { self }

    /// An empty disk.
    ///
    /// - Parameters:
    ///   - now: nanoseconds since 1970 of the first change; each one after it is later by one.
    ///   - hasBirths: whether files report when they were created.
    ///   - clock: asked for the time of each change instead.
    package init(
        now: Int64 = 1_790_000_000_000_000_000, hasBirths: Bool = true, clock: (() -> Int64)? = nil
    ) {
        self.ticks = now
        self.hasBirths = hasBirths
        self.clock = clock
        self.root = Node(.directory, self.numbers, time: clock?() ?? now)
    }

    /// The typed throws of `body` under the lock.
    private func locked<Result: Sendable>(
        _ body: () throws(FileSystemError) -> Result
    ) throws(FileSystemError) -> Result {
        try self.mutex.withLock { _ throws(FileSystemError) in try body() }
    }

    private func stamp() -> Int64 {
        if let clock { return clock() }
        if self.ticks < .max { self.ticks += 1 }
        return self.ticks
    }

    // MARK: What tests look at and change

    /// The number of open files.
    package var openDescriptorCount: Int { self.mutex.withLock { _ in self.descriptors.count } }

    /// How often a file was opened, without folders.
    package var openedCount: Int { self.mutex.withLock { _ in self.openedFileCount } }

    /// Whether some file holds bytes that can be read and that no sync will save.
    package var hasDroppedPages: Bool {
        self.mutex.withLock { _ in
            var hasDropped = false
            self.root.visit { if $0.hasDroppedPages { hasDropped = true } }
            return hasDropped
        }
    }

    /// What `body` finds at a path; `nil` when nothing is there.
    func look<Found: Sendable>(at path: String, _ body: (Node) -> Found) -> Found? {
        self.mutex.withLock { _ in self.find(path).map(body) }
    }

    /// What a path leads to.
    package func node(at path: String) -> Node? { self.mutex.withLock { _ in self.find(path) } }

    /// What an open file is, under whatever name.
    package func node(of file: FileID) -> Node? {
        self.mutex.withLock { _ in self.descriptors[file.rawValue]?.node }
    }

    /// The time of the last change, in nanoseconds since 1970.
    package var now: Int64 {
        get { self.mutex.withLock { _ in self.ticks } }
        set { self.mutex.withLock { _ in self.ticks = newValue } }
    }

    package func setFreeByteCount(_ byteCount: Int) { self.mutex.withLock { _ in self.freeByteCount = byteCount } }

    /// Gives the disk another device number, as a restart of the machine may.
    package func renumberDevice() { self.mutex.withLock { _ in self.device += 1 } }

    /// Makes a symbolic link.
    package func link(_ path: String, to target: String) {
        self.mutex.withLock { _ in
            let link = Node(.link, self.numbers, time: self.stamp(), target: target)
            self.change(self.folder(of: path), of: path, [(Path.name(of: path), link)])
        }
    }

    /// Gives a file another name.
    package func hardLink(_ path: String, to target: String) {
        self.mutex.withLock { _ in
            guard let node = self.find(target) else { preconditionFailure("nothing is at \(target)") }
            self.change(self.folder(of: path), of: path, [(Path.name(of: path), node)])
        }
    }

    /// Gives a file these bytes, as if it had always been there; makes the directories above it.
    package func place(_ path: String, _ bytes: [UInt8]) {
        self.mutex.withLock { _ in
            let node = self.find(path) ?? Node(.regular, self.numbers, time: self.stamp(), hasBirth: self.hasBirths)
            node.place(bytes)
            node.modified = self.stamp()
            self.folder(of: path).place(Path.name(of: path), node)
        }
    }

    /// The directory that holds a path, made where it is missing.
    private func folder(of path: String) -> Node {
        let parent = Path.parent(of: path)
        if let node = self.find(parent) { return node }
        let node = Node(.directory, self.numbers, time: self.stamp())
        self.folder(of: parent).place(Path.name(of: parent), node)
        return node
    }

    /// The kernel writes back everything that it holds.
    package func writeBack() {
        self.mutex.withLock { _ in self.root.visit { $0.settle() } }
    }

    /// The same disk again, as it is durable now, without open files.
    package func copy() -> MemoryDisk {
        self.mutex.withLock { _ in
            let copy = MemoryDisk(now: self.ticks, hasBirths: self.hasBirths, clock: self.clock)
            copy.root.copyDurable(from: self.root, copy.numbers)
            return copy
        }
    }

    // MARK: Failing

    /// The pages of a file, or of all, from here on are clean for the kernel and never reach the disk: a sync of it has failed.
    ///
    /// - Parameter share: how much of what was not synced the disk did take.
    package func losePages(_ file: FileID?, after share: Double) {
        self.mutex.withLock { _ in
            let node = file.map { self.descriptor($0, "synchronize").node }
            (node ?? self.root).forEachNode { $0.losePages(after: share) }
        }
    }

    /// The power fails and comes back: every open file is gone, and so is what the disk had not stored yet.
    package func crash(using generator: inout some RandomNumberGenerator) {
        self.mutex.withLock { _ in
            self.descriptors = [:]
            self.lookup = [:]
            self.root.crash(using: &generator)
        }
    }

    // MARK: Names

    func find(_ path: String) -> Node? {
        if let node = self.lookup[path] { return node }
        var node = self.root
        var isLinked = false
        for component in path.split(separator: "/") {
            guard let next = node.names[String(component)] else { return nil }
            guard let target = next.target else {
                node = next
                continue
            }
            guard let aim = self.find(target) else { return nil }
            node = aim
            isLinked = true
        }
        if !isLinked { self.lookup[path] = node }
        return node
    }

    private func found(_ path: String, _ kind: FileKind?, _ operation: String) throws(FileSystemError) -> Node {
        guard let node = self.find(path), kind == nil || node.kind == kind else {
            throw FileSystemError(operation, path: path, errno: Errno.noEntry)
        }
        return node
    }

    private func parent(of path: String, _ operation: String) throws(FileSystemError) -> Node {
        try self.found(Path.parent(of: path), .directory, operation)
    }

    /// A directory and what it calls `path`, a link included.
    private func entry(_ path: String, _ operation: String) throws(FileSystemError) -> (folder: Node, node: Node) {
        let folder = try self.parent(of: path, operation)
        guard let node = folder.names[Path.name(of: path)] else {
            throw FileSystemError(operation, path: path, errno: Errno.noEntry)
        }
        return (folder, node)
    }

    /// Changes names of the directory that holds `path`, at once.
    private func change(_ folder: Node, of path: String, _ names: [(name: String, node: Node?)]) {
        let directory = Path.parent(of: path)
        // A path through a link is not kept, and what is changed through one has another that is.
        let isDirect = self.find(directory) === folder && self.lookup[directory] === folder
        for (name, node) in names {
            // What is below a directory has other paths now.
            if !isDirect || folder.names[name]?.kind == .directory || node?.kind == .directory {
                self.lookup.removeAll(keepingCapacity: true)
            } else {
                self.lookup[Path.join(directory, name)] = nil
            }
        }
        folder.change(names)
    }

    /// What a path leads to from an open folder; a link ends the way.
    private func entry(
        _ path: String, in folder: FileID, _ operation: String
    ) throws(FileSystemError) -> Node {
        let descriptor = self.descriptor(folder, operation)
        var node = descriptor.node
        for component in path.split(separator: "/") {
            guard node.kind != .link, let next = node.names[String(component)] else {
                throw FileSystemError(
                    operation, path: Path.join(descriptor.path, path),
                    errno: node.kind == .link ? Errno.link : Errno.noEntry)
            }
            node = next
        }
        return node
    }

    private func descriptor(_ file: FileID, _ operation: String) -> Descriptor {
        guard let descriptor = self.descriptors[file.rawValue] else {
            preconditionFailure("\(operation) of a closed file")
        }
        return descriptor
    }

    // MARK: FileSystem

    package func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> FileID {
        try self.locked { () throws(FileSystemError) in
            let node: Node
            if mode == .folder {
                node = try self.entry(path, "open").node
                guard node.kind == .directory else {
                    throw FileSystemError(
                        "open", path: path, errno: node.kind == .link ? Errno.link : Errno.notADirectory)
                }
            } else if let old = self.find(path) {
                if mode == .appendNew { throw FileSystemError("open", path: path, errno: Errno.exists) }
                if mode == .replace {
                    old.cut(to: 0)
                    old.modified = self.stamp()
                }
                node = old
            } else {
                guard mode != .read else { throw FileSystemError("open", path: path, errno: Errno.noEntry) }
                let folder = try self.parent(of: path, "open")
                node = Node(.regular, self.numbers, time: self.stamp(), hasBirth: self.hasBirths)
                self.change(folder, of: path, [(Path.name(of: path), node)])
            }
            return self.opened(node, path)
        }
    }

    private func opened(_ node: Node, _ path: String) -> FileID {
        defer { self.nextDescriptor += 1 }
        if node.kind == .regular { self.openedFileCount += 1 }
        self.descriptors[self.nextDescriptor] = Descriptor(node: node, path: path)
        return FileID(rawValue: self.nextDescriptor)
    }

    /// Does nothing when the file's process has died before.
    package func close(_ file: FileID) {
        self.mutex.withLock { _ in
            guard let descriptor = self.descriptors.removeValue(forKey: file.rawValue) else { return }
            descriptor.node.locks[file.rawValue] = nil
        }
    }

    package func read(
        _ file: FileID, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(FileSystemError) -> Int {
        self.mutex.withLock { _ in
            let node = self.descriptor(file, "read").node
            guard offset < node.bytes.count, !buffer.isEmpty else { return 0 }
            let end = min(node.bytes.count, offset + buffer.count)
            node.read(offset..<end, into: buffer)
            return end - offset
        }
    }

    package func write(_ file: FileID, _ bytes: UnsafeRawBufferPointer) throws(FileSystemError) -> Int {
        try self.write(file, vector: [bytes])
    }

    package func write(_ file: FileID, vector: [UnsafeRawBufferPointer]) throws(FileSystemError) -> Int {
        self.mutex.withLock { _ in
            let node = self.descriptor(file, "write").node
            let start = node.bytes.count
            for piece in vector { node.append(piece) }
            if node.bytes.count > start { node.modified = self.stamp() }
            return node.bytes.count - start
        }
    }

    package func synchronize(_ file: FileID) throws(FileSystemError) {
        self.mutex.withLock { _ in self.descriptor(file, "synchronize").node.settle() }
    }

    package func synchronizeAll(in folder: FileID) throws(FileSystemError) -> Bool {
        self.mutex.withLock { _ in self.root.forEachNode { $0.settle() } }
        return true
    }

    package func truncate(_ file: FileID, to byteCount: Int) throws(FileSystemError) {
        self.mutex.withLock { _ in
            let node = self.descriptor(file, "truncate").node
            precondition(byteCount <= node.bytes.count, "nothing here makes a file longer")
            node.cut(to: byteCount)
            node.modified = self.stamp()
        }
    }

    package func status(_ file: FileID) throws(FileSystemError) -> FileStatus {
        self.mutex.withLock { _ in
            let node = self.descriptor(file, "status").node
            return self.status(of: node, birth: node.birth)
        }
    }

    package func status(at path: String) throws(FileSystemError) -> FileStatus? {
        self.mutex.withLock { _ in self.find(path).map { self.status(of: $0, birth: 0) } }
    }

    package func status(ofEntry path: String) throws(FileSystemError) -> FileStatus? {
        self.mutex.withLock { _ in
            let node = path == "/" ? self.root : self.find(Path.parent(of: path))?.names[Path.name(of: path)]
            return node.map { self.status(of: $0, birth: 0) }
        }
    }

    package func setPermissions(_ permissions: UInt16, of file: FileID) throws(FileSystemError) {
        self.mutex.withLock { _ in self.descriptor(file, "setPermissions").node.permissions = permissions }
    }

    private func status(of node: Node, birth: Int64) -> FileStatus {
        node.see()
        return FileStatus(
            identity: FileIdentity(device: self.device, inode: node.number), kind: node.kind,
            byteCount: node.bytes.count, modified: node.modified, birth: birth, permissions: node.permissions,
            owner: node.owner, group: node.group, linkCount: node.linkCount)
    }

    package func lock(_ file: FileID, _ mode: LockMode) throws(FileSystemError) -> Bool {
        self.mutex.withLock { _ in
            let node = self.descriptor(file, "lock").node
            let isFree = node.locks.allSatisfy { $0 == file.rawValue || $1 == .shared && mode == .shared }
            if isFree { node.locks[file.rawValue] = mode }
            return isFree
        }
    }

    package func rename(_ path: String, to newPath: String) throws(FileSystemError) {
        try self.locked { () throws(FileSystemError) in
            let (folder, node) = try self.entry(path, "rename")
            let newFolder = try self.parent(of: newPath, "rename")
            let (name, newName) = (Path.name(of: path), Path.name(of: newPath))
            if folder === newFolder {
                self.change(folder, of: path, [(name, nil), (newName, node)])
            } else {
                self.change(newFolder, of: newPath, [(newName, node)])
                self.change(folder, of: path, [(name, nil)])
            }
        }
    }

    package func exchange(_ path: String, with otherPath: String) throws(FileSystemError) {
        try self.locked { () throws(FileSystemError) in
            let (first, second) = (try self.entry(path, "exchange"), try self.entry(otherPath, "exchange"))
            let (name, otherName) = (Path.name(of: path), Path.name(of: otherPath))
            if first.folder === second.folder {
                self.change(first.folder, of: path, [(name, second.node), (otherName, first.node)])
            } else {
                self.change(first.folder, of: path, [(name, second.node)])
                self.change(second.folder, of: otherPath, [(otherName, first.node)])
                for folder in [first.folder, second.folder] { folder.settle() }
            }
        }
    }

    package func unlink(_ path: String) throws(FileSystemError) {
        try self.locked { () throws(FileSystemError) in
            self.change(try self.entry(path, "unlink").folder, of: path, [(Path.name(of: path), nil)])
        }
    }

    package func createDirectory(_ path: String) throws(FileSystemError) {
        try self.locked { () throws(FileSystemError) in
            let folder = try self.parent(of: path, "createDirectory")
            guard folder.names[Path.name(of: path)] == nil else { return }
            let node = Node(.directory, self.numbers, time: self.stamp())
            self.change(folder, of: path, [(Path.name(of: path), node)])
        }
    }

    package func removeDirectory(_ path: String) throws(FileSystemError) {
        try self.locked { () throws(FileSystemError) in
            let (folder, node) = try self.entry(path, "removeDirectory")
            if !node.names.isEmpty { throw FileSystemError("removeDirectory", path: path, errno: Errno.notEmpty) }
            self.change(folder, of: path, [(Path.name(of: path), nil)])
        }
    }

    package func list(_ path: String) throws(FileSystemError) -> [String] {
        try self.locked { () throws(FileSystemError) in
            try self.found(path, .directory, "list").names.keys.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        }
    }

    package func synchronizeDirectory(_ path: String) throws(FileSystemError) {
        try self.locked { () throws(FileSystemError) in
            try self.found(path, .directory, "synchronizeDirectory").settle()
        }
    }

    package func space(at path: String) throws(FileSystemError) -> DiskSpace {
        self.mutex.withLock { _ in DiskSpace(freeByteCount: self.freeByteCount, totalByteCount: 1 << 40) }
    }

    // MARK: In an open folder

    package func open(_ path: String, in folder: FileID) throws(FileSystemError) -> FileID {
        try self.locked { () throws(FileSystemError) in
            let node = try self.entry(path, in: folder, "open")
            let whole = Path.join(self.descriptor(folder, "open").path, path)
            if node.kind == .link { throw FileSystemError("open", path: whole, errno: Errno.link) }
            return self.opened(node, whole)
        }
    }

    package func status(of name: String, in folder: FileID) throws(FileSystemError) -> FileStatus? {
        self.mutex.withLock { _ in
            self.descriptor(folder, "status").node.names[name].map { self.status(of: $0, birth: 0) }
        }
    }

    package func rename(_ name: String, to newName: String, in folder: FileID) throws(FileSystemError) {
        try self.locked { () throws(FileSystemError) in
            let node = try self.entry(name, in: folder, "rename")
            let descriptor = self.descriptor(folder, "rename")
            self.change(descriptor.node, of: Path.join(descriptor.path, name), [(name, nil), (newName, node)])
        }
    }

    package func unlink(_ name: String, in folder: FileID) throws(FileSystemError) {
        try self.locked { () throws(FileSystemError) in
            _ = try self.entry(name, in: folder, "unlink")
            let descriptor = self.descriptor(folder, "unlink")
            self.change(descriptor.node, of: Path.join(descriptor.path, name), [(name, nil)])
        }
    }
}
