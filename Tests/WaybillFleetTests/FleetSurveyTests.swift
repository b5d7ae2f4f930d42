import Testing
import WaybillData
import WaybillProtocol
import WaybillSystem
@testable import WaybillFleet

/// A bucket with many objects, each with the time at which it was written; it counts what it is asked.
private final class CountingBucket: ObjectStore {
    private let keys: [String]
    private let bytes: [String: [UInt8]]
    private let times: [String: WallTime]
    private let pageCount: Int
    private let requests = Atomic(0)

    /// - Parameter objects: by key; the bytes, and when they were written, in seconds.
    init(_ objects: [String: (bytes: [UInt8], time: Int64)], pageCount: Int = 1000) {
        self.keys = objects.keys.sorted()
        self.bytes = objects.mapValues(\.bytes)
        self.times = objects.mapValues { WallTime(milliseconds: $0.time * 1000) }
        self.pageCount = pageCount
    }

    var requestCount: Int { self.requests.load(ordering: .relaxed) }

    private func unused() -> StoreError { StoreError(.refused, detail: "a survey writes nothing") }
    func create(_ key: String, _ body: ObjectBody) throws(StoreError) -> Creation { throw self.unused() }
    func replace(_ key: String, _ body: ObjectBody) throws(StoreError) { throw self.unused() }
    func delete(_ key: String) throws(StoreError) { throw self.unused() }
    func status(of key: String) throws(StoreError) -> ObjectStatus? { throw self.unused() }

    func read(_ key: String, _ range: Range<Int>?) throws(StoreError) -> [UInt8]? {
        self.requests.add(1, ordering: .relaxed)
        return self.bytes[key]
    }

    func list(_ prefix: String, after: String?, isFolded: Bool) throws(StoreError) -> ObjectListing {
        self.requests.add(1, ordering: .relaxed)
        var (low, high) = (0, self.keys.count)
        while low < high {
            let middle = (low + high) / 2
            let isBefore = self.keys[middle] < prefix || after.map { self.keys[middle] <= $0 } ?? false
            if isBefore { low = middle + 1 } else { high = middle }
        }
        var listing = ObjectListing()
        var index = low
        while index < self.keys.count, self.keys[index].hasPrefix(prefix) {
            let key = self.keys[index]
            index += 1
            let rest = key.dropFirst(prefix.utf8.count)
            if isFolded, let slash = rest.firstIndex(of: "/") {
                let folder = prefix + rest[...slash]
                if listing.folders.last == folder || after?.hasPrefix(folder) == true { continue }
                if listing.objects.count + listing.folders.count == self.pageCount {
                    listing.next = listing.folders.last.map { $0 + "\u{7F}" }
                    return listing
                }
                listing.folders.append(folder)
                continue
            }
            if listing.objects.count == self.pageCount {
                listing.next = listing.objects.last?.key
                return listing
            }
            let byteCount = self.bytes[key]?.count ?? 0
            listing.objects.append(.init(key: key, byteCount: byteCount, modified: self.times[key] ?? .unknown))
        }
        return listing
    }
}

/// What tests put into a bucket.
private struct SurveyBench {
    var objects: [String: (bytes: [UInt8], time: Int64)] = [
        "fleet-00001.json": (
            Array("{\"fleet\":\"\(String(repeating: "a", count: 32))\",\"level\":\"stored\",\"shards\":1}".utf8), 1
        )
    ]

    static func name(_ receiver: String, _ id: Int = 1) throws -> ChainName {
        try #require(ChainName("\(receiver)~\(Hexadecimal.text(UInt64(id), digitCount: 16))"))
    }

    /// Pieces of 100 bytes each, from position 0 on; one a second.
    mutating func upload(_ chain: ChainName, _ numbers: Range<Int>, from time: Int64) {
        for number in numbers {
            self.objects[chain.key(of: JournalPosition(number * 100))] = (
                [UInt8](repeating: 0x78, count: 100), time + Int64(number - numbers.lowerBound)
            )
        }
    }

