import WaybillSystem

/// The calls, each of which can fail but for closing.
extension CrashFileSystem {
    func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> FileID {
        _ = try self.count("open", path, changes: mode != .read)
        var node = self.find(path)
        if mode == .read, node == nil {
            throw FileSystemError("open", path: path, errno: Errno.noEntry)
        }
        if mode == .appendNew, node != nil {
            throw FileSystemError("open", path: path, errno: Errno.exists)
        }
        if node == nil {
            let new = self.makeNode(.regular)
            new.modified = self.now
            self.change(try self.parent(of: path, "open"), [Path.name(of: path): new])
            node = new
        }
        guard let node else { preconditionFailure("a node is here") }
        if mode == .replace {
            node.bytes = []
            node.commonCount = 0
            node.dropped = []
        }
        defer { self.nextDescriptor += 1 }
        self.descriptors[self.nextDescriptor] = Descriptor(node: node, path: path)
        return FileID(rawValue: self.nextDescriptor)
    }

    func close(_ file: FileID) {
        // After a crash the process is gone, and what its values still close is none of the new one's.
        guard let descriptor = self.descriptors.removeValue(forKey: file.rawValue) else { return }
        if descriptor.node.lockOwner == file.rawValue { descriptor.node.lockOwner = nil }
    }

    func read(
        _ file: FileID, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(FileSystemError) -> Int {
        let descriptor = self.descriptor(file, "read")
        _ = try self.count("read", descriptor.path, changes: false)
        let bytes = descriptor.node.bytes
        guard offset < bytes.count else { return 0 }
        let count = min(buffer.count, bytes.count - offset)
        bytes.withUnsafeBytes { bytes in
            buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[offset..<(offset + count)]))
        }
        return count
    }

    func write(_ file: FileID, _ bytes: UnsafeRawBufferPointer) throws(FileSystemError) -> Int {
        try self.write(file, vector: [bytes])
    }

    func write(_ file: FileID, vector: [UnsafeRawBufferPointer]) throws(FileSystemError) -> Int {
        let descriptor = self.descriptor(file, "write")
        let (isHalf, errno) = try self.count("write", descriptor.path)
        let whole = vector.reduce(0) { $0 + $1.count }
        // A short write that stores nothing would be an error; a failed one may well.
        let count = isHalf ? (errno == nil ? max(1, whole / 2) : whole / 2) : whole
        var rest = min(count, whole)
        for piece in vector where rest > 0 {
            descriptor.node.bytes.append(contentsOf: piece.prefix(rest))
            rest -= min(rest, piece.count)
        }
        descriptor.node.modified = self.now
        if let errno { throw FileSystemError("write", path: descriptor.path, errno: errno) }
        return min(count, whole)
    }

    func synchronize(_ file: FileID) throws(FileSystemError) {
        let descriptor = self.descriptor(file, "synchronize")
        let (isHalf, errno) = try self.count("synchronize", descriptor.path)
        let node = descriptor.node
        if let errno {
            // A process that dies in the call learns nothing of the disk's errors, and there was none.
            guard !self.isStopped else { throw FileSystemError("synchronize", path: descriptor.path, errno: errno) }
            let start = isHalf ? (node.commonCount + node.bytes.count) / 2 : node.commonCount
            if start < node.bytes.count { node.dropped.append(start..<node.bytes.count) }
            throw FileSystemError("synchronize", path: descriptor.path, errno: errno)
        }
        node.durable = node.bytes
        for range in node.dropped {
            for index in range.clamped(to: 0..<node.durable.count) { node.durable[index] = 0 }
        }
        node.commonCount = node.bytes.count
    }

    func truncate(_ file: FileID, to byteCount: Int) throws(FileSystemError) {
        let descriptor = self.descriptor(file, "truncate")
        _ = try self.count("truncate", descriptor.path)
        let node = descriptor.node
        precondition(byteCount <= node.bytes.count, "nothing here makes a file longer")
        node.bytes.removeLast(node.bytes.count - byteCount)
        node.commonCount = min(node.commonCount, byteCount)
        node.dropped = node.dropped.map { $0.clamped(to: 0..<byteCount) }.filter { !$0.isEmpty }
    }

    func status(_ file: FileID) throws(FileSystemError) -> FileStatus {
        let descriptor = self.descriptor(file, "status")
        _ = try self.count("status", descriptor.path, changes: false)
        return self.status(of: descriptor.node)
    }

    func status(at path: String) throws(FileSystemError) -> FileStatus? {
        _ = try self.count("status", path, changes: false)
        return self.find(path).map(self.status(of:))
    }

    private func status(of node: Node) -> FileStatus {
        FileStatus(
            identity: FileIdentity(device: 1, inode: node.number), kind: node.kind, byteCount: node.bytes.count,
            modified: node.modified, birth: 0)
    }

    func lock(_ file: FileID, _ mode: LockMode) throws(FileSystemError) -> Bool {
        let descriptor = self.descriptor(file, "lock")
        _ = try self.count("lock", descriptor.path, changes: false)
        if let owner = descriptor.node.lockOwner, owner != file.rawValue { return false }
        descriptor.node.lockOwner = file.rawValue
        return true
    }

    func rename(_ path: String, to newPath: String) throws(FileSystemError) {
        _ = try self.count("rename", path)
        let (parent, newParent) = (try self.parent(of: path, "rename"), try self.parent(of: newPath, "rename"))
        guard let node = parent.names[Path.name(of: path)] else {
            throw FileSystemError("rename", path: path, errno: Errno.noEntry)
        }
        if parent === newParent {
            self.change(parent, [Path.name(of: path): nil, Path.name(of: newPath): node])
        } else {
            self.change(newParent, [Path.name(of: newPath): node])
            self.change(parent, [Path.name(of: path): nil])
        }
    }

    func exchange(_ path: String, with otherPath: String) throws(FileSystemError) {
        _ = try self.count("exchange", path)
        let (parent, other) = (try self.parent(of: path, "exchange"), try self.parent(of: otherPath, "exchange"))
        guard let first = parent.names[Path.name(of: path)], let second = other.names[Path.name(of: otherPath)] else {
            throw FileSystemError("exchange", path: path, errno: Errno.noEntry)
        }
        if parent === other {
            self.change(parent, [Path.name(of: path): second, Path.name(of: otherPath): first])
        } else {
            self.change(parent, [Path.name(of: path): second])
            self.change(other, [Path.name(of: otherPath): first])
            // One transaction of the disk's journal, which carries what came before: both names change, or none.
            for folder in [parent, other] {
                folder.durableNames = folder.names
                folder.changes = []
            }
        }
    }

    func unlink(_ path: String) throws(FileSystemError) {
        _ = try self.count("unlink", path)
        let parent = try self.parent(of: path, "unlink")
        guard parent.names[Path.name(of: path)] != nil else {
            throw FileSystemError("unlink", path: path, errno: Errno.noEntry)
        }
        self.change(parent, [Path.name(of: path): nil])
    }

    func createDirectory(_ path: String) throws(FileSystemError) {
        _ = try self.count("createDirectory", path)
        let parent = try self.parent(of: path, "createDirectory")
        if parent.names[Path.name(of: path)] == nil {
            self.change(parent, [Path.name(of: path): self.makeNode(.directory)])
        }
    }

    func removeDirectory(_ path: String) throws(FileSystemError) {
        _ = try self.count("removeDirectory", path)
        guard let node = self.find(path), node.names.isEmpty else {
            throw FileSystemError("removeDirectory", path: path, errno: Errno.notEmpty)
        }
        self.change(try self.parent(of: path, "removeDirectory"), [Path.name(of: path): nil])
    }

    func list(_ path: String) throws(FileSystemError) -> [String] {
        _ = try self.count("list", path, changes: false)
        guard let node = self.find(path), node.kind == .directory else {
            throw FileSystemError("list", path: path, errno: Errno.noEntry)
        }
        return node.names.keys.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }

    func synchronizeDirectory(_ path: String) throws(FileSystemError) {
        _ = try self.count("synchronizeDirectory", path)
        guard let node = self.find(path), node.kind == .directory else {
            throw FileSystemError("synchronizeDirectory", path: path, errno: Errno.noEntry)
        }
        node.durableNames = node.names
        node.changes = []
    }

    func space(at path: String) throws(FileSystemError) -> DiskSpace {
        DiskSpace(freeByteCount: 1 << 40, totalByteCount: 1 << 40)
    }
}
