import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@testable import WaybillTail

/// Files that move between the receivers of a fleet.
struct TailFleetTests {
    private static let segmentID = "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001"
    private static let fleet = "7d2a40c5e9b1836f04d8fa6e21c97b53"
    private static let otherFleet = "0c5e9b1836f04d8fa6e21c97b537d2a4"
    private let files = FaultyFiles()
    private let segment = "/spool/\(Self.segmentID).ndjson"
    private let log = "/log/a.log"

    private func bench() throws -> TailBench<FaultyFiles> {
        let bench = try TailBench(files)
        bench.receiver.fleet = Self.fleet
        return bench
    }

    private func store(_ name: String, of fleet: String? = Self.fleet) -> BenchStore { BenchStore(name, of: fleet) }

    private func logID(_ bench: TailBench<FaultyFiles>) throws -> String { try #require(bench.order.first) }

    /// A log of two lines at the first receiver, of which the fleet has stored the first.
    private func halfStored() throws -> (bench: TailBench<FaultyFiles>, id: String) {
        let bench = try bench()
        files.append(log, "one\ntwo\n")
        bench.run()
        let id = try logID(bench)
        bench.store(id, upTo: 4)
        return (bench, id)
    }

    // MARK: Receivers that stood alone

    @Test func `a receiver that stood alone is asked first, and about files with no more to send`() throws {
        let bench = try TailBench(files)
        files.append(log, "one\ntwo\n")
        bench.run()
        let id = try logID(bench)
        #expect(bench.withTail { $0.addressToAskFirst } == nil, "there is no fleet")
        let questionCount = bench.questionCount
        // The agent hears of the fleet, and ends before anything more was said.
        bench.receiver.fleet = Self.fleet
        bench.loseConnection()
        #expect(try bench.meet() == .known)
        #expect(bench.withTail { $0.addressToAskFirst } == bench.receiver.address)
        try bench.restart()
        #expect(bench.withTail { $0.addressToAskFirst } == bench.receiver.address)
        #expect(try bench.meet() == .known)
        bench.run()
        #expect(bench.questionCount == questionCount + 1)
        bench.store(id, upTo: 8)
        #expect(bench.withTail { $0.addressToAskFirst } == nil)
        // Another one gets what comes after that.
        files.append(log, "three\n")
        var second = store("second")
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.skipped == [id: ["0+8 before"]])
        #expect(bench.received[id] == Array("one\ntwo\nthree\n".utf8))
        #expect(bench.withTail { $0.addressToAskFirst } == nil, "no one is asked twice")
    }

    // MARK: Failover

