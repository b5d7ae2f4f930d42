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
    private unowned let agent: SimulatedAgent
    private let files: FaultyFiles
    private var logs: [Log]

    private struct Log {
        /// Its path in the source.
        let path: String
        /// Where it is.
        var place: String
        var number = 0
    }

    private var life: any Life { self.agent.life }
    private var root: String { SimulatedAgent.links }

    init(_ agent: SimulatedAgent) {
        let root = SimulatedAgent.links
        self.agent = agent
        self.files = FaultyFiles(agent.disk.memory)
        self.logs = [
            Log(path: root + "/containers/web.log", place: root + "/pods/web/0.log"),
            Log(path: root + "/current/app.log", place: root + "/releases/0/app.log"),
            Log(path: root + "/pinned.log", place: root + "/logs/pinned.log"),
        ]
        for log in self.logs { agent.disk.memory.place(log.place, []) }
        agent.disk.memory.place(root + "/containers/none", [])
        agent.disk.memory.link(self.logs[0].path, to: self.logs[0].place)
        agent.disk.memory.link(root + "/current", to: root + "/releases/0")
        agent.disk.memory.link(self.logs[2].path, to: self.logs[2].place)
        self.settle()
    }

    /// Where the source has them.
    var paths: [String] { self.logs.map(\.path) }

    private func settle() {
        for node in self.agent.disk.memory.node(at: self.root)?.everyNode ?? [] { node.settle() }
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
        let log = self.life.fileDice.pick(self.logs)
        self.certainly { () throws(FileSystemError) in
            let file = try self.files.open(log.place, .append)
            for _ in 0..<self.life.fileDice.pick([1, 1, 2, 4]) {
                try self.files.writeAll(file, self.agent.newLine(filledBy: self.life.fileDice.int(0...150)))
            }
            self.files.close(file)
        }
        self.agent.changed(log.path)
    }

    /// One of them is rotated.
    func change() {
        let index = self.life.fileDice.int(0..<self.logs.count)
        guard self.agent.disk.memory.bytes(of: self.logs[index].place)?.isEmpty == false else { return }
        self.leaves(self.logs[index].place)
        self.logs[index].number += 1
        let number = self.logs[index].number
        switch index {
        case 0: self.rotateContainer(number)
        case 1:
            self.logs[1].place = self.root + "/releases/\(number)/app.log"
            self.agent.disk.memory.place(self.logs[1].place, [])
            self.swap(self.root + "/current", to: self.root + "/releases/\(number)")
            self.agent.changed(self.root + "/current", isFolder: true)
        default:
            self.certainly { () throws(FileSystemError) in
                try self.files.rename(self.root + "/logs", to: self.root + "/logs.\(number)")
            }
            self.agent.disk.memory.place(self.logs[2].place, [])
        }
        self.settle()
        self.agent.changed(self.logs[index].path)
        self.life.note("\(self.logs[index].path) leads to another file, \(self.logs[index].place)")
    }

    private func rotateContainer(_ number: Int) {
        if self.life.fileDice.chance(500) {
            self.certainly { () throws(FileSystemError) in
                try self.files.rename(self.logs[0].place, to: self.logs[0].place + ".2026\(number)")
            }
            self.agent.disk.memory.place(self.logs[0].place, [])
        } else {
            self.logs[0].place = self.root + "/pods/web/\(number).log"
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
        let isKnown = FileLines.isKnown(node.bytes, node.readEnd)
        // A folder with another name is not searched.
        let isSearched =
            self.life.knows(.realFolders) && !self.life.knows(.bareRemounts) && self.life.rules.remembersFiles
            && self.agent.hasRegistered(node) && !place.hasSuffix("/pinned.log")
        let isHeld = self.agent.holdsFiles && node.seenEnd == node.bytes.count
        guard !isKnown || !isSearched && !isHeld else { return }
        self.life.takenAway(node.bytes[...], seen: 0)
        self.life.cutAway(FileLines.of(node.bytes), isKnown: false)
    }

    func end() { self.files.die() }
}

extension LinkedLogs {
    /// Until calm comes.
    func writeNowAndThen() {
        self.life.schedule.after(self.life.fileDice.milliseconds(50...1_500)) { [weak self] in
            guard let self, !self.life.isCalm else { return }
            self.act()
            self.writeNowAndThen()
        }
    }
}
