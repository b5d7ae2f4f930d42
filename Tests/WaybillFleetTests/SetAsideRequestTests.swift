import Testing
import WaybillData
import WaybillFleet
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

/// Lines that a fleet is asked not to read.
@Suite struct SetAsideRequestTests {
    private static let noon = WallTime(milliseconds: 1_795_165_200_000)

    private static func name(_ stream: Int, of principal: String = "") throws -> StreamName {
        StreamName(principal: principal, id: try #require(StreamID("stream-\(stream)")))
    }

    private static func ask(
        _ stream: Int, _ offset: UInt64, reader: String = "archive", _ store: MemoryStore
    ) throws -> (request: SetAsideRequest, isRepeated: Bool) {
        try #require(
            try SetAsideRequest.ask(
                reader: reader, try Self.name(stream), offset: offset, version: "1.2.3", now: Self.noon, in: store))
    }

    @Test func `a request is read as it is written`() throws {
        let request = SetAsideRequest(
            number: 7, reader: "ga4", stream: try Self.name(1, of: "shop \"one\""), offset: 48, version: "1.2.3",
            time: Self.noon)
        #expect(SetAsideRequest(request.encoded, number: 7) == request)
        #expect(SetAsideRequest(request.encoded, number: 8) == nil)
        var damaged = request.encoded
        damaged[20] ^= 1
        #expect(SetAsideRequest(damaged, number: 7) == nil)
    }

