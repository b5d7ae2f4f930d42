internal import WaybillSystem

/// The first 128 bits of a SHA-256.
package struct ProofDigest: Hashable, Sendable {
    private let bits: Bits128

    /// Takes the first 16 bytes of a hash.
    package init(_ bytes: [UInt8]) {
        self.bits = Bits128(bytes)
    }

    /// Reads 32 lower-case hexadecimal digits; `nil` for any other text.
    package init?(_ text: some Collection<UInt8>) {
        guard let bits = Bits128(text: text) else { return nil }
        self.bits = bits
    }

    /// 32 lower-case hexadecimal digits.
    package var text: String { self.bits.text }
}

/// What the receiver shows of a stream, so that an agent can tell whether the receiver holds this file's bytes.
///
/// The digest is over the stream's id, the offset, and the last ``byteCount`` bytes below the offset. The count is fixed
/// by the offset: a prover who could choose it would prove one byte, LF.
///
/// - SeeAlso: `Protocol/protocol.md`, section 8.
package struct StreamProof: Hashable, Sendable {
    /// The most bytes below an offset that a proof covers.
    package static let byteCountMax = 512

    /// How many bytes below the offset the digest covers.
    package let byteCount: Int
    /// `nil` when it covers no bytes: the stream is empty, or the agent gave up all the bytes before the offset.
    package let digest: ProofDigest?
    /// How many bytes below the offset the receiver never got, because they were skipped (``SkippedRange/isNeverGot``).
    package private(set) var skippedByteCount: UInt64 = 0

    /// The proof of a stream of which the receiver has no bytes.
    package static let empty = StreamProof(byteCount: 0, digest: nil)

    /// A proof as received; `nil` when count and digest contradict each other.
    package init?(byteCount: Int, digest: ProofDigest?, at offset: StreamOffset) {
        guard (0...Self.byteCount(at: offset)).contains(byteCount), (byteCount == 0) == (digest == nil) else {
            return nil
        }
        self.byteCount = byteCount
        self.digest = digest
    }

    private init(byteCount: Int, digest: ProofDigest?) {
        self.byteCount = byteCount
        self.digest = digest
    }

    /// The same proof of a stream with so many skipped bytes.
    package func skipping(_ byteCount: UInt64) -> StreamProof {
        var proof = self
        proof.skippedByteCount = byteCount
        return proof
    }

    /// Whether both cover the same bytes, however many were skipped below them.
    package func coversSame(as other: StreamProof) -> Bool {
        self.byteCount == other.byteCount && self.digest == other.digest
    }

    /// The proof for the bytes directly below `offset`.
    package init(of id: StreamID, at offset: StreamOffset, tail: some Collection<UInt8>) {
        guard !tail.isEmpty else {
            self = .empty
            return
        }
        var hash = SHA256()
        hash.update("\(id.text)\n\(offset.rawValue)\n".utf8)
        hash.update(tail)
        self.init(byteCount: tail.count, digest: ProofDigest(hash.finish()))
    }

    /// How many bytes a proof covers at an offset, unless bytes before it were given up.
    package static func byteCount(at offset: StreamOffset) -> Int {
        Int(min(offset.rawValue, UInt64(self.byteCountMax)))
    }
}

/// The last bytes of a stream below an offset, as the receiver took them.
package struct StreamTail: Hashable, Sendable {
    package private(set) var end: StreamOffset
    /// The last bytes below ``end``: ``StreamProof/byteCount(at:)`` of them, fewer after bytes were given up.
    package private(set) var bytes: [UInt8]
    /// How many bytes below ``end`` were skipped and never got (``SkippedRange/isNeverGot``).
    package private(set) var skippedByteCount: UInt64

    /// The tail of an empty stream.
    package init() {
        self.init(unknownBelow: StreamOffset(0))
    }

    /// A tail as it was stored; `nil` when it has more bytes than its offset allows.
    package init?(end: StreamOffset, bytes: [UInt8], skippedByteCount: UInt64 = 0) {
        guard bytes.count <= StreamProof.byteCount(at: end) else { return nil }
        self.end = end
        self.bytes = bytes
        self.skippedByteCount = min(skippedByteCount, end.rawValue)
    }

    /// The tail of a stream whose bytes below `offset` are unknown.
    package init(unknownBelow offset: StreamOffset, skippedByteCount: UInt64 = 0) {
        self.end = offset
        self.bytes = []
        self.skippedByteCount = min(skippedByteCount, offset.rawValue)
    }

    /// Takes over what else is known to have been skipped below ``end``.
    package mutating func countSkips(atLeast byteCount: UInt64) {
        self.skippedByteCount = min(max(self.skippedByteCount, byteCount), self.end.rawValue)
    }

    /// Adds the raw bytes of a batch, which begins at ``end``.
    package mutating func append(_ raw: UnsafeRawBufferPointer) {
        self.end = self.end.advanced(by: raw.count)
        let kept = max(0, StreamProof.byteCountMax - raw.count)
        self.bytes.removeFirst(max(0, self.bytes.count - kept))
        self.bytes.append(contentsOf: raw.suffix(StreamProof.byteCountMax))
    }

    /// Moves on over skipped bytes, which begin at ``end``.
    package mutating func skip(_ range: SkippedRange) {
        self.end = range.end
        self.bytes = range.tail ?? []
        if range.isNeverGot { self.skippedByteCount += range.byteCount }
    }

    package func proof(of id: StreamID) -> StreamProof {
        StreamProof(of: id, at: self.end, tail: self.bytes).skipping(self.skippedByteCount)
    }
}