    mutating func round(_ number: Int, by merger: String, _ pieces: [(ChainName, Int)], at time: Int64) {
        let round = MergeRound(
            number: number, merger: merger, time: WallTime(milliseconds: time * 1000), through: .unknown,
            pieces: pieces.map {
                MergeRound.Piece(
                    chain: $0.0, position: JournalPosition($0.1 * 100), byteCount: 100,
                    sha256: String(repeating: "0", count: 64))
            })
        self.objects[MergeRound.key(of: number)] = (round.encoded, time)
    }

    func survey(
        _ bucket: CountingBucket, known: FleetSurvey.Positions = [:], now: Int64
    ) throws(StoreError) -> FleetSurvey {
        try FleetSurvey(of: bucket, known: known, now: WallTime(milliseconds: now * 1000)) { count, body in
            for index in 0..<count { body(index) }
        }
    }
}

@Suite struct FleetSurveyTests {
    @Test func `a thousand chains take a request each, however long their history`() throws {
        var bench = SurveyBench()
        var names: [ChainName] = []
        for number in 0..<1000 {
            let name = try SurveyBench.name("r\(number)")
            names.append(name)
            bench.upload(name, 0..<120, from: 1000)
        }
        for number in 1..<5000 { bench.objects[MergeRound.key(of: number)] = ([], 1000) }
        for number in 5000...5010 { bench.round(number, by: "m1", names.map { ($0, 100 + number - 5000) }, at: 1200) }
        let bucket = CountingBucket(bench.objects)
        let survey = try bench.survey(bucket, now: 1300)
        #expect(survey.chains.count == 1000)
        #expect(survey.chains.allSatisfy { $0.merged == JournalPosition(11_100) && $0.uploaded?.rawValue == 12_000 })
        #expect(survey.chains.allSatisfy { $0.waitingByteCount == 900 })
        // The fleet's two, the chains' two, the checkpoint's one, the rounds.
        #expect(bucket.requestCount <= 1000 + 5 + 64 + 40, "\(bucket.requestCount)")
    }

    @Test func `a chain of which nothing is known is searched for its end`() throws {
        var bench = SurveyBench()
        bench.upload(try SurveyBench.name("a"), 0..<50_000, from: 0)
        let bucket = CountingBucket(bench.objects, pageCount: 100)
        let survey = try bench.survey(bucket, now: 60_000)
        #expect(survey.chains.map(\.uploaded) == [JournalPosition(5_000_000)])
        #expect(survey.chains.map(\.merged) == [nil])
        #expect(survey.chains.map(\.heard) == [WallTime(milliseconds: 49_999_000)])
        #expect(bucket.requestCount < 60, "\(bucket.requestCount)")
    }

    @Test func `what is merged is known from rounds, from a merger, and from the newest checkpoint`() throws {
        let (a, b, c) = (try SurveyBench.name("a"), try SurveyBench.name("b"), try SurveyBench.name("c"))
        var bench = SurveyBench()
        for name in [a, b, c] { bench.upload(name, 0..<10, from: 100) }
        bench.round(1, by: "m1", [(a, 3)], at: 104)
        bench.round(2, by: "m2", [(a, 4)], at: 105)
        let checkpoint = """
            {"position":4096,"round":1,"merger":"m2","time":90000,"chains":[{"chain":"\(c)","position":1000}]}
            """
        bench.objects["merge/s00/checkpoint/00000000000000004096.wbc"] = (Array(checkpoint.utf8), 90)
        bench.objects["merge/s00/checkpoint/00000000000000004096/x-00001"] = ([1], 90)
        var chain = MergedChain(position: JournalPosition(700))
        chain.lastMark = WallTime(milliseconds: 1)
        let survey = try bench.survey(CountingBucket(bench.objects, pageCount: 3), known: [b: chain], now: 200)
        #expect(survey.chains.map(\.name) == [a, b, c])
        #expect(survey.chains.map { $0.merged?.rawValue } == [500, 700, 1000])
        #expect(survey.chains.map { $0.waitingSince?.milliseconds } == [105_000, 107_000, nil])
        #expect(survey.chains.map(\.waitingByteCount) == [500, 300, 0])
        #expect(survey.round?.number == 2)
        #expect(survey.proposers.map(\.name) == ["m2", "m1"])
        #expect(survey.proposers.map(\.count) == [1, 1])
        #expect(survey.checkpoint?.merger == "m2" && survey.checkpoint?.time == WallTime(milliseconds: 90_000))
    }

