internal import WaybillDigest
package import WaybillEvent
package import WaybillSystem

/// The ids that were stored within some minutes, so that a repeated request stores none again.
///
///     slots   64 bits of a keyed hash each; a table for each slice of the time, the oldest is emptied first
///
/// Bounded in memory: when the tables are full, the oldest goes early, and ``reach`` says how far back the window still goes.
/// The hash is keyed with a secret of the process, so that nobody can make ids that collide.
package struct RepeatWindow: ~Copyable {
    private struct Slice {
        var begins: MonotonicTime
        var marks: Set<UInt64> = []
    }

    private static var sliceCount: Int { 10 }
    /// What a mark takes in a set, with its room to grow.
    package static var markByteCount: Int { 24 }

    private let hash: SipHash
    /// How long an id is known.
    package let duration: Duration
    private let markCountMax: Int
    private var slices: [Slice]
    private var count = 0
    /// Since when every id is known, if some of the window are not: the table forgot them early, or never had them.
    private var whole: MonotonicTime?
    /// How far back the window goes: the whole of it, or what is known of it.
    package private(set) var reach: Duration

    /// - Parameters:
    ///   - duration: how long an id is known.
    ///   - byteCountMax: the most memory.
    ///   - key: 16 secret bytes.
    package init(_ duration: Duration, byteCountMax: Int, key: [UInt8], now: MonotonicTime) {
        self.duration = duration
        self.markCountMax = max(Self.sliceCount, byteCountMax / Self.markByteCount)
        self.hash = SipHash(key: key)
        self.slices = [Slice(begins: now)]
        self.reach = duration
    }

    private func mark(_ source: Int, _ id: UniqueID) -> UInt64 {
        withUnsafeBytes(of: (UInt64(source), id.high, id.low)) { self.hash.hash(of: $0) }
    }

    /// Whether an id of a source was stored.
    package func contains(_ id: UniqueID, of source: Int) -> Bool {
        let mark = self.mark(source, id)
        return self.slices.contains { $0.marks.contains(mark) }
    }

    /// Adds an id that is stored.
    package mutating func add(_ id: UniqueID, of source: Int, at now: MonotonicTime) {
        self.turn(now)
        if self.count >= self.markCountMax { self.shorten(now) }
        if self.slices[self.slices.count - 1].marks.insert(self.mark(source, id)).inserted { self.count += 1 }
    }

    /// Forgets what is older than the window.
    package mutating func turn(_ now: MonotonicTime) {
        let slice = self.duration / Self.sliceCount
        if now - self.slices[self.slices.count - 1].begins >= slice { self.slices.append(Slice(begins: now)) }
        // A slice may go when everything in it is older than the window: when the next one has begun so long ago.
        while self.slices.count > 1, now - self.slices[1].begins >= self.duration {
            self.count -= self.slices.removeFirst().marks.count
        }
        self.reach = self.whole.map { min(self.duration, now - $0) } ?? self.duration
    }

    /// Notes that not every id that was stored before some time is known.
    package mutating func lacks(before time: MonotonicTime, now: MonotonicTime) {
        self.whole = self.whole.map { max($0, time) } ?? time
        self.turn(now)
    }

    private mutating func shorten(_ now: MonotonicTime) {
        if self.slices.count == 1 { self.slices.append(Slice(begins: now)) }
        self.count -= self.slices.removeFirst().marks.count
        self.lacks(before: self.slices[0].begins, now: now)
    }
}
