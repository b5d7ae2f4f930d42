import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTail
import WaybillTestSupport

/// An agent without a network: a tail, and a receiver that keeps what it is sent, by stream.
final class TailBench<Files: FileSystem> {
    let files: Files
    let root: String
    var limits: TailLimits
    private(set) var sources: [SourceConfiguration]
    var agent = AgentName("agent") ?? { preconditionFailure("a good name") }()

    private var tail: Tail<Files>?
    private let buffer: UnsafeMutableRawBufferPointer
    private(set) var milliseconds: Int64 = 1_790_000_000_000

    /// What the receiver holds, by stream id.
    var received: [String: [UInt8]] = [:]
    var sealed: Set<String> = []
    var skipped: [String: [String]] = [:]
    /// How many bytes the receiver never got of a stream, because they were skipped.
    var skippedCounts: [String: UInt64] = [:]
    /// Whether what is shipped stays on its way until ``deliver()``.
    var isSlow = false
    /// Whether seals stay unanswered.
    var holdsSeals = false
    /// Which receiver answers, and where.
    var receiver = BenchReceiver(name: "bench")
    /// Ids of streams under which the receiver holds other bytes than it was sent.
    var liesAbout: Set<String> = []
    /// What happens to the files after a receiver's answer to `OPEN`, by stream id.
    var afterAnswer: (String) -> Void = { _ in }
    /// What the receiver holds from before it knew principals, by stream id.
    var ownerless: [String: [UInt8]] = [:]
    /// What `OPEN` said that the fleet has, one by one.
    var claimed: [Int] = []
    /// Streams of which the receiver's proof did not agree.
    var disputed: [String] = []
    /// Streams that are not asked for again before a minute has passed, or another connection begins.
    private var waiting: Set<StreamKey> = []
    private var hasMet = false
    /// Seals that were handed out and not answered.
    var heldSeals: [String] = []
    private var inFlight: [(key: StreamKey, id: String, offset: Int, bytes: [UInt8], skipped: UInt64)] = []
    /// What was sent, whichever receiver answered and whether or not it arrived; without what was skipped.
    private(set) var batches: [(id: String, offset: Int, bytes: [UInt8])] = []
    /// In the order in which they were first opened.
    var order: [String] = []
    /// How often a receiver was asked for a stream's position.
    var questionCount = 0
    var notices: [TailNotice] = []
    var finalUnterminatedCount = 0

    init(
        _ files: Files, root: String = "", sources: [SourceConfiguration]? = nil, limits: TailLimits = TailLimits()
    ) throws {
        self.files = files
        self.root = root
        self.limits = limits
        self.sources =
            sources ?? [
                SourceConfiguration(name: "app", kind: .files(patterns: [root + "/log/*.log"])),
                SourceConfiguration(name: "spool", kind: .spool(directory: root + "/spool")),
            ]
        self.buffer = .allocate(byteCount: max(limits.lineByteCountMax, 1 << 16), alignment: 16)
        for directory in ["/log", "/spool", "/state", "/state/quarantine"] {
            try files.createDirectory(root + directory)
        }
        try self.start()
    }

    deinit {
        self.buffer.deallocate()
    }

    var registryPath: String { self.root + "/state/registry" }

    var now: TailTime {
        TailTime(
            monotonic: MonotonicTime(nanoseconds: self.milliseconds * 1_000_000),
            wall: WallTime(milliseconds: self.milliseconds))
    }

    func withTail<Result>(_ body: (inout Tail<Files>) throws -> Result) rethrows -> Result {
        guard self.tail != nil else { preconditionFailure("the agent is stopped") }
        return try body(&self.tail!)  // Checked in the line above.
    }

    // MARK: The agent's life

    /// - Parameter records: what keeps the agent alive while it reads the registry.
    func start(records: RecordGuard? = nil) throws {
        let registry = try StateLog(path: self.registryPath, files: self.files)
        self.tail = Tail(
            fileSystem: self.files, registry: registry, agent: self.agent, sources: self.sources,
            quarantineDirectory: self.root + "/state/quarantine", limits: self.limits, records: records)
    }

    /// Stops without a last checkpoint, as SIGKILL does.
    func kill() {
        self.tail = nil
        self.waiting = []
        self.inFlight = []
        self.hasMet = false
    }

    /// Connects, if no receiver has answered since the start or the loss of the connection.
    @discardableResult
    func meet() throws -> ReceiverMeeting? {
        guard !self.hasMet else { return nil }
        self.hasMet = true
        let now = self.now
        let meeting = try self.withTail { [receiver] in
            try $0.receiverMet(receiver.identity, at: receiver.address, of: receiver.fleet, now)
        }
        self.takeNotices()
        return meeting
    }

