import Testing
import WaybillData
import WaybillFleet
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

/// A receiver's journal, and the bucket that it goes to.
private final class UploadBench {
    let disk = FaultyFiles()
    let store: MemoryStore
    private var groupCount: Int64 = 0

    init(_ store: MemoryStore = MemoryStore()) throws {
        self.store = store
        try self.disk.createDirectories("/data/journal")
        try self.disk.createDirectories("/data/state")
    }

    func journal() throws -> Journal<FaultyFiles> {
        try Journal(directory: "/data/journal", files: self.disk, segmentByteCountMax: 20_000)
    }

    func uploader(
        of journal: borrowing Journal<FaultyFiles>, fleet: String = "f1", seed: UInt64 = 1
    ) throws -> Uploader<FaultyFiles> {
        try Uploader(
            receiver: "a", fleet: fleet, journalDirectory: "/data/journal", end: journal.end,
            statePath: "/data/state/store.state", pieceByteCount: 2_000, files: self.disk, store: self.store,
            SeededGenerator(seed: seed))
    }

    func commit(_ stream: Int, _ raw: [UInt8], to journal: inout Journal<FaultyFiles>) throws {
        try journal.stage(raw, of: stream)
        self.groupCount += 1
        _ = try journal.commit(at: WallTime(milliseconds: 1_790_000_000_000 + self.groupCount))
    }

    /// The bytes of all pieces of each chain, which must follow each other without a gap.
    func chains() throws -> [String: [UInt8]] {
        var chains: [String: [UInt8]] = [:]
        var ends: [String: Int] = [:]
        for (key, object) in self.store.objects.sorted(by: { $0.key < $1.key }) {
            let parts = key.split(separator: "/")
            let chain = String(parts[1])
            let start = try #require(ChainName.position(ofPiece: parts[2]))
            let base = try #require(object.withUnsafeBytes { JournalPiece.base(of: $0, startingAt: start) })
            let body = object[(start.rawValue - base.rawValue)...]
            if let end = ends[chain] { #expect(start.rawValue == end) }
            ends[chain] = start.rawValue + body.count
            chains[chain, default: []] += body
        }
        return chains
    }

    /// The journal's bytes, over all segments.
    func journalBytes(upTo end: JournalPosition) throws -> [UInt8] {
        var bytes: [UInt8] = []
        for name in try self.disk.list("/data/journal").filter({ $0.hasSuffix(".journal") }).sorted() {
            let start = Int(name.prefix(20)) ?? 0
            bytes = Array(bytes.prefix(start)) + (self.disk.bytes(of: "/data/journal/" + name) ?? [])
        }
        return Array(bytes.prefix(end.rawValue))
    }
}

extension Uploader where Files == FaultyFiles {
    /// Steps until nothing follows, trying again what fails.
    fileprivate mutating func finish(upTo end: JournalPosition) {
        for _ in 0..<10_000 {
            do {
                if try self.step(upTo: end) == .idle, self.stored == end { return }
            } catch { continue }
        }
        Issue.record("the uploader does not come to the end")
    }
}

@Suite struct UploaderTests {
    private static func line(_ generator: inout SeededGenerator) -> [UInt8] {
        let text = (0..<Int.random(in: 1...900, using: &generator)).map { _ in
            UInt8.random(in: UInt8(ascii: "a")...UInt8(ascii: "z"), using: &generator)
        }
        return text + [0x0A]
    }

