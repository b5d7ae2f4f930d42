internal import WaybillTestSupport

/// Disks that fail, lose power and rot.
extension SiteLife {
    func anyDisk() -> SimulatedDisk {
        self.dice.pick([self.agent.disk] + self.receivers.map(\.disk))
    }

    func cutSourcePower() {
        guard self.agent.isPowered else { return }
        for app in self.apps { app.end() }
        self.agent.cutPower()
        for folder in [SimulatedAgent.spool, SimulatedAgent.logs] {
            // The kernel has written back what was read: a line was shipped long before a power cut. Also of files that
            // were deleted, for they may come back.
            for node in self.agent.disk.memory.node(at: folder)?.everyNode ?? [] { node.settleRead() }
        }
        self.agent.disk.cutPower()
        for logger in self.loggers { logger.powerCut() }
        let found = [SimulatedAgent.spool, SimulatedAgent.logs].flatMap { self.agent.disk.memory.files(below: $0) }
        for (_, bytes) in found {
            let pieces = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
            self.ledger.find(pieces.dropLast(), ending: pieces.last ?? [])
        }
        self.ledger.keepFound()
        self.schedule.after(self.dice.milliseconds(500...10_000)) { self.agent.powerReturns() }
    }

    func spoilRegistry(_ kind: Trouble) {
        let path = SimulatedAgent.state + "/registry.state"
        guard let bytes = self.agent.disk.memory.bytes(of: path) else { return }
        // Where a content had its ids from went with the registry: it is stored once more.
        let moving: Set<FileTrouble> = [.deviceNumbers, .bareRemounts, .mirrors, .likeMirrors, .dips]
        if !self.fileTroubles.isDisjoint(with: moving), kind != .oldRegistry || self.oldRegistry != nil {
            for (_, bytes) in self.agent.logFiles { self.ledger.allowRepeats(of: FileLines.of(bytes)) }
        }
        switch kind {
        case .oldRegistry where self.oldRegistry == nil:
            self.oldRegistry = bytes
        case .oldRegistry:
            self.agent.kill()
            self.agent.disk.memory.place(path, self.oldRegistry ?? [])
            self.oldRegistry = nil
        case .lostRegistry:
            self.agent.kill()
            self.agent.disk.memory.place(path, [])
        default:
            self.agent.kill()
            self.agent.disk.rot(path)
        }
    }

    func rot(_ receiver: SimulatedReceiver, _ kind: Trouble) {
        let folder = kind == .rottenJournal ? "/data/journal" : "/data/state"
        let suffix = kind == .rottenJournal ? ".journal" : ".state"
        let paths = receiver.disk.memory.files(below: folder).map(\.path).filter { $0.hasSuffix(suffix) }
        guard !paths.isEmpty else { return }
        if kind == .rottenJournal {
            guard !self.mayForget else { return }
            self.mayForget = true
        }
        receiver.kill()
        let path = self.dice.pick(paths)
        receiver.disk.rot(path)
        if kind == .rottenJournal { receiver.loss.isCut = true }
        let checkpoint = "/data/state/archive.state"
        // What was never written remembers nothing, either.
        let isThere = receiver.disk.memory.bytes(of: checkpoint) != nil
        if path == checkpoint || !isThere { receiver.loss.isArchiveUnsure = true }
        self.note("\(path) rots")
    }
}
