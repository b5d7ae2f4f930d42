internal import WaybillEvent
internal import WaybillSpool
internal import WaybillSystem

/// How many bytes of the door's spools no agent has taken away yet.
///
/// What an agent has shipped and keeps has other names, and does not count. While the disk does not answer, one
/// measurement waits for it, and the others leave at once.
final class SpoolUsage: Sendable {
    private struct State {
        var byteCount: Int?
        /// No measurement begins before; `nil`: there was none.
        var due: MonotonicTime?
        var isMeasuring = false
    }

    private static let interval = Duration.seconds(10)

    private let state = Lock(State())

    /// As of the last measurement; `nil`: it is not known.
    var byteCount: Int? { self.state.withLock { $0.byteCount } }

    /// Measures unless that was done a moment ago; it may block.
    ///
    /// - Parameter root: the folder of the spools.
    func measure(_ root: String, on files: some FileSystem, now: MonotonicTime) {
        let isDue = self.state.withLock { state -> Bool in
            if state.isMeasuring { return false }
            if let due = state.due, now < due { return false }
            state.isMeasuring = true
            return true
        }
        guard isDue else { return }
        let byteCount = Self.byteCounts(of: root, on: files).map { $0.values.reduce(0, +) }
        self.state.withLock { $0 = State(byteCount: byteCount, due: now + Self.interval) }
    }

    /// Of each key, by what ends the ids of its writers (``IngestSource/tag``).
    static func byteCounts(of root: String, on files: some FileSystem) -> [UInt32: Int]? {
        do throws(FileSystemError) {
            guard try files.status(at: root) != nil else { return [:] }
            var byteCounts: [UInt32: Int] = [:]
            for folder in try files.list(root) {
                let path = Path.join(root, folder)
                guard try files.status(at: path)?.kind == .directory else { continue }
                for name in try files.list(path) {
                    guard let segment = SegmentName(parsing: name) else { continue }
                    // An agent may have taken it away since the look.
                    let byteCount = try files.status(at: Path.join(path, name))?.byteCount ?? 0
                    byteCounts[UniqueID.tag(ofWriter: segment.writer) ?? 0, default: 0] += byteCount
                }
            }
            return byteCounts
        } catch {
            // Nothing is said rather than too little.
            return nil
        }
    }
}

/// Leaves a part of the spools' disk to other keys.
///
/// A key whose events take more than four times what is free may store no more until an agent has taken some away. So one key
/// fills four fifths of the room that there is, two of them four ninths each, and what is left is always some for another one;
/// nothing is reserved for keys that send nothing.
struct SpoolShares {
    /// What a key's events take, and what is free above the reserve.
    struct Measurement {
        var byteCounts: [UInt32: Int]
        var freeByteCount: Int
    }

    private static let freeFactor = 4
    /// It is measured again after so many bytes, and when a key is refused, at most once a second.
    private static let addedByteCountMax = 64 << 20
    private static let interval = Duration.seconds(1)

    /// With what was added since.
    private var present = Measurement(byteCounts: [:], freeByteCount: 0)
    private var addedByteCount = 0
    private var measuredAt: MonotonicTime?

    /// Takes room for a key's bytes.
    ///
    /// - Parameter measure: `nil` if the disk cannot be measured; then writing shows what it takes.
    /// - Returns: whether the key has so much.
    mutating func take(
        _ byteCount: Int, for key: UInt32, at now: MonotonicTime, measure: () -> Measurement?
    ) -> Bool {
        var isMeasured = false
        if self.measuredAt == nil || self.addedByteCount >= Self.addedByteCountMax {
            guard self.measure(at: now, measure) else { return true }
            isMeasured = true
        }
        if !self.has(byteCount, for: key), !isMeasured, self.measuredAt.map({ now - $0 >= Self.interval }) ?? true {
            guard self.measure(at: now, measure) else { return true }
        }
        guard self.has(byteCount, for: key) else { return false }
        self.present.byteCounts[key, default: 0] += byteCount
        self.present.freeByteCount -= byteCount
        self.addedByteCount += byteCount
        return true
    }

    private func has(_ byteCount: Int, for key: UInt32) -> Bool {
        // A disk that is full is not a key's doing, and the writer says so.
        guard self.present.freeByteCount > 0 else { return true }
        return self.present.byteCounts[key, default: 0] + byteCount <= self.present.freeByteCount * Self.freeFactor
    }

    private mutating func measure(at now: MonotonicTime, _ measure: () -> Measurement?) -> Bool {
        guard let measurement = measure() else { return false }
        self.present = measurement
        self.addedByteCount = 0
        self.measuredAt = now
        return true
    }
}

extension UniqueID {
    /// The id of a writer that a key's tag ends.
    ///
    ///     0195505e-aaaa-7… time, 42 random bits, tag   a version 7 UUID
    static func writer(
        of tag: UInt32, _ milliseconds: Int64, _ generator: inout some RandomNumberGenerator
    ) -> UniqueID {
        let id = UniqueID.timed(milliseconds, &generator)
        return UniqueID(high: id.high, low: id.low & ~UInt64(UInt32.max) | UInt64(tag))
    }

    /// `nil` if it is no id.
    static func tag(ofWriter writer: String) -> UInt32? {
        UniqueID(text: writer).map { UInt32(truncatingIfNeeded: $0.low) }
    }
}
