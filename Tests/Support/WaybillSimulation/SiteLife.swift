internal import WaybillExport
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTestSupport

/// The life of a whole site: apps and loggers, an agent, a network, one or two receivers with archive and exports, and
/// a replay at the end, all of it shipped code, on one thread, from one seed.
///
///     apps ─▶ spool ─┐                        ┌─▶ journal ─▶ archive, exports ─▶ replay
///     loggers ─▶ log ┴▶ agent ─▶ network ─▶ receiver          each on a simulated disk, by a simulated clock
///
/// For so many seconds there is trouble of the kinds drawn for this life (``Trouble``); then faults stop, and within
/// twenty minutes everything must have arrived. Held all the while: no receiver says less than it acknowledged, memory
/// that was admitted is given back, no one runs in circles. Held at the end, after one more power cut:
///
/// - every line that was promised is in an archive or quarantine, byte for byte, and nowhere twice; nothing else is;
/// - every event of the archive is once in each export; a replay gives the same records;
/// - every segment is deleted; what a cut or deletion at the source took was told;
/// - nothing is reported damaged unless something rotted.
///
/// What the model leaves out: what the agent has read of a source survives a power cut of the source's host, as if the
/// kernel had written it back.
///
/// `@unchecked Sendable`: a life runs on one thread.
package final class SiteLife: LifeState, Life, @unchecked Sendable {
    /// What a life was, and how it ended.
    package struct Report: Sendable {
        /// The promise that was broken; `nil` when all were kept.
        package var violation: String?
        package var lineCount = 0
        package var eventCount = 0
        package var lostLineCount = 0
        package var simulatedSeconds = 0
        /// What the life did, in short, which is the same for a seed in each process; 0 if this kind of life has none.
        package var fingerprint: UInt64 = 0

        package init() {}
    }

    /// The chance of reloads alone.
    let reloadDice: Dice
    /// Of its own, as ``reloadDice``.
    let poisonDice: Dice
    /// What a line holds that ends the process of an export which reads it.
    static let poisonMark = "ends-the-program"
    /// The events in such lines.
    var poisonTokens: Set<Int> = []
    let troubles: Set<Trouble>
    /// The most bytes that may be told to be lost, and lines that were seen before they went.
    var lossByteCountMax = 0
    var seenAway: [ArraySlice<UInt8>] = []
    private var calmSince: Int64 = 0
    private var longLines: [ArraySlice<UInt8>] = []
    var isPartitioned = false
    var oldRegistry: [UInt8]?

    let idleMilliseconds: Int
    let checkpointMilliseconds: Int
    let awakeCount: Int
    let spoolSegmentByteCount: Int
    let openFileCountMax: Int

    lazy var agent = self.makeAgent()
    lazy var receivers = (0..<(self.knows(.twoReceivers) ? 2 : 1)).map {
        SimulatedReceiver(self, number: $0, name: "receiver-\($0)")
    }
    lazy var falseReceiver = FalseReceiver(self)
    var strangers: [Stranger] = []
    /// Streams that a stranger has changed, while no principals were told apart.
    var tainted: Set<StreamID> = []
    var ownership = Ownership()
    lazy var apps = (0..<self.dice.pick([0, 1, 1, 2])).map { _ in SimulatedApp(self, self.agent) }
    /// Where the proxy leads to.
    private(set) var target = 0

    /// Lives a life.
    ///
    /// - Parameter files: the kinds of trouble with files that it may have.
    package static func run(
        seed: UInt64, bugs: Set<PlantedBug> = [], files: Set<FileTrouble> = Set(FileTrouble.allCases),
        trace: ((String) -> Void)? = nil
    ) -> Report {
        let life = SiteLife(seed: seed, bugs: bugs, files: files, trace: trace)
        life.live()
        var report = life.report
        report.lostLineCount = life.lostLineCount
        return report
    }

    private var lostLineCount = 0

    private init(seed: UInt64, bugs: Set<PlantedBug>, files: Set<FileTrouble>, trace: ((String) -> Void)?) {
        // Storage lives begin with the same seeds.
        let dice = Dice(seed: seed ^ 0x7761_7962_696C_6C00)
        let share = dice.pick([100, 300, 500])
        let reloadDice = Dice(seed: seed ^ 0x7265_6C6F_6164_7300)
        self.reloadDice = reloadDice
        // Drawn with dice of their own, so that lives without reloads are as they always were.
        var troubles = Set(Trouble.allCases.filter { $0 != .reloads && $0 != .poison && dice.chance(share) })
        if reloadDice.chance(250) { troubles.insert(.reloads) }
        let poisonDice = Dice(seed: seed ^ 0x706F_6973_6F6E_0000)
        self.poisonDice = poisonDice
        if poisonDice.chance(250) { troubles.insert(.poison) }
        // Who keeps no journal after the checkpoints cannot do without them.
        if troubles.contains(.shortRetention) { troubles.remove(.rottenCheckpoint) }
        // What was written and never became durable is trouble enough for one disk and one life.
        if !troubles.isDisjoint(with: [.diskErrors, .syncErrors, .receiverPowerCuts]) {
            troubles.subtract([.rottenCheckpoint, .rottenJournal])
        }
        // A journal that has no open file, because its disk refused one, does not notice that others were deleted.
        if !troubles.isDisjoint(with: [.diskErrors, .syncErrors, .fullDisks]) { troubles.remove(.unlinkedJournal) }
        if dice.chance(30) { troubles.formIntersection(Self.quiet) }
        let fileTrouble = FileTrouble.draw(seed: seed, among: files, beside: &troubles, forgetful: Self.forgetful)
        let fileTroubles = fileTrouble.kinds.subtracting(
            troubles.contains(.sourcePowerCuts) ? FileTrouble.withoutPowerCuts : [])
        self.troubles = troubles
        self.idleMilliseconds = dice.pick([4_000, 20_000, 90_000])
        self.checkpointMilliseconds = dice.pick([200, 1_000, 5_000])
        let isUneven = troubles.isSuperset(of: [.shortRetention, .smallFeed])
        let projectionDelays =
            isUneven ? [0...5, 3_000...15_000] : dice.pick([[0...5], [0...500], [1_000...8_000]])
        let journalSegmentByteCount = dice.pick([4_096, 16_384, 1 << 20])
        self.spoolSegmentByteCount = dice.pick([1, 1_500, 5_000, 20_000])
        let batchByteCountMax = dice.pick([400, 2_500, 32_768])
        let openFileCountMax = dice.pick([1, 3, 512])
        self.openFileCountMax = fileTroubles.contains(.fewDescriptors) ? 512 : openFileCountMax
        self.awakeCount = dice.pick([0, 2, 10_000])
        var rules = Self.rules(
            troubles, fileTroubles, openFileCountMax: self.openFileCountMax,
            journalSegmentByteCount: journalSegmentByteCount, batchByteCountMax: batchByteCountMax)
        rules.projectionDelays = projectionDelays
        super.init(dice, bugs: bugs, files: (fileTroubles, fileTrouble.dice), rules, trace: trace)
    }

    private func makeAgent() -> SimulatedAgent {
        let agent = SimulatedAgent(self, number: 0, name: "a")
        agent.setDescriptors()
        return agent
    }

    // MARK: What others ask

    func knows(_ trouble: Trouble) -> Bool { self.troubles.contains(trouble) }

    /// What an event holds besides its token: in some lives and seldom, what ends exports.
    func filler(for token: String) -> String {
        let filler = String(repeating: "y", count: self.dice.int(0...120))
        guard self.knows(.poison), self.poisonDice.chance(15) else { return filler }
        if let number = Int(token.dropFirst().dropLast()) { self.poisonTokens.insert(number) }
        return Self.poisonMark + filler
    }

    func promise(_ line: ArraySlice<UInt8>, on agent: SimulatedAgent) {
        if line.count + 1 > SimulatedAgent.lineByteCountMax {
            self.longLines.append(line)
        } else {
            self.ledger.promise(line)
        }
    }

    func connect(_ connection: Connection, to address: NetworkAddress) {
        // The planted bug: both addresses have one name.
        let isSecond = self.has(.ignoreAddress) && connection.agent.attemptCount.isMultiple(of: 2)
        self.keep(connection)
        if self.isPartitioned {
            // The agent's own time-out.
            return self.schedule.after(.seconds(10)) { connection.refused() }
        }
        if address == Self.falseAddress || isSecond {
            connection.isFalse = true
            return self.schedule.after(self.dice.milliseconds(0...50)) { [weak self] in
                guard let self, !self.isCalm else { return connection.refused() }
                connection.connected { self.falseReceiver.accept($0) }
            }
        }
        if self.knows(.twoReceivers), !self.isCalm { self.target = self.dice.int(0..<self.receivers.count) }
        self.lead(connection, to: self.receivers[self.target])
    }

    // MARK: A life

    /// Of a thousand lives so many are long; the journal releases what is behind all projections every ten seconds.
    private var longPerMille: Int { self.knows(.shortRetention) && self.knows(.smallFeed) ? 500 : 20 }

    private func live() {
        self.note("troubles: \(Trouble.allCases.filter { self.knows($0) })")
        self.note("files: \(FileTrouble.allCases.filter { self.knows($0) })")
        for receiver in self.receivers { receiver.start() }
        self.agent.start()
        for app in self.apps { self.repeatedly(50...1_500) { app.act() } }
        self.agent.loggers = (0..<self.dice.pick(self.apps.isEmpty ? [1, 1, 2] : [0, 1, 1])).map {
            SimulatedLogger(on: self.agent, name: "web\($0)")
        }
        for logger in self.loggers { self.repeatedly(50...1_500) { logger.act() } }
        self.repeatedly(50...1_200) { self.makeTrouble() }
        self.agent.linkedLogs?.writeNowAndThen()
        self.agent.troubleFilesNowAndThen()
        if self.knows(.reloads) { self.reloadNowAndThen() }
        self.schedule.run(
            until: self.dice.milliseconds(self.dice.chance(self.longPerMille) ? 15_000...40_000 : 1_500...8_000)
        ) {
            self.violation != nil
        }
        if self.violation == nil { self.settle() }
        if self.violation == nil { self.end() }
        for connection in self.connections { connection.release() }
        for stranger in self.strangers { stranger.leave() }
        for receiver in self.receivers { receiver.release() }
        self.agent.release()
        self.schedule.clear()
    }

    /// Until calm comes.
    private func repeatedly(_ pause: ClosedRange<Int>, _ body: @escaping () -> Void) {
        self.schedule.after(self.dice.milliseconds(pause)) { [weak self] in
            guard let self, !self.isCalm else { return }
            body()
            self.repeatedly(pause, body)
        }
    }

    /// Until calm comes.
    private func reloadNowAndThen() {
        self.schedule.after(self.reloadDice.milliseconds(50...2_000)) { [weak self] in
            guard let self, !self.isCalm else { return }
            self.agent.reload(self.reloadDice.pick(SourceList.allCases))
            self.reloadNowAndThen()
        }
    }

    private func settle() {
        self.isCalm = true
        self.calmSince = self.schedule.now
        self.isPartitioned = false
        self.note("calm")
        for disk in [self.agent.disk] + self.receivers.map(\.disk) {
            disk.recover()
        }
        for app in self.apps { app.end() }
        for logger in self.loggers { logger.end() }
        self.agent.linkedLogs?.end()
        for connection in self.connections where connection.isFalse { connection.breakOff() }
        // Their operators notice at last.
        for receiver in self.receivers where !receiver.loss.unlinked.isEmpty { receiver.kill() }
        if !self.agent.isPowered { self.agent.powerReturns() }
        if self.knows(.reloads) { self.agent.reload(.usual) }
        self.waitUntilSettled()
        // A file that was disputed is asked for again within an hour.
        let patience = self.troubles.isDisjoint(with: [.falseReceiver, .lyingAgent]) ? 20 : 80
        self.schedule.run(until: self.schedule.now + .seconds(patience * 60)) {
            self.violation != nil || self.isSettled
        }
        if self.violation == nil, !self.isSettled {
            self.noteLogs { !self.ledger.isAcknowledged($0) }
            self.violate("faults stopped \(patience) minutes ago, and \(self.openWork)")
        }
    }

    private var isSettled = false

    private func waitUntilSettled() {
        self.isSettled = self.openWork == "nothing is open"
        if !self.isSettled { self.schedule.after(.milliseconds(500)) { self.waitUntilSettled() } }
    }

    private var openWork: String {
        self.excuseTainted()
        if let receiver = self.receivers.first(where: \.loss.isUncounted) {
            return "\(receiver.label) was not started again"
        }
        if self.ledger.openCount > 0, !self.mayForget {
            return "\(self.ledger.openCount) lines are not acknowledged: \(self.ledger.firstOpen ?? "")"
        }
        let segments = self.agent.segments.filter { !self.tainted.contains($0.id) }
        // A segment that a power cut brings back is kept where another receiver knows nothing of it.
        let isDamaged = self.receivers.contains { $0.loss.isDamage }
        let mayStay = self.mayForget || isDamaged || (self.knows(.sourcePowerCuts) && self.knows(.twoReceivers))
        if let path = segments.first?.path, !mayStay {
            return "the spool holds \(path)"
        }
        if let receiver = self.receivers.first(where: { !($0.process?.isProjected ?? false) }) {
            return "\(receiver.label) has not projected everything: \(receiver.process?.openProjections ?? [])"
        }
        if let line = self.lostLongLine { return "a line of \(line.count) bytes is in no quarantine" }
        if let line = self.undelivered { return "\(self.receivers[self.target].label) was never sent \(line)" }
        if self.ledger.hasCutAway, self.schedule.now < self.calmSince + .seconds(120) {
            return "what was cut away may not be noticed yet"
        }
        return "nothing is open"
    }

    private func end() {
        let isRemembered = self.troubles.isSubset(of: Self.quiet) && !self.knows(.bareRemounts)
        if isRemembered { self.comeBack() }
        self.isOver = true
        self.agent.stop()
        self.schedule.run(until: self.schedule.now + .seconds(15)) { !self.agent.isRunning }
        if self.agent.isRunning { self.violate("an agent that has nothing to do does not stop") }
        // A group that is committed only now may have a line that ends the receiver: the one after it reads on.
        self.schedule.run(until: self.schedule.now + .seconds(120)) {
            self.receivers.allSatisfy { $0.process.map { $0.isQuiet && $0.isProjected } ?? false }
        }
        // Checks that a pool's threads still make give back what they hold.
        self.schedule.run(until: self.schedule.now + .seconds(1))
        for receiver in self.receivers {
            if let leaked = receiver.process?.leakedByteCount, leaked != 0 {
                self.violate("\(leaked) bytes of \(receiver.label)'s admission budget are never given back")
            }
            receiver.stop()
            receiver.disk.cutPower()
            // What a power cut brings back is cleared away by the next start.
            receiver.start()
            receiver.stop()
        }
        if self.violation == nil { self.judge() }
    }

    private func noteLogs(with isMissing: (ArraySlice<UInt8>) -> Bool) {
        for (path, bytes) in self.agent.logFiles {
            let missing = FileLines.of(bytes).filter(isMissing).map(PromiseLedger.text)
            if !missing.isEmpty { self.note("\(path) has \(missing.count) lines that no receiver has: \(missing)") }
        }
    }

    private func judge() {
        let stored = self.receivers.map { $0.storedLines() }
        let repeating = Set(self.receivers.filter(\.loss.mayRepeat).map(\.number))
        if let problem = self.ledger.problem(stored: stored, repeating: repeating, mayMiss: self.mayForget) {
            self.noteLogs { line in !stored.contains { $0[line] != nil } }
            for receiver in self.receivers { receiver.noteRepeats(in: stored[receiver.number]) }
            return self.violate(problem)
        }
        self.lostLineCount = self.ledger.lostCount(stored: stored)
        let hidden: Set<Trouble> = [
            .sourcePowerCuts, .agentDeaths, .agentStops, .lostRegistry, .oldRegistry, .rottenRegistry, .restoredData,
            .lostData, .lostTail, .lostBoth, .unlinkedJournal, .rewrites, .falseReceiver, .reloads,
        ]
        // What is cut and has a hole at once is as long as before.
        let hiding: Set<FileTrouble> = [
            .deviceNumbers, .bareRemounts, .fewDescriptors, .regrowths, .retractions, .holes,
        ]
        if self.lostLineCount > 0, self.troubles.isDisjoint(with: hidden), self.fileTroubles.isDisjoint(with: hiding) {
            // A file that was cut and begins as before is told to be shorter, and to be cut only if more was seen of it
            // than was shipped.
            let told = ["a file was cut", "a file is gone", "a file is shorter"].reduce(0) {
                $0 + self.agent.tally.count(containing: $1)
            }
            if told == 0 { self.violate("\(self.lostLineCount) lines were cut away, and no one said so") }
        }
        if let problem = self.lossProblem(stored: stored) { return self.violate(problem) }
        if let hole = self.loggers.compactMap(\.untoldHole).first {
            return self.violate("NULs from \(hole.lowerBound) to \(hole.upperBound) are in a file, and no one said so")
        }
        if let line = self.lostLongLine {
            return self.violate("a line of \(line.count) bytes is in no quarantine: \(PromiseLedger.text(line))")
        }
        if let problem = self.trespass { return self.violate(problem) }
        // What a rotten batch gave to one projection before it rotted, the next one does not get.
        let whole = self.mayForget ? [] : self.receivers.filter { !$0.loss.isDamage }
        for receiver in whole where self.violation == nil {
            if let problem = receiver.exportProblem(without: self.poisonTokens) {
                self.violate("\(receiver.label): \(problem)")
            }
        }
        for receiver in whole where self.violation == nil && self.dice.chance(100) {
            if let problem = receiver.verifyProblem() { self.violate("\(receiver.label): \(problem)") }
        }
    }

    /// A line that no receiver takes and that the agent has not put aside.
    private var lostLongLine: ArraySlice<UInt8>? {
        guard self.troubles.isDisjoint(with: [.copyTruncate, .deletion, .sourcePowerCuts, .rewrites]),
            self.fileTroubles.isDisjoint(with: [.likeMirrors, .retractions, .regrowths, .holes]), !self.mayForget,
            !self.longLines.isEmpty
        else { return nil }
        let kept = Set(self.agent.disk.memory.files(below: SimulatedAgent.state + "/quarantine").map { $0.bytes[...] })
        return self.longLines.first { !kept.contains(($0 + [0x0A])[...]) && !kept.contains($0) }
    }

    // MARK: Trouble

    private func makeTrouble() {
        let kinds = Trouble.allCases.filter { self.knows($0) && $0.isOccasional }
        guard !kinds.isEmpty else { return }
        let kind = self.dice.pick(kinds)
        let receiver = self.dice.pick(self.receivers)
        switch kind {
        case .appDeaths: if !self.apps.isEmpty { self.dice.pick(self.apps).end() }
        case .agentDeaths: self.agent.kill()
        case .receiverDeaths: receiver.kill()
        case .agentStops: self.agent.stop()
        case .receiverStops: receiver.stop()
        case .sourcePowerCuts: self.cutSourcePower()
        case .receiverPowerCuts: receiver.cutPower()
        case .diskErrors: self.anyDisk().errorPerMille = self.dice.pick([0, 0, 20])
        case .syncErrors: self.anyDisk().syncErrorPerMille = self.dice.pick([0, 100])
        case .shortWrites: self.anyDisk().shortWritePerMille = self.dice.pick([0, 200])
        case .fullDisks:
            let disk = self.anyDisk()
            disk.isFull = true
            self.schedule.after(self.dice.milliseconds(100...15_000)) { disk.isFull = false }
        case .halfOpenConnections: self.connections.last?.fallSilent()
        case .stalls: self.connections.last?.stall()
        case .partitions:
            self.isPartitioned = true
            self.schedule.after(self.dice.milliseconds(100...20_000)) { self.isPartitioned = false }
        case .clockJumps:
            let clock = self.dice.pick([self.agent.clock] + self.receivers.map(\.clock))
            clock.jump(milliseconds: self.dice.pick([-86_400_000, 86_400_000, -3_600_000, 5_000]))
        case .passingDays:
            // Hours in which no one does anything; cut-offs pass.
            let hours = self.dice.int(1...30)
            for clock in [self.agent.clock] + self.receivers.map(\.clock) { clock.pass(hours: hours) }
        case .rotation: if !self.loggers.isEmpty { self.dice.pick(self.loggers).rotate() }
        case .copyTruncate: if !self.loggers.isEmpty { self.dice.pick(self.loggers).copyTruncate() }
        case .deletion: if !self.loggers.isEmpty { self.dice.pick(self.loggers).deleteOld() }
        case .lostRegistry, .oldRegistry, .rottenRegistry: self.spoilRegistry(kind)
        case .rottenCheckpoint, .rottenJournal: self.rot(receiver, kind)
        case .restoredData, .lostData, .lostTail, .lostBoth, .unlinkedJournal, .rewrites, .falseReceiver, .lyingAgent:
            self.betray(kind, receiver)
        case .principals: self.tellApart(receiver)
        case .cutConnections, .slowSyncs, .twoReceivers, .drift, .lateWrites, .longLines, .tornLines, .missedHints,
            .noHints, .reloads, .poison, .smallWindow, .smallFeed, .shortRetention:
            break
        }
    }
}
