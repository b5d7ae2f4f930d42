internal import Logging
internal import WaybillAgent
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail
internal import WaybillTestSupport

/// An app host: a disk with sources on it, a clock, and an agent that dies and is started again.
///
/// `@unchecked Sendable`: a life runs on one thread.
final class SimulatedAgent: @unchecked Sendable {
    unowned let site: SiteLife
    let disk: SimulatedDisk
    let clock: SimulatedClock
    let tally: Tally
    private(set) var isPowered = true
    private var process: AgentProcess?
    private var wakeID = 0
    private var events: [(generation: Int, event: LinkEvent)] = []
    private let hints = HintStore()
    private var hintsAreScheduled = false
    /// What a receiver has acknowledged, as the registry may know it; for planted bugs.
    private var acknowledged: [StreamID: UInt64] = [:]
    /// For planted bugs.
    var credulity = Credulity()
    var fileRecord = FileRecord()
    /// The last id of each path, for planted bugs.
    var lastIDs: [String: StreamID] = [:]
    /// How many streams it has opened.
    var openCount = 0
    /// Every stream that it has opened.
    var opened: Set<StreamID> = []
    private var stepCount = 0
    /// The sources in its configuration file.
    private var sourceList = SourceList.usual
    private var encoder: BatchEncoder

    /// With its LF.
    static let lineByteCountMax = 2048
    static let spool = "/spool"
    static let logs = "/log"
    /// Logs behind links; not there in most lives.
    static let links = "/linked"
    /// A link to the folder of the spool; not there in most lives.
    static let way = "/way"
    static let state = "/agent"

    init(_ site: SiteLife) {
        self.site = site
        self.clock = SimulatedClock(site.schedule, drift: site.knows(.drift) ? site.dice.int(-300...300) : 0)
        self.disk = SimulatedDisk(site.dice, self.clock, hasBirths: !site.knows(.missingBirths))
        self.disk.failsAfterWrites = false
        self.tally = Tally(trace: site.trace.map { trace in { trace("agent: \($0)") } })
        self.encoder = BatchEncoder(level: 1, rawByteCountMax: max(site.batchByteCountMax, Self.lineByteCountMax))
        let files = self.disk.files()
        do throws(FileSystemError) {
            for path in [Self.spool, Self.logs] { try files.createDirectories(path) }
            try files.synchronizeDirectory("/")
        } catch {
            preconditionFailure("a new disk takes folders: \(error)")
        }
        self.hints.isComplete = !site.knows(.noHints)
        self.linkSpool()
        self.setDescriptors()
    }

    var isAlive: Bool { self.process.map { !$0.files.isStopped } ?? false }
    var isRunning: Bool { self.process != nil }

    func holds(_ connection: Connection) -> Bool {
        self.process?.connection === connection
    }

    private func configuration() -> AgentConfiguration {
        guard let name = AgentName("a") else { preconditionFailure("a is a name") }
        let spool = self.site.knows(.linkedSpools) ? Self.way + Self.spool : Self.spool
        var sources = self.sourceList.sources(spool: spool)
        if self.site.knows(.links) { sources.append(SourceList.linked) }
        var configuration = AgentConfiguration(
            name: name, stateDirectory: Self.state, receivers: self.receivers, sources: sources)
        configuration.token = Secret(Ownership.token(of: Ownership.agent))
        configuration.batchByteCountMax = self.site.batchByteCountMax
        configuration.tailLimits.lineByteCountMax = Self.lineByteCountMax
        configuration.tailLimits.openFileCountMax = self.site.openFileCountMax
        configuration.tailLimits.renamedGrace = .seconds(30)
        self.limitFiles(&configuration.tailLimits)
        return configuration
    }

    // MARK: Life and death

