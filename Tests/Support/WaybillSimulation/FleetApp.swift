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
        if let id = SimulatedAgent.id(ofSegment: path) { self.life.streams.contested.insert(id) }
    }

    /// Tracks some events.
    func act() {
        for _ in 0..<self.life.dice.pick([1, 1, 2, 5]) {
            do throws(FileSystemError) {
                if self.file == nil { try self.open() }
                guard let file = self.file else { return }
                let filler = String(repeating: "x", count: self.life.dice.int(0...90))
                let line = Array("{\"n\":\"\(self.life.nextToken())\",\"f\":\"\(filler)\"}".utf8)
                if self.isCloned { self.life.ledger.allow(line[...]) } else { self.life.ledger.promise(line[...]) }
                try self.files.writeAll(file, line + [0x0A])
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
