internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTestSupport

/// An app that writes segments of its own, as the client library does.
final class FleetApp {
    private unowned let life: FleetLife
    let agent: SimulatedAgent
    private var files: FaultyFiles
    private let writer: String
    private var sequence = 1
    private var file: FileID?
    private var path = ""
    private var restCount = 0
    /// Whether another host writes under the same names.
    private var isCloned = false

    init(_ life: FleetLife, on agent: SimulatedAgent) {
        self.life = life
        self.agent = agent
        self.files = agent.disk.files()
        let digits = Hexadecimal.text(life.dice.bits() >> 16, digitCount: 12)
        self.writer = "0195505e-aaaa-7000-8000-\(digits)"
    }

    /// The same process on a copy of its host, at the same line.
    init(_ life: FleetLife, cloning other: FleetApp, on agent: SimulatedAgent) {
        self.life = life
        self.agent = agent
        self.files = agent.disk.files()
        self.writer = other.writer
        self.sequence = other.sequence
        self.path = other.path
        self.restCount = other.restCount
        self.isCloned = true
        other.isCloned = true
        // From now on both hosts have their own bytes under these names.
        for (path, _) in agent.disk.memory.files(below: SimulatedAgent.spool) { self.contest(path) }
        if other.file != nil {
            do throws(FileSystemError) {
                self.file = try self.files.open(self.path, .append)
                if let file { _ = try self.files.lock(file, .exclusive) }
            } catch {
                preconditionFailure("a disk without faults takes a file: \(error)")
            }
        }
    }

    private func contest(_ path: String) {
        if let id = SimulatedAgent.id(ofSegment: path) { self.life.ledger.contested.insert(id) }
    }

    /// Tracks some events.
    func act() {
        for _ in 0..<self.life.dice.pick([1, 1, 2, 5]) {
            do throws(FileSystemError) {
                if self.file == nil { try self.open() }
                guard let file = self.file else { return }
                let line = self.life.ledger.makeLine(
                    filledBy: self.life.dice.int(0...90), logger: nil, isPromised: !self.isCloned)
                try self.files.writeAll(file, line)
            } catch {
                preconditionFailure("a disk without faults takes a line: \(error)")
            }
            self.sequence += 1
            self.restCount -= 1
            if self.restCount == 0 { self.close() }
        }
    }

    private func open() throws(FileSystemError) {
        let digits = String(self.sequence)
        let name = "\(self.writer)-\(String(repeating: "0", count: 20 - digits.utf8.count))\(digits).ndjson"
        self.path = Path.join(SimulatedAgent.spool, name)
        if self.isCloned { self.contest(self.path) }
        let file = try self.files.open(self.path, .append)
        _ = try self.files.lock(file, .exclusive)
        self.file = file
        self.restCount = self.life.dice.pick([1, 4, 12])
    }

    /// The segment is whole, and its writer is gone.
    func close() {
        if let file { self.files.close(file) }
        self.file = nil
    }
}

/// A program that appends lines to a file, which others rotate, cut and delete.
final class FleetLogger: TroubledLog {
    private unowned let fleet: FleetLife
    let agent: SimulatedAgent
    let files: FaultyFiles
    let path = SimulatedAgent.logs + "/web.log"
    var file: FileID?
    let partial: [UInt8] = []
    var isTearing = false
    var trouble = LogTrouble()
    private var rotatedCount = 0

    init(_ fleet: FleetLife, on agent: SimulatedAgent) {
        self.fleet = fleet
        self.agent = agent
        self.files = agent.disk.files()
    }

    func act() {
        for _ in 0..<self.life.dice.pick([1, 1, 2, 5]) { self.write() }
    }

    func write() {
        guard !self.isTearing else { return }
        do throws(FileSystemError) {
            if self.file == nil { self.file = try self.files.open(self.path, .append) }
            guard let file = self.file else { return }
            let isEmpty = self.agent.disk.memory.bytes(of: self.path)?.isEmpty ?? true
            if isEmpty, self.life.rules.haveHeads { try self.files.writeAll(file, FleetLedger.head) }
            try self.files.writeAll(file, self.agent.newLine(filledBy: self.life.dice.int(0...90)))
        } catch {
            preconditionFailure("a disk without faults takes a line: \(error)")
        }
    }

    func rotate() {
        guard self.file != nil, !self.isTearing else { return }
        self.excuseMirror()
        self.rotatedCount += 1
        do throws(FileSystemError) {
            try self.files.rename(self.path, to: "\(self.path).\(self.rotatedCount)")
        } catch {
            preconditionFailure("a disk without faults renames: \(error)")
        }
        self.close()
        self.replaced()
        self.life.note("\(self.path) of agent \(self.agent.number) is rotated")
    }

    func copyTruncate() { self.cut(isRewritten: false) }

    /// The file is cut to nothing; if it is rewritten, it has at once other lines in place of those.
    func cut(isRewritten: Bool) {
        guard let file, !self.isTearing else { return }
        let bytes = self.agent.disk.memory.bytes(of: self.path) ?? []
        self.excuseMirror()
        do throws(FileSystemError) {
            try self.files.truncate(file, to: 0)
        } catch {
            preconditionFailure("a disk without faults cuts: \(error)")
        }
        self.trouble.cutAt = self.life.schedule.now
        self.trouble.holes = []
        self.agent.forgetHeard(bytes)
        self.gone(bytes)
        self.life.note("\(self.path) of agent \(self.agent.number) is cut from \(bytes.count) bytes")
        guard isRewritten else { return }
        while (self.agent.disk.memory.bytes(of: self.path)?.count ?? 0) < bytes.count { self.act() }
    }

    func deleteOld() {
        guard self.rotatedCount > 0 else { return }
        let path = "\(self.path).\(self.life.dice.int(1...self.rotatedCount))"
        guard let bytes = self.agent.disk.memory.bytes(of: path) else { return }
        do throws(FileSystemError) {
            try self.files.unlink(path)
        } catch {
            preconditionFailure("a disk without faults deletes: \(error)")
        }
        self.gone(bytes)
        self.life.note("\(path) of agent \(self.agent.number) is deleted")
    }

    /// Lines that the bucket does not have are lost with the file.
    private func gone(_ bytes: [UInt8]) {
        self.life.cutAway(FileLines.of(bytes), isKnown: false)
        self.replaced()
    }

    /// Another file, or another content, may be taken for the former by one that remembers nothing.
    func replaced() {
        self.fleet.ledger.rewritten.insert(self.agent.number)
    }

    func close() {
        if let file { self.files.close(file) }
        self.file = nil
    }
}
