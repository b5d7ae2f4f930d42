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

/// A collection host: a disk, a clock, and a receiver that dies and is started again.
final class SimulatedReceiver {
    unowned let site: SiteLife
    let name: String
    /// Tells it from others.
    let number: Int
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
    /// Streams that were sealed; for the planted bug `forgetSealedStreams`.
    var sealedNow: Set<StreamID> = []
    var sealedBefore: Set<StreamID> = []
    /// What the planted bug `resendWithoutAsking` takes for the end of each stream.
    var blindEnds: [StreamID: UInt64] = [:]
    /// For the planted bugs about owners.
    var confusion = OwnerConfusion()

    init(_ site: SiteLife, number: Int) {
        self.site = site
        self.number = number
        let name = "receiver-\(number)"
        self.name = name
        let dice = site.dice
        self.clock = SimulatedClock(site.schedule, drift: site.knows(.drift) ? dice.int(-300...300) : 0)
        self.disk = SimulatedDisk(dice, self.clock)
        self.tally = Tally(trace: site.trace.map { trace in { trace("\(name): \($0)") } })
        self.exports = dice.pick([[], [.csv], [.mixpanel], [.ga4, .csv], [.ga4, .mixpanel, .csv]])
    }

    var isRunning: Bool { self.process != nil }

    func configuration() -> ReceiverConfiguration {
        let site = self.site
        var configuration = ReceiverConfiguration(dataDirectory: "/data")
        configuration.name = self.name
        configuration.agents = site.principals
        configuration.exports = self.exports.map(Self.options)
        configuration.limits.lineByteCountMax = 64 << 10
        configuration.limits.rawByteCountMax = 64 << 10
        configuration.limits.windowByteCount = site.knows(.smallWindow) ? 4096 : 256 << 10
        configuration.limits.idleMilliseconds = site.idleMilliseconds
        configuration.admissionByteCount = site.knows(.smallWindow) ? 16 << 10 : 1 << 20
        configuration.feedByteCount = site.knows(.smallFeed) ? 2 << 10 : 1 << 20
        configuration.journalRetention = site.knows(.shortRetention) ? .zero : .seconds(400 * 86_400)
        configuration.sealPatience = site.knows(.passingDays) ? .milliseconds(500) : .seconds(600)
        configuration.checkpointByteCount = site.knows(.smallFeed) ? 4 << 10 : 1 << 20
        configuration.checkpointInterval = .milliseconds(site.checkpointMilliseconds)
        return configuration
    }

    // MARK: Life and death

    func start() {
        guard self.process == nil, self.isPowered else { return }
        self.forgetUnlinked()
        let mayDie = !self.site.isCalm && self.site.knows(.receiverDeaths) && self.site.dice.chance(300)
        let files = self.disk.files(bugs: self.site.bugs, dyingIn: mayDie ? self.site.dice.int(1...400) : nil)
        do throws(FileSystemError) {
            self.process = try ReceiverProcess(self, files: files)
            self.unconfirmed = Set(self.unacknowledged.keys)
            self.process?.begin()
        } catch {
            files.die()
            if self.site.isCalm { self.site.violate("\(self.name) cannot start over a disk without faults: \(error)") }
            self.restartLater()
        }
    }

    func restartLater() {
        self.site.schedule.after(self.site.dice.milliseconds(50...5_000)) { self.start() }
    }

    /// SIGKILL.
    func kill() {
        guard let process = self.process else { return }
        self.process = nil
        process.end(isSaid: true)
        self.site.note("\(self.name) died")
        self.restartLater()
    }

    /// SIGTERM, without what agents sent and was not durable.
    func stop() {
        guard let process = self.process else { return }
        self.process = nil
        process.stop()
        self.site.note("\(self.name) stopped")
        if !self.site.isOver { self.restartLater() }
    }

    func cutPower() {
        self.process?.lost()
        self.process = nil
        self.isPowered = false
        self.places = ReadingPlaces()
        self.disk.cutPower()
        self.site.note("\(self.name) lost power")
        self.site.schedule.after(self.site.dice.milliseconds(1_000...20_000)) {
            self.isPowered = true
            self.start()
        }
    }

    func accept(_ connection: any CallingSide) -> (any AnsweringSide)? {
        self.process?.accept(connection)
    }

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
    private unowned let site: SiteLife
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
    private var sides: [ServerSide] = []
    private var isCommitting = false
    private var isTurning = false
    private(set) var isAlive = true
    private let budgetByteCount: Int
    private let death: ProcessDeath

