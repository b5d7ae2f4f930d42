internal import WaybillCompression
internal import WaybillData
internal import WaybillFleet
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTestSupport

/// The bucket of one fleet, and what its pieces hold, read by other code than the mergers'.
///
/// `@unchecked Sendable`: a life runs on one thread.
final class FleetBucket: @unchecked Sendable {
    /// A batch or a seal of a piece.
    struct Entry {
        let stream: StreamName
        let offset: UInt64
        let bytes: [UInt8]
        let receivedAt: WallTime
    }

    struct Piece {
        let start: Int
        let end: Int
        var batches: [Entry] = []
        var skips: [(stream: StreamName, range: Range<UInt64>)] = []
        /// Skips of what the bucket had.
        var told: [(stream: StreamName, range: Range<UInt64>)] = []
        var seals: [(stream: StreamName, length: UInt64)] = []
        /// The last one, which is not the latest if the receiver's clock was set back.
        var lastMark = WallTime.unknown
        var lineCount: Int { self.batches.reduce(0) { $0 + $1.bytes.count { $0 == 0x0A } } }
    }

    unowned let life: FleetLife
    let number: Int
    let fleet: Incarnation
    /// The name of a life's first fleet.
    static let firstFleet = Incarnation(1, 2)
    let memory = MemoryStore(pageCount: 3)
    /// Pieces by key; read once.
    private var pieces: [String: Piece] = [:]
    private var storedLines: Set<Int> = []
    /// When a listing first had each name.
    private var listed: [String: Int64] = [:]
    /// Keys of pieces that rounds name; for a planted bug.
    private(set) var named: Set<String> = []
    /// Faults have stopped.
    private(set) var isCalm = false

    init(_ life: FleetLife, number: Int) {
        self.life = life
        self.number = number
        self.fleet = Incarnation(1, UInt64(number) + 2)
        self.memory.setFaults { [unowned life] call in
            let isPiece = call.verb == .create && call.key.hasPrefix("journal/")
            if isPiece, life.has(.overwritePieces) { return .overwritten }
            if isPiece, life.has(.trustTakenKeys) { return .claimed }
            if life.schedule.now < life.outageEnd { return .refused(.unreachable) }
            guard life.dice.chance(life.storeFaultPerMille) else { return nil }
            return life.dice.pick([.refused(.busy), .unanswered, .late])
        }
    }

    /// Ends every fault; what is planted stays.
    func calm() {
        self.isCalm = true
        self.memory.setFaults { [unowned life] call in
            guard call.verb == .create, call.key.hasPrefix("journal/") else { return nil }
            if life.has(.overwritePieces) { return .overwritten }
            return life.has(.trustTakenKeys) ? .claimed : nil
        }
        self.memory.deliverLate()
    }

    // MARK: What it holds

    /// The numbers of all lines in pieces; the ledger hears of them.
    var lines: Set<Int> {
        self.readPieces()
        return self.storedLines
    }

    /// The first of some lines that no piece has.
    func firstMissing(of lines: [Int]) -> Int? {
        let stored = self.lines
        return lines.filter { !stored.contains($0) }.min()
    }

    func piece(_ key: String) -> Piece? {
        self.readPieces()
        return self.pieces[key]
    }

    var allPieces: [String: Piece] {
        self.readPieces()
        return self.pieces
    }

    /// Forgets what was read: a planted bug overwrites pieces.
    func readAgain() {
        self.pieces = [:]
        self.storedLines = []
    }

    func readPieces() {
        for (key, bytes) in self.memory.objects where key.hasPrefix("journal/") && self.pieces[key] == nil {
            let piece = Self.read(key, bytes)
            if piece == nil { self.life.violate("\(key) is not a piece") }
            self.pieces[key] = piece ?? Piece(start: 0, end: 0)
            for line in piece?.batches.flatMap({ FileLines.of($0.bytes) }) ?? [] {
                self.life.ledger.acknowledge(line, by: self.number)
                if let number = self.life.ledger.number(of: line) { self.storedLines.insert(number) }
            }
        }
    }

    /// How many people it has requests to erase.
    var requestCount: Int { self.memory.objects.keys.count { $0.hasPrefix(ErasureRequest.prefix) } }

    /// How many lines it has requests not to read.
    var setAsideCount: Int { self.memory.objects.keys.count { $0.hasPrefix(SetAsideRequest.prefix) } }

