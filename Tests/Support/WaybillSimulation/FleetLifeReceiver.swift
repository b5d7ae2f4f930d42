internal import WaybillProtocol
internal import WaybillReceiver
internal import WaybillSystem
internal import WaybillTestSupport

/// A receiver's host: a disk, a clock, and a receiver of a fleet, which dies and is started again.
final class FleetReceiver {
    unowned let life: FleetLife
    let number: Int
    let name: String
    let bucket: FleetBucket
    private(set) var disk: SimulatedDisk
    let clock: SimulatedClock
    let tally: Tally
    private(set) var process: FleetReceiverProcess?
    private var copy: [(path: String, bytes: [UInt8])]?
    private var isRetired = false
    /// For a planted bug: the numbers of each log's contents, in the order in which they were asked for here.
    private var numbers: [String: [String]] = [:]

    init(_ life: FleetLife, number: Int, name: String) {
        self.life = life
        self.number = number
        self.name = name
        self.bucket = life.bucket
        let label = "receiver \(number)"
        self.clock = SimulatedClock(life.schedule, drift: life.dice.int(-300...300))
        self.disk = SimulatedDisk(life.dice, self.clock)
        self.tally = Tally(trace: life.trace.map { trace in { trace("\(label): \($0)") } })
    }

    var label: String { "receiver \(self.number)" }
    var address: NetworkAddress { NetworkAddress(host: "host-\(self.number)", port: 4390) }
    var isRunning: Bool { self.process != nil }

    func configuration() -> ReceiverConfiguration {
        var configuration = ReceiverConfiguration(dataDirectory: "/data")
        configuration.name = self.name
        configuration.limits.lineByteCountMax = 64 << 10
        configuration.limits.rawByteCountMax = 64 << 10
        configuration.limits.windowByteCount = 16 << 10
        configuration.limits.idleMilliseconds = 20_000
        configuration.admissionByteCount = 1 << 20
        configuration.journalRetention = .zero
        configuration.membership = FleetMembership(fleet: self.bucket.fleet.text)
        return configuration
    }

    // MARK: Life and death

    func start() {
        guard self.process == nil, !self.isRetired else { return }
        let mayDie = !self.life.isCalm && self.life.knows(.receiverDeaths) && self.life.dice.chance(300)
        let files = self.disk.files(dyingIn: mayDie ? self.life.dice.int(1...200) : nil)
        do {
            let process = try FleetReceiverProcess(self, files: files)
            self.process = process
            process.begin()
        } catch {
            files.die()
            if self.life.isCalm { self.life.violate("\(self.label) cannot start over a disk without faults: \(error)") }
            self.restartLater()
        }
    }

    private func restartLater() {
        guard !self.life.isOver else { return }
        let pause = self.life.isCalm ? 50...500 : self.life.dice.pick([50...5_000, 5_000...30_000])
        self.life.schedule.after(self.life.dice.milliseconds(pause)) { self.start() }
    }

    func kill() {
        guard let process = self.process else { return }
        self.process = nil
        process.end()
        self.life.note("\(self.label) died")
        self.restartLater()
    }

    func cutPower() {
        guard self.process != nil else { return }
        self.kill()
        self.disk.cutPower()
        self.life.note("\(self.label) lost power")
    }

    /// Another machine takes its place, with an empty disk.
    func loseDisk() {
        guard self.process != nil else { return }
        self.kill()
        self.disk = SimulatedDisk(self.life.dice, self.clock)
        self.copy = nil
        self.life.note("\(self.label) has lost its disk")
    }

    /// Its data directory is copied, or what it was then comes back.
    func copyOrPutBack() {
        guard self.process != nil else { return }
        guard let copy = self.copy else {
            // As it is durable: a copy of a running receiver, state first.
            self.copy = self.disk.memory.copy().files(below: "/data").map { ($0.path, $0.bytes) }
            return self.life.note("\(self.label)'s data is copied")
        }
        self.kill()
        self.disk = SimulatedDisk(self.life.dice, self.clock)
        for (path, bytes) in copy { self.disk.memory.place(path, bytes) }
        if self.life.dice.chance(500) { self.copy = nil }
        self.life.note("\(self.label)'s data is the copy again")
    }

    func settle() {
        self.disk.recover()
    }

    /// Whether the bucket has all of its journal.
    var isUploaded: Bool { self.process?.isUploaded ?? false }

    /// The planted bug: the id of a log's content, numbered at this receiver alone.
    func renumbered(_ id: StreamID) -> StreamID {
        guard let dash = id.text.lastIndex(of: "-") else { return id }
        let name = String(id.text[...dash])
        let number = String(id.text[id.text.index(after: dash)...])
        let known = self.numbers[name] ?? []
        let index = known.firstIndex(of: number) ?? known.count
        if index == known.count { self.numbers[name] = known + [number] }
        return StreamID(name + String(index)) ?? id
    }

    func release() {
        self.isRetired = true
        let process = self.process
        self.process = nil
        process?.end()
    }
}
