internal import WaybillFleet
internal import WaybillSystem
internal import WaybillTestSupport

/// A kind of trouble of a fleet; each life knows some of them.
enum FleetTrouble: CaseIterable, Hashable, Sendable {
    // Receivers.
    case receiverDeaths, receiverPowerCuts, lostReceivers, restoredReceivers, twins, receiverDiskErrors
    // The bucket.
    case storeFaults, outages, staleLists
    // Mergers.
    case mergerDeaths, mergerPowerCuts, lostMergers, mergerPauses, mergerDiskErrors, fewPlaces, retirement
    // Agents and sources.
    case agentDeaths, lostRegistries, rotation, cuts, deletions, likeHeads, clones
    // What lies between.
    case brokenLinks, partitions, slowLinks, clockJumps, silence, otherFleet, erasures
    // Drawn by dice of its own, so that lives without it are what they were.
    case setAsides
}

extension FleetLife {
    /// One occasion of one kind.
    func makeTrouble() {
        let kinds = FleetTrouble.allCases.filter { self.knows($0) }
        guard !kinds.isEmpty else { return }
        let (receiver, merger, agent) = (
            self.dice.pick(self.receivers), self.dice.pick(self.mergers), self.dice.pick(self.agents)
        )
        switch self.dice.pick(kinds) {
        case .receiverDeaths: receiver.kill()
        case .receiverPowerCuts: receiver.cutPower()
        case .lostReceivers: if self.dice.chance(500) { receiver.loseData() }
        case .restoredReceivers: receiver.restoreData()
        case .receiverDiskErrors: receiver.disk.errorPerMille = self.dice.pick([0, 0, 20])
        case .storeFaults: self.bucket.memory.deliverLate()
        case .outages: self.outageEnd = self.schedule.now + self.dice.milliseconds(500...15_000)
        case .mergerDeaths: merger.kill()
        case .mergerPowerCuts: merger.cutPower()
        case .lostMergers: if self.dice.chance(500) { merger.loseDisk() }
        case .mergerPauses: merger.pause(for: self.dice.milliseconds(1_000...30_000))
        case .mergerDiskErrors: merger.disk.errorPerMille = self.dice.pick([0, 0, 20])
        case .retirement: merger.retireSegments()
        case .agentDeaths: agent.kill()
        case .lostRegistries: if self.dice.chance(500) { self.loseRegistry(agent) }
        case .rotation: agent.loggers.first?.rotate()
        case .cuts:
            if self.dice.chance(500) { agent.loggers.first?.rewrite() } else { agent.loggers.first?.copyTruncate() }
        case .deletions: agent.loggers.first?.deleteOld()
        case .clones: self.clone(agent)
        case .brokenLinks: agent.dropConnection()
        case .partitions: self.partition(agent, receiver)
        case .clockJumps:
            let clock = self.dice.pick(self.receivers.map(\.clock) + self.mergers.map(\.clock))
            clock.jump(milliseconds: self.dice.pick([-3_600_000, 5_000, 3_600_000]))
        case .silence: self.passHours(receiver)
        case .otherFleet: if self.dice.chance(150) { self.changeFleet() }
        case .erasures: self.askErasure()
        case .setAsides: self.askSetAside()
        case .twins, .staleLists, .fewPlaces, .likeHeads, .slowLinks: break
        }
    }

    /// Someone asks for a person to be erased; the answer may be lost.
    private func askErasure() {
        let id = "person-\(self.dice.int(0..<1_000))"
        do throws(StoreError) {
            _ = try ErasureRequest.ask(
                .user, id: id, now: WallTime(milliseconds: self.schedule.now / 1_000_000),
                newKey: [UInt8](repeating: 7, count: 32), in: BucketAccess(self.bucket, isMerger: true, self.storeClock)
            ) { $0.person == .id(id) }
        } catch {
            // It may be there, or come later: what the bucket has at the end counts.
            self.note("an erasure may not have been asked for: \(error)")
        }
    }

    /// An operator asks for a line not to be read; the answer may be lost.
    private func askSetAside() {
        let batches = self.bucket.allPieces.sorted { $0.key < $1.key }.flatMap(\.value.batches)
        guard !batches.isEmpty else { return }
        let batch = self.dice.pick(batches)
        do throws(StoreError) {
            _ = try SetAsideRequest.ask(
                reader: self.dice.chance(800) ? "archive" : "csv", batch.stream, offset: batch.offset, version: "1.2.3",
                now: WallTime(milliseconds: self.schedule.now / 1_000_000),
                in: BucketAccess(self.bucket, isMerger: true, self.storeClock))
        } catch {
            self.note("a line may not have been asked for: \(error)")
        }
    }

    private func partition(_ agent: SimulatedAgent, _ receiver: SimulatedReceiver) {
        let pair = [agent.number, receiver.number]
        self.partitions.insert(pair)
        agent.dropConnection()
        self.schedule.after(self.dice.milliseconds(1_000...20_000)) { self.partitions.remove(pair) }
    }

    /// A receiver is down while hours pass for all others: they stop waiting for it.
    private func passHours(_ receiver: SimulatedReceiver) {
        receiver.kill()
        for clock in self.receivers.map(\.clock) + self.mergers.map(\.clock) { clock.pass(hours: 1) }
        for agent in self.agents { agent.clock.pass(hours: 1) }
        self.storeClock.pass(hours: 1)
    }

    private func loseRegistry(_ agent: SimulatedAgent) {
        agent.kill()
        agent.disk.memory.place(SimulatedAgent.state + "/registry.state", [])
        self.streams.unregistered.insert(agent.number)
        self.note("\(agent.label) has lost its registry")
    }
}
