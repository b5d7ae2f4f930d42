import Testing
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

/// Streams that are not sealed, and come to rest all the same.
@Suite struct RestingStreamTests {
    private static let table = "/journal/resting.table"

    private static func bench(_ awake: AwakeLimits) throws -> JournalBench {
        try JournalBench(segmentByteCountMax: 64 << 20, awake: awake)
    }

    private static func start(_ number: UInt64, _ journal: inout Journal<FaultyFiles>, _ bench: JournalBench) throws {
        try journal.begin(JournalBench.seed(number), isLossy: false, at: bench.groupTime)
    }

    /// Adds to each stream as many bytes as its number says.
    private static func write(
        _ streams: Range<Int>, _ journal: inout Journal<FaultyFiles>, _ bench: JournalBench
    ) throws {
        for stream in streams {
            let sealed = try journal.wake(JournalBench.description(stream))
            #expect(sealed == nil)
            bench.stageBatch(stream, rawByteCount: stream, in: &journal)
        }
        try bench.commit(&journal)
    }

    private static func headByteCount(_ bench: JournalBench) throws -> Int {
        let segments = try bench.disk.list("/journal").filter { $0.hasSuffix(".journal") }.sorted()
        let last = try #require(segments.last)
        return try #require(bench.disk.bytes(of: "/journal/\(last)")).count
    }

    @Test func `streams at rest are in no head, and continue where they were`() throws {
        let bench = try Self.bench(AwakeLimits(openCountAtStart: 5))
        var journal = try bench.open()
        try Self.start(1, &journal, bench)
        for round in 0..<4 as Range<UInt64> {
            // 600 streams, of which each proof is of as many bytes as there are, at most 512.
            try Self.write(1..<601, &journal, bench)
            journal = try bench.recover()
            try Self.start(2 + round, &journal, bench)
            #expect(journal.streams.count == 5 && journal.restingStreamCount == 595)
            #expect(Set(journal.streams.keys) == Set((596..<601).map { JournalBench.description($0).name }))
            #expect(try Self.headByteCount(bench) < 10_000)
            #expect(bench.table(of: journal) == bench.standings)
        }
        // Those that are opened and not written rest again without another record.
        let byteCount = bench.disk.bytes(of: Self.table)?.count
        for stream in 1..<100 { _ = try journal.wake(JournalBench.description(stream)) }
        #expect(journal.streams.count == 104)
        try Self.start(9, &journal, bench)
        #expect(journal.streams.count == 5)
        #expect(bench.disk.bytes(of: Self.table)?.count == byteCount)
        bench.expectBatches(upTo: journal.end)
    }

