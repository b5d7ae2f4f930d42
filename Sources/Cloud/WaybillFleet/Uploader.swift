package import WaybillData
package import WaybillSystem

/// Puts a receiver's journal into the bucket, piece by piece.
///
///     journal ──▶ PieceCutter ──▶ PUT journal/<receiver>~<chain>/<position>.wbj, if absent ──▶ state, `stored` moves on
///                                    │ present: the object's bytes are compared with the journal's
///                                    ├── equal: done, up to the object's end
///                                    └── other bytes, or more than the journal has: another chain, from here
///
/// Life of a byte: it is synced in the journal → a piece that ends with its group, or with its segment, is cut → the piece
/// is created under the position of its first byte → the next piece's name is the position behind its last. So a reader
/// knows which key must come next, and a gap cannot hide. Nothing is ever replaced: a data directory that was put back
/// from a copy, or copied, finds its keys taken by other bytes and continues in a chain of its own.
///
/// One `PUT` is under way at a time, in order. A lost state costs one reading of each piece behind it.
///
/// - SeeAlso: `Protocol/formats/fleet.md`.
package struct Uploader<Files: FileSystem>: ~Copyable {
    private let receiver: String
    private let journalDirectory: String
    private let store: any ObjectStore
    private let files: Files
    private let pieceByteCount: Int
    private var generator: SeededGenerator
    private var state: StateStore<Files>
    private var cutter: PieceCutter<Files>
    private var pending: JournalPiece?
    /// Whether the bucket has nothing of the chain behind what is stored.
    private var isOwnEnd: Bool

    /// Where the pieces go.
    package private(set) var chain: ChainName
    /// Everything before it is in the bucket.
    package private(set) var stored: JournalPosition
    /// The chains that were begun because the bucket had other bytes.
    package private(set) var divergenceCount = 0

    /// What a step did.
    package enum Step: Hashable, Sendable {
        /// Nothing follows ``Uploader/stored``.
        case idle
        /// A piece is in the bucket.
        case stored(JournalPiece, Creation)
        /// The bucket has other bytes at this position, as when the data directory was put back from a copy.
        case diverged(at: JournalPosition, from: ChainName)
    }

    /// Continues where the state says; begins a chain at the journal's first position if there is none of this fleet, or
    /// if the journal does not have what comes next in it: a chain has no gap.
    ///
    /// - Parameters:
    ///   - receiver: its name.
    ///   - fleet: the bucket's fleet.
    ///   - end: the position up to which the journal is durable.
    package init(
        receiver: String, fleet: String, journalDirectory: String, end: JournalPosition, statePath: String,
        pieceByteCount: Int = 8 << 20, files: Files, store: any ObjectStore, _ generator: SeededGenerator
    ) throws(FileSystemError) {
        var generator = generator
        var state = try StateStore(path: statePath, files: files)
        try state.settle()
        let entries = state.entries
        let first = try PieceCutter.first(in: journalDirectory, files: files) ?? end
        let place: (chain: ChainName, stored: JournalPosition)
        if entries["fleet"] == fleet, let chain = entries["chain"].flatMap(ChainName.init), chain.receiver == receiver,
            let position = entries["position"].flatMap({ Int($0) }).map(JournalPosition.init), position >= first,
            position <= end
        {
            place = (chain, position)
        } else {
            place = (ChainName(receiver: receiver, &generator), first)
            try state.commit([
                "fleet": fleet, "chain": place.chain.description, "position": String(first.rawValue),
            ])
        }
        self.chain = place.chain
        self.stored = place.stored
        self.isOwnEnd = place.stored == first && entries["chain"] != place.chain.description
        self.receiver = receiver
        self.journalDirectory = journalDirectory
        self.store = store
        self.files = files
        self.pieceByteCount = pieceByteCount
        self.generator = generator
        self.state = state
        self.cutter = PieceCutter(directory: journalDirectory, position: place.stored, files: files)
    }

    /// Puts the next piece into the bucket.
    ///
    /// - Parameter end: the position up to which the journal is durable.
    /// - Throws: if the disk or the bucket refuses; the same piece is next then.
    package mutating func step(upTo end: JournalPosition) throws(UploadFailure) -> Step {
        guard let piece = try self.nextPiece(upTo: end) else { return .idle }
        guard try self.isAtEnd(piece) else { return try self.diverge() }
        let (files, key) = (self.files, self.chain.key(of: piece.start))
        let body = ObjectBody(byteCount: piece.byteCount) { (offset, count) throws(FileSystemError) in
            try piece.read(offset..<(offset + count), files)
        }
        switch try UploadFailure.inStore(self.store.create(key, body)) {
        case .created:
            try self.reached(piece.end)
            self.pending = nil
            return .stored(piece, .created)
        case .present:
            let object = try UploadFailure.inStore(self.store.read(key, nil))
            guard let object else {
                // Someone deleted it since: the next step creates it.
                return .idle
            }
            guard let found = try self.piece(in: object, at: piece, upTo: end) else { return try self.diverge() }
            try self.reached(found.end)
            self.pending = nil
            self.cutter = PieceCutter(directory: self.journalDirectory, position: found.end, files: self.files)
            return .stored(found, .present)
        }
    }

    /// Whether the chain may continue with a piece.
    ///
    /// Pieces that mergers have taken are deleted, but for the last one. If the bucket lacks this piece and has a later one,
    /// the data directory was put back from a copy that is older than what was deleted: no one would read the piece.
    private mutating func isAtEnd(_ piece: JournalPiece) throws(UploadFailure) -> Bool {
        guard !self.isOwnEnd else { return true }
        let (key, prefix) = (self.chain.key(of: piece.start), self.chain.prefix)
        let isAbsent = try UploadFailure.inStore(self.store.status(of: key)) == nil
        let later =
            try isAbsent ? UploadFailure.inStore(self.store.list(prefix, after: key, isFolded: false)).objects : []
        self.isOwnEnd = !later.contains { self.chain.position(of: $0.key) != nil }
        return self.isOwnEnd
    }

    private mutating func nextPiece(upTo end: JournalPosition) throws(UploadFailure) -> JournalPiece? {
        if let pending { return pending }
        self.pending = try UploadFailure.onDisk(self.cutter.next(upTo: end, byteCount: self.pieceByteCount))
        guard let pending, pending.start > self.stored else { return self.pending }
        // The journal's segments before it are gone. A chain has no gap, so what follows is another one's.
        try self.begin(at: pending.start)
        return pending
    }

    /// The piece that an object is, if its bytes are the journal's.
    private func piece(
        in object: [UInt8], at piece: JournalPiece, upTo end: JournalPosition
    ) throws(UploadFailure) -> JournalPiece? {
        guard let base = object.withUnsafeBytes({ JournalPiece.base(of: $0, startingAt: piece.start) }) else {
            return nil
        }
        let headByteCount = piece.start.rawValue - base.rawValue
        let body = object[headByteCount...]
        guard !body.isEmpty, piece.start.rawValue + body.count <= end.rawValue else { return nil }
        let own = JournalPiece(
            start: piece.start, end: JournalPosition(piece.start.rawValue + body.count), head: [], path: piece.path,
            offset: piece.offset)
        let step = 1 << 20
        for start in stride(from: 0, to: body.count, by: step) {
            let count = min(step, body.count - start)
            let bytes = try UploadFailure.onDisk(own.read(start..<(start + count), self.files))
            guard bytes.elementsEqual(body.dropFirst(start).prefix(count)) else { return nil }
        }
        return own
    }

    private mutating func diverge() throws(UploadFailure) -> Step {
        let former = self.chain
        let position = self.stored
        try self.begin(at: position)
        self.pending = nil
        self.cutter = PieceCutter(directory: self.journalDirectory, position: position, files: self.files)
        self.divergenceCount += 1
        return .diverged(at: position, from: former)
    }

    /// Begins another chain, whose first piece begins at a position.
    private mutating func begin(at position: JournalPosition) throws(UploadFailure) {
        let chain = ChainName(receiver: self.receiver, &self.generator)
        try UploadFailure.onDisk(
            self.state.commit(["chain": chain.description, "position": String(position.rawValue)]))
        self.chain = chain
        self.stored = position
        self.isOwnEnd = true
    }

    private mutating func reached(_ position: JournalPosition) throws(UploadFailure) {
        try UploadFailure.onDisk(self.state.commit(["position": String(position.rawValue)]))
        self.stored = position
    }
}

