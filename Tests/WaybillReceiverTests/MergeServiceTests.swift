import Logging
import Testing
import WaybillCompression
import WaybillData
import WaybillExport
import WaybillFleet
import WaybillMerger
import WaybillProtocol
import WaybillReceiver
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

/// Receivers whose journals are in a bucket.
final class FleetSite {
    let store = MemoryStore()
    let root: String
    private let files = POSIXFileSystem()
    private let text: (Int) -> String

    init(_ text: @escaping (Int) -> String = FleetSite.line) throws {
        self.root = try makeFolder()
        self.text = text
    }

    deinit {
        removeFolder(self.root)
    }

    static func line(_ number: Int) -> String {
        event(name: "bought", id: number, ts: "2026-11-\(19 + number % 2)T09:15:00.000Z")
    }

    /// A receiver gets lines of a stream, numbered on, and uploads all of them.
    ///
    /// - Parameter offset: where they begin in the stream; what is before is elsewhere.
    func receive(
        _ receiver: String, stream: String, _ numbers: Range<Int>, from offset: Int = 0, at time: Int64
    ) throws -> Int {
        let journalPath = "\(self.root)/\(receiver)/journal"
        try self.files.createDirectories(journalPath)
        try self.files.createDirectories("\(self.root)/\(receiver)/state")
        var journal = try Journal(directory: journalPath, files: self.files)
        let id = try #require(StreamID(stream))
        let description = StreamDescription(
            id: id, source: "/\(stream).ndjson", environment: "prod", bundle: "com.example.shop", format: .waybill)
        let raw = Array(numbers.map { self.text($0) + "\n" }.joined().utf8)
        if offset > Int(journal.position(of: description.name).rawValue) {
            let tail = [UInt8](repeating: 0x78, count: StreamProof.byteCount(at: StreamOffset(UInt64(offset))))
            let range = SkippedRange(
                offset: StreamOffset(0), byteCount: UInt64(offset), reason: .elsewhere, tail: tail)
            #expect(journal.stage(.skip(try #require(range)), of: description) == .staged)
        }
        var deflater = Deflater(level: 6)
        let payload = raw.withUnsafeBytes { raw in
            SharedBytes(capacity: deflater.byteCountMax(of: raw.count)) { deflater.deflate(raw, into: $0) }
        }
        var header = BatchHeader(
            stream: StreamNumber(1), offset: StreamOffset(UInt64(offset)), rawByteCount: raw.count,
            lineCount: numbers.count, wireByteCount: payload.count, checksum: 0)
        header.checksum = FrameChecksum.checksum(of: header.checksummedText(id: id), payload.bytes)
        let entry = JournalEntry.batch(header, payload: payload, raw: raw.withUnsafeBytes { SharedBytes($0) })
        #expect(journal.stage(entry, of: description) == .staged)
        _ = try journal.commit(at: WallTime(milliseconds: time))
        var uploader = try Uploader(
            receiver: receiver, fleet: "f", journalDirectory: journalPath, end: journal.end,
            statePath: "\(self.root)/\(receiver)/state/store.state", files: self.files, store: self.store,
            SeededGenerator(seed: UInt64(receiver.utf8.first ?? 0)))
        while try uploader.step(upTo: journal.end) != .idle {}
        return offset + raw.count
    }

