import Logging
import Testing
import WaybillData
import WaybillExport
import WaybillProjection
import WaybillProtocol
import WaybillSystem
import WaybillTesting

import WaybillServerTestSupport
import WaybillTestSupport
@testable import WaybillReceiver

/// What a projection was given, and what it is to refuse.
private final class Notes {
    let name: String
    var batches: [JournalPosition] = []
    var parsedCount = 0
    /// Which attempts at projecting a batch fail, counted from 0.
    var failures: Set<Int> = []
    var errno = Errno.inputOutput
    var linkSearchCount = 0
    var isCheckpointRefused = false
    var attemptCount = 0
    var recoveryCount = 0
    var checkpoint = JournalPosition(0)
    var cutOffSecond = 0
    /// From which batch on it decides about days, counted from 0.
    var firstDecision: Int?
    var undecided: JournalPosition?
    /// The policies by which days were deleted, one for each time.
    var policies: [RetentionPolicy] = []

    init(_ name: String, checkpoint: JournalPosition = JournalPosition(0)) {
        self.name = name
        self.checkpoint = checkpoint
    }
}

/// A projection that notes what it is given.
private struct NotingProjection: ~Copyable, Projection {
    static var takesParsedLines: Bool { true }
    let notes: Notes

    init(_ notes: Notes) { self.notes = notes }

    var name: String { self.notes.name }
    var nextDue: WallTime? { nil }
    var isSealing: Bool { false }
    var tally: ProjectionTally { ProjectionTally() }
    var report: String { "" }
    var undecided: JournalPosition? { self.notes.undecided }

    mutating func recover() throws(FileSystemError) -> ProjectionRecovery {
        self.notes.recoveryCount += 1
        self.notes.batches.removeAll { $0 >= self.notes.checkpoint }
        return ProjectionRecovery(position: self.notes.checkpoint)
    }

    func setLinksAside() throws(FileSystemError) -> [String] {
        self.notes.linkSearchCount += 1
        return ["set-aside/link.1"]
    }

    mutating func project(_ batch: ProjectedBatch) throws(FileSystemError) {
        defer { self.notes.attemptCount += 1 }
        guard !self.notes.failures.contains(self.notes.attemptCount) else {
            throw FileSystemError("write", path: "part", errno: self.notes.errno)
        }
        if let first = self.notes.firstDecision, self.notes.batches.count >= first, self.notes.undecided == nil {
            self.notes.undecided = batch.position
        }
        self.notes.batches.append(batch.position)
        if batch.parse != nil { self.notes.parsedCount += 1 }
    }

    mutating func checkpoint(at position: JournalPosition, sealing moment: SealMoment?) throws(FileSystemError) {
        guard !self.notes.isCheckpointRefused else { throw FileSystemError("fdatasync", path: "part", errno: 28) }
        self.notes.checkpoint = position
        self.notes.undecided = nil
    }

    mutating func useCutOff(_ secondOfDay: Int) { self.notes.cutOffSecond = secondOfDay }
    mutating func correctDueTimes(now: WallTime) {}
    mutating func continueSealing() throws(FileSystemError) {}
    mutating func retire(_ policy: RetentionPolicy, now: WallTime) throws(FileSystemError) -> RetentionReport {
        self.notes.policies.append(policy)
        return RetentionReport()
    }
    mutating func takeSealed() -> [SealedDay] { [] }
    mutating func takeOutcomes() -> OutcomeCensus { OutcomeCensus() }
}

/// A group over a journal of twelve batches, and the feed behind it.
private struct GroupBench: ~Copyable {
    let bench: ProjectionBench
    let feed: JournalFeed
    let clock = ManualClock()
    let retirement: JournalRetirement
    let settings = LiveSettings(HostConfiguration(dataDirectory: "/data"))
    let conditions: HostConditions
    let positions: [JournalPosition]
    var group: ProjectionGroup<FaultyFiles, NotingProjection>

