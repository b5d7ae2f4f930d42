package import WaybillSystem

extension MemoryDisk {
    /// A file, directory or link: what is in memory, and what of it is on the disk.
    ///
    /// `@unchecked Sendable`: reached under the disk's lock, or by a test of one thread.
    package final class Node: @unchecked Sendable {
        package let number: UInt64
        package let kind: FileKind
        /// Where a symbolic link leads.
        let target: String?
        package let birth: Int64
        package var modified: Int64
        package private(set) var bytes: [UInt8] = []
        /// How far any process has read.
        package private(set) var readEnd = 0
        /// How long anybody has seen it to be.
        package private(set) var seenEnd = 0
        /// Bytes before it are on the disk as they are in memory, but for ``dropped``.
        private(set) var settledCount = 0
        /// Ranges whose sync failed: readable, and never to be on the disk.
        private(set) var dropped: [Range<Int>] = []
        /// What is on the disk, where the file was cut since it was synced.
        private var uncut: [UInt8]?
        var locks: [Int32: LockMode] = [:]
        package var permissions: UInt16
        package var owner: UInt32 = 0
        package var group: UInt32 = 0
        /// How many names lead to it.
        private(set) var linkCount = 0
        private(set) var names: [String: Node] = [:]
        private var durableNames: [String: Node] = [:]
        /// Changes to ``names`` since the directory was synced.
        private var changes: [[(name: String, node: Node?)]] = []
        private let numbers: InodeNumbers

        init(_ kind: FileKind, _ numbers: InodeNumbers, time: Int64, hasBirth: Bool = true, target: String? = nil) {
            self.kind = kind
            self.numbers = numbers
            self.number = numbers.take()
            self.birth = hasBirth ? time : 0
            self.modified = time
            self.target = target
            self.permissions = kind == .directory ? 0o755 : 0o644
        }

        deinit {
            self.numbers.giveBack(self.number)
        }

        // MARK: A file's bytes

        /// What is on the disk.
        package var durable: [UInt8] {
            self.uncut
                ?? Self.zeroing(
                    self.settledCount == self.bytes.count ? self.bytes : Array(self.bytes[..<self.settledCount]),
                    self.dropped)
        }

        /// Whether it holds bytes that can be read and that no sync will save.
        var hasDroppedPages: Bool { !self.dropped.isEmpty }

        private static func zeroing(_ bytes: [UInt8], _ ranges: [Range<Int>]) -> [UInt8] {
            var bytes = bytes
            for range in ranges {
                for index in range.clamped(to: 0..<bytes.count) { bytes[index] = 0 }
            }
            return bytes
        }

        func read(_ range: Range<Int>, into buffer: UnsafeMutableRawBufferPointer) {
            self.readEnd = max(self.readEnd, range.upperBound)
            self.bytes.withUnsafeBytes { buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[range])) }
        }

        func see() { self.seenEnd = max(self.seenEnd, self.bytes.count) }

        func append(_ bytes: UnsafeRawBufferPointer) {
            self.bytes.append(contentsOf: bytes)
        }

        /// Gives it these bytes, as if it had always had them.
        package func place(_ bytes: [UInt8]) {
            self.bytes = bytes
            self.dropped = []
            self.settle()
        }

        /// All bytes and names are on the disk, but for pages that were lost before.
        package func settle() {
            self.settleNames()
            self.uncut = nil
            self.settledCount = self.bytes.count
            self.dropped = self.dropped.map { $0.clamped(to: 0..<self.bytes.count) }.filter { !$0.isEmpty }
        }

        /// What someone has read is on the disk: the kernel has written it back long ago.
        package func settleRead() {
            guard self.readEnd > self.settledCount else { return }
            self.settledCount = self.readEnd
            self.uncut = nil
            self.dropped = []
        }

        /// A sync has failed, of which the disk has stored a share.
        func losePages(after share: Double) {
            guard self.settledCount < self.bytes.count else { return }
            let taken = Int(Double(self.bytes.count - self.settledCount) * share)
            self.dropped.append((self.settledCount + taken)..<self.bytes.count)
        }

        func cut(to byteCount: Int) {
            if byteCount < self.settledCount || self.uncut != nil {
                self.uncut = self.durable
                self.settledCount = min(self.settledCount, byteCount)
            }
            self.bytes.removeLast(self.bytes.count - byteCount)
            self.readEnd = min(self.readEnd, byteCount)
            self.seenEnd = min(self.seenEnd, byteCount)
            self.dropped = self.dropped.map { $0.clamped(to: 0..<byteCount) }.filter { !$0.isEmpty }
        }

        // MARK: A directory's names

        /// Changes names at once.
        func change(_ names: [(name: String, node: Node?)]) {
            for (name, node) in names { self.set(name, node) }
            self.changes.append(names)
        }

        private func set(_ name: String, _ node: Node?) {
            self.names[name]?.linkCount -= 1
            node?.linkCount += 1
            self.names[name] = node
        }

        /// Gives a name, as if it had always been there.
        func place(_ name: String, _ node: Node) {
            self.set(name, node)
            self.durableNames[name] = node
        }

        private func settleNames() {
            guard !self.changes.isEmpty else { return }
            self.durableNames = self.names
            self.changes = []
        }

        /// Every file that it leads to or that a power cut may bring back.
        package var everyNode: [Node] {
            Array(self.names.values) + self.durableNames.values + self.changes.joined().compactMap(\.node)
        }

        /// Goes through itself and everything that processes see below it.
        func forEachNode(_ body: (Node) -> Void) {
            body(self)
            for node in self.names.values { node.forEachNode(body) }
        }

        /// What is below it, sorted: the same disk is gone through in the same way each time.
        var children: [(name: String, node: Node)] {
            self.names.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        }

        /// Every file at or below it, when `path` leads to it.
        func files(at path: String) -> [(path: String, bytes: [UInt8])] {
            guard self.kind == .directory else { return [(path, self.bytes)] }
            return self.children.flatMap { $0.node.files(at: Path.join(path, $0.name)) }
        }

        func visit(_ body: (Node) -> Void) {
            body(self)
            for child in self.names.values { child.visit(body) }
        }

        /// Takes over what is durable of another disk's directory.
        func copyDurable(from other: Node, _ numbers: InodeNumbers) {
            self.place(other.durable)
            for (name, child) in other.durableNames.sorted(by: { $0.key < $1.key }) {
                let copy = Node(child.kind, numbers, time: child.modified, target: child.target)
                (copy.permissions, copy.owner, copy.group) = (child.permissions, child.owner, child.group)
                copy.copyDurable(from: child, numbers)
                self.place(name, copy)
            }
        }

        // MARK: A power cut

        func crash(using generator: inout some RandomNumberGenerator) {
            self.locks = [:]
            self.readEnd = 0
            self.seenEnd = 0
            guard self.kind == .directory else { return self.place(self.survivors(using: &generator)) }
            for node in self.names.values { node.linkCount -= 1 }
            self.names = self.durableNames
            for node in self.names.values { node.linkCount += 1 }
            for change in self.changes.prefix(Int.random(in: 0...self.changes.count, using: &generator)) {
                for (name, child) in change { self.set(name, child) }
            }
            self.durableNames = self.names
            self.changes = []
            for (_, child) in self.children { child.crash(using: &generator) }
        }

        private func survivors(using generator: inout some RandomNumberGenerator) -> [UInt8] {
            if self.uncut == nil, self.settledCount == self.bytes.count { return self.durable }
            var bytes = Self.zeroing(self.bytes, self.dropped)
            let kept = Int.random(in: min(self.settledCount, bytes.count)...bytes.count, using: &generator)
            switch Int.random(in: 0..<6, using: &generator) {
            case 0: return self.durable
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
    }
}

/// The numbers of a disk's files: the latest that is free, or the next.
final class InodeNumbers {
    private var free: [UInt64] = []
    private var next: UInt64 = 1

    func take() -> UInt64 {
        if let number = self.free.popLast() { return number }
        defer { self.next += 1 }
        return self.next
    }

    func giveBack(_ number: UInt64) {
        self.free.append(number)
    }
}
