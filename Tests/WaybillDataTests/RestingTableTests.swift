import Testing
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

/// Streams that are in no head any more.
@Suite struct RestingTableTests {
    private static let table = "/journal/resting.table"

    private static func bench() throws -> JournalBench {
        try JournalBench(segmentByteCountMax: 3_000, awake: AwakeLimits(sealedCount: 3))
    }

    /// Seals streams, each with as many bytes as its number says.
    private static func seal(_ streams: Range<Int>, _ journal: inout Journal<FaultyFiles>, _ bench: JournalBench) throws
    {
        for stream in streams {
            if stream > 0 { bench.stageBatch(stream, rawByteCount: stream, in: &journal) }
            bench.stage(.seal(length: StreamOffset(UInt64(stream))), of: stream, in: &journal)
            _ = try journal.commit(at: bench.groupTime)
            bench.staged = []
        }
    }

    private static func start(_ number: UInt64, _ journal: inout Journal<FaultyFiles>, _ bench: JournalBench) throws {
        try journal.begin(JournalBench.seed(number), isLossy: false, at: bench.groupTime)
    }

    /// Every stream is known as sealed, awake or at rest, with the proof of its bytes.
    private static func expectSealed(_ streams: Range<Int>, in journal: borrowing Journal<FaultyFiles>) throws {
        for stream in streams {
            let description = JournalBench.description(stream)
            let resting = try journal.restingStanding(of: description)
            let standing = try #require(resting ?? journal.streams[description.name], "\(stream)")
            let bytes = JournalBench.content(stream, 0..<UInt64(stream))
            let end = StreamOffset(UInt64(stream))
            #expect(standing.isSealed && standing.durable == end)
            #expect(standing.proof == StreamProof(of: description.id, at: end, tail: bytes.suffix(512)))
        }
    }

    @Test func `no seal is forgotten, and heads stay short`() throws {
        let bench = try Self.bench()
        var journal = try bench.open()
        var awakeCounts: [Int] = []
        for round in 0..<6 {
            try Self.seal((round * 100)..<(round * 100 + 100), &journal, bench)
            journal = try bench.open()
            try Self.start(UInt64(round), &journal, bench)
            awakeCounts.append(journal.streams.count)
            try Self.expectSealed(0..<(round * 100 + 100), in: journal)
        }
        #expect(awakeCounts == Array(repeating: 3, count: 6))
        #expect(journal.recovery.damages.isEmpty)
        #expect(bench.disk.bytes(of: Self.table)?.count == 597 * 120)
        #expect(try journal.restingStanding(of: JournalBench.description(9999)) == nil)
        var other = JournalBench.description(5)
        other.owner = StreamOwner(principal: "shop")
        #expect(try journal.restingStanding(of: other) == nil)
        // A reader of the archive that lags behind moves no stream that rests.
        let description = JournalBench.description(5)
        try journal.advance(to: [
            StreamStanding(description: description, tail: StreamTail(unknownBelow: StreamOffset(9)))
        ])
        #expect(journal.streams[description.name] == nil)
    }

    @Test func `streams at rest are found in the segments when the table is lost`() throws {
        let bench = try Self.bench()
        var journal = try bench.open()
        for round in 0..<5 {
            try Self.seal((round * 60)..<(round * 60 + 60), &journal, bench)
            journal = try bench.open()
            try Self.start(UInt64(round), &journal, bench)
        }
        let last = try #require(bench.disk.bytes(of: Self.table))
        #expect(last.count == 297 * 120)
        // A journal that came back without its table, and with the rest of another attempt in its place.
        for rest in [nil, Array(last.prefix(1000))] {
            bench.disk.place(Self.table, rest ?? [])
            if rest == nil { try bench.disk.unlink(Self.table) }
            journal = try bench.open(tables: .all)
            #expect(journal.streams.count == 3 && journal.restingStreamCount == 297)
            try Self.expectSealed(0..<300, in: journal)
            try Self.start(50, &journal, bench)
            // Every later start knows them from its head.
            journal = try bench.open()
            #expect(journal.recovery.damages.isEmpty && journal.restingStreamCount == 297)
            try Self.expectSealed(0..<300, in: journal)
        }
    }