    @Test func `a chain that is merged to its end waits for nothing`() throws {
        let a = try SurveyBench.name("a")
        var bench = SurveyBench()
        bench.upload(a, 0..<10, from: 100)
        bench.round(1, by: "m", [(a, 8), (a, 9)], at: 110)
        let survey = try bench.survey(CountingBucket(bench.objects), now: 200)
        #expect(survey.chains.map { $0.merged?.rawValue } == [1000])
        #expect(survey.chains.map(\.waitingByteCount) == [0])
        #expect(survey.chains.map { $0.heard.milliseconds } == [109_000])
    }

    @Test func `two chains of a name that grow at once are two receivers, one after the other is one`() throws {
        let (first, second) = (try SurveyBench.name("a", 1), try SurveyBench.name("a", 2))
        for (start, isTwin) in [(Int64(105), true), (120, false)] {
            var bench = SurveyBench()
            bench.upload(first, 0..<10, from: 100)
            bench.upload(second, 0..<10, from: start)
            bench.upload(try SurveyBench.name("b"), 0..<3, from: 100)
            let bucket = CountingBucket(bench.objects)
            #expect(try bench.survey(bucket, now: 200).twins == (isTwin ? ["a"] : []))
            #expect(try FleetSurvey.hasTwin("a", in: bucket, now: WallTime(milliseconds: 200_000)) == isTwin)
            #expect(try !FleetSurvey.hasTwin("b", in: bucket, now: WallTime(milliseconds: 200_000)))
            // Long after, it was corrected.
            #expect(try bench.survey(bucket, now: 2000).twins == [])
        }
    }

    @Test func `the last of numbered objects is found wherever it is`() throws {
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<200 {
            let count = Int(generator.next() % 60)
            let spread = [3, 1000, 1 << 40][Int(generator.next() % 3)]
            let numbers = (0..<count).map { _ in Int(generator.next() % UInt64(spread)) }
            var objects: [String: (bytes: [UInt8], time: Int64)] = ["p/x": ([], 0), "p": ([], 0)]
            let name = { (number: Int) in "p/" + String(repeating: "0", count: 20 - "\(number)".count) + "\(number).z" }
            for number in numbers { objects[name(number)] = ([], 0) }
            let bucket = CountingBucket(objects, pageCount: 1 + Int(generator.next() % 7))
            let numbered = NumberedObjects(bucket, prefix: "p/", suffix: ".z")
            #expect(try numbered.last()?.number == numbers.max())
        }
    }

    @Test func `an object with the largest number of all is none of them`() throws {
        let largest = "p/09223372036854775807.z"
        let objects: [String: (bytes: [UInt8], time: Int64)] = ["p/00000000000000000005.z": ([], 0), largest: ([], 0)]
        for pageCount in 1...3 {
            let numbered = NumberedObjects(
                CountingBucket(objects, pageCount: pageCount), prefix: "p/", suffix: ".z")
            #expect(try numbered.last()?.number == 5)
        }
        let alone = NumberedObjects(CountingBucket([largest: ([], 0)]), prefix: "p/", suffix: ".z")
        #expect(try alone.last() == nil)
    }
}

