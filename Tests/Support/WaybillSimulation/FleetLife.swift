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
package final class FleetLife: @unchecked Sendable {
    let dice: Dice
    let schedule = Schedule()
    /// The store's, which does not jump.
    private(set) lazy var storeClock = SimulatedClock(self.schedule)
    let ledger = FleetLedger()
    let bugs: Set<PlantedBug>
    let trace: ((String) -> Void)?
    let troubles: Set<FleetTrouble>
    let fileTroubles: Set<FileTrouble>
    /// Of its own: lives without trouble of files are what they were.
    let fileDice: Dice
    private(set) var violation: String?
    /// Faults have stopped.
    private(set) var isCalm = false
    /// No one is started again.
    private(set) var isOver = false

    /// The one in use is the last.
    private(set) var buckets: [FleetBucket] = []
    private(set) var receivers: [FleetReceiver] = []
    private(set) var mergers: [FleetMerger] = []
    var agents: [FleetAgent] = []
    /// Pairs of hosts that cannot reach each other.
    var partitions: Set<[Int]> = []
    /// Until when the bucket refuses everything.
    var outageEnd: Int64 = 0

    let storeFaultPerMille: Int
    let journalSegmentByteCount: Int
    let pieceByteCount: Int
    let placeCountMax: Int
    let listLag: Int64
    let batchByteCountMax: Int
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
        var report = SiteLife.Report()
        report.violation = life.violation
        report.lineCount = life.ledger.count
        report.eventCount = life.schedule.eventCount
        report.simulatedSeconds = Int(life.schedule.now / 1_000_000_000)
        report.fingerprint = life.dice.following
        return report
    }

    private init(seed: UInt64, bugs: Set<PlantedBug>, files: Set<FileTrouble>, trace: ((String) -> Void)?) {
        let dice = Dice(seed: seed ^ 0x666C_6565_7400)
        self.dice = dice
        self.bugs = bugs
        self.trace = trace
        let share = dice.pick([150, 300, 500])
        var troubles = Set(FleetTrouble.allCases.filter { $0 != .setAsides && dice.chance(share) })
        if dice.chance(30) { troubles = [] }
        if Dice(seed: seed ^ 0x6173_6964_6500).chance(250) { troubles.insert(.setAsides) }
        // One fleet after the other, with other bytes under one name in each, says nothing that one of the two does not.
        if troubles.contains(.clones) { troubles.remove(.otherFleet) }
        (self.fileTroubles, self.fileDice) = FileTrouble.draw(
            seed: seed, among: files, beside: &troubles, forgetful: Self.forgetful)
        self.troubles = troubles
        self.ledger.isForgetful = troubles.contains(.fewPlaces)
        self.storeFaultPerMille = troubles.contains(.storeFaults) ? dice.pick([30, 100, 250]) : 0
        self.journalSegmentByteCount = dice.pick([3_000, 10_000, 1 << 20])
        self.pieceByteCount = dice.pick([1, 900, 5_000])
        self.placeCountMax = troubles.contains(.fewPlaces) ? dice.pick([4, 40]) : 1 << 16
        self.listLag = troubles.contains(.staleLists) ? .seconds(dice.int(1...40)) : 0
        self.batchByteCountMax = dice.pick([300, 1_200, 32_768])
        self.connectionAge = .seconds(dice.pick([3, 10, 60]))
        self.uploadPause = dice.pick([50...300, 200...3_000, 2_000...15_000])
        self.mergePause = dice.pick([100...600, 500...5_000])
    }

    static let receiverCount = 3

    // MARK: What others ask

    var bucket: FleetBucket { self.buckets[self.buckets.count - 1] }

    func knows(_ trouble: FleetTrouble) -> Bool { self.troubles.contains(trouble) }

    func has(_ bug: PlantedBug) -> Bool { self.bugs.contains(bug) }

    func violate(_ text: @autoclosure () -> String) {
        guard self.violation == nil else { return }
        let text = text()
        self.violation = text
        self.note("VIOLATION: \(text)")
    }

    func note(_ text: @autoclosure () -> String) {
        guard let trace else { return }
        let milliseconds = self.schedule.now / 1_000_000
        trace("\(milliseconds / 1000).\(String(milliseconds % 1000 + 1000).dropFirst()) \(text())")
    }

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
            let agent = FleetAgent(self, number: number, name: "a\(number)")
            self.agents.append(agent)
            agent.furnish()
            agent.start()
        }
        self.repeatedly({ 50...1_500 }, { if !self.isCalm { self.makeTrouble() } })
        self.schedule.run(until: .seconds(self.dice.int(8...50))) { self.violation != nil }
        if self.violation == nil { self.settle() }
        self.isOver = true
        if self.violation == nil { self.judge() }
        for agent in self.agents { agent.release() }
        for receiver in self.receivers { receiver.release() }
        self.schedule.clear()
    }

    /// A bucket, its receivers and its mergers.
    private func beginFleet() {
        self.buckets.append(FleetBucket(self, number: self.buckets.count))
        let isTwin = self.knows(.twins)
        self.receivers = (0..<Self.receiverCount).map { number in
            FleetReceiver(self, number: number, name: isTwin && number == 1 ? "r0" : "r\(number)")
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
        for agent in self.agents { agent.dropAnswers() }
        self.ledger.beginFleet(sources: self.sourceTokens)
        self.beginFleet()
    }

    /// The numbers of all lines that are in files of sources.
    var sourceTokens: Set<Int> {
        var tokens: Set<Int> = []
        for agent in self.agents { tokens.formUnion(agent.tokens) }
        return tokens
    }

    private func settle() {
        self.isCalm = true
        self.note("calm")
        self.partitions = []
        self.outageEnd = 0
        self.bucket.calm()
        for agent in self.agents { agent.settle() }
        for receiver in self.receivers { receiver.settle() }
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
        let stored = self.bucket.tokens
        if let token = self.ledger.promised.subtracting(stored).min() {
            return "the bucket lacks line \(token): \(self.ledger.text(token))"
        }
        for agent in self.agents {
            if let path = agent.openSegment { return "agent \(agent.number)'s spool has \(path)" }
        }
        if let receiver = self.receivers.first(where: { !$0.isUploaded }) {
            return "\(receiver.label) has not uploaded its journal"
        }
        for merger in self.mergers where !merger.hasMergedAll { return "\(merger.label) is at round \(merger.round)" }
        return nil
    }
}
