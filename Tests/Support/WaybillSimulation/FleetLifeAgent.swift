internal import Logging
internal import WaybillAgent
internal import WaybillCompression
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillHost
internal import WaybillTail
internal import WaybillTestSupport

/// A source's host: a disk with files on it, a clock, programs that write, and the shipped agent, which dies and is
/// started again.
///
/// `@unchecked Sendable`: a life runs on one thread.
final class FleetAgent: @unchecked Sendable {
    unowned let life: FleetLife
    let number: Int
    private let name: String
    let disk: SimulatedDisk
    let clock: SimulatedClock
    private let tally: Tally
    private(set) var app: FleetApp?
    private(set) var logger: FleetLogger?
    private var process: AgentProcess?
    private var link: FleetLink?
    private var wakeID = 0
    private var events: [(generation: Int, event: LinkEvent)] = []
    private var stepCount = 0
    private var encoder: BatchEncoder
    var fileRecord = FileRecord()
    private(set) lazy var linkedLogs = self.life.knows(.links) ? LinkedLogs(self) : nil

    static let spool = SimulatedAgent.spool
    static let logs = SimulatedAgent.logs
    private static let state = SimulatedAgent.state

    init(_ life: FleetLife, number: Int, name: String) {
        self.life = life
        self.number = number
        self.name = name
        self.clock = SimulatedClock(life.schedule, drift: life.dice.int(-300...300))
        self.disk = SimulatedDisk(life.dice, self.clock, hasBirths: !life.knows(.missingBirths))
        self.tally = Tally(trace: life.trace.map { trace in { trace("agent \(number): \($0)") } })
        self.encoder = BatchEncoder(level: 1, rawByteCountMax: max(life.batchByteCountMax, 2048))
    }

    /// A copy of another host: spool, registry and the programs that write.
    convenience init(_ life: FleetLife, number: Int, cloning other: FleetAgent) {
        self.init(life, number: number, name: other.name)
        life.ledger.cloned.formUnion([other.number, number])
        for folder in [Self.spool, Self.state] {
            for (path, bytes) in other.disk.memory.files(below: folder) { self.disk.memory.place(path, bytes) }
        }
        self.makeFolders()
        self.app = other.app.map { FleetApp(cloning: $0, on: self) }
    }

    private func makeFolders() {
        let files = self.disk.files()
        do throws(FileSystemError) {
            for path in [Self.spool, Self.logs, Self.state] { try files.createDirectories(path) }
        } catch {
            preconditionFailure("a new disk takes folders: \(error)")
        }
    }

    /// Programs that write are installed.
    func furnish() {
        self.makeFolders()
        self.setDescriptors()
        let kind = self.life.dice.int(0...2)
        if kind != 0 { self.app = FleetApp(on: self) }
        if kind != 1 { self.logger = FleetLogger(on: self) }
        self.life.repeatedly({ 100...2_500 }) { [unowned self] in
            guard !self.life.isCalm else { return }
            self.app?.act()
            self.logger?.act()
        }
        self.linkedLogs?.writeNowAndThen()
        self.troubleFilesNowAndThen()
    }

    var isAlive: Bool { self.process.map { !$0.files.isStopped } ?? false }

    func holds(_ link: FleetLink) -> Bool { self.process != nil && self.link === link }

    // MARK: Life and death

    private func configuration() -> AgentConfiguration {
        guard let name = AgentName(self.name) else { preconditionFailure("\(self.name) is a name") }
        let spool = AgentSource(
            files: .spool(directory: Self.spool), environment: "prod", bundle: "com.example.shop")
        let logs = AgentSource(
            files: .files(patterns: [Self.logs + "/*.log*"]), environment: "prod", bundle: "com.example.web")
        var configuration = AgentConfiguration(
            name: name, stateDirectory: Self.state, receivers: self.life.receivers.map(\.address),
            sources: self.life.knows(.links) ? [spool, logs, SourceList.linked] : [spool, logs])
        configuration.batchByteCountMax = self.life.batchByteCountMax
        configuration.tailLimits.lineByteCountMax = 2048
        configuration.tailLimits.renamedGrace = .seconds(30)
        self.limitFiles(&configuration.tailLimits)
        configuration.connectionAgeMax = self.life.connectionAge
        // Receivers of a fleet are believed where they have proven their names; the links here need no proof.
        configuration.tls = TLSClientConfiguration()
        return configuration
    }

