import Testing
import WaybillData
import WaybillFleet
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

/// A batch as a journal has it.
struct HeldBatch: Hashable {
    let stream: String
    let offset: UInt64
    let checksum: UInt32
}

/// A receiver's disk, the bucket that its journal goes to, and the disk that it is restored on.
final class RestoreBench {
    let store: MemoryStore
    var disk = FaultyFiles()
    private var generator: SeededGenerator
    private var groupCount: Int64 = 0
    private var startCount: UInt64 = 0

    static let data = "/data"

    init(seed: UInt64, store: MemoryStore = MemoryStore()) throws {
        self.generator = SeededGenerator(seed: seed ^ 0x0E5702E)
        self.store = store
        try self.prepare(self.disk)
    }

    private func prepare(_ disk: FaultyFiles) throws {
        try disk.createDirectories(Self.data + "/journal")
        try disk.createDirectories(Self.data + "/state")
    }

    /// Opens the journal and begins a start.
    func start(on disk: FaultyFiles? = nil) throws -> Journal<FaultyFiles> {
        let disk = disk ?? self.disk
        var journal = try Journal(directory: Self.data + "/journal", files: disk, segmentByteCountMax: 6_000)
        self.startCount += 1
        let seed = StartSeed(id: self.startCount, incarnation: Incarnation(self.startCount, 7))
        try journal.begin(seed, isLossy: false, at: self.time)
        return journal
    }

    func uploader(
        of journal: borrowing Journal<FaultyFiles>, on disk: FaultyFiles? = nil, seed: UInt64 = 1
    ) throws -> Uploader<FaultyFiles> {
        try Uploader(
            receiver: "a", fleet: "f1", journalDirectory: Self.data + "/journal", end: journal.end,
            statePath: UploadState.path(in: Self.data), pieceByteCount: 1_500, files: disk ?? self.disk,
            store: self.store, SeededGenerator(seed: seed))
    }

    private var time: WallTime { WallTime(milliseconds: 1_795_165_200_000 + self.groupCount * 1000) }

    /// Commits groups with batches of random streams.
    func write(_ groupCount: Int, to journal: inout Journal<FaultyFiles>, streams: Range<Int> = 0..<6) throws {
        for _ in 0..<groupCount {
            for _ in 0..<Int.random(in: 1...3, using: &self.generator) {
                let stream = Int.random(in: streams, using: &self.generator)
                let count = Int.random(in: 1...900, using: &self.generator)
                let line = (0..<count).map { _ in UInt8.random(in: 0x61...0x7A, using: &self.generator) } + [0x0A]
                try journal.stage(line, of: stream)
            }
            self.groupCount += 1
            _ = try journal.commit(at: self.time)
        }
    }

    /// A life of several starts, all of it in the bucket.
    func live(_ starts: Int, groups: Int = 20) throws -> JournalPosition {
        var end = JournalPosition(0)
        for number in 0..<starts {
            var journal = try self.start()
            try self.write(groups, to: &journal)
            var uploader = try self.uploader(of: journal, seed: UInt64(number + 1))
            try uploader.uploadAll(upTo: journal.end)
            end = journal.end
        }
        return end
    }

    // MARK: Restoring

    func restorer(
        on disk: FaultyFiles, chains: [ChainName] = [], receiver: String = "a", fleet: String = "f1"
    ) -> Restorer<FaultyFiles> {
        var setup = Restorer<FaultyFiles>.Setup(receiver: receiver, fleet: fleet, dataDirectory: Self.data)
        setup.chains = chains
        return Restorer(
            setup, store: self.store, files: disk, seed: StartSeed(id: 99, incarnation: Incarnation(99, 99)))
    }

    func restore(on disk: FaultyFiles, chains: [ChainName] = []) throws -> RestoreReport {
        var restorer = self.restorer(on: disk, chains: chains)
        return try restorer.run()
    }