    /// Runs a merger until it has everything.
    ///
    /// - Parameter checkpoints: whether it makes one at each barrier, and deletes what two of them cover; if not `nil`,
    ///   barriers are where the receivers' clocks say, however long ago.
    func merge(_ name: String, checkpoints: Bool? = nil) async throws -> MergeService.Report {
        var merger = MergerConfiguration(dataDirectory: "\(self.root)/\(name)")
        merger.name = name
        merger.exports = [ExportOptions(provider: .csv)]
        if checkpoints == true {
            merger.checkpointAge = .zero
            merger.pieceRetention = .zero
        }
        var setup = MergeService.Setup(merger, store: self.store, fleet: Incarnation(1, 2))
        setup.isOnce = true
        setup.pollInterval = .milliseconds(5)
        if checkpoints != nil { setup.sealPatience = .seconds(1 << 32) }
        let service = MergeService(setup, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        try await service.run()
        return service.report
    }

    /// The files of a folder by their path, with their bytes.
    func tree(_ folder: String) throws -> [String: [UInt8]] {
        var tree: [String: [UInt8]] = [:]
        var waiting = [folder]
        while let path = waiting.popLast() {
            for name in try self.files.list("\(self.root)/\(path)") {
                let file = "\(path)/\(name)"
                if try self.files.status(at: "\(self.root)/\(file)")?.kind == .directory {
                    waiting.append(file)
                } else {
                    tree[String(file.dropFirst(folder.count))] = try self.files.contents(of: "\(self.root)/\(file)")
                }
            }
        }
        return tree
    }
}

@Suite struct MergeServiceTests {
    @Test func `two mergers make the same archive and exports, once, and publish sealed days`() async throws {
        let site = try FleetSite()
        let day: Int64 = 1_795_305_600_000
        let half = try site.receive("a", stream: "s1", 0..<40, at: day)
        _ = try site.receive("a", stream: "s2", 100..<130, at: day + 1000)
        let end = try site.receive("b", stream: "s1", 40..<80, from: half, at: day + 2000)
        // The first receiver comes back with a tail that the second one has been sent, too.
        _ = try site.receive("a", stream: "s1", 40..<60, from: half, at: day + 3000)
        _ = try site.receive("b", stream: "s1", 80..<90, from: end, at: day + 4000)

        let first = try await site.merge("m1")
        #expect(first.tally.lineCount == 120)
        #expect(first.tally.droppedLineCount == 20)
        #expect(first.tally.conflictLineCount == 0)
        #expect(first.missing == [])
        let objects = site.store.objects.filter { $0.key.hasPrefix("archive/") || $0.key.hasPrefix("exports/") }
        let second = try await site.merge("m2")
        #expect(second.tally.lineCount == 120)
        #expect(second.publishedCount == 0)

        for folder in ["archive", "exports", "journal"] {
            #expect(try site.tree("m1/\(folder)") == site.tree("m2/\(folder)"), "\(folder)")
        }
        let archive = try site.tree("m1/archive")
        let parts = archive.filter { $0.key.hasSuffix(".ndjson.gz") }
        #expect(parts.count == 2)
        let lines = try parts.values.flatMap { bytes in
            String(decoding: try #require(ProjectionBench.inflate(bytes)), as: UTF8.self).split(separator: "\n")
        }
        #expect(lines.map(String.init).sorted() == (Array(0..<90) + Array(100..<130)).map(FleetSite.line).sorted())
        #expect(first.publishedCount == objects.count - objects.keys.count { $0.hasSuffix("/manifest.json") })
        for (key, bytes) in objects where key.hasPrefix("archive/") {
            #expect(archive[String(key.dropFirst("archive".count))] == bytes, "\(key)")
        }
        #expect(objects.keys.contains { $0.hasPrefix("archive/") && $0.hasSuffix("_SUCCESS") })
        #expect(objects.keys.contains { $0.hasPrefix("exports/csv/") && $0.hasSuffix("_SUCCESS") })
    }

    @Test func `a merger whose disk is lost makes the same again`() async throws {
        let site = try FleetSite()
        let day: Int64 = 1_795_305_600_000
        for number in 0..<5 {
            _ = try site.receive("a", stream: "s\(number)", number * 10..<number * 10 + 10, at: day + Int64(number))
            _ = try await site.merge("m1")
        }
        let archive = try site.tree("m1/archive")
        removeFolder("\(site.root)/m1")
        _ = try await site.merge("m1")
        let again = try site.tree("m1/archive")
        #expect(again.keys.sorted() == archive.keys.sorted())
        // A restart introduces streams again in `.sources`, whose digest the manifest has.
        for (path, bytes) in archive where path.contains(".ndjson") {
            #expect(again[path] == bytes, "\(path)")
        }
    }

    @Test func `a receiver's data directory is no merger's`() async throws {
        let site = try FleetSite()
        _ = try site.receive("a", stream: "s1", 0..<10, at: 1_795_305_600_000)
        await #expect(throws: MergeFailure.self) { _ = try await site.merge("a") }
    }
}
