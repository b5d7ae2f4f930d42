internal import WaybillProtocol
internal import WaybillSystem

/// The last batch ends of one content, each with a hash of the bytes below it: shows whether a file has this content.
///
/// Unlike an ``Anchor``, which is what one receiver was sent, it says nothing about streams.
struct BatchEnds: Hashable, Sendable {
    struct End: Hashable, Sendable {
        let offset: Int
        /// FNV-1a 64 of the last ``BatchEnds/tailByteCount(at:)`` bytes below the offset.
        let hash: UInt64

        init(offset: Int, hash: UInt64) {
            self.offset = offset
            self.hash = hash
        }

        init(offset: Int, tail: some Collection<UInt8>) {
            self.init(offset: offset, hash: FNV1a.hash(tail))
        }

        var text: String { "\(self.offset):\(Hexadecimal.text(self.hash, digitCount: 16))" }

        /// Parses one; `nil` for any other text.
        init?(_ text: some StringProtocol) {
            let parts = text.split(separator: ":", omittingEmptySubsequences: false).map { Substring($0) }
            guard parts.count == 2, let offset = parts[0].asCount, offset > 0, parts[1].utf8.count == 16,
                let hash = parts[1].asHexadecimal
            else { return nil }
            self.init(offset: offset, hash: hash)
        }
    }

    /// How many are remembered of a file that is read.
    static let countMax = 64
    /// Which ones, counted from the last, are remembered of a file that rests, and in the registry.
    private static let keptPlaces = [0, 1, 2, 3, 7, 15, 31, 63]

    /// In ascending order.
    private(set) var ends: [End] = []

    /// How many bytes below an offset are compared.
    static func tailByteCount(at offset: Int) -> Int { min(offset, StreamProof.byteCountMax) }

    /// Remembers the end of a batch; one that is not after the last is known already.
    mutating func append(_ end: End) {
        guard end.offset > self.ends.last?.offset ?? 0 else { return }
        if self.ends.count == Self.countMax { self.ends.removeFirst(Self.countMax / 2) }
        self.ends.append(end)
    }

    /// Remembers up to where a receiver has proved to hold the content.
    mutating func insert(_ end: End) {
        let index = self.ends.firstIndex { $0.offset >= end.offset } ?? self.ends.count
        if index < self.ends.count, self.ends[index].offset == end.offset { return }
        guard index < self.ends.count else { return self.append(end) }
        if self.ends.count < Self.countMax { self.ends.insert(end, at: index) }
    }

    /// Those at or below an offset, and no others.
    func limited(to offset: Int) -> BatchEnds {
        var limited = self
        limited.ends.removeAll { $0.offset > offset }
        return limited
    }

    /// Those at or below an offset, the last one first.
    func upTo(_ offset: Int) -> [End] { self.ends.reversed().filter { $0.offset <= offset } }

    /// What is remembered of a file that rests.
    var kept: BatchEnds {
        guard self.ends.count > 1 else { return self }
        var kept = BatchEnds()
        let last = self.ends.count - 1
        kept.ends = Self.keptPlaces.reversed().compactMap { $0 <= last ? self.ends[last - $0] : nil }
        return kept
    }

    // MARK: In the registry

    var text: String { self.kept.ends.map(\.text).joined(separator: ",") }

    init() {}

    /// Parses what ``text`` gives; `nil` for any other text, and for offsets that do not ascend.
    init?(_ text: Substring) {
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let end = End(part), end.offset > self.ends.last?.offset ?? 0 else { return nil }
            self.ends.append(end)
        }
        guard self.ends.count <= Self.countMax else { return nil }
    }
}