/// Why a step must be tried again.
package enum UploadFailure: DiskFailure, StoreFailure, CustomStringConvertible {
    case store(StoreError)
    case disk(FileSystemError)

    package var description: String {
        switch self {
        case .store(let error): error.description
        case .disk(let error): error.description
        }
    }
}

/// What an uploader's state says of itself.
package enum UploadState {
    /// Where it is in a data directory.
    package static func path(in data: String) -> String { Path.join(data, "state/store.state") }

    private static let handedPrefix = "handed:"

    /// The entry of a range of the journal that mergers have, and the own archive has not; its value is the end.
    package static func handedKey(from start: JournalPosition) -> String { "\(self.handedPrefix)\(start.rawValue)" }

    /// The ranges of a receiver's journal that mergers have, and its own archive has not.
    package static func handed(
        in data: String, files: some FileSystem
    ) throws(FileSystemError) -> [Range<JournalPosition>] {
        let entries = try StateImage.read(self.path(in: data), files: files)?.entries ?? [:]
        return entries.compactMap { key, value in
            guard key.hasPrefix(self.handedPrefix), let start = Int(key.dropFirst(self.handedPrefix.utf8.count)),
                let end = Int(value), start < end
            else { return nil }
            return JournalPosition(start)..<JournalPosition(end)
        }
    }

    /// The fleet that a data directory belongs to; `nil` if it belongs to none, or is not readable.
    package static func fleet(in data: String) -> String? {
        do throws(FileSystemError) {
            return try StateImage.read(self.path(in: data), files: POSIXFileSystem())?.entries["fleet"]
        } catch {
            return nil
        }
    }
}
