internal import WaybillProtocol
internal import WaybillSystem

/// What one receiver holds of a file.
struct HeldOffset: Hashable, Sendable {
    /// The receiver's ordinal (``KnownReceivers``).
    let receiver: Int
    /// The number that the file's present content has in its stream's id at this receiver; 0 for a segment.
    var incarnation: Int
    var offset: Int
    /// The proof for the bytes that were sent below the offset; `nil` at 0, or when it is not known.
    var digest: ProofDigest?

    var text: String {
        "\(self.receiver):\(self.incarnation):\(self.offset):\(self.digest?.text ?? "-")"
    }

    init(receiver: Int, incarnation: Int, offset: Int, digest: ProofDigest?) {
        self.receiver = receiver
        self.incarnation = incarnation
        self.offset = offset
        self.digest = digest
    }

    /// Parses one; `nil` for any other text.
    init?(_ text: some StringProtocol) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false).map { Substring($0) }
        guard parts.count == 4, let receiver = parts[0].asCount, receiver > 0, let incarnation = parts[1].asCount,
            let offset = parts[2].asCount
        else { return nil }
        var digest: ProofDigest?
        if parts[3] != "-" {
            digest = ProofDigest(parts[3].utf8)
            guard digest != nil, offset > 0 else { return nil }
        }
        self.init(receiver: receiver, incarnation: incarnation, offset: offset, digest: digest)
    }
}

/// Since when a receiver has disagreed with a segment's bytes.
struct SegmentDispute: Hashable, Sendable {
    /// The receiver's ordinal (``KnownReceivers``).
    let receiver: Int
    let since: WallTime

    var text: String { "\(self.receiver):\(self.since.milliseconds)" }

    init(receiver: Int, since: WallTime) {
        self.receiver = receiver
        self.since = since
    }

    /// Parses one; `nil` for any other text.
    init?(_ text: Substring) {
        guard let (receiver, since) = text.asCounts, receiver > 0 else { return nil }
        self.init(receiver: receiver, since: WallTime(milliseconds: Int64(since)))
    }
}

/// The proof for the bytes before a batch's end, as they were sent: shows that the file was not rewritten since.
struct Anchor: Hashable, Sendable {
    /// The number of batch ends remembered per file; for older ones, only the presence of a line end is checked.
    static let countMax = 64

    let end: Int
    let digest: ProofDigest
}

/// The search for the incarnation under which a receiver holds a foreign file's content.
struct IncarnationWalk: Hashable, Sendable {
    /// A stream that holds the beginning of the file.
    struct Candidate: Hashable, Sendable {
        let incarnation: Int
        let offset: Int
        let isSealed: Bool
    }

    /// The incarnation to ask for next.
    var next: Int
    /// The one of those asked for that holds most of the file.
    var best: Candidate?
    /// Whether the first unknown one was found, and ``best`` is asked for once more.
    var isReturning = false

    /// The incarnation that is asked for now.
    var asked: Int {
        if self.isReturning, let best { return best.incarnation }
        return self.next
    }
}

extension IncarnationWalk {
    /// Continues after a file's present incarnation, which cannot take its bytes.
    ///
    /// What a sealed stream before it holds, and the present one was to skip, is held still.
    init(after file: TailedFile) {
        self.init(next: file.streamIncarnation + 1)
        guard file.heldBelow > 0 else { return }
        self.best = Candidate(incarnation: file.streamIncarnation, offset: file.heldBelow, isSealed: true)
    }
}
