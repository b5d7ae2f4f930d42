import Testing
import WaybillData
import WaybillEvent
import WaybillExport
import WaybillProjection
import WaybillProtocol
import WaybillSystem

import WaybillServerTestSupport
import WaybillTestSupport
@testable import WaybillReplay

@Suite(.serialized) struct ReplayTests {
    private static func line(_ number: Int, day: Int, app: String = "a") -> String {
        let id = "01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))"
        return "{\"v\":1,\"id\":\"\(id)\",\"ts\":\"2026-11-\(day)T09:00:00.000Z\",\"kind\":\"event\","
            + "\"name\":\"n\",\"env\":\"prod\",\"bundle\":\"\(app)\",\"anon\":\"a\"}\n"
    }

    /// A data directory with events of two days and some bad lines, archived and exported up to the journal's end.
    private static func bench() throws -> ProjectionBench {
        let bench = try ProjectionBench()
        try bench.write(
            (0..<6).map { round in
                let lines = (0..<4).map { Self.line(round * 4 + $0, day: 19 + $0 % 2, app: "app\(round % 2)") }
                return (
                    ProjectionBench.description(round % 3), Array((lines.joined() + "bad \(round)\nbad\n").utf8)
                )
            })
        var archive = try ArchiveProjection(data: bench.data, zone: .utc)
        try Self.project(&archive, bench)
        var export = try ExportProjection.live(ExportOptions(provider: .mixpanel), data: bench.data)
        try Self.project(&export, bench)
        return bench
    }

    private static func project(_ projection: inout some Projection & ~Copyable, _ bench: ProjectionBench) throws {
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try projection.recover().position
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        try projection.checkpoint(at: bench.end)
        while projection.isSealing { try projection.continueSealing() }
    }

    private static func request() -> Replay.Request {
        Replay.Request(providers: [.mixpanel], now: WallTime(milliseconds: ProjectionBench.noon))
    }

    @Test func `an export that was written with other options is not replayed in place without naming them`() throws {
        let bench = try Self.bench()
        var options = ExportOptions(provider: .mixpanel)
        options.mixpanel.screenEventName = "Seen"
        var export = try ExportProjection.live(options, data: bench.data)
        try Self.project(&export, bench)
        let before = bench.tree("exports/mixpanel")
        let replayer = try Self.replayer(bench)
        func isRefused(_ error: any Error) -> Bool {
            if case .otherOptions("mixpanel") = error as? Replay.Failure { true } else { false }
        }
        #expect(performing: { try replayer.run() }, throws: isRefused)
        #expect(performing: { try replayer.compare() }, throws: isRefused)
        #expect(performing: { try replayer.rollBack() }, throws: isRefused)
        #expect(bench.tree("exports/mixpanel") == before)
        // Elsewhere nothing is closed by it, and what is named is meant.
        var elsewhere = Self.request()
        elsewhere.output = "/again"
        _ = try Replayer(dataDirectory: "/data", files: bench.disk, request: elsewhere).run()
        var named = Self.request()
        named.options[.mixpanel] = options
        _ = try Replayer(dataDirectory: "/data", files: bench.disk, request: named).run()
    }

    @Test func `a comparison and a verification find the same record of a day to be another`() throws {
        let bench = try Self.bench()
        func differences() throws -> [PartitionDifference] {
            try Self.replayer(bench).compare().differences.filter { !$0.isEmpty }
        }
        func problems() -> [Problem] {
            var verifier = DataVerifier(data: bench.data)
            return verifier.verify().problems
        }
        #expect(try differences() == [] && problems() == [])
        let path = try #require(bench.tree("exports/mixpanel").keys.sorted().first { $0.hasSuffix(".ndjson") })
        var bytes = try #require(bench.disk.bytes(of: "/data/" + path))
        let start = try #require(bytes.firstIndex(of: 0x0A)) + 1
        bytes[start + 12] ^= 1
        bench.disk.place("/data/" + path, bytes)
        let found = try differences()
        #expect(found.map(\.path) == [Path.parent(of: path)] && found.map(\.changed) == [1])
        #expect(problems().map(\.path) == [path] && problems().map(\.offset) == [start])
    }

