package import WaybillData
package import WaybillProtocol
package import WaybillSystem

/// Joins the journals of a fleet's receivers into one, exactly once.
///
///     bucket: journal/<receiver>~<chain>/…  ──▶ candidates ──▶ PUT merge/s00/<number>.wbs, if absent     propose
///                                                               │ present: someone else decided
///                                                               ▼
///     bucket: merge/s00/<number>.wbs ──▶ its pieces ──▶ MergedStreams ──▶ MergedJournal ──▶ state         apply
///
/// Life of a batch: its piece is named by a round → what the merged journal does not have of its stream is appended, the
/// frame verbatim, or cut at lines and framed again → what it has is compared at the same offsets: equal lines are dropped
/// and counted, other bytes are kept and counted as conflicts → journal synced → state synced. A crash between the two is
/// taken back: the journal is cut to where the state says, and the round is taken again.
///
/// A round's result depends on the rounds before it and on nothing else, so that all mergers of a fleet have the same
/// bytes. What is proposed may depend on anything: a slow bucket, a clock, luck.
///
/// Memory: the pieces of one round, the ranges of streams that are not whole, 16 bytes of each whole stream, and the places
/// of the newest batches.
///
/// - SeeAlso: `Protocol/formats/fleet.md`.
package struct Merger<Files: FileSystem>: ~Copyable {
    package struct Setup: Sendable {
        /// The name of this merger.
        package var name: String
        package var fleet: Incarnation
        package var journalDirectory: String
        package var statePath: String
        package var segmentByteCountMax = 256 << 20
        /// Pieces of one round stay in memory.
        package var roundByteCountMax = 64 << 20
        /// The same for all mergers of a fleet.
        package var placeCountMax = 1 << 16
        /// The same for all mergers of a fleet: bytes of the merged journal in which batches are compared.
        package var placeByteCountMax = 1 << 30
        /// After so long without a sign a receiver holds up no seal.
        package var patience = Duration.seconds(1800)
        /// The fleet's: where the receivers' time passes a multiple of it, days may be sealed.
        package var sealInterval = Duration.seconds(300)
        /// How often chains are looked for.
        package var discoveryInterval = Duration.seconds(10)
        /// How far a reader has read the merged journal.
        package var standing: @Sendable (_ reader: String) -> ReaderStanding = { _ in .none }

        package init(name: String, fleet: Incarnation, journalDirectory: String, statePath: String) {
            self.name = name
            self.fleet = fleet
            self.journalDirectory = journalDirectory
            self.statePath = statePath
        }
    }

    let setup: Setup
    let files: Files
    let store: any ObjectStore
    var journal: MergedJournal<Files>
    var streams: MergedStreams
    var places: BatchPlaces
    private var state: StateLog<Files>
    private var stateByteCount: Int
    /// The last round that was applied.
    package internal(set) var round: Int
    package internal(set) var through: WallTime
    package internal(set) var chains: [ChainName: MergedChain]
    /// Where days may be sealed, oldest first.
    package internal(set) var barriers: [SealBarrier]
    /// What the log has named to be erased.
    package internal(set) var erasures = MergedErasures()
    /// The lines that the log has named not to be read.
    package internal(set) var setAsides = MergedSetAsides()
    package internal(set) var tally = MergeTally()
    var look = PieceLook()
    /// Whether this merger may have created a round again that was deleted, and does not know it.
    var mayHaveRevived = true
    /// Whose piece is applied.
    var teller = Teller()
    var nextErasureLook: MonotonicTime?
    var setAsideLook = SetAsideLook()

    /// What a step did.
    package enum Step: Hashable, Sendable {
        case idle
        case applied(MergeRound, MergeTally)
    }

    /// Continues where the state says, or begins.
    package init(_ setup: Setup, files: Files, store: any ObjectStore) throws(MergeFailure) {
        var state = try MergeFailure.onDisk(StateLog(path: setup.statePath, files: files))
        var restored = MergeState()
        restored.restore(state.takeEntries())
        let first = try MergeFailure.onDisk(PieceCutter.first(in: setup.journalDirectory, files: files))
        if restored.fleet == nil, first != nil { throw .foreign(setup.journalDirectory) }
        if let fleet = restored.fleet, fleet != setup.fleet { throw .otherFleet(fleet.text) }
        var places = BatchPlaces(countMax: setup.placeCountMax, byteCountMax: setup.placeByteCountMax)
        let journal = try Self.journal(setup, upTo: restored.end, files) { found in
            places.add(found.name, found.header.offset.rawValue..<found.header.end.rawValue, at: found.position)
        }
        // Durable before the journal has a byte: a folder with a journal and no state is someone else's.
        self.stateByteCount = try MergeFailure.onDisk(restored.write(to: &state, fleet: setup.fleet))
        self.setup = setup
        self.files = files
        self.store = store
        self.journal = journal
        self.streams = restored.streams
        self.places = places
        self.state = state
        self.round = restored.round
        self.through = restored.through
        self.chains = restored.chains
        self.barriers = restored.barriers
        self.erasures = restored.erasures
        self.setAsides = restored.setAsides
    }

    private static func journal(
        _ setup: Setup, upTo end: JournalPosition, _ files: Files, _ found: (MergedJournal<Files>.Found) -> Void
    ) throws(MergeFailure) -> MergedJournal<Files> {
        do throws(MergedJournalFailure) {
            return try MergedJournal(
                directory: setup.journalDirectory, end: end, fleet: setup.fleet, files: files,
                segmentByteCountMax: setup.segmentByteCountMax, found)
        } catch {
            switch error {
            case .disk(let error): throw .disk(error)
            case .damaged(let damage): throw .journal(damage)
            }
        }
    }

    /// Keys of pieces that were read and are none, each with when it is read again.
    package var unreadable: [String: MonotonicTime] { self.look.unreadable }

    /// The position up to which the merged journal is durable.
    package var end: JournalPosition { self.journal.end }

    /// Makes the state durable with what changed.
    mutating func commit(_ changes: StateLines) throws(MergeFailure) {
        var lines = changes
        self.streams.takeChanges(&lines)
        MergeState.set(
            fleet: self.setup.fleet, round: self.round, end: self.journal.end, through: self.through, &lines)
        if self.state.takes(lines, liveByteCount: self.stateByteCount) {
            try MergeFailure.onDisk(self.state.append(lines))
        } else {
            try MergeFailure.onDisk(self.rewrite())
        }
    }

    private mutating func rewrite() throws(FileSystemError) {
        let whole = MergeState(
            round: self.round, end: self.journal.end, through: self.through, chains: self.chains,
            barriers: self.barriers, streams: self.streams, erasures: self.erasures, setAsides: self.setAsides)
        self.stateByteCount = try whole.write(to: &self.state, fleet: self.setup.fleet)
    }

    /// Deletes segments of the merged journal that everybody has read and nothing is compared with.
    package mutating func retire(before position: JournalPosition) throws(MergeFailure) {
        let kept = min(position, self.places.firstPosition ?? position)
        _ = try MergeFailure.onDisk(self.journal.retire(before: kept))
    }

    /// Bytes that no piece has, though a receiver was told that they are elsewhere or sealed behind them.
    package var missing: [MissingBytes] { self.streams.missing }

    /// Bytes that no piece has, because a receiver took them before it belonged to the fleet.
    package var beforeFleet: [BytesBefore] { self.streams.beforeFleet }

    /// Forgets a barrier that every reader of the merged journal has passed.
    package mutating func passed(_ barrier: SealBarrier) throws(MergeFailure) {
        guard let index = self.barriers.firstIndex(of: barrier) else { return }
        var lines = StateLines()
        MergeState.remove(barrier, &lines)
        self.barriers.remove(at: index)
        try self.commit(lines)
    }
}

