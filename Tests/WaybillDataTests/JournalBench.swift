import Testing
import WaybillCompression
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

/// A batch as a reader must give it back.
struct ReadBatch: Hashable {
    let id: String
    let offset: UInt64
    let rawByteCount: Int
    /// CRC-32, which tells payloads apart and prints well.
    let payload: UInt32
    let receivedAt: Int64
}

/// A journal in `/journal` on a disk that can be crashed, beside a model of what it must hold.
final class JournalBench {
    /// An entry as it was staged.
    struct Staged {
        let entry: JournalEntry
        let description: StreamDescription
    }

    /// Where a stream stands, for the model.
    struct Standing: Equatable {
        var durable: UInt64 = 0
        var isSealed = false
        /// Where the bytes begin that the receiver has seen without a gap before ``durable``.
        var knownFrom: UInt64 = 0
        var proof = StreamProof.empty
        /// How many bytes were skipped, `elsewhere` left out.
        var skippedByteCount: UInt64 = 0

        fileprivate mutating func move(to end: UInt64, knownFrom: UInt64? = nil, of stream: Int) {
            self.durable = end
            self.knownFrom = knownFrom ?? self.knownFrom
            let start = max(self.knownFrom, end - UInt64(StreamProof.byteCount(at: StreamOffset(end))))
            self.proof = StreamProof(
                of: JournalBench.description(stream).id, at: StreamOffset(end),
                tail: JournalBench.content(stream, start..<end)
            ).skipping(self.skippedByteCount)
        }

        init() {}

        init(_ standing: StreamStanding) {
            self.durable = standing.durable.rawValue
            self.isSealed = standing.isSealed
            self.proof = standing.proof
            self.skippedByteCount = standing.skippedByteCount
        }

        static func == (left: Standing, right: Standing) -> Bool {
            left.durable == right.durable && left.isSealed == right.isSealed && left.proof == right.proof
        }
    }

    let disk = FaultyFiles()
    let directory = "/journal"
    let segmentByteCountMax: Int
    private let awake: AwakeLimits
    /// Every batch that was committed, with the position behind it.
    var batches: [ReadBatch] = []
    var standings: [StreamName: Standing] = [:]
    var staged: [Staged] = []
    private var groupCount = 0

    init(segmentByteCountMax: Int = 256 << 20, awake: AwakeLimits = AwakeLimits()) throws {
        self.awake = awake
        self.segmentByteCountMax = segmentByteCountMax
        try self.disk.createDirectories(self.directory)
    }

    func open(
        endMin: JournalPosition = JournalPosition(0), tables: JournalTables = .last
    ) throws -> Journal<FaultyFiles> {
        try Journal(
            directory: self.directory, files: self.disk, endMin: endMin,
            segmentByteCountMax: self.segmentByteCountMax, awake: self.awake, tables: tables)
    }

    /// When the group in hand is said to come in, however often it is tried.
    var groupTime: WallTime { WallTime(milliseconds: 1_790_000_000_000 + Int64(self.groupCount)) }

    /// The start number `number`, with an incarnation of its own.
    static func seed(_ number: UInt64) -> StartSeed {
        StartSeed(id: number, incarnation: Incarnation(0, number))
    }

    static func description(_ number: Int) -> StreamDescription {
        guard let id = StreamID("stream-\(number)") else { preconditionFailure("a stream id") }
        return StreamDescription(
            id: id, source: "/var/log/\(number).ndjson", environment: "prod", bundle: "com.example.app\(number % 3)",
            format: .waybill)
    }

    /// The bytes of a stream in `range`: what is at an offset depends on the stream and the offset alone.
    static func content(_ stream: Int, _ range: Range<UInt64>) -> [UInt8] {
        range.map { UInt8(truncatingIfNeeded: ($0 &+ UInt64(stream) &* 31) &* 0x9E37_79B9 >> 11) }
    }

    /// A batch with the stream's bytes from `offset` on.
    static func batch(_ stream: Int, at offset: UInt64, rawByteCount: Int = 100) -> JournalEntry {
        let raw = self.content(stream, offset..<(offset + UInt64(rawByteCount)))
        var deflater = Deflater(level: 1)
        let payload = raw.withUnsafeBytes { raw in
            SharedBytes(capacity: deflater.byteCountMax(of: raw.count)) { deflater.deflate(raw, into: $0) }
        }
        var header = BatchHeader(
            stream: StreamNumber(99), offset: StreamOffset(offset), rawByteCount: rawByteCount, lineCount: 1,
            wireByteCount: payload.count, checksum: 0)
        header.checksum = FrameChecksum.checksum(
            of: header.checksummedText(id: self.description(stream).id), payload.bytes)
        return .batch(header, payload: payload, raw: raw.withUnsafeBytes { SharedBytes($0) })
    }