    /// A receiver died between the two renames of a rewrite.
    @Test func `a live export whose checkpoint was being rewritten continues where it stands`() throws {
        let bench = try Self.bench()
        try bench.write([(ProjectionBench.description(0), Array(Self.line(100, day: 20).utf8))])
        let path = bench.data.statePath("export-mixpanel")
        try bench.disk.rename(path, to: path + ".tmp")
        var request = Self.request()
        let day = try #require(CalendarDay("2026-11-19"))
        request.range = ExportRange(from: day, to: day)
        _ = try Replayer(dataDirectory: "/data", files: bench.disk, request: request).run()
        let records = try Self.live(bench).filter { $0.key.hasSuffix(".ndjson") }.values
        #expect(records.flatMap { $0.split(separator: "\n") }.count == 25)
    }

    private static func replayer(_ bench: ProjectionBench) throws -> Replayer<FaultyFiles> {
        try Replayer(dataDirectory: "/data", files: bench.disk, request: Self.request())
    }

    /// The live export's files, but for those that name a generation.
    private static func live(_ bench: ProjectionBench) throws -> [String: String] {
        var export = try ExportProjection.live(ExportOptions(provider: .mixpanel), data: bench.data)
        _ = try export.recover()
        try export.finishSealing()
        // Readers pass over names that begin with a dot.
        return bench.tree("exports/mixpanel").filter { !Path.name(of: $0.key).hasPrefix(".") }
    }

    /// Whether each partition is wholly what it was in one of two states.
    private static func isOneOrTheOther(
        _ left: [String: String], _ before: [String: String], _ after: [String: String]
    ) -> Bool {
        func partitions(_ files: [String: String]) -> [String: [String: String]] {
            var partitions: [String: [String: String]] = [:]
            for (path, bytes) in files {
                let partition = path.split(separator: "/").prefix { !$0.hasPrefix("part-") && $0 != "dead" }
                partitions[partition.joined(separator: "/"), default: [:]][path] = bytes
            }
            return partitions
        }
        let (left, before, after) = (partitions(left), partitions(before), partitions(after))
        return Set(left.keys).union(before.keys).union(after.keys).allSatisfy {
            left[$0] == before[$0] || left[$0] == after[$0]
        }
    }

    @Test func `a crash at any call of a roll-back leaves one generation or the other, and it can be done again`()
        throws
    {
        let source = try Self.bench()
        let before = try Self.live(source)
        _ = try Self.replayer(source).run()
        let after = try Self.live(source)
        #expect(before != after)
        try source.crash(stride: 3) { bench in
            _ = try Self.replayer(bench).rollBack()
        } check: { bench, call in
            let left = try Self.live(bench)
            #expect(Self.isOneOrTheOther(left, before, after), "call \(call)")
            _ = try Self.replayer(bench).rollBack()
            #expect(try Self.live(bench) == (left == before ? after : before), "call \(call)")
        }
    }

    @Test func `a crash at any call of a replay in place leaves one generation or the other, and it is gone on with`()
        throws
    {
        let source = try Self.bench()
        let before = try Self.live(source)
        let undisturbed = try source.copy()
        _ = try Self.replayer(undisturbed).run()
        let after = try Self.live(undisturbed)
        try source.crash(stride: 11) { bench in
            _ = try Self.replayer(bench).run()
        } check: { bench, call in
            let left = try Self.live(bench)
            #expect(Self.isOneOrTheOther(left, before, after), "call \(call)")
            _ = try Self.replayer(bench).run()
            let end = try Self.live(bench)
            let others = Set(end.keys).union(after.keys).filter { end[$0] != after[$0] }
            #expect(others.isEmpty, "call \(call)")
        }
    }