    func start() {
        guard self.process == nil, !self.life.isOver else { return }
        let mayDie = !self.life.isCalm && self.life.knows(.agentDeaths) && self.life.dice.chance(300)
        let files = self.disk.files(
            bugs: self.life.bugs.intersection(PlantedBug.ofFiles.keys),
            dyingIn: mayDie ? self.life.dice.int(1...60) : nil, isAgent: true
        ) { [unowned self] in self.willDelete($0) }
        do throws(FileSystemError) {
            let configuration = self.configuration()
            let quarantine = Path.join(Self.state, "quarantine")
            try files.createDirectories(quarantine)
            let registry = try StateLog(path: Path.join(Self.state, "registry.state"), files: files)
            let tail = Tail(
                fileSystem: files, registry: registry, agent: configuration.name, sources: configuration.tailSources,
                quarantineDirectory: quarantine, limits: configuration.tailLimits)
            let buffers = SimulatedBuffers(byteCount: configuration.rawByteCountMax)
            let process = AgentProcess(files, buffers)
            let hints = HintStore()
            hints.isComplete = false
            process.pump = Box(
                Pump(
                    configuration: configuration, files: files, tail: tail, hints: SimulatedHints(store: hints),
                    buffers: buffers, clock: self.clock,
                    telemetry: AgentTelemetry(logger: Logger(label: "agent") { _ in self.tally }),
                    seed: self.life.dice.bits()
                ) { [unowned self] in self.connect(to: $0, generation: $1) })
            self.process = process
            self.events = []
            self.wake(after: 0)
        } catch {
            files.die()
            if self.life.isCalm { self.life.violate("an agent cannot start over a disk without faults: \(error)") }
            self.restartLater()
        }
    }

    private func connect(to address: NetworkAddress, generation: Int) -> FleetLink {
        guard let receiver = self.life.receivers.first(where: { $0.address == address }) else {
            preconditionFailure("an agent asks for \(address)")
        }
        let link = FleetLink(self.life, self, receiver, generation: generation)
        self.link = link
        link.connect()
        return link
    }

    private func restartLater() {
        guard !self.life.isOver else { return }
        self.life.schedule.after(self.life.dice.milliseconds(20...5_000)) { self.start() }
    }

    func kill() {
        guard let process = self.process else { return }
        process.files.die()
        self.link?.close()
        self.process = nil
        self.link = nil
        self.life.note("agent \(self.number) died")
        self.restartLater()
    }

    func breakLink() { self.link?.breakOff() }

    func loseRegistry() {
        self.kill()
        for (path, _) in self.disk.memory.files(below: Self.state) where path.contains("registry") {
            self.disk.memory.place(path, [])
        }
        self.life.ledger.unregistered.insert(self.number)
        self.life.note("agent \(self.number) has lost its registry")
    }

    func settle() {
        self.app?.close()
        self.logger?.close()
        self.linkedLogs?.end()
        self.disk.recover()
    }

    func release() {
        self.process?.files.die()
        self.process = nil
        self.link = nil
        self.app?.close()
    }

    // MARK: Steps

    func post(_ event: LinkEvent, _ generation: Int) {
        guard self.process != nil else { return }
        self.events.append((generation, event))
        self.wake(after: Int64(self.life.dice.int(10...300)) * 1000)
    }

    /// Answers that have arrived and were not looked at are lost.
    func dropAnswers() {
        self.events.removeAll { event in
            guard case .received = event.event else { return false }
            return true
        }
    }

    /// Only the last wake-up counts; each step says when the next one is due.
    private func wake(after delay: Int64) {
        self.wakeID += 1
        let id = self.wakeID
        self.life.schedule.after(delay) { if self.wakeID == id { self.step() } }
    }

    private func step() {
        guard let process = self.process, let pump = process.pump, !self.life.isOver else { return }
        let events = self.events
        self.events = []
        self.stepCount += 1
        if self.stepCount > 200_000 { return self.life.violate("agent \(self.number) never rests") }
        let outcome = pump.value.step(events)
        if process.files.isStopped { return self.kill() }
        if let outcome {
            self.process = nil
            process.files.die()
            self.life.note("agent \(self.number) ended: \(outcome)")
            return self.restartLater()
        }
        self.wake(after: max(20_000, pump.value.restingTime().nanoseconds))
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

    // MARK: Its files

    /// The numbers of the lines in its files.
    var tokens: [Int] {
        let files = [Self.spool, Self.logs].flatMap { self.disk.memory.files(below: $0) }.map(\.bytes)
        let linked = (self.linkedLogs?.paths ?? []).compactMap { self.disk.memory.bytes(of: $0) }
        return (files + linked).flatMap { FleetLedger.tokens(in: $0) }.filter { $0 >= FleetLedger.firstToken }
    }

    /// A segment that waits to be deleted, and has no namesake on another host.
    var openSegment: String? {
        self.disk.memory.files(below: Self.spool).map(\.path).first { path in
            guard let id = Self.id(ofSegment: path) else { return false }
            return !self.life.ledger.contested.contains(id)
        }
    }

    static func id(ofSegment path: String) -> StreamID? {
        StreamID(String(Path.name(of: path).dropLast(".ndjson".utf8.count)))
    }

    /// A segment may go when the bucket has its lines.
    private func willDelete(_ path: String) {
        guard path.hasPrefix(Self.spool), path.hasSuffix(".ndjson") else { return }
        let stored = self.life.bucket.tokens
        let tokens = FleetLedger.tokens(in: self.disk.memory.bytes(of: path) ?? [])
        if let token = tokens.filter({ !stored.contains($0) }).min() {
            self.life.violate("agent \(self.number) deletes \(path), and the bucket lacks line \(token)")
        }
    }
}
