import Testing
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@Suite struct JournalStartTests {
    /// Opens the journal for a receiver's start.
    private static func start(
        _ number: UInt64, _ bench: JournalBench, endMin: JournalPosition = JournalPosition(0)
    ) throws -> Journal<FaultyFiles> {
        var journal = try bench.open(endMin: endMin)
        try journal.begin(seed(number), isLossy: false, at: bench.groupTime)
        return journal
    }

    private static func seed(_ number: UInt64) -> StartSeed { JournalBench.seed(number) }

    private static func commit(_ count: Int, _ journal: inout Journal<FaultyFiles>, _ bench: JournalBench) throws {
        for _ in 0..<count {
            bench.stageBatch(1, in: &journal)
            try bench.commit(&journal)
        }
    }

    @Test func `each start is listed with its position, and the incarnation stays`() throws {
        let bench = try JournalBench()
        var positions: [UInt64] = []
        for number in 1...40 {
            let before = try bench.open().end
            var journal = try Self.start(UInt64(number), bench)
            positions.append(UInt64(before.rawValue))
            let identity = journal.identity(name: "r")
            #expect(identity.incarnation == Incarnation(0, 1))
            #expect(identity.start == UInt64(number))
            #expect(identity.starts.map(\.id) == Array(UInt64(1)...UInt64(number)).suffix(16))
            #expect(identity.starts.map(\.position) == positions.suffix(16))
            #expect(identity.end == UInt64(journal.end.rawValue))
            #expect(journal.end > before)
            if number % 3 == 0 { try Self.commit(1, &journal, bench) }
        }
        let again = try bench.open()
        #expect(again.recovery.damages.isEmpty && !again.recovery.isLossy)
        #expect(again.segments.count == 40)
    }

    @Test func `the last thousand starts are kept`() throws {
        let bench = try JournalBench()
        for number in 1...1003 {
            _ = try Self.start(UInt64(number), bench)
            if number % 50 == 0 {
                var journal = try bench.open()
                _ = try journal.retire(before: journal.end, writtenBefore: WallTime(milliseconds: .max))
            }
        }
        let journal = try bench.open()
        let last = try #require(journal.segments.last)
        let head = try #require(bench.disk.bytes(of: JournalPath.segment(last, in: "/journal")))
        let starts = String(decoding: head, as: UTF8.self).split(separator: "\n").filter { $0.hasPrefix("START ") }
        #expect(starts.count == 1000)
        #expect(starts.first?.contains(" 0000000000000004 ") == true)
    }

    @Test func `a journal that was put back and then grew is known by the start that followed`() throws {
        let bench = try JournalBench()
        var journal = try Self.start(1, bench)
        try Self.commit(3, &journal, bench)
        let copy = bench.disk.tree("/journal")
        try Self.commit(3, &journal, bench)
        let remembered = journal.identity(name: "r")
        journal = try Self.start(2, bench)
        let restarted = journal.identity(name: "r")
        #expect(restarted.holds(start: remembered.start, end: remembered.end))
        for path in bench.disk.tree("/journal").keys { try bench.disk.unlink(path) }
        for (path, bytes) in copy { bench.disk.place(path, bytes) }
        bench.batches.removeLast(3)
        journal = try bench.open()
        bench.standings = bench.table(of: journal) ?? [:]
        // An end that no reader had passed tells it by the position of the start alone.
        try journal.begin(Self.seed(3), isLossy: false, at: bench.groupTime)
        #expect(journal.identity(name: "r").incarnation == remembered.incarnation)
        for round in 0..<8 {
            let identity = journal.identity(name: "r")
            #expect(!identity.holds(start: remembered.start, end: remembered.end))
            #expect(!identity.holds(start: restarted.start, end: restarted.end))
            #expect(identity.holds(start: 1, end: identity.starts[1].position))
            try Self.commit(1, &journal, bench)
            if round == 4 { journal = try Self.start(4, bench) }
        }
        #expect(UInt64(journal.end.rawValue) > restarted.end)
    }

    @Test func `a journal that ends before a reader begins another incarnation there, once`() throws {
        let bench = try JournalBench()
        var journal = try Self.start(1, bench)
        try Self.commit(2, &journal, bench)
        let (end, whole) = (journal.end, journal.identity(name: "r"))
        let path = JournalPath.segment(JournalPosition(0), in: "/journal")
        var bytes = try #require(bench.disk.bytes(of: path))
        bytes.removeLast(30)
        bench.disk.place(path, bytes)
        journal = try Self.start(2, bench, endMin: end)
        #expect(journal.recovery.isLossy)
        let identity = journal.identity(name: "r")
        #expect(identity.incarnation == Incarnation(0, 2))
        #expect(identity.starts == [ReceiverStart(id: 2, position: UInt64(end.rawValue))])
        #expect(!identity.holds(start: whole.start, end: whole.end))
        // What the incarnation began with is no news to the next start.
        journal = try Self.start(3, bench, endMin: end)
        #expect(!journal.recovery.damages.isEmpty && !journal.recovery.isLossy)
        #expect(journal.identity(name: "r").incarnation == Incarnation(0, 2))
    }

    @Test func `damage between whole groups begins another incarnation, a torn end does not`() throws {
        let source = try JournalBench()
        var journal = try Self.start(1, source)
        var ends: [Int] = []
        for _ in 0..<3 {
            try Self.commit(1, &journal, source)
            ends.append(journal.end.rawValue)
        }
        let path = JournalPath.segment(JournalPosition(0), in: "/journal")
        let bytes = try #require(source.disk.bytes(of: path))
        for (index, isLossy) in [(ends[0] - 5, true), (ends[1] - 5, true), (ends[2] - 5, false)] {
            let bench = try JournalBench()
            var damaged = bytes
            damaged[index] ^= 1
            bench.disk.place(path, damaged)
            let journal = try Self.start(2, bench)
            #expect(journal.recovery.isLossy == isLossy)
            #expect(journal.identity(name: "r").incarnation == Incarnation(0, isLossy ? 2 : 1))
            let again = try Self.start(3, bench)
            #expect(again.identity(name: "r").incarnation == Incarnation(0, isLossy ? 2 : 1))
        }
    }

    @Test func `losses elsewhere begin another incarnation, and an empty folder has none yet`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        try journal.begin(Self.seed(1), isLossy: true, at: bench.groupTime)
        #expect(journal.identity(name: "r").incarnation == Incarnation(0, 1))
        try journal.begin(Self.seed(2), isLossy: false, at: bench.groupTime)
        #expect(journal.identity(name: "r").incarnation == Incarnation(0, 1))
        try journal.begin(Self.seed(3), isLossy: true, at: bench.groupTime)
        #expect(journal.identity(name: "r").incarnation == Incarnation(0, 3))
        #expect(journal.identity(name: "r").starts.map(\.id) == [3])
    }

    @Test func `a start that the disk refuses goes with the first group`() throws {
        for call in 1...20 {
            let bench = try JournalBench()
            var journal = try Self.start(1, bench)
            try Self.commit(1, &journal, bench)
            let end = journal.end
            journal = try bench.open()
            bench.disk.fail(call: call, .error(Errno.noSpace))
            do {
                try journal.begin(Self.seed(2), isLossy: false, at: bench.groupTime)
                #expect(call > 4)
                return
            } catch {
                #expect(journal.identity(name: "r").starts.last == ReceiverStart(id: 2, position: UInt64(end.rawValue)))
            }
            bench.disk.clearFaults()
            try Self.commit(1, &journal, bench)
            bench.disk.crash(seed: 1)
            journal = try bench.recover()
            try journal.begin(Self.seed(3), isLossy: false, at: bench.groupTime)
            #expect(journal.identity(name: "r").starts.map(\.id) == [1, 2, 3])
        }
        Issue.record("the start never succeeds")
    }
}
