import Logging
import Testing
import WaybillData
import WaybillExport
import WaybillProjection
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport
import WaybillTesting

@testable import WaybillReceiver

/// A receiver that gets nothing writes its time while open parts wait for it.
@Suite struct MarkTests {
    /// A committer and a Mixpanel export over a journal with one event, without threads.
    private struct Bench: ~Copyable {
        let bench: ProjectionBench
        let feed: JournalFeed
        let clock: ManualClock
        let conditions: HostConditions
        var commit: CommitLoop<FaultyFiles>
        var exports: ProjectionGroup<FaultyFiles, ExportProjection<FaultyFiles>>

        init(closeAfter: Duration = .seconds(300)) throws {
            let bench = try ProjectionBench()
            let clock = ManualClock()
            let line =
                "{\"v\":1,\"id\":\"01939a3e-0000-7000-8000-000000000001\",\"ts\":\"2025-03-01T09:00:00.000Z\","
                + "\"kind\":\"event\",\"name\":\"n\",\"env\":\"prod\",\"bundle\":\"b\",\"anon\":\"a\"}\n"
            try bench.write(
                [(ProjectionBench.description(0), Array(line.utf8))], at: clock.wallTime().milliseconds)
            var configuration = HostConfiguration(dataDirectory: "/data")
            var options = ExportOptions(provider: .mixpanel)
            options.closeAfter = closeAfter
            configuration.exports = [options]
            configuration.programDate = .unknown
            let telemetry = ReceiverTelemetry(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            var journal = try Journal(directory: bench.data.journal, files: bench.disk)
            try journal.begin(
                StartSeed(id: 1, incarnation: Incarnation(2, 3)), isLossy: false, at: clock.wallTime())
            let export = try ExportProjection.live(options, data: bench.data)
            self.bench = bench
            self.clock = clock
            self.conditions = HostConditions(
                lastMark: journal.lastMark, configuration: configuration, data: bench.data,
                telemetry: telemetry.host)
            self.feed = JournalFeed(end: journal.end, byteCountMax: 1 << 20)
            let retirement = JournalRetirement(names: ["mixpanel"], retention: .seconds(3600))
            self.commit = CommitLoop(
                journal: journal, feed: self.feed, budget: AdmissionBudget(byteCount: 1 << 20), retirement: retirement,
                conditions: self.conditions, clock: self.clock, telemetry: telemetry)
            self.exports = ProjectionGroup(
                journalDirectory: bench.data.journal, files: bench.disk, retirement: retirement,
                configuration: configuration, settings: LiveSettings(configuration), conditions: self.conditions,
                clock: self.clock, telemetry: telemetry.host)
            self.exports.add(export)
        }

        /// Lets the export do what it can without waiting.
        mutating func follow() {
            for _ in 0..<200 {
                switch self.exports.need {
                case .next(let place, let deadline):
                    let next = self.feed.next(
                        after: place, until: MonotonicTime(nanoseconds: 1), known: self.exports.time)
                    let isDue = deadline.map { $0 <= self.clock.monotonicTime() } ?? false
                    guard next != nil || isDue else { return }
                    self.exports.take(next, isCaughtUp: next != nil || !self.feed.hasMore(after: place))
                case .recover(let time):
                    guard time <= self.clock.monotonicTime() else { return }
                    self.exports.recover(dueBy: time)
                case .finished: return
                }
            }
        }

        /// So many minutes in which nothing comes.
        mutating func idle(minutes: Int) {
            for _ in 0..<(minutes * 60) {
                self.clock.advance(milliseconds: 1000)
                if let due = self.commit.nextMark, due <= self.clock.monotonicTime() { _ = self.commit.mark() }
                self.follow()
            }
        }

        var closed: [String] {
            self.bench.disk.tree("/data/exports").keys.filter { $0.hasSuffix(".manifest.json") }.sorted()
        }

        var journalByteCount: Int {
            self.bench.disk.tree("/data/journal").values.reduce(0) { $0 + $1.count }
        }
    }

