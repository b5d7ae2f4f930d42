import Testing
import WaybillCompression
import WaybillData
import WaybillProjection
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

/// Days that are sealed: by the plain files that they would be, whatever happens while they are.
@Suite struct ArchiveSealTests {
    private typealias Archive = ArchiveProjection<FaultyFiles>

    private static func now(_ second: Int64) -> WallTime {
        WallTime(milliseconds: ProjectionBench.noon + second * 1000)
    }

    /// Starts an archive, brings it to the journal's end, and finishes what is being sealed.
    @discardableResult
    private static func settle(_ bench: ProjectionBench, sealing moment: SealMoment? = nil) throws -> ProjectionRecovery
    {
        var projection = try Archive(data: bench.data, zone: .utc)
        return try self.settle(bench, &projection, sealing: moment)
    }

    private static func settle(
        _ bench: ProjectionBench, _ projection: inout Archive, sealing moment: SealMoment? = nil
    ) throws -> ProjectionRecovery {
        let recovery = try projection.recover()
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = recovery.position
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        // A day that is being sealed is sealed again once that is done.
        repeat {
            try projection.checkpoint(at: position, sealing: moment)
            while projection.isSealing { try projection.continueSealing() }
        } while moment != nil && projection.nextDue != nil
        return recovery
    }

