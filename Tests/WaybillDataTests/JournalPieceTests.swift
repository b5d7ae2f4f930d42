import Testing
import WaybillCompression
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

/// What a piece's reader finds in it.
private struct PieceContent {
    var batches: [ReadBatch] = []
    var seals: [String] = []
    var damages: [String] = []

    /// Reads a piece as another host does that has nothing but its bytes and its name.
    init(_ bytes: [UInt8], startingAt start: JournalPosition) throws {
        let base = try #require(bytes.withUnsafeBytes { JournalPiece.base(of: $0, startingAt: start) })
        var scanner = SegmentScanner(bytes: bytes, base: base, files: FaultyFiles())
        var ids: [StreamNumber: String] = [:]
        while true {
            let position = scanner.position
            switch try scanner.next() {
            case .message(.open(let number, let description, _)): ids[number] = description.id.text
            case .message(.seal(let number, _)) where position >= start: self.seals.append(try #require(ids[number]))
            case .message: break
            case .batch(let header, let description, let payload):
                #expect(position >= start)
                self.batches.append(
                    ReadBatch(
                        id: description.id.text, offset: header.offset.rawValue, rawByteCount: header.rawByteCount,
                        payload: FrameChecksum.checksum(continuing: 0, payload),
                        receivedAt: scanner.receivedAt.milliseconds))
            case .end: return
            case .damaged(let reason):
                self.damages.append(reason)
                guard try scanner.stepOverDamage() else { return }
            }
        }
    }
}

@Suite struct JournalPieceTests {
    /// Whoever reads a batch makes room for what its header declares.
    @Test(arguments: [(1, 2_064, true), (1, 2_065, false), (3, 4_128, true), (3, 4_129, false), (1, 1 << 52, false)])
    func `a batch that declares more than its payload can hold is damage, and the one behind it is read`(
        wireByteCount: Int, rawByteCount: Int, isRead: Bool
    ) throws {
        let start = JournalPosition(1_000)
        let description = JournalBench.description(1)
        let head = PieceCutter<FaultyFiles>.head(
            [StreamNumber(1): description], before: start, lastKnown: WallTime(milliseconds: 7))
        func frame(_ rawByteCount: Int, _ payload: [UInt8]) -> [UInt8] {
            var header = BatchHeader(
                stream: StreamNumber(1), offset: StreamOffset(0), rawByteCount: rawByteCount, lineCount: 1,
                wireByteCount: payload.count, checksum: 0)
            header.checksum = payload.withUnsafeBytes {
                FrameChecksum.checksum(of: header.checksummedText(id: description.id), $0)
            }
            return Message.batch(header).encoded + payload
        }
        let bytes = head + frame(rawByteCount, [UInt8](repeating: 7, count: wireByteCount)) + frame(1, [9])
        let content = try PieceContent(bytes, startingAt: start)
        #expect(content.batches.map(\.rawByteCount) == (isRead ? [rawByteCount, 1] : [1]))
        #expect(content.damages.count == (isRead ? 0 : 1))
    }

    @Test(arguments: [0, 7, 1_795_165_200_000])
    func `each position has a head, also where the mark's length jumps`(milliseconds: Int64) throws {
        for digitCount in 2...12 {
            let power = (0..<digitCount).reduce(1) { power, _ in power * 10 }
            for start in (power + 16)...(power + 48) {
                let head = PieceCutter<FaultyFiles>.head(
                    [:], before: JournalPosition(start), lastKnown: WallTime(milliseconds: milliseconds))
                let content = try PieceContent(head, startingAt: JournalPosition(start))
                #expect(content.batches.isEmpty && content.damages.isEmpty, "before \(start)")
            }
        }
    }

