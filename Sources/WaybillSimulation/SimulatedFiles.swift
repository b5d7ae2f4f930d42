internal import WaybillSystem

/// The disk as one process sees it: its calls can fail, and it can die in any of them.
///
/// `@unchecked Sendable`: a life runs on one thread.
final class SimulatedFiles: FileSystem, @unchecked Sendable {
    let disk: SimulatedDisk
    let bugs: Set<PlantedBug>
    private(set) var isDead = false
    /// The process dies in so many changing calls from now.
    private var countdown: Int?
    private var recording: (path: String, bytes: [UInt8])?

    init(_ disk: SimulatedDisk, bugs: Set<PlantedBug> = []) {
        self.disk = disk
        self.bugs = bugs
    }

    private var owner: ObjectIdentifier { ObjectIdentifier(self) }

    func die(inCalls count: Int) {
        self.countdown = count
    }

    func die() {
        guard !self.isDead else { return }
        self.isDead = true
        self.disk.closeAll(of: self.owner)
    }

    /// From now on what is written is kept for ``recorded()``.
    func record() {
        self.recording = ("", [])
    }

    /// What was written since ``record()``, and the last path that it was written to.
    func recorded() -> (path: String, bytes: [UInt8]) {
        defer { self.recording = nil }
        return self.recording ?? ("", [])
    }

    private enum Fate: Equatable {
        case good
        /// A write stores a part only.
        case short
        /// Nothing of it happens.
        case error(Int32)
        /// A part of it happens, then the error.
        case half(Int32)
    }

    /// What becomes of a call that changes something; a process that dies in it does so before, in the middle or after.
    private func fate(_ operation: String, _ path: String, isWrite: Bool = false) throws(FileSystemError) -> Fate {
        try self.requireLife(operation, path)
        let dead = Errno.inputOutput
        if let countdown {
            self.countdown = countdown - 1
            if countdown <= 1 {
                self.countdown = nil
                defer { self.isDying = true }
                switch self.disk.dice.int(0..<3) {
                case 0: return .error(dead)
                case 1: return .half(dead)
                default: return .good
                }
            }
        }
        if isWrite, self.disk.isFull {
            // The last room is used up; the next call finds none.
            return self.disk.dice.chance(700) ? .error(Errno.noSpace) : .short
        }
        if operation == "synchronize", self.disk.dice.chance(self.disk.syncErrorPerMille) {
            return self.disk.dice.chance(500) ? .error(Errno.inputOutput) : .half(Errno.inputOutput)
        }
        if self.disk.dice.chance(self.disk.errorPerMille) {
            return self.disk.dice.chance(500) ? .error(Errno.inputOutput) : .half(Errno.inputOutput)
        }
        if isWrite, self.disk.dice.chance(self.disk.shortWritePerMille) { return .short }
        return .good
    }

    /// Set while the call in which the process dies is carried out.
    private var isDying = false

    private func requireLife(_ operation: String, _ path: String) throws(FileSystemError) {
        if self.isDead { throw FileSystemError(operation, path: path, errno: Errno.inputOutput) }
    }

    private func end(_ operation: String, _ path: String, _ fate: Fate) throws(FileSystemError) {
        if self.isDying {
            self.die()
            throw FileSystemError(operation, path: path, errno: Errno.inputOutput)
        }
        switch fate {
        case .error(let errno), .half(let errno): throw FileSystemError(operation, path: path, errno: errno)
        case .good, .short: break
        }
    }

    /// Carries a change out, unless its fate is to fail before.
    private func perform(_ operation: String, _ path: String, _ body: () -> Int32?) throws(FileSystemError) {
        let fate = try self.fate(operation, path)
        if case .error = fate { return try self.end(operation, path, fate) }
        if let errno = body() {
            self.isDying = false
            throw FileSystemError(operation, path: path, errno: errno)
        }
        // A name either changes or it does not; an error may come all the same.
        try self.end(operation, path, fate)
    }

    private func descriptor(_ file: FileID, _ operation: String) throws(FileSystemError) -> SimulatedDisk.Descriptor {
        guard let descriptor = self.disk.descriptors[file.rawValue] else {
            guard self.isDead else { preconditionFailure("\(operation) of a closed file") }
            throw FileSystemError(operation, path: "", errno: Errno.inputOutput)
        }
        return descriptor
    }

    // MARK: Files

    func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> FileID {
        try self.requireLife("open", path)
        if let node = self.disk.find(path) {
            guard mode != .appendNew else {
                throw FileSystemError("open", path: path, errno: Errno.exists)
            }
            if mode == .replace {
                try self.perform("open", path) {
                    node.cut(to: 0)
                    node.modified = self.disk.clock.fileTime
                    return nil
                }
            }
            return self.disk.open(node, path, owner: self.owner)
        }
        guard mode != .read, let parent = self.disk.parent(of: path) else {
            throw FileSystemError("open", path: path, errno: Errno.noEntry)
        }
        var made: SimulatedDisk.Node?
        try self.perform("open", path) {
            if self.disk.isFull { return Errno.noSpace }
            let node = self.disk.make(.regular)
            self.disk.change(parent, in: Path.parent(of: path), [(Path.name(of: path), node)])
            made = node
            return nil
        }
        guard let made else { throw FileSystemError("open", path: path, errno: Errno.inputOutput) }
        return self.disk.open(made, path, owner: self.owner)
    }

