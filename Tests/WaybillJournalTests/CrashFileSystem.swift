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

    final class Node {
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

    struct Descriptor {
        let node: Node
        let path: String
    }

    let root = Node(number: 2, kind: .directory)
    var descriptors: [Int32: Descriptor] = [:]
    var nextDescriptor: Int32 = 3
    private var nextNode: UInt64 = 3
    private var faults: [Int: Fault] = [:]
    private var pathFaults: [String: Fault] = [:]
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

    /// Makes every call of a kind on a path fail; ``clearFaults()`` ends it.
    func fail(_ operation: String, of path: String, _ fault: Fault) {
        self.pathFaults["\(operation) \(path)"] = fault
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
        self.pathFaults = [:]
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

    /// Whether some file holds bytes that can be read but that no sync will save.
    var hasDroppedPages: Bool {
        var hasDropped = false
        self.visit(self.root) { if !$0.dropped.isEmpty { hasDropped = true } }
        return hasDropped
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

    /// The same disk once more, as it is durable now, without open files.
    func copy() -> CrashFileSystem {
        let copy = CrashFileSystem()
        Self.copy(self.root, to: copy.root, copy)
        copy.now = self.now
        return copy
    }

    private static func copy(_ node: Node, to other: Node, _ disk: CrashFileSystem) {
        other.bytes = node.durable
        other.durable = node.durable
        other.commonCount = node.durable.count
        other.modified = node.modified
        for (name, child) in node.durableNames.sorted(by: { $0.key < $1.key }) {
            let new = disk.makeNode(child.kind)
            other.names[name] = new
            other.durableNames[name] = new
            self.copy(child, to: new, disk)
        }
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

    func makeNode(_ kind: FileKind) -> Node {
        defer { self.nextNode += 1 }
        return Node(number: self.nextNode, kind: kind)
    }

    func find(_ path: String) -> Node? {
        var node = self.root
        for component in path.split(separator: "/") {
            guard let next = node.names[String(component)] else { return nil }
            node = next
        }
        return node
    }

    func parent(of path: String, _ operation: String) throws(FileSystemError) -> Node {
        guard let node = self.find(Path.parent(of: path)), node.kind == .directory else {
            throw FileSystemError(operation, path: path, errno: Errno.noEntry)
        }
        return node
    }

    func change(_ folder: Node, _ names: [String: Node?]) {
        for (name, node) in names { folder.names[name] = node }
        folder.changes.append(names)
    }

    // MARK: Faults

    /// Counts a call that can fail, and fails it when its turn has come.
    ///
    /// - Returns: whether a write stores half only, and what it throws after it.
    func count(
        _ operation: String, _ path: String, changes: Bool = true
    ) throws(FileSystemError) -> (isHalf: Bool, errno: Int32?) {
        let isStopped = self.isStopped
        self.callCount += 1
        if isStopped { throw FileSystemError(operation, path: path, errno: Errno.inputOutput) }
        var fault = self.faults[self.callCount] ?? self.pathFaults["\(operation) \(path)"]
        if self.isStopped { fault = .half(Errno.inputOutput) }
        if fault == nil, changes, var random = self.random {
            if Int.random(in: 0..<1000, using: &random.generator) < random.perMille {
                let faults: [Fault] = [
                    .error(Errno.inputOutput), .error(Errno.noSpace), .short,
                    .half(Errno.noSpace), .half(Errno.inputOutput),
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

    func descriptor(_ file: FileID, _ operation: String) -> Descriptor {
        guard let descriptor = self.descriptors[file.rawValue] else {
            preconditionFailure("\(operation) of a closed file")
        }
        return descriptor
    }
}
