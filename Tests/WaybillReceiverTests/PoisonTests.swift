import Logging
import Testing
import WaybillData
import WaybillExport
import WaybillProjection
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSimulation
import WaybillSystem
import WaybillTestSupport
import WaybillTesting

@testable import WaybillReceiver

/// A data directory whose journal has lines that end the program which reads them, and the program's lives.
private struct PoisonBench {
    let bench: ProjectionBench
    let logs = Logs()
    var places = ReadingPlaces()
    var deathCount = 0
    var decides = true
    /// How a marked line ends the process.
    var end = MortalProjection<ArchiveProjection<FaultyFiles>>.End.fault

    static let mark = "ends-the-program"

    final class Logs: Sendable {
        private let lines = Lock<[String]>([])
        var all: [String] { self.lines.withLock { $0 } }

        func add(_ text: String) { self.lines.withLock { $0.append(text) } }

        struct Handler: LogHandler {
            let logs: Logs
            var metadata: Logger.Metadata = [:]
            var logLevel = Logger.Level.info
            subscript(metadataKey key: String) -> Logger.Metadata.Value? {
                get { self.metadata[key] }
                set { self.metadata[key] = newValue }
            }
            func log(event: LogEvent) {
                let fields = (event.metadata ?? [:]).map { "\($0)=\($1)" }.sorted().joined(separator: " ")
                self.logs.add("\(event.message) \(fields)")
            }
        }
    }

    static func line(_ number: Int, isMarked: Bool = false) -> String {
        #"{"v":1,"id":"0199a1b2-0000-7000-8000-\#(String(repeating: "0", count: 8))\#(1000 + number)","#
            + #""ts":"2026-11-20T12:00:00.000Z","kind":"event","name":"\#(isMarked ? Self.mark : "fine")","#
            + #""env":"prod","bundle":"com.example.shop"}"# + "\n"
    }

    /// Writes batches of three lines, of which those with these numbers end the program.
    init(batches: Int, marked: Set<Int>) throws {
        self.bench = try ProjectionBench()
        try self.bench.write(
            (0..<batches).map { batch in
                let lines = (0..<3).map { Self.line(3 * batch + $0, isMarked: marked.contains(3 * batch + $0)) }
                return (ProjectionBench.description(1), Array(lines.joined().utf8))
            })
    }

    /// One life of the program: it reads the journal with one projection, to its end or its death.
    ///
    /// - Returns: whether it came to the end.
    mutating func live<Base: Projection & ~Copyable>(_ make: (DataDirectory<FaultyFiles>) throws -> Base) throws -> Bool
    {
        let files = FaultyFiles(self.bench.disk.memory)
        let data = DataDirectory(root: "/data", files: files)
        let death = ProcessDeath(of: self.places, files)
        let configuration = HostConfiguration(dataDirectory: "/data")
        let telemetry = HostTelemetry(logger: Logger(label: "test") { [logs] _ in Logs.Handler(logs: logs) })
        let conditions = HostConditions(
            lastMark: .unknown, configuration: configuration, data: data, telemetry: telemetry,
            poison: PoisonWatch(in: data, version: "1.2.3", decides: self.decides, places: self.places))
        let clock = ManualClock()
        let feed = JournalFeed(end: self.bench.end, byteCountMax: 1 << 20)
        var group = ProjectionGroup<FaultyFiles, MortalProjection<Base>>(
            journalDirectory: data.journal, files: files,
            retirement: JournalRetirement(names: [], retention: .seconds(1_000_000)), configuration: configuration,
            settings: LiveSettings(configuration), conditions: conditions, clock: clock, telemetry: telemetry)
        let end: MortalProjection<Base>.End = self.end == .fault ? .fault : .kill
        group.add(MortalProjection(try make(data), mark: Self.mark, end: end, death: death))
        for _ in 0..<1000 {
            switch group.need {
            case .next(let place, _):
                guard let next = feed.next(after: place, until: MonotonicTime(nanoseconds: 1)) else {
                    feed.close()
                    continue
                }
                group.take(next, isCaughtUp: true)
            case .recover(let time):
                guard time <= clock.monotonicTime() else {
                    self.places = ReadingPlaces(leftBy: self.places)
                    return false
                }
                group.recover(dueBy: time)
            case .finished:
                guard let left = death.left else { return true }
                self.places = left
                self.deathCount += 1
                return false
            }
        }
        Issue.record("it does not come to an end")
        return false
    }

