import Testing
import WaybillCompression
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

/// What the archive proves of a stream whose journal was lost.
@Suite struct StandingsTests {
    /// A run of a batch, with its lines.
    private struct Piece {
        let file: String
        let offset: Int
        let bytes: [UInt8]
        var emptyLineCount = 0
        var isSealed = false
    }

    private static let open = #"OPEN 1 {"stream":"s-1","source":"/a","env":"prod","bundle":"b","format":"waybill"}"#

    private static func part(_ day: Int, app: String = "b") -> String {
        "archive/env=prod/bundle=\(app)/date=2026-11-\(day)/part-00001"
    }

    /// Lines whose bytes are different from one another.
    private static func lines(_ range: Range<Int>) -> [UInt8] {
        range.flatMap { Array("{\"n\":\($0)}\n".utf8) }
    }

    /// The one standing that an archive with these pieces has.
    private static func standing(_ pieces: [Piece]) throws -> StreamStanding {
        let disk = FaultyFiles()
        let data = DataDirectory(root: "/data", files: disk)
        try data.create()
        var lengths: [String: String] = [:]
        for (file, pieces) in Dictionary(grouping: pieces, by: \.file) {
            try disk.createDirectories("/data/" + Path.parent(of: file))
            var sources = Self.open + "\n"
            var lines: [UInt8] = []
            for piece in pieces {
                let empty = piece.emptyLineCount > 0 ? " \(piece.emptyLineCount)" : ""
                let lineCount = piece.bytes.count { $0 == 0x0A } + piece.emptyLineCount
                sources += "FROM 1 \(piece.offset) 1000 \(lines.count) \(piece.bytes.count) \(lineCount)\(empty)\n"
                lines += piece.bytes
            }
            disk.place("/data/\(file).sources", Array(sources.utf8))
            if pieces[0].isSealed {
                try Self.seal(file, lines, sourcesByteCount: sources.utf8.count, disk)
            } else {
                disk.place("/data/\(file).ndjson", lines)
                lengths["file:\(file).ndjson"] = String(lines.count)
                lengths["file:\(file).sources"] = String(sources.utf8.count)
            }
        }
        var state = try StateStore(path: data.statePath("archive"), files: disk)
        try state.commit(lengths)
        let standings = try ArchiveIndex(data: data).standings(ofJournalFrom: JournalPosition(0))
        #expect(standings.count == 1)
        return try #require(standings.first)
    }

    private static func seal(
        _ file: String, _ lines: [UInt8], sourcesByteCount: Int, _ disk: FaultyFiles
    ) throws {
        var deflater = GzipDeflater(level: 6)
        var output = [UInt8](repeating: 0, count: deflater.byteCountMax(of: lines.count))
        let count = lines.withUnsafeBytes { lines in
            output.withUnsafeMutableBytes { deflater.deflate(lines, into: $0) }
        }
        disk.place("/data/\(file).ndjson.gz", Array(output[..<count]))
        let folder = try #require(DayFolder(path: Path.parent(of: file)))
        var manifest = DayManifest(
            folder: folder, revision: 1, zone: "UTC", sealedAt: WallTime(milliseconds: 1_795_165_200_005))
        var entry = DayManifest.File(name: "part-00001.ndjson.gz")
        entry.byteCount = lines.count
        entry.gzipByteCount = count
        entry.sourcesByteCount = sourcesByteCount
        entry.sha256 = String(repeating: "0a", count: 32)
        entry.rawSHA256 = String(repeating: "b1", count: 32)
        entry.position = JournalPosition(4711)
        manifest.files = [entry]
        disk.place("/data/\(folder.path)/manifest.json", manifest.json)
    }

    private static func proof(of bytes: [UInt8]) throws -> StreamProof {
        StreamProof(
            of: try #require(StreamID("s-1")), at: StreamOffset(UInt64(bytes.count)), tail: bytes.suffix(512))
    }

    @Test(arguments: [false, true])
    func `a last batch over midnight is proved, with the batch before it, open or sealed`(isSealed: Bool) throws {
        let (early, late, next) = (Self.lines(0..<40), Self.lines(40..<45), Self.lines(45..<50))
        let standing = try Self.standing([
            Piece(file: Self.part(19), offset: 0, bytes: early, isSealed: isSealed),
            Piece(file: Self.part(19), offset: early.count, bytes: late, isSealed: isSealed),
            Piece(file: Self.part(20), offset: early.count + late.count, bytes: next, isSealed: isSealed),
        ])
        let whole = early + late + next
        #expect(standing.durable == StreamOffset(UInt64(whole.count)))
        #expect(standing.proof == (try Self.proof(of: whole)))
    }

    @Test func `a batch in several apps, the quarantine and empty lines is proved where it joins up`() throws {
        let (one, other, last) = (Self.lines(0..<10), Self.lines(10..<20), Self.lines(20..<25))
        let quarantined = Array("x\n".utf8)
        let spread = [
            Piece(file: Self.part(19), offset: 0, bytes: one),
            Piece(file: Self.part(19, app: "c"), offset: one.count, bytes: other),
            Piece(file: "quarantine/date=2026-11-20/not-json", offset: one.count + other.count, bytes: quarantined),
            Piece(
                file: "quarantine/date=2026-11-20/empty", offset: one.count + other.count + 2, bytes: [],
                emptyLineCount: 3),
        ]
        let whole = one + other + quarantined + Array("\n\n\n".utf8)
        #expect(try Self.standing(spread).durable == StreamOffset(UInt64(whole.count)))
        #expect(try Self.standing(spread).proof == Self.proof(of: whole))
        // Bytes that were skipped are in no file.
        let behindGap = Piece(file: Self.part(20), offset: whole.count + 100, bytes: last)
        let standing = try Self.standing(spread + [behindGap])
        let end = StreamOffset(UInt64(whole.count + 100 + last.count))
        #expect(standing.durable == end)
        #expect(standing.proof == StreamProof(of: try #require(StreamID("s-1")), at: end, tail: last))
    }

    @Test func `an empty run joins nothing`() throws {
        let lines = Self.lines(0..<10)
        let standing = try Self.standing([
            Piece(file: Self.part(19), offset: lines.count, bytes: []),
            Piece(file: Self.part(20), offset: 0, bytes: lines),
        ])
        #expect(standing.durable == StreamOffset(UInt64(lines.count)))
        #expect(standing.proof == (try Self.proof(of: lines)))
    }
}
