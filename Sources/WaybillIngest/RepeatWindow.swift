internal import WaybillDigest
package import WaybillEvent
package import WaybillSystem

/// The ids that were stored within some minutes, so that a repeated request stores none again.
///
///     key ─▶ slices   64 bits of a keyed hash for each id; a table for each slice of the time
///
/// Each key has its own, for the ids of one say nothing about the events of another. Bounded in memory for all: when it is
/// full, the key with the most ids forgets its oldest slice, so that no other key pays for one that sends too much, and
/// ``reach`` says how far back all of them go. The hash is keyed with a secret of the process, so that nobody can make ids that
/// collide.
package struct RepeatWindow: ~Copyable {
    private struct Slice {
        var begins: MonotonicTime
        var marks: Set<UInt64> = []
    }

    /// The ids of one key, the oldest first.
    private struct Share {
        var slices: [Slice] = []
        var count = 0

        /// - Returns: by how many ids the share grew or shrank, as each of these.
        mutating func add(_ mark: UInt64, at now: MonotonicTime, _ duration: Duration) -> Int {
            let change = self.turn(now, duration)
            let isNew = self.slices.last.map { now - $0.begins >= duration / RepeatWindow.sliceCount } ?? true
            if isNew { self.slices.append(Slice(begins: now)) }
            guard self.slices[self.slices.count - 1].marks.insert(mark).inserted else { return change }
            self.count += 1
            return change + 1
        }

        mutating func turn(_ now: MonotonicTime, _ duration: Duration) -> Int {
            var change = 0
            // A slice may go when everything in it is older than the window: when it ended so long ago.
            while let first = self.slices.first, now - first.begins >= duration + duration / RepeatWindow.sliceCount {
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
    /// What a mark takes in a set, with its room to grow.
    package static var markByteCount: Int { 24 }

    private let hash: SipHash
    /// How long an id is known.
    package let duration: Duration
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
        let mark = self.mark(id)
        return self.shares[key]?.slices.contains { $0.marks.contains(mark) } ?? false
    }

    /// Adds an id that is stored.
    package mutating func add(_ id: UniqueID, of key: UInt32, at now: MonotonicTime) {
        if self.count >= self.markCountMax { self.shorten(now) }
        self.count += self.shares[key, default: Share()].add(self.mark(id), at: now, self.duration)
    }

    /// Forgets what is older than the window; looks once a second.
    package mutating func turn(_ now: MonotonicTime) {
        self.turnReach(now)
        if let turnedAt, now - turnedAt < .seconds(1) { return }
        self.turnedAt = now
        for key in Array(self.shares.keys) {
            self.count += self.shares[key]?.turn(now, self.duration) ?? 0
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

extension IngestSource {
    /// What tells the ids and the segments of a key from those of others: 32 bits of its app, its environment and itself.
    package var tag: UInt32 {
        let text = "\(self.bundle)\u{0}\(self.environment.rawValue)\u{0}\(self.key)"
        // Keys are the operator's, so that the hash needs no secret.
        let hash = SipHash(key: [UInt8](repeating: 0, count: 16))
        return UInt32(truncatingIfNeeded: Array(text.utf8).withUnsafeBytes { hash.hash(of: $0) })
    }
}
