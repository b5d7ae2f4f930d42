internal import WaybillCompression
internal import WaybillSystem

/// One machine's disk and page cache: what is written can be read at once, and survives a power cut only once it was
/// synchronized, the name in its directory too.
///
/// At a power cut each file with unsynchronized bytes keeps all, none, a prefix, a prefix and zeros, or a prefix and
/// garbage of them; a directory keeps a prefix of its unsynchronized changes, in order. After a failed sync the bytes
/// stay readable but will never reach the disk, as Linux does it.
///
/// `@unchecked Sendable`: a life runs on one thread.
final class SimulatedDisk: @unchecked Sendable {
    final class Node {
        let kind: FileKind
        var number: UInt64
        var birth: Int64
        var modified: Int64
        var bytes: [UInt8] = []
        /// So many bytes at the start are on the disk as they are in memory.
        var commonCount = 0
        /// What is on the disk, where it is not `bytes[..<commonCount]`.
        var other: [UInt8]?
        /// Ranges whose sync failed: readable, never to be durable.
        var dropped: [Range<Int>] = []
        var names: [String: Node] = [:]
        var durableNames: [String: Node] = [:]
        var changes: [[(name: String, node: Node?)]] = []
        /// How far any process has read.
        var readEnd = 0
        var sharedLocks: Set<Int32> = []
        var exclusiveLock: Int32?

        init(_ kind: FileKind, number: UInt64, time: Int64) {
            self.kind = kind
            self.number = number
            self.birth = time
            self.modified = time
        }

        var durable: [UInt8] { self.other ?? Array(self.bytes[..<self.commonCount]) }

        func makeDurable() {
            guard !self.dropped.isEmpty else {
                self.other = nil
                self.commonCount = self.bytes.count
                return
            }
            var durable = self.bytes
            for range in self.dropped {
                for index in range.clamped(to: 0..<durable.count) { durable[index] = 0 }
            }
            self.commonCount = min(self.dropped.map(\.lowerBound).min() ?? durable.count, durable.count)
            self.other = durable
        }

        /// The planted bug: two lines of one length written at once, the second by a copy of the first.
        func doubleALine(from start: Int) {
            let lines = self.bytes[start...].split(separator: 0x0A)
            for (first, second) in zip(lines, lines.dropFirst()) where first.count == second.count {
                return self.bytes.replaceSubrange(second.indices, with: Array(first))
            }
        }

        func cut(to byteCount: Int) {
            if byteCount < self.commonCount || self.other != nil {
                self.other = self.durable
                self.commonCount = min(self.commonCount, byteCount)
            }
            self.bytes.removeLast(self.bytes.count - byteCount)
            self.readEnd = min(self.readEnd, byteCount)
            self.dropped = self.dropped.map { $0.clamped(to: 0..<byteCount) }.filter { !$0.isEmpty }
        }
    }

    struct Descriptor {
        let node: Node
        let path: String
        let owner: ObjectIdentifier
    }

    let root: Node
    let dice: Dice
    let clock: SimulatedClock
    var descriptors: [Int32: Descriptor] = [:]
    private var nextDescriptor: Int32 = 3
    private var nextNumber: UInt64 = 2
    /// Inodes that may be given out again.
    private var freeNumbers: [UInt64] = []
    private var lookup: [String: Node] = [:]
    /// A write that fails may have stored everything.
    var failsAfterWrites = true
    /// Every write fails for want of space.
    var isFull = false
    /// Of a thousand changing calls so many fail.
    var errorPerMille = 0
    var syncErrorPerMille = 0
    var shortWritePerMille = 0

    init(_ dice: Dice, _ clock: SimulatedClock) {
        self.dice = dice
        self.clock = clock
        self.root = Node(.directory, number: 1, time: clock.fileTime)
    }

    // MARK: Names

    func find(_ path: String) -> Node? {
        if let node = self.lookup[path] { return node }
        var node = self.root
        for component in path.split(separator: "/") {
            guard let next = node.names[String(component)] else { return nil }
            node = next
        }
        self.lookup[path] = node
        return node
    }

    func parent(of path: String) -> Node? {
        guard let node = self.find(Path.parent(of: path)), node.kind == .directory else { return nil }
        return node
    }

    func make(_ kind: FileKind) -> Node {
        let number: UInt64
        if let free = self.freeNumbers.popLast() {
            number = free
        } else {
            number = self.nextNumber
            self.nextNumber += 1
        }
        return Node(kind, number: number, time: self.clock.fileTime)
    }

    func change(_ folder: Node, in directory: String, _ names: [(name: String, node: Node?)]) {
        for (name, node) in names {
            let path = Path.join(directory, name)
            let isDirectory = folder.names[name]?.kind == .directory || node?.kind == .directory
            folder.names[name] = node
            if isDirectory { self.lookup.removeAll(keepingCapacity: true) } else { self.lookup[path] = node }
        }
        folder.changes.append(names)
    }

    func makeDurable(_ folder: Node) {
        for change in folder.changes {
            for (name, node) in change where node == nil {
                guard let old = folder.durableNames.removeValue(forKey: name), !self.isUsed(old),
                    !folder.names.values.contains(where: { $0 === old })
                else { continue }
                self.freeNumbers.append(old.number)
            }
        }
        folder.durableNames = folder.names
        folder.changes = []
    }