/// Bytes that an agent skips.
package struct SkippedRange: Hashable, Sendable {
    package let offset: StreamOffset
    package let byteCount: UInt64
    package let reason: SkipReason
    /// The source's last bytes below ``end``, as many as a proof covers there; `nil` when the source has them no more.
    package let tail: [UInt8]?
    /// The name of the receiver whose own archive has the bytes; with ``SkipReason/before``, and only then.
    package let holder: String?

    /// Returns `nil` when the sum is above the integers of the protocol, the tail's length is not the one that the
    /// reason and the end demand, or the holder is not as the reason demands.
    package init?(
        offset: StreamOffset, byteCount: UInt64, reason: SkipReason, tail: [UInt8]?, holder: String? = nil
    ) {
        guard byteCount > 0, offset.rawValue <= LineProtocol.integerMax,
            byteCount <= LineProtocol.integerMax - offset.rawValue,
            (holder != nil) == (reason == .before), holder.map(Self.isHolder) ?? true
        else { return nil }
        self.holder = holder
        self.offset = offset
        self.byteCount = byteCount
        self.reason = reason
        self.tail = tail
        let expected = reason == .truncated ? nil : StreamProof.byteCount(at: self.end)
        guard tail?.count == expected else { return nil }
    }

    package var end: StreamOffset { StreamOffset(self.offset.rawValue + self.byteCount) }

    /// Whether the stream's receiver lacks the bytes, and says so with its proofs.
    ///
    /// What its fleet has stored it need not say.
    package var isNeverGot: Bool { self.reason != .elsewhere }

    /// Whether a receiver of a fleet can have a name: 1 to 64 of `A–Z a–z 0–9 . _ -`.
    package static func isHolder(_ name: some StringProtocol) -> Bool {
        (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy(\.isNameByte)
    }

    /// Whether no one gets the bytes: with the other reasons another stream or receiver has them, or no one wrote them.
    package var isGivenUp: Bool {
        switch self.reason {
        case .tooLong, .tornTail, .truncated: true
        case .held, .elsewhere, .before, .hole: false
        }
    }

    /// Whether the tail shows nothing but NULs, as that of a hole must.
    package var hasOnlyNULs: Bool { self.tail.map { $0.allSatisfy { $0 == 0 } } ?? false }

    /// What it counts of the bytes that a principal may skip in a day.
    package var countedByteCount: UInt64 {
        switch self.reason {
        case .elsewhere, .before: 0
        case .hole: Self.countedByteCountOfHole
        case .tooLong, .tornTail, .truncated, .held: self.byteCount
        }
    }

    /// A hole has no content that could be kept from a receiver: it costs what its record does, however long it is.
    private static var countedByteCountOfHole: UInt64 { 4096 }
}

/// 128 bits with a text of 32 lower-case hexadecimal digits.
struct Bits128: Hashable, Sendable {
    private let high: UInt64
    private let low: UInt64

    /// Takes the first 16 bytes.
    init(_ bytes: [UInt8]) {
        precondition(bytes.count >= 16, "128 bits are 16 bytes")
        self.high = bytes[..<8].reduce(0) { $0 << 8 | UInt64($1) }
        self.low = bytes[8..<16].reduce(0) { $0 << 8 | UInt64($1) }
    }

    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    init?(text: some Collection<UInt8>) {
        guard text.count == 32, let high = FreeText.bits(text.prefix(16)), let low = FreeText.bits(text.suffix(16))
        else { return nil }
        self.high = high
        self.low = low
    }

    var text: String { FreeText.hexadecimal(self.high) + FreeText.hexadecimal(self.low) }
}
