import Testing
import WaybillData
import WaybillProjection
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

/// Lines of every kind, and the file in which the archive must put each.
private struct Lines {
    private var generator: SeededGenerator
    private var number = 0
    private(set) var files: [String: String] = [:]

    init(seed: UInt64) {
        self.generator = SeededGenerator(seed: seed)
    }

    /// A batch of a stream's lines.
    mutating func batch(_ description: StreamDescription, lineCount: Int, endsOpen: Bool) -> [UInt8] {
        var raw = ""
        for index in 0..<lineCount {
            self.number += 1
            let isOpen = endsOpen && index == lineCount - 1
            let (line, path) = self.line(description)
            raw += line + (isOpen ? "" : "\n")
            // Empty lines are counted, and not stored.
            self.files[path, default: ""] += line.isEmpty ? "" : line + "\n"
        }
        return Array(raw.utf8)
    }

    private mutating func line(_ description: StreamDescription) -> (line: String, path: String) {
        if Int.random(in: 0..<8, using: &self.generator) == 0 {
            let bad: [(String, String)] = [
                ("no JSON \(self.number)", "not-json"), ("[\(self.number)]", "not-object"), ("", "empty"),
                ("{\"number\":\(self.number)}", "no-time"), ("{\"ts\":\"soon\",\"number\":\(self.number)}", "bad-time"),
                ("{\"ts\":\"1999-01-01T00:00:00Z\",\"n\":\(self.number)}", "time-out-of-range"),
                ("{\"a\":\"\u{0}\(self.number)\"}", "nul"),
            ]
            let (line, reason) = bad[Int.random(in: 0..<bad.count, using: &self.generator)]
            return (line, "quarantine/date=2026-11-20/\(reason).ndjson")
        }
        let day = Int.random(in: 18...20, using: &self.generator)
        let time = "2026-11-\(day)T0\(Int.random(in: 0...9, using: &self.generator)):30:00.000Z"
        if description.format == .ndjson {
            let line = "{\"level\":\"info\",\"time\":\"\(time)\",\"number\":\(self.number)}"
            return (line, "archive/env=internal/bundle=\(description.bundle)/date=2026-11-\(day)/part-00001.ndjson")
        }
        let env = ["dev", "prod"][Int.random(in: 0..<2, using: &self.generator)]
        let app = ["com.example.shop", "com.example.game", "../x"][Int.random(in: 0..<3, using: &self.generator)]
        let line =
            "{\"v\":1,\"ts\":\"\(time)\",\"kind\":\"event\",\"name\":\"n\",\"env\":\"\(env)\",\"bundle\":\"\(app)\","
            + "\"data\":{\"number\":\(self.number)}}"
        let folder = app == "../x" ? "%2E.%2Fx" : app
        return (line, "archive/env=\(env)/bundle=\(folder)/date=2026-11-\(day)/part-00001.ndjson")
    }
}

/// Where lines came from, as a sources file says it; the numbers of streams resolved.
private struct SourceRange: Hashable {
    let stream: String
    let offset: UInt64
    let receivedAt: Int64
    let start: Int
    let byteCount: Int
    let lineCount: Int
    let emptyLineCount: Int

    static func ranges(in text: String) throws -> [SourceRange] {
        var streams: [Substring: Substring] = [:]
        var ranges: [SourceRange] = []
        for line in text.split(separator: "\n") {
            let fields = line.split(separator: " ", maxSplits: 2)
            if fields[0] == "OPEN" {
                streams[fields[1]] = fields[2]
                continue
            }
            #expect(fields[0] == "FROM")
            let numbers = line.split(separator: " ").dropFirst(2).compactMap { Int($0) }
            try #require(numbers.count == 5 || numbers.count == 6)
            ranges.append(
                SourceRange(
                    stream: String(try #require(streams[fields[1]])), offset: UInt64(numbers[0]),
                    receivedAt: Int64(numbers[1]), start: numbers[2], byteCount: numbers[3], lineCount: numbers[4],
                    emptyLineCount: numbers.count == 6 ? numbers[5] : 0))
        }
        return ranges
    }
}

extension ProjectionBench.Batch {
    /// Its lines that are an LF alone.
    fileprivate var emptyLineCount: Int {
        var before: UInt8 = 0x0A
        return self.raw.count { byte in
            defer { before = byte }
            return byte == 0x0A && before == 0x0A
        }
    }
}

@Suite struct ArchiveProjectionTests {
    /// A bench whose archive is whole and checkpointed, and its files.
    static func finishedBench(seed: UInt64) throws -> (bench: ProjectionBench, files: [String: String]) {
        let (bench, files) = try self.bench(seed: seed)
        try ProjectionDriver(bench: bench).run(seed: seed) { () throws(FileSystemError) in
            try ArchiveProjection(data: bench.data, zone: .utc)
        }
        return (bench, files)
    }