    private static func read(_ key: String, _ bytes: [UInt8]) -> Piece? {
        guard let name = key.split(separator: "/").last, let start = ChainName.position(ofPiece: name),
            let base = bytes.withUnsafeBytes({ JournalPiece.base(of: $0, startingAt: start) })
        else { return nil }
        var piece = Piece(start: start.rawValue, end: base.rawValue + bytes.count)
        var scanner = SegmentScanner(bytes: bytes, base: base, files: FaultyFiles())
        var descriptions: [StreamNumber: StreamDescription] = [:]
        var inflater = Inflater()
        do {
            while true {
                let position = scanner.position
                switch try scanner.next() {
                case .message(.open(let number, let description, _)): descriptions[number] = description
                case .message(.skip(let number, let range)):
                    guard position >= start, let stream = descriptions[number]?.name else { continue }
                    let place = (stream, range.offset.rawValue..<range.end.rawValue)
                    if range.reason.isOfFleet { piece.told.append(place) } else { piece.skips.append(place) }
                case .message(.seal(let number, let length)):
                    guard position >= start, let stream = descriptions[number]?.name else { continue }
                    piece.seals.append((stream, length.rawValue))
                case .message(.mark):
                    if scanner.receivedAt != .unknown { piece.lastMark = scanner.receivedAt }
                case .message: break
                case .batch(let header, let description, let payload):
                    var raw = [UInt8](repeating: 0, count: header.rawByteCount)
                    try raw.withUnsafeMutableBytes { try inflater.inflate(payload, into: $0) }
                    piece.batches.append(
                        Entry(
                            stream: description.name, offset: header.offset.rawValue, bytes: raw,
                            receivedAt: scanner.receivedAt))
                case .end: return piece
                case .damaged: return nil
                }
            }
        } catch {
            return nil
        }
    }

    /// The rounds of the log.
    var rounds: [MergeRound] {
        let objects = self.memory.objects
        var rounds: [MergeRound] = []
        while let bytes = objects[MergeRound.key(of: rounds.count + 1)] {
            guard let round = MergeRound(bytes, number: rounds.count + 1) else {
                self.life.violate("round \(rounds.count + 1) cannot be read")
                return rounds
            }
            rounds.append(round)
        }
        return rounds
    }

    // MARK: Listings

    /// Whether a listing is old enough to have a name.
    func isListed(_ name: String) -> Bool {
        guard !self.isCalm else { return true }
        let first = self.listed[name] ?? self.life.schedule.now
        self.listed[name] = first
        return first + self.life.listLag <= self.life.schedule.now
    }

    func name(_ round: [UInt8], _ key: String) {
        guard let number = Int(key.dropFirst("merge/s00/".count).dropLast(4)),
            let round = MergeRound(round, number: number)
        else { return }
        self.named.formUnion(round.pieces.map(\.key))
    }
}

/// A process's way to the bucket: its listings may be behind.
///
/// `@unchecked Sendable`: a life runs on one thread.
final class BucketAccess: ObjectStore, @unchecked Sendable {
    private let bucket: FleetBucket
    private var life: FleetLife { self.bucket.life }
    private let isMerger: Bool
    /// Of the process's host.
    private let clock: SimulatedClock
    /// The greatest key of a piece that the merger has merged; for a planted bug.
    var greatestKey = ""

    init(_ bucket: FleetBucket, isMerger: Bool, _ clock: SimulatedClock) {
        self.bucket = bucket
        self.isMerger = isMerger
        self.clock = clock
    }

    var clockOffset: Duration? {
        guard !self.life.has(.believeOwnClock) else { return nil }
        let (theirs, own) = (self.life.storeClock.wallTime(), self.clock.wallTime())
        return .milliseconds(theirs.milliseconds - own.milliseconds)
    }

    func create(_ key: String, _ body: ObjectBody) throws(StoreError) -> Creation {
        let creation = try self.bucket.memory.create(self.folded(key), body)
        if creation == .created, self.life.has(.mergeInNameOrder), let round = self.bucket.memory.objects[key] {
            self.bucket.name(round, key)
        }
        return creation
    }

    func replace(_ key: String, _ body: ObjectBody) throws(StoreError) {
        try self.bucket.memory.replace(key, body)
    }

    func read(_ key: String, _ range: Range<Int>?) throws(StoreError) -> [UInt8]? {
        // Lives without such requests are what they were before there were any.
        if key.hasPrefix(SetAsideRequest.prefix), !self.life.knows(.setAsides) { return nil }
        let bytes = try self.bucket.memory.read(self.folded(key), range)
        return self.isPassed(key) ? nil : bytes
    }

    func status(of key: String) throws(StoreError) -> ObjectStatus? { try self.bucket.memory.status(of: key) }

    func list(_ prefix: String, after: String?, isFolded: Bool) throws(StoreError) -> ObjectListing {
        var page = try self.bucket.memory.list(prefix, after: after, isFolded: isFolded)
        page.objects.removeAll { !self.bucket.isListed($0.key) || self.isPassed($0.key) }
        page.folders.removeAll { !self.bucket.isListed($0) }
        return page
    }

    func delete(_ key: String) throws(StoreError) { try self.bucket.memory.delete(key) }

    /// The planted bug: a chain has no name of its own, so that each history of a receiver writes under the same keys.
    private func folded(_ key: String) -> String {
        guard !self.isMerger, self.life.has(.shareChains), let tilde = key.firstIndex(of: "~"),
            let slash = key.lastIndex(of: "/")
        else { return key }
        return key[...tilde] + String(repeating: "0", count: 16) + key[slash...]
    }

    /// The planted bug: a merger remembers the greatest name that it has taken, of all chains, and looks behind it alone.
    private func isPassed(_ key: String) -> Bool {
        self.isMerger && self.life.has(.mergeInNameOrder) && key.hasPrefix("journal/") && key < self.greatestKey
            && !self.bucket.named.contains(key)
    }
}
