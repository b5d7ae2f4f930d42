internal import WaybillProtocol
internal import WaybillTestSupport

/// What holds between agents, receivers and those who lie.
extension SiteLife {
    /// Kinds of trouble in which nothing is lost, and so nothing needs to be asked twice.
    static let quiet: Set<Trouble> = [
        .agentStops, .receiverStops, .rotation, .smallWindow, .smallFeed, .drift, .noHints,
    ]

    /// Whether a receiver has acknowledged every line of a file that it must store.
    func holds(_ receiver: SimulatedReceiver, _ bytes: [UInt8]) -> Bool {
        self.mayForget || receiver.loss.isUncounted
            || !Self.wholeLines(bytes).contains { self.ledger.isOwed($0, by: receiver.number) }
    }

    func isHeldAnywhere(_ bytes: [UInt8]) -> Bool {
        self.receivers.contains { self.holds($0, bytes) }
    }

    private static func wholeLines(_ bytes: [UInt8]) -> [ArraySlice<UInt8>] {
        guard let end = bytes.lastIndex(of: 0x0A) else { return [] }
        return bytes[...end].split(separator: 0x0A)
    }

    /// A receiver that has lost data was started, and holds these lines.
    func recount(_ held: Set<ArraySlice<UInt8>>, by receiver: SimulatedReceiver) {
        self.ledger.recount(held, by: receiver.number, sources: self.agent.sourceLines)
    }

    /// A segment that a stranger has changed at the receiver waits for its owner.
    func excuseTainted() {
        guard !self.tainted.isEmpty else { return }
        for segment in self.agent.segments where self.tainted.contains(segment.id) {
            self.ledger.excuse(segment.bytes.split(separator: 0x0A))
        }
    }

    /// A line that a file still has, and that the last receiver does not.
    var undelivered: String? {
        guard !self.mayForget, !self.knows(.sourcePowerCuts) else { return nil }
        let segments = self.agent.segments.filter { !self.tainted.contains($0.id) }.map { ($0.path, $0.bytes) }
        let logs = self.agent.disk.memory.files(below: SimulatedAgent.logs).map { ($0.path, $0.bytes) }
        for (path, bytes) in segments + logs {
            let line = Self.wholeLines(bytes).first {
                $0.count < SimulatedAgent.lineByteCountMax
                    && self.ledger.isOwed($0, by: self.receivers[self.target].number)
            }
            if let line { return "\(PromiseLedger.text(line)), which \(path) has" }
        }
        return nil
    }

    /// Agent and receiver are started again: no one asks for what is known.
    func comeBack() {
        // What was renamed away is sealed first.
        self.schedule.run(until: self.schedule.now + .seconds(90)) { false }
        let count = self.agent.openCount
        self.agent.stop()
        self.schedule.run(until: self.schedule.now + .seconds(60)) { false }
        for receiver in self.receivers { receiver.stop() }
        self.schedule.run(until: self.schedule.now + .seconds(120)) { false }
        if self.agent.openCount != count {
            self.violate("\(self.agent.openCount - count) streams were opened, and nothing was new")
        }
    }

    // MARK: Trouble

    /// Data is lost or put back, a source is rewritten, or someone lies.
    func betray(_ kind: Trouble, _ receiver: SimulatedReceiver) {
        guard self.dice.chance(500) else { return }
        switch kind {
        case .falseReceiver: self.connections.last?.breakOff()
        case .lyingAgent: self.meddle(receiver)
        case .rewrites:
            guard !self.loggers.isEmpty else { return }
            self.agent.kill()
            if self.dice.chance(600) { self.spoilRegistry(.lostRegistry) }
            self.dice.pick(self.loggers).rewrite()
        default:
            switch kind {
            case .restoredData: receiver.restoreData()
            case .lostTail: receiver.loseJournalTail()
            case .unlinkedJournal: receiver.unlinkJournal()
            default: receiver.loseData()
            }
            if kind == .lostBoth { self.spoilRegistry(.lostRegistry) }
            self.letOthersIn(receiver)
        }
    }

    /// Others make the journal grow, often before the agent comes back.
    private func letOthersIn(_ receiver: SimulatedReceiver) {
        for _ in 0..<self.dice.pick([0, 1, 3]) {
            let count = self.dice.int(1...20)
            self.schedule.after(self.dice.milliseconds(500...6_000)) {
                self.admit(receiver, to: .grow(batchCount: count))
            }
        }
        guard self.dice.chance(500), !self.isPartitioned else { return }
        self.isPartitioned = true
        let length = self.dice.milliseconds(1_000...12_000)
        self.schedule.after(length) { self.isPartitioned = false }
        // It starts once more before the agent is back: only the start before the last tells that it came back older.
        guard self.dice.chance(700) else { return }
        self.schedule.after(length * 3 / 4) { receiver.kill() }
    }

    private func meddle(_ receiver: SimulatedReceiver) {
        guard let description = self.agent.anyStream else { return }
        self.admit(receiver, to: self.ownership.isKept ? .intrude(description, .squat) : .meddle(description))
    }

    func admit(_ receiver: SimulatedReceiver, to aim: Stranger.Aim) {
        guard !self.isOver else { return }
        let stranger = Stranger(self, at: receiver, to: aim)
        self.strangers.append(stranger)
        stranger.start()
    }

    func left(_ stranger: Stranger) {
        self.strangers.removeAll { $0 === stranger }
    }
}
