import WaybillSystem

/// A disk in memory that loses what was not synced, in the ways real ones do.
///
/// Every file has the bytes that processes see and the bytes that are durable; every folder has its names likewise,
/// and the changes to them since it was last synced, in order. ``crash(seed:)`` is the power cut: each folder keeps some
/// of those changes, from the first on; each file keeps its durable bytes and of the rest nothing, a beginning, a
/// beginning with zeros or garbage behind it, all with a hole, or all. Syncing a file does not make its name durable,
/// and a folder does not vouch for its parent. After a failed sync the kernel calls the pages clean: what they held is
/// readable until the crash and zeros after it, whatever a later sync says.
///
/// `@unchecked Sendable` without a lock: a test drives one from one thread.
final class CrashFileSystem: FileSystem, @unchecked Sendable {
    /// What a call does instead of its work.
    enum Fault: Hashable {
        /// It fails. A sync that fails drops the pages.
        case error(Int32)
        /// A write stores half and says so; other calls work.
        case short
        /// A write stores half and fails; other calls fail.
        case half(Int32)
    }

    private final class Node {
        let number: UInt64
        let kind: FileKind
        var bytes: [UInt8] = []
        var durable: [UInt8] = []
        /// Bytes before it are the same in ``bytes`` and ``durable``.
        var commonCount = 0
        /// Ranges whose pages a failed sync has dropped.
        var dropped: [Range<Int>] = []
        var names: [String: Node] = [:]
        var durableNames: [String: Node] = [:]
        /// Changes to ``names`` since the folder was synced.
        var changes: [[String: Node?]] = []
        var modified: Int64 = 0
        var lockOwner: Int32?

        init(number: UInt64, kind: FileKind) {
            self.number = number
            self.kind = kind
        }
    }

    private struct Descriptor {
        let node: Node
        let path: String
    }

    private let root = Node(number: 2, kind: .directory)
    private var descriptors: [Int32: Descriptor] = [:]
    private var nextDescriptor: Int32 = 3
    private var nextNode: UInt64 = 3
    private var faults: [Int: Fault] = [:]
    private var stopCall = Int.max
    private var random: (generator: SeededGenerator, perMille: Int)?
    /// Calls that can fail, since the disk was made.
    private(set) var callCount = 0
    /// Faults that struck.
    private(set) var faultCount = 0
    /// What files say of their last change, in nanoseconds since 1970.
    var now: Int64 = 1_790_000_000_000_000_000

    init() {}

    // MARK: For tests

    var openDescriptorCount: Int { self.descriptors.count }

    /// Whether the power is out: every call fails until ``crash(seed:)`` or ``kill()``.
    var isStopped: Bool { self.callCount >= self.stopCall }

    /// Puts a fault on the `number`th call from now on; 1 is the next.
    func fail(call number: Int, _ fault: Fault) {
        self.faults[self.callCount + number] = fault
    }

    /// Cuts the power in the middle of the `number`th call from now on.
    func stop(atCall number: Int) {
        self.stopCall = self.callCount + number
    }

    /// Makes calls that change something fail at random, so many of a thousand; 0 ends it.
    func failAtRandom(seed: UInt64, perMille: Int) {
        self.random = perMille > 0 ? (SeededGenerator(seed: seed), perMille) : nil
    }

    func clearFaults() {
        self.faults = [:]
        self.random = nil
        self.stopCall = .max
    }

    /// The process dies; the kernel and its pages live on.
    func kill() {
        self.descriptors = [:]
        self.clearFaults()
        self.visit(self.root) { $0.lockOwner = nil }
    }

    /// The power fails and comes back.
    func crash(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        self.kill()
        self.crash(self.root, &generator)
    }

    /// A file's bytes; `nil` when nothing is there.
    func bytes(of path: String) -> [UInt8]? {
        guard let node = self.find(path), node.kind == .regular else { return nil }
        return node.bytes
    }

    /// Puts a file there as if it had always been.
    func place(_ path: String, _ bytes: [UInt8]) {
        guard let parent = self.find(Path.parent(of: path)) else { preconditionFailure("no folder for \(path)") }
        let node = self.find(path) ?? self.makeNode(.regular)
        node.bytes = bytes
        node.durable = bytes
        node.commonCount = bytes.count
        node.dropped = []
        parent.names[Path.name(of: path)] = node
        parent.durableNames[Path.name(of: path)] = node
    }

    /// Every file below `path`, by its whole path.
    func tree(_ path: String) -> [String: [UInt8]] {
        guard let node = self.find(path) else { return [:] }
        if node.kind == .regular { return [path: node.bytes] }
        var result: [String: [UInt8]] = [:]
        for name in node.names.keys { result.merge(self.tree(Path.join(path, name))) { first, _ in first } }
        return result
    }

    // MARK: Crashing

    private func visit(_ node: Node, _ body: (Node) -> Void) {
        body(node)
        for child in node.names.values { self.visit(child, body) }
    }

    private func crash(_ node: Node, _ generator: inout SeededGenerator) {
        switch node.kind {
        case .regular, .other:
            node.bytes = Self.survivors(of: node, &generator)
            node.durable = node.bytes
            node.commonCount = node.bytes.count
            node.dropped = []
        case .directory:
            var names = node.durableNames
            for change in node.changes.prefix(Int.random(in: 0...node.changes.count, using: &generator)) {
                for (name, child) in change { names[name] = child }
            }
            node.names = names
            node.durableNames = names
            node.changes = []
            // Sorted, so that a seed gives the same crash every time.
            for (_, child) in names.sorted(by: { $0.key < $1.key }) { self.crash(child, &generator) }
        }
    }

