import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@testable import WaybillTail

/// Files of which a receiver took bytes before it belonged to a fleet.
struct TailBeforeTests {
    private static let id = "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001"
    private static let fleet = "7d2a40c5e9b1836f04d8fa6e21c97b53"
    private static let week: Int64 = 7 * 86_400_000
    private let files = FaultyFiles()
    private let segment = "/spool/\(Self.id).ndjson"

    private func store(_ name: String) -> BenchStore { BenchStore(name, of: Self.fleet) }

    /// A file of two lines at a receiver that stood alone, and has said with its first answer what it has.
    private func joined(_ path: String) throws -> TailBench<FaultyFiles> {
        let bench = try TailBench(files)
        bench.holdsSeals = true
        files.append(path, "one\ntwo\n")
        bench.run()
        bench.receiver.fleet = Self.fleet
        bench.loseConnection()
        bench.run()
        bench.store(try #require(bench.order.first), upTo: 8)
        return bench
    }

    /// Such a segment that another receiver has sealed without these bytes.
    ///
    /// - Parameter holder: the receiver that stood alone.
    private func waiting(_ holder: inout BenchStore) throws -> TailBench<FaultyFiles> {
        let bench = try joined(segment)
        holder = store("second")
        bench.exchange(with: &holder)
        bench.holdsSeals = false
        bench.settle()
        #expect(bench.skipped == [Self.id: ["0+8 before"]])
        #expect(bench.sealed == [Self.id] && files.exists(segment))
        return bench
    }

    private func isOverdue(_ bench: TailBench<FaultyFiles>) throws -> Bool {
        let now = bench.now
        return try bench.withTail { tail in tail.isOverdue(try #require(tail.streams.first), now) }
    }

    private func sent(_ bench: TailBench<FaultyFiles>, behind count: Int) -> [String] {
        bench.batches.dropFirst(count).map {
            "\($0.id == Self.id) \($0.offset) \(String(decoding: $0.bytes, as: UTF8.self))"
        }
    }

    // MARK: What is skipped

    @Test func `what was before the fleet is skipped as that, and what is stored behind it as elsewhere`() throws {
        let bench = try joined("/log/a.log")
        let id = try #require(bench.order.first)
        files.append("/log/a.log", "three\n")
        bench.run()
        bench.store(id, upTo: 14)
        files.append("/log/a.log", "four\n")
        var second = store("second")
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.claimed == [14])
        #expect(bench.skipped == [id: ["0+8 before", "8+6 elsewhere"]])
        #expect(bench.received[id] == Array("one\ntwo\nthree\nfour\n".utf8))
        // Nothing waits because of a log.
        #expect(bench.withTail { $0.addressToAskFirst } == nil && bench.disputed == [])
    }

    @Test func `lines of a receiver that was gone before it was asked are in both`() throws {
        let bench = try TailBench(files)
        bench.holdsSeals = true
        files.append(segment, "one\ntwo\n")
        bench.run()
        var second = store("second")
        bench.exchange(with: &second)
        bench.holdsSeals = false
        bench.settle()
        #expect(bench.skipped == [:])
        #expect(bench.received[Self.id] == Array("one\ntwo\n".utf8) && second.received == bench.received)
        #expect(!files.exists(segment), "the fleet has all of it")
    }

    // MARK: What waits

    @Test func `a segment is deleted when the holder has sealed it, too`() throws {
        var holder = store("second")
        let bench = try waiting(&holder)
        #expect(bench.withTail { $0.addressToAskFirst } == holder.receiver.address)
        let batchCount = bench.batches.count
        bench.exchange(with: &holder)
        bench.settle()
        #expect(!files.exists(segment) && bench.sealed == [Self.id])
        #expect(bench.batches.count == batchCount, "nothing was sent again")
        #expect(bench.withTail { $0.addressToAskFirst } == nil)
    }

    @Test func `a holder that seals other bytes lets no segment go`() throws {
        var holder = store("second")
        let bench = try waiting(&holder)
        bench.exchange(with: &holder)
        bench.liesAbout = [Self.id]
        bench.settle()
        #expect(files.exists(segment))
    }

    @Test func `the notice is given once, with the holder's name`() throws {
        var holder = store("second")
        let bench = try waiting(&holder)
        bench.advance(3_600_000)
        bench.settle()
        let path = segment
        #expect(
            bench.notices.filter { if case .segmentAwaits = $0 { true } else { false } } == [
                .segmentAwaits(StreamID(unchecked: Self.id), path: path, holder: "bench", byteCount: 8)
            ])
        #expect(try bench.withTail { $0.awaitedHolder(of: try #require($0.streams.first)) } == "bench")
    }

    @Test(arguments: [true, false])
    func `what waits is remembered over a restart, since when, and for whom`(isWritten: Bool) throws {
        var holder = store("second")
        let bench = try waiting(&holder)
        if isWritten { try bench.checkpoint() }
        bench.advance(Self.week / 2)
        try bench.restart()
        bench.run()
        #expect(files.exists(segment) && bench.sealed == [Self.id])
        #expect(bench.withTail { $0.addressToAskFirst } == holder.receiver.address)
        bench.advance(Self.week / 2)
        #expect(try isOverdue(bench) == isWritten, "what was not written counts from the next answer")
        bench.exchange(with: &holder)
        bench.settle()
        #expect(!files.exists(segment))
    }

    // MARK: What is sent in the end

    @Test func `to a holder that lost its data everything is sent, and that is sealed`() throws {
        var holder = store("second")
        let bench = try waiting(&holder)
        let batchCount = bench.batches.count
        var other = store("bench")
        other.receiver.incarnation = Incarnation(7, 7)
        bench.exchange(with: &other)
        bench.settle()
        #expect(sent(bench, behind: batchCount) == ["true 0 one\ntwo\n"])
        #expect(bench.sealed == [Self.id] && !files.exists(segment))
        #expect(bench.skipped == [Self.id: ["0+8 before"]])
    }

    @Test func `to a holder that came back older what it lacks is sent`() throws {
        var holder = store("second")
        let bench = try waiting(&holder)
        let batchCount = bench.batches.count
        bench.exchange(with: &holder)
        bench.received[Self.id] = Array("one\n".utf8)
        bench.receiverCameBackOlder()
        bench.settle()
        #expect(sent(bench, behind: batchCount) == ["true 4 two\n"])
        #expect(bench.sealed == [Self.id] && !files.exists(segment))
    }

    @Test(arguments: [true, false])
    func `the receiver that skipped the bytes lets nothing go while no one has them`(isRestarted: Bool) throws {
        var holder = store("second")
        let bench = try waiting(&holder)
        var other = store("bench")
        other.receiver.incarnation = Incarnation(7, 7)
        bench.exchange(with: &other)
        // It is gone again before anything was sent.
        try bench.meet()
        if isRestarted { try bench.restart() }
        bench.exchange(with: &other)
        bench.settle()
        bench.store(Self.id, upTo: 8)
        #expect(files.exists(segment))
        #expect(bench.withTail { tail in tail.streams.compactMap { tail.storedOffset(of: $0) } } == [])
        #expect(bench.withTail { $0.addressToAskFirst } == other.receiver.address)
        bench.exchange(with: &other)
        bench.settle()
        #expect(bench.received[Self.id] == Array("one\ntwo\n".utf8) && !files.exists(segment))
    }

    @Test func `another receiver behind the same address takes nobody's place`() throws {
        var holder = store("second")
        let bench = try waiting(&holder)
        let batchCount = bench.batches.count
        var other = store("bench")
        other.receiver.incarnation = Incarnation(7, 7)
        other.receiver.name = "another"
        bench.exchange(with: &other)
        bench.settle()
        #expect(bench.skipped == [Self.id: ["0+8 before", "0+8 before"]])
        #expect(bench.batches.count == batchCount && files.exists(segment))
    }

    @Test func `after a week the bytes are sent under another id`() throws {
        var holder = store("second")
        let bench = try waiting(&holder)
        bench.advance(Self.week - 3_600_000)
        bench.settle()
        #expect(try !isOverdue(bench))
        bench.advance(3_600_000)
        bench.settle()
        #expect(try isOverdue(bench), "since it was sealed first, however often it was asked for meanwhile")
        _ = try Reshipment.reship(segment, on: files)
        bench.settle()
        let next = try #require(bench.order.last)
        #expect(next.hasPrefix(Self.id + ":") && bench.sealed.contains(next))
        #expect(bench.received[next] == Array("one\ntwo\n".utf8))
        #expect(files.names(in: "/spool") == [])
    }

    // MARK: The registry

    @Test func `an entry is read as it was written, and no other text is one`() {
        for text in ["1:2:8:1:a", "1:2:0:1:Collector-1._", "1:2:8:0:\(String(repeating: "a", count: 64))"] {
            #expect(BeforeFleet(text[...])?.text == text)
        }
        for text in [
            "", "0:2:8:1:a", "1:0:8:1:a", "1:2:8:2:a", "1:2:8:1", "1:2:-8:1:a", "1:2:8:1:", "1:2:8:1:a b",
            "1:2:8:1:a:1",
            "1:2:8:1:\(String(repeating: "a", count: 65))",
        ] { #expect(BeforeFleet(text[...]) == nil, "\(text)") }
    }
}
