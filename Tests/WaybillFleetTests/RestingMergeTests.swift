import Testing
import WaybillData
import WaybillFleet
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

/// A receiver that joins a fleet has streams at rest, which no head names.
@Suite struct RestingMergeTests {
    private let files = FaultyFiles()
    private let store = MemoryStore(pageCount: 3)
    private static let time = WallTime(milliseconds: 1_796_000_000_000)

    private static func description(_ stream: Int) throws -> StreamDescription {
        StreamDescription(
            id: try #require(StreamID("stream-\(stream)")), source: "/\(stream).ndjson", environment: "prod",
            bundle: "com.example.app", format: .waybill)
    }

    /// A line of 14 bytes for each stream, of which each may be at rest.
    private func write(_ streams: [Int], to journal: inout Journal<FaultyFiles>) throws {
        for stream in streams {
            _ = try journal.wake(try Self.description(stream))
            try journal.stage(Array("{\"a\":1234567}\n".utf8), of: stream)
        }
        _ = try journal.commit(at: Self.time)
    }

    private func start(_ number: UInt64, _ journal: inout Journal<FaultyFiles>) throws {
        try journal.begin(StartSeed(id: number, incarnation: Incarnation(0, number)), isLossy: false, at: Self.time)
    }

    private func upload(_ journal: borrowing Journal<FaultyFiles>) throws {
        var uploader = try Uploader(
            receiver: "r1", fleet: "f", journalDirectory: "/data/journal", end: journal.end,
            statePath: "/data/state/store.state", files: self.files, store: self.store, SeededGenerator(seed: 1))
        while try uploader.step(upTo: journal.end) != .idle {}
    }

    private func missing() throws -> [MissingBytes] {
        let files = FaultyFiles()
        try files.createDirectories("/m/journal")
        try files.createDirectories("/m/state")
        var merger = try Merger(
            Merger<FaultyFiles>.Setup(
                name: "m1", fleet: Incarnation(1, 2), journalDirectory: "/m/journal", statePath: "/m/state/merge.state"),
            files: files, store: self.store)
        while case .applied = try merger.step(now: Self.time, MonotonicTime(nanoseconds: 0)) {}
        return merger.missing
    }

    @Test func `what one has from before it woke is in the receiver's own archive, and not missing`() throws {
        try self.files.createDirectories("/data/journal")
        try self.files.createDirectories("/data/state")
        var journal = try Journal(
            directory: "/data/journal", files: self.files, awake: AwakeLimits(openCountAtStart: 0, openCount: 0))
        try self.write([1, 2], to: &journal)
        try self.start(1, &journal)
        _ = try journal.retire(before: journal.end, writtenBefore: WallTime(milliseconds: .max))
        #expect(journal.segments.count == 1 && journal.segments[0].rawValue > 0 && journal.streams.isEmpty)
        // Its chain begins without them; of stream 4 it was told that the fleet has the first bytes.
        try self.write([3], to: &journal)
        let told = SkippedRange(
            offset: StreamOffset(0), byteCount: 14, reason: .elsewhere, tail: Array("{\"a\":1234567}\n".utf8))
        let skipped = journal.stage(.skip(try #require(told)), of: try Self.description(4))
        #expect(skipped == .staged)
        try self.write([4], to: &journal)
        try self.upload(journal)
        // 1 wakes in another piece, and 2 and 4 in another segment.
        try self.write([1], to: &journal)
        try self.upload(journal)
        try self.start(2, &journal)
        try self.write([2, 4], to: &journal)
        for stream in 1..<5 {
            let description = try Self.description(stream)
            _ = try journal.wake(description)
            let length = journal.position(of: description.name)
            let sealed = journal.stage(.seal(length: length), of: description)
            #expect(sealed == .staged)
        }
        _ = try journal.commit(at: Self.time)
        try self.upload(journal)
        let stream = try Self.description(4).id.text
        #expect(
            try self.missing() == [MissingBytes(principal: "", stream: stream, ranges: [0..<14], receivers: ["r1"])])
    }
}
