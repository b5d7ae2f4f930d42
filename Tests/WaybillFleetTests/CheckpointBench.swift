import Testing
import WaybillCompression
import WaybillData
import WaybillFleet
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

/// Receivers and any number of mergers over a bucket in memory, with clocks that the test sets.
final class CheckpointBench {
    /// A receiver with its disk.
    private final class Receiver {
        var files = FaultyFiles()
        var journal: Journal<FaultyFiles>
        /// How many batches of each stream it has.
        var counts: [Int: Int] = [:]

        init() throws {
            try self.files.createDirectories("/data/journal")
            try self.files.createDirectories("/data/state")
            self.journal = try Journal(directory: "/data/journal", files: self.files, segmentByteCountMax: 20_000)
        }
    }

    let store = MemoryStore(pageCount: 3)
    var now: Int64 = 1_796_000_000_000
    private var receivers: [String: Receiver] = [:]
    private var batches: [Int: [JournalEntry]] = [:]
    private var ends: [Int: Int] = [:]
    private var lineCount = 0

    static let fleet = Incarnation(1, 2)

    /// A disk with the folders of a data directory.
    static func disk() throws -> FaultyFiles {
        let files = FaultyFiles()
        try DataDirectory(root: "/data", files: files).create()
        return files
    }

    private static func description(_ stream: Int) throws -> StreamDescription {
        StreamDescription(
            id: try #require(StreamID("stream-\(stream)")), source: "/\(stream).ndjson", environment: "prod",
            bundle: "com.example.app", format: .waybill)
    }

    /// An app writes lines of a stream; a receiver gets all of the stream that it lacks, and uploads it; six minutes pass.
    func receive(_ stream: Int, by name: String = "a", lines count: Int = 3) throws {
        let receiver = try self.receivers[name] ?? Receiver()
        self.receivers[name] = receiver
        if count > 0 { try self.write(stream, count) }
        let all = self.batches[stream] ?? []
        for entry in all[(receiver.counts[stream] ?? 0)...] {
            #expect(receiver.journal.stage(entry, of: try Self.description(stream)) == .staged)
        }
        receiver.counts[stream] = all.count
        self.now += 360_000
        _ = try receiver.journal.commit(at: WallTime(milliseconds: self.now))
        try self.upload(name)
    }

    private func write(_ stream: Int, _ count: Int) throws {
        var raw: [UInt8] = []
        for _ in 0..<count {
            self.lineCount += 1
            // Little of it can be compressed.
            let filler = (0..<40).map {
                String((self.lineCount &* 2_654_435_761 &+ $0 &* 40_503) & 0xFFFFFF, radix: 36)
            }
            raw += Array("{\"n\":\(self.lineCount),\"f\":\"\(filler.joined())\"}\n".utf8)
        }
        var deflater = Deflater(level: 1)
        let payload = raw.withUnsafeBytes { raw in
            SharedBytes(capacity: deflater.byteCountMax(of: raw.count)) { deflater.deflate(raw, into: $0) }
        }
        let end = self.ends[stream] ?? 0
        var header = BatchHeader(
            stream: StreamNumber(1), offset: StreamOffset(UInt64(end)), rawByteCount: raw.count, lineCount: count,
            wireByteCount: payload.count, checksum: 0)
        header.checksum = FrameChecksum.checksum(
            of: header.checksummedText(id: try Self.description(stream).id), payload.bytes)
        self.batches[stream, default: []].append(
            .batch(header, payload: payload, raw: raw.withUnsafeBytes { SharedBytes($0) }))
        self.ends[stream] = end + raw.count
    }

    /// - Returns: how often another chain was begun.
    @discardableResult
    func upload(_ name: String) throws -> Int {
        let receiver = try #require(self.receivers[name])
        var uploader = try Uploader(
            receiver: name, fleet: "f", journalDirectory: "/data/journal", end: receiver.journal.end,
            statePath: "/data/state/store.state", pieceByteCount: 900, files: receiver.files, store: self.store,
            SeededGenerator(seed: UInt64(self.now)))
        while try uploader.step(upTo: receiver.journal.end) != .idle {}
        return uploader.divergenceCount
    }

    /// A copy of a receiver's disk.
    func copy(_ name: String) throws -> (disk: MemoryDisk, counts: [Int: Int]) {
        let receiver = try #require(self.receivers[name])
        return (receiver.files.memory.copy(), receiver.counts)
    }

