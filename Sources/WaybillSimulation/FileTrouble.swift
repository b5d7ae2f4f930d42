internal import WaybillTail
internal import WaybillTestSupport

/// A kind of trouble with the files of a source's host, as hosts have them.
///
/// Drawn by dice of their own: a life without one is what it was, and a kind that agents begin to keep changes no life
/// that does not have it.
package enum FileTrouble: String, CaseIterable, Hashable, Sendable {
    /// The file system has another device number after a restart.
    case deviceNumbers
    /// The file system does not know when files were created: a new file in an old inode has no mark of its own.
    case missingBirths
    /// Both in one life: nothing but a file's content says which one it is.
    case bareRemounts
    /// The agent has few descriptors, and other parts of it need some of them.
    case fewDescriptors
    /// Logs behind links: rotated as a kubelet does, in folders that are renamed, behind a `current` that is swapped.
    case links
    /// Of logs behind links the agent finds again what it knows, in the folder that the file really is in.
    case realFolders
    /// A file is written again and renamed over its old name, with all that it had and more, as `rsync` and editors do.
    case mirrors
    /// The same with a file that only begins as the old one does.
    case likeMirrors
    /// A file is copied, and both grow.
    case copies
    /// A file is copied to a name of its source and then cut to nothing.
    case copyTruncates
    /// A file is shorter for less than five seconds, and then has its bytes again.
    case dips
    /// The last lines of a file are taken back, and it grows on otherwise.
    case retractions
    /// A file is cut to nothing and grows beyond what was read, and begins as before.
    case regrowths
    /// No trouble, but a judgement: what is told to be lost is compared with what is, to the byte.
    case exactLoss

    /// Those with which agents keep every promise.
    package static let kept: Set<FileTrouble> = [
        .deviceNumbers, .missingBirths, .bareRemounts, .fewDescriptors, .links, .copies, .copyTruncates, .dips,
        .retractions, .regrowths,
    ]
}

extension FileTrouble {
    /// Draws the kinds that a life knows.
    ///
    /// - Parameter troubles: others, of which those are taken in half of these lives that make agents forget: what a file
    ///   is shows only to one that remembers.
    /// - Returns: the kinds, and the dice of the life's files.
    static func draw(
        seed: UInt64, among allowed: Set<FileTrouble>, beside troubles: inout Set<Trouble>
    ) -> (kinds: Set<FileTrouble>, dice: Dice) {
        let dice = Dice(seed: seed ^ 0x6669_6C65_7300_0000)
        let isTroubled = dice.chance(500)
        let isRemembered = dice.chance(500)
        let drawn = Set(Self.allCases.filter { _ in dice.chance(300) })
        guard isTroubled, !drawn.isDisjoint(with: allowed) else { return ([], dice) }
        if isRemembered { troubles.subtract(SiteLife.forgetful) }
        return (SiteLife.settled(drawn.intersection(allowed), beside: troubles), dice)
    }

    /// Whether somebody does it to a log now and then.
    fileprivate var isOccasional: Bool {
        switch self {
        case .deviceNumbers, .bareRemounts, .fewDescriptors, .links, .mirrors, .likeMirrors, .copies, .copyTruncates,
            .dips, .retractions, .regrowths:
            true
        case .missingBirths, .realFolders, .exactLoss: false
        }
    }
}

extension SiteLife {
    func knows(_ trouble: FileTrouble) -> Bool { self.fileTroubles.contains(trouble) }

    /// Leaves out what two kinds together would make of a life.
    fileprivate static func settled(_ kinds: Set<FileTrouble>, beside troubles: Set<Trouble>) -> Set<FileTrouble> {
        var kinds = kinds
        if kinds.contains(.bareRemounts) {
            kinds.formUnion([.missingBirths])
        } else if kinds.contains(.missingBirths) {
            kinds.remove(.deviceNumbers)
        }
        if !kinds.contains(.links) { kinds.remove(.realFolders) }
        // A power cut leaves of a file that is changed in the middle what no operator has seen.
        if troubles.contains(.sourcePowerCuts) { kinds.subtract([.links, .realFolders, .dips, .retractions]) }
        return kinds
    }

    /// Kinds of trouble after which an agent does not know what it was told, or its receiver lacks what it said.
    fileprivate static let forgetful: Set<Trouble> = [
        .lostRegistry, .oldRegistry, .rottenRegistry, .restoredData, .lostData, .lostTail, .lostBoth,
        .unlinkedJournal, .falseReceiver, .lyingAgent, .principals, .sourcePowerCuts, .twoReceivers, .reloads,
        .rottenJournal, .rottenCheckpoint, .passingDays,
    ]

