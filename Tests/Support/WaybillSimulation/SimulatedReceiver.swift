internal import Logging
internal import NIOCore
internal import NIOEmbedded
internal import WaybillCompression
internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillReceiver
internal import WaybillReplay
internal import WaybillSystem
internal import WaybillTestSupport

/// A collection host: a disk, a clock, and a receiver, of a fleet or not, that dies and is started again.
final class SimulatedReceiver {
    unowned let life: any Life
    let name: String
    /// Tells it from others.
    let number: Int
    /// Its fleet's.
    let bucket: FleetBucket?
    let disk: SimulatedDisk
    let clock: SimulatedClock
    let tally: Tally
    private(set) var process: ReceiverProcess?
    private(set) var isPowered = true
    /// Where the readers of its processes are, in memory that a power cut takes.
    var places = ReadingPlaces()
    let exports: [Destination]
    /// How far the receiver has said that it holds each stream.
    var promised: [StreamName: StreamOffset] = [:]
    /// Inflated batches by stream, until they are acknowledged.
    var unacknowledged: [StreamName: [(end: StreamOffset, raw: SharedBytes)]] = [:]
    /// Streams with batches that arrived before the last start: what that start found of them is what it says first.
    var unconfirmed: Set<StreamName> = []
    /// How far strangers have shipped into streams of their own under an agent's id.
    var squatted: [StreamID: StreamOffset] = [:]
    /// What it last told an agent of itself.
    var identity: ReceiverIdentity?
    var loss = DataLoss()
    /// For planted bugs.
    var confusion = ReceiverConfusion()

    init(_ life: any Life, number: Int, name: String, bucket: FleetBucket? = nil) {
        self.life = life
        self.number = number
        self.name = name
        self.bucket = bucket
        self.clock = life.makeClock()
        self.disk = SimulatedDisk(life.dice, self.clock)
        self.tally = life.tally(of: "receiver \(number)")
        self.exports = life.dice.pick(life.rules.exportChoices)
    }

    /// Two receivers of a fleet may have one name.
    var label: String { "receiver \(self.number)" }

    var isRunning: Bool { self.process != nil }

    func configuration() -> ReceiverConfiguration {
        var configuration = ReceiverConfiguration(dataDirectory: "/data")
        configuration.name = self.name
        configuration.exports = self.exports.map(Self.options)
        configuration.limits.lineByteCountMax = 64 << 10
        configuration.limits.rawByteCountMax = 64 << 10
        self.life.configure(&configuration, of: self)
        return configuration
    }

    // MARK: Life and death

    func start() {
        guard self.process == nil, self.isPowered else { return }
        self.forgetUnlinked()
        let mayDie = !self.life.isCalm && self.life.rules.killsReceivers && self.life.dice.chance(300)
        let files = self.disk.files(bugs: self.life.bugs, dyingIn: mayDie ? self.life.dice.int(1...400) : nil)
        do throws(FileSystemError) {
            self.process = try ReceiverProcess(self, files: files)
            self.unconfirmed = Set(self.unacknowledged.keys)
            self.process?.begin()
        } catch {
            files.die()
            if self.life.isCalm { self.life.violate("\(self.label) cannot start over a disk without faults: \(error)") }
            self.restartLater()
        }
    }

    func restartLater() {
        self.life.schedule.after(self.life.dice.milliseconds(self.life.receiverPause)) { self.start() }
    }

    /// SIGKILL.
    func kill() {
        guard let process = self.process else { return }
        self.process = nil
        process.end(isSaid: true)
        self.life.note("\(self.label) died")
        self.restartLater()
    }

    /// SIGTERM, without what agents sent and was not durable.
    func stop() {
        guard let process = self.process else { return }
        self.process = nil
        process.stop()
        self.life.note("\(self.label) stopped")
        if !self.life.isOver { self.restartLater() }
    }

    func cutPower() {
        self.process?.lost()
        self.process = nil
        self.isPowered = false
        self.places = ReadingPlaces()
        self.disk.cutPower()
        self.life.note("\(self.label) lost power")
        self.life.schedule.after(self.life.dice.milliseconds(1_000...20_000)) {
            self.isPowered = true
            self.start()
        }
    }

    func accept(_ connection: any CallingSide) -> (any AnsweringSide)? {
        self.process?.accept(connection)
    }

    /// Whether its bucket has all of its journal.
    var isUploaded: Bool { self.process?.isUploaded ?? false }

    /// The life is over.
    func release() {
        self.process?.end(isSaid: false)
        self.process = nil
        self.isPowered = false
    }
}