    func putBack(_ name: String, _ copy: (disk: MemoryDisk, counts: [Int: Int])) throws {
        let receiver = try #require(self.receivers[name])
        receiver.files = FaultyFiles(copy.disk)
        receiver.journal = try Journal(
            directory: "/data/journal", files: receiver.files, segmentByteCountMax: 20_000)
        receiver.counts = copy.counts
    }

    func merger(
        _ name: String, _ files: FaultyFiles,
        standing: @escaping @Sendable (String) -> ReaderStanding = { _ in .none }
    ) throws -> Merger<FaultyFiles> {
        var setup = Merger<FaultyFiles>.Setup(
            name: name, fleet: Self.fleet, journalDirectory: "/data/journal", statePath: "/data/state/merge.state")
        setup.segmentByteCountMax = 3_000
        setup.discoveryInterval = .zero
        setup.placeCountMax = 12
        setup.placeByteCountMax = 5_000
        setup.standing = standing
        return try Merger(setup, files: files, store: self.store)
    }

    /// Merges everything; every barrier is passed by an archive that has one file.
    func merge(_ merger: inout Merger<FaultyFiles>, _ files: FaultyFiles) throws {
        while case .applied = try merger.step(
            now: WallTime(milliseconds: self.now), MonotonicTime(nanoseconds: self.now * 1_000_000))
        {}
        try self.project(upTo: merger.end, files)
    }

    static var dayPath: String { "archive/env=prod/bundle=com.example.app/date=2026-11-20" }

    /// An archive's state, and the file of a day that continues behind its checkpoint.
    private func project(upTo end: JournalPosition, _ files: FaultyFiles) throws {
        let folder = "/data/" + Self.dayPath
        let key = "file:\(Self.dayPath)/late-00001.ndjson"
        try files.createDirectories(folder)
        var state = try StateStore(path: "/data/state/archive.state", files: files)
        try state.settle()
        let open = try files.open(folder + "/late-00001.ndjson", .append)
        defer { files.close(open) }
        try files.truncate(open, to: state.entries[key].flatMap { Int($0) } ?? 0)
        try files.writeAll(open, Array("line at \(end.rawValue)\n".utf8))
        try files.synchronize(open)
        try files.synchronizeDirectory(folder)
        try state.commit(["position": String(end.rawValue), key: String(try files.status(open).byteCount)])
        // What a projection wrote after its checkpoint is not the checkpoint's.
        try files.writeAll(open, Array("torn".utf8))
    }

    /// Takes what a checkpoint copies, at the merger's last barrier.
    func capture(_ merger: borrowing Merger<FaultyFiles>, _ files: FaultyFiles) throws -> CheckpointCapture {
        let barrier = SealBarrier(
            round: merger.round, position: merger.end, through: merger.through, now: WallTime(milliseconds: self.now))
        return try #require(
            try CheckpointCapture(merger.facts(at: barrier), root: "/data", files: files) { name, entries in
                name != "archive.state" || entries["position"] == String(merger.end.rawValue)
            })
    }

    @discardableResult
    func make(
        _ merger: borrowing Merger<FaultyFiles>, _ files: FaultyFiles, seed: UInt64 = 1
    ) throws -> CheckpointMaker<FaultyFiles>.Outcome {
        let capture = try self.capture(merger, files)
        let maker = CheckpointMaker(
            capture, merger: "m", fleet: Self.fleet.text, files: files, store: self.store, sharedByteCountMax: 200,
            packByteCountMax: 4_000, SeededGenerator(seed: seed))
        return try maker.run(at: WallTime(milliseconds: self.now))
    }

    func restore(_ files: FaultyFiles) throws -> CheckpointRestore<FaultyFiles>.Outcome {
        var restore = CheckpointRestore(root: "/data", fleet: Self.fleet.text, files: files, store: self.store)
        return try restore.run()
    }

    func clean(age: Duration = .zero) throws -> CheckpointCleaner.Outcome {
        try CheckpointCleaner(fleet: Self.fleet.text, store: self.store, age: age).run(
            at: WallTime(milliseconds: self.now))
    }

    /// What a checkpoint has of a data directory.
    static func tree(_ files: FaultyFiles) -> [String: [UInt8]] {
        files.tree("/data").filter { $0.key != "/data/state/lock" && !$0.key.hasPrefix("/data/checkpoint/") }
    }

    /// The merged journal's bytes from a position on.
    static func journal(_ files: FaultyFiles, from start: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        for name in files.names(in: "/data/journal").sorted() {
            guard let base = JournalPath.position(ofSegment: name) else { continue }
            let segment = files.bytes(of: "/data/journal/" + name) ?? []
            bytes += segment.dropFirst(max(0, start - base.rawValue))
        }
        return bytes
    }
}