@Suite struct MissingBytesTests {
    fileprivate func name(_ id: String) throws -> StreamName {
        StreamName(principal: "shop", id: try #require(StreamID(id)))
    }

    @Test func `what a receiver was told to be elsewhere is missing until it comes`() throws {
        let stream = try self.name("s1")
        var streams = MergedStreams()
        streams.tell(0..<1000, of: stream, to: "b")
        streams.add(1000..<1500, to: stream)
        #expect(
            streams.missing == [
                MissingBytes(principal: "shop", stream: "s1", ranges: [0..<1000], receivers: ["b"])
            ])
        streams.add(0..<400, to: stream)
        streams.tell(0..<1000, of: stream, to: "c")
        #expect(
            streams.missing == [
                MissingBytes(principal: "shop", stream: "s1", ranges: [400..<1000], receivers: ["b", "c"])
            ])
        streams.add(400..<1000, to: stream)
        #expect(streams.missing == [])
        // What is there is not remembered.
        streams.tell(0..<800, of: stream, to: "d")
        #expect(streams.missing == [])
    }

    @Test func `what lies below a seal is missing, and what was skipped is not`() throws {
        let stream = try self.name("s1")
        var streams = MergedStreams()
        streams.add(0..<100, to: stream)
        let isSkipped = streams.skip(100..<200, of: stream)
        let isSealed = streams.seal(stream, at: 300)
        #expect(isSkipped && isSealed)
        #expect(
            streams.missing == [MissingBytes(principal: "shop", stream: "s1", ranges: [200..<300], receivers: [])])
    }

    @Test func `what was told is in the state until it comes`() throws {
        let stream = try self.name("s1")
        var streams = MergedStreams()
        streams.tell(0..<1000, of: stream, to: "b")
        var lines = StateLines()
        streams.takeChanges(&lines)
        func restored() -> MergedStreams {
            var restored = MergedStreams()
            streams.forEachPart { part in
                for line in String(decoding: part.bytes, as: UTF8.self).split(separator: "\n") {
                    let words = line.split(separator: " ", maxSplits: 2)
                    guard words.count == 3 else { continue }
                    let isKnown = restored.restore(String(words[1]), String(words[2]))
                    #expect(isKnown, "\(line)")
                }
            }
            return restored
        }
        #expect(restored().missing == streams.missing && !streams.missing.isEmpty)
        streams.add(0..<1000, to: stream)
        lines = StateLines()
        streams.takeChanges(&lines)
        #expect(String(decoding: lines.bytes, as: UTF8.self).contains("- told/shop/s1"))
        #expect(restored().missing == [])
    }
}

extension MissingBytesTests {
    @Test func `what a stream had before its receiver joined is not missing`() throws {
        let stream = try self.name("s1")
        var streams = MergedStreams()
        streams.join(stream, at: 600)
        streams.add(600..<1000, to: stream)
        // The stream moved on to another receiver.
        streams.tell(0..<1000, of: stream, to: "b")
        streams.add(1000..<1200, to: stream)
        #expect(streams.missing == [])
        streams.tell(0..<1500, of: stream, to: "c")
        #expect(
            streams.missing == [
                MissingBytes(principal: "shop", stream: "s1", ranges: [1200..<1500], receivers: ["c"])
            ])
        var lines = StateLines()
        streams.takeChanges(&lines)
        #expect(String(decoding: lines.bytes, as: UTF8.self).contains("+ before/shop/s1 600"))
    }
}

extension MissingBytesTests {
    @Test func `pieces have spoken of what is there, was skipped, or was said to be elsewhere`() throws {
        let stream = try self.name("s1")
        var streams = MergedStreams()
        #expect(!streams.isHeard(0..<600, of: stream, from: "a"))
        streams.tell(500..<700, of: stream, to: "b")
        #expect(!streams.isHeard(0..<600, of: stream, from: "a") && streams.isHeard(0..<600, of: stream, from: "b"))
        #expect(!streams.isHeard(0..<500, of: stream, from: "b"))
        let isSkipped = streams.skip(400..<500, of: stream)
        #expect(isSkipped)
        #expect(streams.isHeard(0..<500, of: stream, from: "a") && !streams.isHeard(0..<400, of: stream, from: "a"))
        streams.add(0..<10, to: stream)
        #expect(streams.isHeard(0..<400, of: stream, from: "a"))
    }
}