    @Test func `a crash at any call of a requeue publishes each line once`() throws {
        let source = try Self.bench()
        try source.crash(stride: 1) { bench in
            _ = try Requeue(dataDirectory: "/data", output: "/again", files: bench.disk).run([])
        } check: { bench, call in
            _ = try Requeue(dataDirectory: "/data", output: "/again", files: bench.disk).run([])
            let published = bench.disk.tree("/again").filter { Path.name(of: $0.key).hasPrefix("requeue-") }
            let lines = published.values.flatMap {
                $0.split(separator: 0x0A).map { String(decoding: $0, as: UTF8.self) }
            }
            #expect(
                lines.sorted() == ((0..<6).map { "bad \($0)" } + [String](repeating: "bad", count: 6)).sorted(),
                "call \(call)")
        }
    }

    @Test func `no event falls between the days of a zone far from the archive's`() throws {
        for offset in [-12, 14] {
            let bench = try Self.bench()
            var request = Self.request()
            request.zone = try TimeZoneRules(named: offset < 0 ? "Etc/GMT+12" : "Etc/GMT-14", from: POSIXFileSystem())
            request.output = "/again"
            let report = try Replayer(dataDirectory: "/data", files: bench.disk, request: request).run()
            #expect(report.counts[.mixpanel]?.events.exported == 24)
            #expect(report.counts[.mixpanel]?.partitions == 2)
        }
    }

    @Test func `a stream that is described anew is exported, and replayed, as its new description says`() throws {
        let bench = try ProjectionBench()
        let id = try #require(StreamID("stream-1"))
        let raw = Array("{\"ts\":\"2026-11-20T09:00:00Z\",\"name\":\"n\",\"id\":\"i\"}\n".utf8)
        try bench.write(
            ["dev", "prod"].map { environment in
                (
                    StreamDescription(
                        id: id, source: "/a", environment: environment, bundle: "b", format: .ndjson), raw
                )
            }, perGroup: 1)
        var archive = try ArchiveProjection(data: bench.data, zone: .utc)
        try Self.project(&archive, bench)
        var export = try ExportProjection.live(ExportOptions(provider: .csv), data: bench.data)
        try Self.project(&export, bench)
        #expect(export.partitionPaths.map { $0.dropLast(16) } == ["exports/csv/env=dev", "exports/csv/env=prod"])
        var request = Replay.Request(providers: [.csv], now: WallTime(milliseconds: ProjectionBench.noon))
        request.output = "/again"
        let report = try Replayer(dataDirectory: "/data", files: bench.disk, request: request).run()
        #expect(report.counts[.csv]?.partitions == 2)
        #expect(report.strayLineCount == 0)
    }

    @Test func `a property is set by its newest line alone, and nothing else of a line changes`() {
        let line = "{\"id\":\"i\",\"user\":\"u\",\"traits\": {\"a\":\"x\\\"y\",\"b\":null,\"c\":[1]},\"env\":\"prod\"}"
        let facts = EventFacts(
            time: WallTime(milliseconds: 0), env: .prod, bundle: nil, name: nil, kind: .user, timeOffset: 0)
        let source = SourceDescription(env: .prod, bundle: "b")
        var traits = UserTraits()
        for (kept, expected) in [
            ([true, true, true], "{\"a\":\"x\\\"y\",\"b\":null,\"c\":[1]}"),
            ([true, false, false], "{\"a\":\"x\\\"y\"}"),
            ([false, true, true], "{\"b\":null,\"c\":[1]}"),
        ] {
            var index = -1
            let reduced = Array(line.utf8).withUnsafeBytes { bytes in
                let isAnyLeft = traits.reduce(bytes, facts, source, for: .posthog) { _, _ in
                    index += 1
                    return kept[index]
                }
                #expect(isAnyLeft)
                return String(decoding: traits.line, as: UTF8.self)
            }
            #expect(
                reduced == "{\"id\":\"i\",\"user\":\"u\",\"traits\": \(expected),\"env\":\"prod\"}")
        }
        Array(line.utf8).withUnsafeBytes { bytes in
            #expect(!traits.reduce(bytes, facts, source, for: .posthog) { _, _ in false })
        }
    }

    @Test func `what is set once stays in a replayed line unless it is set later, and no number is added again`() {
        let line =
            "{\"user\":\"u\",\"traits_add\":{\"n\":1},\"traits\":{\"a\":1},\"traits_once\":{\"a\":2,\"b\":\"x\"},\"env\":\"prod\"}"
        let facts = EventFacts(
            time: WallTime(milliseconds: 5), env: .prod, bundle: nil, name: nil, kind: .user, timeOffset: 0)
        let source = SourceDescription(env: .prod, bundle: "b")
        var traits = UserTraits()
        func reduced(_ isKept: (Digest128, UserTraits.Change) -> Bool) -> (text: String, isAnyLeft: Bool) {
            Array(line.utf8).withUnsafeBytes { bytes in
                let isAnyLeft = traits.reduce(bytes, facts, source, for: .posthog, isKept: isKept)
                return (String(decoding: traits.line, as: UTF8.self), isAnyLeft)
            }
        }
        let all = reduced { _, _ in true }
        #expect(
            all.text
                == "{\"user\":\"u\",\"traits_add\":{},\"traits\":{\"a\":1},\"traits_once\":{\"a\":2,\"b\":\"x\"},\"env\":\"prod\"}"
        )
        #expect(all.isAnyLeft)
        let once = reduced { _, change in change == .setOnce }
        #expect(once.text.contains("\"traits\":{},\"traits_once\":{\"a\":2,\"b\":\"x\"}"))
        #expect(!reduced { _, _ in false }.isAnyLeft)
        #expect(!reduced { _, _ in false }.text.contains("\"n\""))
    }

    @Test func `only a newer setting takes from a property what was set once`() throws {
        var survey = LineSurvey()
        let property = Digest128(high: 1, low: 2)
        let place = LinePosition(part: 0, offset: 10)
        #expect(!survey.isSet(property, after: place, WallTime(milliseconds: 5)))
        try survey.add(property, at: place, WallTime(milliseconds: 5))
        #expect(!survey.isSet(property, after: place, WallTime(milliseconds: 5)))
        #expect(survey.isSet(property, after: LinePosition(part: 0, offset: 9), WallTime(milliseconds: 5)))
        #expect(survey.isSet(property, after: LinePosition(part: 1, offset: 0), WallTime(milliseconds: 4)))
        #expect(!survey.isSet(property, after: LinePosition(part: 0, offset: 0), WallTime(milliseconds: 6)))
    }

    @Test func `whose properties a line sets is decided as in its export`() {
        var traits = UserTraits()
        func properties(_ people: String, _ provider: Destination, isForeign: Bool = false) -> [Digest128] {
            let line = "{\"time\":\"2025-03-01T09:14:19Z\",\(people),\"traits\":{\"a\":1}}"
            let facts = EventFacts(
                time: WallTime(milliseconds: 0), env: .prod, bundle: nil, name: nil, kind: .user, timeOffset: 8)
            let source = SourceDescription(env: .prod, bundle: "b", isForeign: isForeign)
            var found: [Digest128] = []
            Array(line.utf8).withUnsafeBytes {
                traits.visit($0, facts, source, for: [provider]) { found.append($0) }
            }
            return found
        }
        let known = "\"user\":\"8812345\",\"anon\":\"device\""
        let device = "\"anon\":\"device\""
        for provider in [Destination.ga4, .mixpanelProfiles, .amplitude, .segment, .posthog] {
            let numeric = "\"anon\":\"device\",\"user\":8812345"
            #expect(properties(numeric, provider) == properties(known, provider), "\(provider)")
            #expect(properties(device, provider) != properties(known, provider), "\(provider)")
            let dash = "\"user\":\"-\",\"anon\":\"device\""
            #expect(properties(dash, provider, isForeign: true) == properties(device, provider), "\(provider)")
        }
        for (provider, user) in [
            (Destination.mixpanelProfiles, "anonymous"), (.mixpanelProfiles, "$device:x"), (.amplitude, "lmy47d"),
            (.posthog, "Guest"),
        ] {
            let people = "\"user\":\"\(user)\",\"anon\":\"device\""
            #expect(properties(people, provider) == properties(device, provider), "\(provider)")
            #expect(properties(people, .segment) != properties(device, .segment), "\(provider)")
        }
    }

    @Test func `a record that events share is taken apart as if each had come alone`() {
        let record =
            "{\"app_instance_id\":\"i\",\"events\":[{\"name\":\"a\"},{\"name\":\"b]\"}],\"user_properties\":{\"p\":1}}"
        #expect(
            SharedRecord.split(Array(record.utf8), eventCount: 2).map { String(decoding: $0, as: UTF8.self) } == [
                "{\"app_instance_id\":\"i\",\"events\":[{\"name\":\"a\"}],\"user_properties\":{\"p\":1}}",
                "{\"app_instance_id\":\"i\",\"events\":[{\"name\":\"b]\"}]}",
            ])
    }
}
