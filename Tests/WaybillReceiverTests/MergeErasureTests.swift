import Testing
import WaybillData
import WaybillExport
import WaybillFleet
import WaybillMerger
import WaybillProjection
import WaybillProtocol
import WaybillReceiver
import WaybillReplay
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

/// A person leaves every merger of a fleet at one place of its log.
@Suite struct MergeErasureTests {
    private static let person = "someone-to-erase"
    private static let day: Int64 = 1_795_305_600_000

    private static func isPersons(_ number: Int) -> Bool { number % 5 == 2 }

    private static func line(_ number: Int) -> String {
        event(
            name: "bought", id: number, ts: "2026-11-\(19 + number % 2)T09:15:00.000Z",
            user: Self.isPersons(number) ? Self.person : "u-\(number % 3)")
    }

    private static func ask(_ site: FleetSite) throws {
        let asked = try ErasureRequest.ask(
            .user, id: Self.person, now: WallTime(milliseconds: Self.day), newKey: [UInt8](repeating: 7, count: 32),
            in: site.store
        ) { $0.person == .id(Self.person) }
        #expect(!asked.isRepeated)
    }

    /// The content of a merger's folders, inflated; without what a restart says in other words.
    private static func tree(_ site: FleetSite, _ merger: String) throws -> [String: String] {
        var tree: [String: String] = [:]
        for folder in ["archive", "exports", "quarantine"] {
            // No quarantine is made before something is in it.
            guard try POSIXFileSystem().status(at: "\(site.root)/\(merger)/\(folder)") != nil else { continue }
            for (path, bytes) in try site.tree("\(merger)/\(folder)") {
                if path.hasPrefix("/_erasures") || path.hasSuffix(".sources") { continue }
                if folder == "archive", path.hasSuffix("/manifest.json") { continue }
                let content = path.hasSuffix(".gz") ? try #require(ProjectionBench.inflate(bytes)) : bytes
                tree[folder + path] = String(decoding: content, as: UTF8.self)
            }
        }
        return tree
    }

    /// Runs these mergers until all have the same rounds: one may find that a day can be sealed meanwhile.
    private static func settle(_ site: FleetSite, _ mergers: [String]) async throws {
        func roundCount() -> Int { site.store.objects.keys.count { $0.hasPrefix("merge/") } }
        var count: Int
        repeat {
            count = roundCount()
            for merger in mergers { _ = try await site.merge(merger) }
        } while roundCount() > count
    }

    /// The lines of an archive.
    private static func lines(_ tree: [String: String]) -> [String] {
        tree.filter { $0.key.hasPrefix("archive") && $0.key.contains(".ndjson") }.values
            .flatMap { $0.split(separator: "\n").map(String.init) }.sorted()
    }