/// One run of a receiver: the shipped parts, on one event loop and one thread.
///
/// `@unchecked Sendable`: a life runs on one thread.
final class ReceiverProcess: @unchecked Sendable {
    let receiver: SimulatedReceiver
    private unowned let life: any Life
    private let files: FaultyFiles
    let loop = EmbeddedEventLoop()
    private let born: Int64
    private let hasPrincipals: Bool
    private let committer = Committer()
    private let budget: AdmissionBudget
    private let feed: JournalFeed
    private let shared: ReceiverShared
    private var commit: CommitLoop<FaultyFiles>
    private var projections: [any ProjectionDriver] = []
    /// To the bucket of its fleet.
    private let upload: SimulatedUpload?
    private var sides: [ServerSide] = []
    private var isCommitting = false
    private var isTurning = false
    private(set) var isAlive = true
    private let budgetByteCount: Int
    private let death: ProcessDeath

    init(_ receiver: SimulatedReceiver, files: FaultyFiles) throws(FileSystemError) {
        let life = receiver.life
        self.receiver = receiver
        self.life = life
        self.files = files
        self.born = life.schedule.now
        let configuration = receiver.configuration()
        self.hasPrincipals = configuration.agents != nil
        let telemetry = ReceiverTelemetry(logger: Logger(label: "receiver") { _ in receiver.tally })
        let data = DataDirectory(root: configuration.dataDirectory, files: files)
        try data.create()
        do throws(DataDirectoryError) {
            _ = try data.lock(processID: 1)
        } catch {
            guard case .unusable(let cause) = error else {
                preconditionFailure("one receiver runs at a time: \(error)")
            }
            throw cause
        }
        var journal = try Self.openJournal(data, of: receiver)
        let death = ProcessDeath(of: receiver.places, files)
        self.death = death
        let conditions = HostConditions(
            lastMark: journal.lastMark, configuration: configuration.host, data: data, telemetry: telemetry.host,
            sealInterval: receiver.bucket.map { _ in .seconds(60) },
            poison: PoisonWatch(in: data, version: "1.2.3", places: receiver.places))
        let formerEnd = journal.end
        let seed = StartSeed(id: life.dice.next(), incarnation: Incarnation(life.dice.next(), life.dice.next()))
        try journal.begin(seed, in: data, name: receiver.name, conditions, receiver.clock, telemetry: telemetry.journal)
        let identity = journal.identity(name: receiver.name)
        telemetry.started(journal.recovery, data: data.root, listening: "simulated")
        self.feed = JournalFeed(end: journal.end, byteCountMax: configuration.feedByteCount)
        var names = Set(["archive"] + configuration.exports.map(\.provider.rawValue))
        if life.has(.retireUnread) { names = ["archive"] }
        if receiver.bucket != nil { names = [SimulatedUpload.reader] }
        let retirement = JournalRetirement(names: names, retention: configuration.journalRetention)
        self.upload = try receiver.bucket.map { (bucket) throws(FileSystemError) in
            conditions.marks.set(true, for: SimulatedUpload.reader)
            configuration.membership?.begins(after: formerEnd, at: journal.end)
            return try SimulatedUpload(
                to: bucket, of: receiver, data, end: journal.end, retirement, configuration.membership)
        }
        self.budgetByteCount = configuration.admissionByteCount
        self.budget = AdmissionBudget(byteCount: configuration.admissionByteCount)
        self.commit = CommitLoop(
            journal: journal, feed: self.feed, budget: self.budget, retirement: retirement, conditions: conditions,
            clock: receiver.clock, telemetry: telemetry, membership: configuration.membership)
        let checks = CheckQueue(life)
        self.shared = ReceiverShared(
            configuration: configuration, identity: identity, feed: self.feed, budget: self.budget,
            checker: BatchChecker(
                lineByteCountMax: configuration.limits.lineByteCountMax,
                shortByteCountMax: life.dice.chance(500) ? 0 : 32 << 10
            ) { checks.add($0) },
            committer: self.committer, conditions: conditions, clock: receiver.clock, telemetry: telemetry)
        checks.process = self
        if receiver.bucket == nil { try self.addProjections(configuration, data, conditions, telemetry, retirement) }
    }

