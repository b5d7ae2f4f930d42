internal import WaybillSystem
internal import WaybillTestSupport

/// Logs that the agent knows by links.
///
///     /linked/containers/web.log ─▶ /linked/pods/web/0.log   as a kubelet does: renamed, or the next number
///     /linked/current            ─▶ /linked/releases/1       as a deployment does: swapped
///     /linked/pinned.log         ─▶ /linked/logs/pinned.log  whose folder is renamed and made again
///
/// A file that leaves its link is at no path of the source: what the agent does not know of it, it never ships.
final class LinkedLogs {
    private unowned let site: SiteLife
    private let agent: SimulatedAgent
    private let files: FaultyFiles
    private var logs: [Log]

    private struct Log {
        /// Its path in the source.
        let path: String
        /// Where it is.
        var place: String
        var number = 0
    }

    private static let root = SimulatedAgent.links

    init(_ site: SiteLife, _ agent: SimulatedAgent) {
        self.site = site
        self.agent = agent
        self.files = FaultyFiles(agent.disk.memory)
        self.logs = [
            Log(path: Self.root + "/containers/web.log", place: Self.root + "/pods/web/0.log"),
            Log(path: Self.root + "/current/app.log", place: Self.root + "/releases/0/app.log"),
            Log(path: Self.root + "/pinned.log", place: Self.root + "/logs/pinned.log"),
        ]
        for log in self.logs { agent.disk.memory.place(log.place, []) }
        agent.disk.memory.place(Self.root + "/containers/none", [])
        agent.disk.memory.link(self.logs[0].path, to: self.logs[0].place)
        agent.disk.memory.link(Self.root + "/current", to: Self.root + "/releases/0")
        agent.disk.memory.link(self.logs[2].path, to: self.logs[2].place)
        self.settle()
    }

    /// Where the source has them.
    var paths: [String] { self.logs.map(\.path) }

    private func settle() {
        for node in self.agent.disk.memory.node(at: Self.root)?.everyNode ?? [] { node.settle() }
        self.agent.disk.memory.writeBack()
    }

    private func certainly<Result>(_ body: () throws(FileSystemError) -> Result) -> Result {
        do throws(FileSystemError) {
            return try body()
        } catch {
            preconditionFailure("a disk without faults does what it is told: \(error)")
        }
    }

    /// Writes some lines to one of them.
    func act() {
        let log = self.site.fileDice.pick(self.logs)
        self.certainly { () throws(FileSystemError) in
            let file = try self.files.open(log.place, .append)
            for _ in 0..<self.site.fileDice.pick([1, 1, 2, 4]) {
                let token = self.site.nextToken()
                let filler = String(repeating: "v", count: self.site.fileDice.int(0...150))
                let line =
                    "{\"time\":\"2026-11-20T09:00:00.000Z\",\"name\":\"x\",\"n\":\"\(token)\",\"f\":\"\(filler)\"}"
                self.site.ledger.promise(Array(line.utf8)[...])
                try self.files.writeAll(file, Array(line.utf8) + [0x0A])
            }
            self.files.close(file)
        }
        self.agent.changed(log.path)
    }

    /// One of them is rotated.
    func change() {
        let index = self.site.fileDice.int(0..<self.logs.count)
        guard self.agent.disk.memory.bytes(of: self.logs[index].place)?.isEmpty == false else { return }
        self.leaves(self.logs[index].place)
        self.logs[index].number += 1
        let number = self.logs[index].number
        switch index {
        case 0: self.rotateContainer(number)
        case 1:
            self.logs[1].place = Self.root + "/releases/\(number)/app.log"
            self.agent.disk.memory.place(self.logs[1].place, [])
            self.swap(Self.root + "/current", to: Self.root + "/releases/\(number)")
            self.agent.changed(Self.root + "/current", isFolder: true)
        default:
            self.certainly { () throws(FileSystemError) in
                try self.files.rename(Self.root + "/logs", to: Self.root + "/logs.\(number)")
            }
            self.agent.disk.memory.place(self.logs[2].place, [])
        }
        self.settle()
        self.agent.changed(self.logs[index].path)
        self.site.note("\(self.logs[index].path) leads to another file, \(self.logs[index].place)")
    }

    private func rotateContainer(_ number: Int) {
        if self.site.fileDice.chance(500) {
            self.certainly { () throws(FileSystemError) in
                try self.files.rename(self.logs[0].place, to: self.logs[0].place + ".2026\(number)")
            }
            self.agent.disk.memory.place(self.logs[0].place, [])
        } else {
            self.logs[0].place = Self.root + "/pods/web/\(number).log"
            self.agent.disk.memory.place(self.logs[0].place, [])
            self.swap(self.logs[0].path, to: self.logs[0].place)
        }
    }

    private func swap(_ link: String, to target: String) {
        self.agent.disk.memory.link(link + ".new", to: target)
        self.certainly { () throws(FileSystemError) in try self.files.rename(link + ".new", to: link) }
    }

    /// What may be lost of a file that no path of the source leads to from now on.
    private func leaves(_ place: String) {
        guard let node = self.agent.disk.memory.node(at: place) else { return }
        let isKnown = SimulatedLogger.isKnown(node.bytes, node.readEnd)
        // A folder with another name is not searched.
        let isSearched =
            self.site.knows(.realFolders) && !self.site.knows(.bareRemounts) && self.site.remembersFiles
            && self.agent.hasRegistered(node) && !place.hasSuffix("/pinned.log")
        let isHeld = self.agent.holdsFiles && node.seenEnd == node.bytes.count
        guard !isKnown || !isSearched && !isHeld else { return }
        self.site.takenAway(node.bytes[...], seen: 0)
        for line in node.bytes.split(separator: 0x0A) { self.site.ledger.cutAway(line, isKnown: false) }
    }

    func end() { self.files.die() }
}

extension SiteLife {
    /// Until calm comes.
    func repeatedlyWrite(_ logs: LinkedLogs) {
        self.schedule.after(self.fileDice.milliseconds(50...1_500)) { [weak self] in
            guard let self, !self.isCalm else { return }
            logs.act()
            self.repeatedlyWrite(logs)
        }
    }
}

extension SimulatedAgent {
    /// Whether it has every file open of which it lacks something, in each of its runs.
    var holdsFiles: Bool {
        let ending: Set<Trouble> = [
            .agentDeaths, .agentStops, .sourcePowerCuts, .reloads, .lostRegistry, .oldRegistry, .rottenRegistry,
            .diskErrors, .fullDisks, .shortWrites, .passingDays, .missedHints, .noHints,
        ]
        return self.site.remembersFiles && self.site.troubles.isDisjoint(with: ending)
            && self.site.openFileCountMax == 512
            && !self.site.knows(.fewDescriptors) && !self.site.knows(.deviceNumbers) && !self.site.knows(.bareRemounts)
            && self.isRunning
    }
}