    /// Lives until the journal is read to its end.
    mutating func liveOn<Base: Projection & ~Copyable>(
        _ make: (DataDirectory<FaultyFiles>) throws -> Base
    ) throws {
        for _ in 0..<20 where try self.live(make) { return }
        Issue.record("it died 20 times")
    }

    static func archive(_ data: DataDirectory<FaultyFiles>) throws -> ArchiveProjection<FaultyFiles> {
        try ArchiveProjection(data: data, zone: .utc)
    }

    static func csv(_ data: DataDirectory<FaultyFiles>) throws -> ExportProjection<FaultyFiles> {
        try ExportProjection.live(ExportOptions(provider: .csv), data: data)
    }

    var archived: String {
        self.bench.tree("archive").filter { $0.key.hasSuffix(".ndjson") }.sorted { $0.key < $1.key }.map(\.value)
            .joined()
    }

    var poison: [String: String] { self.bench.tree("quarantine").filter { $0.key.contains("/poison.") } }

    func lines(_ numbers: some Sequence<Int>) -> String { numbers.map { Self.line($0) }.joined() }
}

@Suite struct PoisonTests {
    @Test func `a line that ends the archive twice goes to the quarantine, and everything else to the archive`() throws
    {
        var life = try PoisonBench(batches: 4, marked: [4])
        try life.liveOn(PoisonBench.archive)
        #expect(life.deathCount == 2)
        #expect(life.archived == life.lines([0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]))
        let marked = PoisonBench.line(4, isMarked: true)
        #expect(life.poison["quarantine/date=2026-11-20/poison.ndjson"] == marked)
        let sources = life.poison["quarantine/date=2026-11-20/poison.sources"] ?? ""
        #expect(sources.contains("\nPOISON 1 \(PoisonBench.line(0).utf8.count * 4) "))
        #expect(life.logs.all.count { $0.hasPrefix("a line that ended the program twice was set aside") } == 1)
        // What was decided holds for a program that knows nothing of the deaths, and begins with nothing.
        life.places = ReadingPlaces()
        for (path, _) in life.bench.disk.tree("/data/state") { try life.bench.disk.unlink(path) }
        for folder in ["archive", "quarantine/date=2026-11-20"] {
            for (path, _) in life.bench.disk.tree("/data/" + folder) { try life.bench.disk.unlink(path) }
        }
        try life.liveOn(PoisonBench.archive)
        #expect(life.deathCount == 2)
        #expect(life.poison["quarantine/date=2026-11-20/poison.ndjson"] == marked)
    }

