internal import WaybillAgent
internal import WaybillExport
internal import WaybillProtocol
internal import WaybillReceiver
internal import WaybillSystem

/// A life of agents and receivers: what these ask of it.
///
/// A site is a fleet of one or two receivers without a bucket: agents, connections, receivers and logs are the same in
/// both.
protocol Life: LifeState {
    // MARK: Receivers

    /// For how many milliseconds a receiver that died is down.
    var receiverPause: ClosedRange<Int> { get }
    /// How many streams of either kind a receiver keeps in memory when a segment begins.
    var awakeCount: Int { get }
    func configure(_ configuration: inout ReceiverConfiguration, of receiver: SimulatedReceiver)
    /// Judges what a receiver promises.
    func judge(_ message: Message, on connection: any CallingSide, of process: ReceiverProcess)
    /// A receiver that has lost data was started, and holds these lines.
    func recount(_ held: Set<ArraySlice<UInt8>>, by receiver: SimulatedReceiver)

    // MARK: Agents

    /// Where agents connect to, in turn.
    var addresses: [NetworkAddress] { get }
    func configure(_ configuration: inout AgentConfiguration)
    func connect(_ connection: Connection, to address: NetworkAddress)
    /// An agent opens a stream, or sends a batch.
    func opens(_ description: StreamDescription, _ claim: OpenClaim)
    func sends(_ batch: RawBatch, on connection: Connection)
    /// Up to where a receiver says in a message that a stream is delivered.
    func delivered(_ message: Message) -> (number: StreamNumber, end: StreamOffset)?
    /// An agent deletes a segment of its spool.
    func willDelete(_ path: String, _ id: StreamID, _ bytes: [UInt8], by agent: SimulatedAgent)

    // MARK: Logs

    /// A line is in a log of a host for good: it must arrive exactly once.
    func promise(_ line: ArraySlice<UInt8>, on agent: SimulatedAgent)
    /// Each of these lines may be stored once more.
    func allowOnceMore(_ lines: [ArraySlice<UInt8>])
    /// These lines may be stored as often as they come.
    func allowRepeats(of lines: [ArraySlice<UInt8>])
    /// These lines are at no source any more.
    ///
    /// - Parameter isKnown: whether the agent knows the file.
    func cutAway(_ lines: [ArraySlice<UInt8>], isKnown: Bool)
    /// Someone takes these bytes away from a source.
    ///
    /// - Parameter seen: how many of the first bytes the agent knows to be there.
    func takenAway(_ bytes: ArraySlice<UInt8>, seen: Int)
    /// So many bytes may be told to be lost that are not.
    func mayBeTold(lost byteCount: Int)
}

/// How logs are written in a life.
struct LogRules {
    /// Whether all files begin alike, whatever trouble they have.
    var haveHeads: Bool
    /// Whether lines are longer than an agent takes, or come in two pieces.
    var haveLongLines = false
    var haveTornLines = false
    /// Whether a writer does not know for a while that its file was rotated.
    var haveLateWrites = false
}

/// What is the same all through a life.
struct LifeRules {
    var journalSegmentByteCount: Int
    var batchByteCountMax: Int
    /// How long bytes are on their way, in microseconds.
    var latencies: [ClosedRange<Int>]
    var cutsConnections = false
    var drifts = true
    var killsAgents: Bool
    var killsReceivers: Bool
    /// Whether agents hear of changes, not always of each one; otherwise they look.
    var hasHints = false
    var missesHints = false
    var slowsSyncs = false
    var projectionDelays: [ClosedRange<Int>] = []
    /// The exports of a receiver.
    var exportChoices: [[Destination]] = [[]]
    /// Whether a copy of a receiver's data may be made while it works.
    var copiesSlowly = false
    /// Whether an agent knows a file again that continues.
    var remembersFiles: Bool
    /// Whether agents end without being asked.
    var mayEndAgents: Bool
    /// Whether the disks of agents take what they are given.
    var hasSureDisks = true
    var logs: LogRules
    /// Whether an agent ships one batch again at most when lines were taken back.
    var boundsRereads = false
    /// Whether an agent has every file open of which it lacks something, in each of its runs.
    var holdsFiles = false
}

