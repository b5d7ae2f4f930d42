import Testing
import WaybillCompression
import WaybillJournal
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
    struct Standing: Hashable {
        var durable: UInt64 = 0
        var isSealed = false
    }

    let disk = FaultyFiles()
    let directory = "/journal"
    let segmentByteCountMax: Int
    /// Every batch that was committed, with the position behind it.
    var batches: [ReadBatch] = []
    var standings: [StreamID: Standing] = [:]
    var staged: [Staged] = []
    private var groupCount = 0

    init(segmentByteCountMax: Int = 256 << 20) throws {
        self.segmentByteCountMax = segmentByteCountMax
        try self.disk.createDirectories(self.directory)
    }

    func open() throws -> Journal<FaultyFiles> {
        try Journal(directory: self.directory, files: self.disk, segmentByteCountMax: self.segmentByteCountMax)
    }

    /// When the group in hand is said to come in, however often it is tried.
    var groupTime: WallTime { WallTime(milliseconds: 1_790_000_000_000 + Int64(self.groupCount)) }

    static func description(_ number: Int) -> StreamDescription {
        guard let id = StreamID("stream-\(number)") else { preconditionFailure("a stream id") }
        return StreamDescription(
            id: id, source: "/var/log/\(number).ndjson", environment: "prod", bundle: "com.example.app\(number % 3)",
            format: .waybill)
    }

    /// A batch of `rawByteCount` bytes at `offset`; its payload is none that inflates, which is no matter here.
    static func batch(_ stream: Int, at offset: UInt64, rawByteCount: Int = 100, payload: [UInt8]) -> JournalEntry {
        let description = self.description(stream)
        var header = BatchHeader(
            stream: StreamNumber(99), offset: StreamOffset(offset), rawByteCount: rawByteCount, lineCount: 1,
            wireByteCount: payload.count, checksum: 0)
        header.checksum = payload.withUnsafeBytes {
            FrameChecksum.checksum(of: header.checksummedText(id: description.id), $0)
        }
        let bytes = payload.withUnsafeBytes { SharedBytes($0) }
        return .batch(description.id, header, payload: bytes)
    }

    /// Stages an entry that the model takes.
    func stage(_ entry: JournalEntry, of stream: Int, in journal: inout Journal<FaultyFiles>) {
        let description = Self.description(stream)
        #expect(journal.stage(entry, of: description) == .staged)
        self.staged.append(Staged(entry: entry, description: description))
    }

    /// Stages the next batch of a stream.
    func stageBatch(
        _ stream: Int, rawByteCount: Int = 100, payload: [UInt8], in journal: inout Journal<FaultyFiles>
    ) {
        let offset = journal.position(of: Self.description(stream).id).rawValue
        self.stage(
            Self.batch(stream, at: offset, rawByteCount: rawByteCount, payload: payload), of: stream, in: &journal)
    }

    func commit(_ journal: inout Journal<FaultyFiles>) throws {
        let batchCount = self.staged.count { if case .batch = $0.entry { true } else { false } }
        let ranges = try journal.commit(at: self.groupTime)
        #expect(ranges.count == batchCount)
        self.committed(self.staged.count)
        #expect(self.table(of: journal) == self.standings)
    }

    /// Moves the first of what is staged into the model.
    private func committed(_ count: Int) {
        for item in self.staged.prefix(count) { self.apply(item, to: &self.standings) }
        for item in self.staged.prefix(count) {
            guard case .batch(let id, let header, let payload) = item.entry else { continue }
            self.batches.append(
                ReadBatch(
                    id: id.text, offset: header.offset.rawValue, rawByteCount: header.rawByteCount,
                    payload: FrameChecksum.checksum(continuing: 0, payload.bytes),
                    receivedAt: self.groupTime.milliseconds))
        }
        self.staged = []
        self.groupCount += 1
    }

    private func apply(_ item: Staged, to standings: inout [StreamID: Standing]) {
        switch item.entry {
        case .batch(let id, let header, _): standings[id, default: Standing()].durable = header.end.rawValue
        case .skip(let id, let offset, let byteCount, _):
            standings[id, default: Standing()].durable = offset.rawValue + byteCount
        case .seal(let id, _): standings[id, default: Standing()].isSealed = true
        }
    }

    /// The journal's stream table in the model's words; streams of which nothing is durable are as good as new.
    func table(of journal: borrowing Journal<FaultyFiles>) -> [StreamID: Standing] {
        var table: [StreamID: Standing] = [:]
        for (id, standing) in journal.streams {
            #expect(standing.description == Self.description(Int(id.text.dropFirst(7)) ?? -1))
            let value = Standing(durable: standing.durable.rawValue, isSealed: standing.isSealed)
            if value != Standing() { table[id] = value }
        }
        return table
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