    /// - Parameter hasStarted: whether the record of a start follows the batches.
    init(_ notes: Notes..., lastMark: WallTime = .unknown, hasStarted: Bool = false) throws {
        let bench = try ProjectionBench()
        let description = ProjectionBench.description(1)
        try bench.write((0..<12).map { (description, Array("{\"n\":\($0)}\n".utf8)) })
        var reader = BatchReader(journalDirectory: bench.data.journal, position: JournalPosition(0), files: bench.disk)
        var positions: [JournalPosition] = []
        while let batch = try reader.next(upTo: bench.end) { positions.append(batch.position) }
        let end = hasStarted ? try Self.start(bench) : bench.end
        self.bench = bench
        self.positions = positions
        self.feed = JournalFeed(end: end, byteCountMax: 1 << 20)
        self.retirement = JournalRetirement(names: Set(notes.map(\.name)), retention: .zero)
        let configuration = HostConfiguration(dataDirectory: "/data")
        let telemetry = HostTelemetry(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        self.conditions = HostConditions(
            lastMark: lastMark, configuration: configuration, data: bench.data, telemetry: telemetry)
        self.group = ProjectionGroup(
            journalDirectory: bench.data.journal, files: bench.disk, retirement: self.retirement,
            configuration: configuration, settings: self.settings, conditions: self.conditions, clock: self.clock,
            telemetry: telemetry)
        for notes in notes { self.group.add(NotingProjection(notes)) }
    }

    /// Writes the record of a start, which is no batch.
    ///
    /// - Returns: the journal's new end.
    static func start(_ bench: ProjectionBench) throws -> JournalPosition {
        var journal = try Journal(directory: bench.data.journal, files: bench.disk, segmentByteCountMax: 3_000)
        let seed = StartSeed(id: UInt64(journal.end.rawValue), incarnation: Incarnation(1, 2))
        try journal.begin(seed, isLossy: false, at: WallTime(milliseconds: ProjectionBench.noon))
        return journal.end
    }

    /// Takes so many steps that need no waiting; stops where nothing is to be had.
    mutating func step(_ count: Int = 1000, followsArchive: Bool = false) {
        for _ in 0..<count {
            switch self.group.need {
            case .next(let place, let deadline):
                let next = self.feed.next(
                    after: place, until: MonotonicTime(nanoseconds: 1), followsArchive: followsArchive)
                let isDue = deadline.map { $0 <= self.clock.monotonicTime() } ?? false
                guard next != nil || isDue else { return }
                self.group.take(next, isCaughtUp: next != nil || !self.feed.hasMore(after: place))
            case .recover(let time):
                guard time <= self.clock.monotonicTime() else { return }
                self.group.recover(dueBy: time)
            case .finished: return
            }
        }
    }

    /// Publishes a batch that is in memory alone, behind all others.
    func publish(_ number: Int) -> JournalPosition {
        let position = JournalPosition(self.feed.end.rawValue)
        let end = JournalPosition(position.rawValue + 100)
        let line = Array("{\"n\":\(number)}\n".utf8)
        let entry = FeedEntry(
            position: position, end: end, description: ProjectionBench.description(1), offset: StreamOffset(0),
            receivedAt: self.clock.wallTime(), lineCount: 1,
            raw: SharedBytes(capacity: line.count) { bytes in
                bytes.copyBytes(from: line)
                return line.count
            }, account: Account(principal: "", device: "a"))
        self.feed.publish([entry], end: end)
        return position
    }
}

@Suite struct ProjectionGroupTests {
    @Test func `each gets every batch once, parsed for all of them, from files and from memory`() throws {
        let notes = [Notes("a"), Notes("b"), Notes("c")]
        var bench = try GroupBench(notes[0], notes[1], notes[2])
        bench.step()
        let last = [bench.publish(1), bench.publish(2)]
        bench.step()
        for note in notes {
            #expect(note.batches == bench.positions + last)
            #expect(note.parsedCount == note.batches.count)
            #expect(note.recoveryCount == 1)
        }
    }

