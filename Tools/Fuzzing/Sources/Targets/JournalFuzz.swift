internal import WaybillCompression
internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTestSupport

/// A journal whose folder was damaged while no receiver ran: it opens, invents nothing, repeats nothing, and says
/// what is missing.
enum JournalFuzz {
    struct Batch: Hashable {
        let position: Int
        let id: String
        let offset: UInt64
        let rawByteCount: Int
        let payload: [UInt8]
        let receivedAt: Int64

        /// What its own checksum vouches for; bytes put in before it move it, and a damaged mark takes its time.
        var vouchedFor: Batch {
            Batch(
                position: 0, id: self.id, offset: self.offset, rawByteCount: self.rawByteCount, payload: self.payload,
                receivedAt: 0)
        }
    }

    private static let directory = "/journal"

    /// What was acknowledged.
    private struct Written {
        var batches: [Batch] = []
        var durable: [StreamName: UInt64] = [:]
        var sealed: Set<StreamName> = []
        var end = 0
        var clock: Int64 = 1_790_000_000_000
        /// Whether bytes were put in or taken out since, so that batches may not be where they were.
        var isMoved = false
    }

    @Sendable static func run(_ input: [UInt8]) throws {
        var input = FuzzInput(input)
        let disk = FaultyFiles()
        try disk.createDirectories(Self.directory)
        let segmentByteCountMax = [200, 900, 1 << 20][input.number(below: 3)]
        var written = Written()
        do {
            var journal = try Journal(
                directory: Self.directory, files: disk, segmentByteCountMax: segmentByteCountMax)
            for _ in 0..<(1 + input.number(below: 6)) { try Self.commitGroup(&journal, &written, &input) }
        }
        disk.kill()
        let before = disk.tree(Self.directory)
        while !input.isAtEnd { try Self.damage(disk, &input) }
        let after = disk.tree(Self.directory)
        written.isMoved = before.contains { path, bytes in after[path].map { $0.count != bytes.count } ?? false }
        try Self.judge(disk, written, isIntact: after == before, segmentByteCountMax: segmentByteCountMax)
    }

    /// Any bytes as a segment, alone or behind a group that was written: they are read to their end or to what is broken,
    /// and the journal continues after it.
    ///
    /// The first byte of an input chooses between the two.
    @Sendable static func readAnything(_ input: [UInt8]) throws {
        let disk = FaultyFiles()
        try disk.createDirectories(Self.directory)
        var written = Written()
        if (input.first ?? 0) & 1 == 1 {
            var decisions = FuzzInput([0, 1, 2])
            var journal = try Journal(directory: Self.directory, files: disk)
            try Self.commitGroup(&journal, &written, &decisions)
        }
        let path = JournalPath.segment(JournalPosition(0), in: Self.directory)
        disk.place(path, (disk.bytes(of: path) ?? []) + input.dropFirst())
        var journal = try Journal(directory: Self.directory, files: disk)
        let (batches, _) = try Self.read(disk, upTo: journal.end)
        try require(batches.count <= input.count + 1, "\(batches.count) batches from \(input.count) bytes")
        for (last, next) in zip(batches, batches.dropFirst()) {
            try require(last.position < next.position, "a batch at \(next.position) after \(last.position)")
        }
        try require(batches.starts(with: written.batches), "what was written is lost: \(batches)")
        try Self.judgeGoingOn(&journal, disk, batches, written)
    }

    // MARK: Writing

    private static func commitGroup(
        _ journal: inout Journal<FaultyFiles>, _ written: inout Written, _ input: inout FuzzInput
    ) throws {
        var group: [(entry: JournalEntry, id: StreamID)] = []
        for _ in 0..<(1 + input.number(below: 3)) {
            let description = SmallMessages.description(input.number(below: 3))
            let position = journal.position(of: description.name)
            let entry: JournalEntry
            switch input.number(below: 8) {
            case 0:
                let range = SkippedRange(offset: position, byteCount: 5, reason: .truncated, tail: nil)
                entry = .skip(range ?? { preconditionFailure("a range") }())
            case 1: entry = .seal(length: position)
            default: entry = Self.batch(description.id, position, Self.bytes(&input))
            }
            if journal.stage(entry, of: description) == .staged { group.append((entry, description.id)) }
        }
        guard journal.hasStaged else { return }
        written.clock += 1
        var ranges = try journal.commit(at: WallTime(milliseconds: written.clock))
        written.end = journal.end.rawValue
        for (entry, id) in group {
            let name = StreamName(principal: "", id: id)
            switch entry {
            case .batch(let header, let payload, _):
                written.batches.append(
                    Batch(
                        position: ranges.removeFirst().lowerBound.rawValue, id: id.text,
                        offset: header.offset.rawValue, rawByteCount: header.rawByteCount,
                        payload: Array(payload.bytes), receivedAt: written.clock))
                written.durable[name] = header.end.rawValue
            case .skip(let range): written.durable[name] = range.end.rawValue
            case .seal:
                written.sealed.insert(name)
                written.durable[name, default: 0] += 0
            case .standing: throw Violation("nothing here adopts streams")
            }
        }
    }