    @Test func `another receiver gets what is not stored, and not what was acknowledged`() throws {
        let (bench, id) = try halfStored()
        var second = store("second")
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.claimed == [4])
        #expect(bench.skipped == [id: ["0+4 elsewhere"]])
        #expect(bench.received[id] == Array("one\ntwo\n".utf8), "the tail shows what was skipped")
        #expect(bench.losses == [])
    }

    @Test func `a segment is deleted after SEALED of the receiver that it has come to`() throws {
        let bench = try bench()
        files.append(segment, "one\ntwo\n")
        bench.holdsSeals = true
        bench.run()
        bench.store(Self.segmentID, upTo: 8)
        #expect(files.exists(segment), "STORED deletes nothing")
        var second = store("second")
        bench.exchange(with: &second)
        bench.holdsSeals = false
        bench.settle()
        #expect(bench.skipped[Self.segmentID] == ["0+8 elsewhere"])
        #expect(bench.sealed == [Self.segmentID])
        #expect(!files.exists(segment))
    }

    @Test func `a segment that is skipped to its end while its writer has it is sealed once that has gone`() throws {
        let bench = try bench()
        let writer = try files.open(segment, .append)
        #expect(try files.lock(writer, .shared))
        try files.writeAll(writer, Array("one\ntwo\n".utf8))
        bench.run()
        bench.store(Self.segmentID, upTo: 8)
        var second = store("second")
        bench.exchange(with: &second)
        bench.ship(readCountMax: 1)
        #expect(bench.skipped == [:], "the receiver has answered, and there is more to send")
        bench.scan()
        bench.run()
        files.close(writer)
        bench.settle()
        #expect(bench.skipped[Self.segmentID] == ["0+8 elsewhere"])
        #expect(bench.sealed == [Self.segmentID])
        #expect(!files.exists(segment))
    }

    @Test func `back at a receiver that holds more than is stored nothing is skipped`() throws {
        let (bench, id) = try halfStored()
        var second = store("second")
        bench.exchange(with: &second)
        bench.run()
        files.append(log, "three\n")
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.skipped == [id: ["0+4 elsewhere"]], "the first receiver was asked for nothing")
        #expect(bench.received[id] == Array("one\ntwo\nthree\n".utf8))
    }

    @Test func `a known receiver that has stayed behind gets what came meanwhile skipped`() throws {
        let (bench, id) = try halfStored()
        var second = store("second")
        bench.exchange(with: &second)
        files.append(log, "three\n")
        bench.run()
        bench.store(id, upTo: 14)
        files.append(log, "four\n")
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.claimed == [4, 14])
        #expect(bench.skipped[id] == ["0+4 elsewhere", "8+6 elsewhere"])
        #expect(bench.received[id]?.suffix(5) == Array("four\n".utf8)[...])
    }

    @Test func `a log that is stored to its end is not opened, until it grows`() throws {
        let (bench, id) = try halfStored()
        bench.store(id, upTo: 8)
        let count = bench.questionCount
        var second = store("second")
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.questionCount == count)
        #expect(bench.withTail { $0.needsReceiver } == false)
        files.append(log, "three\n")
        bench.run()
        #expect(bench.skipped == [id: ["0+8 elsewhere"]])
        #expect(bench.received[id]?.suffix(6) == Array("three\n".utf8)[...])
    }

    @Test func `a receiver outside the fleet gets everything, and changes nothing`() throws {
        let (bench, id) = try halfStored()
        var alone = store("alone", of: nil)
        bench.exchange(with: &alone)
        bench.run()
        #expect(bench.claimed == [])
        #expect(bench.received[id] == Array("one\ntwo\n".utf8))
        bench.store(id, upTo: 8)
        var second = store("second")
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.claimed == [4], "who belongs to no fleet stores nothing for one")
    }

    // MARK: Other bytes

    @Test func `a log that was rewritten under its first line is a new stream at the next receiver`() throws {
        let (bench, id) = try halfStored()
        bench.store(id, upTo: 8)
        bench.loseConnection()
        files.place(log, Array("one\nNEW and longer than before\n".utf8))
        var second = store("second")
        bench.exchange(with: &second)
        bench.settle()
        #expect(bench.skipped == [:])
        let next = id.dropLast() + "1"
        #expect(bench.received == [String(next): Array("one\nNEW and longer than before\n".utf8)])
    }

    @Test func `a segment whose stored bytes are others is sent from where the receiver stands`() throws {
        let bench = try bench()
        files.append(segment, "one\ntwo\n")
        bench.holdsSeals = true
        bench.run()
        bench.store(Self.segmentID, upTo: 8)
        bench.loseConnection()
        files.place(segment, Array("uno\ndue\ntre\n".utf8))
        var second = store("second")
        bench.exchange(with: &second)
        bench.holdsSeals = false
        bench.settle()
        #expect(bench.claimed == [])
        #expect(bench.received[Self.segmentID] == Array("uno\ndue\ntre\n".utf8))
    }

    @Test func `a receiver with other bytes under the stream's id is not believed`() throws {
        let (bench, id) = try halfStored()
        var second = store("second")
        second.received[id] = Array("uno\n".utf8)
        second.order = [id]
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.skipped == [:])
        let next = String(id.dropLast() + "1")
        #expect(bench.received[next] == Array("one\ntwo\n".utf8), "twice in the fleet, and not lost")
    }

    // MARK: The registry

    @Test(arguments: [true, false])
    func `what is stored is remembered over a restart, once it was written`(isWritten: Bool) throws {
        let (bench, id) = try halfStored()
        if isWritten { try bench.checkpoint() }
        try bench.restart()
        var second = store("second")
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.claimed == (isWritten ? [4] : []))
        #expect(bench.received[id] == Array("one\ntwo\n".utf8))
    }

    @Test func `an agent without a registry sends everything`() throws {
        let (bench, id) = try halfStored()
        try bench.checkpoint()
        bench.kill()
        try files.unlink(bench.registryPath)
        try bench.start()
        var second = store("second")
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.claimed == [])
        #expect(bench.received[id] == Array("one\ntwo\n".utf8))
    }

    @Test(arguments: [true, false])
    func `another fleet makes everything void, also for the way back`(isRestarted: Bool) throws {
        let (bench, id) = try halfStored()
        try bench.checkpoint()
        var stranger = store("stranger", of: Self.otherFleet)
        bench.exchange(with: &stranger)
        bench.run()
        #expect(bench.claimed == [])
        #expect(bench.received[id] == Array("one\ntwo\n".utf8))
        if isRestarted { try bench.restart() }
        var second = store("second")
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.claimed == [])
        #expect(bench.received[id] == Array("one\ntwo\n".utf8))
    }

    @Test func `the other fleet is on disk before anything is opened there`() throws {
        let (bench, _) = try halfStored()
        try bench.checkpoint()
        var stranger = store("stranger", of: Self.otherFleet)
        bench.exchange(with: &stranger)
        try bench.meet()
        try bench.restart()
        #expect(bench.withTail { $0.fleet } == Self.otherFleet)
        bench.scan()
        #expect(bench.withTail { tail in tail.streams.compactMap { tail.storedOffset(of: $0) } } == [])
    }

    @Test(arguments: [
        "1:0:4:88efdc26636ef92fe896d762ef1aed71:a~b:c", "0:0:4:88efdc26636ef92fe896d762ef1aed71:a",
        "1:0:0:88efdc26636ef92fe896d762ef1aed71:a", "1:0:4:-:a", "1:0:4:88efdc26636ef92fe896d762ef1aed71", "",
    ])
    func `an offset is read as it was written, and no other text is one`(text: String) {
        let isGood = text.hasPrefix("1:0:4:8") && text.hasSuffix("c")
        let stored = StoredOffset(text[...])
        #expect((stored != nil) == isGood)
        #expect(stored.flatMap { StoredOffset($0.text[...]) } == stored)
    }

    // MARK: The end of a run

    @Test func `storage is awaited for what the receiver holds, and not beyond a fleet`() throws {
        let (bench, id) = try halfStored()
        #expect(bench.withTail { $0.isAwaitingStorage } == true)
        bench.store(id, upTo: 8)
        #expect(bench.withTail { $0.isAwaitingStorage } == false)
        files.append(log, "three\n")
        bench.run()
        #expect(bench.withTail { $0.isAwaitingStorage } == true)
        bench.loseConnection()
        #expect(bench.withTail { $0.isAwaitingStorage } == false)
    }
}