extension MissingBytesTests {
    @Test func `what agents say to be before the fleet is in the holder's archive, and not missing`() throws {
        let stream = try self.name("s1")
        var streams = MergedStreams()
        streams.tell(0..<600, of: stream, to: "b", holder: "a")
        streams.tell(600..<1000, of: stream, to: "b")
        streams.add(1000..<1200, to: stream)
        let isSealed = streams.seal(stream, at: 1200)
        #expect(isSealed)
        #expect(
            streams.missing == [
                MissingBytes(principal: "shop", stream: "s1", ranges: [600..<1000], receivers: ["b"])
            ])
        func before(_ range: Range<UInt64>, _ holders: String...) -> BytesBefore {
            var ranges = OffsetRanges()
            ranges.insert(range)
            return BytesBefore(principal: "shop", stream: "s1", ranges: ranges, holders: holders)
        }
        #expect(streams.beforeFleet == [before(0..<600, "a")])
        // The text of the state.
        var lines = StateLines()
        streams.takeChanges(&lines)
        let text = String(decoding: lines.bytes, as: UTF8.self)
        #expect(text.contains("+ told/shop/s1 0-600@b/a;600-1000@b"))
        var restored = MergedStreams()
        let isTaken = restored.restore("told/shop/s1", "0-600@b/a;600-1000@b")
        #expect(isTaken && restored.beforeFleet == streams.beforeFleet)
        for bad in ["0-600@b/", "0-600@/a", "0-600@b/a/c", "0-600@b/a b"] {
            let isBad = !restored.restore("told/shop/s1", bad)
            #expect(isBad, "\(bad)")
        }
        // The holder came back older, and its agents sent it all again.
        streams.add(0..<500, to: stream)
        #expect(streams.beforeFleet == [before(500..<600, "a")])
        streams.add(500..<1000, to: stream)
        #expect(streams.beforeFleet == [] && streams.missing == [])
    }
}

/// A stream that one receiver sealed below what another one has of it.
@Suite struct ShortSealTests {
    private func seal(_ streams: inout MergedStreams, _ name: StreamName, at length: UInt64) {
        let isNews = streams.seal(name, at: length)
        #expect(isNews)
    }

    private func commit(_ streams: inout MergedStreams) -> String {
        var lines = StateLines()
        streams.takeChanges(&lines)
        return String(decoding: lines.bytes, as: UTF8.self)
    }

    @Test(arguments: [false, true])
    func `what lies behind a seal is not forgotten`(isSealedFirst: Bool) throws {
        let stream = StreamName(principal: "shop", id: try #require(StreamID("s1")))
        var streams = MergedStreams()
        func commit() -> String { self.commit(&streams) }
        streams.add(0..<100, to: stream)
        if isSealedFirst {
            self.seal(&streams, stream, at: 100)
            #expect(commit().contains("+ whole/"))
            #expect(streams.wholeCount == 1)
            streams.add(100..<300, to: stream)
        } else {
            streams.add(100..<300, to: stream)
            self.seal(&streams, stream, at: 100)
        }
        #expect(commit().contains("+ stream/shop/s1 0-300;;100"))
        #expect(streams.standing(of: 100..<300, in: stream) == .present)
        #expect(streams.missing == [])
        // The other receiver seals it where it ends.
        self.seal(&streams, stream, at: 300)
        #expect(commit().contains("+ whole/"))
        #expect(streams.standing(of: 0..<300, in: stream) == .present)
        #expect(streams.missing == [])
    }
}
