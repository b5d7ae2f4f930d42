import Testing
import WaybillDoor
import WaybillEvent
import WaybillIngest
import WaybillJSON
import WaybillSystem
import WaybillTestSupport

/// What keys share: one takes nothing from another.
@Suite struct DoorSharesTests {
    private static let wall: Int64 = 1_795_165_200_000
    private static let sources = [
        IngestSource(key: "wk_a0000001", bundle: "com.example.a", environment: .prod),
        IngestSource(key: "wk_b0000001", bundle: "com.example.b", environment: .prod),
    ]

    private let files = FaultyFiles()

    /// A store of a process that has filled its window.
    private func store(now: Int64) -> DoorStore<FaultyFiles> {
        var store = DoorStore(
            root: "/spool", quarantine: "/quarantine", sources: Self.sources,
            window: RepeatWindow(.seconds(600), byteCountMax: 1 << 20, key: Array(repeating: 1, count: 16)),
            freeByteCountMin: 0, files: self.files, SeededGenerator(seed: UInt64(now) + 7))
        _ = store.fill(since: 0, now: MonotonicTime(nanoseconds: now))
        return store
    }

    @Test func `equal faulty events that follow each other are one line, and all of them are counted`() throws {
        var store = self.store(now: 0)
        let wall = WallTime(milliseconds: Self.wall)
        let body = Array(#"{"batch":[0,0,0,{},{},0,"\#(String(repeating: "x", count: 20_000))"]}"#.utf8)
        var source = Self.sources[0]
        source.quarantineByteCountMax = 4_000
        let request = try Self.request(body, of: source)
        let outcomes = store.store([request], now: MonotonicTime(nanoseconds: 1), wall: wall)
        #expect(outcomes == [.stored(DoorCounts(quarantinedCount: 6, droppedCount: 1))])
        let path = "/quarantine/date=\(wall.text.prefix(10))/not-an-object.ndjson"
        let lines = try #require(self.files.bytes(of: path)).split(separator: 0x0A).map { JSONValue(Array($0)) }
        #expect(lines.map { $0?["count"]?.integer } == [3, nil])
        #expect(store.droppedCount == 1)
    }

    @Test func `ids of one key say nothing about another key's events, also after a restart`() throws {
        var store = self.store(now: 0)
        let wall = WallTime(milliseconds: Self.wall)
        var other = Self.sources[0]
        other.key = "wk_c0000001"
        let body = Array(
            #"{"type":"track","event":"e","userId":"u","messageId":"01234567-89ab-5def-8123-456789abcdef"}"#.utf8)
        let (page, server) = (try Self.request(body, of: Self.sources[0]), try Self.request(body, of: other))
        #expect(page.events.lines.map(\.id) == server.events.lines.map(\.id))
        let stored = DoorOutcome.stored(DoorCounts(storedCount: 1))
        let repeated = DoorOutcome.stored(DoorCounts(repeatedCount: 1))
        #expect(store.store([page], now: MonotonicTime(nanoseconds: 1), wall: wall) == [stored])
        self.files.kill()
        store = self.store(now: 5)
        #expect(
            store.store([server, page], now: MonotonicTime(nanoseconds: 6), wall: wall) == [stored, repeated])
        self.files.kill()
        store = self.store(now: 10)
        #expect(
            store.store([page, server], now: MonotonicTime(nanoseconds: 11), wall: wall) == [repeated, repeated])
        let folder = "/spool/com.example.a-prod"
        let lines = self.files.names(in: folder).filter { $0.hasSuffix(".ndjson") }.flatMap { name in
            self.files.bytes(of: "\(folder)/\(name)")?.split(separator: 0x0A) ?? []
        }
        #expect(lines.count == 2)
    }

    @Test func `a key that fills the disk leaves room to another key, until an agent takes its events away`() throws {
        var free = 40_000
        self.files.memory.setFreeByteCount(free)
        var store = self.store(now: 0)
        let wall = WallTime(milliseconds: Self.wall)
        let requests = try (0..<100).map { number in
            try Self.request(
                Array(
                    #"{"type":"track","event":"e","userId":"u","messageId":"m-\#(number)","properties":{"pad":"\#(String(repeating: "x", count: 1000))"}}"#
                        .utf8), of: Self.sources[number < 90 ? 0 : 1])
        }
        let stored = DoorOutcome.stored(DoorCounts(storedCount: 1))
        var taken = 0
        for (number, request) in requests.prefix(90).enumerated() {
            let second = MonotonicTime(nanoseconds: Int64(number + 2) * 2_000_000_000)
            // What a file takes is free no more.
            let before = self.byteCount(in: "/spool/com.example.a-prod")
            switch store.store([request], now: second, wall: wall)[0] {
            case .stored: taken += 1
            case .share: break
            case .full, .failed: Issue.record("the disk has room")
            }
            free -= self.byteCount(in: "/spool/com.example.a-prod") - before
            self.files.memory.setFreeByteCount(free)
        }
        #expect((20...34).contains(taken))
        let late = MonotonicTime(nanoseconds: 300_000_000_000)
        #expect(store.store([requests[95], requests[89]], now: late, wall: wall) == [stored, .share])
        let repeated = DoorOutcome.stored(DoorCounts(repeatedCount: 1))
        #expect(store.store([requests[0]], now: late, wall: wall) == [repeated], "a repeat takes no room")
        for name in self.files.names(in: "/spool/com.example.a-prod") where name.hasSuffix(".ndjson") {
            try self.files.memory.rename(
                "/spool/com.example.a-prod/\(name)", to: "/spool/com.example.a-prod/\(name).shipped-1-1795165250")
        }
        let later = MonotonicTime(nanoseconds: 302_000_000_000)
        #expect(store.store([requests[89]], now: later, wall: wall) == [stored])
        // A key that is alone leaves no room.
        store.closeWriters(except: [Self.sources[0]])
        self.files.memory.setFreeByteCount(10)
        #expect(store.store([requests[88]], now: later, wall: wall) == [stored])
    }

    private func byteCount(in folder: String) -> Int {
        self.files.names(in: folder).map { self.files.bytes(of: "\(folder)/\($0)")?.count ?? 0 }.reduce(0, +)
    }

    private static func request(_ body: [UInt8], of source: IngestSource) throws -> DoorRequest {
        var batch = IngestBatch()
        let context = IngestContext(source: source, receivedAt: Self.wall, generator: SeededGenerator(seed: 1))
        #expect(IngestBody(body, as: .segment).read(context, into: &batch) == .read)
        return DoorRequest(source: source, dialect: .segment, batch.finish(), body: body)
    }
}
