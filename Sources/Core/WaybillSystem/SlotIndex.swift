/// Finds slots of an array by the hash of their content: 8 bytes per slot plus free room, while a dictionary also holds
/// the keys.
///
/// Open addressing with linear probing, at most four fifths full. The owner of the slots compares them for equality,
/// and removes a slot before its hashed content changes.
package struct SlotIndex: Sendable {
    private struct Entry {
        var hash: UInt32
        /// Negative when the entry is free.
        var slot: Int32
    }

    private static let free = Entry(hash: 0, slot: -1)
    private static let entryCountMin = 16

    private var entries: [Entry] = []
    package private(set) var count = 0

    package init() {}

    /// A hash for the index; differs from process to process.
    package static func hash(_ combine: (inout Hasher) -> Void) -> UInt32 {
        var hasher = Hasher()
        combine(&hasher)
        return UInt32(truncatingIfNeeded: hasher.finalize())
    }

    /// The slot with this hash for which `isWanted` returns true.
    package func slot(_ hash: UInt32, where isWanted: (_ slot: Int) -> Bool) -> Int? {
        self.position(hash, where: isWanted).map { Int(self.entries[$0].slot) }
    }

    private func position(_ hash: UInt32, where isWanted: (_ slot: Int) -> Bool) -> Int? {
        guard self.count > 0 else { return nil }
        var position = self.home(of: hash)
        while self.entries[position].slot >= 0 {
            let entry = self.entries[position]
            if entry.hash == hash, isWanted(Int(entry.slot)) { return position }
            position = self.next(position)
        }
        return nil
    }

    /// Adds a slot that is not in the index and does not equal any slot in it.
    package mutating func insert(_ slot: Int, _ hash: UInt32) {
        if (self.count + 1) * 5 > self.entries.count * 4 { self.grow() }
        self.place(Entry(hash: hash, slot: Int32(slot)))
        self.count += 1
    }

    /// Removes a slot; does nothing when it is not in the index.
    package mutating func remove(_ slot: Int, _ hash: UInt32) {
        guard var hole = self.position(hash, where: { $0 == slot }) else { return }
        var position = self.next(hole)
        while self.entries[position].slot >= 0 {
            let home = self.home(of: self.entries[position].hash)
            if self.distance(from: home, to: position) >= self.distance(from: hole, to: position) {
                self.entries[hole] = self.entries[position]
                hole = position
            }
            position = self.next(position)
        }
        self.entries[hole] = Self.free
        self.count -= 1
    }

    private mutating func place(_ entry: Entry) {
        var position = self.home(of: entry.hash)
        while self.entries[position].slot >= 0 { position = self.next(position) }
        self.entries[position] = entry
    }

    private mutating func grow() {
        let before = self.entries
        self.entries = Array(repeating: Self.free, count: max(Self.entryCountMin, before.count * 2))
        for entry in before where entry.slot >= 0 { self.place(entry) }
    }

    /// The number of entries is a power of two.
    private func home(of hash: UInt32) -> Int { Int(hash) & (self.entries.count - 1) }

    private func next(_ position: Int) -> Int { (position + 1) & (self.entries.count - 1) }

    private func distance(from start: Int, to end: Int) -> Int { (end - start) & (self.entries.count - 1) }
}
