internal import Logging
internal import NIOCore
internal import NIOEmbedded
internal import WaybillData
internal import WaybillFleet
internal import WaybillProtocol
internal import WaybillReceiver
internal import WaybillSystem
internal import WaybillTestSupport

/// One run of a receiver: the shipped parts, on one event loop and one thread.
///
/// `@unchecked Sendable`: a life runs on one thread.
final class FleetReceiverProcess: @unchecked Sendable {
    let receiver: FleetReceiver
    private unowned let life: FleetLife
    private let files: FaultyFiles
    let loop = EmbeddedEventLoop()
    private let born: Int64
    private let committer = Committer()
    private let budget: AdmissionBudget
    private let feed: JournalFeed
    private let shared: ReceiverShared
    private let membership: FleetMembership?
    private let retirement: JournalRetirement
    private var commit: CommitLoop<FaultyFiles>
    private var uploader: Uploader<FaultyFiles>
    private var sides: [FleetServerSide] = []
    private var isCommitting = false
    private var isTurning = false
    private(set) var isAlive = true

    init(_ receiver: FleetReceiver, files: FaultyFiles) throws {
        let life = receiver.life
        self.receiver = receiver
        self.life = life
        self.files = files
        self.born = life.schedule.now
        let configuration = receiver.configuration()
        self.membership = configuration.membership
        let telemetry = ReceiverTelemetry(logger: Logger(label: "receiver") { _ in receiver.tally })
        let data = DataDirectory(root: configuration.dataDirectory, files: files)
        try data.create()
        _ = try data.lock(processID: 1)
        var journal = try data.openJournal(
            segmentByteCountMax: life.journalSegmentByteCount, awake: .simulated(life.dice.pick([0, 2, 10_000])))
        if let damage = journal.recovery.damages.first {
            life.violate("nothing was damaged, but \(receiver.label)'s journal reports \(damage)")
        }
        let conditions = HostConditions(
            lastMark: journal.lastMark, configuration: configuration.host, data: data, telemetry: telemetry.host,
            sealInterval: .seconds(60))
        conditions.marks.set(true, for: Self.reader)
        let formerEnd = journal.end
        let seed = StartSeed(id: life.dice.next(), incarnation: Incarnation(life.dice.next(), life.dice.next()))
        try journal.begin(seed, in: data, name: receiver.name, conditions, receiver.clock, telemetry: telemetry.journal)
        self.membership?.begins(after: formerEnd, at: journal.end)
        let identity = journal.identity(name: receiver.name)
        self.uploader = try Uploader(
            receiver: receiver.name, fleet: receiver.bucket.fleet.text, journalDirectory: data.journal,
            end: journal.end, statePath: UploadState.path(in: data.root), pieceByteCount: life.pieceByteCount,
            files: files, store: BucketAccess(receiver.bucket, isMerger: false, receiver.clock),
            SeededGenerator(seed: life.dice.next()))
        self.feed = JournalFeed(end: journal.end, byteCountMax: configuration.feedByteCount)
        self.retirement = JournalRetirement(names: [Self.reader], retention: configuration.journalRetention)
        self.budget = AdmissionBudget(byteCount: configuration.admissionByteCount)
        self.commit = CommitLoop(
            journal: journal, feed: self.feed, budget: self.budget, retirement: self.retirement,
            conditions: conditions, clock: receiver.clock, telemetry: telemetry, membership: self.membership)
        let checks = FleetChecks()
        self.shared = ReceiverShared(
            configuration: configuration, identity: identity, feed: self.feed, budget: self.budget,
            checker: BatchChecker(lineByteCountMax: configuration.limits.lineByteCountMax) { checks.add($0) },
            committer: self.committer, conditions: conditions, clock: receiver.clock, telemetry: telemetry)
        checks.process = self
    }

    /// The name under which the uploader reads the journal.
    private static let reader = "store"

    func begin() {
        self.reached(self.uploader.stored)
        self.repeatedly({ [life] in life.isCalm ? 50...200 : life.uploadPause }, { $0.upload() })
        self.repeatedly({ 500...1_000 }, { $0.turn() })
        self.repeatedly({ 60_000...61_000 }, { $0.mark() })
    }

