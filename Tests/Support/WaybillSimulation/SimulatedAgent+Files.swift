internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail
internal import WaybillTestSupport

extension Life {
    /// How long ago the agent must have heard of something for it to be in its registry, whatever happens next.
    ///
    /// - Parameter dies: whether it is killed now.
    fileprivate func registryLag(dies: Bool) -> Int64? {
        guard dies || self.rules.mayEndAgents || self.knows(.deviceNumbers) || self.knows(.bareRemounts) else {
            return 0
        }
        return self.rules.hasSureDisks && !self.knows(.fewDescriptors) ? registryPatience : nil
    }
}

/// What is known of the files of a host.
struct FileRecord {
    /// When its agent first heard that a line is durable.
    var heard: [ArraySlice<UInt8>: Int64] = [:]
    /// The most bytes that one of its batches had.
    var batchByteCountMax = 0
    /// The original of each copy of a log, and logs of which lines were taken back; for planted bugs.
    var copies: [String: String] = [:]
    var followers: Set<String> = []
    /// The holes that its agent has skipped.
    var toldHoles: Set<Range<Int>> = []

    /// Whether its agent has skipped a hole: at once, or as the rest of a content that begins with a skipped one.
    func hasTold(_ hole: Range<Int>) -> Bool {
        let told = self.toldHoles.filter { $0.upperBound <= hole.upperBound }.sorted { $0.lowerBound < $1.lowerBound }
        return told.reduce(hole.lowerBound) { $1.contains($0) ? $1.upperBound : $0 } == hole.upperBound
    }
}

/// What the bytes of a log are.
enum FileLines {
    /// The lines of some bytes, without the NULs before them.
    static func of(_ bytes: some Collection<UInt8>) -> [ArraySlice<UInt8>] {
        Array(bytes).split(separator: 0x0A).map { $0.drop { $0 == 0 } }.filter { !$0.isEmpty }
    }

    /// Whether an agent can know a file: it is told from others by its first line.
    static func isKnown(_ bytes: [UInt8], _ readByteCount: Int) -> Bool {
        bytes.prefix(readByteCount).contains(0x0A)
    }

    /// Whether some bytes begin with the head that an entry of the registry is for.
    static func begin(_ bytes: [UInt8], as entry: String) -> Bool {
        func value(_ field: String) -> String? {
            entry.split(separator: " ").first { $0.hasPrefix(field) }.map { String($0.dropFirst(field.count)) }
        }
        guard let byteCount = value("head=").flatMap({ Int($0) }), byteCount <= bytes.count else { return false }
        return value("fingerprint=") == Hexadecimal.text(FNV1a.hash(bytes[..<byteCount]), digitCount: 16)
    }
}

extension SimulatedAgent {
    /// Whether it has every file open of which it lacks something.
    var holdsFiles: Bool { self.life.rules.holdsFiles && self.isRunning }

    /// A line, with its LF, that must arrive once it is written.
    func newLine(filledBy byteCount: Int) -> [UInt8] {
        let token = self.life.nextToken()
        let filler = String(repeating: "v", count: byteCount)
        let line = "{\"time\":\"2026-11-20T09:00:00.000Z\",\"name\":\"x\",\"n\":\"\(token)\",\"f\":\"\(filler)\"}"
        self.life.promise(Array(line.utf8)[...], on: self)
        return Array(line.utf8) + [0x0A]
    }

    /// Every file of its logs, behind links or not.
    var logFiles: [(path: String, bytes: [UInt8])] {
        [SimulatedAgent.logs, SimulatedAgent.links].flatMap { self.disk.memory.files(below: $0) }
    }

    /// Lines have been heard to be durable.
    func heard(_ lines: some Sequence<ArraySlice<UInt8>>) {
        let now = self.life.schedule.now
        for line in lines where self.fileRecord.heard[line] == nil { self.fileRecord.heard[line] = now }
    }

    /// Its agent says a message.
    func said(_ message: Message) {
        guard case .skip(_, let range) = message, range.reason == .hole else { return }
        self.fileRecord.toldHoles.insert(Int(range.offset.rawValue)..<Int(range.end.rawValue))
    }

    /// A content is given up for another one: what the agent hears of its lines proves nothing about that one.
    func forgetHeard(_ bytes: some Collection<UInt8>) {
        for line in FileLines.of(bytes) { self.fileRecord.heard[line] = .max }
    }