    private static func survivors(of node: Node, _ generator: inout SeededGenerator) -> [UInt8] {
        var bytes = node.bytes
        for range in node.dropped {
            for index in range.clamped(to: 0..<bytes.count) { bytes[index] = 0 }
        }
        let common = node.commonCount
        if bytes.count == common, node.durable.count == common { return bytes }
        let kept = Int.random(in: common...bytes.count, using: &generator)
        switch UInt8.random(in: 0..<6, using: &generator) {
        case 0: return node.durable
        case 1: return bytes
        case 2: return Array(bytes[..<kept])
        case 3: return bytes[..<kept] + [UInt8](repeating: 0, count: bytes.count - kept)
        case 4:
            return bytes[..<kept] + (kept..<bytes.count).map { _ in UInt8.random(in: 0...255, using: &generator) }
        default:
            for index in kept..<min(bytes.count, kept + 64) { bytes[index] = 0 }
            return bytes
        }
    }

    // MARK: Names

    private func makeNode(_ kind: FileKind) -> Node {
        defer { self.nextNode += 1 }
        return Node(number: self.nextNode, kind: kind)
    }

    private func find(_ path: String) -> Node? {
        var node = self.root
        for component in path.split(separator: "/") {
            guard let next = node.names[String(component)] else { return nil }
            node = next
        }
        return node
    }

    private func parent(of path: String, _ operation: String) throws(FileSystemError) -> Node {
        guard let node = self.find(Path.parent(of: path)), node.kind == .directory else {
            throw FileSystemError(operation, path: path, errno: SystemErrorText.noEntry)
        }
        return node
    }

    private func change(_ folder: Node, _ names: [String: Node?]) {
        for (name, node) in names { folder.names[name] = node }
        folder.changes.append(names)
    }

    // MARK: Faults

    /// Counts a call that can fail, and fails it when its turn has come.
    ///
    /// - Returns: whether a write stores half only, and what it throws after it.
    private func count(
        _ operation: String, _ path: String, changes: Bool = true
    ) throws(FileSystemError) -> (isHalf: Bool, errno: Int32?) {
        let isStopped = self.isStopped
        self.callCount += 1
        if isStopped { throw FileSystemError(operation, path: path, errno: SystemErrorText.inputOutput) }
        var fault = self.faults[self.callCount]
        if self.isStopped { fault = .half(SystemErrorText.inputOutput) }
        if fault == nil, changes, var random = self.random {
            if Int.random(in: 0..<1000, using: &random.generator) < random.perMille {
                let faults: [Fault] = [
                    .error(SystemErrorText.inputOutput), .error(SystemErrorText.noSpace), .short,
                    .half(SystemErrorText.noSpace), .half(SystemErrorText.inputOutput),
                ]
                fault = faults.randomElement(using: &random.generator)
            }
            self.random = random
        }
        guard let fault else { return (false, nil) }
        self.faultCount += 1
        switch fault {
        case .short: return (true, nil)
        case .half(let errno) where operation == "write" || operation == "synchronize": return (true, errno)
        case .half(let errno), .error(let errno):
            if operation == "synchronize" { return (false, errno) }
            throw FileSystemError(operation, path: path, errno: errno)
        }
    }

    private func descriptor(_ file: FileID, _ operation: String) -> Descriptor {
        guard let descriptor = self.descriptors[file.rawValue] else {
            preconditionFailure("\(operation) of a closed file")
        }
        return descriptor
    }
}

// MARK: - FileSystem

extension CrashFileSystem {
    func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> FileID {
        _ = try self.count("open", path, changes: mode != .read)
        var node = self.find(path)
        if mode == .read, node == nil {
            throw FileSystemError("open", path: path, errno: SystemErrorText.noEntry)
        }
        if mode == .appendNew, node != nil {
            throw FileSystemError("open", path: path, errno: SystemErrorText.exists)
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
        bytes.withUnsafeBytes { buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[offset..<(offset + count)])) }
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
            node.dropped.append(start..<node.bytes.count)
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
            throw FileSystemError("rename", path: path, errno: SystemErrorText.noEntry)
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
        guard parent === other, let first = parent.names[Path.name(of: path)],
            let second = parent.names[Path.name(of: otherPath)]
        else { throw FileSystemError("exchange", path: path, errno: SystemErrorText.noEntry) }
        self.change(parent, [Path.name(of: path): second, Path.name(of: otherPath): first])
    }

    func unlink(_ path: String) throws(FileSystemError) {
        _ = try self.count("unlink", path)
        let parent = try self.parent(of: path, "unlink")
        guard parent.names[Path.name(of: path)] != nil else {
            throw FileSystemError("unlink", path: path, errno: SystemErrorText.noEntry)
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
            throw FileSystemError("removeDirectory", path: path, errno: SystemErrorText.notEmpty)
        }
        self.change(try self.parent(of: path, "removeDirectory"), [Path.name(of: path): nil])
    }

    func list(_ path: String) throws(FileSystemError) -> [String] {
        _ = try self.count("list", path, changes: false)
        guard let node = self.find(path), node.kind == .directory else {
            throw FileSystemError("list", path: path, errno: SystemErrorText.noEntry)
        }
        return node.names.keys.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }

    func synchronizeDirectory(_ path: String) throws(FileSystemError) {
        _ = try self.count("synchronizeDirectory", path)
        guard let node = self.find(path), node.kind == .directory else {
            throw FileSystemError("synchronizeDirectory", path: path, errno: SystemErrorText.noEntry)
        }
        node.durableNames = node.names
        node.changes = []
    }

    func space(at path: String) throws(FileSystemError) -> DiskSpace {
        DiskSpace(freeByteCount: 1 << 40, totalByteCount: 1 << 40)
    }
}