    private func addProjections(
        _ configuration: ReceiverConfiguration, _ data: DataDirectory<FaultyFiles>, _ conditions: HostConditions,
        _ telemetry: ReceiverTelemetry, _ retirement: JournalRetirement
    ) throws(FileSystemError) {
        let life = self.life
        // The planted bug: what the exports have read is told to no one.
        let heard = life.has(.retireUnread) ? JournalRetirement(names: [], retention: .zero) : retirement
        func group<Output: Projection & ~Copyable>(
            of output: Output.Type, telling retirement: JournalRetirement
        ) -> ProjectionGroup<FaultyFiles, Output> {
            ProjectionGroup(
                journalDirectory: data.journal, files: self.files, retirement: retirement,
                configuration: configuration.host, settings: LiveSettings(configuration.host),
                conditions: conditions, clock: self.receiver.clock, telemetry: telemetry.host)
        }
        var archives = group(of: ArchiveProjection<FaultyFiles>.self, telling: retirement)
        archives.add(try ArchiveProjection(data: data, zone: .utc))
        self.projections.append(GroupDriver(archives, delay: life.dice.pick(life.rules.projectionDelays)))
        var exports = group(of: MortalProjection<ExportProjection<FaultyFiles>>.self, telling: heard)
        for options in configuration.exports {
            exports.add(
                MortalProjection(
                    try ExportProjection.live(options, data: data), mark: SiteLife.poisonMark, death: self.death))
        }
        self.projections.append(GroupDriver(exports, delay: life.dice.pick(life.rules.projectionDelays)))
    }

    private static func openJournal(
        _ data: DataDirectory<FaultyFiles>, of receiver: SimulatedReceiver
    ) throws(FileSystemError) -> Journal<FaultyFiles> {
        let life = receiver.life
        let journal = try data.openJournal(
            segmentByteCountMax: life.rules.journalSegmentByteCount, awake: .simulated(life.awakeCount))
        receiver.confusion.sealedBefore.formUnion(receiver.confusion.sealedNow)
        if let damage = journal.recovery.damages.first {
            if !life.mayForget, !receiver.loss.mayDamage {
                life.violate("nothing was damaged, but \(receiver.label)'s journal reports \(damage)")
            }
            receiver.loss.isDamage = true
        }
        // The journal is gone, and the archive alone has what was read from it: exports were made again without.
        // A full disk may keep that from being made durable: then it is shipped again.
        if journal.end == JournalPosition(0) {
            let isUnread = receiver.disk.isFull && !receiver.storedLines().isEmpty
            if isUnread || !journal.streams.isEmpty { receiver.loss.isDamage = true }
        }
        return journal
    }

    func begin() {
        self.tick()
        for index in self.projections.indices { self.follow(index) }
        guard let upload else { return }
        upload.begin()
        self.turn()
        self.repeatedly({ upload.pause }, { $0.act(upload) })
        self.repeatedly({ 60_000...61_000 }, { $0.mark() })
    }

    private func repeatedly(_ pause: @escaping () -> ClosedRange<Int>, _ body: @escaping (ReceiverProcess) -> Void) {
        self.life.schedule.after(self.life.dice.milliseconds(pause())) { [weak self] in
            guard let self, self.isAlive else { return }
            body(self)
            self.repeatedly(pause, body)
        }
    }

    private func act(_ upload: SimulatedUpload) {
        upload.act(upTo: self.feed.end)
        self.turn()
    }

    /// Once a minute, in a fleet.
    private func mark() {
        guard !self.isCommitting, self.commit.mark() != nil else { return }
        self.isCommitting = true
        self.life.schedule.after(.seconds(1)) { [weak self] in self?.finishCommit([]) }
    }

    /// Timers of connections are looked at as often.
    private func tick() {
        guard self.isAlive else { return }
        self.turn()
        self.life.schedule.after(.milliseconds(1_000)) { [weak self] in self?.tick() }
    }

    func accept(_ connection: any CallingSide) -> ServerSide {
        let side = ServerSide(connection, self, handler: ConnectionHandler(shared: self.shared))
        self.sides.append(side)
        return side
    }

    /// The name of a stream that a connection has opened.
    func name(_ id: StreamID, of connection: any CallingSide) -> StreamName {
        StreamName(principal: self.hasPrincipals ? connection.principal : "", id: id)
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
        if self.budget.freeByteCount > self.budgetByteCount {
            self.life.violate("\(self.receiver.label) gave back more memory than it took")
        }
        if let name = self.shared.telemetry.host.unaccountable {
            self.life.violate("\(self.receiver.label)'s \(name) cannot say where every line went")
        }
        self.beginCommit()
    }

    // MARK: Commits

    private func beginCommit() {
        guard !self.isCommitting else { return }
        let requests = self.committer.takeSubmitted()
        guard !requests.isEmpty else { return }
        self.isCommitting = true
        let isSlow = self.life.rules.slowsSyncs && !self.life.isCalm && self.life.dice.chance(50)
        let delay = self.life.dice.milliseconds(isSlow ? 1_000...30_000 : 0...8)
        self.life.schedule.after(delay) { [weak self] in self?.finishCommit(requests) }
    }