    @Test(arguments: 0..<UInt64(60))
    func `pieces, each read alone, are the journal`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed ^ 0x91ECE)
        let bench = try JournalBench(segmentByteCountMax: [200, 3_000, 256 << 20][Int(seed % 3)])
        var journal = try bench.open()
        var cutter = PieceCutter(directory: bench.directory, position: JournalPosition(0), files: bench.disk)
        var found: [ReadBatch] = []
        var seals: [String] = []
        var copy: [UInt8] = []
        var sealed: [Int] = []
        for round in 0..<60 {
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                let stream = Int.random(in: 0..<12, using: &generator)
                guard !sealed.contains(stream) else { continue }
                bench.stageBatch(stream, rawByteCount: Int.random(in: 1...600, using: &generator), in: &journal)
                guard Int.random(in: 0..<40, using: &generator) == 0 else { continue }
                let length = journal.position(of: JournalBench.description(stream).name)
                bench.stage(.seal(length: length), of: stream, in: &journal)
                sealed.append(stream)
            }
            if journal.hasStaged { try bench.commit(&journal) }
            if Int.random(in: 0..<9, using: &generator) == 0 {
                try journal.begin(JournalBench.seed(UInt64(round)), isLossy: false, at: bench.groupTime)
            }
            // A restart of the uploader knows only where it was.
            if Bool.random(using: &generator) {
                cutter = PieceCutter(directory: bench.directory, position: cutter.position, files: bench.disk)
            }
            guard Int.random(in: 0..<3, using: &generator) > 0 || round == 59 else { continue }
            let wanted = [1, 700, 4_000, 1 << 20].randomElement(using: &generator) ?? 1
            while let piece = try cutter.next(upTo: journal.end, byteCount: wanted) {
                #expect(piece.start.rawValue == copy.count)
                #expect(piece.end == cutter.position)
                var bytes: [UInt8] = []
                while bytes.count < piece.byteCount {
                    let end = min(piece.byteCount, bytes.count + Int.random(in: 1...2_000, using: &generator))
                    bytes += try piece.read(bytes.count..<end, bench.disk)
                }
                #expect(bytes.count == piece.byteCount)
                let content = try PieceContent(bytes, startingAt: piece.start)
                #expect(content.damages == [])
                found += content.batches
                seals += content.seals
                copy += bytes[piece.head.count...]
            }
            #expect(cutter.position == journal.end)
        }
        #expect(found == bench.batches)
        #expect(seals == sealed.map { "stream-\($0)" })
        #expect(copy.count == journal.end.rawValue)
        for (start, end) in zip(journal.segments, journal.segments.dropFirst() + [journal.end]) {
            let file = try #require(bench.disk.bytes(of: JournalPath.segment(start, in: bench.directory)))
            #expect(Array(copy[start.rawValue..<end.rawValue]) == Array(file.prefix(end.rawValue - start.rawValue)))
        }
    }

    @Test func `a damaged group goes with its piece, and its reader has the others`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        var ends: [JournalPosition] = []
        for _ in 0..<4 {
            bench.stageBatch(1, in: &journal)
            try bench.commit(&journal)
            ends.append(journal.end)
        }
        let path = "/journal/00000000000000000000.journal"
        var bytes = try #require(bench.disk.bytes(of: path))
        bytes[ends[1].rawValue - 1] ^= 1
        bench.disk.place(path, bytes)
        var cutter = PieceCutter(directory: bench.directory, position: ends[0], files: bench.disk)
        let piece = try #require(try cutter.next(upTo: journal.end, byteCount: 1 << 20))
        let content = try PieceContent(try piece.read(0..<piece.byteCount, bench.disk), startingAt: piece.start)
        #expect(content.batches == [bench.batches[2], bench.batches[3]])
        #expect(content.damages == ["the checksum of a batch is wrong"])
        #expect(cutter.position == journal.end)
    }

    @Test func `a head's mark fits before every position`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        var cutter = PieceCutter(directory: bench.directory, position: JournalPosition(0), files: bench.disk)
        // Across the positions where a mark gets a digit more, one byte after the other.
        for count in 0..<1_500 {
            bench.stageBatch(1, rawByteCount: count % 3 == 0 ? 1 : 2, in: &journal)
            try bench.commit(&journal)
            let piece = try #require(try cutter.next(upTo: journal.end, byteCount: 1))
            let bytes = try piece.read(0..<piece.byteCount, bench.disk)
            let base = bytes.withUnsafeBytes { JournalPiece.base(of: $0, startingAt: piece.start) }
            #expect(base?.rawValue == piece.start.rawValue - piece.head.count)
            _ = try cutter.next(upTo: journal.end, byteCount: 1 << 20)
        }
    }
}