    @Test func `a request has the bytes of the page`() throws {
        let request = SetAsideRequest(
            number: 1, reader: "archive", stream: try Self.name(1), offset: 48, version: "0.1.0", time: Self.noon)
        let text = String(decoding: request.encoded, as: UTF8.self)
        #expect(
            text.hasPrefix(
                #"{"set_aside":1,"reader":"archive","principal":"","stream":"stream-1","offset":48,"version":"0.1.0","#
                    + #""time":1795165200000,"crc32":""#))
        #expect(SetAsideRequest.key(of: 1) == "merge/s00/set-aside/00000000000000000001.json")
    }

    @Test func `numbers count up, and no line is asked for twice`() throws {
        let store = MemoryStore()
        #expect(try Self.ask(1, 0, store).request.number == 1)
        #expect(try Self.ask(1, 48, store).request.number == 2)
        #expect(try Self.ask(1, 0, reader: "csv", store).request.number == 3)
        let again = try Self.ask(1, 48, store)
        #expect(again.request.number == 2 && again.isRepeated)
        // What is damaged keeps its number.
        store.place(SetAsideRequest.key(of: 2), Array("{}".utf8))
        #expect(try Self.ask(2, 0, store).request.number == 4)
    }

    @Test func `a round without such lines reads as before`() {
        var round = MergeRound(number: 4, merger: "m", time: Self.noon, through: Self.noon, pieces: [])
        #expect(!String(decoding: round.encoded, as: UTF8.self).contains("set_aside"))
        round.setAsides = [3, 1]
        #expect(MergeRound(round.encoded, number: 4) == round)
        round.setAsides = [0, 3, SetAsideRequest.countMax + 1]
        #expect(MergeRound(round.encoded, number: 4)?.setAsides == [3])
    }

    // MARK: Mergers

    @Test func `a round names the lines, and every merger has them until it says that they are done`() throws {
        let bench = CheckpointBench()
        let disks = [try CheckpointBench.disk(), try CheckpointBench.disk(), try CheckpointBench.disk()]
        try bench.receive(1)
        var first = try bench.merger("m1", disks[0])
        try bench.merge(&first, disks[0])
        _ = try Self.ask(1, 0, bench.store)
        bench.store.place(SetAsideRequest.key(of: 2), Array("{}".utf8))
        _ = try Self.ask(9, 0, bench.store)
        try bench.merge(&first, disks[0])
        // One that cannot be read holds up no other.
        #expect(first.setAsides.named == [1, 3])
        #expect(first.setAsides.pending == [1, 3])
        #expect(try first.setAsideRequest(1).stream == Self.name(1))
        try first.setAside(1)
        first = try bench.merger("m1", disks[0])
        #expect(first.setAsides.named == [1, 3])
        #expect(first.setAsides.pending == [3])
        var second = try bench.merger("m2", disks[1])
        try bench.merge(&second, disks[1])
        #expect(second.setAsides.pending == [1, 3])
        #expect(second.end == first.end && second.round == first.round)

        // One that begins with nothing knows them before it has merged a line.
        var third = try bench.merger("m3", disks[2])
        #expect(third.round == 0)
        try third.lookAheadForSetAsides()
        #expect(third.round == 0 && third.setAsides.pending == [1, 3])
        try bench.merge(&third, disks[2])
        #expect(third.setAsides == second.setAsides)

        bench.store.place(SetAsideRequest.key(of: 3), nil)
        do throws(MergeFailure) {
            _ = try third.setAsideRequest(3)
            Issue.record("it was read")
        } catch {
            if case .setAsideGone(3) = error {} else { Issue.record("\(error)") }
            #expect(error.isPassing)
        }
    }

    @Test func `a merger that has read a line never names it, and follows one that has not`() throws {
        let bench = CheckpointBench()
        let disks = [try CheckpointBench.disk(), try CheckpointBench.disk()]
        try bench.receive(1)
        var reader = try bench.merger("m1", disks[0], standing: { _ in .read(upTo: JournalPosition(.max)) })
        try bench.merge(&reader, disks[0])
        _ = try Self.ask(1, 0, bench.store)
        let round = reader.round
        try bench.merge(&reader, disks[0])
        #expect(reader.round == round && reader.setAsides.named == [])
        // A line that has not come is not read either.
        _ = try Self.ask(2, 0, bench.store)
        bench.now += 60_000
        try bench.merge(&reader, disks[0])
        #expect(reader.setAsides.named == [2])

        var other = try bench.merger("m2", disks[1], standing: { _ in .read(upTo: JournalPosition(0)) })
        try bench.merge(&other, disks[1])
        #expect(other.setAsides.named == [1, 2])
        try bench.merge(&reader, disks[0])
        #expect(reader.setAsides == other.setAsides)
        let request = try reader.setAsideRequest(1)
        #expect(try reader.hasRead(request, upTo: reader.end))
        #expect(try !reader.hasRead(request, upTo: JournalPosition(0)))
        #expect(try !reader.hasRead(try reader.setAsideRequest(2), upTo: reader.end))
    }

    @Test func `a request waits for its reader's start, and its line for the round that names it`() throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        try bench.receive(1)
        var merger = try bench.merger("m1", files)
        try bench.merge(&merger, files)
        let standing = Lock(ReaderStanding.unknown)
        _ = try Self.ask(1, 0, bench.store)
        // A damaged one, and one of a line that has not come, keep no one waiting.
        bench.store.place(SetAsideRequest.key(of: 2), Array("{}".utf8))
        _ = try Self.ask(2, 0, reader: "csv", bench.store)

        merger = try bench.merger("m1", files, standing: { _ in standing.withLock { $0 } })
        try merger.lookAheadForSetAsides()
        #expect(try merger.awaitsSetAside())
        try bench.merge(&merger, files)
        var waits = merger.waitsForReader
        #expect(merger.setAsides.named == [] && waits)
        standing.withLock { $0 = .read(upTo: JournalPosition(0)) }
        #expect(try merger.awaitsSetAside())
        try bench.merge(&merger, files)
        #expect(merger.setAsides.named == [1, 3])
        #expect(try !merger.awaitsSetAside())
        waits = merger.waitsForReader
        #expect(!waits)

        // A reader that turns out to have read the line does not wait, and its merger does not name it.
        _ = try Self.ask(1, 48, bench.store)
        merger = try bench.merger("m1", files, standing: { _ in standing.withLock { $0 } })
        standing.withLock { $0 = .unknown }
        try merger.lookAheadForSetAsides()
        #expect(try merger.awaitsSetAside())
        standing.withLock { $0 = .read(upTo: JournalPosition(.max)) }
        #expect(try !merger.awaitsSetAside())
        try bench.merge(&merger, files)
        #expect(merger.setAsides.named == [1, 3])
    }

    @Test func `a checkpoint whose archive has the line is passed over for one that has not`() throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        var merger = try bench.merger("m1", files)
        try bench.receive(1)
        try bench.merge(&merger, files)
        try bench.make(merger, files, seed: 1)
        let before = merger.round
        try bench.receive(2)
        try bench.merge(&merger, files)
        try bench.make(merger, files, seed: 2)
        // The first line of the second stream; only an export does not read one of the first.
        _ = try Self.ask(2, 0, bench.store)
        _ = try Self.ask(1, 0, reader: "csv", bench.store)
        try bench.merge(&merger, files)
        #expect(merger.setAsides.named == [1, 2])

        let restored = try CheckpointBench.disk()
        guard case .restored(let report) = try bench.restore(restored) else {
            Issue.record("nothing was restored")
            return
        }
        #expect(report.round == before)
        #expect(report.damaged.count == 1 && report.damaged[0].contains("which was set aside"))
        // A checkpoint of a merger that left it out is taken.
        for request in [1, 2] { try merger.setAside(request) }
        try bench.receive(3)
        try bench.merge(&merger, files)
        try bench.make(merger, files, seed: 3)
        guard case .restored(let newest) = try bench.restore(try CheckpointBench.disk()) else {
            Issue.record("nothing was restored")
            return
        }
        #expect(newest.damaged == [] && newest.round == merger.round)
    }
}
