import Testing
import WaybillData
import WaybillExport
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport
@testable import WaybillProjection

/// Which sealed days go, in which order, and that deaths leave no half of one.
@Suite struct RetentionTests {
    private static func days(_ days: ClosedRange<Int>, bundle: String = "b") throws -> [RetainedItem] {
        let cutOff = CutOff(zone: .utc)
        return try days.reversed().map { day in
            RetainedItem(
                part: .archive, path: "d\(day)", end: cutOff.time(of: try #require(CalendarDay("2026-11-\(day)"))),
                lineCount: day, byteCount: 100, bundle: bundle)
        }
    }

    private static let now = WallTime(text: "2026-11-20T12:00:00.000Z") ?? WallTime(milliseconds: 0)

    private static func policy(days: Int? = nil, bytes: Int? = nil) -> RetentionPolicy {
        var policy = RetentionPolicy()
        policy.dayCountMax = days
        policy.byteCountMax = bytes
        return policy
    }

    @Test func `the oldest days go first, for their age and for the bytes of all`() throws {
        func plan(_ policy: RetentionPolicy) throws -> [String] {
            let plan = try RetentionPlan(policy, try Self.days(10...19), now: Self.now)
            #expect(plan.deletions.count + plan.rest.count == 10)
            return plan.deletions.map { "\($0.path) \($0.reason)" }
        }
        #expect(try plan(Self.policy()) == [])
        #expect(try plan(Self.policy(days: 7)) == ["d10 age", "d11 age", "d12 age"])
        #expect(try plan(Self.policy(bytes: 850)) == ["d10 bytes", "d11 bytes"])
        #expect(try plan(Self.policy(days: 8, bytes: 650)) == ["d10 age", "d11 age", "d12 bytes", "d13 bytes"])
        #expect(try plan(Self.policy(days: 100, bytes: 1000)) == [])
    }

    @Test func `an app has limits of its own, and every part has its own sum`() throws {
        var policy = Self.policy(days: 9, bytes: 2000)
        let items =
            try Self.days(10...19)
            + Self.days(10...19, bundle: "noisy").map { item in
                RetainedItem(
                    part: .archive, path: "noisy-" + item.path, end: item.end, lineCount: 1, byteCount: 100,
                    bundle: "noisy")
            }
            + (1...3).map { number in
                RetainedItem(
                    part: .quarantine, path: "q\(number)", end: WallTime(milliseconds: Int64(number)), lineCount: 7,
                    byteCount: 40)
            }
        func plan(_ apps: [String: RetentionLimit]) throws -> [String] {
            try RetentionPlan(policy, items, apps: apps, now: Self.now).deletions.map { "\($0.path) \($0.reason)" }
        }
        #expect(try plan([:]) == ["d10 age", "noisy-d10 age"])
        #expect(
            try plan(["noisy": RetentionLimit(dayCountMax: 7)])
                == ["d10 age", "noisy-d10 age", "noisy-d11 age", "noisy-d12 age"])
        #expect(try plan(["b": RetentionLimit(dayCountMax: 400)]) == ["noisy-d10 age"])
        #expect(
            try plan(["noisy": RetentionLimit(byteCountMax: 750)])
                == ["d10 age", "noisy-d10 age", "noisy-d11 bytes", "noisy-d12 bytes"])
        policy.quarantine = RetentionLimit(byteCountMax: 80)
        #expect(try plan([:]) == ["q1 bytes", "d10 age", "noisy-d10 age"])
    }

    @Test func `what is not delivered stays, and is named`() throws {
        let plan = try RetentionPlan(Self.policy(days: 7, bytes: 700), try Self.days(10...19), now: Self.now) { item in
            item.path != "d10" && item.path != "d13"
        }
        #expect(plan.deletions.map(\.path) == ["d11", "d12", "d14"])
        #expect(plan.kept.map { "\($0.path) \($0.reason)" } == ["d10 age", "d13 bytes"])
        #expect(plan.rest.map(\.path) == (15...19).map { "d\($0)" })
    }

    /// An archive whose days of November 18 to 20 are sealed, but for late lines of one.
    private static func bench() throws -> ProjectionBench {
        let (bench, _) = try ArchiveProjectionTests.bench(seed: 1)
        var archive = try ArchiveProjection(data: bench.data, zone: .utc)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try archive.recover().position
        for isSealing in [true, false] {
            position = try run.advance(&archive, from: position, upTo: bench.end, batchCountMax: isSealing ? 35 : 64)
            try archive.checkpoint(at: position, sealing: isSealing ? .everything(now: Self.now) : nil)
            while archive.isSealing { try archive.continueSealing() }
        }
        return bench
    }

    private static func folders(_ bench: ProjectionBench) -> Set<String> {
        Set(bench.tree("archive").keys.filter { $0.contains("date=") }.map { Path.parent(of: $0) })
    }

    private static func retire(_ bench: ProjectionBench) throws -> [Deletion] {
        var archive = try ArchiveProjection(data: bench.data, zone: .utc)
        let position = try archive.recover().position
        try archive.checkpoint(at: position)
        return try archive.retire(Self.policy(days: 1), now: Self.now).deletions
    }

    @Test func `sealed days go as wholes, one with an open late part stays, and a record says what went`() throws {
        let bench = try Self.bench()
        let before = Self.folders(bench)
        let open = Set(bench.tree("archive").keys.filter { $0.hasSuffix(".ndjson") }.map { Path.parent(of: $0) })
        #expect(!open.isEmpty && open.count < before.count)
        let deleted = try Self.retire(bench)
        #expect(!deleted.isEmpty)
        #expect(Self.folders(bench) == before.subtracting(deleted.map(\.path)))
        #expect(open.isSubset(of: Self.folders(bench)))
        #expect(deleted.allSatisfy { $0.path.hasSuffix("-18") && $0.reason == .age })
        let record = try #require(bench.tree("archive")["archive/_deleted.ndjson"])
        #expect(record.split(separator: "\n").count == deleted.count)
        for day in deleted {
            #expect(
                record.contains(
                    "{\"day\":\"\(day.path)\",\"lines\":\(day.lineCount),\"bytes\":\(day.byteCount),\"why\":\"age\","
                        + "\"at\":\"2026-11-20T12:00:00.000Z\"}\n"))
        }
        #expect(try Self.retire(bench) == [])
    }

    @Test func `a crash at any call leaves whole days and one record of each that went`() throws {
        let source = try Self.bench()
        let before = Self.folders(source)
        let whole = try source.copy()
        let deleted = Set(try Self.retire(whole).map(\.path))
        var call = 1
        while true {
            let bench = try source.copy()
            bench.disk.stop(atCall: call)
            do { _ = try Self.retire(bench) } catch { #expect(bench.disk.isStopped) }
            if !bench.disk.isStopped { break }
            if call % 2 == 0 { bench.disk.crash(seed: UInt64(call)) } else { bench.disk.kill() }
            _ = try Self.retire(bench)
            #expect(Self.folders(bench) == before.subtracting(deleted))
            let record = bench.tree("archive")["archive/_deleted.ndjson"] ?? ""
            let days = record.split(separator: "\n").filter { $0.hasPrefix("{\"day\":") && $0.hasSuffix("}") }
            #expect(Set(days).count == deleted.count && days.count == deleted.count, "\(record)")
            call += 1
        }
        #expect(call > 60)
    }
}