/// Why a step of a merger must be tried again, or cannot be done.
package enum MergeFailure: DiskFailure, StoreFailure, CustomStringConvertible {
    case store(StoreError)
    case disk(FileSystemError)
    /// The merged journal does not have what the state says.
    case journal(JournalDamage)
    /// The folder has a journal, and no merger's state.
    case foreign(String)
    /// The state is of another fleet.
    case otherFleet(String)
    /// An object that a round names is gone, or has other bytes.
    case piece(MergeRound.Piece, round: Int, isGone: Bool)
    /// An object of the log is none of it.
    case round(Int)
    /// Rounds behind this merger's last one are deleted.
    case behind(round: Int)
    /// Nothing in the bucket is whole enough to begin with; with what is damaged.
    case noCheckpoint([String])
    /// An erasure that a round names is gone, or is none.
    case erasure(Int)
    /// The data directory's record of erasures has another key than the fleet's.
    case erasureKey
    /// A line that a round names not to be read is gone, or is none.
    case setAsideGone(Int)
    /// A line that a round names not to be read is in this merger's archive.
    case hasRead(SetAsideRequest)

    package var description: String {
        switch self {
        case .store(let error): error.description
        case .disk(let error): error.description
        case .journal(let damage):
            "the merged journal cannot be read from position \(damage.start) to \(damage.end): \(damage.reason). Move "
                + "the merger's data directory away and start it again: it makes everything again from the bucket"
        case .foreign(let path):
            "\(path) holds a journal that no merger wrote; give the merger a data directory of its own"
        case .otherFleet(let fleet):
            "the data directory belongs to fleet \(fleet), the bucket to another; give each fleet's merger a data "
                + "directory of its own"
        case .piece(let piece, let round, let isGone):
            "\(piece.key), which round \(round) names, \(isGone ? "is gone" : "has other bytes than it had"); put the "
                + "object back from the bucket's versions, or from another merger: until then this one waits"
        case .round(let number):
            "\(MergeRound.key(of: number)) is not a round of this fleet; put the object back from the bucket's versions"
        case .behind(let round):
            "this merger stands behind round \(round), and the rounds that follow are deleted. Start it again: it moves "
                + "its data directory to set-aside and begins from the newest checkpoint in the bucket"
        case .noCheckpoint(let damages):
            "no checkpoint in the bucket is whole, and the first rounds are deleted (\(damages.joined(separator: "; "))). "
                + "Put the objects back from the bucket's versions, or give this merger a copy of another merger's data "
                + "directory"
        case .erasure(let number):
            "\(ErasureRequest.key(of: number)), which a round names, is gone or damaged; put the object back from the "
                + "bucket's versions: until then this merger erases nothing and projects nothing new"
        case .erasureKey:
            "people were erased from this data directory alone, with another key than the fleet's. Move the merger's data "
                + "directory away and start it again: it makes everything again from the bucket"
        case .setAsideGone(let number):
            "\(SetAsideRequest.key(of: number)), which a round names, is gone or damaged; put the object back from the "
                + "bucket's versions: until then this merger projects nothing new"
        case .hasRead(let request):
            "the line at \(request.offset) of stream \(request.stream) was set aside for the whole fleet after this "
                + "merger had read it. Start it again: it moves its data directory to set-aside and begins from a "
                + "checkpoint that does not have the line"
        }
    }
}

