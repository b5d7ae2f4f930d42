internal import WaybillFleet
internal import WaybillProtocol
internal import WaybillSystem

/// The life of a fleet: apps and loggers, agents, receivers, a bucket and mergers, all of it shipped code, on one thread,
/// from one seed.
///
///     apps ─▶ spool ─┐              ┌─▶ receiver: journal, uploader ─┐            ┌─▶ merger: rounds, merged journal
///     loggers ─▶ log ┴▶ agents ─────┼─▶ receiver                     ├─▶ bucket ──┤
///                                   └─▶ receiver                     ┘            └─▶ merger
///
/// For a while there is trouble of the kinds drawn for this life (``FleetTrouble``); then faults stop, and everything
/// must have arrived within a quarter of an hour. Held all the while: `STORED` and `SEALED` are said, and a segment is
/// deleted, only when the bucket has what they speak of. Held at the end:
///
/// - every line that its source still has, or that the bucket ever had, is in the merged journal once, byte for byte,
///   and nothing else is;
/// - all mergers have the same journal and the same barriers, and so has one that begins with nothing; all leave the same
///   lines unread;
/// - lines of receivers are merged or dropped, none is unaccounted for; conflicts are counted, and there are some only
///   where two sources have other bytes under one name;
/// - missing bytes are named, and no others;
/// - nothing that a live receiver took before a barrier comes behind it.
///
/// What the model leaves out: power cuts of the sources' hosts (``SiteLife`` has them), archives and exports after the
/// merged journal, and a store that answers slowly: its answers come at once, or never.
///
/// `@unchecked Sendable`: a life runs on one thread.
package final class FleetLife: LifeState, Life, @unchecked Sendable {
    /// The store's, which does not jump.
    private(set) lazy var storeClock = SimulatedClock(self.schedule)
    private(set) lazy var streams = StreamLedger(self.ledger)
    let troubles: Set<FleetTrouble>

    /// The one in use is the last.
    private(set) var buckets: [FleetBucket] = []
    private(set) var receivers: [SimulatedReceiver] = []
    private(set) var mergers: [FleetMerger] = []
    var agents: [SimulatedAgent] = []
    var apps: [FleetApp] = []
    /// Pairs of hosts that cannot reach each other.
    var partitions: Set<[Int]> = []
    /// Until when the bucket refuses everything.
    var outageEnd: Int64 = 0

    let storeFaultPerMille: Int
    let pieceByteCount: Int
    let placeCountMax: Int
    let listLag: Int64
    let connectionAge: Duration
    let uploadPause: ClosedRange<Int>
    let mergePause: ClosedRange<Int>

    /// Lives a life.
    ///
    /// - Parameter files: the kinds of trouble with files that it may have.
    package static func run(
        seed: UInt64, bugs: Set<PlantedBug> = [], files: Set<FileTrouble> = FileTrouble.keptInFleets,
        trace: ((String) -> Void)? = nil
    ) -> SiteLife.Report {
        let life = FleetLife(seed: seed, bugs: bugs, files: files.intersection(FileTrouble.ofFleet), trace: trace)
        life.live()
        return life.report
    }

    private init(seed: UInt64, bugs: Set<PlantedBug>, files: Set<FileTrouble>, trace: ((String) -> Void)?) {
        let dice = Dice(seed: seed ^ 0x666C_6565_7400)
        let share = dice.pick([150, 300, 500])
        var troubles = Set(FleetTrouble.allCases.filter { $0 != .setAsides && dice.chance(share) })
        if dice.chance(30) { troubles = [] }
        if Dice(seed: seed ^ 0x6173_6964_6500).chance(250) { troubles.insert(.setAsides) }
        // One fleet after the other, with other bytes under one name in each, says nothing that one of the two does not.
        if troubles.contains(.clones) { troubles.remove(.otherFleet) }
        let fileTrouble = FileTrouble.draw(
            seed: seed, among: files, beside: &troubles, forgetful: Self.forgetful)
        self.troubles = troubles
        self.storeFaultPerMille = troubles.contains(.storeFaults) ? dice.pick([30, 100, 250]) : 0
        let journalSegmentByteCount = dice.pick([3_000, 10_000, 1 << 20])
        self.pieceByteCount = dice.pick([1, 900, 5_000])
        self.placeCountMax = troubles.contains(.fewPlaces) ? dice.pick([4, 40]) : 1 << 16
        self.listLag = troubles.contains(.staleLists) ? .seconds(dice.int(1...40)) : 0
        let batchByteCountMax = dice.pick([300, 1_200, 32_768])
        self.connectionAge = .seconds(dice.pick([3, 10, 60]))
        self.uploadPause = dice.pick([50...300, 200...3_000, 2_000...15_000])
        self.mergePause = dice.pick([100...600, 500...5_000])
        let haveHeads =
            troubles.contains(.likeHeads) || !fileTrouble.kinds.isDisjoint(with: [.regrowths, .likeMirrors])
        let rules = LifeRules(
            journalSegmentByteCount: journalSegmentByteCount, batchByteCountMax: batchByteCountMax,
            latencies: troubles.contains(.slowLinks) ? [50...5_000, 20_000...400_000] : [50...5_000],
            killsAgents: troubles.contains(.agentDeaths), killsReceivers: troubles.contains(.receiverDeaths),
            remembersFiles: troubles.isDisjoint(with: Self.forgetful), mayEndAgents: troubles.contains(.agentDeaths),
            logs: LogRules(haveHeads: haveHeads))
        super.init(dice, bugs: bugs, files: fileTrouble, rules, trace: trace)
        self.streams.isForgetful = self.knows(.fewPlaces)
    }

    static let receiverCount = 3

    // MARK: What others ask

    var bucket: FleetBucket { self.buckets[self.buckets.count - 1] }

    func knows(_ trouble: FleetTrouble) -> Bool { self.troubles.contains(trouble) }

    /// Until the life is over; `pause` is asked each time.
    func repeatedly(_ pause: @escaping () -> ClosedRange<Int>, _ body: @escaping () -> Void) {
        self.schedule.after(self.dice.milliseconds(pause())) { [weak self] in
            guard let self, !self.isOver else { return }
            body()
            self.repeatedly(pause, body)
        }
    }

    // MARK: A life

    private func live() {
        self.note("troubles: \(FleetTrouble.allCases.filter { self.knows($0) })")
        self.note("files: \(FileTrouble.allCases.filter { self.knows($0) })")
        self.beginFleet()
        for number in 0..<self.dice.pick([1, 1, 2]) {
            let agent = SimulatedAgent(self, number: number, name: "a\(number)")
            self.agents.append(agent)
            self.furnish(agent)
            agent.start()
        }
        self.repeatedly({ 50...1_500 }, { if !self.isCalm { self.makeTrouble() } })
        self.schedule.run(until: .seconds(self.dice.int(8...50))) { self.violation != nil }
        if self.violation == nil { self.settle() }
        self.isOver = true
        if self.violation == nil { self.judge() }
        for connection in self.connections { connection.release() }
        for agent in self.agents { agent.release() }
        for receiver in self.receivers { receiver.release() }
        self.schedule.clear()
    }

    /// Programs that write are installed.
    private func furnish(_ agent: SimulatedAgent) {
        agent.setDescriptors()
        let kind = self.dice.int(0...2)
        if kind != 0 { self.apps.append(FleetApp(self, on: agent)) }
        if kind != 1 { agent.loggers = [SimulatedLogger(on: agent, name: "web")] }
        self.repeatedly({ 100...2_500 }) {
            guard !self.isCalm else { return }
            for app in self.apps where app.agent === agent { app.act() }
            for logger in agent.loggers { logger.act() }
        }
        agent.linkedLogs?.writeNowAndThen()
        agent.troubleFilesNowAndThen()
    }

    /// A host is copied while it runs: both write on under the same names.
    func clone(_ agent: SimulatedAgent) {
        guard self.agents.count < 3, self.dice.chance(300) else { return }
        let clone = SimulatedAgent(self, number: self.agents.count, cloning: agent)
        self.streams.cloned.formUnion([agent.number, clone.number])
        self.agents.append(clone)
        self.note("\(agent.label) is cloned as \(clone.label)")
        if let app = self.apps.first(where: { $0.agent === agent }) {
            let copy = FleetApp(self, cloning: app, on: clone)
            self.apps.append(copy)
            self.repeatedly({ 100...2_500 }, { if !self.isCalm { copy.act() } })
        }
        clone.start()
    }

    /// A bucket, its receivers and its mergers.
    private func beginFleet() {
        self.buckets.append(FleetBucket(self, number: self.buckets.count))
        let isTwin = self.knows(.twins)
        self.receivers = (0..<Self.receiverCount).map { number in
            SimulatedReceiver(
                self, number: number, name: isTwin && number == 1 ? "r0" : "r\(number)", bucket: self.bucket)
        }
        self.mergers = (0..<2).map { FleetMerger(self, self.bucket, number: $0) }
        for receiver in self.receivers { receiver.start() }
        for merger in self.mergers { merger.start() }
    }

    /// Agents are told to ship to the receivers of another fleet.
    func changeFleet() {
        guard self.buckets.count == 1, !self.isCalm else { return }
        self.note("another fleet")
        for receiver in self.receivers { receiver.release() }
        // What was on its way arrives, and the first fleet's mergers finish.
        self.bucket.calm()
        for merger in self.mergers { merger.retire() }
        self.judge(self.bucket)
        self.partitions = []
        for agent in self.agents { agent.dropConnection() }
        // The present fleet must get what the sources have.
        self.ledger.recount([], by: self.bucket.number, sources: Set(self.agents.flatMap(\.sourceLines)))
        self.streams.beginFleet()
        self.beginFleet()
    }

    var loggers: [SimulatedLogger] { self.agents.flatMap(\.loggers) }

    private func settle() {
        self.isCalm = true
        self.note("calm")
        self.partitions = []
        self.outageEnd = 0
        self.bucket.calm()
        for app in self.apps { app.close() }
        for logger in self.loggers { logger.end() }
        for agent in self.agents {
            agent.linkedLogs?.end()
            agent.disk.recover()
        }
        for receiver in self.receivers { receiver.disk.recover() }
        for merger in self.mergers { merger.settle() }
        let start = self.schedule.now
        while self.violation == nil, let work = self.openWork {
            guard self.schedule.now < start + .seconds(900) else {
                return self.violate("faults stopped a quarter of an hour ago, and \(work)")
            }
            self.schedule.run(until: self.schedule.now + .seconds(2)) { self.violation != nil }
        }
    }

    /// What is still to be done; `nil` if nothing.
    private var openWork: String? {
        self.bucket.readPieces()
        if let line = self.ledger.firstOpen { return "the bucket lacks \(line)" }
        for agent in self.agents {
            // One that has a namesake on another host may wait.
            let segment = agent.segments.first { !self.streams.contested.contains($0.id) }
            if let segment { return "\(agent.label)'s spool has \(segment.path)" }
        }
        if let receiver = self.receivers.first(where: { !$0.isUploaded }) {
            return "\(receiver.label) has not uploaded its journal"
        }
        for merger in self.mergers where !merger.hasMergedAll { return "\(merger.label) is at round \(merger.round)" }
        return nil
    }
}
