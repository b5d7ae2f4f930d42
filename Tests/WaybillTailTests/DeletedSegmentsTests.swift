import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@testable import WaybillTail

/// What is remembered of segments that were delivered and deleted.
struct DeletedSegmentsTests {
    private let files = FaultyFiles()

    private func id(_ number: Int) -> String {
        "0195505e-aaaa-7000-8000-0000000000aa-" + String(repeating: "0", count: 20 - "\(number)".count) + "\(number)"
    }

    /// Ships segments of these numbers, one after the other.
    private func ship(_ numbers: ClosedRange<Int>, _ bench: TailBench<FaultyFiles>) throws {
        for number in numbers {
            files.append("/spool/\(id(number)).ndjson", "one\n")
            bench.run()
        }
        try bench.checkpoint()
    }

    private func missing(_ bench: TailBench<FaultyFiles>) -> [MissingSegments] {
        bench.notices.compactMap { if case .segmentsMissing(let missing) = $0 { missing } else { nil } }
    }

    @Test(arguments: [true, false])
    func `what an older receiver lacks and no file holds is named`(isRestarted: Bool) throws {
        let bench = try TailBench(files)
        try ship(1...3, bench)
        let end = bench.receiver.end
        try ship(4...5, bench)
        if isRestarted { try bench.restart() }
        #expect(missing(bench) == [])
        bench.loseConnection()
        // It comes back with the first three.
        bench.receiver.end = end
        bench.receiver.restart()
        #expect(try bench.meet() == .older)
        let named = try #require(missing(bench).first)
        #expect([named.count, named.byteCount] == [2, 8])
        #expect(named.ids == [id(4), id(5)])
        #expect(named.knownSince != nil)
        bench.loseConnection()
        #expect(try bench.meet() == .known)
        #expect(missing(bench).count == 1)
    }

    @Test func `an empty receiver at the same address lacks everything, and another address nothing`() throws {
        let bench = try TailBench(files)
        try ship(1...20, bench)
        var other = BenchStore(receiver: BenchReceiver(name: "other"))
        bench.exchange(with: &other)
        #expect(try bench.meet() == .unknown)
        #expect(missing(bench) == [])
        var emptied = BenchStore(receiver: BenchReceiver(name: "emptied"))
        emptied.receiver.address = other.receiver.address
        bench.exchange(with: &emptied)
        #expect(try bench.meet() == .unknown)
        let named = try #require(missing(bench).first)
        #expect(named.count == 20)
        #expect(named.ids == (1...8).map { id($0) })
    }

    @Test func `after a week a segment is forgotten, and what came before is unknown`() throws {
        let bench = try TailBench(files)
        try ship(1...2, bench)
        bench.advance(8 * 86_400_000)
        try ship(3...3, bench)
        #expect(files.exists("/state/deleted.log.previous"))
        bench.receiverCameBackOlder()
        try bench.meet()
        let named = try #require(missing(bench).first)
        #expect(named.ids == [id(3)])
        #expect(named.knownSince == bench.milliseconds)
        bench.advance(8 * 86_400_000)
        bench.receiverCameBackOlder()
        bench.receiver.starts = [ReceiverStart(id: 99, position: 0)]
        #expect(try bench.meet() == .older)
        #expect(missing(bench).last == MissingSegments())
    }

    @Test func `a torn or damaged line is left out, and what follows is not`() throws {
        let bench = try TailBench(files)
        try ship(1...2, bench)
        let path = "/state/deleted.log"
        let bytes = try #require(files.bytes(of: path))
        files.rewrite(path, String(decoding: bytes.dropLast(5), as: UTF8.self))
        try ship(3...3, bench)
        bench.receiverCameBackOlder()
        try bench.meet()
        #expect(missing(bench).first?.ids == [id(1), id(3)])
    }

    @Test func `a record that cannot be written waits, and the registry does not`() throws {
        let bench = try TailBench(files)
        files.fail(.open, of: "/state/deleted.log", .error(Errno.inputOutput))
        #expect(throws: FileSystemError.self) { try ship(1...1, bench) }
        let registry = try StateStore(path: "/state/registry", files: files).entries
        #expect(registry.keys.sorted() == ["@1"])
        files.fail(.open, of: "/state/deleted.log", nil)
        try ship(2...2, bench)
        bench.receiverCameBackOlder()
        try bench.meet()
        #expect(missing(bench).first?.ids == [id(1), id(2)])
    }

    @Test func `a segment is held by a receiver whose starts went on from it`() throws {
        let segment = DeletedSegment(id: id(1), byteCount: 4, receiver: 1, start: 5, end: 100)
        func identity(_ starts: [(UInt64, UInt64)], end: UInt64) throws -> ReceiverIdentity {
            try #require(
                ReceiverIdentity(
                    name: "r", incarnation: Incarnation(1, 1),
                    starts: starts.map { ReceiverStart(id: $0.0, position: $0.1) }, end: end))
        }
        #expect(segment.isHeld(by: try identity([(5, 0)], end: 100)))
        #expect(!segment.isHeld(by: try identity([(5, 0)], end: 99)))
        #expect(!segment.isHeld(by: try identity([(5, 0), (6, 99)], end: 1000)))
        #expect(!segment.isHeld(by: try identity([(6, 200)], end: 1000)))
        // It is one of the starts that READY leaves out.
        let later = (0..<16).map { (100 + UInt64($0), 100 + UInt64($0)) }
        #expect(segment.isHeld(by: try identity(later, end: 1000)))
        #expect(!segment.isHeld(by: try identity([(99, 99)] + later.dropFirst(), end: 1000)))
    }

    @Test func `the files stay within their bounds`() throws {
        try files.createDirectory("/state")
        var deleted = DeletedSegments(path: "/state/deleted.log", files: files)
        var time = WallTime(milliseconds: 1_790_000_000_000)
        var number = 0
        for _ in 0..<140 {
            for _ in 0..<1000 {
                number += 1
                deleted.add(DeletedSegment(id: id(number), byteCount: 4, receiver: 1, start: 5, end: 100))
            }
            try deleted.write(time)
            time = WallTime(milliseconds: time.milliseconds + 1000)
        }
        var ids: [String] = []
        #expect(try deleted.read(time) { ids.append($0.id) } != nil)
        #expect((40_000...100_000).contains(ids.count))
        #expect(ids == ((number - ids.count + 1)...number).map { id($0) })
    }
}
