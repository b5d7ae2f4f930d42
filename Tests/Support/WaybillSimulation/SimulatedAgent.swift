internal import Logging
internal import WaybillAgent
internal import WaybillCompression
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail
internal import WaybillTestSupport

/// A host of sources: a disk with their files on it, a clock, and an agent that dies and is started again.
///
/// `@unchecked Sendable`: a life runs on one thread.
final class SimulatedAgent: @unchecked Sendable {
    unowned let life: any Life
    let number: Int
    private let name: String
    let disk: SimulatedDisk
    let clock: SimulatedClock
    let tally: Tally
    private(set) var isPowered = true
    private var process: AgentProcess?
    private var wakeID = 0
    private var events: [(generation: Int, event: LinkEvent)] = []
    private let hints = HintStore()
    /// For planted bugs.
    var credulity = Credulity()
    var fileRecord = FileRecord()
    /// Programs that write logs.
    var loggers: [SimulatedLogger] = []
    private(set) lazy var linkedLogs = self.life.knows(.links) ? LinkedLogs(self) : nil
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

    init(_ life: any Life, number: Int, name: String) {
        self.life = life
        self.number = number
        self.name = name
        self.clock = life.makeClock()
        self.disk = SimulatedDisk(life.dice, self.clock, hasBirths: !life.knows(.missingBirths))
        self.disk.failsAfterWrites = false
        self.tally = life.tally(of: "agent \(number)")
        self.encoder = BatchEncoder(
            level: 1, rawByteCountMax: max(life.rules.batchByteCountMax, Self.lineByteCountMax))
        let files = self.disk.files()
        do throws(FileSystemError) {
            for path in [Self.spool, Self.logs] { try files.createDirectories(path) }
            try files.synchronizeDirectory("/")
        } catch {
            preconditionFailure("a new disk takes folders: \(error)")
        }
        self.hints.isComplete = life.rules.hasHints
        self.linkSpool()
    }

    /// A copy of another host: its spool and its registry.
    convenience init(_ life: any Life, number: Int, cloning other: SimulatedAgent) {
        self.init(life, number: number, name: other.name)
        for folder in [Self.spool, Self.state] {
            for (path, bytes) in other.disk.memory.files(below: folder) { self.disk.memory.place(path, bytes) }
        }
    }

    var label: String { "agent \(self.number)" }
    var isAlive: Bool { self.process.map { !$0.files.isStopped } ?? false }
    var isRunning: Bool { self.process != nil }
    /// How many connections its process has made.
    var attemptCount: Int { self.process?.attemptCount ?? 0 }

    func holds(_ connection: Connection) -> Bool {
        self.process?.connection === connection
    }

    private func configuration() -> AgentConfiguration {
        guard let name = AgentName(self.name) else { preconditionFailure("\(self.name) is a name") }
        let spool = self.life.knows(.linkedSpools) ? Self.way + Self.spool : Self.spool
        var sources = self.sourceList.sources(spool: spool)
        if self.life.knows(.links) { sources.append(SourceList.linked) }
        var configuration = AgentConfiguration(
            name: name, stateDirectory: Self.state, receivers: self.life.addresses, sources: sources)
        configuration.batchByteCountMax = self.life.rules.batchByteCountMax
        configuration.tailLimits.lineByteCountMax = Self.lineByteCountMax
        configuration.tailLimits.renamedGrace = .seconds(30)
        self.life.configure(&configuration)
        self.limitFiles(&configuration.tailLimits)
        return configuration
    }

    // MARK: Life and death

