import Testing
import WaybillDoor
import WaybillEvent
import WaybillIngest
import WaybillSystem
import WaybillTestSupport

/// Groups of requests on a disk that fails: what was answered is durable, and nothing answered is there twice.
@Suite struct DoorStoreTests {
    /// A sender that repeats each request until it is answered, over a disk with faults, deaths and power cuts.
    private struct Life {
        var dice: SeededGenerator
        let files = FaultyFiles()
        static let sources = [
            IngestSource(key: "wk_a0000001", bundle: "com.example.a", environment: .prod),
            IngestSource(key: "wk_b0000001", bundle: "com.example.b", environment: .prod),
        ]
        /// Ids of events whose request was answered.
        var answered: [UniqueID] = []
        /// Bug: an answer before the sync counts.
        var trustsUnsynced = false

        mutating func store(now: Int64) -> DoorStore<FaultyFiles> {
            var store = DoorStore(
                root: "/spool", quarantine: "/quarantine",
                sources: Life.sources,
                window: RepeatWindow(.seconds(600), byteCountMax: 1 << 20, key: Array(repeating: 1, count: 16)),
                freeByteCountMin: 0, files: self.files, SeededGenerator(seed: self.dice.next()))
            _ = store.fill(since: 0, now: MonotonicTime(nanoseconds: now))
            return store
        }