    @Test func `what was skipped of a stream is known at rest, and found in the segments without the table`() throws {
        let bench = try Self.bench()
        var journal = try bench.open()
        for stream in 1..<20 {
            let start = UInt64(stream)
            bench.stageBatch(stream, rawByteCount: stream, in: &journal)
            bench.stage(
                try JournalBench.skip(stream, at: StreamOffset(start), byteCount: start * 7, .tooLong), of: stream,
                in: &journal)
            bench.stage(.seal(length: StreamOffset(start * 8)), of: stream, in: &journal)
            _ = try journal.commit(at: bench.groupTime)
            bench.staged = []
        }
        for tables in [JournalTables.last, .all] {
            try Self.start(1, &journal, bench)
            if tables == .all { try bench.disk.unlink(Self.table) }
            journal = try bench.open(tables: tables)
            #expect(journal.restingStreamCount == 16)
            for stream in 1..<20 {
                let standing = try journal.standing(of: JournalBench.description(stream))
                #expect(standing?.skippedByteCount == UInt64(stream * 7))
                #expect(standing?.proof.skippedByteCount == standing?.skippedByteCount)
            }
        }
    }

    @Test(arguments: [FaultyFiles.Fault.error(Errno.inputOutput), .half(Errno.noSpace), .short])
    func `a move to rest that fails or dies at any call loses and repeats nothing`(fault: FaultyFiles.Fault) throws {
        for isDeath in [false, true] {
            var isOver = false
            for call in 1...60 where !isOver {
                let bench = try Self.bench()
                var journal = try bench.open()
                try Self.seal(0..<10, &journal, bench)
                try Self.start(1, &journal, bench)
                try Self.seal(10..<20, &journal, bench)
                if isDeath { bench.disk.stop(atCall: call) } else { bench.disk.fail(call: call, fault) }
                do {
                    try Self.start(2, &journal, bench)
                    isOver = bench.disk.faultCount == 0 && !bench.disk.isStopped
                } catch {
                    try Self.expectSealed(0..<(isDeath ? 0 : 20), in: journal)
                }
                if isDeath { bench.disk.crash(seed: UInt64(call)) } else { bench.disk.clearFaults() }
                if !isDeath { try Self.seal(20..<21, &journal, bench) }
                journal = try bench.open()
                try Self.start(3, &journal, bench)
                try Self.expectSealed(0..<(isDeath ? 20 : 21), in: journal)
                #expect(journal.recovery.damages.isEmpty)
                #expect(bench.disk.bytes(of: Self.table)?.count == ((isDeath ? 20 : 21) - 3) * 120)
            }
            #expect(isOver)
        }
    }

    @Test func `a table that is lost, damaged, or of another history counts for nothing and begins an incarnation`()
        throws
    {
        let source = try Self.bench()
        var journal = try source.open()
        try Self.seal(0..<10, &journal, source)
        try Self.start(1, &journal, source)
        let bytes = try #require(source.disk.bytes(of: Self.table))
        var flipped = bytes
        flipped[300] ^= 1
        let exchanged = Array(bytes[120..<240] + bytes[..<120] + bytes[240...])
        for damaged in [nil, Array(bytes.dropLast()), flipped, exchanged] {
            if let damaged { source.disk.place(Self.table, damaged) } else { try source.disk.unlink(Self.table) }
            let bench = try Self.bench()
            for (path, bytes) in source.disk.tree("/journal") { bench.disk.place(path, bytes) }
            var again = try bench.open()
            #expect(again.recovery.isLossy && again.recovery.damages.count == 1)
            #expect(try again.restingStanding(of: JournalBench.description(0)) == nil)
            try Self.expectSealed(7..<10, in: again)
            try Self.start(2, &again, bench)
            #expect(again.identity(name: "r").incarnation == Incarnation(0, 2))
            again = try bench.open()
            #expect(!again.recovery.isLossy && again.recovery.damages.isEmpty)
        }
        // What a later history of the journal added to the table is no part of this one.
        source.disk.place(Self.table, bytes + bytes)
        journal = try source.open()
        #expect(!journal.recovery.isLossy)
        try Self.expectSealed(0..<10, in: journal)
    }
}