    @Test func `each line has to end the program twice, also two of one batch`() throws {
        var life = try PoisonBench(batches: 3, marked: [3, 5, 6])
        try life.liveOn(PoisonBench.archive)
        // With its batch and alone; alone, twice; with its batch and alone.
        #expect(life.deathCount == 6)
        #expect(life.archived == life.lines([0, 1, 2, 4, 7, 8]))
        #expect(
            life.poison["quarantine/date=2026-11-20/poison.ndjson"]
                == [3, 5, 6].map { PoisonBench.line($0, isMarked: true) }.joined())
    }

    @Test func `a line that ends an export is its dead letter, and the archive has it`() throws {
        var life = try PoisonBench(batches: 2, marked: [4])
        try life.liveOn(PoisonBench.csv)
        #expect(life.deathCount == 2)
        let files = life.bench.tree("exports/csv")
        let dead = files.first { $0.key.contains("/dead/") }?.value ?? ""
        #expect(dead.contains(#""reason":"poison""#) && dead.contains(#""stream":"stream-1""#))
        #expect(dead.contains(#""offset":\#(PoisonBench.line(0).utf8.count * 4)"#))
        #expect(!dead.contains(PoisonBench.mark))
        let ids = files.filter { $0.key.hasSuffix(".ids") }.map(\.value).joined().split(separator: "\n")
        #expect(ids.count == 5)
        // The archive's own reader never died of it.
        let data = DataDirectory(root: "/data", files: life.bench.disk)
        var archive = try ArchiveProjection(data: data, zone: .utc)
        let start = try archive.recover().position
        var run = ProjectionRun(journalDirectory: data.journal, files: life.bench.disk)
        _ = try run.advance(&archive, from: start, upTo: life.bench.end)
        try archive.checkpoint(at: life.bench.end)
        #expect(life.archived.contains(PoisonBench.mark))
    }

    @Test func `a kill at the same place sets nothing aside, however often, and is reported`() throws {
        var life = try PoisonBench(batches: 2, marked: [4])
        life.end = .kill
        for _ in 0..<100 { #expect(try !life.live(PoisonBench.archive)) }
        #expect(try PoisonedLines.read(in: DataDirectory(root: "/data", files: life.bench.disk)) == nil)
        #expect(life.archived == "" || life.archived == life.lines(0..<3))
        let told = life.logs.all.filter { $0.hasPrefix("several starts in a row ended") }
        #expect(told.count == 97)
        // The last ones name the line, which was read alone by then.
        #expect(told.last?.contains(" offset=\(PoisonBench.line(0).utf8.count * 4) ") ?? false)
        #expect(told.last?.contains("stream=stream-1") ?? false)
    }

    @Test func `a power cut takes the marks, and nothing else`() throws {
        var life = try PoisonBench(batches: 2, marked: [4])
        #expect(try !life.live(PoisonBench.archive))
        life.places = ReadingPlaces()
        try life.liveOn(PoisonBench.archive)
        #expect(life.deathCount == 3)
        #expect(life.archived == life.lines([0, 1, 2, 3, 5]))
    }

    @Test func `a merger stands still before the line until an operator sets it aside`() throws {
        var life = try PoisonBench(batches: 3, marked: [4])
        life.decides = false
        for _ in 0..<4 { #expect(try !life.live(PoisonBench.archive)) }
        #expect(life.deathCount == 2)
        #expect(life.logs.all.contains { $0.hasPrefix("reading a batch ends the program: this reader stands still") })
        #expect(life.archived == life.lines(0..<3))
        let data = DataDirectory(root: "/data", files: life.bench.disk)
        let line = PoisonedLine(
            reader: PoisonOffsets.archive, stream: ProjectionBench.description(1).name,
            offset: UInt64(PoisonBench.line(0).utf8.count * 4), byteCount: 0, signal: 0, version: "1.2.3", at: .unknown)
        #expect(try PoisonedLines.add(line, in: data)?.lines == [line])
        try life.liveOn(PoisonBench.archive)
        #expect(life.deathCount == 2)
        #expect(life.archived == life.lines([0, 1, 2, 3, 5, 6, 7, 8]))

        // One that it never ended, and that knows the line before it reads, has the same files.
        let other = try PoisonBench(batches: 3, marked: [4])
        let others = DataDirectory(root: "/data", files: other.bench.disk)
        _ = try PoisonedLines.add(line, in: others)
        var archive = try PoisonBench.archive(others)
        let start = try archive.recover().position
        var run = ProjectionRun(journalDirectory: others.journal, files: other.bench.disk)
        _ = try run.advance(&archive, from: start, upTo: other.bench.end)
        try archive.checkpoint(at: other.bench.end)
        #expect(Self.archive(of: other) == Self.archive(of: life))
        #expect(other.poison == life.poison)
    }

    /// The archive's files, without what only says that someone began to write again.
    private static func archive(of life: PoisonBench) -> [String: [Substring]] {
        life.bench.tree("archive").mapValues { $0.split(separator: "\n").filter { !$0.hasPrefix("OPEN ") } }
    }

    @Test func `a record of such a line survives its text`() throws {
        let name = ProjectionBench.description(1).name
        let line = PoisonedLine(
            reader: "custom x", stream: .init(principal: "shop one/ab", id: name.id), offset: .max, byteCount: 529,
            signal: 11, version: "1.2.3", at: WallTime(milliseconds: 1_795_165_200_000))
        #expect(PoisonedLine(text: line.text) == line)
        #expect(PoisonedLine(text: "reader=archive offset=1") == nil)
    }
}