    func restart() throws {
        self.kill()
        try self.start()
    }

    func advance(_ milliseconds: Int64) {
        self.milliseconds += milliseconds
        guard milliseconds >= 60_000 else { return }
        for key in self.waiting { self.withTail { $0.readingPostponed(key) } }
        self.waiting = []
    }

    func scan() {
        let now = self.now
        self.withTail { $0.scan(now) }
        self.takeNotices()
    }

    func hint(_ paths: String...) {
        let now = self.now
        self.withTail { $0.pathsChanged(paths, now) }
        self.takeNotices()
    }

    func checkpoint() throws {
        let now = self.now
        try self.withTail { tail in try tail.checkpoint(now) }
    }

    func takeNotices() {
        self.notices += self.withTail { $0.takeNotices() }
    }

    // MARK: The connection

    /// The receiver's process starts again on a data directory from before everything that it acknowledged.
    func receiverCameBackOlder() {
        self.loseConnection()
        self.receiver.end = 0
        self.receiver.restart()
    }

    /// Another receiver answers from now on; `store` gets what the present one has.
    func exchange(with store: inout BenchStore) {
        self.loseConnection()
        let present = BenchStore(
            receiver: self.receiver, received: self.received, sealed: self.sealed, order: self.order,
            skippedCounts: self.skippedCounts)
        (self.receiver, self.received, self.sealed, self.order, self.skippedCounts) =
            (store.receiver, store.received, store.sealed, store.order, store.skippedCounts)
        store = present
    }

    /// Ships what is ready; returns the number of reads.
    @discardableResult
    func ship(readCountMax: Int = .max, byteCountMax: Int = 1 << 16) -> Int {
        var count = 0
        // What could not be written waits for the next checkpoint.
        do { try self.meet() } catch {}
        while count < readCountMax, let key = self.withTail({ $0.nextReady() }) {
            count += 1
            if self.waiting.contains(key) { continue }
            precondition(count < 1_000_000, "the ready queue does not run dry")
            self.step(key, byteCountMax: byteCountMax)
        }
        if !self.isSlow { self.deliver() }
        self.takeNotices()
        return count
    }

    /// Lets what is in flight arrive, and be acknowledged unless the answers are lost.
    func deliver(isAnswered: Bool = true) {
        for (key, id, offset, bytes, skipped) in self.inFlight {
            let own = self.received[id] ?? []
            #expect(offset == own.count, "a gap or a repetition in \(id)")
            #expect(!self.sealed.contains(id), "bytes behind the seal of \(id)")
            if self.received[id] == nil { self.order.append(id) }
            self.received[id] = own + bytes
            self.skippedCounts[id, default: 0] += skipped
            self.receiver.end += UInt64(bytes.count)
            guard isAnswered else { continue }
            self.withTail { [end = receiver.end] tail in
                tail.answered(end: end)
                tail.acked(key, upTo: offset + bytes.count)
            }
        }
        self.inFlight = []
    }

    /// Scans and ships until nothing is left to do now.
    func run() {
        self.isSlow = false
        for _ in 0..<3 {
            self.scan()
            self.ship()
        }
    }

    /// Runs, and lets files that are gone or renamed away be sealed.
    func settle() {
        self.run()
        self.advance(601_000)
        self.run()
        self.advance(601_000)
        self.run()
    }

    /// What is in flight is refused, with its streams.
    func refuse() {
        self.inFlight = []
        self.heldSeals = []
        self.withTail { tail in
            for key in tail.streams { tail.streamRefused(key) }
        }
    }

    /// What is in flight is lost.
    func loseConnection() {
        self.inFlight = []
        self.waiting = []
        self.hasMet = false
        self.withTail { $0.connectionLost() }
    }

    /// Follows other sources, as a reload of the configuration does.
    ///
    /// - Returns: how many streams are not followed any more.
    @discardableResult
    func follow(_ sources: [SourceConfiguration]) -> Int {
        self.loseConnection()
        self.sources = sources
        let setAside = self.withTail { [limits] in $0.follow(sources, limits: limits) }
        self.takeNotices()
        return setAside.count
    }