    init(_ receiver: SimulatedReceiver, files: FaultyFiles) throws(FileSystemError) {
        let site = receiver.site
        self.receiver = receiver
        self.site = site
        self.files = files
        self.born = site.schedule.now
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
            poison: PoisonWatch(in: data, version: "1.2.3", places: receiver.places))
        let seed = StartSeed(id: site.dice.next(), incarnation: Incarnation(site.dice.next(), site.dice.next()))
        try journal.begin(seed, in: data, name: receiver.name, conditions, receiver.clock, telemetry: telemetry.journal)
        let identity = journal.identity(name: receiver.name)
        telemetry.started(journal.recovery, data: data.root, listening: "simulated")
        self.feed = JournalFeed(end: journal.end, byteCountMax: configuration.feedByteCount)
        var names = Set(["archive"] + configuration.exports.map(\.provider.rawValue))
        if site.has(.retireUnread) { names = ["archive"] }
        let retirement = JournalRetirement(names: names, retention: configuration.journalRetention)
        self.budgetByteCount = configuration.admissionByteCount
        self.budget = AdmissionBudget(byteCount: configuration.admissionByteCount)
        self.commit = CommitLoop(
            journal: journal, feed: self.feed, budget: self.budget, retirement: retirement, conditions: conditions,
            clock: receiver.clock, telemetry: telemetry)
        let checks = CheckQueue(site)
        self.shared = ReceiverShared(
            configuration: configuration, identity: identity, feed: self.feed, budget: self.budget,
            checker: BatchChecker(
                lineByteCountMax: configuration.limits.lineByteCountMax,
                shortByteCountMax: site.dice.chance(500) ? 0 : 32 << 10
            ) { checks.add($0) },
            committer: self.committer, conditions: conditions, clock: receiver.clock, telemetry: telemetry)
        // The planted bug: what the exports have read is told to no one.
        let heard = site.has(.retireUnread) ? JournalRetirement(names: [], retention: .zero) : retirement
        func group<Output: Projection & ~Copyable>(
            of output: Output.Type, telling retirement: JournalRetirement
        ) -> ProjectionGroup<FaultyFiles, Output> {
            ProjectionGroup(
                journalDirectory: data.journal, files: files, retirement: retirement,
                configuration: configuration.host, settings: LiveSettings(configuration.host),
                conditions: conditions, clock: receiver.clock, telemetry: telemetry.host)
        }
        var archives = group(of: ArchiveProjection<FaultyFiles>.self, telling: retirement)
        archives.add(try ArchiveProjection(data: data, zone: .utc))
        self.projections.append(GroupDriver(archives, delay: site.dice.pick(site.projectionDelays)))
        var exports = group(of: MortalProjection<ExportProjection<FaultyFiles>>.self, telling: heard)
        for options in configuration.exports {
            exports.add(
                MortalProjection(
                    try ExportProjection.live(options, data: data), mark: SiteLife.poisonMark, death: death))
        }
        self.projections.append(GroupDriver(exports, delay: site.dice.pick(site.projectionDelays)))
        checks.process = self
    }

    private static func openJournal(
        _ data: DataDirectory<FaultyFiles>, of receiver: SimulatedReceiver
    ) throws(FileSystemError) -> Journal<FaultyFiles> {
        let site = receiver.site
        let journal = try data.openJournal(
            segmentByteCountMax: site.journalSegmentByteCount,
            awake: .simulated(site.awakeCount))
        receiver.sealedBefore.formUnion(receiver.sealedNow)
        if let damage = journal.recovery.damages.first {
            if !site.mayForget, !receiver.loss.mayDamage {
                site.violate("nothing was damaged, but \(receiver.name)'s journal reports \(damage)")
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
    }

    /// Timers of connections are looked at as often.
    private func tick() {
        guard self.isAlive else { return }
        self.turn()
        self.site.schedule.after(.milliseconds(1_000)) { [weak self] in self?.tick() }
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
        self.loop.advanceTime(to: .uptimeNanoseconds(UInt64(self.site.schedule.now - self.born)))
        self.isTurning = false
        if self.files.isStopped { return self.receiver.kill() }
        for side in self.sides { side.flush() }
        self.sides.removeAll { !$0.isOpen }
        if self.budget.freeByteCount > self.budgetByteCount {
            self.site.violate("\(self.receiver.name) gave back more memory than it took")
        }
        if let name = self.shared.telemetry.host.unaccountable {
            self.site.violate("\(self.receiver.name)'s \(name) cannot say where every line went")
        }
        self.beginCommit()
    }

    // MARK: Commits

    private func beginCommit() {
        guard !self.isCommitting else { return }
        let requests = self.committer.takeSubmitted()
        guard !requests.isEmpty else { return }
        self.isCommitting = true
        let isSlow = self.site.knows(.slowSyncs) && !self.site.isCalm && self.site.dice.chance(50)
        let delay = self.site.dice.milliseconds(isSlow ? 1_000...30_000 : 0...8)
        self.site.schedule.after(delay) { [weak self] in self?.finishCommit(requests) }
    }

    private func finishCommit(_ requests: [CommitRequest]) {
        guard self.isAlive else { return }
        var requests = requests
        for index in requests.indices {
            requests[index] = self.receiver.blindly(requests[index])
            if case .batch(_, _, let description, let header, _, let raw) = requests[index] {
                self.receiver.took(description.name, end: header.end, raw: raw)
            }
            requests[index] = self.receiver.confusing(self.receiver.forgetting(requests[index]))
        }
        let retryAt = self.commit.step(requests)
        // A receiver without its journal ends by itself.
        if self.files.isStopped || self.commit.loss != nil { return self.receiver.kill() }
        if let retryAt {
            let wait = (retryAt - self.receiver.clock.monotonicTime()).nanoseconds
            self.site.schedule.after(max(wait, 1_000)) { [weak self] in self?.finishCommit([]) }
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
        case .now: wait = self.site.dice.milliseconds(self.site.isCalm ? 0...5 : self.projections[index].delay)
        case .at(let time): wait = max(1_000_000, (time - now).nanoseconds)
        case .later: return
        }
        self.projections[index].scheduled = wish
        self.projections[index].scheduleCount += 1
        let count = self.projections[index].scheduleCount
        self.site.schedule.after(wait) { [weak self] in
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
    private unowned let site: SiteLife
    weak var process: ReceiverProcess?

    init(_ site: SiteLife) {
        self.site = site
    }

    func add(_ check: @escaping @Sendable () -> Void) {
        self.site.schedule.after(Int64(self.site.dice.int(10...3_000)) * 1000) { [weak self] in
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