    private func repeatedly(_ pause: @escaping () -> ClosedRange<Int>, _ body: @escaping (FleetReceiverProcess) -> Void)
    {
        self.life.schedule.after(self.life.dice.milliseconds(pause())) { [weak self] in
            guard let self, self.isAlive else { return }
            body(self)
            self.repeatedly(pause, body)
        }
    }

    func accept(_ link: FleetLink) -> FleetServerSide {
        let side = FleetServerSide(link, self, handler: ConnectionHandler(shared: self.shared))
        self.sides.append(side)
        return side
    }

    /// Lets the event loop do what is due, sends what it wrote, and begins a commit when something waits for one.
    func turn() {
        guard self.isAlive, !self.isTurning else { return }
        self.isTurning = true
        self.loop.advanceTime(to: .uptimeNanoseconds(UInt64(self.life.schedule.now - self.born)))
        self.isTurning = false
        if self.files.isStopped { return self.receiver.kill() }
        for side in self.sides { side.flush() }
        self.sides.removeAll { !$0.isOpen }
        guard !self.isCommitting else { return }
        let requests = self.committer.takeSubmitted()
        guard !requests.isEmpty else { return }
        self.isCommitting = true
        self.life.schedule.after(self.life.dice.milliseconds(0...8)) { [weak self] in self?.finishCommit(requests) }
    }

    private func finishCommit(_ requests: [CommitRequest]) {
        guard self.isAlive else { return }
        let retryAt = self.commit.step(requests)
        if self.files.isStopped || self.commit.loss != nil { return self.receiver.kill() }
        if let retryAt {
            let wait = (retryAt - self.receiver.clock.monotonicTime()).nanoseconds
            self.life.schedule.after(max(wait, 1_000)) { [weak self] in self?.finishCommit([]) }
            return
        }
        self.isCommitting = false
        self.turn()
    }

    /// Once a minute.
    private func mark() {
        guard !self.isCommitting, self.commit.mark() != nil else { return }
        self.isCommitting = true
        self.life.schedule.after(.seconds(1)) { [weak self] in self?.finishCommit([]) }
    }

    // MARK: The bucket

    private func upload() {
        do throws(UploadFailure) {
            for _ in 0..<(self.life.isCalm ? 20 : self.life.dice.int(1...3)) {
                switch try self.uploader.step(upTo: self.feed.end) {
                case .idle: return
                case .stored(let piece, let creation):
                    self.life.note("\(self.receiver.label) \(creation) \(self.uploader.chain) up to \(piece.end)")
                    if self.files.isStopped { return self.receiver.kill() }
                    self.reached(piece.end)
                case .diverged(let position, let former):
                    self.life.note("\(self.receiver.label) leaves \(former) at \(position)")
                    // A chain is left when others have written under its name; no one does so again and again.
                    if self.uploader.divergenceCount > 20 {
                        return self.life.violate("\(self.receiver.label) begins one chain after the other")
                    }
                }
            }
        } catch {
            if self.files.isStopped { return self.receiver.kill() }
            if case .disk(let error) = error, self.life.isCalm {
                self.life.violate("\(self.receiver.label) has a disk without faults, and says \(error)")
            }
        }
    }

    private func reached(_ position: JournalPosition) {
        self.retirement.checkpointed(Self.reader, at: position)
        self.membership?.advance(to: position)
        self.turn()
    }

    var isUploaded: Bool { self.uploader.stored >= self.feed.end && !self.isCommitting }

    // MARK: The end

    /// The process is gone; its kernel closes its connections.
    func end() {
        guard self.isAlive else { return }
        self.files.die()
        self.isAlive = false
        for side in self.sides { side.close() }
        self.sides = []
        self.budget.open()
        self.loop.advanceTime(to: .distantFuture)
        _ = self.committer.takeSubmitted()
    }

    /// A thread of the pool has checked a batch.
    func check(_ body: @escaping @Sendable () -> Void) {
        self.life.schedule.after(Int64(self.life.dice.int(10...3_000)) * 1000) { [weak self] in
            guard let self, self.isAlive else { return }
            body()
            self.turn()
        }
    }
}

/// Checks of batches wait here for a thread of the pool.
///
/// `@unchecked Sendable`: a life runs on one thread.
private final class FleetChecks: @unchecked Sendable {
    weak var process: FleetReceiverProcess?

    func add(_ check: @escaping @Sendable () -> Void) {
        self.process?.check(check)
    }
}
