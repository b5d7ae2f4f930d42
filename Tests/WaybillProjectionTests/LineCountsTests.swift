import Testing
import WaybillData
import WaybillExport
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem

@testable import WaybillProjection

/// What is told about lines, without an export that reads them.
@Suite struct LineCountsTests {
    private static func census(_ count: Int) -> OutcomeCensus {
        var census = OutcomeCensus()
        let app = Array("app".utf8).withUnsafeBytes { census.index(of: $0) { "app" } }
        census.addLines(count, of: app)
        census.add(count, .refused(.consent), of: app)
        return census
    }

    @Test func `a recovery returns to the lines of the last checkpoint`() {
        var events = PartSink.Counts()
        events.exported = 5
        events.refused = 2
        events.held = 1
        var lines = LineCounts()
        lines.addRead(9)
        lines.addQuarantined(1)
        #expect(lines.tally(events).unaccountedLineCount == 0)
        lines.checkpointed(OutcomeCensus())
        let tally = lines.tally(events)
        lines.addRead(4)
        lines.addQuarantined(2)
        #expect(lines.tally(events).lineCount == 13 && lines.tally(events).quarantined == 3)
        lines.recover()
        #expect(lines.tally(events) == tally)
        #expect((tally.lineCount, tally.quarantined, tally.exported, tally.refused, tally.held) == (9, 1, 5, 2, 1))
    }

    @Test func `outcomes add up from checkpoint to checkpoint until they are taken`() {
        var lines = LineCounts()
        #expect(lines.takeOutcomes().isEmpty)
        lines.checkpointed(Self.census(2))
        lines.checkpointed(Self.census(3))
        lines.recover()
        #expect(lines.takeOutcomes().reports.map(\.count) == [5])
        #expect(lines.takeOutcomes().isEmpty)
    }

    @Test func `refusals of a batch count for the agent that brought it, if it is known`() {
        var (before, after) = (OutcomeCounts(), OutcomeCounts())
        before.add(2, .refused(.consent))
        after.add(5, .refused(.consent))
        after.add(1, .refused(.unreadable))
        after.add(4, .fixed(.dropNull))
        let description = ProjectionBench.description(0)
        var batch = ProjectedBatch(
            position: JournalPosition(0), description: description, offset: StreamOffset(0), receivedAt: .unknown,
            lineCount: 4, raw: UnsafeRawBufferPointer(start: nil, count: 0))
        var lines = LineCounts()
        lines.addRefused(of: batch, by: "csv", from: before, to: after)
        #expect(lines.takeQuarantined().isEmpty)
        let account = Account(principal: "shop", device: "agent-1")
        batch.account = account
        lines.addRefused(of: batch, by: "csv", from: before, to: after)
        var refused = lines.takeQuarantined()
        #expect(
            refused.take(of: account) == [
                QuarantineCount(stream: description.id, export: "csv", reason: "consent", count: 3),
                QuarantineCount(stream: description.id, export: "csv", reason: "unreadable", count: 1),
            ])
        #expect(refused.isEmpty && lines.takeQuarantined().isEmpty)
    }
}
