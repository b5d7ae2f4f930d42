internal import WaybillCompression
internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTestSupport

/// The life of a data directory that is bounded: archive and export are sealed, delivered and deleted, and the journal is
/// freed, over a disk that fails and through deaths of the process and of the power, from one seed.
///
///     commit ─▶ archived, exported ─▶ sealed ─▶ delivered, part by part ─▶ deleted, with `only: delivered`
///                    └─▶ the journal's oldest segments deleted
///
/// Held at each deletion of archived lines: all of them were delivered. Held at the end: every acknowledged line is in the
/// archive exactly once, or it was deleted after it had been delivered.
package struct RetentionLife: ~Copyable {
    private final class Truth {
        /// The numbers of the events that a provider has.
        var delivered: Set<Int> = []
        /// The numbers of the events in archived files that were deleted.
        var deleted: Set<Int> = []
        var acknowledged: Set<Int> = []
        var violation: String?
    }

    private let dice: Dice
    private let clock: SimulatedClock
    private let disk: SimulatedDisk
    private let bugs: Set<PlantedBug>
    private let truth = Truth()
    private let description: StreamDescription
    private var bytes: [UInt8] = []
    private var lineCount = 0
    private var deflater = Deflater(level: 1)

    /// Lives a life.
    ///
    /// - Returns: the promise that was broken; `nil` when all were kept.
    package static func run(seed: UInt64, bugs: Set<PlantedBug> = []) -> String? {
        var life = RetentionLife(seed: seed, bugs: bugs)
        life.live()
        return life.truth.violation
    }

    private init(seed: UInt64, bugs: Set<PlantedBug>) {
        self.dice = Dice(seed: seed)
        self.clock = SimulatedClock(Schedule(), tick: .milliseconds(1))
        self.disk = SimulatedDisk(self.dice, self.clock)
        self.bugs = bugs
        guard let id = StreamID("a") else { preconditionFailure("a is a stream's name") }
        self.description = StreamDescription(
            id: id, source: "/spool/a.ndjson", environment: "prod", bundle: "com.example.shop", format: .waybill)
    }

    private mutating func live() {
        let errorPerMille = self.dice.pick([0, 0, 4])
        for _ in 0..<self.dice.int(2...5) {
            self.disk.errorPerMille = errorPerMille
            let files = self.files(dyingIn: self.dice.chance(700) ? self.dice.int(20...400) : nil)
            // An error ends the process, as a receiver that cannot start ends; the next one begins over what is there.
            do throws(FileSystemError) { try self.serve(files) } catch {}
            files.die()
            if self.dice.chance(400) { self.disk.cutPower() }
            if self.truth.violation != nil { return }
        }
        self.disk.recover()
        let files = self.files(dyingIn: nil)
        do throws(FileSystemError) {
            try self.serve(files, isLast: true)
        } catch {
            self.violate("a start fails on a disk without faults: \(error)")
        }
        files.die()
        self.compare()
    }

    private func violate(_ text: String) {
        self.truth.violation = self.truth.violation ?? text
    }

    /// The files of a process; what it deletes of the archive is judged first.
    private func files(dyingIn callCount: Int?) -> FaultyFiles {
        let (truth, memory) = (self.truth, self.disk.memory)
        return self.disk.files(bugs: self.bugs, dyingIn: callCount) { path in
            // A start removes what an interrupted seal has written, and makes it again from the lines next to it.
            guard path.hasPrefix("/data/archive/"), path.hasSuffix(".ndjson.gz"), let bytes = memory.bytes(of: path),
                memory.bytes(of: String(path.dropLast(3))) == nil
            else { return }
            let numbers = Set(Self.numbers(in: SimulatedDisk.inflate(bytes)))
            let open = numbers.subtracting(truth.delivered)
            if let number = open.min() {
                truth.violation = truth.violation ?? "\(path) is deleted, and event \(number) was not delivered"
            }
            truth.deleted.formUnion(numbers)
        }
    }

    // MARK: One process

    /// Days are old enough to be sealed and deleted.
    private var now: WallTime { WallTime(milliseconds: 1_796_000_000_000) }

    private mutating func serve(_ files: FaultyFiles, isLast: Bool = false) throws(FileSystemError) {
        let data = DataDirectory(root: "/data", files: files)
        try data.create()
        var journal = try data.openJournal(segmentByteCountMax: 2000)
        let seed = StartSeed(id: self.dice.next(), incarnation: Incarnation(self.dice.next(), self.dice.next()))
        try journal.begin(seed, isLossy: false, at: self.clock.wallTime())
        self.bytes.removeLast(self.bytes.count - Int(journal.position(of: self.description.name).rawValue))
        self.acknowledge()
        var archive = try ArchiveProjection(data: data, zone: .utc)
        var export = try ExportProjection.live(ExportOptions(provider: .mixpanel), data: data)
        var archiveRun = ProjectionRun(journalDirectory: data.journal, files: files)
        var exportRun = ProjectionRun(journalDirectory: data.journal, files: files)
        var archived = try archive.recover().position
        var exported = try export.recover().position
        var checkpoints = (archive: archived, export: exported)
        for _ in 0..<(isLast ? 1 : self.dice.int(3...14)) {
            if !isLast {
                for _ in 0..<self.dice.int(1...3) { self.stageBatch(in: &journal) }
                _ = try journal.commit(at: self.clock.wallTime())
                self.acknowledge()
            }
            if isLast || self.dice.chance(600) {
                archived = try archiveRun.advance(&archive, from: archived, upTo: journal.end)
                try Self.settle(&archive, at: archived, isSealing: self.dice.chance(500), self.now)
                checkpoints.archive = archived
            }
            // It often stands still.
            if isLast || self.dice.chance(300) {
                exported = try exportRun.advance(&export, from: exported, upTo: journal.end)
                try Self.settle(&export, at: exported, isSealing: self.dice.chance(500), self.now)
                checkpoints.export = exported
            }
            if self.dice.chance(500) { self.deliver() }
            if self.dice.chance(500), checkpoints.archive == archived { try self.retire(&archive) }
            if self.dice.chance(300), checkpoints.export == exported { try self.retire(&export) }
            let read = min(checkpoints.archive, checkpoints.export)
            let required = self.bugs.contains(.freeUnarchived) ? journal.end : read
            guard self.dice.chance(400) else { continue }
            let limit = UnreadJournalLimit(byteCountMax: 2000)
            while try journal.freeUnread(before: required, beyond: limit, now: self.now) != nil {}
        }
    }

    private static func settle<P: Projection & ~Copyable>(
        _ projection: inout P, at position: JournalPosition, isSealing: Bool, _ now: WallTime
    ) throws(FileSystemError) {
        try projection.checkpoint(at: position, sealing: isSealing ? .everything(now: now) : nil)
        while projection.isSealing { try projection.continueSealing() }
    }

    private func retire<P: Projection & ~Copyable>(_ projection: inout P) throws(FileSystemError) {
        var policy = RetentionPolicy()
        policy.dayCountMax = 1
        policy.condition = self.bugs.contains(.deleteUndelivered) ? nil : .delivered
        policy.sentExports = ["mixpanel"]
        _ = try projection.retire(policy, now: self.now)
    }

    private func acknowledge() {
        self.truth.acknowledged = Set(Self.numbers(in: self.bytes))
    }

    // MARK: Events

    private mutating func stageBatch(in journal: inout Journal<FaultyFiles>) {
        let start = self.bytes.count
        let batchLineCount = self.dice.int(1...4)
        for _ in 0..<batchLineCount {
            self.lineCount += 1
            let digits = Hexadecimal.text(UInt64(self.lineCount), digitCount: 12)
            self.bytes +=
                """
                {"v":1,"id":"01939a3e-0000-7000-8000-\(digits)","ts":"2026-11-\(self.dice.int(18...21))T09:00:00.000Z",\
                "kind":"event","name":"n","env":"prod","bundle":"com.example.shop","anon":"a"}

                """.utf8
        }
        let raw = Array(self.bytes[start...])
        let wire = raw.withUnsafeBytes { raw in
            SharedBytes(capacity: self.deflater.byteCountMax(of: raw.count)) { self.deflater.deflate(raw, into: $0) }
        }
        var header = BatchHeader(
            stream: StreamNumber(1), offset: StreamOffset(UInt64(start)), rawByteCount: raw.count,
            lineCount: batchLineCount, wireByteCount: wire.count, checksum: 0)
        header.checksum = FrameChecksum.checksum(
            of: header.checksummedText(id: self.description.id), wire.bytes)
        let entry = JournalEntry.batch(header, payload: wire, raw: raw.withUnsafeBytes { SharedBytes($0) })
        if journal.stage(entry, of: self.description) != .staged {
            self.violate("a batch where its stream ends is refused")
        }
    }

    /// The numbers in the ids of events, or of `.ids` files.
    private static func numbers(in bytes: some Sequence<UInt8>) -> [Int] {
        let text = String(decoding: Array(bytes), as: UTF8.self)
        return text.split(separator: "01939a3e-0000-7000-8000-").compactMap { Int($0.prefix(12), radix: 16) }
    }

    /// Some closed parts are sent, as `waybill deliver` records it.
    private func deliver() {
        for (path, bytes) in self.disk.memory.files(below: "/data/exports") where path.hasSuffix(".manifest.json") {
            guard self.dice.chance(600), let manifest = PartManifest(json: bytes) else { continue }
            let stem = String(path.dropLast(".manifest.json".utf8.count))
            self.truth.delivered.formUnion(Self.numbers(in: self.disk.memory.bytes(of: stem + ".ids") ?? []))
            self.disk.memory.place(stem + ".delivered", Array("\(manifest.sha256)\n".utf8))
        }
    }

    // MARK: The end

    private func compare() {
        var counts: [Int: Int] = [:]
        for (_, bytes) in self.disk.storedFiles() {
            for number in Self.numbers(in: bytes) { counts[number, default: 0] += 1 }
        }
        for number in self.truth.acknowledged.sorted() {
            let count = counts[number] ?? 0
            let expected = self.truth.deleted.contains(number) ? 0 : 1
            guard count != expected else { continue }
            return self.violate("event \(number) is archived \(count) times, not \(expected)")
        }
    }
}