        /// A request of one to four events, some of them faulty; the ids are of its number.
        func request(_ number: Int) throws -> DoorRequest {
            let source = Self.sources[number % 2]
            var events: [String] = []
            for index in 0...(number % 4) {
                events.append(
                    #"{"type":"track","event":"e","messageId":"\#(number)-\#(index)","userId":"u","properties":{"pad":"\#(String(repeating: "x", count: number * 37 % 700))"}}"#
                )
            }
            if number.isMultiple(of: 5) { events.append(#"{"type":"track"}"#) }
            let body = Array("{\"batch\":[\(events.joined(separator: ","))]}".utf8)
            var batch = IngestBatch()
            let context = IngestContext(
                source: source, receivedAt: 1_795_165_200_000, generator: SeededGenerator(seed: 1))
            #expect(IngestBody(body, as: .segment).read(context, into: &batch) == .read)
            return DoorRequest(source: source, dialect: .segment, batch.finish(), body: body)
        }

        mutating func live(requests count: Int) throws {
            var now: Int64 = 1_000_000_000
            var waiting = try (0..<count).map { try self.request($0) }
            var store = self.store(now: now)
            self.files.failAtRandom(seed: self.dice.next(), perMille: 30)
            for step in 0..<400 where !waiting.isEmpty {
                now += 10_000_000
                let group = Array(waiting.prefix(Int.random(in: 1...5, using: &self.dice)))
                let outcomes = store.store(
                    group, now: MonotonicTime(nanoseconds: now), wall: WallTime(milliseconds: 1_795_165_200_000))
                var rest: [DoorRequest] = []
                for (request, outcome) in zip(group, outcomes) {
                    // An answer is lost now and then: the sender repeats.
                    let isLost = Int.random(in: 0..<10, using: &self.dice) == 0
                    if case .stored = outcome {
                        self.answered += request.events.lines.map(\.id)
                        if isLost { rest.append(request) }
                    } else {
                        if self.trustsUnsynced {
                            self.answered += request.events.lines.map(\.id)
                        } else {
                            rest.append(request)
                        }
                    }
                }
                waiting = rest + waiting.dropFirst(group.count)
                guard step % 40 == 39 else { continue }
                self.files.crash(seed: self.dice.next())
                self.files.failAtRandom(seed: self.dice.next(), perMille: 30)
                store = self.store(now: now)
            }
            self.files.clearFaults()
            for request in waiting {
                let outcome = store.store(
                    [request], now: MonotonicTime(nanoseconds: now), wall: WallTime(milliseconds: 1_795_165_200_000))
                guard case .stored = outcome[0] else { continue }
                self.answered += request.events.lines.map(\.id)
            }
            self.files.crash(seed: self.dice.next())
        }

        /// The ids on the disk, each as often as it is there.
        func ids() -> [UniqueID: Int] {
            var ids: [UniqueID: Int] = [:]
            for folder in ["com.example.a-prod", "com.example.b-prod"] {
                for name in self.files.names(in: "/spool/\(folder)") where name.hasSuffix(".ndjson") {
                    let bytes = self.files.bytes(of: "/spool/\(folder)/\(name)") ?? []
                    // What follows the last LF is torn, and no event.
                    let whole = bytes[..<((bytes.lastIndex(of: 0x0A) ?? -1) + 1)]
                    for line in whole.split(separator: 0x0A) {
                        // What the power took out of the middle of a file that was not synced is no line.
                        let text = String(decoding: line.dropFirst(13).prefix(36), as: UTF8.self)
                        if let id = UniqueID(text: text) { ids[id, default: 0] += 1 }
                    }
                }
            }
            return ids
        }
    }

    @Test(arguments: 0..<UInt64(60))
    func `what was answered survives a power cut`(seed: UInt64) throws {
        var life = Life(dice: SeededGenerator(seed: seed))
        try life.live(requests: 40)
        let ids = life.ids()
        for id in life.answered { #expect(ids[id] != nil, "\(id.text) was answered and is lost") }
    }

    @Test func `on a disk that is well a repeated request stores nothing`() throws {
        var life = Life(dice: SeededGenerator(seed: 1))
        var store = life.store(now: 0)
        let requests = try (0..<20).map { try life.request($0) }
        for _ in 0..<3 {
            for outcome in store.store(
                requests, now: MonotonicTime(nanoseconds: 5), wall: WallTime(milliseconds: 1_795_165_200_000))
            {
                #expect(outcome.isAnswer)
            }
        }
        // After a death the ids come from the segments.
        life.files.kill()
        store = life.store(now: 10)
        let outcomes = store.store(
            requests, now: MonotonicTime(nanoseconds: 15), wall: WallTime(milliseconds: 1_795_165_200_000))
        #expect(outcomes.allSatisfy { $0.storedCount == 0 })
        let ids = life.ids()
        #expect(ids.values.allSatisfy { $0 == 1 })
        #expect(Set(ids.keys) == Set(requests.flatMap { $0.events.lines.map(\.id) }))
    }

    @Test(arguments: [FileVerb.status, .open])
    func `a segment that an agent renames while ids are read is read under its new name`(verb: FileVerb) throws {
        var life = Life(dice: SeededGenerator(seed: 1))
        var store = life.store(now: 0)
        let request = try life.request(1)
        let wall = WallTime(milliseconds: 1_795_165_200_000)
        #expect(store.store([request], now: MonotonicTime(nanoseconds: 1), wall: wall).map(\.storedCount) == [2])
        life.files.kill()
        let memory = life.files.memory
        life.files.setFaults { call in
            guard call.verb == verb, call.path.hasSuffix(".ndjson") else { return nil }
            do throws(FileSystemError) {
                try memory.rename(call.path, to: call.path + ".shipped-r-1")
            } catch {
                Issue.record("\(error)")
            }
            return nil
        }
        store = life.store(now: 10)
        life.files.clearFaults()
        #expect(store.store([request], now: MonotonicTime(nanoseconds: 11), wall: wall).map(\.storedCount) == [0])
        #expect(life.ids().values.allSatisfy { $0 == 1 })
    }

    @Test func `a repeat in the group of an event that was not stored is not answered either`() throws {
        var life = Life(dice: SeededGenerator(seed: 1))
        var store = life.store(now: 0)
        let request = try life.request(0)
        for verb in [FileVerb.write, .synchronize] {
            life.files.setFaults { call in call.verb == verb ? .error(28) : nil }
            let outcomes = store.store(
                [request, request], now: MonotonicTime(nanoseconds: 1), wall: WallTime(milliseconds: 1_795_165_200_000))
            #expect(outcomes == [.full, .full])
            life.files.clearFaults()
        }
    }

    @Test func `a spool that a reload brings back knows what it has, and one that it takes away is closed`() throws {
        var life = Life(dice: SeededGenerator(seed: 1))
        var store = life.store(now: 0)
        let request = try life.request(1)
        let wall = WallTime(milliseconds: 1_795_165_200_000)
        #expect(store.store([request], now: MonotonicTime(nanoseconds: 1), wall: wall).map(\.storedCount) == [2])
        store.closeWriters(except: [Life.sources[0]])
        // Another process: the configuration has only the first key, and a reload brings the second one back.
        life.files.kill()
        store = DoorStore(
            root: "/spool", quarantine: "/quarantine", sources: [Life.sources[0]],
            window: RepeatWindow(.seconds(600), byteCountMax: 1 << 20, key: Array(repeating: 1, count: 16)),
            freeByteCountMin: 0, files: life.files, SeededGenerator(seed: 2))
        // The disk's clock begins at 0, and so does the window.
        let early = WallTime(milliseconds: 600_000)
        #expect(store.store([request], now: MonotonicTime(nanoseconds: 9), wall: early).map(\.storedCount) == [0])
        #expect(life.ids().values.allSatisfy { $0 == 1 })
    }

    @Test func `a request of a key that a reload took away leaves no spool open`() throws {
        var life = Life(dice: SeededGenerator(seed: 1))
        var store = life.store(now: 0)
        let wall = WallTime(milliseconds: 1_795_165_200_000)
        let requests = [try life.request(0), try life.request(1)]
        #expect(store.store(requests, now: MonotonicTime(nanoseconds: 1), wall: wall).map(\.isAnswer) == [true, true])
        #expect(store.openCount == 2)
        store.closeWriters(except: [Life.sources[0]])
        #expect(store.openCount == 1)
        let late = [try life.request(2), try life.request(3)]
        #expect(store.store(late, now: MonotonicTime(nanoseconds: 2), wall: wall).map(\.isAnswer) == [true, true])
        #expect(store.openCount == 1)
        #expect(life.ids().count == Set((requests + late).flatMap { $0.events.lines.map(\.id) }).count)
    }

    @Test func `a key's rubbish takes no room from another key, also after a restart`() throws {
        let life = Life(dice: SeededGenerator(seed: 1))
        var sources = Life.sources
        sources[0].quarantineByteCountMax = 2_000
        let request = { (source: IngestSource) throws -> DoorRequest in
            let events = (0..<31).map { #"{"type":"track","n":\#($0)}"# }
            let body = Array(#"{"batch":[\#(events.joined(separator: ","))]}"#.utf8)
            var batch = IngestBatch()
            let context = IngestContext(
                source: source, receivedAt: 1_795_165_200_000, generator: SeededGenerator(seed: 1))
            #expect(IngestBody(body, as: .segment).read(context, into: &batch) == .read)
            return DoorRequest(source: source, dialect: .segment, batch.finish(), body: body)
        }
        var copy = life
        let wall = WallTime(milliseconds: 1_795_165_200_000)
        var dropped: [Int] = []
        for now in 0..<2 {
            var store = copy.store(now: Int64(now))
            for source in sources {
                let outcomes = store.store(
                    [try request(source)], now: MonotonicTime(nanoseconds: Int64(now)), wall: wall)
                #expect(outcomes.map(\.isAnswer) == [true])
            }
            dropped.append(store.droppedCount)
        }
        let path = "/quarantine/date=\(wall.text.prefix(10))/no-person.ndjson"
        let lines = try #require(life.files.bytes(of: path)).split(separator: 0x0A)
        let counts = ["a", "b"].map { name in
            lines.filter { String(decoding: $0, as: UTF8.self).contains("\"bundle\":\"com.example.\(name)\"") }.count
        }
        #expect(counts[1] == 62)
        #expect((1..<31).contains(counts[0]))
        #expect(dropped.reduce(0, +) == 62 - counts[0])
    }

    @Test func `a line that is torn was not stored`() throws {
        var life = Life(dice: SeededGenerator(seed: 1))
        var store = life.store(now: 0)
        let request = try life.request(0)
        let wall = WallTime(milliseconds: 1_795_165_200_000)
        _ = store.store([request], now: MonotonicTime(nanoseconds: 1), wall: wall)
        let folder = "/spool/com.example.a-prod"
        let path = try "\(folder)/" + #require(life.files.names(in: folder).first { $0.hasSuffix(".ndjson") })
        let file = try life.files.open(path, .append)
        try life.files.truncate(file, to: #require(life.files.bytes(of: path)).count - 1)
        life.files.close(file)
        life.files.kill()
        store = life.store(now: 10)
        let outcomes = store.store([request], now: MonotonicTime(nanoseconds: 15), wall: wall)
        #expect(outcomes.map(\.storedCount) == [1])
    }

    // MARK: What the agent is asked for

    private static let wall: Int64 = 1_795_165_200_000

    /// A store of a process that starts some seconds after the first one, and has filled its window.
    private func store(_ life: Life, after seconds: Int64, window: Duration = .seconds(600)) -> DoorStore<FaultyFiles> {
        let now = MonotonicTime(nanoseconds: seconds * 1_000_000_000)
        var store = DoorStore(
            root: "/spool", quarantine: "/quarantine", sources: Life.sources,
            window: RepeatWindow(window, byteCountMax: 1 << 20, key: Array(repeating: 1, count: 16)),
            freeByteCountMin: 0, files: life.files, SeededGenerator(seed: UInt64(seconds) + 7))
        life.files.memory.now = (Self.wall + seconds * 1000) * 1_000_000
        _ = store.fill(since: (Self.wall + seconds * 1000) * 1_000_000 - window.nanoseconds, now: now)
        return store
    }

    private func store(
        _ request: DoorRequest, in store: inout DoorStore<FaultyFiles>, after seconds: Int64
    ) -> [DoorOutcome] {
        store.store(
            [request], now: MonotonicTime(nanoseconds: seconds * 1_000_000_000),
            wall: WallTime(milliseconds: Self.wall + seconds * 1000))
    }

    private func deleteSegments(_ life: Life) throws {
        for name in life.files.names(in: "/spool/com.example.a-prod") where name.hasSuffix(".ndjson") {
            try life.files.unlink("/spool/com.example.a-prod/\(name)")
        }
    }

    @Test func `events are stored where the agent cannot be asked, and not on a full disk`() throws {
        for (errno, outcome) in [(Int32(5), DoorOutcome.stored(DoorCounts(storedCount: 1))), (28, .full)] {
            let life = Life(dice: SeededGenerator(seed: 1))
            var first = store(life, after: 0)
            life.files.setFaults { call in call.path.hasSuffix("keep.json.tmp") ? .error(errno) : nil }
            #expect(store(try life.request(4), in: &first, after: 0) == [outcome])
            #expect(life.files.bytes(of: "/spool/com.example.a-prod/keep.json") == nil)
        }
    }

    @Test func `a spool asks to keep what is shipped before its first segment, and again for another window`() throws {
        let life = Life(dice: SeededGenerator(seed: 1))
        let folder = "/spool/com.example.a-prod"
        var first = store(life, after: 0)
        let request = try life.request(0)
        let paths = Lock<[String]>([])
        life.files.setFaults { call in
            paths.withLock { $0.append(call.path) }
            return nil
        }
        #expect(store(request, in: &first, after: 0).map(\.storedCount) == [1])
        #expect(life.files.bytes(of: "\(folder)/keep.json") == Array("{\"seconds\":600}\n".utf8))
        let order = paths.withLock { $0 }.filter { $0.contains("keep.json.tmp") || $0.contains(".ndjson") }
        #expect(order.first?.hasSuffix("keep.json.tmp") == true && order.contains { $0.contains(".ndjson") })
        life.files.kill()
        _ = store(life, after: 10, window: .seconds(1200))
        #expect(life.files.bytes(of: "\(folder)/keep.json") == Array("{\"seconds\":1200}\n".utf8))
        life.files.crash(seed: 1)
        #expect(life.files.bytes(of: "\(folder)/keep.json") == Array("{\"seconds\":1200}\n".utf8))
    }

    @Test func `a spool in which nothing can be asked is read all the same`() throws {
        let life = Life(dice: SeededGenerator(seed: 1))
        var first = store(life, after: 0)
        let request = try life.request(0)
        #expect(store(request, in: &first, after: 0).map(\.storedCount) == [1])
        life.files.kill()
        try life.files.unlink("/spool/com.example.a-prod/keep.json")
        life.files.setFaults { call in call.path.hasSuffix("keep.json.tmp") ? .error(28) : nil }
        var second = store(life, after: 10)
        life.files.clearFaults()
        #expect(store(request, in: &second, after: 10).map(\.storedCount) == [0])
        #expect(life.files.bytes(of: "/spool/com.example.a-prod/keep.json") != nil)
    }

    @Test func `where nothing was stored before, the whole window is known`() throws {
        let life = Life(dice: SeededGenerator(seed: 1))
        var first = store(life, after: 0)
        #expect(first.reach == .seconds(600))
        _ = store(try life.request(0), in: &first, after: 0)
        life.files.kill()
        let second = store(life, after: 100)
        #expect(second.reach == .seconds(600))
    }

    @Test func `where segments are gone, only what the others cover is known`() throws {
        let life = Life(dice: SeededGenerator(seed: 1))
        var first = store(life, after: 0)
        _ = store(try life.request(0), in: &first, after: 0)
        life.files.kill()
        var second = store(life, after: 100)
        _ = store(try life.request(4), in: &second, after: 100)
        life.files.kill()
        let both = store(life, after: 110)
        #expect(both.reach == .seconds(600))
        life.files.kill()
        // The first writer's segments sort first.
        let name = try #require(
            life.files.names(in: "/spool/com.example.a-prod").filter { $0.hasSuffix(".ndjson") }.min())
        try life.files.unlink("/spool/com.example.a-prod/\(name)")
        var third = store(life, after: 130)
        #expect(third.reach == .seconds(30))
        third.turn(MonotonicTime(nanoseconds: 180_000_000_000))
        #expect(third.reach == .seconds(80))
        third.turn(MonotonicTime(nanoseconds: 900_000_000_000))
        #expect(third.reach == .seconds(600))
    }

    @Test func `where all segments are gone, nothing is known from before the folder changed`() throws {
        let life = Life(dice: SeededGenerator(seed: 1))
        var first = store(life, after: 0)
        _ = store(try life.request(0), in: &first, after: 0)
        life.files.kill()
        try deleteSegments(life)
        // The disk in memory leaves a folder the time at which it was created.
        let second = store(life, after: 130)
        let reach = second.reach
        #expect(reach > .seconds(129) && reach <= .seconds(130))
    }

    @Test func `a writer whose first segment is gone covers what follows it`() throws {
        let life = Life(dice: SeededGenerator(seed: 1))
        var first = store(life, after: 0)
        _ = store(try life.request(0), in: &first, after: 0)
        life.files.kill()
        let folder = "/spool/com.example.a-prod"
        let name = try #require(life.files.names(in: folder).first { $0.hasSuffix(".ndjson") })
        let later = name.dropLast("00000000000000000001.ndjson".count) + "00000000000000000002.ndjson"
        life.files.memory.now = (Self.wall + 50_000) * 1_000_000
        life.files.place("\(folder)/\(later).shipped-1-1795165250", life.files.bytes(of: "\(folder)/\(name)") ?? [])
        let whole = store(life, after: 60)
        #expect(whole.reach == .seconds(600))
        life.files.kill()
        try life.files.unlink("\(folder)/\(name)")
        let second = store(life, after: 110)
        let reach = second.reach
        #expect(reach > .seconds(59) && reach <= .seconds(60))
    }

    @Test func `a spool that cannot be read covers nothing`() throws {
        let life = Life(dice: SeededGenerator(seed: 1))
        var first = store(life, after: 0)
        _ = store(try life.request(0), in: &first, after: 0)
        life.files.kill()
        life.files.setFaults { call in call.verb == .list && call.path.hasSuffix("a-prod") ? .error(5) : nil }
        let second = store(life, after: 100)
        life.files.clearFaults()
        #expect(second.reach == .zero)
    }

    @Test func `an answer before the sync is caught`() throws {
        let isCaught = try (0..<UInt64(60)).contains { seed in
            var life = Life(dice: SeededGenerator(seed: seed), trustsUnsynced: true)
            try life.live(requests: 40)
            let ids = life.ids()
            return life.answered.contains { ids[$0] == nil }
        }
        #expect(isCaught)
    }

    @Test func `a full disk is told apart from a failing one`() throws {
        let life = Life(dice: SeededGenerator(seed: 1))
        var copy = life
        var store = copy.store(now: 0)
        let request = try life.request(1)
        for (errno, expected) in [(Int32(28), DoorOutcome.full), (5, .failed)] {
            life.files.setFaults { call in call.verb == .write ? .error(errno) : nil }
            #expect(
                store.store(
                    [request], now: MonotonicTime(nanoseconds: 1), wall: WallTime(milliseconds: 1_795_165_200_000))
                    == [expected])
            life.files.clearFaults()
        }
    }
}

extension DoorOutcome {
    fileprivate var isAnswer: Bool {
        if case .stored = self { true } else { false }
    }

    fileprivate var storedCount: Int {
        if case .stored(let counts) = self { counts.storedCount } else { 0 }
    }
}
