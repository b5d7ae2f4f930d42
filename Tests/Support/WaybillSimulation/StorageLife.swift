internal import WaybillCompression
internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTestSupport

/// The life of a receiver's disk: the shipped journal and archive over a disk that fails, forgets and tears, through
/// several deaths of the process and of the power, from one seed.
///
///     stage ─▶ commit ─▶ acknowledged ─▶ projected ─▶ checkpoint        died in any call, then started again
///                                            erase ─▶ lost checkpoints        in some lives (``StorageLife+Erasures``)
///
/// Held after each start: no stream stands below what was acknowledged of it, and none past what was sent, and the
/// proof of each is that of the bytes that were sent. Held at
/// the end: the archive, sealed or not, has every line that is durable, byte for byte, exactly once, and nothing else, and no
/// line of a person who was erased; also after one more power cut.
///
/// Which kinds of faults there are is drawn for each life, so that one kind does not hide another.
package struct StorageLife: ~Copyable {
    private struct Stream {
        let description: StreamDescription
        /// Every byte that was ever staged, in order.
        var bytes: [UInt8] = []
        var acknowledged = 0

        func proof(at position: Int) -> StreamProof {
            StreamProof(
                of: self.description.id, at: StreamOffset(UInt64(position)),
                tail: self.bytes[..<position].suffix(StreamProof.byteCountMax))
        }
    }

    private let dice: Dice
    /// Of its own, so that erasures change nothing in lives without them.
    let erasureDice: Dice
    let hasErasures: Bool
    let clock: SimulatedClock
    let disk: SimulatedDisk
    let bugs: Set<PlantedBug>
    private let mayLosePower: Bool
    private var streams: [Stream] = []
    private var lineCount = 0
    /// Whose erasure was begun, or may have been.
    var erasedPeople: Set<Int> = []
    var violation: String?
    private var deflater = Deflater(level: 1)
    let trace: StorageTrace?

    /// Lives a life.
    ///
    /// - Returns: the promise that was broken; `nil` when all were kept.
    package static func run(seed: UInt64, bugs: Set<PlantedBug> = []) -> String? {
        self.report(seed: seed, bugs: bugs).violation
    }

    /// Lives a life, and tells how.
    ///
    /// - Parameter trace: gets each step, each fault, and what they left on the disk.
    package static func report(
        seed: UInt64, bugs: Set<PlantedBug> = [], trace: ((String) -> Void)? = nil
    ) -> SiteLife.Report {
        var life = StorageLife(seed: seed, bugs: bugs, trace: trace)
        life.live()
        var report = SiteLife.Report()
        report.violation = life.violation
        report.lineCount = life.lineCount
        report.fingerprint = life.fingerprint
        return report
    }

    /// Every draw and every byte on the disk.
    private var fingerprint: UInt64 {
        var text = "\(self.dice.following) \(self.erasureDice.following)"
        for (path, bytes) in self.disk.memory.files(below: "/data") { text += " \(path) \(FNV1a.hash(bytes))" }
        return FNV1a.hash(text.utf8)
    }

    private init(seed: UInt64, bugs: Set<PlantedBug>, trace: ((String) -> Void)?) {
        self.dice = Dice(seed: seed)
        self.clock = SimulatedClock(Schedule(), tick: .milliseconds(1))
        self.disk = SimulatedDisk(self.dice, self.clock)
        self.disk.trace = trace
        let disk = self.disk
        self.trace = trace.map { StorageTrace(disk, $0) }
        self.bugs = bugs
        self.erasureDice = Dice(seed: ~seed)
        self.hasErasures = self.erasureDice.chance(400)
        self.mayLosePower = self.dice.chance(800)
        for name in ["a", "b", "c"] {
            guard let id = StreamID(name) else { preconditionFailure("\(name) is a stream's name") }
            let description = StreamDescription(
                id: id, source: "/log/\(name)", environment: "prod", bundle: "com.example.shop", format: .ndjson,
                timeMember: "time", nameMember: "name")
            self.streams.append(Stream(description: description))
        }
    }

    private mutating func live() {
        let errorPerMille = self.dice.pick([0, 0, 5])
        let syncErrorPerMille = self.dice.pick([0, 0, 60])
        let shortWritePerMille = self.dice.pick([0, 150])
        for number in 0..<self.dice.int(2...5) {
            self.trace?.note("process \(number + 1)")
            self.disk.errorPerMille = errorPerMille
            self.disk.syncErrorPerMille = syncErrorPerMille
            self.disk.shortWritePerMille = shortWritePerMille
            let files = self.disk.files(
                bugs: self.bugs, dyingIn: self.dice.chance(800) ? self.dice.int(1...150) : nil)
            // An error ends the process, as a receiver that cannot start ends; the next one begins over what is there.
            do throws(FileSystemError) {
                try self.serve(files)
            } catch {
                self.trace?.note("it ends: \(error)")
            }
            self.end(files)
            if self.violation != nil { return }
            guard self.hasErasures else { continue }
            let eraser = self.filesOfEraser(dyingIn: self.erasureDice.chance(500) ? 1...120 : nil)
            self.eraseSomebody(eraser)
            self.end(eraser)
            if self.violation != nil { return }
        }
        self.disk.recover()
        for _ in 0..<2 {
            self.trace?.note("a process on a disk without faults")
            let files = self.disk.files(bugs: self.bugs)
            do throws(FileSystemError) {
                try self.settle(files)
            } catch {
                self.violation = self.violation ?? "a start fails on a disk without faults: \(error)"
            }
            files.die()
            self.trace?.noteDisk()
            if self.mayLosePower { self.cutPower() }
            self.compare()
            if self.violation != nil { return }
        }
    }

    private func end(_ files: FaultyFiles) {
        files.die()
        self.trace?.noteDisk()
        if self.mayLosePower, self.dice.chance(500) {
            self.cutPower()
        } else if self.dice.chance(200) {
            self.trace?.note("the kernel writes everything back")
            self.disk.memory.writeBack()
        }
    }

    private func cutPower() {
        self.disk.cutPower()
        self.trace?.note("the power fails")
        self.trace?.noteDisk()
    }

    // MARK: One process

    private mutating func open(_ data: DataDirectory<FaultyFiles>) throws(FileSystemError) -> Journal<FaultyFiles> {
        try data.create()
        var journal = try data.openJournal(awake: .simulated(1))
        let seed = StartSeed(
            id: self.dice.next(), incarnation: Incarnation(self.dice.next(), self.dice.next()))
        try journal.begin(seed, isLossy: false, at: self.clock.wallTime())
        for index in self.streams.indices {
            let stream = self.streams[index]
            let name = stream.description.name
            _ = try journal.wake(stream.description)
            let position = Int(journal.position(of: name).rawValue)
            if position < stream.acknowledged {
                self.violation =
                    "stream \(stream.description.id): acknowledged to \(stream.acknowledged), at \(position)"
            } else if position > stream.bytes.count {
                self.violation = "stream \(stream.description.id): \(stream.bytes.count) bytes sent, at \(position)"
            } else if journal.proof(of: name) != stream.proof(at: position) {
                self.violation = "stream \(name): the proof at \(position) is not of the bytes that were sent"
            } else {
                // The receiver has said where it stands: that is an acknowledgement, and sending continues from there.
                self.streams[index].bytes.removeLast(stream.bytes.count - position)
                self.streams[index].acknowledged = position
            }
        }
        return journal
    }

    private mutating func serve(_ files: FaultyFiles) throws(FileSystemError) {
        let data = DataDirectory(root: "/data", files: files)
        try self.finishErasures(in: data)
        var journal = try self.open(data)
        if self.violation != nil { return }
        var archive = try ArchiveProjection(data: data, zone: .utc)
        var run = ProjectionRun(journalDirectory: data.journal, files: files)
        var position = try self.recover(&archive)
        for _ in 0..<self.dice.int(1...12) {
            for _ in 0..<self.dice.int(1...3) { try self.stageBatch(in: &journal) }
            try self.commit(&journal, files)
            if self.dice.chance(600) {
                position = try run.advance(&archive, from: position, upTo: journal.end, batchCountMax: 3)
                self.trace?.note("projected up to \(position)")
                if self.dice.chance(400) {
                    let isSealing = self.dice.chance(300)
                    try archive.checkpoint(
                        at: position, sealing: isSealing ? .everything(now: self.clock.wallTime()) : nil)
                    self.trace?.note("checkpoint at \(position)\(isSealing ? ", which begins seals" : "")")
                }
            }
            guard archive.isSealing, self.dice.chance(600) else { continue }
            try archive.continueSealing()
            self.trace?.note("a step of sealing")
        }
    }

    private func recover(
        _ archive: inout ArchiveProjection<FaultyFiles>
    ) throws(FileSystemError) -> JournalPosition {
        let recovery = try archive.recover()
        self.trace?.note("recovered at \(recovery.position)\(recovery.report.isEmpty ? "" : "; ")\(recovery.report)")
        return recovery.position
    }

    private mutating func stageBatch(in journal: inout Journal<FaultyFiles>) throws(FileSystemError) {
        let index = self.dice.int(0..<self.streams.count)
        _ = try journal.wake(self.streams[index].description)
        let start = self.streams[index].bytes.count
        let batchLineCount = self.dice.int(1...5)
        for _ in 0..<batchLineCount {
            self.lineCount += 1
            let day = self.dice.int(18...21)
            // Some are no events, and go to quarantine.
            let head = self.dice.chance(900) ? "{\"time\":\"2026-11-\(day)T09:00:00.000Z\",\"name\":\"x\"," : "["
            let user = self.hasErasures ? self.user() : ""
            let filler = String(repeating: "y", count: self.dice.int(0...200))
            let line = "\(head)\(user)\"n\":\(self.lineCount),\"f\":\"\(filler)\"}\n"
            self.streams[index].bytes.append(contentsOf: line.utf8)
        }
        let raw = Array(self.streams[index].bytes[start...])
        let wire = self.deflated(raw)
        let id = self.streams[index].description.id
        var header = BatchHeader(
            stream: StreamNumber(1), offset: StreamOffset(UInt64(start)), rawByteCount: raw.count,
            lineCount: batchLineCount, wireByteCount: wire.count, checksum: 0)
        header.checksum = FrameChecksum.checksum(of: header.checksummedText(id: id), wire.bytes)
        let entry = JournalEntry.batch(header, payload: wire, raw: raw.withUnsafeBytes { SharedBytes($0) })
        _ = try journal.wake(self.streams[index].description)
        let result = journal.stage(entry, of: self.streams[index].description)
        if result != .staged {
            self.violation = self.violation ?? "a batch where its stream ends was answered \(result)"
        }
    }

    private mutating func deflated(_ raw: [UInt8]) -> SharedBytes {
        let output = UnsafeMutableRawBufferPointer.allocate(
            byteCount: self.deflater.byteCountMax(of: raw.count), alignment: 16)
        defer { output.deallocate() }
        let count = raw.withUnsafeBytes { self.deflater.deflate($0, into: output) }
        let builder = SharedBytesBuilder(capacity: count)
        builder.append(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(output)[..<count]))
        return builder.finish()
    }

    /// As the committer does it: what the disk refuses is tried again, and acknowledged only once it is taken.
    private mutating func commit(
        _ journal: inout Journal<FaultyFiles>, _ files: FaultyFiles
    ) throws(FileSystemError) {
        for attempt in 1... {
            do throws(FileSystemError) {
                _ = try journal.commit(at: self.clock.wallTime())
                break
            } catch {
                if files.isStopped || attempt == 5 { throw error }
            }
        }
        guard !files.isStopped else { return }
        for index in self.streams.indices {
            // A stream that came to rest is where it was.
            let position = Int(journal.position(of: self.streams[index].description.name).rawValue)
            self.streams[index].acknowledged = max(self.streams[index].acknowledged, position)
        }
        self.trace?.note("the journal has \(self.lineCount) lines and ends at \(journal.end)")
    }

    // MARK: The end

    private mutating func settle(_ files: FaultyFiles) throws(FileSystemError) {
        let data = DataDirectory(root: "/data", files: files)
        try self.finishErasures(in: data)
        let journal = try self.open(data)
        if self.violation != nil { return }
        var archive = try ArchiveProjection(data: data, zone: .utc)
        var run = ProjectionRun(journalDirectory: data.journal, files: files)
        var position = try self.recover(&archive)
        while position < journal.end { position = try run.advance(&archive, from: position, upTo: journal.end) }
        try archive.checkpoint(at: journal.end)
        while archive.isSealing { try archive.continueSealing() }
        let damages = run.takeDamages() + journal.recovery.damages
        if let damage = damages.first {
            self.violation = self.violation ?? "nothing was damaged, but the journal reports \(damage)"
        }
        for person in self.erasedPeople.sorted() { self.completeErasure(of: person) }
    }

    private mutating func compare() {
        var counts: [ArraySlice<UInt8>: Int] = [:]
        for (_, bytes) in self.disk.storedFiles() {
            for line in bytes.split(separator: 0x0A) { counts[line, default: 0] += 1 }
        }
        for stream in self.streams {
            for line in stream.bytes[..<stream.acknowledged].split(separator: 0x0A) {
                let count = counts.removeValue(forKey: line) ?? 0
                let text = String(decoding: line.prefix(80), as: UTF8.self)
                let isErased = self.erasedPeople.contains { text.contains(Self.member(of: $0)) }
                guard count != (isErased ? 0 : 1) else { continue }
                let fate = isErased ? "erased, and " : ""
                self.violation = self.violation ?? "\(fate)archived \(count) times: \(text)"
            }
        }
        if let (line, _) = counts.first {
            let text = String(decoding: line.prefix(80), as: UTF8.self)
            self.violation = self.violation ?? "archived, but never acknowledged: \(text)"
        }
    }
}
