import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTail
import WaybillTestSupport

/// Receivers that hold other bytes, more, less, or nothing of what the agent sent.
struct TailTrustTests {
    private static let segmentID = "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001"
    private let files = FaultyFiles()
    private let segment = "/spool/\(Self.segmentID).ndjson"

    private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    private func store(_ name: String, holding received: [String: String] = [:]) -> BenchStore {
        BenchStore(receiver: BenchReceiver(name: name), received: received.mapValues { Array($0.utf8) })
    }

    /// The id of another incarnation of a foreign stream.
    private func id(_ id: String, _ incarnation: Int) -> String {
        id.prefix(through: id.lastIndex(of: "-") ?? id.startIndex) + "\(incarnation)"
    }

    private func disputes(_ bench: TailBench<FaultyFiles>) -> Int {
        bench.notices.count { if case .segmentDisputed = $0 { true } else { false } }
    }

    // MARK: Segments

    @Test(arguments: ["uno\n", "one\nand more\n", "o", "\n"], [true, false])
    func `a segment of which the receiver holds other bytes stays, and goes to the next receiver`(
        held: String, isSealed: Bool
    ) throws {
        // Unsealed, the first byte agrees, and the rest follows it.
        guard held != "o" || isSealed else { return }
        let bench = try TailBench(files)
        bench.received[Self.segmentID] = bytes(held)
        if isSealed { bench.sealed.insert(Self.segmentID) }
        files.append(segment, "one\n")
        bench.settle()
        #expect(Set(bench.disputed) == [Self.segmentID])
        #expect(disputes(bench) == 1)
        #expect(files.bytes(of: segment) == bytes("one\n"))
        #expect(bench.received[Self.segmentID] == bytes(held))
        var other = store("other")
        bench.exchange(with: &other)
        bench.settle()
        #expect(bench.received[Self.segmentID] == bytes("one\n"))
        #expect(!files.exists(segment))
        #expect(bench.losses == [])
    }

    @Test func `a disputed segment is asked for again, and goes when the receiver proves its bytes`() throws {
        let bench = try TailBench(files)
        files.append(segment, "one\n")
        bench.liesAbout = [Self.segmentID]
        bench.settle()
        #expect(files.exists(segment))
        bench.liesAbout = []
        bench.loseConnection()
        bench.settle()
        #expect(bench.received[Self.segmentID] == bytes("one\n"))
        #expect(!files.exists(segment))
    }