    @Test func `one that woke and was sealed rests as sealed, and one that another owner takes over continues`() throws
    {
        let bench = try Self.bench(AwakeLimits(sealedCount: 0, openCountAtStart: 0))
        var journal = try bench.open()
        try Self.write(1..<10, &journal, bench)
        try Self.start(1, &journal, bench)
        #expect(journal.streams.isEmpty)
        _ = try journal.wake(JournalBench.description(3))
        bench.stage(.seal(length: StreamOffset(3)), of: 3, in: &journal)
        try bench.commit(&journal)
        let owned = try #require(JournalBench.description(4).owned(by: StreamOwner(principal: "web")))
        let former = try journal.standing(of: JournalBench.description(4))
        journal.adopt(try #require(former), as: owned)
        _ = try journal.commit(at: bench.groupTime)
        for number in 2..<4 as Range<UInt64> {
            journal = try bench.open()
            try Self.start(number, &journal, bench)
            let sealed = try journal.wake(JournalBench.description(3))
            #expect(sealed?.durable == StreamOffset(3))
            #expect(try journal.standing(of: owned)?.durable == StreamOffset(4))
            #expect(try journal.standing(of: owned)?.isSealed == false)
        }
        #expect(journal.restingStreamCount == 10)
    }

    @Test func `with too many of them a segment begins, and those that wait for it stay`() throws {
        let bench = try Self.bench(AwakeLimits(openCountAtStart: 2, openCount: 20, openCountMax: 50))
        var journal = try bench.open()
        try Self.start(1, &journal, bench)
        for first in stride(from: 1, to: 400, by: 10) {
            try Self.write(first..<(first + 10), &journal, bench)
            #expect(journal.streams.count <= 61)
        }
        #expect(journal.segments.count > 5)
        #expect(journal.restingStreamCount + journal.streams.count >= 400)
        // One that rests again and again while others are staged with it.
        for _ in 0..<30 { try Self.write(1..<60, &journal, bench) }
        journal = try bench.recover()
        #expect(bench.table(of: journal) == bench.standings)
    }

    @Test func `who opens all streams and writes none fills neither memory nor heads`() throws {
        let bench = try Self.bench(AwakeLimits(openCountAtStart: 2, openCount: 10, openCountMax: 20))
        var journal = try bench.open()
        try Self.write(1..<200, &journal, bench)
        try Self.start(1, &journal, bench)
        let (segments, table) = (journal.segments, bench.disk.bytes(of: Self.table))
        for round in 0..<3 {
            for stream in 1..<198 {
                _ = try journal.wake(JournalBench.description(stream))
                let name = JournalBench.description(stream).name
                #expect(journal.position(of: name).rawValue == bench.standings[name]?.durable)
                #expect(journal.streams.count <= 2 + 10 + round)
            }
            // What one of them gets continues, whatever wakes before its group is written.
            _ = try journal.wake(JournalBench.description(1 + round))
            bench.stageBatch(1 + round, in: &journal)
            for stream in 100..<150 { _ = try journal.wake(JournalBench.description(stream)) }
            try bench.commit(&journal)
        }
        #expect(journal.segments == segments && bench.disk.bytes(of: Self.table) == table)
        #expect(bench.table(of: journal) == bench.standings)
        try Self.start(2, &journal, bench)
        #expect(journal.streams.count == 2)
        #expect(try Self.headByteCount(bench) < 3_000)
        journal = try bench.recover()
        #expect(bench.table(of: journal) == bench.standings)
    }

    @Test func `a table that was damaged while it was open is not made again, and the next start finds it`() throws {
        let bench = try Self.bench(AwakeLimits(openCountAtStart: 0, remadeByteCountMin: 1_000))
        var journal = try bench.open()
        try Self.write(1..<20, &journal, bench)
        try Self.start(0, &journal, bench)
        try Self.write(1..<15, &journal, bench)
        var bytes = try #require(bench.disk.bytes(of: Self.table))
        // The end of a stream's record that counts after the others have newer ones.
        bytes[bytes.count - 1] ^= 1
        bench.disk.place(Self.table, bytes)
        try Self.start(1, &journal, bench)
        #expect(try #require(bench.disk.bytes(of: Self.table)).starts(with: bytes))
        journal = try bench.open()
        #expect(journal.recovery.isLossy && journal.recovery.damages.count == 1)
    }

    @Test func `records that count no more leave the table`() throws {
        let bench = try Self.bench(AwakeLimits(openCountAtStart: 0, remadeByteCountMin: 20_000))
        var journal = try bench.open()
        for round in 0..<20 as Range<UInt64> {
            try Self.write(1..<200, &journal, bench)
            try Self.start(round, &journal, bench)
            let byteCount = try #require(bench.disk.bytes(of: Self.table)).count
            #expect(byteCount <= 2 * 200 * 800)
            #expect(bench.table(of: journal) == bench.standings)
            if round % 3 == 0 { journal = try bench.recover() }
        }
        #expect(journal.restingStreamCount == 199)
        #expect(bench.disk.bytes(of: "/journal/resting.table.new") == nil)
    }

    @Test(arguments: [FaultyFiles.Fault.error(Errno.inputOutput), .half(Errno.noSpace), .short])
    func `a table that is made again, and fails or dies at any call, loses nothing`(fault: FaultyFiles.Fault) throws {
        for isDeath in [false, true] {
            var isOver = false
            for call in 1...120 where !isOver {
                let bench = try Self.bench(AwakeLimits(openCountAtStart: 0, remadeByteCountMin: 1_000))
                var journal = try bench.open()
                for round in 0..<2 as Range<UInt64> {
                    try Self.write(1..<8, &journal, bench)
                    try Self.start(round, &journal, bench)
                }
                try Self.write(1..<8, &journal, bench)
                if isDeath { bench.disk.stop(atCall: call) } else { bench.disk.fail(call: call, fault) }
                do {
                    try Self.start(9, &journal, bench)
                    isOver = bench.disk.faultCount == 0 && !bench.disk.isStopped
                } catch {
                    #expect(bench.disk.isStopped || bench.disk.faultCount > 0)
                }
                if isDeath { bench.disk.crash(seed: UInt64(call)) } else { bench.disk.clearFaults() }
                if !isDeath { try Self.write(1..<3, &journal, bench) }
                journal = try bench.recover()
                #expect(journal.recovery.damages.isEmpty, "\(call)")
                try Self.start(10, &journal, bench)
                #expect(bench.table(of: journal) == bench.standings, "\(call)")
                journal = try bench.recover()
                #expect(journal.recovery.damages.isEmpty && bench.table(of: journal) == bench.standings, "\(call)")
            }
            #expect(isOver)
        }
    }

    @Test func `without the table they are found in the segments`() throws {
        let bench = try Self.bench(AwakeLimits(openCountAtStart: 1))
        var journal = try bench.open()
        for round in 0..<4 as Range<UInt64> {
            try Self.write(Int(round) * 5 + 1..<Int(round) * 5 + 20, &journal, bench)
            journal = try bench.recover()
            try Self.start(round, &journal, bench)
        }
        try bench.disk.unlink(Self.table)
        journal = try bench.open(tables: .all)
        #expect(bench.table(of: journal) == bench.standings)
        try Self.start(9, &journal, bench)
        #expect(journal.streams.count == 1)
        #expect(bench.table(of: journal) == bench.standings)
        #expect(try bench.recover().recovery.damages.isEmpty)
    }

    @Test func `a journal that is read as a whole keeps few of them in memory`() throws {
        let bench = try Self.bench(AwakeLimits(sealedCount: 1, openCountAtStart: 0, openCount: 3))
        var journal = try bench.open()
        // Each is written in two of the segments, and some are sealed in a later one.
        for round in 0..<8 {
            try Self.write(round * 5 + 1..<round * 5 + 11, &journal, bench)
            if round > 3 {
                let stream = round * 5 - 10
                _ = try journal.wake(JournalBench.description(stream))
                let length = journal.position(of: JournalBench.description(stream).name)
                bench.stage(.seal(length: length), of: stream, in: &journal)
                try bench.commit(&journal)
            }
            try Self.start(UInt64(round), &journal, bench)
        }
        try bench.disk.unlink(Self.table)
        for number in 20..<22 as Range<UInt64> {
            journal = try bench.open(tables: .all)
            #expect(journal.streams.count <= 4)
            #expect(bench.table(of: journal) == bench.standings)
            try Self.start(number, &journal, bench)
            #expect(bench.table(of: journal) == bench.standings)
            journal = try bench.open()
            #expect(journal.recovery.damages.isEmpty)
        }
    }

    @Test func `where the archive has more of one at rest, it continues there`() throws {
        let bench = try Self.bench(AwakeLimits(openCountAtStart: 0))
        var journal = try bench.open()
        try Self.write(1..<4, &journal, bench)
        try Self.start(1, &journal, bench)
        let tail = try #require(StreamTail(end: StreamOffset(50), bytes: JournalBench.content(2, 0..<50)))
        let less = StreamTail(unknownBelow: StreamOffset(2))
        try journal.advance(to: [
            StreamStanding(description: JournalBench.description(2), tail: tail),
            StreamStanding(description: JournalBench.description(3), tail: less),
        ])
        #expect(journal.position(of: JournalBench.description(2).name) == StreamOffset(50))
        #expect(journal.streams[JournalBench.description(3).name] == nil)
        #expect(try journal.standing(of: JournalBench.description(3))?.durable == StreamOffset(3))
    }
}