    /// Whether a restore has done all of its work: one that died after the last step is over.
    static func isRestored(_ disk: FaultyFiles) throws -> Bool {
        guard try disk.status(at: self.data) != nil, try !RestoreMark.isPresent(in: self.data, disk) else {
            return false
        }
        return try RestoredDays.read(in: DataDirectory(root: self.data, files: disk)) != nil
    }

    /// The segments below a position, by name.
    static func segments(_ disk: FaultyFiles, before end: JournalPosition) throws -> [String: [UInt8]] {
        var segments: [String: [UInt8]] = [:]
        for name in try disk.list(Self.data + "/journal") where name.hasSuffix(".journal") {
            guard let base = JournalPath.position(ofSegment: name), base < end else { continue }
            segments[name] = disk.bytes(of: Self.data + "/journal/" + name)
        }
        return segments
    }

    /// What a copy of a receiver's directory has.
    static func copy(_ disk: FaultyFiles) throws -> [String: [UInt8]] {
        var found: [String: [UInt8]] = [:]
        for name in try disk.list(Self.data + "/journal") {
            found[Self.data + "/journal/" + name] = disk.bytes(of: Self.data + "/journal/" + name)
        }
        found[UploadState.path(in: Self.data)] = disk.bytes(of: UploadState.path(in: Self.data))
        return found
    }

    /// Puts a copy on a disk of its own.
    func putBack(_ copy: [String: [UInt8]]) throws {
        self.disk = FaultyFiles()
        try self.prepare(self.disk)
        for (path, bytes) in copy { self.disk.place(path, bytes) }
    }

    /// Everything below the data directory, by path: of states their entries, and of the lock nothing.
    ///
    /// What a state keeps of its former file is left out if it says the same: a step that is done twice writes it twice.
    static func tree(_ disk: FaultyFiles, _ folder: String = RestoreBench.data) throws -> [String: [UInt8]] {
        var found: [String: [UInt8]] = [:]
        for name in try disk.list(folder) {
            let path = Path.join(folder, name)
            if try disk.status(at: path)?.kind == .directory {
                found.merge(try self.tree(disk, path)) { first, _ in first }
            } else if name.hasSuffix(".state") {
                found[path] = try self.entries(path, disk)
            } else if name.hasSuffix(".state.previous") {
                let former = try self.entries(path, disk)
                let state = String(path.dropLast(".previous".utf8.count))
                if try former != self.entries(state, disk) { found[path] = former }
            } else if name != "lock" {
                found[path] = disk.bytes(of: path)
            }
        }
        return found
    }

    private static func entries(_ path: String, _ disk: FaultyFiles) throws -> [UInt8] {
        let entries = try StateImage.read(path, files: disk)?.entries ?? [:]
        return Array(entries.map { "\($0.key)=\($0.value)" }.sorted().joined(separator: "\n").utf8)
    }

    /// The batches that a reader gets, and the ranges that it steps over.
    static func batches(_ disk: FaultyFiles, from start: JournalPosition = JournalPosition(0)) throws
        -> (batches: [HeldBatch], damages: [JournalDamage])
    {
        let journal = try Journal(directory: Self.data + "/journal", files: disk)
        var reader = JournalReader(directory: Self.data + "/journal", position: start, files: disk)
        var batches: [HeldBatch] = []
        while let record = try reader.next(upTo: journal.end) {
            batches.append(
                HeldBatch(
                    stream: record.description.id.text, offset: record.header.offset.rawValue,
                    checksum: record.header.checksum))
        }
        return (batches, reader.takeDamages())
    }

    /// The bucket's pieces, in order.
    var keys: [String] { self.store.objects.keys.filter { $0.hasSuffix(".wbj") }.sorted() }

    static func position(_ key: String) -> JournalPosition {
        ChainName.position(ofPiece: key.suffix(24)) ?? JournalPosition(-1)
    }
}

extension Uploader where Files == FaultyFiles {
    mutating func uploadAll(upTo end: JournalPosition) throws {
        for _ in 0..<10_000 {
            if try self.step(upTo: end) == .idle, self.stored == end { return }
        }
        Issue.record("the uploader does not come to the end")
    }
}