    private func step(_ key: StreamKey, byteCountMax: Int) {
        let now = self.now
        let id = self.withTail { $0.id(of: key) }.description
        let read = self.withTail { [buffer] in
            $0.nextBatch(for: key, byteCountMax: byteCountMax, into: buffer, now)
        }
        switch read {
        case .nothing: break
        case .unpositioned:
            // A file that was rewritten may have ended its stream, or got another id.
            guard let claim = self.withTail({ $0.storedClaim(key, now) }), self.withTail({ $0.contains(key) }) else {
                return
            }
            if let from = claim.from { self.claimed.append(Int(from.rawValue)) }
            self.answerOpen(key, self.withTail { $0.id(of: key) }.description, claim)
        case .batch(let offset, let count, let lineCount, let isFinal):
            let bytes = Array(self.buffer[..<count])
            let lineFeeds = bytes.count { $0 == 0x0A }
            #expect(lineFeeds == (isFinal ? 0 : lineCount))
            #expect((bytes.last == 0x0A) == !isFinal)
            if isFinal { self.finalUnterminatedCount += 1 }
            self.inFlight.append((key, id, offset, bytes, 0))
            self.batches.append((id, offset, bytes))
        case .skip(let range):
            let offset = Int(range.offset.rawValue)
            self.skipped[id, default: []].append("\(offset)+\(range.byteCount) \(range.reason.rawValue)")
            if range.reason == .held, let held = self.sealedBytes(before: id, count: Int(range.byteCount)) {
                return self.inFlight.append((key, id, offset, held, range.byteCount))
            }
            // Of what was skipped the receiver has the tail alone, which may begin before the range.
            let tail = (range.tail ?? []).suffix(Int(range.byteCount))
            let rest = [UInt8](repeating: 0, count: Int(range.byteCount) - tail.count)
            self.inFlight.append((key, id, offset, rest + tail, range.isNeverGot ? range.byteCount : 0))
        case .sealed(let length):
            self.deliver()
            #expect(length == self.received[id]?.count ?? 0, "\(id)")
            guard !self.holdsSeals else { return self.heldSeals.append(id) }
            self.sealed.insert(id)
            self.answerSeal(key, id)
        }
    }

    /// The bytes of an earlier, sealed incarnation of a stream.
    private func sealedBytes(before id: String, count: Int) -> [UInt8]? {
        let base = id.prefix(through: id.lastIndex(of: "-") ?? id.startIndex)
        return self.received.first {
            $0.key.hasPrefix(base) && self.sealed.contains($0.key) && $0.value.count == count
        }?
        .value
    }

    private func answerOpen(_ key: StreamKey, _ id: String, _ claim: OpenClaim = .none) {
        self.questionCount += 1
        if let held = self.ownerless[id], self.received[id] == nil, claim.from != StreamOffset(0) {
            guard self.isProved(claim, id, held) else { return self.demandProof(key, id, held, claim) }
            self.received[id] = held
            self.order.append(id)
        }
        let offset = self.received[id]?.count ?? 0
        let proof = self.proof(of: id)
        let outcome = self.withTail { $0.positionLearned(key, at: offset, proof) }
        defer { self.afterAnswer(id) }
        if outcome == .goOn || outcome == .done {
            if self.sealed.contains(id) { self.answerSeal(key, id) }
        } else {
            self.leave(key, id, after: outcome)
        }
    }

    private func isProved(_ claim: OpenClaim, _ id: String, _ held: [UInt8]) -> Bool {
        guard let streamID = StreamID(id) else { preconditionFailure("\(id) is a stream's id") }
        let end = StreamOffset(UInt64(held.count))
        let proof = StreamProof(of: streamID, at: end, tail: held.suffix(StreamProof.byteCountMax))
        return claim.from == end && claim.proof == proof.digest
    }

    private func demandProof(_ key: StreamKey, _ id: String, _ held: [UInt8], _ claim: OpenClaim) {
        switch self.withTail({ $0.proofDemanded(key, at: held.count, isRefused: claim.proof != nil) }) {
        case .claim(let claim): self.answerOpen(key, id, claim)
        case .outcome(let outcome): self.leave(key, id, after: outcome)
        }
    }

    private func leave(_ key: StreamKey, _ id: String, after outcome: AnswerOutcome) {
        switch outcome {
        case .goOn, .done: break
        case .openAgain: self.withTail { $0.readingPostponed(key) }
        case .postponed: break
        case .disputed: self.dispute(key, id)
        case .shortened: self.waiting.insert(key)
        }
    }

    private func answerSeal(_ key: StreamKey, _ id: String) {
        let proof = self.proof(of: id)
        switch self.withTail({ $0.sealedByReceiver(key, proof) }) {
        case .goOn, .done: break
        case .openAgain: self.withTail { $0.readingPostponed(key) }
        case .postponed: break
        case .disputed: self.dispute(key, id)
        case .shortened: self.waiting.insert(key)
        }
    }

    private func dispute(_ key: StreamKey, _ id: String) {
        let now = self.now
        self.withTail { $0.disputed(key, now) }
        self.disputed.append(id)
        self.waiting.insert(key)
    }

