import Testing
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

/// An `OPEN` line that damage changed into another good one: the mark behind it says so.
@Suite struct JournalDescriptionTests {
    private static let first = "/journal/00000000000000000000.journal"

    /// Changes the bundle in the first `OPEN` of a stream, so that the line still reads.
    private static func damageBundle(of stream: Int, in path: String, _ bench: JournalBench) throws {
        var bytes = try #require(bench.disk.bytes(of: path))
        let line = Array("{\"stream\":\"stream-\(stream)\"".utf8)
        let start = try #require(bytes.indices.first { bytes[$0...].starts(with: line) })
        let bundle = Array("com.example.app".utf8)
        let place = try #require(bytes.indices.first { $0 > start && bytes[$0...].starts(with: bundle) })
        bytes[place] ^= 1
        bench.disk.place(path, bytes)
    }

    private static func commit(
        _ streams: [Int], to journal: inout Journal<FaultyFiles>, _ bench: JournalBench
    ) throws {
        for stream in streams { bench.stageBatch(stream, in: &journal) }
        _ = try journal.commit(at: bench.groupTime)
        bench.staged = []
    }

    /// The bundles of what a reader finds, in order, and how many ranges it reports.
    private static func bundles(
        _ bench: JournalBench, upTo end: JournalPosition
    ) throws -> (bundles: [String], damageCount: Int) {
        var reader = JournalReader(directory: bench.directory, position: JournalPosition(0), files: bench.disk)
        var bundles: [String] = []
        while let record = try reader.next(upTo: end) {
            bundles.append("\(record.description.id.text) \(record.description.bundle)")
        }
        return (bundles, reader.takeDamages().count)
    }

    @Test func `damage is reported and costs no batch, and another segment says what the stream is`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        try Self.commit([1, 2], to: &journal, bench)
        try Self.commit([1], to: &journal, bench)
        let end = journal.end
        try Self.damageBundle(of: 1, in: Self.first, bench)
        // Alone, the line is believed, with a report.
        let alone = try Self.bundles(bench, upTo: end)
        #expect(
            alone.bundles == ["stream-1 bom.example.app1", "stream-2 com.example.app2", "stream-1 bom.example.app1"])
        #expect(alone.damageCount == 1)
        // Its writer still knows better, and says so at the head of the next segment.
        journal = try bench.open()
        try Self.commit([1], to: &journal, bench)
        #expect(journal.segments.count == 2)
        let found = try Self.bundles(bench, upTo: journal.end)
        let one = "stream-1 com.example.app1"
        #expect(found.bundles == [one, "stream-2 com.example.app2", one, one])
        #expect(found.damageCount == 1)
    }

    @Test func `the agent's description takes the place of a damaged one, also in the midst of a segment`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        try Self.commit([1, 2], to: &journal, bench)
        try Self.commit([1, 2], to: &journal, bench)
        try Self.damageBundle(of: 1, in: Self.first, bench)
        journal = try bench.open()
        #expect(journal.recovery.damages.count == 1)
        let name = JournalBench.description(1).name
        #expect(journal.streams[name]?.description.bundle == "bom.example.app1")
        #expect(journal.streams[name]?.durable == StreamOffset(200))
        // Another agent comes first, and its group begins a segment that restates the damaged line.
        try Self.commit([2], to: &journal, bench)
        try Self.commit([1], to: &journal, bench)
        #expect(journal.streams[name]?.description == JournalBench.description(1))
        #expect(journal.segments.count == 3)
        let end = journal.end
        journal = try bench.open()
        #expect(journal.streams[name]?.description == JournalBench.description(1))
        #expect(journal.recovery.damages == [])
        let bundles = try Self.bundles(bench, upTo: end).bundles
        #expect(bundles.count == 6)
        #expect(bundles.filter { $0.hasPrefix("stream-1") } == Array(repeating: "stream-1 com.example.app1", count: 3))
        // An agent that comes back says nothing new, and begins no segment.
        try Self.commit([1], to: &journal, bench)
        try Self.commit([1], to: &journal, bench)
        #expect(journal.segments.count == 4)
    }

    @Test func `a damaged head takes its descriptions from the segment before, for readers and for a start`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        try Self.commit([1, 2], to: &journal, bench)
        journal = try bench.open()
        let base = journal.end
        try Self.commit([1, 2], to: &journal, bench)
        try Self.commit([1], to: &journal, bench)
        try Self.damageBundle(of: 1, in: JournalPath.segment(base, in: "/journal"), bench)
        let found = try Self.bundles(bench, upTo: journal.end)
        let (one, two) = ("stream-1 com.example.app1", "stream-2 com.example.app2")
        #expect(found.bundles == [one, two, one, two, one])
        #expect(found.damageCount == 1)
        journal = try bench.open()
        #expect(journal.recovery.damages.count == 1)
        for stream in 1...2 {
            let description = JournalBench.description(stream)
            #expect(journal.streams[description.name]?.description == description)
        }
    }

    @Test func `what the archive says takes the place of a damaged description`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        try Self.commit([1], to: &journal, bench)
        try Self.commit([1], to: &journal, bench)
        try Self.damageBundle(of: 1, in: Self.first, bench)
        journal = try bench.open()
        let description = JournalBench.description(1)
        let tail = StreamTail(unknownBelow: StreamOffset(100))
        try journal.advance(to: [StreamStanding(description: description, tail: tail)])
        #expect(journal.streams[description.name]?.description == description)
        #expect(journal.position(of: description.name) == StreamOffset(200))
    }

    @Test func `a stream that an agent describes anew is what it was at each batch`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        let one = JournalBench.description(1)
        var moved = one
        moved.source += ".1"
        moved.bundle = "com.example.moved"
        let two = JournalBench.description(2)
        func stage(_ description: StreamDescription, _ stream: Int, _ offset: UInt64) {
            let batch = JournalBench.batch(stream, at: offset)
            #expect(journal.stage(batch, of: description) == .staged)
        }
        stage(one, 1, 0)
        stage(moved, 1, 100)
        stage(two, 2, 0)
        _ = try journal.commit(at: bench.groupTime)
        stage(moved, 1, 200)
        _ = try journal.commit(at: bench.groupTime)
        stage(one, 1, 300)
        stage(two, 2, 100)
        _ = try journal.commit(at: bench.groupTime)
        let found = try Self.bundles(bench, upTo: journal.end)
        #expect(found.damageCount == 0)
        #expect(
            found.bundles == [
                "stream-1 com.example.app1", "stream-1 com.example.moved", "stream-2 com.example.app2",
                "stream-1 com.example.moved", "stream-1 com.example.app1", "stream-2 com.example.app2",
            ])
        journal = try bench.open()
        #expect(journal.streams[one.name]?.description == one)
        #expect(journal.recovery.damages.isEmpty)
    }
}
