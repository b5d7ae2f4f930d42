package import WaybillData
package import WaybillSystem

/// Something of a lineage that is not in the restored journal, or is damaged there.
package struct RestoreTrouble: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable {
        /// No object begins here, and others follow.
        case missing
        /// The object's bytes are no frames; they are in the journal as the bucket has them, and readers step over them.
        case damaged
        /// The object is not a piece, or one that cannot be placed; nothing of it is in the journal.
        case unusable
    }

    package let kind: Kind
    package let chain: ChainName
    package let range: Range<JournalPosition>

    package init(_ kind: Kind, _ chain: ChainName, _ range: Range<JournalPosition>) {
        (self.kind, self.chain, self.range) = (kind, chain, range)
    }

    package var byteCount: Int { self.range.upperBound.rawValue - self.range.lowerBound.rawValue }

    /// As a state keeps it: `damaged collector-1~9f3c0a517be24d86 100 200`.
    package var text: String { "\(self.kind.rawValue) \(self.chain) \(self.range.lowerBound) \(self.range.upperBound)" }

    package init?(text: String) {
        let parts = text.split(separator: " ")
        guard parts.count == 4, let kind = Kind(rawValue: String(parts[0])), let chain = ChainName(parts[1]),
            let start = Int(parts[2]), let end = Int(parts[3]), start <= end
        else { return nil }
        self.init(kind, chain, JournalPosition(start)..<JournalPosition(end))
    }
}

/// What another chain of the receiver has and the restored journal does not.
package struct RestoreTail: Hashable, Sendable {
    package let chain: ChainName
    /// Where its bytes begin to be others.
    package let start: JournalPosition
    package var byteCount = 0
    package var lineCount = 0
    /// Whether all of its pieces were read; otherwise it has more lines.
    package var isCounted = true
}

/// What was restored.
package struct RestoreReport: Hashable, Sendable {
    package var receiver = ""
    /// The chains of the lineage, oldest first, each with the position that it was taken from.
    package var links: [ChainLink] = []
    package var isResumed = false
    package var pieceCount = 0
    package var lineCount = 0
    /// Where the journal begins.
    package var start = JournalPosition(0)
    /// Where what the bucket has of it ends.
    package var end = JournalPosition(0)
    /// The first time of receipt, and the last one; `nil` if it is not known.
    package var firstTime: WallTime?
    package var lastTime: WallTime?
    package var troubles: [RestoreTrouble] = []
    package var tails: [RestoreTail] = []
    /// The last day of which something may have been sent.
    package var sentThrough: CalendarDay?

    /// Whether the bucket had everything from the journal's first byte on.
    package var isComplete: Bool { self.start == JournalPosition(0) }
}

/// A chain of a lineage, from a position on.
package struct ChainLink: Hashable, Sendable {
    package let chain: ChainName
    package let start: JournalPosition

    package init(_ chain: ChainName, from start: JournalPosition) {
        (self.chain, self.start) = (chain, start)
    }

    /// As a state keeps it: `collector-1~9f3c0a517be24d86@100`.
    package var text: String { "\(self.chain)@\(self.start)" }

    package init?(text: some StringProtocol) {
        let parts = text.split(separator: "@")
        guard parts.count == 2, let chain = ChainName(parts[0]), let start = Int(parts[1]) else { return nil }
        self.init(chain, from: JournalPosition(start))
    }
}

/// Why a restore ended; run again, it continues where it was.
package enum RestoreFailure: DiskFailure, StoreFailure, Hashable, Sendable, CustomStringConvertible {
    case store(StoreError)
    case disk(FileSystemError)
    case locked(String)
    /// The directory has something that no restore put there.
    case notEmpty(path: String, name: String)
    /// The bucket has no journal of this receiver.
    case noJournal(receiver: String, others: [String], hasArchive: Bool)
    case unknownChain(ChainName, known: [ChainName])
    /// Two histories stood where this chain begins.
    case ambiguous(ChainLink, [ChainName])
    /// The named chains do not follow each other.
    case notContinuous(ChainLink, after: ChainName)
    case noSpace(neededByteCount: Int, freeByteCount: Int)
    /// The directory was begun with other options.
    case otherRestore(path: String, of: String)

    package var description: String {
        switch self {
        case .store(let error): error.description
        case .disk(let error): error.description
        case .locked(let text): text
        case .notEmpty(let path, let name):
            "\(path) is not empty (\(PercentText.encode(name))), and a restore writes only into an empty directory; name "
                + "another one, or move it away"
        case .noJournal(let receiver, let others, let hasArchive): Self.noJournal(receiver, others, hasArchive)
        case .unknownChain(let chain, let known):
            "the bucket has no chain \(chain); it has: \(Self.list(known.map(\.description)))"
        case .ambiguous(let link, let candidates):
            "\(link.chain) begins at position \(link.start), where other histories stood too: "
                + "\(Self.list(candidates.map(\.description))); name the one that it continues, and then itself: "
                + "--chain \(candidates.first.map(\.description) ?? "CHAIN") --chain \(link.chain)"
        case .notContinuous(let link, let former):
            "\(link.chain) begins at position \(link.start), where no piece of \(former) ends; name chains that follow "
                + "each other, or none"
        case .noSpace(let needed, let free):
            "the journal takes \(needed) bytes and the disk has \(free) bytes free; archive and exports take about as much "
                + "again, so name a directory on a larger disk"
        case .otherRestore(let path, let other):
            "\(path) was begun by a restore of \(other); run that one again, or name an empty directory"
        }
    }

    private static func noJournal(_ receiver: String, _ others: [String], _ hasArchive: Bool) -> String {
        let first = "the bucket has no journal of a receiver \(PercentText.encode(receiver))"
        if !others.isEmpty { return "\(first); it has those of: \(Self.list(others)); name one with --receiver" }
        guard hasArchive else { return "\(first), and no other; check the URL of the store and its prefix" }
        return "\(first), only sealed days that mergers put there; without a journal no receiver can be restored: use "
            + "these days where they are, or copy archive/ with the store's own tools; a lost merger starts with an "
            + "empty directory: waybill merge"
    }

    private static func list(_ names: [String]) -> String {
        names.prefix(20).joined(separator: ", ") + (names.count > 20 ? " and \(names.count - 20) more" : "")
    }
}