    @Test func `an open part is closed and compressed while nothing comes, and then nothing is written`() throws {
        var bench = try Bench()
        bench.follow()
        #expect(bench.conditions.marks.isWaiting)
        let start = bench.journalByteCount
        bench.idle(minutes: 4)
        #expect(bench.closed.isEmpty)
        #expect(bench.journalByteCount > start)
        bench.idle(minutes: 3)
        #expect(bench.closed.map { Path.name(of: $0) } == ["part-00000.manifest.json"])
        #expect(bench.bench.disk.bytes(of: Path.parent(of: bench.closed[0]) + "/part-00000.ndjson.gz") != nil)
        #expect(!bench.conditions.marks.isWaiting)
        let end = bench.journalByteCount
        bench.idle(minutes: 5)
        #expect(bench.journalByteCount == end)
        // What was written is a journal.
        let journal = try Journal(directory: bench.bench.data.journal, files: bench.bench.disk)
        #expect(journal.recovery.damages.isEmpty)
    }

    @Test func `without an age nothing is written`() throws {
        var bench = try Bench(closeAfter: .zero)
        bench.follow()
        let start = bench.journalByteCount
        bench.idle(minutes: 10)
        #expect(bench.commit.nextMark == nil)
        #expect(bench.journalByteCount == start && bench.closed.isEmpty)
    }

    @Test func `while the clock is doubted parts wait, and when it is right again they are closed`() throws {
        var bench = try Bench()
        bench.follow()
        bench.clock.jump(milliseconds: -3_600_000)
        let start = bench.journalByteCount
        bench.idle(minutes: 20)
        #expect(bench.journalByteCount == start && bench.closed.isEmpty)
        bench.clock.jump(milliseconds: 3_600_000)
        bench.idle(minutes: 2)
        #expect(bench.closed.count == 1)
    }

    @Test func `a time that the disk refuses is written again`() throws {
        var bench = try Bench()
        bench.follow()
        bench.clock.advance(milliseconds: 600_000)
        bench.bench.disk.setFaults { call in call.verb == .synchronize ? .error(Errno.inputOutput) : nil }
        let retryAt = bench.commit.mark()
        #expect(retryAt != nil && bench.closed.isEmpty)
        bench.bench.disk.clearFaults()
        bench.clock.advance(milliseconds: 2000)
        #expect(bench.commit.step([]) == nil)
        bench.idle(minutes: 1)
        #expect(bench.closed.count == 1)
    }

    @Test func `the thread that commits tells that it continues, and tells nothing while the disk hangs`() throws {
        var bench = try Bench()
        bench.follow()
        let disk = bench.bench.disk
        // The time is written in each turn: this bench's clock stands still, long before the thread's.
        let (beats, commits, isHanging) = (Monitor(0), Monitor(0), Monitor(false))
        let variables = ["NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "3000"]
        let manager = ServiceManager(environment: { variables[$0] }, processID: 1) { _, text, _ in
            if text == "WATCHDOG=1" { beats.update { $0 += 1 } }
        }
        let committer = Committer()
        let loop = Handover(bench.commit)
        let worker = Worker(name: "test-commit") { loop.take { _ = committer.run($0, manager) } }
        #expect(beats.wait { $0 > 3 ? true : nil } == true)
        // A disk that refuses is no reason to start again.
        disk.setFaults { $0.verb == .synchronize ? .error(Errno.inputOutput) : nil }
        let before = beats.withLock { $0 }
        #expect(beats.wait { $0 > before + 3 ? true : nil } == true)
        isHanging.update { $0 = true }
        disk.setFaults { call in
            guard call.verb == .synchronize else { return nil }
            commits.update { $0 += 1 }
            _ = isHanging.wait { $0 ? nil : true }
            return nil
        }
        _ = commits.wait { $0 > 0 ? true : nil }
        let atHang = beats.withLock { $0 }
        let deadline = POSIXClock().monotonicTime() + .milliseconds(50)
        #expect(beats.wait(until: deadline) { $0 > atHang ? true : nil } == nil)
        isHanging.update { $0 = false }
        #expect(beats.wait { $0 > atHang ? true : nil } == true)
        committer.close()
        worker.join()
    }

    @Test func `the shortest age decides how often the time is written, at most once a minute`() {
        #expect(MarkDemand([]).interval == nil)
        #expect(MarkDemand([.zero]).interval == nil)
        #expect(MarkDemand([.zero, .seconds(300)]).interval == .seconds(60))
        #expect(MarkDemand([.seconds(5), .seconds(300)]).interval == .seconds(5))
    }
}
