import Testing
import WaybillExport
import WaybillSystem

@testable import WaybillReceiver

struct OutcomeLogTests {
    private static func census(_ outcome: Outcome?, _ count: Int = 1, lines: Int = 10) -> OutcomeCensus {
        var census = OutcomeCensus()
        let index = Array("shop".utf8).withUnsafeBytes { census.index(of: $0) { "shop" } }
        census.addLines(lines, of: index)
        if let outcome { census.add(count, outcome, of: index) }
        return census
    }

    private static func time(_ seconds: Int) -> MonotonicTime {
        MonotonicTime(nanoseconds: 0) + .seconds(seconds)
    }

    @Test func `the first refusals are told at once and the others once a minute with their share`() {
        var log = OutcomeLog()
        let refused = Outcome.refused(.ga4NoAppInstanceID)
        log.add(Self.census(refused, 3))
        #expect(log.take(Self.time(100)).map(\.count) == [3])
        #expect(log.deadline == nil)
        for second in 101..<160 {
            log.add(Self.census(refused, 2))
            #expect(log.take(Self.time(second)).isEmpty)
        }
        #expect(log.deadline == Self.time(160))
        let report = log.take(Self.time(160))
        #expect(report.map(\.count) == [118] && report.map(\.lineCount) == [590])
    }

    @Test func `what was asked for is told once an hour`() {
        var log = OutcomeLog()
        log.add(Self.census(.skipped(.kind)))
        #expect(log.take(Self.time(10)).count == 1)
        log.add(Self.census(.skipped(.kind)))
        #expect(log.take(Self.time(3609)).isEmpty)
        #expect(log.take(Self.time(3610)).count == 1)
    }

    @Test func `a share is of the lines since something was told, or since the last checkpoint`() {
        var log = OutcomeLog()
        log.add(Self.census(nil, lines: 1_000_000))
        #expect(log.take(Self.time(5)).isEmpty && log.deadline == nil)
        log.add(Self.census(.held, lines: 7))
        #expect(log.take(Self.time(6)).map(\.lineCount) == [7])
    }

    @Test func `a stop tells what was not told yet`() {
        var log = OutcomeLog()
        log.add(Self.census(.held))
        _ = log.take(Self.time(1))
        log.add(Self.census(.held, 4))
        #expect(log.finish().map(\.count) == [4])
        #expect(log.finish().isEmpty)
    }

    @Test func `a line says who, how many, why, and what to do`() {
        let refused = Self.census(.refused(.ga4NoAppInstanceID), 496, lines: 496).reports
        #expect(
            refused.map { $0.text(of: "ga4") }[0].hasPrefix(
                "ga4 refused 496 of 496 events of shop (ga4.no_app_instance_id); GA4 takes only"))
        var mixed = Self.census(.quarantined(.notJSON), 24, lines: 37)
        let other = Array("stream b".utf8).withUnsafeBytes { mixed.index(of: $0) { "stream b, source /log" } }
        mixed.addLines(5, of: other)
        mixed.add(5, .quarantined(.notJSON), of: other)
        #expect(
            mixed.reports.map { $0.text(of: "archive") }[0].hasPrefix(
                "quarantined 24 of 37 lines of shop and 5 of others (not-json); each line"))
    }
}