    func close(_ file: FileID) {
        // Values of a dead process still close what died with it.
        guard let descriptor = self.disk.descriptors[file.rawValue], descriptor.owner == self.owner else { return }
        self.disk.close(file.rawValue)
    }

    func read(
        _ file: FileID, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(FileSystemError) -> Int {
        let descriptor = try self.descriptor(file, "read")
        let bytes = descriptor.node.bytes
        guard offset < bytes.count, !buffer.isEmpty else { return 0 }
        descriptor.node.readEnd = max(descriptor.node.readEnd, min(bytes.count, offset + buffer.count))
        var count = min(buffer.count, bytes.count - offset)
        if count > 1, self.disk.dice.chance(self.disk.shortWritePerMille) { count = self.disk.dice.int(1...count) }
        bytes.withUnsafeBytes { bytes in
            buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[offset..<(offset + count)]))
        }
        return count
    }

    func write(_ file: FileID, _ bytes: UnsafeRawBufferPointer) throws(FileSystemError) -> Int {
        try self.write(file, vector: [bytes])
    }

    func write(_ file: FileID, _ bytes: ArraySlice<UInt8>) throws(FileSystemError) -> Int {
        try bytes.withUnsafeBufferPointer { (buffer) throws(FileSystemError) in
            try self.write(file, UnsafeRawBufferPointer(buffer))
        }
    }

    func write(_ file: FileID, vector: [UnsafeRawBufferPointer]) throws(FileSystemError) -> Int {
        let descriptor = try self.descriptor(file, "write")
        let fate = try self.fate("write", descriptor.path, isWrite: true)
        let whole = vector.reduce(0) { $0 + $1.count }
        guard whole > 0 else { return 0 }
        var count = whole
        switch fate {
        case .good: break
        case .short: count = self.disk.dice.int(1...whole)
        case .half: count = self.disk.dice.int(0...(self.disk.failsAfterWrites || self.isDying ? whole : whole - 1))
        case .error: count = 0
        }
        let start = descriptor.node.bytes.count
        var rest = count
        for piece in vector where rest > 0 {
            descriptor.node.bytes.append(contentsOf: piece.prefix(rest))
            rest -= min(rest, piece.count)
        }
        if self.bugs.contains(.countInsteadOfCompare), descriptor.path.contains("/archive/") {
            descriptor.node.doubleALine(from: start)
        }
        if self.recording != nil, !descriptor.path.contains("/install.json") {
            self.recording?.path = descriptor.path
            self.recording?.bytes += descriptor.node.bytes[start...]
        }
        if count > 0 { descriptor.node.modified = self.disk.clock.fileTime }
        if self.bugs.contains(.trustFailedWrites), !self.isDying { return whole }
        try self.end("write", descriptor.path, fate)
        return self.bugs.contains(.trustShortWrites) ? whole : count
    }

    func synchronize(_ file: FileID) throws(FileSystemError) {
        let descriptor = try self.descriptor(file, "synchronize")
        if self.skipsSync(descriptor.path) { return }
        let fate = try self.fate("synchronize", descriptor.path)
        let node = descriptor.node
        switch fate {
        case .good, .short: node.makeDurable()
        case .error, .half:
            // Who dies in the call learns nothing of the disk; for all others the pages are clean and lost.
            if !self.isDying, node.commonCount < node.bytes.count {
                let start =
                    if case .half = fate { (node.commonCount + node.bytes.count) / 2 } else { node.commonCount }
                node.dropped.append(start..<node.bytes.count)
                if self.bugs.contains(.trustFailedSync) { return }
            }
        }
        try self.end("synchronize", descriptor.path, fate)
    }

    private func skipsSync(_ path: String) -> Bool {
        if self.bugs.contains(.skipJournalSync), path.contains("/journal/") { return true }
        if self.bugs.contains(.skipSealSync), path.hasSuffix(".gz.tmp") { return true }
        return self.bugs.contains(.checkpointBeforeData) && path.contains("/archive/")
    }

    func truncate(_ file: FileID, to byteCount: Int) throws(FileSystemError) {
        let descriptor = try self.descriptor(file, "truncate")
        if self.bugs.contains(.keepTails), descriptor.path.contains("/archive/") { return }
        try self.perform("truncate", descriptor.path) {
            precondition(byteCount <= descriptor.node.bytes.count, "nothing here makes a file longer")
            descriptor.node.cut(to: byteCount)
            descriptor.node.modified = self.disk.clock.fileTime
            return nil
        }
    }

    func status(_ file: FileID) throws(FileSystemError) -> FileStatus {
        Self.status(of: try self.descriptor(file, "status").node, isOpen: true)
    }

    func status(at path: String) throws(FileSystemError) -> FileStatus? {
        try self.requireLife("status", path)
        if self.bugs.contains(.forgetSeals), path.hasSuffix("/manifest.json") || path.hasSuffix(".gz") { return nil }
        return self.disk.find(path).map { Self.status(of: $0, isOpen: false) }
    }

    private static func status(of node: SimulatedDisk.Node, isOpen: Bool) -> FileStatus {
        FileStatus(
            identity: FileIdentity(device: 1, inode: node.number), kind: node.kind, byteCount: node.bytes.count,
            modified: node.modified, birth: isOpen ? node.birth : 0)
    }

    func lock(_ file: FileID, _ mode: LockMode) throws(FileSystemError) -> Bool {
        let node = try self.descriptor(file, "lock").node
        let others = node.sharedLocks.subtracting([file.rawValue])
        if self.bugs.contains(.ignoreLocks) { return true }
        if let owner = node.exclusiveLock, owner != file.rawValue { return false }
        if mode == .exclusive {
            guard others.isEmpty else { return false }
            node.sharedLocks = []
            node.exclusiveLock = file.rawValue
        } else {
            node.exclusiveLock = nil
            node.sharedLocks.insert(file.rawValue)
        }
        return true
    }

    // MARK: Names

    func rename(_ path: String, to newPath: String) throws(FileSystemError) {
        try self.perform("rename", path) {
            guard let parent = self.disk.parent(of: path), let newParent = self.disk.parent(of: newPath),
                let node = parent.names[Path.name(of: path)]
            else { return Errno.noEntry }
            if parent === newParent {
                self.disk.change(
                    parent, in: Path.parent(of: path), [(Path.name(of: path), nil), (Path.name(of: newPath), node)])
            } else {
                self.disk.change(newParent, in: Path.parent(of: newPath), [(Path.name(of: newPath), node)])
                self.disk.change(parent, in: Path.parent(of: path), [(Path.name(of: path), nil)])
            }
            return nil
        }
    }

    func exchange(_ path: String, with otherPath: String) throws(FileSystemError) {
        try self.perform("exchange", path) {
            guard let parent = self.disk.parent(of: path), let other = self.disk.parent(of: otherPath),
                let first = parent.names[Path.name(of: path)], let second = other.names[Path.name(of: otherPath)]
            else { return Errno.noEntry }
            if parent === other {
                self.disk.change(
                    parent, in: Path.parent(of: path),
                    [(Path.name(of: path), second), (Path.name(of: otherPath), first)])
            } else {
                self.disk.change(parent, in: Path.parent(of: path), [(Path.name(of: path), second)])
                self.disk.change(other, in: Path.parent(of: otherPath), [(Path.name(of: otherPath), first)])
            }
            return nil
        }
    }

    func unlink(_ path: String) throws(FileSystemError) {
        try self.perform("unlink", path) {
            guard let parent = self.disk.parent(of: path), parent.names[Path.name(of: path)] != nil else {
                return Errno.noEntry
            }
            self.disk.change(parent, in: Path.parent(of: path), [(Path.name(of: path), nil)])
            return nil
        }
    }

    func createDirectory(_ path: String) throws(FileSystemError) {
        try self.requireLife("createDirectory", path)
        guard let parent = self.disk.parent(of: path) else {
            throw FileSystemError("createDirectory", path: path, errno: Errno.noEntry)
        }
        guard parent.names[Path.name(of: path)] == nil else { return }
        try self.perform("createDirectory", path) {
            if self.disk.isFull { return Errno.noSpace }
            self.disk.change(parent, in: Path.parent(of: path), [(Path.name(of: path), self.disk.make(.directory))])
            return nil
        }
    }

    func removeDirectory(_ path: String) throws(FileSystemError) {
        try self.perform("removeDirectory", path) {
            guard let parent = self.disk.parent(of: path), let node = parent.names[Path.name(of: path)] else {
                return Errno.noEntry
            }
            guard node.names.isEmpty else { return Errno.notEmpty }
            self.disk.change(parent, in: Path.parent(of: path), [(Path.name(of: path), nil)])
            return nil
        }
    }

    func list(_ path: String) throws(FileSystemError) -> [String] {
        try self.requireLife("list", path)
        guard let node = self.disk.find(path), node.kind == .directory else {
            throw FileSystemError("list", path: path, errno: Errno.noEntry)
        }
        // All names here are ASCII.
        return node.names.keys.sorted()
    }

    func synchronizeDirectory(_ path: String) throws(FileSystemError) {
        if self.bugs.contains(.skipDirectorySync) { return }
        try self.perform("synchronizeDirectory", path) {
            guard let node = self.disk.find(path) else { return Errno.noEntry }
            self.disk.makeDurable(node)
            return nil
        }
    }

    func space(at path: String) throws(FileSystemError) -> DiskSpace {
        DiskSpace(freeByteCount: self.disk.isFull ? 0 : 1 << 40, totalByteCount: 1 << 40)
    }
}