    func start() {
        guard self.process == nil, self.isPowered else { return }
        let mayDie = !self.site.isCalm && self.site.knows(.agentDeaths) && self.site.dice.chance(300)
        let files = self.disk.files(
            bugs: self.site.bugs, dyingIn: mayDie ? self.site.dice.int(1...60) : nil, isAgent: true
        ) {
            [unowned self] in self.willDelete($0)
        }
        do throws(FileSystemError) {
            let configuration = self.configuration()
            try files.createDirectories(configuration.stateDirectory)
            let quarantine = Path.join(configuration.stateDirectory, "quarantine")
            try files.createDirectories(quarantine)
            let registry = try StateLog(
                path: Path.join(configuration.stateDirectory, "registry.state"), files: files)
            let tail = Tail(
                fileSystem: files, registry: registry, agent: configuration.name, sources: configuration.tailSources,
                quarantineDirectory: quarantine, limits: configuration.tailLimits)
            let buffers = SimulatedBuffers(byteCount: configuration.rawByteCountMax)
            let process = AgentProcess(files, buffers)
            let pump = Pump(
                configuration: configuration, files: files, tail: tail, hints: SimulatedHints(store: self.hints),
                buffers: buffers, clock: self.clock,
                telemetry: AgentTelemetry(logger: Logger(label: "agent") { _ in self.tally }),
                seed: self.site.dice.bits()
            ) { [unowned process, site] address, generation in
                let connection = Connection(site, agent: self, generation: generation)
                process.connection = connection
                process.attemptCount += 1
                // The planted bug: both addresses have one name.
                let isSecond = site.has(.ignoreAddress) && process.attemptCount.isMultiple(of: 2)
                site.connect(connection, isFalse: address == Self.falseReceiver || isSecond)
                return connection
            }
            process.pump = Box(pump)
            self.process = process
            self.events = []
            self.wake(after: 0)
        } catch {
            files.die()
            if self.site.isCalm { self.site.violate("the agent cannot start over a disk without faults: \(error)") }
            self.restartLater()
        }
    }

    func restartLater() {
        self.site.schedule.after(self.site.dice.milliseconds(20...5_000)) { self.start() }
    }

    func kill() {
        guard let process = self.process else { return }
        process.files.die()
        // Its kernel closes what it had open.
        process.connection?.close()
        self.process = nil
        self.forgetRecent()
        self.excuseUnregistered()
        self.site.note("the agent died")
        self.restartLater()
    }

    func stop() {
        self.post(.stop, 0)
    }

    /// Changes the sources in its configuration file, and makes it reload that file if it runs.
    func reload(_ list: SourceList) {
        self.sourceList = list
        guard let process = self.process, process.pump != nil else { return }
        if self.site.has(.trustFlightAtReload) { process.connection?.trustFlight() }
        let reload = AgentReload(self.configuration(), reconnects: false) { [self] outcome in
            self.site.note("the agent reloads \(list): \(outcome)")
        }
        self.post(.asked(.reload(reload)), 0)
    }

    func cutPower() {
        self.process?.files.die()
        self.process?.connection?.loseAgent()
        self.process = nil
        self.isPowered = false
        self.site.note("the sources' host lost power")
    }

    func powerReturns() {
        self.isPowered = true
        self.start()
    }

    /// The life is over.
    func release() {
        self.process?.files.die()
        self.process?.connection?.release()
        self.process = nil
        self.isPowered = false
    }

    // MARK: Steps

    func post(_ event: LinkEvent, _ generation: Int) {
        guard self.process != nil else { return }
        self.events.append((generation, event))
        self.wake(after: Int64(self.site.dice.int(10...300)) * 1000)
    }

    /// Only the last wake-up counts; each step says again when the next one is due.
    private func wake(after delay: Int64) {
        self.wakeID += 1
        let id = self.wakeID
        self.site.schedule.after(delay) { if self.wakeID == id { self.step() } }
    }

    private func step() {
        guard let process = self.process, let pump = process.pump else { return }
        let events = self.events
        self.events = []
        self.stepCount += 1
        if self.stepCount > 200_000 { return self.site.violate("the agent never rests") }
        let outcome = pump.value.step(events)
        if process.files.isStopped { return self.kill() }
        if let outcome {
            self.process = nil
            process.files.die()
            self.excuseUnregistered()
            self.site.note("the agent ended: \(outcome)")
            if !self.site.isOver { self.restartLater() }
            return
        }
        self.wake(after: max(20_000, pump.value.restingTime().nanoseconds))
    }