/// What every life has: chance, time, and the first promise that was broken.
///
/// `@unchecked Sendable`: a life runs on one thread.
package class LifeState: @unchecked Sendable {
    let dice: Dice
    let schedule = Schedule()
    let bugs: Set<PlantedBug>
    let trace: ((String) -> Void)?
    let fileTroubles: Set<FileTrouble>
    /// Of its own: lives without trouble of files are what they were.
    let fileDice: Dice
    let rules: LifeRules
    let ledger = PromiseLedger()
    private var tokenCount = 0
    private(set) var violation: String?
    /// Faults have stopped.
    var isCalm = false
    /// No one is started again.
    var isOver = false
    private(set) var connections: [Connection] = []
    /// A journal rotted: what it held and no one had read may be gone.
    var mayForget = false

    init(
        _ dice: Dice, bugs: Set<PlantedBug>, files: (kinds: Set<FileTrouble>, dice: Dice), _ rules: LifeRules,
        trace: ((String) -> Void)?
    ) {
        self.dice = dice
        self.bugs = bugs
        self.trace = trace
        (self.fileTroubles, self.fileDice) = files
        self.rules = rules
    }

    final func has(_ bug: PlantedBug) -> Bool { self.bugs.contains(bug) }

    final func knows(_ trouble: FileTrouble) -> Bool { self.fileTroubles.contains(trouble) }

    final func violate(_ text: @autoclosure () -> String) {
        guard self.violation == nil else { return }
        let text = text()
        self.violation = text
        self.note("VIOLATION: \(text)")
    }

    final func note(_ text: @autoclosure () -> String) {
        guard let trace else { return }
        let milliseconds = self.schedule.now / 1_000_000
        trace("\(milliseconds / 1000).\(String(milliseconds % 1000 + 1000).dropFirst()) \(text())")
    }

    /// Connections stay until neither side can say anything more on them.
    final func keep(_ connection: Connection) {
        for connection in self.connections where connection.isFinished { connection.release() }
        self.connections.removeAll { $0.isFinished }
        self.connections.append(connection)
    }

    /// What programs log under a label goes to the trace.
    final func tally(of label: String) -> Tally {
        Tally(trace: self.trace.map { trace in { trace("\(label): \($0)") } })
    }

    /// A text that no other line holds.
    final func nextToken() -> String {
        self.tokenCount += 1
        return "k\(String(1_000_000 + self.tokenCount))x"
    }

    /// A name that is not such a text: an export's records name the streams of their lines.
    final func nextName() -> String {
        self.tokenCount += 1
        return String(self.tokenCount)
    }

    final func makeClock() -> SimulatedClock {
        SimulatedClock(self.schedule, drift: self.rules.drifts ? self.dice.int(-300...300) : 0)
    }

    final var report: SiteLife.Report {
        var report = SiteLife.Report()
        report.violation = self.violation
        report.lineCount = self.ledger.count
        report.eventCount = self.schedule.eventCount
        report.simulatedSeconds = Int(self.schedule.now / 1_000_000_000)
        report.fingerprint = self.dice.following
        return report
    }
}

extension Life {
    /// Leads a connection to a receiver, which may be down.
    func lead(_ connection: Connection, to receiver: SimulatedReceiver) {
        self.schedule.after(self.dice.milliseconds(0...50)) { [weak self] in
            guard let self else { return }
            if !receiver.isPowered {
                self.schedule.after(.seconds(10)) { connection.refused() }
            } else if receiver.isRunning {
                connection.connected(to: receiver) { receiver.accept($0) }
            } else {
                connection.refused()
            }
        }
    }

    /// Other files have these lines too, or it cannot be seen that they were shipped: each may be stored once more; in
    /// lives in which agents forget, whenever they do.
    func allowCopy(of lines: [ArraySlice<UInt8>]) {
        if self.rules.remembersFiles { self.allowOnceMore(lines) } else { self.allowRepeats(of: lines) }
    }
}