    @Test(arguments: [true, false])
    func `since when each receiver has disagreed is remembered until one agrees`(isRestarted: Bool) throws {
        let bench = try TailBench(files)
        let other = BenchReceiver(name: "other")
        let addresses = [bench.receiver.address, other.address]
        files.append(segment, "one\n")
        bench.liesAbout = [Self.segmentID]
        bench.settle()
        func isDisputed(at addresses: [String], for duration: Duration) throws -> Bool {
            let now = bench.now
            return try bench.withTail { tail in
                tail.isDisputed(try #require(tail.streams.first), at: addresses, for: duration, now)
            }
        }
        bench.advance(3 * 86_400_000)
        if isRestarted {
            try bench.checkpoint()
            try bench.restart()
            bench.run()
        }
        #expect(try isDisputed(at: [addresses[0]], for: .seconds(3 * 86_400)))
        #expect(try !isDisputed(at: [addresses[0]], for: .seconds(4 * 86_400)))
        #expect(try !isDisputed(at: addresses, for: .zero))
        var store = BenchStore(receiver: other)
        bench.exchange(with: &store)
        bench.run()
        bench.advance(86_400_000)
        #expect(try isDisputed(at: addresses, for: .seconds(86_400)))
        #expect(try !isDisputed(at: addresses, for: .seconds(2 * 86_400)))
        // A receiver that came back older has not disagreed yet.
        bench.receiverCameBackOlder()
        bench.receiver.starts = [ReceiverStart(id: 99, position: 0)]
        try bench.meet()
        #expect(try !isDisputed(at: addresses, for: .zero))
        bench.liesAbout = []
        bench.settle()
        #expect(!files.exists(segment))
    }

    @Test func `a receiver that has sealed a part of a segment disagrees since it first did, not since it last did`()
        throws
    {
        let bench = try TailBench(files)
        bench.received[Self.segmentID] = bytes("one\n")
        bench.sealed.insert(Self.segmentID)
        files.append(segment, "one\nand more\n")
        bench.settle()
        bench.advance(3 * 86_400_000)
        bench.settle()
        #expect(bench.disputed.count > 3)
        let now = bench.now
        let isDisputed = try bench.withTail { [address = bench.receiver.address] tail in
            tail.isDisputed(try #require(tail.streams.first), at: [address], for: .seconds(3 * 86_400), now)
        }
        #expect(isDisputed)
        var other = store("other")
        bench.exchange(with: &other)
        bench.settle()
        #expect(bench.received[Self.segmentID] == bytes("one\nand more\n"))
        #expect(!files.exists(segment))
    }

    @Test func `a segment that a power cut shortened is kept, and is no dispute`() throws {
        let bench = try TailBench(files)
        let text = String(repeating: "a line of some length\n", count: 40)
        files.append(segment, text + "two\n")
        let writer = try files.open(segment, .append)
        #expect(try files.lock(writer, .shared))
        bench.run()
        try bench.checkpoint()
        bench.kill()
        files.close(writer)
        files.rewrite(segment, text)
        try bench.start()
        bench.settle()
        #expect(
            bench.notices.contains(
                .segmentShortened(
                    try #require(StreamID(Self.segmentID)), path: segment, receiverOffset: text.utf8.count + 4,
                    byteCount: text.utf8.count)))
        #expect(disputes(bench) == 0)
        #expect(files.bytes(of: segment) == bytes(text))
        #expect(bench.received[Self.segmentID] == bytes(text + "two\n"))
    }

    @Test func `a stream that is refused after all of it was sent is asked for and sent again`() throws {
        let bench = try TailBench(files)
        bench.isSlow = true
        files.append("/log/a.log", "one\n")
        bench.scan()
        bench.ship()
        bench.refuse()
        bench.ship()
        bench.deliver()
        #expect(bench.texts == ["one\n"])
    }

    @Test func `a seal that is refused is offered again`() throws {
        let bench = try TailBench(files)
        files.append(segment, "one\n")
        bench.holdsSeals = true
        bench.settle()
        #expect(bench.heldSeals == [Self.segmentID])
        bench.refuse()
        bench.holdsSeals = false
        bench.settle()
        #expect(!files.exists(segment))
    }

    // MARK: Streams from before the receiver knew principals

    @Test func `a file with the bytes of a stream from before continues there`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        let log = bench.order[0]
        bench.ownerless = [log: bytes("one\n"), Self.segmentID: bytes("uno\n")]
        bench.received = [:]
        bench.receiverCameBackOlder()
        files.append("/log/a.log", "two\n")
        files.append(segment, "uno\ndos\n")
        bench.settle()
        #expect(bench.received == [log: bytes("one\ntwo\n"), Self.segmentID: bytes("uno\ndos\n")])
        #expect(!files.exists(segment))
        #expect(bench.losses == [])
    }

    @Test(arguments: ["dos\n", "uno\ndos\ntres\n"])
    func `a segment without the bytes of the stream from before begins one of its own`(held: String) throws {
        let bench = try TailBench(files)
        bench.ownerless = [Self.segmentID: bytes(held)]
        files.append(segment, "uno\ndos\n")
        bench.settle()
        #expect(bench.received == [Self.segmentID: bytes("uno\ndos\n")])
        #expect(!files.exists(segment))
        #expect(bench.disputed == [])
    }