    func start() {
        guard self.process == nil, self.isPowered else { return }
        let mayDie = !self.life.isCalm && self.life.rules.killsAgents && self.life.dice.chance(300)
        let files = self.disk.files(
            bugs: self.life.bugs, dyingIn: mayDie ? self.life.dice.int(1...60) : nil, isAgent: true
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
                seed: self.life.dice.bits()
            ) { [unowned process, life] address, generation in
                let connection = Connection(life, agent: self, generation: generation)
                process.connection = connection
                process.attemptCount += 1
                life.connect(connection, to: address)
                return connection
            }
            process.pump = Box(pump)
            self.process = process
            self.events = []
            self.wake(after: 0)
        } catch {
            files.die()
            if self.life.isCalm { self.life.violate("\(self.label) cannot start over a disk without faults: \(error)") }
            self.restartLater()
        }
    }

    func restartLater() {
        self.life.schedule.after(self.life.dice.milliseconds(20...5_000)) { self.start() }
    }

    func kill() {
        guard let process = self.process else { return }
        process.files.die()
        // Its kernel closes what it had open.
        process.connection?.close()
        self.process = nil
        self.forgetRecent()
        self.excuseUnregistered()
        self.life.note("\(self.label) died")
        self.restartLater()
    }

    func stop() {
        self.post(.stop, 0)
    }

    /// Changes the sources in its configuration file, and makes it reload that file if it runs.
    func reload(_ list: SourceList) {
        self.sourceList = list
        guard let process = self.process, process.pump != nil else { return }
        if self.life.has(.trustFlightAtReload) { process.connection?.trustFlight() }
        let reload = AgentReload(self.configuration(), reconnects: false) { [self] outcome in
            self.life.note("\(self.label) reloads \(list): \(outcome)")
        }
        self.post(.asked(.reload(reload)), 0)
    }

    func cutPower() {
        self.process?.files.die()
        self.process?.connection?.loseAgent()
        self.process = nil
        self.isPowered = false
        self.life.note("\(self.label)'s host lost power")
    }

    func powerReturns() {
        self.isPowered = true
        self.start()
    }

    /// Its connection breaks, and what is on its way is lost.
    func dropConnection() { self.process?.connection?.drop() }

    /// The life is over.
    func release() {
        self.process?.files.die()
        self.process?.connection?.release()
        self.process = nil
        self.loggers = []
        self.isPowered = false
    }

    // MARK: Steps

    func post(_ event: LinkEvent, _ generation: Int) {
        guard self.process != nil else { return }
        self.events.append((generation, event))
        self.wake(after: Int64(self.life.dice.int(10...300)) * 1000)
    }

    /// Only the last wake-up counts; each step says again when the next one is due.
    private func wake(after delay: Int64) {
        self.wakeID += 1
        let id = self.wakeID
        self.life.schedule.after(delay) { if self.wakeID == id { self.step() } }
    }

    private func step() {
        guard let process = self.process, let pump = process.pump else { return }
        let events = self.events
        self.events = []
        self.stepCount += 1
        if self.stepCount > 200_000 { return self.life.violate("\(self.label) never rests") }
        let outcome = pump.value.step(events)
        if process.files.isStopped { return self.kill() }
        if let outcome {
            self.process = nil
            process.files.die()
            self.excuseUnregistered()
            self.life.note("\(self.label) ended: \(outcome)")
            if !self.life.isOver { self.restartLater() }
            return
        }
        self.wake(after: max(20_000, pump.value.restingTime().nanoseconds))
    }

    /// Answers that have arrived and were not looked at are lost.
    func dropAnswers() {
        self.events.removeAll { event in
            guard case .received = event.event else { return false }
            return true
        }
    }

    /// What a batch becomes on the wire; its buffer is free again a little later.
    ///
    /// - Parameter id: by which the receiver knows the stream; the batch's, unless a bug is planted.
    func encoded(_ batch: RawBatch, of id: StreamID) -> [UInt8] {
        let (encoded, payload) = self.encoder.encode(batch)
        var header = encoded
        if id != batch.id { header.checksum = FrameChecksum.checksum(of: header.checksummedText(id: id), payload) }
        let bytes = Message.batch(header).encoded + payload
        if let process {
            process.buffers.wireByteCount += payload.count
            self.life.schedule.after(Int64(self.life.dice.int(0...2_000)) * 1000) {
                guard process.buffers.giveBack(batch.buffer), self.process === process else { return }
                self.post(.bufferFreed, 0)
            }
        }
        return bytes
    }

    /// Something was written at, or happened to, a path; a folder may have come in the place of another one.
    func changed(_ path: String, isFolder: Bool = false) {
        guard self.process != nil, self.hints.isComplete else { return }
        if self.life.rules.missesHints, !self.life.isCalm, self.life.dice.chance(100) {
            self.hints.isOverflowing = self.life.dice.chance(500)
            if !self.hints.isOverflowing { return }
        }
        let seen = self.life.knows(.linkedSpools) && path.hasPrefix(Self.spool) ? Self.way + path : path
        if isFolder { self.hints.folders.insert(seen) } else { self.hints.paths.insert(seen) }
        guard !self.hints.isScheduled else { return }
        self.hints.isScheduled = true
        self.life.schedule.after(1_000_000) {
            self.hints.isScheduled = false
            guard let process = self.process, let pump = process.pump else { return }
            pump.value.filesChanged()
            self.wake(after: pump.value.restingTime().nanoseconds)
        }
    }

    // MARK: Its files

    /// The segments in the spool that have lines.
    var segments: [(id: StreamID, path: String, bytes: [UInt8])] {
        self.disk.memory.files(below: Self.spool).compactMap { path, bytes in
            guard path.hasSuffix(".ndjson"), let id = Self.id(ofSegment: path) else { return nil }
            return (id, path, bytes)
        }
    }

    /// A stream that a stranger may have heard of.
    var anyStream: StreamDescription? {
        let segments = Set(self.segments.map(\.id))
        let ids = segments.union(self.opened).sorted { $0.text < $1.text }
        guard !ids.isEmpty else { return nil }
        let id = self.life.dice.pick(ids)
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
        for path in self.linkedLogs?.paths ?? [] {
            lines.formUnion((self.disk.memory.bytes(of: path) ?? []).split(separator: 0x0A))
        }
        return lines
    }

    /// A receiver that holds a stream has sealed it.
    func sealed(_ id: StreamID) { self.process?.seals.insert(id) }

    func isSealed(_ id: StreamID) -> Bool { self.process?.seals.contains(id) ?? false }

    private func willDelete(_ path: String) {
        let path = self.real(path)
        guard path.hasPrefix(Self.spool), path.hasSuffix(".ndjson"), let id = Self.id(ofSegment: path) else { return }
        self.life.willDelete(path, id, self.disk.memory.bytes(of: path) ?? [], by: self)
    }

    static func id(ofSegment path: String) -> StreamID? {
        StreamID(String(Path.name(of: path).dropLast(".ndjson".utf8.count)))
    }

    // MARK: For planted bugs

    func acknowledged(_ id: StreamID, _ offset: StreamOffset) {
        self.credulity.acknowledged[id] = offset.rawValue
        guard self.life.has(.deleteOnAck), let files = self.process?.files else { return }
        let path = Path.join(Self.spool, "\(id).ndjson")
        guard self.disk.memory.bytes(of: path)?.count == Int(offset.rawValue) else { return }
        do throws(FileSystemError) { try files.unlink(path) } catch {}
    }

    func registered(_ id: StreamID) -> StreamOffset {
        StreamOffset(self.credulity.acknowledged[id] ?? 0)
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
    var isScheduled = false
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