    /// What a batch becomes on the wire; its buffer is free again a little later.
    func encoded(_ batch: RawBatch) -> [UInt8] {
        let (header, payload) = self.encoder.encode(batch)
        let bytes = Message.batch(header).encoded + payload
        if let process {
            process.buffers.wireByteCount += payload.count
            self.site.schedule.after(Int64(self.site.dice.int(0...2_000)) * 1000) {
                guard process.buffers.giveBack(batch.buffer), self.process === process else { return }
                self.post(.bufferFreed, 0)
            }
        }
        return bytes
    }

    func changed(_ path: String, isFolder: Bool) {
        guard self.process != nil, self.hints.isComplete else { return }
        if self.site.knows(.missedHints), !self.site.isCalm, self.site.dice.chance(100) {
            self.hints.isOverflowing = self.site.dice.chance(500)
            if !self.hints.isOverflowing { return }
        }
        let seen = self.site.knows(.linkedSpools) && path.hasPrefix(Self.spool) ? Self.way + path : path
        if isFolder { self.hints.folders.insert(seen) } else { self.hints.paths.insert(seen) }
        guard !self.hintsAreScheduled else { return }
        self.hintsAreScheduled = true
        self.site.schedule.after(1_000_000) {
            self.hintsAreScheduled = false
            guard let process = self.process, let pump = process.pump else { return }
            pump.value.filesChanged()
            self.wake(after: pump.value.restingTime().nanoseconds)
        }
    }

    /// Where it connects to, in turn.
    private var receivers: [NetworkAddress] {
        let honest = NetworkAddress(host: "receiver", port: 4390)
        guard self.site.knows(.falseReceiver) else { return [honest] }
        return [honest, self.site.has(.ignoreAddress) ? honest : Self.falseReceiver]
    }

    private static let falseReceiver = NetworkAddress(host: "false", port: 4390)

    // MARK: Its files

    /// The segments in the spool that have lines.
    var segments: [(id: StreamID, path: String, bytes: [UInt8])] {
        self.disk.memory.files(below: Self.spool).compactMap { path, bytes in
            guard path.hasSuffix(".ndjson"), let id = StreamID(Self.stem(of: path)) else { return nil }
            return (id, path, bytes)
        }
    }

    /// A stream that a stranger may have heard of.
    var anyStream: StreamDescription? {
        let segments = Set(self.segments.map(\.id))
        let ids = segments.union(self.opened).sorted { $0.text < $1.text }
        guard !ids.isEmpty else { return nil }
        let id = self.site.dice.pick(ids)
        if segments.contains(id) || self.disk.memory.node(at: Path.join(Self.spool, "\(id).ndjson")) != nil {
            return StreamDescription(
                id: id, source: "/elsewhere", environment: "prod", bundle: "com.example.shop", format: .waybill)
        }
        return StreamDescription(
            id: id, source: "/elsewhere", environment: "prod", bundle: "com.example.web", format: .ndjson,
            timeMember: "time", nameMember: "name")
    }

    /// The lines of every file at the sources.
    var sourceLines: Set<ArraySlice<UInt8>> {
        var lines: Set<ArraySlice<UInt8>> = []
        for folder in [Self.spool, Self.logs] {
            for (_, bytes) in self.disk.memory.files(below: folder) {
                lines.formUnion(FileLines.of(bytes))
            }
        }
        for path in self.site.linkedLogs?.paths ?? [] {
            lines.formUnion((self.disk.memory.bytes(of: path) ?? []).split(separator: 0x0A))
        }
        return lines
    }

    /// An honest receiver has sealed a stream.
    func sealed(_ id: StreamID, by receiver: SimulatedReceiver) {
        let bytes = self.disk.memory.bytes(of: Path.join(Self.spool, "\(id).ndjson")) ?? []
        if self.site.holds(receiver, bytes) { self.process?.seals.insert(id) }
    }

