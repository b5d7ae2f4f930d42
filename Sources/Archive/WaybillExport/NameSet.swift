internal import WaybillJSON
internal import WaybillSystem

/// The names already written to one record, to detect duplicates.
///
/// Open addressing over positions in the record's bytes; a new stamp empties it in one step. One owner.
///
/// Senders choose the names: see ``NameHash``.
struct NameSet: ~Copyable {
    private struct Slot {
        var stamp: UInt32
        var start: UInt32
        var byteCount: UInt32
    }

    private var slots: UnsafeMutablePointer<Slot>
    /// A power of two, at least twice the number of names.
    private var capacity = 64
    private var count = 0
    private var stamp: UInt32 = 1
    private let hash: NameHash

    init(_ hash: NameHash = .ofProcess) {
        self.hash = hash
        self.slots = .allocate(capacity: 64)
        self.slots.initialize(repeating: Slot(stamp: 0, start: 0, byteCount: 0), count: 64)
    }

    deinit {
        self.slots.deallocate()
    }

    mutating func removeAll() {
        self.count = 0
        if self.stamp == .max {
            self.slots.update(repeating: Slot(stamp: 0, start: 0, byteCount: 0), count: self.capacity)
            self.stamp = 0
        }
        self.stamp += 1
    }

    /// Adds the name at `range` of `output`; false if an equal one was added before.
    mutating func insert(_ range: Range<Int>, in output: UnsafeRawBufferPointer) -> Bool {
        if (self.count + 1) * 2 > self.capacity { self.grow(output) }
        let name = UnsafeRawBufferPointer(rebasing: output[range])
        var at = self.hash.place(of: name) & (self.capacity - 1)
        while self.slots[at].stamp == self.stamp {
            let slot = self.slots[at]
            let other = output[Int(slot.start)..<Int(slot.start + slot.byteCount)]
            if JSONText.equals(name, UnsafeRawBufferPointer(rebasing: other)) { return false }
            at = (at + 1) & (self.capacity - 1)
        }
        self.slots[at] = Slot(
            stamp: self.stamp, start: UInt32(truncatingIfNeeded: range.lowerBound),
            byteCount: UInt32(truncatingIfNeeded: range.count))
        self.count += 1
        return true
    }

    private mutating func grow(_ output: UnsafeRawBufferPointer) {
        let old = self.slots
        let oldCapacity = self.capacity
        self.capacity *= 2
        self.slots = .allocate(capacity: self.capacity)
        self.slots.initialize(repeating: Slot(stamp: 0, start: 0, byteCount: 0), count: self.capacity)
        for index in 0..<oldCapacity where old[index].stamp == self.stamp {
            let slot = old[index]
            let name = output[Int(slot.start)..<Int(slot.start + slot.byteCount)]
            var at = self.hash.place(of: UnsafeRawBufferPointer(rebasing: name)) & (self.capacity - 1)
            while self.slots[at].stamp == self.stamp { at = (at + 1) & (self.capacity - 1) }
            self.slots[at] = slot
        }
        old.deallocate()
    }
}

/// Where a name belongs in an open table: a hash with a secret of the process.
///
/// Senders of events choose their names, and a line has room for 50,000. With a hash that can be computed outside, all of
/// them could be given one place, and each would be compared with all before it.
struct NameHash: Sendable {
    static let ofProcess = NameHash(seed: SystemRandom.seed())

    private let firstKey: UInt64
    private let lastKey: UInt64

    init(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        self.firstKey = generator.next()
        self.lastKey = generator.next()
    }

    /// Hashes the length and all bytes, those of a name of at most 16 by two multiplications.
    func place(of name: UnsafeRawBufferPointer) -> Int {
        guard let start = name.baseAddress, name.count > 0 else { return 0 }
        var first: UInt64 = 0
        var last: UInt64 = 0
        if name.count >= 8 {
            first = start.loadUnaligned(as: UInt64.self)
            last = start.loadUnaligned(fromByteOffset: name.count - 8, as: UInt64.self)
            var offset = 8
            while offset < name.count - 8 {
                first = self.mix(first, start.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
                offset += 8
            }
        } else {
            for byte in name { first = first << 8 | UInt64(byte) }
        }
        let mixed = self.mix(first, last ^ UInt64(name.count))
        // Names that differ in one digit would lie in steps.
        return Int(truncatingIfNeeded: Self.fold(mixed, 0x9E37_79B9_7F4A_7C15) &>> 32)
    }

    @inline(__always)
    private func mix(_ first: UInt64, _ last: UInt64) -> UInt64 {
        Self.fold(first ^ self.firstKey, last ^ self.lastKey)
    }

    /// Multiplies, and folds both halves of the product into one.
    @inline(__always)
    private static func fold(_ first: UInt64, _ last: UInt64) -> UInt64 {
        let product = first.multipliedFullWidth(by: last)
        return product.high ^ product.low
    }
}