    static func inflate(_ bytes: [UInt8]) throws -> [UInt8] {
        var inflater = GzipInflater()
        var output: [UInt8] = []
        var position = 0
        try bytes.withUnsafeBytes { input in
            let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 1)
            defer { room.deallocate() }
            var filled = 1
            while position < input.count || filled > 0 {
                let result = try inflater.inflate(UnsafeRawBufferPointer(rebasing: input[position...]), into: room)
                position += result.taken
                filled = result.filled
                output += room[..<filled]
            }
        }
        let isWhole = inflater.isBetweenMembers
        try #require(isWhole)
        return output
    }

    /// The lines of each day and quarantine file, open or sealed, with the path that they would have had unsealed.
    private static func lines(_ bench: ProjectionBench) throws -> [String: String] {
        var result: [String: String] = [:]
        var paths: [(key: String, path: String)] = []
        for folder in ["archive", "quarantine"] {
            for path in bench.disk.tree("/data/" + folder).keys {
                guard path.hasSuffix(".ndjson") || path.hasSuffix(".ndjson.gz") else { continue }
                let name = Path.name(of: path)
                // part-00001 comes before late-00001.
                paths.append((Path.parent(of: path) + "/" + (name.hasPrefix("late-") ? "z" : "a") + name, path))
            }
        }
        for (_, path) in paths.sorted(by: { $0.key < $1.key }) {
            let bytes = try #require(bench.disk.bytes(of: path))
            let text = String(decoding: path.hasSuffix(".gz") ? try Self.inflate(bytes) : bytes, as: UTF8.self)
            if path.hasSuffix(".gz") { #expect(bench.disk.bytes(of: String(path.dropLast(3))) == nil, "\(path)") }
            let isDay = path.hasPrefix("/data/archive/")
            let key = isDay ? Path.parent(of: path) + "/part-00001.ndjson" : path
            result[String(key.dropFirst("/data/".utf8.count)), default: ""] += text
        }
        return result
    }

    /// Every line once, in order; each sealed day's manifest says what is there, and nothing lies about.
    private static func expect(_ bench: ProjectionBench, holds files: [String: String]) throws {
        let lines = try Self.lines(bench)
        for path in Set(lines.keys).union(files.keys).sorted() {
            let isSame = lines[path] == files[path]
            #expect(isSame, "\(path)")
        }
        let tree = bench.disk.tree("/data/archive")
        #expect(tree.keys.filter { $0.hasSuffix(".tmp") } == [])
        for path in tree.keys.sorted() where path.hasSuffix(".gz") {
            let folder = Path.parent(of: path)
            let manifest = try #require(try DayManifest.read(in: folder, files: bench.disk), "\(folder)")
            #expect(manifest.files.map(\.name).contains(Path.name(of: path)))
            #expect(tree[folder + "/_SUCCESS"] == [])
        }
        for path in tree.keys.sorted() where path.hasSuffix("/manifest.json") {
            try Self.expectManifest(Path.parent(of: path), bench)
        }
    }

    private static func expectManifest(_ folder: String, _ bench: ProjectionBench) throws {
        let manifest = try #require(try DayManifest.read(in: folder, files: bench.disk))
        #expect(manifest.files.count == manifest.revision)
        #expect(manifest.sources.reduce(0) { $0 + $1.lineCount } + manifest.otherLineCount == manifest.lineCount)
        #expect(manifest.files.map(\.position) == manifest.files.map(\.position).sorted())
        for file in manifest.files {
            let bytes = try #require(bench.disk.bytes(of: Path.join(folder, file.name)), "\(folder) \(file.name)")
            let raw = try Self.inflate(bytes)
            #expect(file.gzipByteCount == bytes.count)
            #expect(file.byteCount == raw.count)
            #expect(file.lineCount == raw.count { $0 == 0x0A })
            #expect(file.sha256 == Self.sha256(bytes))
            #expect(file.rawSHA256 == Self.sha256(raw))
            #expect(bench.disk.bytes(of: Path.join(folder, file.stem + ".sources"))?.count == file.sourcesByteCount)
            if let first = file.first, let last = file.last {
                #expect(first <= last)
                #expect(
                    TimeZoneRules.utc.day(of: first) == manifest.day && TimeZoneRules.utc.day(of: last) == manifest.day)
            } else {
                Issue.record("\(folder)/\(file.name) has no times")
            }
        }
    }

    private static func sha256(_ bytes: [UInt8]) -> String {
        var digest = SHA256Digest()
        bytes.withUnsafeBytes { digest.update($0) }
        return digest.finish()
    }

    @Test(arguments: 0..<UInt64(6))
    func `sealed now and then, a day holds the lines that it would hold open`(seed: UInt64) throws {
        let (bench, files) = try ArchiveProjectionTests.bench(seed: seed)
        var driver = ProjectionDriver(bench: bench)
        driver.checkpointsPerSeal = 2
        try driver.run(seed: seed) { () throws(FileSystemError) in try Archive(data: bench.data, zone: .utc) }
        try Self.settle(bench, sealing: .everything(now: Self.now(1)))
        try Self.expect(bench, holds: files)
        let names = Set(bench.disk.tree("/data/archive").keys.map(Path.name(of:)))
        #expect(names.contains("late-00001.ndjson.gz"))
        #expect(!names.contains { $0.hasSuffix(".ndjson") })
        // What is sealed stays as it is; and a start has nothing to say.
        let before = bench.disk.tree("/data/archive")
        #expect(try Self.settle(bench, sealing: .everything(now: Self.now(2))).report.isEmpty)
        #expect(bench.disk.tree("/data/archive") == before)
    }

    @Test(arguments: 0..<UInt64(60))
    func `errors and crashes anywhere lose no line of a day that is being sealed, and repeat none`(seed: UInt64) throws
    {
        let (bench, files) = try ArchiveProjectionTests.bench(seed: seed % 6)
        var driver = ProjectionDriver(bench: bench)
        driver.failuresPerMille = seed % 4 == 0 ? 0 : 12
        driver.stepsPerCrash = seed % 4 == 1 ? 0 : 4
        driver.stepsPerCheckpoint = Int(seed % 3) + 1
        driver.checkpointsPerSeal = Int(seed % 4) + 1
        try driver.run(seed: seed) { () throws(FileSystemError) in try Archive(data: bench.data, zone: .utc) }
        try Self.settle(bench)
        try Self.expect(bench, holds: files)
        bench.disk.crash(seed: seed)
        try Self.settle(bench, sealing: .everything(now: Self.now(9)))
        try Self.expect(bench, holds: files)
    }

    @Test(arguments: [false, true])
    func `a crash at any call of a seal is made good by the next start`(isPowerCut: Bool) throws {
        let (source, files) = try ArchiveProjectionTests.finishedBench(seed: 5)
        var call = 1
        while true {
            let bench = try source.copy()
            bench.disk.stop(atCall: call)
            do { try Self.settle(bench, sealing: .everything(now: Self.now(1))) } catch {
                #expect(bench.disk.isStopped)
            }
            if !bench.disk.isStopped { break }
            if isPowerCut { bench.disk.crash(seed: UInt64(call)) } else { bench.disk.kill() }
            try Self.settle(bench)
            try Self.expect(bench, holds: files)
            call += call < 400 ? 1 : 7
        }
        #expect(call > 300)
    }

    @Test func `the same seal writes the same bytes`() throws {
        let (source, _) = try ArchiveProjectionTests.finishedBench(seed: 1)
        let benches = try (0..<2).map { _ in try source.copy() }
        for bench in benches { try Self.settle(bench, sealing: .everything(now: Self.now(1))) }
        #expect(benches[0].disk.tree("/data/archive") == benches[1].disk.tree("/data/archive"))
    }

    @Test(arguments: 0..<UInt64(12))
    func `a checkpoint from before a seal leads to no line twice`(seed: UInt64) throws {
        let (bench, files) = try ArchiveProjectionTests.bench(seed: seed)
        var projection = try Archive(data: bench.data, zone: .utc)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try projection.recover().position
        let path = bench.data.statePath("archive")
        position = try run.advance(
            &projection, from: position, upTo: bench.end, batchCountMax: 3 + Int(seed))
        try projection.checkpoint(at: position)
        let old = try #require(bench.disk.bytes(of: path))
        for round in 0..<3 {
            position = try run.advance(&projection, from: position, upTo: bench.end, batchCountMax: 5)
            try projection.checkpoint(at: position, sealing: .everything(now: Self.now(Int64(round))))
            // The last seal is under way.
            while round < 2, projection.isSealing { try projection.continueSealing() }
        }
        bench.disk.kill()
        bench.disk.place(path, old)
        try Self.settle(bench)
        try Self.settle(bench, sealing: .everything(now: Self.now(9)))
        try Self.expect(bench, holds: files)
    }

    @Test(arguments: 0..<UInt64(12))
    func `a lost checkpoint beside sealed days is made again`(seed: UInt64) throws {
        let (bench, files) = try ArchiveProjectionTests.bench(seed: seed)
        var driver = ProjectionDriver(bench: bench)
        driver.checkpointsPerSeal = 3
        try driver.run(seed: seed) { () throws(FileSystemError) in try Archive(data: bench.data, zone: .utc) }
        if seed % 2 == 0 {
            for name in try bench.disk.list(bench.data.journal).prefix(Int(seed % 3)) {
                try bench.disk.unlink(Path.join(bench.data.journal, name))
            }
        }
        for name in try bench.disk.list(bench.data.state) { try bench.disk.unlink(Path.join(bench.data.state, name)) }
        try Self.settle(bench)
        try Self.settle(bench, sealing: .everything(now: Self.now(9)))
        #expect(
            try Self.lines(bench).mapValues { $0.split(separator: "\n", omittingEmptySubsequences: false).sorted() }
                == files.mapValues { $0.split(separator: "\n", omittingEmptySubsequences: false).sorted() })
    }

    /// Also if the start after it dies, and whatever of it a power cut keeps.
    @Test func `a seal without its manifest and a lost checkpoint lead to no line twice`() throws {
        let (source, files) = try ArchiveProjectionTests.finishedBench(seed: 5)
        source.disk.setFaults { call in
            call.isChange && call.path.contains("/manifest.json") ? .error(Errno.inputOutput) : nil
        }
        #expect(throws: FileSystemError.self) { try Self.settle(source, sealing: .everything(now: Self.now(1))) }
        source.disk.clearFaults()
        source.disk.kill()
        let sealed = try #require(source.disk.tree("/data/archive").keys.first { $0.hasSuffix(".ndjson.gz") })
        #expect(source.disk.bytes(of: String(sealed.dropLast(3))) != nil)
        for name in try source.disk.list(source.data.state) where name.hasPrefix("archive.state") {
            try source.disk.unlink(Path.join(source.data.state, name))
        }
        try source.disk.synchronizeDirectory(source.data.state)
        let whole = try source.copy()
        let before = whole.disk.callCount
        var archive = try Archive(data: whole.data, zone: .utc)
        _ = try archive.recover()
        let callCount = whole.disk.callCount - before
        for call in stride(from: 1, through: callCount, by: 3) {
            let bench = try source.copy()
            bench.disk.stop(atCall: call)
            #expect(throws: FileSystemError.self) { try Self.settle(bench) }
            bench.disk.crash(seed: UInt64(call))
            try Self.settle(bench)
            try Self.settle(bench, sealing: .everything(now: Self.now(9)))
            try Self.expect(bench, holds: files)
        }
    }

    @Test func `an open file beside sealed ones that is cut is made whole again`() throws {
        let (source, files) = try ArchiveProjectionTests.bench(seed: 3)
        var projection = try Archive(data: source.data, zone: .utc)
        var run = ProjectionRun(journalDirectory: source.data.journal, files: source.disk)
        var position = try projection.recover().position
        for batchCount in [12, 14, 40] {
            position = try run.advance(&projection, from: position, upTo: source.end, batchCountMax: batchCount)
            let isLast = position == source.end
            try projection.checkpoint(at: position, sealing: isLast ? nil : .everything(now: Self.now(1)))
            while projection.isSealing { try projection.continueSealing() }
        }
        let open = source.tree("archive").filter { $0.key.hasSuffix(".ndjson") }
        #expect(open.keys.contains { $0.hasSuffix("late-00002.ndjson") })
        for (path, text) in open {
            for suffix in [".ndjson", ".sources"] {
                let bench = try source.copy()
                let damaged = path.dropLast(7) + suffix
                let whole = try #require(bench.disk.bytes(of: "/data/" + damaged))
                bench.disk.place("/data/" + damaged, Array(whole.prefix(whole.count / 2)))
                let recovery = try Self.settle(bench)
                #expect(recovery.report.contains(" 0 are lost"), "\(recovery.report)")
                #expect(bench.tree("archive")[path] == text)
                try Self.expect(bench, holds: files)
            }
        }
    }

    @Test func `a manifest that someone took away is made anew by the next seal`() throws {
        let (bench, files) = try ArchiveProjectionTests.bench(seed: 2)
        var projection = try Archive(data: bench.data, zone: .utc)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try projection.recover().position
        position = try run.advance(&projection, from: position, upTo: bench.end, batchCountMax: 20)
        try projection.checkpoint(at: position, sealing: .everything(now: Self.now(1)))
        while projection.isSealing { try projection.continueSealing() }
        for path in bench.disk.tree("/data/archive").keys where path.hasSuffix("manifest.json") {
            try bench.disk.unlink(path)
        }
        _ = try Self.settle(bench, &projection, sealing: .everything(now: Self.now(2)))
        let lines = try Self.lines(bench)
        #expect(lines == files)
        for path in bench.disk.tree("/data/archive").keys.sorted() where path.hasSuffix("late-00001.ndjson.gz") {
            try Self.expectManifest(Path.parent(of: path), bench)
        }
    }

    @Test func `long files are sealed in steps of one member each`() throws {
        let bench = try ProjectionBench()
        let line =
            "{\"v\":1,\"ts\":\"2026-11-20T09:00:00.000Z\",\"kind\":\"event\",\"name\":\"n\",\"env\":\"prod\",\"bundle\":\"b\",\"data\":\""
        let count = 100
        let raw = Array((line + String(repeating: "x", count: 100_000) + "\"}\n").utf8)
        try bench.write((0..<count).map { _ in (ProjectionBench.description(0), raw) })
        var projection = try Archive(data: bench.data, zone: .utc)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try projection.recover().position
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        try projection.checkpoint(at: position, sealing: .everything(now: Self.now(1)))
        var stepCount = 0
        while projection.isSealing {
            try projection.continueSealing()
            stepCount += 1
        }
        #expect(stepCount == 3)
        #expect(projection.takeSealed().map(\.lineCount) == [count])
        try Self.expect(
            bench,
            holds: [
                "archive/env=prod/bundle=b/date=2026-11-20/part-00001.ndjson":
                    String(decoding: (0..<count).flatMap { _ in raw }, as: UTF8.self)
            ])
    }
}