    @Test func `one alone parses for itself`() throws {
        let notes = Notes("a")
        var bench = try GroupBench(notes)
        bench.step()
        #expect(notes.batches == bench.positions)
        #expect(notes.parsedCount == 0)
    }

    @Test func `one that the disk refuses goes back alone and catches up in turn with the others`() throws {
        let (good, bad) = (Notes("good"), Notes("bad"))
        bad.failures = [9, 20]
        var bench = try GroupBench(good, bad)
        bench.step()
        #expect(good.batches == bench.positions)
        #expect(bad.batches == Array(bench.positions[..<9]))
        // Its second attempt begins at its checkpoint; the other one continues meanwhile.
        bench.clock.advance(milliseconds: 1000)
        let new = (0..<8).map { bench.publish($0) }
        bench.step(9)
        #expect((3...6).contains(good.batches.count - bench.positions.count))
        #expect((2...6).contains(bad.batches.count))
        bench.step()
        #expect(good.batches == bench.positions + new)
        #expect(bad.batches.count == 10)
        #expect(good.recoveryCount == 1)
        // The second failure in a row: it waits twice as long.
        bench.clock.advance(milliseconds: 1000)
        bench.step()
        #expect(bad.recoveryCount == 2)
        bench.clock.advance(milliseconds: 1000)
        bench.step()
        #expect(bad.recoveryCount == 3)
        #expect(bad.batches == bench.positions + new)
    }

    @Test func `records that are no batches keep no one behind`() throws {
        let (early, late) = (Notes("early"), Notes("late"))
        late.failures = [11]
        var bench = try GroupBench(early, late, hasStarted: true)
        bench.step()
        let first = bench.feed.end
        let last = try GroupBench.start(bench.bench)
        #expect(first < last)
        bench.feed.publish([], end: last)
        bench.clock.advance(milliseconds: 1000)
        // The late one reads up to the new end, beyond the end that the early one has read up to.
        bench.step()
        bench.clock.advance(milliseconds: 5000)
        bench.step()
        #expect(early.checkpoint == last)
        #expect(late.checkpoint == last)
        let isSettled = bench.group.isSettled
        #expect(isSettled)
        // Nothing is left to do but to look at the clock.
        guard case .next(last, let deadline?) = bench.group.need else {
            Issue.record("\(bench.group.need)")
            return
        }
        #expect(deadline > bench.clock.monotonicTime())
        #expect(early.batches == bench.positions)
        #expect(late.batches == bench.positions)
    }

    @Test func `links are set aside after a call that failed because of one, and after no other`() throws {
        for (errno, count) in [(Errno.link, 1), (Errno.inputOutput, 0)] {
            let notes = Notes("a")
            (notes.failures, notes.errno) = ([3], errno)
            var bench = try GroupBench(notes)
            bench.step()
            #expect(notes.linkSearchCount == count)
            bench.clock.advance(milliseconds: 1000)
            bench.step()
            #expect(notes.batches == bench.positions)
            #expect(notes.linkSearchCount == count)
        }
    }

    @Test func `a reloaded retention and cut-off apply within a minute, also when nothing arrives`() throws {
        let notes = Notes("archive")
        var bench = try GroupBench(notes)
        bench.step()
        bench.clock.advance(milliseconds: 5000)
        bench.step()
        #expect(notes.cutOffSecond == CutOff.usualSecondOfDay)
        // The clock is trusted after ten minutes.
        for _ in 0..<12 {
            bench.clock.advance(milliseconds: 60_000)
            bench.step()
        }
        #expect(notes.policies.isEmpty)
        var configuration = HostConfiguration(dataDirectory: "/data")
        configuration.retention.dayCountMax = 3
        configuration.archiveCutOffSecond = 5 * 3600
        bench.settings.update(configuration)
        bench.clock.advance(milliseconds: 60_000)
        bench.step()
        #expect(notes.cutOffSecond == 5 * 3600)
        #expect(notes.policies.map(\.dayCountMax) == [3])
        // Another policy does not wait for the hour that lies between two deletions.
        configuration.retention.dayCountMax = 2
        bench.settings.update(configuration)
        bench.clock.advance(milliseconds: 60_000)
        bench.step()
        #expect(notes.policies.map(\.dayCountMax) == [3, 2])
    }