extension MergeFailure {
    /// Whether time or someone's hand at the bucket or the disk ends it; the merger tries again.
    package var isPassing: Bool {
        switch self {
        case .store, .disk, .piece, .round, .erasure, .setAsideGone: true
        case .journal, .foreign, .otherFleet, .behind, .noCheckpoint, .erasureKey, .hasRead: false
        }
    }
}

/// How far a chain is merged.
package struct MergedChain: Hashable, Sendable {
    /// Where its next piece begins.
    package var position: JournalPosition
    /// The last time that its receiver wrote; ``WallTime/unknown`` before the first.
    package var lastMark = WallTime.unknown

    package init(position: JournalPosition) {
        self.position = position
    }
}

/// What a process knows of the bucket's pieces, besides what rounds have named.
struct PieceLook {
    /// Pieces that were read for a round that someone else decided.
    var held: [String: HeldPiece] = [:]
    /// Chains that no round has named, with the first position that each has.
    var found: [ChainName: JournalPosition] = [:]
    /// When chains are looked for again.
    var next: MonotonicTime?
    /// Keys of pieces that were read and are none, each with when it is read again: their chains wait.
    var unreadable: [String: MonotonicTime] = [:]
    /// Why the store gave none of the pieces that were asked for; `nil` once it has answered for one.
    var refusal: StoreError?
}

/// The receiver whose piece is applied.
struct Teller {
    var receiver = ""
    /// Whether the piece is the first of a chain that begins with a journal that was there.
    var isJoining = false
}

/// A place in the merged journal where days may be sealed: everything before it is in, and nothing behind it.
package struct SealBarrier: Hashable, Sendable {
    /// The round behind which it stands; rounds without pieces leave several at one position.
    package let round: Int
    package let position: JournalPosition
    /// Days that are over by then are complete, as far as live receivers know.
    package let through: WallTime
    /// What manifests record.
    package let now: WallTime

    package init(round: Int, position: JournalPosition, through: WallTime, now: WallTime) {
        self.round = round
        self.position = position
        self.through = through
        self.now = now
    }
}

/// What was done with what came, since the start.
package struct MergeTally: Hashable, Sendable {
    package var copiedFrameCount = 0
    package var trimmedFrameCount = 0
    package var droppedFrameCount = 0
    package var lineCount = 0
    package var droppedLineCount = 0
    package var droppedByteCount = 0
    /// Lines at offsets where the merged journal has other bytes; they are kept.
    package var conflictLineCount = 0
    /// Lines that came again after so long that they could not be compared; they are dropped.
    package var unprovenLineCount = 0
    /// Bytes of pieces that are no frames.
    package var damagedByteCount = 0

    package init() {}

    package static func + (left: MergeTally, right: MergeTally) -> MergeTally {
        left - (MergeTally() - right)
    }

    static func - (left: MergeTally, right: MergeTally) -> MergeTally {
        var difference = MergeTally()
        difference.copiedFrameCount = left.copiedFrameCount - right.copiedFrameCount
        difference.trimmedFrameCount = left.trimmedFrameCount - right.trimmedFrameCount
        difference.droppedFrameCount = left.droppedFrameCount - right.droppedFrameCount
        difference.lineCount = left.lineCount - right.lineCount
        difference.droppedLineCount = left.droppedLineCount - right.droppedLineCount
        difference.droppedByteCount = left.droppedByteCount - right.droppedByteCount
        difference.conflictLineCount = left.conflictLineCount - right.conflictLineCount
        difference.unprovenLineCount = left.unprovenLineCount - right.unprovenLineCount
        difference.damagedByteCount = left.damagedByteCount - right.damagedByteCount
        return difference
    }
}