    @Test(arguments: 0..<UInt64(150))
    func `the bucket has the journal, whatever the store does`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed ^ 0x57083)
        let bench = try UploadBench()
        let faults = seed % 3 == 0 ? 0 : UInt64(25)
        bench.store.setFaults { call in
            var dice = SeededGenerator(seed: seed &* 1_000_003 &+ UInt64(call.number))
            guard UInt64.random(in: 0..<100, using: &dice) < faults else { return nil }
            return [.refused(.busy), .unanswered, .late].randomElement(using: &dice)
        }
        var journal = try bench.journal()
        var uploader = try bench.uploader(of: journal, seed: seed)
        for _ in 0..<40 {
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                try bench.commit(Int.random(in: 0..<5, using: &generator), Self.line(&generator), to: &journal)
            }
            if Bool.random(using: &generator) { _ = try? uploader.step(upTo: journal.end) }
            if Int.random(in: 0..<8, using: &generator) == 0 { bench.store.deliverLate() }
            if Int.random(in: 0..<8, using: &generator) == 0 {
                uploader = try bench.uploader(of: journal, seed: seed)
            }
            #expect(uploader.stored <= journal.end)
        }
        uploader.finish(upTo: journal.end)
        bench.store.deliverLate()
        let chains = try bench.chains()
        #expect(chains.keys.sorted() == [uploader.chain.description])
        #expect(try chains[uploader.chain.description] == bench.journalBytes(upTo: journal.end))
        #expect(uploader.divergenceCount == 0)
    }

    @Test func `a directory that was put back from a copy continues in a chain of its own`() throws {
        var generator = SeededGenerator(seed: 7)
        let bench = try UploadBench()
        var journal = try bench.journal()
        for _ in 0..<10 { try bench.commit(1, Self.line(&generator), to: &journal) }
        var uploader = try bench.uploader(of: journal)
        uploader.finish(upTo: journal.end)
        let copy = try bench.journalBytes(upTo: journal.end)
        let copyEnd = journal.end
        let state = try #require(bench.disk.bytes(of: "/data/state/store.state"))
        for _ in 0..<10 { try bench.commit(1, Self.line(&generator), to: &journal) }
        uploader.finish(upTo: journal.end)
        let former = uploader.chain
        let formerBytes = try #require(try bench.chains()[former.description])

        for name in try bench.disk.list("/data/journal") { try bench.disk.unlink("/data/journal/" + name) }
        bench.disk.place("/data/journal/00000000000000000000.journal", copy)
        bench.disk.place("/data/state/store.state", state)
        journal = try bench.journal()
        #expect(journal.end == copyEnd)
        for _ in 0..<10 { try bench.commit(1, Self.line(&generator), to: &journal) }
        uploader = try bench.uploader(of: journal, seed: 2)
        uploader.finish(upTo: journal.end)
        #expect(uploader.divergenceCount == 1)
        #expect(uploader.chain != former)
        let chains = try bench.chains()
        #expect(chains[former.description] == formerBytes)
        let own = try bench.journalBytes(upTo: journal.end)
        #expect(try #require(chains[uploader.chain.description]) == Array(own[copyEnd.rawValue...]))
    }

    @Test func `a copy that has nothing new does not claim what the other had`() throws {
        var generator = SeededGenerator(seed: 8)
        let bench = try UploadBench()
        var journal = try bench.journal()
        try bench.commit(1, Self.line(&generator), to: &journal)
        var uploader = try bench.uploader(of: journal)
        uploader.finish(upTo: journal.end)
        let copy = try bench.journalBytes(upTo: journal.end)
        let state = try #require(bench.disk.bytes(of: "/data/state/store.state"))
        for _ in 0..<3 { try bench.commit(1, Self.line(&generator), to: &journal) }
        uploader.finish(upTo: journal.end)
        bench.disk.place("/data/journal/00000000000000000000.journal", copy)
        bench.disk.place("/data/state/store.state", state)
        journal = try bench.journal()
        uploader = try bench.uploader(of: journal, seed: 2)
        #expect(try uploader.step(upTo: journal.end) == .idle)
        #expect(uploader.stored == journal.end)
    }

    @Test func `foreign bytes under a piece's name begin another chain, and stay`() throws {
        var generator = SeededGenerator(seed: 9)
        let bench = try UploadBench()
        var journal = try bench.journal()
        try bench.commit(1, Self.line(&generator), to: &journal)
        var uploader = try bench.uploader(of: journal)
        let key = uploader.chain.key(of: JournalPosition(0))
        bench.store.place(key, Array("an operator's notes".utf8))
        uploader.finish(upTo: journal.end)
        #expect(uploader.divergenceCount == 1)
        #expect(bench.store.objects[key] == Array("an operator's notes".utf8))
        bench.store.place(key, nil)
        #expect(try bench.chains()[uploader.chain.description] == bench.journalBytes(upTo: journal.end))
    }

    @Test func `what the journal does not have any more leaves no gap in a chain`() throws {
        var generator = SeededGenerator(seed: 11)
        let bench = try UploadBench()
        var journal = try bench.journal()
        for _ in 0..<200 { try bench.commit(1, Self.line(&generator), to: &journal) }
        let bytes = try bench.journalBytes(upTo: journal.end)
        var uploader = try bench.uploader(of: journal)
        _ = try uploader.step(upTo: journal.end)
        let former = uploader.chain
        let segments = try bench.disk.list("/data/journal").filter { $0.hasSuffix(".journal") }.sorted()
        try #require(segments.count > 2)
        try bench.disk.unlink("/data/journal/" + segments[0])
        let first = try #require(JournalPath.position(ofSegment: segments[1]))
        #expect(uploader.stored < first)

        uploader = try bench.uploader(of: journal, seed: 2)
        let chain = uploader.chain
        #expect(chain != former)
        #expect(uploader.stored == first)
        // Another start continues in it.
        uploader = try bench.uploader(of: journal, seed: 3)
        #expect(uploader.chain == chain)
        uploader.finish(upTo: journal.end)
        let chains = try bench.chains()
        #expect(chains.keys.sorted() == [former.description, chain.description].sorted())
        #expect(try #require(chains[chain.description]) == Array(bytes[first.rawValue...]))
    }

    @Test func `another fleet gets everything that the journal has`() throws {
        var generator = SeededGenerator(seed: 10)
        let bench = try UploadBench()
        var journal = try bench.journal()
        for _ in 0..<60 { try bench.commit(1, Self.line(&generator), to: &journal) }
        var uploader = try bench.uploader(of: journal)
        uploader.finish(upTo: journal.end)
        uploader = try bench.uploader(of: journal, fleet: "f2", seed: 3)
        #expect(uploader.stored == JournalPosition(0))
        uploader.finish(upTo: journal.end)
        #expect(try bench.chains()[uploader.chain.description] == bench.journalBytes(upTo: journal.end))
    }

    @Test func `a chain's name is read as it is written`() {
        var generator = SeededGenerator(seed: 1)
        let chain = ChainName(receiver: "collector-1.example", &generator)
        #expect(ChainName(chain.description) == chain)
        for text in [
            "", "a", "a~", "~0123456789abcdef", "a~0123456789ABCDEF", "a~0123456789abcde", "a/b~0123456789abcdef",
            "a~b~0123456789abcdef", "ä~0123456789abcdef", "..:~0123456789abcdef",
        ] {
            #expect(ChainName(text) == nil, "\(text)")
        }
        #expect(ChainName.position(ofPiece: "00000000000000000042.wbj") == JournalPosition(42))
        for text in ["42.wbj", "0000000000000000004x.wbj", "+0000000000000000042.wbj", "99999999999999999999.wbj"] {
            #expect(ChainName.position(ofPiece: text) == nil, "\(text)")
        }
    }
}
