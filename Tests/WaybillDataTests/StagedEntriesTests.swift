import Testing
import WaybillProtocol

@testable import WaybillData

struct StagedEntriesTests {
    private let description = JournalBench.description(1)
    private var name: StreamName { self.description.name }

    private static func skip(from offset: UInt64, byteCount: UInt64) throws -> JournalEntry {
        .skip(
            try #require(
                SkippedRange(offset: StreamOffset(offset), byteCount: byteCount, reason: .truncated, tail: nil)))
    }

    @Test func `an entry continues its stream, is held, or does not fit`() throws {
        let batch = JournalBench.batch(1, at: 100, rawByteCount: 50)
        let at = [100, 150, 120, 99].map { batch.misfit(at: StreamOffset($0), isSealed: false) }
        #expect(at == [nil, .alreadyHeld(StreamOffset(150)), .gap(StreamOffset(120)), .gap(StreamOffset(99))])
        let afterSeal = [100, 150].map { batch.misfit(at: StreamOffset($0), isSealed: true) }
        #expect(afterSeal == [.sealed(StreamOffset(100)), .alreadyHeld(StreamOffset(150))])
        let seal = JournalEntry.seal(length: StreamOffset(7))
        let seals = [7, 8].map { seal.misfit(at: StreamOffset($0), isSealed: false) }
        #expect(seals == [nil, .gap(StreamOffset(8))])
        #expect(seal.misfit(at: StreamOffset(7), isSealed: true) == .alreadyHeld(StreamOffset(7)))
        let skip = try Self.skip(from: 7, byteCount: 3)
        #expect(skip.misfit(at: StreamOffset(7), isSealed: false) == nil)
    }

    @Test func `streams move when the entries are durable, and a description is staged once`() throws {
        var staged = StagedEntries()
        var streams: [StreamName: StreamStanding] = [:]
        var order = RestOrder(StreamTable())
        staged.add(JournalBench.batch(1, at: 0, rawByteCount: 50), of: description, after: nil)
        staged.add(try Self.skip(from: 50, byteCount: 10), of: description, after: nil)
        #expect(staged.end(of: name) == StreamOffset(60))
        #expect(staged.introduces(name) && !staged.isSealed(name))
        staged.add(.seal(length: StreamOffset(60)), of: description, after: nil)
        #expect(staged.entries.map { $0.description != nil } == [true, false, false])
        let proof = staged.proof(of: name)
        #expect(staged.isSealed(name) && proof != nil)
        staged.apply(to: &streams, &order)
        #expect(staged.entries.isEmpty && staged.end(of: name) == nil && !staged.isSealed(name))
        #expect(streams[name]?.durable == StreamOffset(60))
        #expect(streams[name]?.isSealed == true && streams[name]?.proof == proof)
        #expect(order.sealedCount == 1)
    }

    @Test func `a stream that is adopted stands where the former one did`() throws {
        var staged = StagedEntries()
        var order = RestOrder(StreamTable())
        var tail = StreamTail()
        tail.skip(
            try #require(SkippedRange(offset: StreamOffset(0), byteCount: 9, reason: .truncated, tail: nil)))
        let former = StreamStanding(description: JournalBench.description(1), tail: tail)
        let owned = try #require(description.owned(by: StreamOwner(principal: "web", bundles: [])))
        staged.adopt(former.renamed(owned))
        #expect(staged.end(of: owned.name) == StreamOffset(9) && staged.introduces(owned.name))
        var streams = [former.description.name: former]
        staged.apply(to: &streams, &order)
        #expect(streams[owned.name]?.durable == StreamOffset(9))
        #expect(streams[former.description.name] == former)
    }
}