    /// Its agent is killed: what it has heard of late may not be in its registry, and proves nothing until it is heard
    /// again.
    func forgetRecent() {
        let recent = self.life.schedule.now - registryPatience
        for (line, time) in self.fileRecord.heard where time > recent && time != .max {
            self.fileRecord.heard[line] = nil
        }
    }

    /// Whether its agent has heard that a line is durable, or was to forget it.
    func hasHeard(_ line: ArraySlice<UInt8>) -> Bool { self.fileRecord.heard[line] != nil }

    private func isHeard(_ line: ArraySlice<UInt8>, lag: Int64) -> Bool {
        self.life.ledger.isIgnored(line)
            || self.fileRecord.heard[line].map { $0 <= self.life.schedule.now - lag } ?? false
    }

    /// Whether the agent must see that a file continues a content with these bytes.
    ///
    /// - Parameter dies: whether it is killed now.
    func isProven(_ bytes: [UInt8], dies: Bool = false) -> Bool {
        guard self.life.rules.remembersFiles, let lag = self.life.registryLag(dies: dies) else { return false }
        let proven = FileLines.of(bytes).prefix { self.isHeard($0, lag: lag) }
        // With fewer acknowledged bytes, equal ones prove nothing.
        return proven.reduce(0) { $0 + $1.count + 1 } >= 512
    }

    /// Whether an agent that may be started again still knows what it shipped of a file.
    ///
    /// - Parameter dies: whether it is killed now.
    func isKept(_ node: MemoryDisk.Node, dies: Bool = false) -> Bool {
        guard self.life.rules.remembersFiles, let lag = self.life.registryLag(dies: dies) else { return false }
        let isHeard = FileLines.of(node.bytes).allSatisfy { self.isHeard($0, lag: lag) }
        return lag == 0 || isHeard && self.hasRegistered(node)
    }

    /// Whether a file is in the registry, as an agent reads it that is started now: what a full disk has taken a part of
    /// is in none.
    ///
    /// Without births, the entry of a file that had the inode before is told from its own by the head alone.
    func hasRegistered(_ node: MemoryDisk.Node) -> Bool {
        let path = SimulatedAgent.state + "/registry.state"
        guard let image = self.disk.memory.bytes(of: path).flatMap({ StateImage(bytes: $0) }) else { return false }
        let (inode, birth) = (String(node.number, radix: 16), String(UInt64(bitPattern: node.birth), radix: 16))
        return image.entries.values.contains {
            $0.contains(" inode=\(inode) ") && $0.contains(" birth=\(birth) ") && FileLines.begin(node.bytes, as: $0)
        }
    }

    /// Its agent has ended: of a file that continues in another one, a full disk has not let the registry know.
    func excuseUnregistered() {
        guard !self.life.rules.hasSureDisks, self.life.knows(.mirrors) || self.life.knows(.likeMirrors) else { return }
        for (path, bytes) in self.logFiles {
            guard let node = self.disk.memory.node(at: path), !self.hasRegistered(node) else { continue }
            self.life.allowCopy(of: FileLines.of(bytes))
        }
    }

    // MARK: Occasions

    /// Until calm comes.
    func troubleFilesNowAndThen() {
        let kinds = FileTrouble.allCases.filter { self.life.knows($0) && $0.isOccasional }
        guard !kinds.isEmpty else { return }
        self.life.schedule.after(self.life.fileDice.milliseconds(100...2_500)) { [weak self] in
            guard let self, !self.life.isCalm else { return }
            self.trouble(self.life.fileDice.pick(kinds))
            self.troubleFilesNowAndThen()
        }
    }

    private func trouble(_ kind: FileTrouble) {
        let log = self.loggers.isEmpty ? nil : self.life.fileDice.pick(self.loggers)
        switch kind {
        case .deviceNumbers, .bareRemounts: self.remount()
        case .fewDescriptors: self.disk.otherDescriptorCount = self.life.fileDice.int(0...9)
        case .links: self.linkedLogs?.change()
        case .mirrors: log?.mirror()
        case .likeMirrors: log?.mirrorAnother()
        case .copies: log?.copy()
        case .copyTruncates: log?.copyAndCut()
        case .dips: log?.dip()
        case .retractions: log?.takeBack()
        case .regrowths: log?.regrow()
        case .holes: log?.leaveHole()
        case .linkedSpools: self.swapSpool()
        case .missingBirths, .realFolders, .exactLoss: break
        }
    }