    private func finishCommit(_ requests: [CommitRequest]) {
        guard self.isAlive else { return }
        var requests = requests
        for index in requests.indices {
            requests[index] = self.receiver.blindly(requests[index])
            if case .batch(_, _, let description, let header, _, let raw) = requests[index] {
                if self.upload == nil { self.receiver.took(description.name, end: header.end, raw: raw) }
            }
            requests[index] = self.receiver.confusing(self.receiver.forgetting(requests[index]))
        }
        let retryAt = self.commit.step(requests)
        // A receiver without its journal ends by itself.
        if self.files.isStopped || self.commit.loss != nil { return self.receiver.kill() }
        if let retryAt {
            let wait = (retryAt - self.receiver.clock.monotonicTime()).nanoseconds
            self.life.schedule.after(max(wait, 1_000)) { [weak self] in self?.finishCommit([]) }
            return
        }
        self.isCommitting = false
        self.turn()
        for index in self.projections.indices { self.follow(index) }
    }

    // MARK: Projections

    /// Lets a projection do what it needs, a little later.
    private func follow(_ index: Int) {
        guard self.isAlive else { return }
        let now = self.receiver.clock.monotonicTime()
        let wish = self.projections[index].need(self.feed, now)
        // What waits for a later time may wait no longer.
        if let scheduled = self.projections[index].scheduled, wish == .later || scheduled <= wish { return }
        let wait: Int64
        switch wish {
        case .now: wait = self.life.dice.milliseconds(self.life.isCalm ? 0...5 : self.projections[index].delay)
        case .at(let time): wait = max(1_000_000, (time - now).nanoseconds)
        case .later: return
        }
        self.projections[index].scheduled = wish
        self.projections[index].scheduleCount += 1
        let count = self.projections[index].scheduleCount
        self.life.schedule.after(wait) { [weak self] in
            guard let self, self.isAlive, self.projections[index].scheduleCount == count else { return }
            self.projections[index].scheduled = nil
            self.projections[index].act(self.feed, self.receiver.clock.monotonicTime())
            if self.files.isStopped { return self.receiver.kill() }
            if self.projections.allSatisfy({ !$0.isRecovering }) { self.receiver.recountIfLost() }
            self.follow(index)
        }
    }

    // MARK: The end

    /// The process is gone; its kernel closes its connections.
    func end(isSaid: Bool) {
        guard self.isAlive else { return }
        self.death.kill()
        self.isAlive = false
        if let left = self.death.left { self.receiver.places = left }
        for side in self.sides { side.close(isSaid: isSaid) }
        self.sides = []
        // Who still waits for room holds its connection: there is room for everyone now.
        self.budget.open()
        // What is still to be done on the loop finds its connection gone.
        self.loop.advanceTime(to: .distantFuture)
        // What was handed over and never committed holds the connections that wait for it.
        _ = self.committer.takeSubmitted()
    }

    func lost() {
        for side in self.sides { side.lost() }
        self.end(isSaid: false)
    }

    /// As `Receiver.run` ends: connections, then what they handed over, then the projections.
    func stop() {
        for side in self.sides { side.leave() }
        self.turn()
        guard self.isAlive else { return }
        if !self.isCommitting {
            _ = self.commit.step(self.committer.takeSubmitted())
        }
        self.feed.close()
        for projection in self.projections where !self.files.isStopped { projection.finish(self.feed) }
        self.end(isSaid: true)
    }

    /// What the projections that are behind wait for.
    var openProjections: [String] {
        self.projections.filter { !$0.isIdle(self.feed) }.map(\.state)
    }

    /// Whether every projection is as far as the journal.
    var isProjected: Bool {
        self.projections.allSatisfy { $0.isIdle(self.feed) }
    }

    var isUploaded: Bool { self.upload.map { $0.stored >= self.feed.end && !self.isCommitting } ?? false }

    /// Whether no connection is open and no commit runs.
    var isQuiet: Bool { self.sides.isEmpty && !self.isCommitting }

    /// What no one has taken of the admission budget, when no connection is open.
    var leakedByteCount: Int {
        self.sides.isEmpty && !self.isCommitting ? self.budgetByteCount - self.budget.freeByteCount : 0
    }
}

/// Checks of batches wait here for a thread of the pool.
///
/// `@unchecked Sendable`: a life runs on one thread.
private final class CheckQueue: @unchecked Sendable {
    private unowned let life: any Life
    weak var process: ReceiverProcess?

    init(_ life: any Life) {
        self.life = life
    }

    func add(_ check: @escaping @Sendable () -> Void) {
        self.life.schedule.after(Int64(self.life.dice.int(10...3_000)) * 1000) { [weak self] in
            guard let process = self?.process, process.isAlive else { return }
            check()
            process.turn()
        }
    }
}

extension AwakeLimits {
    /// Limits of a life with few streams.
    static func simulated(_ count: Int) -> AwakeLimits {
        AwakeLimits(
            sealedCount: count, openCountAtStart: count / 2, openCount: count, openCountMax: count + 2,
            remadeByteCountMin: 1_000)
    }
}
