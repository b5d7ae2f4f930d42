import Testing
import WaybillData
import WaybillProjection
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

/// What a start makes of an archive that someone else has cut, emptied or taken the checkpoint of.
@Suite struct ArchiveRepairTests {
    /// Starts an archive and runs it to the journal's end.
    @discardableResult
    private static func start(_ bench: ProjectionBench) throws -> ProjectionRecovery {
        var projection = try ArchiveProjection(data: bench.data, zone: .utc)
        let recovery = try projection.recover()
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = recovery.position
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        try projection.checkpoint(at: position)
        return recovery
    }

    /// Deletes the oldest segments of the journal.
    private static func retire(_ bench: ProjectionBench, count: Int) throws {
        for name in try bench.disk.list(bench.data.journal).prefix(count) {
            try bench.disk.unlink(Path.join(bench.data.journal, name))
        }
    }

    private static func lines(_ text: String) -> [Substring] {
        text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
    }

    @Test func `a file cut anywhere is made whole again from the journal`() throws {
        let (source, files) = try ArchiveProjectionTests.finishedBench(seed: 2)
        let tree = source.tree("archive", "quarantine")
        var generator = SeededGenerator(seed: 2)
        for (path, text) in tree.sorted(by: { $0.key < $1.key }) where !text.isEmpty {
            for count in Set([0, 1, text.utf8.count - 1, Int.random(in: 0..<text.utf8.count, using: &generator)]) {
                guard count < text.utf8.count else { continue }
                let bench = try source.copy()
                bench.disk.place("/data/" + path, Array(text.utf8.prefix(count)))
                let recovery = try Self.start(bench)
                #expect(recovery.report.contains(" 0 are lost"), "\(path) cut to \(count): \(recovery.report)")
                try ArchiveProjectionTests.expect(bench, holds: files)
                let kept = bench.tree("set-aside")["set-aside/\(path).1"]
                #expect(kept == String(decoding: text.utf8.prefix(count), as: UTF8.self))
                #expect(try Self.start(bench) == ProjectionRecovery(position: bench.end))
            }
        }
    }

    @Test func `files that are gone are made again from the journal`() throws {
        let (source, files) = try ArchiveProjectionTests.finishedBench(seed: 4)
        for (path, text) in source.tree("archive", "quarantine").sorted(by: { $0.key < $1.key }) where !text.isEmpty {
            let bench = try source.copy()
            try bench.disk.unlink("/data/" + path)
            try Self.start(bench)
            try ArchiveProjectionTests.expect(bench, holds: files)
        }
        let bench = try source.copy()
        try bench.disk.removeTree("/data/archive")
        try Self.start(bench)
        try ArchiveProjectionTests.expect(bench, holds: files)
    }