    /// A journal of about 150 lines in 40 batches of four streams, two of them foreign, and the files they must give.
    static func bench(seed: UInt64) throws -> (bench: ProjectionBench, files: [String: String]) {
        let bench = try ProjectionBench()
        var lines = Lines(seed: seed)
        var generator = SeededGenerator(seed: seed ^ 0xBE7C)
        let descriptions = (0..<4).map { ProjectionBench.description($0, format: $0 < 2 ? .waybill : .ndjson) }
        var open = [0, 1, 2, 3]
        var contents: [(description: StreamDescription, raw: [UInt8])] = []
        for round in 0..<40 where !open.isEmpty {
            let stream = open[Int.random(in: 0..<open.count, using: &generator)]
            let endsOpen = round > 20 && Int.random(in: 0..<12, using: &generator) == 0
            if endsOpen { open.removeAll { $0 == stream } }
            let raw = lines.batch(
                descriptions[stream], lineCount: Int.random(in: 1...7, using: &generator), endsOpen: endsOpen)
            if !raw.isEmpty { contents.append((descriptions[stream], raw)) }
        }
        try bench.write(contents)
        return (bench, lines.files)
    }

    static func expect(_ bench: ProjectionBench, holds files: [String: String]) throws {
        let tree = bench.tree("archive", "quarantine")
        #expect(tree.filter { $0.key.hasSuffix(".ndjson") } == files)
        #expect(tree.count == files.count * 2)
        for (path, text) in files {
            let sources = try #require(tree[path.dropLast(7) + ".sources"])
            var end = 0
            var lineCount = 0
            for range in try SourceRange.ranges(in: sources) {
                #expect(range.start == end)
                end += range.byteCount
                lineCount += range.lineCount
                let batch = try #require(
                    bench.batches.first {
                        $0.description.json == range.stream && $0.receivedAt == range.receivedAt
                            && ($0.offset..<$0.offset + UInt64($0.raw.count)).contains(range.offset)
                    })
                let from = Int(range.offset - batch.offset)
                let own = batch.raw[from...].prefix(range.byteCount + range.emptyLineCount)
                #expect(from == 0 || batch.raw[from - 1] == 0x0A)
                #expect(own.count { $0 == 0x0A } == range.lineCount - (own.last == 0x0A ? 0 : 1))
                if range.emptyLineCount > 0 {
                    #expect(range.byteCount == 0 && range.emptyLineCount == range.lineCount)
                    #expect(own.allSatisfy { $0 == 0x0A })
                } else {
                    let written = Array(text.utf8)[range.start..<end]
                    #expect(Array(written) == Array(own) + (own.last == 0x0A ? [] : [0x0A]))
                }
            }
            #expect(end == text.utf8.count)
            #expect(lineCount == (text.isEmpty ? Self.emptyLineCount(bench) : text.utf8.count { $0 == 0x0A }))
        }
    }

    private static func emptyLineCount(_ bench: ProjectionBench) -> Int {
        bench.batches.reduce(0) { $0 + $1.emptyLineCount }
    }

    @Test(arguments: 0..<UInt64(4))
    func `each line is in the file of its time, app and environment, once and byte for byte`(seed: UInt64) throws {
        let (bench, files) = try Self.bench(seed: seed)
        var projection = try ArchiveProjection(data: bench.data, zone: .utc)
        let recovery = try projection.recover()
        #expect(recovery == ProjectionRecovery())
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = recovery.position
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        try projection.checkpoint(at: position)
        try Self.expect(bench, holds: files)
        let lengths = bench.tree("archive", "quarantine").mapValues(\.utf8.count)
        #expect(projection.checkpointedLengths == lengths)
        let lineCounts = ["archive", "quarantine"].map { folder in
            files.reduce(0) { $0 + ($1.key.hasPrefix(folder) ? $1.value.utf8.count { $0 == 0x0A } : 0) }
        }
        #expect(projection.tally.archived == lineCounts[0])
        #expect(projection.tally.quarantined == lineCounts[1] + Self.emptyLineCount(bench))
    }

    @Test(arguments: 0..<UInt64(40))
    func `errors and crashes anywhere change no byte but the numbers of streams`(seed: UInt64) throws {
        let (bench, files) = try Self.bench(seed: seed % 6)
        var driver = ProjectionDriver(bench: bench)
        driver.failuresPerMille = seed % 4 == 0 ? 0 : 12
        driver.stepsPerCrash = seed % 4 == 1 ? 0 : 5
        driver.stepsPerCheckpoint = Int(seed % 5) + 1
        let recoveryCount = try driver.run(seed: seed) { () throws(FileSystemError) in
            try ArchiveProjection(data: bench.data, zone: .utc)
        }
        #expect(recoveryCount > 0)
        try Self.expect(bench, holds: files)
        // And again after a power cut, which finds nothing to do.
        bench.disk.crash(seed: seed)
        var projection = try ArchiveProjection(data: bench.data, zone: .utc)
        #expect(try projection.recover() == ProjectionRecovery(position: bench.end))
        try Self.expect(bench, holds: files)
    }

    @Test func `a run that recovers counts each line once`() throws {
        let (bench, files) = try Self.bench(seed: 3)
        var projection = try ArchiveProjection(data: bench.data, zone: .utc)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try projection.recover().position
        position = try run.advance(&projection, from: position, upTo: bench.end, batchCountMax: 5)
        try projection.checkpoint(at: position)
        _ = try run.advance(&projection, from: position, upTo: bench.end, batchCountMax: 5)
        position = try projection.recover().position
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        let lineCount = files.values.reduce(Self.emptyLineCount(bench)) { $0 + $1.utf8.count { $0 == 0x0A } }
        #expect(projection.tally.archived + projection.tally.quarantined == lineCount)
    }
}