    /// A segment may go when an honest receiver has its lines, or when a false one was sent every byte of it.
    private func willDelete(_ path: String) {
        let path = self.real(path)
        guard path.hasPrefix(Self.spool), path.hasSuffix(".ndjson"), let id = StreamID(Self.stem(of: path)) else {
            return
        }
        let bytes = self.disk.memory.bytes(of: path) ?? []
        let isRight =
            self.process?.seals.contains(id) ?? false || self.site.isHeldAnywhere(bytes)
            || self.site.falseReceiver.wasSent(id, bytes)
        guard isRight else { return self.site.violate("\(path) is deleted, and no honest receiver has its lines") }
        self.site.schedule.after(1) {
            guard self.disk.memory.node(at: path) == nil else { return }
            self.site.ledger.excuse(bytes.split(separator: 0x0A))
        }
    }

    private static func stem(of path: String) -> String {
        String(Path.name(of: path).dropLast(".ndjson".utf8.count))
    }

    // MARK: For planted bugs

    func acknowledged(_ id: StreamID, _ offset: StreamOffset) {
        self.acknowledged[id] = offset.rawValue
        guard self.site.has(.deleteOnAck), let files = self.process?.files else { return }
        let path = Path.join(Self.spool, "\(id).ndjson")
        guard self.disk.memory.bytes(of: path)?.count == Int(offset.rawValue) else { return }
        do throws(FileSystemError) { try files.unlink(path) } catch {}
    }

    func registered(_ id: StreamID) -> StreamOffset {
        StreamOffset(self.acknowledged[id] ?? 0)
    }
}

/// One run of an agent.
final class AgentProcess {
    let files: FaultyFiles
    let buffers: SimulatedBuffers
    var pump: Box?
    /// Its present connection.
    var connection: Connection?
    var attemptCount = 0
    /// Streams that an honest receiver has sealed and held then.
    var seals: Set<StreamID> = []

    init(_ files: FaultyFiles, _ buffers: SimulatedBuffers) {
        self.files = files
        self.buffers = buffers
    }
}

/// Two buffers, as scarce as they can be.
///
/// `@unchecked Sendable`: a life runs on one thread.
final class SimulatedBuffers: BatchBuffers, @unchecked Sendable {
    private var free: [BatchBuffer]
    private var isAwaited = false
    var wireByteCount = 0

    init(byteCount: Int) {
        self.free = (0..<2).map { _ in BatchBuffer(byteCount: byteCount) }
    }

    func take() -> BatchBuffer? {
        if self.free.isEmpty { self.isAwaited = true }
        return self.free.popLast()
    }

    /// - Returns: whether someone waits for it.
    func giveBack(_ buffer: BatchBuffer) -> Bool {
        self.free.append(buffer)
        defer { self.isAwaited = false }
        return self.isAwaited
    }
}

/// Holds a pump, which is not a copy.
final class Box {
    var value: Pump<FaultyFiles, SimulatedHints>

    init(_ value: consuming Pump<FaultyFiles, SimulatedHints>) {
        self.value = value
    }
}

/// What inotify would hold.
final class HintStore {
    var paths: Set<String> = []
    var folders: Set<String> = []
    var isOverflowing = false
    var isComplete = true
}

struct SimulatedHints: ChangeHints {
    let store: HintStore

    var file: FileID? { self.store.isComplete ? FileID(rawValue: 0) : nil }
    var isComplete: Bool { self.store.isComplete }
    var unwatchedCount: Int { self.store.isComplete ? 0 : 1 }

    var deniedFolders: [String] { [] }
    var blindFolders: [String] { [] }

    mutating func beginLook() {}
    mutating func watch(_ folder: String, isPolled: Bool) {}
    mutating func watch(links: [String]) -> [String] { [] }
    mutating func endLook() {}
    mutating func check() -> DirectoryWatcher.Hint? { nil }

    mutating func read() -> DirectoryWatcher.Hint? {
        defer {
            self.store.paths = []
            self.store.folders = []
            self.store.isOverflowing = false
        }
        if self.store.isOverflowing { return .everything }
        if self.store.paths.isEmpty, self.store.folders.isEmpty { return nil }
        return .changes(paths: self.store.paths.sorted(), folders: self.store.folders.sorted())
    }
}