    @Test(arguments: 0..<UInt64(8))
    func `what the journal no longer has is named, and no line is repeated or moved`(seed: UInt64) throws {
        let (bench, files) = try ArchiveProjectionTests.finishedBench(seed: seed)
        try Self.retire(bench, count: 1 + Int(seed % 3))
        var generator = SeededGenerator(seed: seed)
        let paths = files.filter { !$0.value.isEmpty }.keys.sorted()
        let path = paths[Int.random(in: 0..<paths.count, using: &generator)]
        let text = try #require(files[path])
        let count = Int.random(in: 0..<text.utf8.count, using: &generator)
        bench.disk.place("/data/" + path, Array(text.utf8.prefix(count)))
        let recovery = try Self.start(bench)
        let tree = bench.tree("archive", "quarantine")
        let left = try #require(tree[path])
        let lost = text.utf8.count - left.utf8.count
        #expect(recovery.report.contains("\(lost) are lost"), "\(recovery.report)")
        // What is left is the lines before the cut, and those that the journal has: in order, each once.
        let whole = Self.lines(text)
        var rest = whole[...]
        for line in Self.lines(left) {
            let index = try #require(rest.firstIndex(of: line), "\(line) is repeated or moved")
            rest = rest[(index + 1)...]
        }
        let cut = Self.lines(String(decoding: text.utf8.prefix(count), as: UTF8.self) + "\n").dropLast()
        #expect(Array(Self.lines(left).prefix(cut.count)) == Array(whole.prefix(cut.count)))
        for (other, text) in files where other != path { #expect(tree[other] == text) }
        #expect(try Self.start(bench).report.isEmpty)
    }

    @Test func `a repair that a crash interrupts anywhere is done by the next start`() throws {
        let (source, files) = try ArchiveProjectionTests.finishedBench(seed: 5)
        let path = try #require(files.keys.sorted().first { $0.hasPrefix("archive") })
        let text = try #require(files[path])
        var call = 1
        while true {
            let bench = try source.copy()
            bench.disk.place("/data/" + path, Array(text.utf8.prefix(text.utf8.count / 3)))
            bench.disk.stop(atCall: call)
            do { try Self.start(bench) } catch { #expect(bench.disk.isStopped) }
            if !bench.disk.isStopped { break }
            bench.disk.crash(seed: UInt64(call))
            try Self.start(bench)
            try ArchiveProjectionTests.expect(bench, holds: files)
            call += 1
        }
        #expect(call > 30)
    }

    @Test(arguments: 0..<UInt64(8))
    func `a lost checkpoint is made again from the sources`(seed: UInt64) throws {
        let (bench, files) = try ArchiveProjectionTests.finishedBench(seed: seed)
        try Self.retire(bench, count: 1 + Int(seed % 2))
        for name in try bench.disk.list(bench.data.state) { try bench.disk.unlink(Path.join(bench.data.state, name)) }
        // A crash behind the last checkpoint leaves a batch in some of its files alone.
        let paths = files.filter { !$0.value.isEmpty }.keys.sorted()
        let path = paths[Int(seed) % paths.count]
        let text = try #require(files[path])
        let isCut = seed % 4 == 3
        if isCut { bench.disk.place("/data/" + path, Array(text.utf8.dropLast(3))) }
        let recovery = try Self.start(bench)
        #expect(recovery.report.hasPrefix("the archive's checkpoint was lost; it was rebuilt at "))
        if !isCut {
            #expect(recovery.position == bench.end)
            try ArchiveProjectionTests.expect(bench, holds: files)
        }
        for (other, text) in bench.tree("archive", "quarantine") where other.hasSuffix(".ndjson") {
            let lines = Self.lines(text)
            #expect(Set(lines).count == lines.count, "\(other) repeats lines")
            if other != path { #expect(text == files[other]) }
        }
        #expect(try Self.start(bench) == ProjectionRecovery(position: bench.end))
    }

    @Test func `without a checkpoint, lines of a lost segment stay although the journal shows no gap`() throws {
        let (bench, files) = try ArchiveProjectionTests.finishedBench(seed: 6)
        for name in try bench.disk.list(bench.data.state) { try bench.disk.unlink(Path.join(bench.data.state, name)) }
        let segments = try bench.disk.list(bench.data.journal).compactMap(JournalPath.position(ofSegment:)).sorted()
        let lost = try #require(segments.dropFirst().last)
        try bench.disk.unlink(JournalPath.segment(lost, in: bench.data.journal))
        var journal = try bench.data.openJournal()
        let seed = StartSeed(id: 1, incarnation: Incarnation(2, 3))
        try journal.begin(seed, isLossy: true, at: WallTime(milliseconds: ProjectionBench.noon))
        let recovery = try Self.start(bench)
        #expect(recovery.report.hasPrefix("the archive's checkpoint was lost; it was rebuilt at "))
        #expect(recovery.position <= lost)
        try ArchiveProjectionTests.expect(bench, holds: files)
    }

    @Test func `a line that a power cut has torn is set aside when the journal and the checkpoint are gone`() throws {
        let (bench, files) = try ArchiveProjectionTests.finishedBench(seed: 6)
        let path = try #require(files.keys.sorted().first { $0.hasPrefix("archive") })
        let text = try #require(files[path])
        bench.disk.place("/data/" + path, Array(text.utf8.dropLast(10)) + [UInt8](repeating: 0, count: 10))
        for name in try bench.disk.list(bench.data.journal) {
            try bench.disk.unlink(Path.join(bench.data.journal, name))
        }
        for name in try bench.disk.list(bench.data.root + "/state") where name.hasPrefix("archive.state") {
            try bench.disk.unlink(bench.data.root + "/state/" + name)
        }
        var projection = try ArchiveProjection(data: bench.data, zone: .utc)
        let recovery = try projection.recover()
        #expect(recovery.report.contains("set aside set-aside/\(path)@"))
        let left = try #require(bench.disk.bytes(of: "/data/" + path))
        #expect(!left.contains(0) && left.last == 0x0A)
    }

    @Test func `lines behind a checkpoint that the journal cannot give again are kept`() throws {
        let (bench, files) = try ArchiveProjectionTests.finishedBench(seed: 6)
        let path = try #require(files.keys.sorted().first { $0.hasPrefix("archive") })
        let text = try #require(files[path])
        // Lines that no journal has, and a journal that is damaged behind the checkpoint.
        bench.disk.place("/data/" + path, Array((text + "{\"a\":1}\n").utf8))
        for name in try bench.disk.list(bench.data.journal) {
            try bench.disk.unlink(Path.join(bench.data.journal, name))
        }
        var projection = try ArchiveProjection(data: bench.data, zone: .utc)
        let recovery = try projection.recover()
        #expect(recovery.report.contains("set aside set-aside/\(path)@\(text.utf8.count).1"))
        #expect(bench.tree("set-aside").values.sorted() == ["{\"a\":1}\n"])
        try ArchiveProjectionTests.expect(bench, holds: files)
    }
}