    /// Whether a file that goes on is known again.
    var remembersFiles: Bool { self.troubles.isDisjoint(with: Self.forgetful) }

    /// How long ago the agent must have heard of something for it to be in its registry, whatever happens next.
    private func registryLag(dies: Bool) -> Int64? {
        let mayDie = !self.troubles.isDisjoint(with: [.agentDeaths, .agentStops])
        guard dies || mayDie || self.knows(.deviceNumbers) || self.knows(.bareRemounts) else { return 0 }
        let isSure = self.troubles.isDisjoint(with: [.diskErrors, .syncErrors, .fullDisks, .shortWrites])
        return isSure && !self.knows(.fewDescriptors) ? .seconds(5) : nil
    }

    /// With fewer acknowledged bytes, equal ones prove nothing.
    static let provingByteCount = 512

    /// Whether the agent must see that a file continues a content with these bytes.
    ///
    /// - Parameter dies: whether it is killed now.
    func isProven(_ bytes: [UInt8], dies: Bool = false) -> Bool {
        guard self.remembersFiles, let lag = self.registryLag(dies: dies) else { return false }
        var byteCount = 0
        for line in bytes.split(separator: 0x0A) {
            let heard = self.agent.heard[line]
            guard self.ledger.isIgnored(line) || heard.map({ $0 <= self.schedule.now - lag }) ?? false else { break }
            byteCount += line.count + 1
        }
        return byteCount >= Self.provingByteCount
    }

    /// A content is given up for another one: what the agent hears of its lines proves nothing about that one.
    func forgetHeard(_ bytes: some Sequence<UInt8>) {
        for line in Array(bytes).split(separator: 0x0A) { self.agent.heard[line] = .max }
    }

    /// Other files have these lines too, or it cannot be seen that they were shipped: each may be stored once more; in
    /// lives in which agents forget, whenever they do.
    func allowCopy(of lines: [ArraySlice<UInt8>]) {
        if self.remembersFiles { self.ledger.allowCopy(of: lines) } else { self.ledger.allowRepeats(of: lines) }
    }

    /// Whether an agent that may be started again still knows what it shipped of a file.
    ///
    /// - Parameter dies: whether it is killed now.
    func isKept(_ node: MemoryDisk.Node, dies: Bool = false) -> Bool {
        guard self.remembersFiles, let lag = self.registryLag(dies: dies) else { return false }
        let isHeard = node.bytes.split(separator: 0x0A).allSatisfy { line in
            self.ledger.isIgnored(line) || self.agent.heard[line].map { $0 <= self.schedule.now - lag } ?? false
        }
        return lag == 0 || isHeard && self.agent.hasRegistered(node)
    }

    // MARK: Occasions

    /// Until calm comes.
    func troubleFilesNowAndThen() {
        let kinds = FileTrouble.allCases.filter { self.knows($0) && $0.isOccasional }
        guard !kinds.isEmpty else { return }
        self.schedule.after(self.fileDice.milliseconds(100...2_500)) { [weak self] in
            guard let self, !self.isCalm else { return }
            self.trouble(self.fileDice.pick(kinds))
            self.troubleFilesNowAndThen()
        }
    }

    private func trouble(_ kind: FileTrouble) {
        let logger = self.loggers.isEmpty ? nil : self.fileDice.pick(self.loggers)
        switch kind {
        case .deviceNumbers, .bareRemounts: self.remount()
        case .fewDescriptors: self.agent.disk.otherDescriptorCount = self.fileDice.int(0...9)
        case .links: self.linkedLogs?.change()
        case .mirrors: logger?.mirror()
        case .likeMirrors: logger?.mirrorAnother()
        case .copies: logger?.copy()
        case .copyTruncates: logger?.copyAndCut()
        case .dips: logger?.dip()
        case .retractions: logger?.takeBack()
        case .regrowths: logger?.regrow()
        case .missingBirths, .realFolders, .exactLoss: break
        }
    }

    /// The file system of the sources is mounted again, as after a restart of their host.
    private func remount() {
        // A file that is shorter for a moment and has another device number looks like another content.
        guard self.agent.isPowered, !self.knows(.missingBirths) || !self.loggers.contains(where: \.isTearing) else {
            return
        }
        for folder in [SimulatedAgent.logs, SimulatedAgent.links] {
            for (path, bytes) in self.agent.disk.memory.files(below: folder) where !self.isKept(path, bytes) {
                self.allowCopy(of: bytes.split(separator: 0x0A))
            }
        }
        self.note("the sources' disk has another device number")
        self.agent.kill()
        self.agent.disk.memory.renumberDevice()
    }