    /// Skipped bytes of a stream.
    static func skip(
        _ stream: Int, at offset: StreamOffset, byteCount: UInt64, _ reason: SkipReason
    ) throws -> JournalEntry {
        let end = StreamOffset(offset.rawValue + byteCount)
        let tail =
            reason == .truncated
            ? nil : self.content(stream, end.rawValue - UInt64(StreamProof.byteCount(at: end))..<end.rawValue)
        return .skip(
            try #require(
                SkippedRange(
                    offset: offset, byteCount: byteCount, reason: reason, tail: tail,
                    holder: reason == .before ? "collector-1" : nil)))
    }

    /// Stages an entry that the model takes.
    func stage(_ entry: JournalEntry, of stream: Int, in journal: inout Journal<FaultyFiles>) {
        let description = Self.description(stream)
        #expect(journal.stage(entry, of: description) == .staged)
        self.staged.append(Staged(entry: entry, description: description))
    }

    /// Stages the next batch of a stream.
    func stageBatch(_ stream: Int, rawByteCount: Int = 100, in journal: inout Journal<FaultyFiles>) {
        let offset = journal.position(of: Self.description(stream).name).rawValue
        self.stage(Self.batch(stream, at: offset, rawByteCount: rawByteCount), of: stream, in: &journal)
    }

    func commit(_ journal: inout Journal<FaultyFiles>) throws {
        let batchCount = self.staged.count { if case .batch = $0.entry { true } else { false } }
        let ranges = try journal.commit(at: self.groupTime)
        #expect(ranges.count == batchCount)
        self.committed(self.staged.count)
        let table = self.table(of: journal)
        #expect(table == self.standings || table == nil)
    }

    /// Moves the first of what is staged into the model.
    private func committed(_ count: Int) {
        for item in self.staged.prefix(count) { self.apply(item, to: &self.standings) }
        for item in self.staged.prefix(count) {
            guard case .batch(let header, let payload, _) = item.entry else { continue }
            self.batches.append(
                ReadBatch(
                    id: item.description.id.text, offset: header.offset.rawValue, rawByteCount: header.rawByteCount,
                    payload: FrameChecksum.checksum(continuing: 0, payload.bytes),
                    receivedAt: self.groupTime.milliseconds))
        }
        self.staged = []
        self.groupCount += 1
    }

    private func apply(_ item: Staged, to standings: inout [StreamName: Standing]) {
        let name = item.description.name
        let stream = Self.number(of: name)
        switch item.entry {
        case .batch(let header, _, _):
            standings[name, default: Standing()].move(to: header.end.rawValue, of: stream)
        case .skip(let range):
            let start = range.end.rawValue - UInt64(range.tail?.count ?? 0)
            if range.reason != .elsewhere { standings[name, default: Standing()].skippedByteCount += range.byteCount }
            standings[name, default: Standing()].move(to: range.end.rawValue, knownFrom: start, of: stream)
        case .seal: standings[name, default: Standing()].isSealed = true
        case .standing: Issue.record("the model adopts no streams")
        }
    }

    private static func number(of name: StreamName) -> Int {
        Int(name.id.text.dropFirst(7)) ?? -1
    }

    /// The journal's stream table in the model's words; streams of which nothing is durable are as good as new.
    ///
    /// - Returns: `nil` if streams are at rest and the disk has stopped.
    func table(of journal: borrowing Journal<FaultyFiles>) -> [StreamName: Standing]? {
        var table: [StreamName: Standing] = [:]
        for (name, standing) in journal.streams {
            #expect(standing.description == Self.description(Self.number(of: name)))
            table[name] = Standing(standing)
        }
        for name in Set(self.standings.keys).union(self.staged.map(\.description.name)) where table[name] == nil {
            guard let resting = self.resting(name, in: journal) else { return nil }
            table[name] = resting.map { Standing($0) }
        }
        return table.filter { $0.value != Standing() }
    }

    /// - Returns: `nil` if the disk has stopped.
    private func resting(_ name: StreamName, in journal: borrowing Journal<FaultyFiles>) -> StreamStanding?? {
        while !self.disk.isStopped {
            // A disk that fails now and then is asked again.
            do { return .some(try journal.standing(of: Self.description(Self.number(of: name)))) } catch { continue }
        }
        return nil
    }

    /// Opens what a crash left: everything committed, and of the group in hand a beginning.
    func recover() throws -> Journal<FaultyFiles> {
        let journal = try self.open()
        let table = self.table(of: journal)
        var standings = self.standings
        var kept: Int? = table == standings ? 0 : nil
        for (index, item) in self.staged.enumerated() {
            self.apply(item, to: &standings)
            if table == standings { kept = index + 1 }
        }
        #expect(kept != nil, "the table is none that could be: \(table), committed \(self.standings)")
        self.committed(kept ?? 0)
        self.expectBatches(upTo: journal.end)
        return journal
    }

    /// Reads everything from `position` on.
    func read(
        from position: JournalPosition = JournalPosition(0), upTo end: JournalPosition
    ) throws -> (batches: [ReadBatch], ends: [JournalPosition], damages: [JournalDamage]) {
        var reader = JournalReader(directory: self.directory, position: position, files: self.disk)
        var batches: [ReadBatch] = []
        var ends: [JournalPosition] = []
        while let record = try reader.next(upTo: end) {
            batches.append(ReadBatch(record))
            ends.append(record.end)
        }
        #expect(reader.position >= end)
        return (batches, ends, reader.takeDamages())
    }

    /// Sees that a reader finds exactly the model's batches, from the beginning and from behind any of them.
    func expectBatches(upTo end: JournalPosition, everyPosition: Bool = false) {
        do {
            let all = try self.read(upTo: end)
            #expect(all.batches == self.batches)
            #expect(all.damages == [])
            for (index, position) in all.ends.enumerated() where everyPosition || index == all.ends.count / 2 {
                let rest = try self.read(from: position, upTo: end)
                #expect(rest.batches == Array(self.batches[(index + 1)...]))
                #expect(rest.damages == [])
            }
        } catch {
            Issue.record(error)
        }
    }
}

extension ReadBatch {
    init(_ record: JournalRecord) {
        self.init(
            id: record.description.id.text, offset: record.header.offset.rawValue,
            rawByteCount: record.header.rawByteCount,
            payload: FrameChecksum.checksum(continuing: 0, record.payload),
            receivedAt: record.receivedAt.milliseconds)
    }
}