    /// It would be stored twice if it began a stream of its own at the first one with other bytes.
    @Test(arguments: ["dos\n", "uno\ndos\ntres\n"])
    func `a log without a registry finds its bytes among the streams from before`(first: String) throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        let log = bench.order[0]
        bench.kill()
        files.remove("/state/registry")
        bench.received = [:]
        bench.ownerless = [log: bytes(first), id(log, 1): bytes("one\n")]
        files.append("/log/a.log", "two\n")
        try bench.start()
        bench.run()
        #expect(bench.received == [id(log, 1): bytes("one\ntwo\n")])
    }

    @Test func `a file that cannot be read claims nothing, and proves its bytes later`() throws {
        for call in 1...40 {
            let files = FaultyFiles()
            let bench = try TailBench(files)
            bench.ownerless = [Self.segmentID: bytes("one\n")]
            files.append(segment, "one\n")
            files.append(segment, "two\n")
            files.fail(call: call, .error(Errno.inputOutput))
            bench.run()
            files.clearFaults()
            bench.settle()
            #expect(bench.received == [Self.segmentID: bytes("one\ntwo\n")], "call \(call)")
            #expect(bench.skipped == [:])
        }
    }

    // MARK: Foreign files

    @Test(arguments: ["uno\n", "one\nand more\n", "one\r"], [true, false])
    func `a log of which the receiver holds other bytes gets the next id, at this receiver alone`(
        held: String, isSealed: Bool
    ) throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        let first = bench.order[0]
        var other = store("other", holding: [first: held])
        if isSealed { other.sealed.insert(first) }
        bench.exchange(with: &other)
        bench.run()
        #expect(bench.received == [first: bytes(held), id(first, 1): bytes("one\n")])
        #expect(bench.notices.contains { if case .receiverDiffers = $0 { true } else { false } })
        bench.exchange(with: &other)
        files.append("/log/a.log", "two\n")
        bench.run()
        #expect(bench.received == [first: bytes("one\ntwo\n")])
        bench.exchange(with: &other)
        bench.run()
        #expect(bench.received == [first: bytes(held), id(first, 1): bytes("one\ntwo\n")])
        #expect(bench.losses == [])
    }

    @Test(arguments: [true, false])
    func `without a registry the incarnation with most of the file continues`(isRestarted: Bool) throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        let first = bench.order[0]
        bench.kill()
        files.remove("/state/registry")
        files.append("/log/a.log", "two\nthree\n")
        bench.received[id(first, 1)] = bytes("other\n")
        bench.received[id(first, 2)] = bytes("one\ntwo\n")
        try bench.start()
        bench.run()
        if isRestarted {
            try bench.checkpoint()
            try bench.restart()
        }
        files.append("/log/a.log", "four\n")
        bench.run()
        #expect(
            bench.received == [
                first: bytes("one\n"), id(first, 1): bytes("other\n"),
                id(first, 2): bytes("one\ntwo\nthree\nfour\n"),
            ])
    }

    @Test(arguments: [true, false], [true, false])
    func `a sealed log that grew continues in a stream that skips what is held`(
        isRegistryLost: Bool, isKilled: Bool
    ) throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        try bench.checkpoint()
        let first = bench.order[0]
        bench.sealed.insert(first)
        bench.kill()
        if isRegistryLost { files.remove("/state/registry") }
        files.append("/log/a.log", "two\n")
        try bench.start()
        if isKilled {
            bench.isSlow = true
            bench.scan()
            bench.ship()
            try bench.checkpoint()
            try bench.restart()
        }
        bench.run()
        #expect(bench.received == [first: bytes("one\n"), id(first, 1): bytes("one\ntwo\n")])
        #expect(Set(bench.skipped[id(first, 1)] ?? []) == ["0+4 held"])
        files.append("/log/a.log", "three\n")
        try bench.restart()
        bench.run()
        #expect(bench.received == [first: bytes("one\n"), id(first, 1): bytes("one\ntwo\nthree\n")])
    }

    /// Another agent of the same principal comes first, or the file was away and its empty stream was sealed.
    @Test(arguments: ["", "other\n"], [true, false])
    func `what a sealed stream holds is skipped too when the stream after it is not free`(
        second: String, isRestarted: Bool
    ) throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        let first = bench.order[0]
        bench.sealed.insert(first)
        files.append("/log/a.log", "two\n")
        bench.loseConnection()
        bench.isSlow = true
        bench.scan()
        bench.ship()
        try bench.checkpoint()
        #expect(bench.skipped[id(first, 1)] == ["0+4 held"])
        bench.received[id(first, 1)] = bytes(second)
        if second.isEmpty { bench.sealed.insert(id(first, 1)) }
        if isRestarted { try bench.restart() } else { bench.loseConnection() }
        bench.run()
        #expect(
            bench.received == [first: bytes("one\n"), id(first, 1): bytes(second), id(first, 2): bytes("one\ntwo\n")])
        #expect(Set(bench.skipped[id(first, 2)] ?? []) == ["0+4 held"])
    }

    @Test func `a rewrite is found once, and each receiver gets the new content after the old`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\ntwo\n")
        bench.run()
        let first = bench.order[0]
        var other = store("other")
        bench.exchange(with: &other)
        bench.run()
        files.rewrite("/log/a.log", "one\nTWO\nthree\n")
        bench.run()
        let expected = [first: bytes("one\ntwo\n"), id(first, 1): bytes("one\nTWO\nthree\n")]
        #expect(bench.received == expected)
        bench.exchange(with: &other)
        bench.run()
        #expect(bench.received == expected)
        // What was seen beyond what was read is of the new content; said once, not at each receiver.
        #expect(bench.losses == ["cut /log/a.log 8+0"])
    }

    // MARK: Which files are asked for

    /// Three logs, delivered to two receivers.
    private func delivered() throws -> (bench: TailBench<FaultyFiles>, other: BenchStore) {
        let bench = try TailBench(files)
        for name in ["a", "b", "c"] { files.append("/log/\(name).log", "\(name)\n") }
        bench.run()
        var other = store("other")
        bench.exchange(with: &other)
        bench.run()
        #expect(bench.received == other.received)
        #expect(bench.questionCount == 6)
        bench.questionCount = 0
        return (bench, other)
    }

    @Test(arguments: [true, false])
    func `going back and forth between two receivers asks for what has grown alone`(isRestarted: Bool) throws {
        var (bench, other) = try delivered()
        for _ in 0..<4 {
            if isRestarted {
                try bench.checkpoint()
                try bench.restart()
                bench.scan()
            }
            bench.exchange(with: &other)
            bench.run()
        }
        #expect(bench.questionCount == 0)
        for number in 1...4 {
            files.append("/log/b.log", "\(number)\n")
            bench.exchange(with: &other)
            bench.run()
            #expect(bench.questionCount == number)
        }
        bench.exchange(with: &other)
        bench.run()
        #expect(bench.questionCount == 5)
        #expect(bench.received == other.received)
        #expect(bench.texts.contains("b\n1\n2\n3\n4\n"))
    }

    @Test(arguments: [true, false])
    func `an older receiver is asked for every file, and one that only restarted for none`(isOlder: Bool) throws {
        let (bench, _) = try delivered()
        if isOlder {
            bench.receiverCameBackOlder()
            bench.received = [:]
        } else {
            bench.loseConnection()
            bench.receiver.restart()
        }
        bench.order = []
        #expect(try bench.meet() == (isOlder ? .older : .known))
        bench.run()
        #expect(bench.questionCount == (isOlder ? 3 : 0))
        #expect(bench.received.count == 3)
        bench.loseConnection()
        #expect(try bench.meet() == .known)
        bench.run()
        #expect(bench.questionCount == (isOlder ? 3 : 0))
    }

    @Test func `a receiver that others made grow past the remembered end is older all the same`() throws {
        let (bench, _) = try delivered()
        let end = bench.receiver.end
        bench.receiverCameBackOlder()
        bench.received = [:]
        bench.receiver.end = end + 1000
        #expect(try bench.meet() == .older)
        bench.run()
        #expect(bench.received.count == 3)
    }

    @Test func `what a known receiver forgot is sent again, and said`() throws {
        let (bench, _) = try delivered()
        let forgotten = try #require(bench.order.first)
        bench.received[forgotten] = []
        bench.loseConnection()
        files.append("/log/a.log", "more\n")
        bench.run()
        #expect(bench.received[forgotten] == bytes("a\nmore\n"))
        #expect(
            bench.notices.contains(
                .receiverForgot(
                    try #require(StreamID(forgotten)), path: "/log/a.log", receiverOffset: 0, ackedOffset: 2)))
    }

    @Test func `offsets of a receiver that came back older are forgotten before anything is opened`() throws {
        let (bench, _) = try delivered()
        try bench.checkpoint()
        bench.receiverCameBackOlder()
        bench.received = [:]
        try bench.meet()
        // What is on the disk now is what a kill leaves.
        bench.kill()
        try bench.start()
        bench.run()
        #expect(bench.received.count == 3)
        #expect(bench.losses == [])
    }
}