    /// The file system of the sources is mounted again, as after a restart of their host.
    private func remount() {
        // A file that is shorter for a moment and has another device number looks like another content.
        guard self.isPowered, !self.life.knows(.missingBirths) || !self.loggers.contains(where: \.isTearing) else {
            return
        }
        for (path, bytes) in self.logFiles where !self.isKept(path, bytes) {
            let lines = FileLines.of(bytes)
            self.life.allowCopy(of: lines)
            // They prove something once they are heard again.
            for line in lines where self.fileRecord.heard[line] != .max { self.fileRecord.heard[line] = nil }
        }
        self.life.note("the sources' disk has another device number")
        self.kill()
        self.disk.memory.renumberDevice()
    }

    /// Whether a file must have the same ids after its device has another number: of what is shipped and not in the
    /// registry yet, only the device that it was on leads to the ids.
    private func isKept(_ path: String, _ bytes: [UInt8]) -> Bool {
        guard let node = self.disk.memory.node(at: path) else { return false }
        guard self.life.knows(.missingBirths) else { return self.isKept(node, dies: true) }
        return self.isProven(bytes, dies: true) && self.hasRegistered(node)
    }

    // MARK: Spools behind a link

    /// Lets the spool's link lead to an empty one for a while.
    private func swapSpool() {
        let elsewhere = "/elsewhere"
        guard self.disk.memory.node(at: SimulatedAgent.way + elsewhere) != nil else { return }
        self.life.note("the spool's link leads elsewhere")
        self.disk.hasOtherWay = true
        self.lead(to: elsewhere)
        self.life.schedule.after(self.life.fileDice.milliseconds(100...8_000)) { [weak self] in
            self?.life.note("the spool's link leads back")
            self?.lead(to: "/")
        }
    }

    private func lead(to target: String) {
        let tool = FaultyFiles(self.disk.memory)
        self.disk.memory.link(SimulatedAgent.way + ".new", to: target)
        do throws(FileSystemError) {
            try tool.rename(SimulatedAgent.way + ".new", to: SimulatedAgent.way)
        } catch {
            preconditionFailure("a disk without faults does what it is told: \(error)")
        }
        tool.die()
        self.disk.memory.node(at: "/")?.settle()
        self.changed(SimulatedAgent.way, isFolder: true)
    }

    /// Gives the host a link behind which its spool is.
    func linkSpool() {
        guard self.life.knows(.linkedSpools) else { return }
        self.disk.memory.place("/elsewhere\(SimulatedAgent.spool)/.none", [])
        self.disk.memory.link(SimulatedAgent.way, to: "/")
        self.disk.memory.node(at: "/")?.settle()
    }

    /// A path without the link before it.
    func real(_ path: String) -> String {
        path.hasPrefix(SimulatedAgent.way) ? String(path.dropFirst(SimulatedAgent.way.count)) : path
    }

    // MARK: What an agent is given

    /// What a life gives and plants of an agent's limits.
    func limitFiles(_ limits: inout TailLimits) {
        let bugs = self.life.bugs
        if bugs.contains(.identifyByInode) { limits.provingByteCount = .max }
        if bugs.contains(.shorterIsAnother) { limits.shortPatience = .zero }
        if bugs.contains(.reuseStems) { limits.takenStemCountMax = 0 }
        if bugs.contains(.trustHoles) { (limits.holePatience, limits.blindHolePatience) = (.zero, .zero) }
        guard let most = self.disk.descriptorCountMax, !bugs.contains(.ignoreFewDescriptors) else { return }
        limits.fit(descriptorCountMax: most + usualDescriptorCount, openCount: usualDescriptorCount)
    }

    /// Gives the host's disk what the life has: few descriptors, and more logs than that.
    func setDescriptors() {
        guard self.life.knows(.fewDescriptors) else { return }
        self.disk.descriptorCountMax = self.life.fileDice.pick([24, 24, 26, 32, 64]) - usualDescriptorCount
        for number in 0..<self.life.fileDice.int(4...30) {
            self.disk.memory.place("\(SimulatedAgent.logs)/quiet\(number).log", self.newLine(filledBy: 0))
        }
    }
}

/// How long an agent runs at most before what it has heard is in its registry.
private let registryPatience = Int64.seconds(5)
/// What a process has open before it opens files of its own.
private let usualDescriptorCount = 10