    @Test func `nothing is deleted while the clock is doubted`() throws {
        let notes = Notes("archive")
        // A day ahead of the bench's clock: the journal was written while the clock was ahead.
        var bench = try GroupBench(notes, lastMark: WallTime(milliseconds: 1_740_820_455_926 + 86_400_000))
        var configuration = HostConfiguration(dataDirectory: "/data")
        configuration.retention.dayCountMax = 3
        bench.settings.update(configuration)
        bench.step()
        for _ in 0..<300 {
            bench.clock.advance(milliseconds: 5_000)
            bench.step()
        }
        #expect(notes.policies.isEmpty)
        #expect(bench.conditions.clock.problem(bench.clock) != nil)
        try ClockAcceptance(in: bench.bench.data).write(bench.clock.wallTime())
        for _ in 0..<3 {
            bench.clock.advance(milliseconds: 60_000)
            bench.step()
        }
        #expect(notes.policies.map(\.dayCountMax) == [3])
        #expect(bench.conditions.clock.problem(bench.clock) == nil)
    }

    @Test(arguments: [("ga4", 500 << 20, 600 << 20), ("archive", 255 << 20, 256 << 20)])
    func `a projection leaves the last space to the journal, cuts nothing, and continues where it stands`(
        name: String, little: Int, enough: Int
    ) throws {
        let notes = Notes(name)
        var bench = try GroupBench(notes)
        bench.step()
        bench.bench.disk.memory.setFreeByteCount(little)
        let new = [bench.publish(1), bench.publish(2)]
        bench.step()
        // What it had is durable, and it waits; each attempt is later than the one before.
        #expect(notes.checkpoint == new[0])
        #expect(notes.batches == bench.positions)
        var pauses: [Int64] = []
        for _ in 0..<7 {
            guard case .recover(let time) = bench.group.need else {
                Issue.record("it has to wait")
                return
            }
            let milliseconds = (time - bench.clock.monotonicTime()).nanoseconds / 1_000_000
            pauses.append(milliseconds)
            bench.clock.advance(milliseconds: milliseconds)
            bench.step()
        }
        #expect(pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000])
        #expect(notes.batches == bench.positions)
        bench.bench.disk.memory.setFreeByteCount(enough)
        bench.clock.advance(milliseconds: 30_000)
        bench.step()
        #expect(notes.batches == bench.positions + new)
        #expect(notes.recoveryCount == 1)
    }

    @Test func `the exports wait before the archive does`() throws {
        let notes = [Notes("archive"), Notes("ga4")]
        var bench = try GroupBench(notes[0], notes[1])
        bench.step()
        bench.bench.disk.memory.setFreeByteCount(300 << 20)
        let new = bench.publish(1)
        bench.step()
        #expect(notes[0].batches == bench.positions + [new])
        #expect(notes[1].batches == bench.positions)
    }

    @Test func `a projection that waits for space still lets retention free some, and ends with a close`() throws {
        let notes = Notes("archive")
        var bench = try GroupBench(notes)
        var configuration = HostConfiguration(dataDirectory: "/data")
        configuration.retention.freeByteCountMin = 1 << 30
        bench.settings.update(configuration)
        bench.step()
        bench.bench.disk.memory.setFreeByteCount(100 << 20)
        let new = bench.publish(1)
        for _ in 0..<30 {
            bench.clock.advance(milliseconds: 30_000)
            bench.step()
        }
        #expect(!notes.policies.isEmpty)
        bench.group.giveUp()
        #expect(bench.group.need == .finished)
        #expect(notes.checkpoint == new)
    }