    private func proof(of id: String) -> StreamProof {
        let bytes = self.received[id] ?? []
        let end = StreamOffset(UInt64(bytes.count))
        guard let id = StreamID(id) else { preconditionFailure("\(id) is a stream's id") }
        guard !self.liesAbout.contains(id.text) else { return StreamProof(of: id, at: end, tail: "lies".utf8) }
        return StreamProof(of: id, at: end, tail: bytes.suffix(StreamProof.byteCountMax))
            .skipping(min(self.skippedCounts[id.text] ?? 0, end.rawValue))
    }

    /// What was said to be lost: how, of which file, from which byte on, and how many.
    var losses: [String] {
        self.notices.compactMap { notice in
            switch notice {
            case .cut(_, let path, let offset, let count): "cut \(path) \(offset)+\(count)"
            case .vanished(_, let path, let offset, let count): "vanished \(path) \(offset)+\(count)"
            default: nil
            }
        }
    }

    /// From which byte on each stream was said to be lost.
    var lostFrom: [String: [Int]] {
        var offsets: [String: [Int]] = [:]
        for notice in self.notices {
            switch notice {
            case .cut(let id?, _, let offset, _), .vanished(let id?, _, let offset, _):
                offsets[id.description, default: []].append(offset)
            default: break
            }
        }
        return offsets
    }

    /// The receiver says that the fleet has stored a stream up to `offset`.
    func store(_ id: String, upTo offset: Int) {
        self.withTail { tail in
            for key in tail.streams where tail.id(of: key).description == id { tail.stored(key, upTo: offset) }
        }
    }

    // MARK: What arrived

    /// What the receiver holds, stream by stream, in the order in which they were opened.
    var texts: [String] {
        self.order.compactMap { self.received[$0] }.map { String(decoding: $0, as: UTF8.self) }
    }
}

/// A receiver that is not connected, and what it has.
struct BenchStore {
    var receiver: BenchReceiver
    var received: [String: [UInt8]] = [:]
    var sealed: Set<String> = []
    var order: [String] = []
    var skippedCounts: [String: UInt64] = [:]
}

extension BenchStore {
    /// A receiver of a fleet that holds nothing yet.
    init(_ name: String, of fleet: String?) {
        self.init(receiver: BenchReceiver(name: name))
        self.receiver.fleet = fleet
    }
}

/// A receiver as an agent sees it: its name, its data directory, its starts, and the end of its journal.
struct BenchReceiver {
    var address: String
    var incarnation: Incarnation
    var starts: [ReceiverStart]
    var end: UInt64 = 0
    /// What it calls itself.
    var name = "bench"
    /// The fleet that it belongs to.
    var fleet: String?
    private var startCount: UInt64 = 0

    init(name: String) {
        self.address = "\(name):4390"
        self.incarnation = Incarnation(FNV1a.hash(name.utf8), 1)
        self.starts = [ReceiverStart(id: FNV1a.hash(name.utf8), position: 0)]
    }

    var identity: ReceiverIdentity {
        guard let identity = ReceiverIdentity(name: self.name, incarnation: incarnation, starts: starts, end: end)
        else {
            preconditionFailure("positions of starts do not go back")
        }
        return identity
    }

    /// The process starts again.
    mutating func restart() {
        self.starts = self.starts.filter { $0.position <= self.end }
        self.startCount += 1
        self.starts.append(ReceiverStart(id: self.startCount, position: self.end))
    }
}

/// What other programs do to files.
extension FaultyFiles {
    func exists(_ path: String) -> Bool { self.inode(of: path) != nil }

    func inode(of path: String) -> UInt64? { self.memory.node(at: path)?.number }

    /// Appends, creating the file; the kernel has written back by then, so that the inode may be a used one.
    func append(_ path: String, _ bytes: some Sequence<UInt8>) {
        if !self.exists(path) { self.memory.writeBack() }
        self.place(path, (self.bytes(of: path) ?? []) + bytes)
    }

    func append(_ path: String, _ text: String) { self.append(path, text.utf8) }

    /// Replaces a file's bytes in place.
    func rewrite(_ path: String, _ text: String) { self.place(path, Array(text.utf8)) }

    func remove(_ path: String) { self.change { disk throws(FileSystemError) in try disk.unlink(path) } }

    func move(_ path: String, _ newPath: String) {
        self.change { disk throws(FileSystemError) in try disk.rename(path, to: newPath) }
    }

    func makeDirectory(_ path: String) {
        self.change { disk throws(FileSystemError) in try disk.createDirectories(path) }
    }

    /// Does nothing where nothing is.
    private func change(_ body: (MemoryDisk) throws(FileSystemError) -> Void) {
        do throws(FileSystemError) { try body(self.memory) } catch {}
    }
}