    /// Bytes that look like the journal's own lines, and others.
    private static func bytes(_ input: inout FuzzInput) -> [UInt8] {
        let byteCount = 1 + input.number(below: 60)
        switch input.number(below: 4) {
        case 0: return Array("MARK 0 0 00000000\nOPEN 1 {}\nBATCH 1 0 1 1 1 00000000\nx".utf8.prefix(byteCount))
        case 1: return [UInt8](repeating: 0x0A, count: byteCount)
        default: return (0..<byteCount).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ byteCount) }
        }
    }

    private static func batch(_ id: StreamID, _ offset: StreamOffset, _ raw: [UInt8]) -> JournalEntry {
        let payload = Self.stored(raw)
        var header = BatchHeader(
            stream: StreamNumber(1), offset: offset, rawByteCount: raw.count, lineCount: 1,
            wireByteCount: payload.count, checksum: 0)
        return payload.withUnsafeBytes { bytes in
            header.checksum = FrameChecksum.checksum(of: header.checksummedText(id: id), bytes)
            return .batch(header, payload: SharedBytes(bytes), raw: raw.withUnsafeBytes { SharedBytes($0) })
        }
    }

    /// A payload in which the bytes are as they are: one stored block (RFC 1950, RFC 1951).
    private static func stored(_ raw: [UInt8]) -> [UInt8] {
        let sums = raw.reduce((UInt32(1), UInt32(0))) { sums, byte in
            let first = (sums.0 + UInt32(byte)) % 65_521
            return (first, (sums.1 + first) % 65_521)
        }
        let (low, high) = (UInt8(raw.count & 0xFF), UInt8(raw.count >> 8))
        let checksum = sums.1 << 16 | sums.0
        return [0x78, 0x01, 0x01, low, high, ~low, ~high] + raw
            + (0..<4).map { UInt8(truncatingIfNeeded: checksum >> (24 - 8 * $0)) }
    }

    // MARK: Damage

    private static func damage(_ disk: FaultyFiles, _ input: inout FuzzInput) throws {
        let paths = disk.tree(Self.directory).keys.sorted()
        guard !paths.isEmpty else {
            _ = input.rest()
            return
        }
        let path = paths[input.number(below: paths.count)]
        var bytes = disk.bytes(of: path) ?? []
        let start = input.number(below: max(1, min(bytes.count, 65_536)))
        let end = min(bytes.count, start + 1 + input.number(below: 80))
        switch input.number(below: 10) {
        case 0 where !bytes.isEmpty: bytes[start] ^= 1 << (input.byte() & 7)
        case 1 where !bytes.isEmpty: bytes[start] = input.byte()
        case 2: bytes.removeSubrange(start...)
        case 3: for index in start..<end { bytes[index] = 0 }
        case 4: bytes.insert(contentsOf: bytes[start..<end], at: end)
        case 5: bytes.removeSubrange(start..<end)
        case 6: bytes.insert(contentsOf: input.bytes(1 + input.number(below: 20)), at: start)
        case 7: bytes.append(contentsOf: bytes[start..<end])
        case 8:
            try disk.unlink(path)
            return
        default:
            let names = [
                "notes.txt", "00000000000000000001.journal~", "5.torn-1", "x.journal", "+0000000000000000001.journal",
                "-0000000000000000001.journal", "09223372036854775807.journal", "00000000000000000007.journal.torn-1",
            ]
            let name = names[input.number(below: names.count)]
            disk.place(Path.join(Self.directory, name), Array(bytes[start..<end]))
            return
        }
        disk.place(path, bytes)
    }

    // MARK: Judging

    private static func judge(
        _ disk: FaultyFiles, _ written: Written, isIntact: Bool, segmentByteCountMax: Int
    ) throws {
        // What projections have passed; a position is never given out twice.
        var journal = try Journal(
            directory: Self.directory, files: disk, endMin: JournalPosition(written.end),
            segmentByteCountMax: segmentByteCountMax)
        let recovery = journal.recovery
        let end = journal.end
        try require(end.rawValue >= written.end, "the journal continues at \(end), before \(written.end)")
        let (batches, damages) = try Self.read(disk, upTo: journal.end)
        let known = Dictionary(uniqueKeysWithValues: written.batches.enumerated().map { ($1.vouchedFor, $0) })
        let order = batches.map { known[$0.vouchedFor] ?? -1 }
        try require(!order.contains(-1), "a batch that was never written: \(batches)")
        // A whole frame that stands in a file twice has a checksum that holds twice, and is read twice; the mark behind it
        // tells that something is wrong.
        let isDamaged = !damages.isEmpty
        try require(
            zip(order, order.dropFirst()).allSatisfy { $0 < $1 || ($0 == $1 && isDamaged) },
            "repeated, or out of order: \(order)")
        if isIntact {
            try require(
                damages.isEmpty && recovery.damages.isEmpty && recovery.tornByteCount == 0
                    && recovery.setAsidePaths.isEmpty, "an intact journal is called damaged: \(damages) \(recovery)")
            try require(batches == written.batches, "an intact journal holds other batches")
        }
        try Self.judgeTable(journal, written, isIntact: isIntact)
        try Self.judgeGoingOn(&journal, disk, batches, written)
    }

    private static func judgeTable(
        _ journal: borrowing Journal<FaultyFiles>, _ written: Written, isIntact: Bool
    ) throws {
        for (name, standing) in journal.streams {
            // A batch vouches for its stream's id alone; what else a damaged OPEN says is reported as damage.
            let isDamaged = !journal.recovery.damages.isEmpty
            let description = SmallMessages.description(Int(name.id.text.dropFirst(2)) ?? -1)
            try require(standing.description == description || isDamaged, "\(standing)")
            let durable = written.durable[name] ?? 0
            try require(standing.durable.rawValue <= durable, "\(name) stands at \(standing.durable) of \(durable)")
            try require(!standing.isSealed || written.sealed.contains(name), "\(name) was never sealed")
        }
        guard isIntact else { return }
        for (name, durable) in written.durable {
            let standing = journal.streams[name]
            try require(standing?.durable.rawValue == durable, "an intact journal forgot \(name)")
            try require(standing?.isSealed == written.sealed.contains(name), "an intact journal forgot \(name)")
        }
    }

    /// The journal takes more, and a reader finds both, now and after another start.
    private static func judgeGoingOn(
        _ journal: inout Journal<FaultyFiles>, _ disk: FaultyFiles, _ batches: [Batch], _ written: Written
    ) throws {
        let description = SmallMessages.description(4)
        let more = Self.batch(description.id, StreamOffset(0), Array("more".utf8))
        let start = journal.end
        try require(journal.stage(more, of: description) == .staged, "not staged")
        let ranges = try journal.commit(at: WallTime(milliseconds: written.clock + 1))
        try require(ranges.count == 1 && ranges[0].lowerBound >= start, "committed at \(ranges) behind \(start)")
        let new = Batch(
            position: ranges[0].lowerBound.rawValue, id: description.id.text, offset: 0,
            rawByteCount: 4, payload: Self.stored(Array("more".utf8)), receivedAt: written.clock + 1)
        let (found, damages) = try Self.read(disk, upTo: journal.end)
        try require(
            found == batches + [new], "with one more batch: \(found.map(\.position)), not \(batches.map(\.position))")
        let vouchedFor = Set(batches.map(\.vouchedFor))
        for batch in written.batches where !vouchedFor.contains(batch.vouchedFor) {
            let isReported = damages.contains {
                written.isMoved
                    || $0.start.rawValue <= batch.position && batch.position < $0.end.rawValue
            }
            try require(isReported, "the batch at \(batch.position) is missing, no damage says so: \(damages)")
        }
        disk.kill()
        let again = try Journal(directory: Self.directory, files: disk, endMin: journal.end)
        try require(again.end == journal.end, "a second start ends at \(again.end), not \(journal.end)")
        try require(again.recovery.tornByteCount == 0, "a second start finds a torn end")
        for (name, standing) in journal.streams {
            try require(again.streams[name] == standing, "\(name) stands elsewhere after a second start")
        }
        let reread = try Self.read(disk, upTo: again.end).batches
        try require(reread == found, "another reading after a second start")
    }

    private static func read(
        _ disk: FaultyFiles, upTo end: JournalPosition
    ) throws -> (batches: [Batch], damages: [JournalDamage]) {
        var reader = JournalReader(directory: Self.directory, position: JournalPosition(0), files: disk)
        var batches: [Batch] = []
        while let record = try reader.next(upTo: end) {
            batches.append(
                Batch(
                    position: record.position.rawValue, id: record.description.id.text,
                    offset: record.header.offset.rawValue, rawByteCount: record.header.rawByteCount,
                    payload: Array(record.payload), receivedAt: record.receivedAt.milliseconds))
            try require(batches.count < 1 << 20, "a reader without end")
        }
        return (batches, reader.takeDamages())
    }
}