    @Test func `each begins at its own checkpoint`() throws {
        let (old, new) = (Notes("old"), Notes("new"))
        var bench = try GroupBench(old, new)
        old.checkpoint = bench.positions[7]
        new.checkpoint = bench.positions[2]
        bench.step()
        #expect(old.batches == Array(bench.positions[7...]))
        #expect(new.batches == Array(bench.positions[2...]))
        // Shared from where the later one has come up to the other.
        #expect(old.parsedCount < 5 && old.parsedCount == new.parsedCount)
    }

    @Test func `a close checkpoints all, but what the disk refuses is given up`() throws {
        let (good, bad) = (Notes("good"), Notes("bad"))
        var bench = try GroupBench(good, bad)
        bad.isCheckpointRefused = true
        bench.step()
        bench.feed.close()
        bench.step()
        #expect(good.checkpoint == bench.bench.end)
        guard case .recover = bench.group.need else {
            Issue.record("it has to say that one failed")
            return
        }
        bench.group.giveUp()
        #expect(bench.group.need == .finished)
        #expect(bad.checkpoint == JournalPosition(0))
    }

    /// Exports that follow the archive get everything that its last checkpoint has, and nothing else.
    @Test(arguments: [false, true])
    func `what a close decides is handed out, and what the disk refuses is not`(isRefused: Bool) throws {
        let notes = Notes("archive")
        notes.firstDecision = 3
        notes.isCheckpointRefused = isRefused
        var bench = try GroupBench(notes)
        let (feed, positions, last) = (bench.feed, bench.positions, bench.bench.end)
        feed.close()
        bench.group.run(on: feed)
        #expect(notes.batches == positions)
        #expect(notes.checkpoint == (isRefused ? JournalPosition(0) : last))
        let passed = MonotonicTime(nanoseconds: 1)
        guard case .behind(let end)? = feed.next(after: positions[0], until: passed, followsArchive: true) else {
            Issue.record("nothing is handed out")
            return
        }
        #expect(end == (isRefused ? positions[3] : last))
        guard case .closed? = feed.next(after: end, until: passed, followsArchive: true) else {
            Issue.record("an export waits for more")
            return
        }
    }

    @Test func `one that is behind passes nothing that the archive has not decided`() throws {
        let (front, rear) = (Notes("front"), Notes("rear"))
        var bench = try GroupBench(front, rear)
        front.checkpoint = bench.positions[9]
        bench.step(followsArchive: true)
        bench.clock.advance(milliseconds: 5000)
        bench.step(followsArchive: true)
        #expect(rear.batches.isEmpty && rear.checkpoint == JournalPosition(0))
        guard case .next(let place, let deadline) = bench.group.need else {
            Issue.record("it waits for the archive")
            return
        }
        // It does not ask again and again.
        #expect(place == JournalPosition(0) && deadline.map { $0 > bench.clock.monotonicTime() } ?? true)
        bench.feed.decided(upTo: bench.positions[4])
        bench.step(followsArchive: true)
        #expect(rear.batches == Array(bench.positions[..<4]) && front.batches.isEmpty)
        bench.feed.decided(upTo: bench.bench.end)
        bench.step(followsArchive: true)
        #expect(rear.batches == bench.positions)
        #expect(front.batches == Array(bench.positions[9...]))
    }

    @Test func `a stop that does not wait leaves all at their last checkpoints`() throws {
        let notes = Notes("one")
        var bench = try GroupBench(notes)
        bench.step(3)
        bench.feed.abandon()
        bench.step()
        #expect(bench.group.need == .finished)
        #expect(notes.batches.count < 12)
        #expect(notes.checkpoint == JournalPosition(0))
    }

    @Test func `a checkpoint is written in time although another one is behind`() throws {
        let (good, bad) = (Notes("good"), Notes("bad"))
        bad.failures = [3]
        var bench = try GroupBench(good, bad)
        bench.step()
        #expect(good.checkpoint == JournalPosition(0))
        bench.clock.advance(milliseconds: 5000)
        bench.step(4)
        #expect(good.checkpoint == bench.bench.end)
        #expect(bad.checkpoint == JournalPosition(0))
    }
}
