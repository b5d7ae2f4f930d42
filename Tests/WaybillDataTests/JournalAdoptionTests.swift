import Testing
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

/// A stream that gets another owner, and continues where it was.
@Suite struct JournalAdoptionTests {
    private static let owner = StreamOwner(principal: "web", bundles: ["com.example.*"])

    private static func owned(_ number: Int) throws -> StreamDescription {
        try #require(JournalBench.description(number).owned(by: self.owner))
    }

    @Test(arguments: [100, 2000])
    func `it continues at the offset with the proof, now and after a start`(byteCount: Int) throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        try journal.begin(JournalBench.seed(1), isLossy: false, at: bench.groupTime)
        bench.stageBatch(1, rawByteCount: byteCount, in: &journal)
        try bench.commit(&journal)
        let former = JournalBench.description(1).name
        let description = try Self.owned(1)
        let proof = journal.proof(of: former)
        journal.adopt(try #require(journal.streams[former]), as: description)
        #expect(journal.position(of: description.name) == StreamOffset(UInt64(byteCount)))
        #expect(journal.proof(of: description.name) == proof)
        _ = try journal.commit(at: bench.groupTime)
        #expect(journal.position(of: description.name) == StreamOffset(UInt64(byteCount)))
        #expect(journal.position(of: former) == StreamOffset(UInt64(byteCount)))
        // Nothing below the offset is taken again, and what follows is.
        #expect(
            journal.stage(JournalBench.batch(1, at: 0, rawByteCount: byteCount), of: description)
                == .alreadyHeld(StreamOffset(UInt64(byteCount))))
        #expect(journal.stage(JournalBench.batch(1, at: UInt64(byteCount)), of: description) == .staged)
        _ = try journal.commit(at: bench.groupTime)
        let end = journal.streams
        let again = try bench.open()
        #expect(again.recovery.damages.isEmpty)
        #expect(again.streams == end)
        #expect(again.streams[description.name]?.description.owner == Self.owner)
    }

    @Test func `a sealed stream stays sealed under its new name`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        try journal.begin(JournalBench.seed(1), isLossy: false, at: bench.groupTime)
        bench.stageBatch(1, rawByteCount: 700, in: &journal)
        bench.stage(.seal(length: StreamOffset(700)), of: 1, in: &journal)
        try bench.commit(&journal)
        let description = try Self.owned(1)
        let proof = journal.proof(of: JournalBench.description(1).name)
        journal.adopt(try #require(journal.streams[JournalBench.description(1).name]), as: description)
        let isSealed = journal.isSealed(description.name)
        #expect(isSealed)
        _ = try journal.commit(at: bench.groupTime)
        for journal in [journal.streams, try bench.open().streams] {
            #expect(journal[description.name]?.isSealed == true)
            #expect(journal[description.name]?.durable == StreamOffset(700))
            #expect(journal[description.name]?.proof == proof)
        }
    }

    @Test func `a crash before the group is durable leaves no trace of it`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        try journal.begin(JournalBench.seed(1), isLossy: false, at: bench.groupTime)
        bench.stageBatch(1, in: &journal)
        try bench.commit(&journal)
        let description = try Self.owned(1)
        journal.adopt(try #require(journal.streams[JournalBench.description(1).name]), as: description)
        let again = try bench.open()
        let known = [description.name, JournalBench.description(1).name].map { again.streams[$0] != nil }
        #expect(known == [false, true])
    }

    @Test func `a group that is torn anywhere leaves the stream at its offset, or unknown`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        try journal.begin(JournalBench.seed(1), isLossy: false, at: bench.groupTime)
        bench.stageBatch(1, in: &journal)
        try bench.commit(&journal)
        let start = journal.end.rawValue
        let description = try Self.owned(1)
        // The batch of another stream is between the lines of the group.
        #expect(journal.stage(JournalBench.batch(2, at: 0), of: JournalBench.description(2)) == .staged)
        journal.adopt(try #require(journal.streams[JournalBench.description(1).name]), as: description)
        #expect(journal.stage(JournalBench.batch(1, at: 100), of: description) == .staged)
        _ = try journal.commit(at: bench.groupTime)
        let path = JournalPath.segment(JournalPosition(0), in: bench.directory)
        let whole = try #require(bench.disk.bytes(of: path))
        var ends: Set<StreamOffset?> = []
        for count in start...whole.count {
            let torn = try JournalBench()
            torn.disk.place(path, Array(whole[..<count]))
            ends.insert(try torn.open().streams[description.name]?.durable)
        }
        #expect(ends == [nil, StreamOffset(100), StreamOffset(200)])
    }

    @Test func `readers see the batches of both owners once`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        try journal.begin(JournalBench.seed(1), isLossy: false, at: bench.groupTime)
        bench.stageBatch(1, in: &journal)
        try bench.commit(&journal)
        let description = try Self.owned(1)
        journal.adopt(try #require(journal.streams[JournalBench.description(1).name]), as: description)
        #expect(journal.stage(JournalBench.batch(1, at: 100), of: description) == .staged)
        _ = try journal.commit(at: bench.groupTime)
        var reader = JournalReader(directory: bench.directory, position: JournalPosition(0), files: bench.disk)
        var found: [String] = []
        while let record = try reader.next(upTo: journal.end) {
            found.append("\(record.description.name) \(record.header.offset.rawValue)")
        }
        #expect(found == ["stream-1 0", "web/stream-1 100"])
        #expect(reader.takeDamages().isEmpty)
    }
}