    private func isUsed(_ node: Node) -> Bool {
        node.kind == .directory || self.descriptors.values.contains { $0.node === node }
    }

    /// Every file below `path`, by its whole path.
    func tree(_ path: String) -> [(path: String, bytes: [UInt8])] {
        guard let node = self.find(path) else { return [] }
        if node.kind == .regular { return [(path, node.bytes)] }
        return node.names.keys.sorted().flatMap { self.tree(Path.join(path, $0)) }
    }

    /// Every file of lines of archive and quarantine, open or sealed, by its path before it was sealed.
    func storedFiles() -> [(path: String, bytes: [UInt8])] {
        var files: [String: [UInt8]] = [:]
        for folder in ["/data/archive", "/data/quarantine"] {
            for (path, bytes) in self.tree(folder) {
                if path.hasSuffix(".ndjson") { files[path] = bytes }
                // While a seal is under way the file is there in both forms.
                guard path.hasSuffix(".ndjson.gz"), files[String(path.dropLast(3))] == nil else { continue }
                files[String(path.dropLast(3))] = Self.inflate(bytes)
            }
        }
        return files.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// As far as it can be inflated.
    private static func inflate(_ bytes: [UInt8]) -> [UInt8] {
        var inflater = GzipInflater()
        var output: [UInt8] = []
        bytes.withUnsafeBytes { input in
            let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
            defer { room.deallocate() }
            var position = 0
            while true {
                let rest = UnsafeRawBufferPointer(rebasing: input[position...])
                guard let (taken, filled) = try? inflater.inflate(rest, into: room), taken + filled > 0 else { return }
                position += taken
                output += room[..<filled]
            }
        }
        return output
    }

    /// The kernel writes back what it holds.
    func writeBack() {
        self.visit(self.root) { node in
            if node.kind == .directory { self.makeDurable(node) } else { node.makeDurable() }
        }
    }

    private func visit(_ node: Node, _ body: (Node) -> Void) {
        body(node)
        for (_, child) in node.names.sorted(by: { $0.key < $1.key }) { self.visit(child, body) }
    }

    // MARK: Descriptors

    func open(_ node: Node, _ path: String, owner: ObjectIdentifier) -> FileID {
        defer { self.nextDescriptor += 1 }
        self.descriptors[self.nextDescriptor] = Descriptor(node: node, path: path, owner: owner)
        return FileID(rawValue: self.nextDescriptor)
    }

    func close(_ number: Int32) {
        guard let descriptor = self.descriptors.removeValue(forKey: number) else { return }
        if descriptor.node.exclusiveLock == number { descriptor.node.exclusiveLock = nil }
        descriptor.node.sharedLocks.remove(number)
    }

    func closeAll(of owner: ObjectIdentifier) {
        for number in self.descriptors.filter({ $0.value.owner == owner }).keys.sorted() { self.close(number) }
    }

    /// The kernel has written back what somebody has read of these files: a line was shipped long before a power cut.
    func writeBackRead(_ path: String) {
        guard let folder = self.find(path) else { return }
        // Also of those that were deleted, for they may come back.
        let nodes = Array(folder.names.values) + folder.durableNames.values + folder.changes.joined().compactMap(\.node)
        for node in nodes where node.readEnd > node.commonCount {
            node.commonCount = node.readEnd
            node.other = nil
            node.dropped = []
        }
    }

    /// One bit of a file at rest flips.
    func rot(_ path: String) {
        guard let node = self.find(path), !node.bytes.isEmpty else { return }
        node.bytes[self.dice.int(0..<node.bytes.count)] ^= 1 << UInt8(self.dice.int(0..<8))
        node.makeDurable()
    }

    // MARK: Power

    /// The power fails: every process is dead already, memory is lost.
    func cutPower() {
        self.descriptors = [:]
        self.lookup = [:]
        self.freeNumbers = []
        self.cutPower(self.root)
    }

    private func cutPower(_ node: Node) {
        node.sharedLocks = []
        node.exclusiveLock = nil
        if node.kind == .directory {
            var names = node.durableNames
            for change in node.changes.prefix(self.dice.int(0...node.changes.count)) {
                for (name, child) in change { names[name] = child }
            }
            node.names = names
            node.durableNames = names
            node.changes = []
            for (_, child) in names.sorted(by: { $0.key < $1.key }) { self.cutPower(child) }
        } else {
            node.bytes = self.survivors(of: node)
            node.other = nil
            node.commonCount = node.bytes.count
            node.dropped = []
            node.readEnd = 0
        }
    }

    private func survivors(of node: Node) -> [UInt8] {
        if node.other == nil, node.commonCount == node.bytes.count, node.dropped.isEmpty { return node.bytes }
        var bytes = node.bytes
        for range in node.dropped {
            for index in range.clamped(to: 0..<bytes.count) { bytes[index] = 0 }
        }
        let kept = self.dice.int(min(node.commonCount, bytes.count)...bytes.count)
        switch self.dice.int(0..<5) {
        case 0: return node.durable
        case 1: return bytes
        case 2: return Array(bytes[..<kept])
        case 3: return bytes[..<kept] + [UInt8](repeating: 0, count: bytes.count - kept)
        default:
            let garbage = (kept..<bytes.count).map { _ in UInt8(truncatingIfNeeded: self.dice.bits()) }
            return bytes[..<kept] + garbage
        }
    }
}
