internal import WaybillCompression
internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillReplay
internal import WaybillSystem
internal import WaybillTestSupport

/// An export whose `.ids`, manifests, records or checkpoint were damaged while no receiver ran: it starts, continues, and
/// is read by `waybill inspect`, which names what a closed part lacks.
enum ExportFilesFuzz {
    private static let directory = "exports/csv/env=prod/date=2026-11-20"
    private static let statePath = "/data/state/export-csv.state"

    @Sendable static func run(_ input: [UInt8]) throws {
        var input = FuzzInput(input)
        let disk = FaultyFiles(Self.healthy.memory.copy())
        let data = DataDirectory(root: "/data", files: disk)
        let before = Self.closedIDs(disk)
        while !input.isAtEnd { try Self.damage(disk, &input) }
        try Self.inspect(data, lacks: before != Self.closedIDs(disk))
        try Self.start(data)
        // A second start finds nothing more to fix.
        disk.kill()
        let tree = disk.tree("/data/exports")
        try Self.start(data)
        try require(disk.tree("/data/exports") == tree, "a second start changes the export")
    }

    // MARK: A healthy directory

    /// One closed part of four events and one open part of two, in one day.
    private static let healthy: FaultyFiles = {
        do {
            return try Self.made()
        } catch {
            preconditionFailure("a disk without faults: \(error)")
        }
    }()

    private static func made() throws -> FaultyFiles {
        let disk = FaultyFiles()
        let data = DataDirectory(root: "/data", files: disk)
        try data.create()
        var journal = try Journal(directory: data.journal, files: disk)
        var ends: [JournalPosition] = []
        var offset = 0
        for numbers in [0..<4, 4..<6] {
            let raw = Array(numbers.map(Self.line).joined().utf8)
            try Self.commit(raw, at: offset, to: &journal)
            offset += raw.count
            ends.append(journal.end)
        }
        var archive = try ArchiveProjection(data: data, zone: .utc)
        try Self.project(&archive, data, to: ends)
        var export = try ExportProjection.live(ExportOptions(provider: .csv), data: data)
        try Self.project(&export, data, to: [ends[0]])
        try export.closeAll()
        try export.checkpoint(at: ends[0])
        try Self.project(&export, data, to: [ends[1]])
        return disk
    }

    /// Continues from the last checkpoint to each of `ends` in turn, with a checkpoint at it.
    private static func project(
        _ projection: inout some Projection & ~Copyable, _ data: DataDirectory<FaultyFiles>,
        to ends: [JournalPosition]
    ) throws {
        var position = try projection.recover().position
        var run = ProjectionRun(journalDirectory: data.journal, files: data.files)
        for end in ends {
            while position < end { position = try run.advance(&projection, from: position, upTo: end) }
            try projection.checkpoint(at: position)
        }
        while projection.isSealing { try projection.continueSealing() }
    }

    private static func line(_ number: Int) -> String {
        "{\"v\":1,\"id\":\"01939a3e-0000-7000-8000-00000000000\(number)\",\"ts\":\"2026-11-20T09:00:00.000Z\","
            + "\"kind\":\"event\",\"name\":\"n\",\"env\":\"prod\",\"bundle\":\"b\",\"anon\":\"a\"}\n"
    }

    private static func commit(_ raw: [UInt8], at offset: Int, to journal: inout Journal<FaultyFiles>) throws {
        let description = SmallMessages.description(1)
        var deflater = Deflater(level: 1)
        let payload = raw.withUnsafeBytes { raw in
            SharedBytes(capacity: deflater.byteCountMax(of: raw.count)) { deflater.deflate(raw, into: $0) }
        }
        var header = BatchHeader(
            stream: StreamNumber(1), offset: StreamOffset(UInt64(offset)), rawByteCount: raw.count,
            lineCount: raw.count { $0 == 0x0A }, wireByteCount: payload.count, checksum: 0)
        header.checksum = FrameChecksum.checksum(of: header.checksummedText(id: description.id), payload.bytes)
        let copy = SharedBytes(capacity: raw.count) { buffer in
            buffer.copyBytes(from: raw)
            return raw.count
        }
        try require(
            journal.stage(.batch(header, payload: payload, raw: copy), of: description) == .staged, "not staged")
        _ = try journal.commit(at: WallTime(milliseconds: 1_795_176_000_000))
    }