    /// Everything of others is there, and nothing of the person: on the merger's disk and in the bucket.
    private static func expectErased(_ site: FleetSite, _ mergers: [String], of numbers: Range<Int>) throws {
        let expected = numbers.filter { !Self.isPersons($0) }
        for merger in mergers {
            let tree = try Self.tree(site, merger)
            for (path, text) in tree { #expect(!text.contains(Self.person), "\(merger) \(path)") }
            #expect(Self.lines(tree) == expected.map(Self.line).sorted(), "\(merger)")
            let rows = tree.filter { $0.key.hasPrefix("exports/csv") && $0.key.contains(".csv") }
                .reduce(0) { $0 + max(0, $1.value.split(separator: "\r\n").count - 1) }
            #expect(rows == expected.count, "\(merger)")
        }
        for (key, bytes) in site.store.objects where key.hasPrefix("archive/") || key.hasPrefix("exports/") {
            let content = key.hasSuffix(".gz") ? try #require(ProjectionBench.inflate(bytes)) : bytes
            #expect(!String(decoding: content, as: UTF8.self).contains(Self.person), "\(key) in the bucket")
        }
    }

    @Test func `behind an erasure the next barrier has a checkpoint, however new the last one is`() async throws {
        let site = try FleetSite(Self.line)
        var counts: [Int] = []
        for number in 0..<4 {
            let numbers = number * 10..<number * 10 + 10
            _ = try site.receive("a", stream: "s\(number)", numbers, at: Self.day + Int64(number) * 600_000)
            // Each is a start of its own; after the first, checkpoints are a day apart.
            let report = try await site.merge("m1", checkpoints: number == 0)
            counts.append(report.checkpointCount)
            guard number == 1 else { continue }
            try Self.ask(site)
            #expect(try await site.merge("m1", checkpoints: false).erasureCount == 1)
        }
        #expect(counts == [1, 0, 1, 0])
    }

    @Test(arguments: [["m1", "m2"], ["m2", "m1"]])
    func `both mergers have the same files afterwards, whichever is first`(order: [String]) async throws {
        let site = try FleetSite(Self.line)
        let half = try site.receive("a", stream: "s1", 0..<40, at: Self.day)
        let other = try site.receive("b", stream: "s2", 40..<60, at: Self.day + 1000)
        for merger in ["m1", "m2"] { _ = try await site.merge(merger) }
        #expect(try Self.tree(site, "m1").values.contains { $0.contains(Self.person) })
        #expect(site.store.objects.keys.contains { $0.hasSuffix("_SUCCESS") })
        try Self.ask(site)
        // Lines that come with the round are before it, and leave with the others.
        _ = try site.receive("a", stream: "s1", 60..<70, from: half, at: Self.day + 2000)
        let first = try await site.merge(order[0])
        #expect(first.erasureCount == 1)
        #expect(first.erasedLineCount == (0..<70).count(where: Self.isPersons))
        #expect(first.erasedRecordCount == first.erasedLineCount)
        #expect(first.replacedCount > 0)
        try Self.expectErased(site, [order[0]], of: 0..<70)
        let parts = site.store.objects.filter { $0.key.contains("/part-0") }
        let second = try await site.merge(order[1])
        #expect(second.erasureCount == 1)
        #expect(second.erasedLineCount == first.erasedLineCount)
        for (key, bytes) in parts { #expect(site.store.objects[key] == bytes, "\(key)") }
        try await Self.settle(site, ["m1", "m2"])
        try Self.expectErased(site, ["m1", "m2"], of: 0..<70)
        #expect(try Self.tree(site, "m1") == Self.tree(site, "m2"))

        // What comes later of the person is dropped; a merger that joins replays all rounds.
        _ = try site.receive("b", stream: "s2", 70..<90, from: other, at: Self.day + 600_000)
        try await Self.settle(site, ["m1", "m2", "m3"])
        try Self.expectErased(site, ["m1", "m2", "m3"], of: 0..<90)
        #expect(try Self.tree(site, "m1") == Self.tree(site, "m2"))
        #expect(try Self.tree(site, "m1") == Self.tree(site, "m3"))
        let erased = try site.tree("m3/quarantine").filter { $0.key.hasSuffix("/erased.sources") }
        let counted = erased.values.reduce(0) { count, bytes in
            count + String(decoding: bytes, as: UTF8.self).split(separator: "\n").count { $0.hasPrefix("ERASED") }
        }
        #expect(counted > 0)
        // The second look at a day finds nothing to do.
        #expect(try await site.merge("m1").replacedCount == 0)
    }

    /// A kill between the last step of the erasure and the merger's record of it.
    @Test func `an erasure that is not recorded is applied again, and changes nothing`() async throws {
        let site = try FleetSite(Self.line)
        _ = try site.receive("a", stream: "s1", 0..<60, at: Self.day)
        for merger in ["m1", "m2"] { _ = try await site.merge(merger) }
        try Self.ask(site)
        let key = [UInt8](repeating: 7, count: 32)
        let person = ErasedPeople.Person(id: Array(Self.person.utf8), .user, key: key)
        var eraser = Eraser(
            ofFleet: FleetErasure(person: person, key: key), .user, id: Self.person,
            dataDirectory: "\(site.root)/m1", files: POSIXFileSystem())
        #expect(try eraser.run(now: WallTime(milliseconds: Self.day)).lineCount == 12)
        let before = try Self.tree(site, "m1")
        let report = try await site.merge("m1")
        #expect(report.erasureCount == 1)
        #expect(report.erasedLineCount == 0)
        #expect(try Self.tree(site, "m1") == before)
        try await Self.settle(site, ["m2", "m1"])
        #expect(try Self.tree(site, "m1") == Self.tree(site, "m2"))
        try Self.expectErased(site, ["m1", "m2"], of: 0..<60)
    }

    /// What a delivery holds up.
    enum Hold: CaseIterable {
        case begunPart, lock
    }

    @Test(arguments: Hold.allCases)
    func `a merger waits for a delivery, and tells it so`(hold: Hold) async throws {
        let site = try FleetSite(Self.line)
        _ = try site.receive("a", stream: "s1", 0..<60, at: Self.day)
        _ = try await site.merge("m1")
        try Self.ask(site)
        let (files, state) = (POSIXFileSystem(), "\(site.root)/m1/state")
        let lock = try files.open("\(state)/deliver-csv.state.lock", .append)
        let suffix = ".manifest.json"
        let paths = try site.tree("m1/exports/csv").keys
        let part = try #require(paths.first { $0.hasSuffix(suffix) && $0.contains("/part-") })
        let key = "part:\(part.dropFirst().dropLast(suffix.utf8.count))"
        switch hold {
        case .begunPart:
            var delivery = try StateStore(path: "\(state)/deliver-csv.state", files: files)
            try delivery.commit([key: "begun"])
        case .lock: #expect(try files.lock(lock, .exclusive))
        }
        // Each call to the bucket is a look at what the delivery would see.
        let seen = Lock((count: 0, isOver: false))
        site.store.setFaults { _ in
            seen.withLock { seen in
                do {
                    guard !seen.isOver, try files.status(at: "\(state)/erasure.waits") != nil else { return }
                    seen.count += 1
                    guard seen.count >= 20 else { return }
                    seen.isOver = true
                    switch hold {
                    case .begunPart:
                        var delivery = try StateStore(path: "\(state)/deliver-csv.state", files: files)
                        try delivery.commit([key: String?.none])
                    case .lock: files.close(lock)
                    }
                } catch {
                    Issue.record("\(error)")
                }
            }
            return nil
        }
        let report = try await site.merge("m1")
        site.store.setFaults(nil)
        #expect(report.erasureCount == 1)
        #expect(seen.withLock { $0.isOver })
        #expect(try files.status(at: "\(state)/erasure.waits") == nil)
        try Self.expectErased(site, ["m1"], of: 0..<60)
        if hold == .begunPart { files.close(lock) }
    }

    @Test func `a merger's directory is not erased from alone, and one with another key stops`() async throws {
        let site = try FleetSite(Self.line)
        _ = try site.receive("a", stream: "s1", 0..<60, at: Self.day)
        _ = try await site.merge("m1")
        let (data, files) = ("\(site.root)/m1", POSIXFileSystem())
        var alone = Eraser(dataDirectory: data, .user, Self.person, isDryRun: false, files: files)
        #expect(throws: Eraser<POSIXFileSystem>.Failure.self) { try alone.run(now: WallTime(milliseconds: Self.day)) }
        var counting = Eraser(dataDirectory: data, .user, Self.person, isDryRun: true, files: files)
        #expect(try counting.run(now: WallTime(milliseconds: Self.day)).lineCount == 12)
        let key = [UInt8](repeating: 9, count: 32)
        let person = ErasedPeople.Person(id: Array("u-1".utf8), .user, key: key)
        var other = Eraser(
            ofFleet: FleetErasure(person: person, key: key), .user, id: "u-1", dataDirectory: data, files: files)
        _ = try other.run(now: WallTime(milliseconds: Self.day))
        try Self.ask(site)
        await #expect(throws: MergeFailure.self) { _ = try await site.merge("m1") }
    }

    @Test func `someone whose id is only known by its digest is kept out`() async throws {
        let site = try FleetSite(Self.line)
        _ = try site.receive("a", stream: "s1", 0..<60, at: Self.day)
        let key = [UInt8](repeating: 7, count: 32)
        let person = ErasedPeople.Person(id: Array(Self.person.utf8), .user, key: key)
        let request = ErasureRequest(
            number: 1, .user, .digest(person.digest, mark: try #require(person.mark)),
            time: WallTime(milliseconds: Self.day), key: key)
        site.store.place(ErasureRequest.key(of: 1), request.encoded)
        #expect(try await site.merge("m1").erasedLineCount == 12)
        try Self.expectErased(site, ["m1"], of: 0..<60)
    }
}

@Suite struct ErasureDigestsTests {
    private static let hour: Int64 = 3_600_000

    @Test func `an id becomes a digest when no piece from before its erasure is left`() async throws {
        let site = try FleetSite()
        let erased = WallTime(milliseconds: 100 * Self.hour)
        let key = [UInt8](repeating: 7, count: 32)
        for (number, id) in [(1, "a"), (2, "b")] {
            let request = ErasureRequest(number: number, .user, .id(id), time: erased, key: key)
            site.store.place(ErasureRequest.key(of: number), request.encoded)
        }
        let files = FaultyFiles()
        try files.createDirectories("/data/archive")
        try files.createDirectories("/data/state")
        let data = DataDirectory(root: "/data", files: files)
        let digests = ErasureDigests(data, site.store)
        let first = ErasedPeople.Person(id: Array("a".utf8), .user, key: key)
        // Nothing was erased here yet.
        #expect(try digests.run(from: 0) == 0)
        var log = try ErasureLog(data)
        try log.use(key: key)
        var record = ErasureRecord(kind: .user, at: erased)
        try log.record(record, of: first.digest)
        #expect(try digests.run(from: 0) == 0)
        record.isDone = true
        try log.record(record, of: first.digest)
        // A piece from before the erasure.
        site.store.setTime(WallTime(milliseconds: 99 * Self.hour))
        let piece = "journal/a~0000000000000001/00000000000000000000.wbj"
        #expect(try site.store.create(piece, ObjectBody([1])) == .created)
        site.store.setTime(WallTime(milliseconds: 200 * Self.hour))
        let later = "journal/b~0000000000000002/00000000000000000000.wbj"
        #expect(try site.store.create(later, ObjectBody([1])) == .created)
        #expect(try digests.run(from: 0) == 0)
        site.store.place(piece, nil)
        // The second one is not erased here yet.
        #expect(try digests.run(from: 0) == 1)
        let request = ErasureRequest(
            try #require(site.store.objects[ErasureRequest.key(of: 1)]), number: 1)
        #expect(request?.person == .digest(first.digest, mark: try #require(first.mark)))
        #expect(request?.key == key)
        #expect(try digests.run(from: 1) == 1)
        #expect(try digests.run(from: 0) == 1)
    }
}

@Suite struct ErasedDaysTests {
    private static func time(_ seconds: Int64) -> WallTime { WallTime(milliseconds: 1_000_000 + seconds * 1000) }

    @Test func `a day is looked at after ten minutes, an hour and a day, and again after a repair`() throws {
        let files = FaultyFiles()
        try files.createDirectories("/data/state")
        let data = DataDirectory(root: "/data", files: files)
        var days = ErasedDays(data)
        #expect(try days.due(Self.time(0)) == [])
        try days.published("archive/a", now: Self.time(0))
        #expect(try days.due(Self.time(599)) == [])
        #expect(try days.due(Self.time(600)) == ["archive/a"])
        try days.looked(at: "archive/a", isQuiet: true, now: Self.time(600))
        var restarted = ErasedDays(data)
        #expect(try restarted.due(Self.time(4199)) == [])
        #expect(try restarted.due(Self.time(4200)) == ["archive/a"])
        // An older merger had written: it begins again.
        try restarted.looked(at: "archive/a", isQuiet: false, now: Self.time(4200))
        #expect(try restarted.due(Self.time(4800)) == ["archive/a"])
        for time in [4800, 8400, 94_800] as [Int64] {
            #expect(try restarted.due(Self.time(time)) == ["archive/a"])
            try restarted.looked(at: "archive/a", isQuiet: true, now: Self.time(time))
        }
        #expect(try restarted.due(Self.time(1_000_000)) == [])
        try restarted.published("archive/b", now: Self.time(0))
        try restarted.forget("archive/b")
        #expect(try restarted.due(Self.time(1_000_000)) == [])
    }
}
