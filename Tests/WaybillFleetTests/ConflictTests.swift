import Testing
import WaybillCompression
import WaybillData
import WaybillFleet
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

/// Two receivers have other bytes of one stream.
@Suite struct ConflictTests {
    /// A receiver gets a stream from its beginning, one batch for each text, and uploads it.
    private func receive(_ texts: [String], by receiver: String, _ store: MemoryStore) throws {
        let files = FaultyFiles()
        try files.createDirectories("/data/journal")
        try files.createDirectories("/data/state")
        var journal = try Journal(directory: "/data/journal", files: files, segmentByteCountMax: 20_000)
        let id = try #require(StreamID("stream-1"))
        let description = StreamDescription(
            id: id, source: "/1.log", environment: "prod", bundle: "com.example.app", format: .ndjson)
        for text in texts {
            let raw = Array(text.utf8)
            var deflater = Deflater(level: 1)
            let payload = raw.withUnsafeBytes { raw in
                SharedBytes(capacity: deflater.byteCountMax(of: raw.count)) { deflater.deflate(raw, into: $0) }
            }
            var header = BatchHeader(
                stream: StreamNumber(1), offset: journal.position(of: description.name), rawByteCount: raw.count,
                lineCount: raw.count { $0 == 0x0A }, wireByteCount: payload.count, checksum: 0)
            header.checksum = FrameChecksum.checksum(of: header.checksummedText(id: id), payload.bytes)
            let entry = JournalEntry.batch(header, payload: payload, raw: raw.withUnsafeBytes { SharedBytes($0) })
            #expect(journal.stage(entry, of: description) == .staged)
        }
        _ = try journal.commit(at: WallTime(milliseconds: 1_796_000_000_000))
        var uploader = try Uploader(
            receiver: receiver, fleet: "f", journalDirectory: "/data/journal", end: journal.end,
            statePath: "/data/state/store.state", files: files, store: store, SeededGenerator(seed: 1))
        while try uploader.step(upTo: journal.end) != .idle {}
    }

    private func merge(_ store: MemoryStore, placeCountMax: Int) throws -> MergeTally {
        let files = FaultyFiles()
        try files.createDirectories("/m/journal")
        try files.createDirectories("/m/state")
        var setup = Merger<FaultyFiles>.Setup(
            name: "m1", fleet: Incarnation(1, 2), journalDirectory: "/m/journal", statePath: "/m/state/merge.state")
        setup.placeCountMax = placeCountMax
        var merger = try Merger(setup, files: files, store: store)
        while case .applied = try merger.step(
            now: WallTime(milliseconds: 1_796_000_000_000), MonotonicTime(nanoseconds: 0))
        {}
        return merger.tally
    }

    @Test func `a line that lies across others is kept, because a line's end is within it`() throws {
        let store = MemoryStore(pageCount: 3)
        try self.receive(["{\"a\":1}\n", "{\"a\":2}\n"], by: "r1", store)
        try self.receive(["{\"b\":\"zzzzzzz\"}\n"], by: "r2", store)
        let tally = try self.merge(store, placeCountMax: 100)
        #expect(tally.lineCount == 3)
        #expect(tally.conflictLineCount == 1)
        #expect(tally.droppedLineCount == 0)
        #expect(tally.unprovenLineCount == 0)
    }

    @Test func `what lies in forgotten batches alone is dropped, and counted`() throws {
        let store = MemoryStore(pageCount: 3)
        try self.receive(["{\"a\":1}\n", "{\"a\":2}\n", "{\"a\":3}\n"], by: "r1", store)
        _ = try self.merge(store, placeCountMax: 1)
        try self.receive(["{\"b\":\"zzzzzzz\"}\n{\"a\":3}\n"], by: "r2", store)
        let tally = try self.merge(store, placeCountMax: 1)
        #expect(tally.lineCount == 3)
        #expect(tally.conflictLineCount == 0)
        #expect(tally.droppedLineCount == 2)
        #expect(tally.unprovenLineCount == 1)
    }
}
