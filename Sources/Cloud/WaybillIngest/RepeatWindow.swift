package import WaybillSystem
package import WaybillEvent

/// The ids that were stored within some minutes, so that a repeated request stores none again.
///
///     key ─▶ slices   64 bits of a keyed hash for each id; a table for each slice of the time
///
/// Each key has its own, for the ids of one say nothing about the events of another. Bounded in memory for all: when it is
/// full, the key with the most ids forgets its oldest slice, so that no other key pays for one that sends too much, and
/// ``reach`` says how far back all of them go. The hash is keyed with a secret of the process, so that no one can make ids that
/// collide.
package struct RepeatWindow: ~Copyable {
    private struct Slice {
        var begins: MonotonicTime
        var marks = MarkTable()
    }

    /// The ids of one key, the oldest first.
    private struct Share {
        var slices: [Slice] = []
        var count = 0

        /// - Returns: by how many ids the share grew or shrank, as each of these.
        mutating func add(_ mark: UInt64, at now: MonotonicTime, _ duration: Duration, slice: Duration) -> Int {
            let change = self.turn(now, duration + slice)
            let isNew = self.slices.last.map { now - $0.begins >= slice } ?? true
            if isNew { self.slices.append(Slice(begins: now)) }
            guard self.slices[self.slices.count - 1].marks.insert(mark) else { return change }
            self.count += 1
            return change + 1
        }

        /// - Parameter age: of a slice that may go, because everything in it is older than the window.
        mutating func turn(_ now: MonotonicTime, _ age: Duration) -> Int {
            var change = 0
            while let first = self.slices.first, now - first.begins >= age {
                change += self.forget()
            }
            return change
        }

        /// Forgets the oldest slice.
        mutating func forget() -> Int {
            let count = self.slices.removeFirst().marks.count
            self.count -= count
            return -count
        }
    }

    private static var sliceCount: Int { 10 }
    /// What a mark takes in a table, with its room to grow.
    package static var markByteCount: Int { 24 }

    private let hash: SipHash
    /// How long an id is known.
    package let duration: Duration
    /// How long new ids go to one slice.
    private let slice: Duration
    private let markCountMax: Int
    private var shares: [UInt32: Share] = [:]
    private var count = 0
    /// When it was last looked what is too old; `nil`: never.
    private var turnedAt: MonotonicTime?
    /// Since when every id is known, if some of the window are not: they were forgotten early, or never known.
    private var whole: MonotonicTime?
    /// How far back the window goes: the whole of it, or what is known of it.
    package private(set) var reach: Duration

    /// - Parameters:
    ///   - duration: how long an id is known.
    ///   - byteCountMax: the most memory.
    ///   - key: 16 secret bytes.
    package init(_ duration: Duration, byteCountMax: Int, key: [UInt8]) {
        self.duration = duration
        self.slice = duration / Self.sliceCount
        self.markCountMax = max(Self.sliceCount, byteCountMax / Self.markByteCount)
        self.hash = SipHash(key: key)
        self.reach = duration
    }

    private func mark(_ id: UniqueID) -> UInt64 {
        withUnsafeBytes(of: (id.high, id.low)) { self.hash.hash(of: $0) }
    }

    /// Whether an id of a key was stored.
    ///
    /// - Parameter key: its ``IngestSource/tag``.
    package func contains(_ id: UniqueID, of key: UInt32) -> Bool {
        guard let share = self.shares.index(forKey: key) else { return false }
        let mark = self.mark(id)
        return self.shares.values[share].slices.contains { $0.marks.contains(mark) }
    }

    /// Adds an id that is stored.
    package mutating func add(_ id: UniqueID, of key: UInt32, at now: MonotonicTime) {
        if self.count >= self.markCountMax { self.shorten(now) }
        self.count += self.shares[key, default: Share()].add(
            self.mark(id), at: now, self.duration, slice: self.slice)
    }

    /// Forgets what is older than the window; looks once a second.
    package mutating func turn(_ now: MonotonicTime) {
        self.turnReach(now)
        if let turnedAt, now - turnedAt < .seconds(1) { return }
        self.turnedAt = now
        for key in Array(self.shares.keys) {
            self.count += self.shares[key]?.turn(now, self.duration + self.slice) ?? 0
            if self.shares[key]?.slices.isEmpty ?? false { self.shares[key] = nil }
        }
    }

    private mutating func turnReach(_ now: MonotonicTime) {
        self.reach = self.whole.map { min(self.duration, now - $0) } ?? self.duration
    }

    /// Notes that not every id that was stored before some time is known.
    package mutating func lacks(before time: MonotonicTime, now: MonotonicTime) {
        self.whole = self.whole.map { max($0, time) } ?? time
        self.turnReach(now)
    }

    /// Makes room: the key with the most ids forgets its oldest ones.
    private mutating func shorten(_ now: MonotonicTime) {
        guard let largest = self.shares.max(by: { $0.value.count < $1.value.count })?.key else { return }
        self.count += self.shares[largest]?.forget() ?? 0
        self.lacks(before: self.shares[largest]?.slices.first?.begins ?? now, now: now)
    }
}

/// Marks, which are hashes already: a set of the standard library would hash each of them again.
///
/// Open addressing with linear probing, at most four fifths full.
private struct MarkTable {
    /// A power of two of them; 0 is free.
    private var slots: [UInt64] = []
    private(set) var count = 0

    func contains(_ mark: UInt64) -> Bool {
        self.count > 0 && self.slots[self.slot(of: mark)] != 0
    }

    /// - Returns: whether it is new.
    mutating func insert(_ mark: UInt64) -> Bool {
        if (self.count + 1) * 5 > self.slots.count * 4 { self.grow() }
        let slot = self.slot(of: mark)
        guard self.slots[slot] == 0 else { return false }
        self.slots[slot] = Self.stored(mark)
        self.count += 1
        return true
    }

    /// Where a mark is, or the free slot for it.
    private func slot(of mark: UInt64) -> Int {
        let stored = Self.stored(mark)
        var slot = Int(truncatingIfNeeded: stored) & (self.slots.count - 1)
        while self.slots[slot] != 0, self.slots[slot] != stored { slot = (slot + 1) & (self.slots.count - 1) }
        return slot
    }

    private static func stored(_ mark: UInt64) -> UInt64 { mark == 0 ? 1 : mark }

    private mutating func grow() {
        let before = self.slots
        self.slots = Array(repeating: 0, count: max(16, before.count * 2))
        for mark in before where mark != 0 { self.slots[self.slot(of: mark)] = mark }
    }
}

extension IngestSource {
    /// What tells the ids and the segments of a key from those of others: 32 bits of its app, its environment and itself.
    package var tag: UInt32 {
        let text = "\(self.bundle)\u{0}\(self.environment.rawValue)\u{0}\(self.key)"
        // Keys are the operator's, so that the hash needs no secret.
        let hash = SipHash(key: [UInt8](repeating: 0, count: 16))
        return UInt32(truncatingIfNeeded: Array(text.utf8).withUnsafeBytes { hash.hash(of: $0) })
    }
}