    /// Whether a file must have the same ids after its device has another number: of what is shipped and not in the
    /// registry yet, only the device that it was on leads to the ids.
    private func isKept(_ path: String, _ bytes: [UInt8]) -> Bool {
        if self.knows(.missingBirths) { return self.isProven(bytes, dies: true) }
        return self.agent.disk.memory.node(at: path).map { self.isKept($0, dies: true) } ?? false
    }

    // MARK: What is told

    /// Somebody takes these bytes away from a source: what of them was not delivered may be told as lost, and what the
    /// agent has seen of it must be.
    ///
    /// - Parameter seen: how many of the first bytes the agent knows to be there.
    func takenAway(_ bytes: ArraySlice<UInt8>, seen: Int) {
        guard self.knows(.exactLoss) else { return }
        var start = bytes.startIndex
        while start < bytes.endIndex {
            let end = bytes[start...].firstIndex(of: 0x0A) ?? bytes.endIndex
            let line = bytes[start..<end]
            let byteCount = min(end + 1, bytes.endIndex) - start
            if !self.ledger.isAcknowledged(line) {
                self.lossByteCountMax += byteCount
                if end - bytes.startIndex < seen { self.seenAway.append(line) }
            }
            start = end + 1
        }
    }

    /// What is wrong with the loss that was told; `nil` when all is well.
    func lossProblem(stored: [[ArraySlice<UInt8>: Int]]) -> String? {
        let hiding: Set<Trouble> = [
            .agentDeaths, .agentStops, .falseReceiver, .lyingAgent, .twoReceivers, .rottenJournal, .diskErrors,
            .syncErrors, .shortWrites, .fullDisks, .rewrites,
        ]
        guard self.knows(.exactLoss), self.remembersFiles, self.troubles.isDisjoint(with: hiding) else { return nil }
        let told = self.agent.tally.lostByteCount
        if told > self.lossByteCountMax {
            return "\(told) bytes are told to be lost, and at most \(self.lossByteCountMax) are"
        }
        // What the agent has seen of a file for which it has no descriptor counts once it is read.
        let blind: Set<FileTrouble> = [.fewDescriptors, .deviceNumbers, .bareRemounts, .retractions, .regrowths]
        guard self.openFileCountMax == 512, self.fileTroubles.isDisjoint(with: blind),
            self.troubles.isDisjoint(with: [.missedHints, .noHints])
        else { return nil }
        let least = self.seenAway.reduce(0) { sum, line in
            sum + (self.ledger.isWritten(line) && !stored.contains { $0[line] != nil } ? line.count + 1 : 0)
        }
        return told < least ? "\(least) bytes were seen and are lost, and \(told) are told" : nil
    }
}

extension SimulatedAgent {
    /// What a life gives and plants of an agent's limits.
    func limitFiles(_ limits: inout TailLimits) {
        if self.site.has(.identifyByInode) { limits.provingByteCount = .max }
        if self.site.has(.shorterIsAnother) { limits.shortPatience = .zero }
        if self.site.has(.reuseStems) { limits.takenStemCountMax = 0 }
        guard let most = self.disk.descriptorCountMax, !self.site.has(.ignoreFewDescriptors) else { return }
        limits.fit(descriptorCountMax: most + Self.usualDescriptorCount, openCount: Self.usualDescriptorCount)
    }

    /// What a process has open before it opens files of its own.
    private static let usualDescriptorCount = 10

    /// Gives the host's disk what the life has: few descriptors, and more logs than that.
    func setDescriptors() {
        guard self.site.knows(.fewDescriptors) else { return }
        self.disk.descriptorCountMax = self.site.fileDice.pick([24, 24, 26, 32, 64]) - Self.usualDescriptorCount
        for number in 0..<self.site.fileDice.int(4...30) {
            let line = Array("{\"time\":\"2026-11-20T09:00:00.000Z\",\"n\":\"\(self.site.nextToken())\"}".utf8)
            self.site.ledger.promise(line[...])
            self.disk.memory.place("\(Self.logs)/quiet\(number).log", line + [0x0A])
        }
    }

    /// Whether a file is in the registry.
    func hasRegistered(_ node: MemoryDisk.Node) -> Bool {
        let path = Self.state + "/registry.state"
        let text = String(decoding: self.disk.memory.bytes(of: path) ?? [], as: UTF8.self)
        let (inode, birth) = (String(node.number, radix: 16), String(UInt64(bitPattern: node.birth), radix: 16))
        return text.split(separator: "\n").contains {
            $0.contains(" inode=\(inode) ") && $0.contains(" birth=\(birth) ")
        }
    }

    /// The lines that the agent has heard to be durable.
    func heard(_ lines: some Sequence<ArraySlice<UInt8>>) {
        for line in lines where self.heard[line] == nil { self.heard[line] = self.site.schedule.now }
    }
}
