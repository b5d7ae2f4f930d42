import Testing
import WaybillData
import WaybillExport
import WaybillProjection
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

/// What projections report about lines that were not simply taken.
@Suite struct OutcomeTests {
    private static func line(_ number: Int, members: String = "", bundle: String = "b") -> String {
        "{\"v\":1,\"id\":\"01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))\","
            + "\"ts\":\"2026-11-20T09:00:00.000Z\",\"kind\":\"event\",\"name\":\"n\",\"env\":\"prod\","
            + "\"bundle\":\"\(bundle)\",\"anon\":\"a\"\(members)}\n"
    }

    private static let text =
        (0..<3).map { line($0) }.joined() + line(4, members: ",\"consent\":{\"analytics\":false}", bundle: "c")
        + line(5, members: ",\"providers\":[\"csv\"]", bundle: "c") + "nothing\n\n[]\n"

    private static func bench() throws -> ProjectionBench {
        let bench = try ProjectionBench()
        try bench.write([(ProjectionBench.description(0), Array(Self.text.utf8))])
        return bench
    }

    private static func texts(_ census: OutcomeCensus) -> Set<String> {
        Set(census.reports.map { "\($0.outcome.reason) \($0.count)/\($0.lineCount) \($0.subject) +\($0.otherCount)" })
    }

    @Test func `an export reports refusals and skips by app and counts them by reason`() throws {
        let bench = try Self.bench()
        var export = try ExportProjection<FaultyFiles>.live(ExportOptions(provider: .ga4), data: bench.data)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        let position = try run.advance(&export, from: try export.recover().position, upTo: bench.end)
        #expect(export.takeOutcomes().isEmpty)
        try export.checkpoint(at: position)
        #expect(
            Self.texts(export.takeOutcomes()) == [
                "ga4.no_app_instance_id 3/3 b +0", "consent 1/2 c +0", "not-subscribed 1/2 c +0",
            ])
        #expect(export.takeOutcomes().isEmpty)
        #expect(export.tally.outcomes[.refused(.ga4NoAppInstanceID)] == 3)
        #expect(export.tally.outcomes[.refused(.consent)] == 1)
        #expect(export.tally.refused == 4 && export.tally.unaccountedLineCount == 0)
    }

    @Test func `what was read again after a failure is counted once`() throws {
        let bench = try Self.bench()
        var export = try ExportProjection<FaultyFiles>.live(ExportOptions(provider: .ga4), data: bench.data)
        var archive = try ArchiveProjection(data: bench.data, zone: .utc)
        for _ in 0..<2 {
            var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
            _ = try run.advance(&export, from: try export.recover().position, upTo: bench.end)
            _ = try run.advance(&archive, from: try archive.recover().position, upTo: bench.end)
        }
        try export.checkpoint(at: bench.end)
        try archive.checkpoint(at: bench.end)
        #expect(export.tally.outcomes[.refused(.ga4NoAppInstanceID)] == 3)
        #expect(Self.texts(export.takeOutcomes()).contains("ga4.no_app_instance_id 3/3 b +0"))
        #expect(archive.tally.outcomes[.quarantined(.notJSON)] == 1)
        #expect(Self.texts(archive.takeOutcomes()).allSatisfy { $0.contains(" 1/8 ") })
    }

    @Test func `the archive reports quarantined lines by stream and reason`() throws {
        let bench = try Self.bench()
        var archive = try ArchiveProjection(data: bench.data, zone: .utc)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        let position = try run.advance(&archive, from: try archive.recover().position, upTo: bench.end)
        try archive.checkpoint(at: position)
        let subject = "stream stream-0, source /var/log/0.ndjson"
        #expect(
            Self.texts(archive.takeOutcomes()) == [
                "not-json 1/8 \(subject) +0", "empty 1/8 \(subject) +0", "not-object 1/8 \(subject) +0",
            ])
    }

    @Test func `fixes are counted by code`() throws {
        let bench = try ProjectionBench()
        let line = Self.line(
            0, members: ",\"ids\":{\"ga4\":\"\(String(repeating: "a", count: 32))\"},\"data\":{\"1\":null}")
        try bench.write([(ProjectionBench.description(0), Array(line.utf8))])
        var export = try ExportProjection<FaultyFiles>.live(ExportOptions(provider: .ga4), data: bench.data)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        let position = try run.advance(&export, from: try export.recover().position, upTo: bench.end)
        try export.checkpoint(at: position)
        #expect(export.tally.exported == 1 && export.tally.outcomes[.fixed(.dropNull)] == 1)
        #expect(Self.texts(export.takeOutcomes()).contains("drop_null 1/1 b +0"))
    }
}