    // MARK: Damage

    private static func damage(_ disk: FaultyFiles, _ input: inout FuzzInput) throws {
        if input.number(below: 3) == 0 { return try Self.damageCheckpoint(disk, &input) }
        let paths = disk.tree("/data/exports").keys.sorted()
        guard !paths.isEmpty else { return }
        let path = paths[input.number(below: paths.count)]
        var bytes = disk.bytes(of: path) ?? []
        let start = input.number(below: max(1, min(bytes.count, 65_536)))
        let end = min(bytes.count, start + 1 + input.number(below: 60))
        switch input.number(below: 9) {
        case 0 where !bytes.isEmpty: bytes[start] ^= 1 << (input.byte() & 7)
        case 1 where !bytes.isEmpty: bytes[start] = input.byte()
        case 2: bytes.removeSubrange(start...)
        case 3: for index in start..<end { bytes[index] = 0 }
        case 4: bytes.insert(contentsOf: bytes[start..<end], at: end)
        case 5: bytes.removeSubrange(start..<end)
        case 6: bytes.insert(contentsOf: input.bytes(1 + input.number(below: 20)), at: start)
        case 7:
            try disk.unlink(path)
            return
        default:
            let names = ["held", ".generation", "part-99999.ids", "part-00002.manifest.json", "dead", "notes.txt"]
            let name = names[input.number(below: names.count)]
            try disk.createDirectories(Path.join("/data", Self.directory))
            disk.place(Path.join("/data", "\(Self.directory)/\(name)"), Array(bytes[start..<end]))
            return
        }
        disk.place(path, bytes)
    }

    /// Says something else under a good checksum, as another version or a person might.
    private static func damageCheckpoint(_ disk: FaultyFiles, _ input: inout FuzzInput) throws {
        var store = try StateStore(path: Self.statePath, files: disk)
        let keys = store.entries.keys.sorted()
        guard !keys.isEmpty else { return }
        let key = keys[input.number(below: keys.count)]
        var value = Array((store.entries[key] ?? "").utf8)
        let start = input.number(below: max(1, value.count))
        let end = min(value.count, start + input.number(below: 12))
        switch input.number(below: 6) {
        case 0:
            let removal: [String: String?] = [key: nil]
            return try store.commit(removal)
        case 1: value.replaceSubrange(start..<end, with: "9223372036854775807".utf8)
        case 2: value.replaceSubrange(start..<end, with: "-9".utf8)
        case 3: value.removeSubrange(start..<end)
        case 4: value.insert(contentsOf: input.bytes(1 + input.number(below: 8)).filter { $0 > 0x20 }, at: start)
        default: value = []
        }
        try store.commit([key: String(decoding: value, as: UTF8.self)])
    }

    // MARK: Judging

    /// The events that the closed part's `.ids` name.
    private static func closedIDs(_ disk: FaultyFiles) -> [[UInt8]] {
        let bytes = disk.bytes(of: "/data/\(Self.directory)/part-00000.ids") ?? []
        return bytes.split { $0 == 0x0A || $0 == 0x2C }.map(Array.init).sorted { $0.lexicographicallyPrecedes($1) }
    }

    private static func inspect(_ data: DataDirectory<FaultyFiles>, lacks: Bool) throws {
        var verifier = DataVerifier(data: data)
        let report = verifier.verify()
        // With options that no one knows, an export cannot be compared with the archive: a note says so.
        let isTold = !report.isWhole || report.notes.contains { $0.contains("csv") }
        if lacks { try require(isTold, "other events in a closed part, and no one says so") }
        var itemCount = 0
        var inspector = Inspector(files: data.files, limits: .none) { _ in itemCount += 1 }
        inspector.inspect("/data")
        try require(itemCount > 0, "an inspection without a word")
        try require(data.files.memory.openDescriptorCount == 0, "left open: \(data.files.memory.openDescriptorCount)")
    }

    private static func start(_ data: DataDirectory<FaultyFiles>) throws {
        var export = try ExportProjection.live(ExportOptions(provider: .csv), data: data)
        let end = try Journal(directory: data.journal, files: data.files).end
        try Self.project(&export, data, to: [end])
    }
}
