import Testing
import WaybillProtocol
import WaybillSystem

@testable import WaybillAgent
@testable import WaybillTail

private func time(_ milliseconds: Int) -> MonotonicTime {
    MonotonicTime(nanoseconds: 0) + .milliseconds(milliseconds)
}

struct RunTallyTests {
    private let stream = StreamKey(slot: 1, generation: 0)

    private func tally(countsLines: Bool = true) -> RunTally {
        RunTally(countsLines: countsLines, at: TailTime(monotonic: time(1000), wall: WallTime(milliseconds: 7)))
    }

    private func header(at offset: UInt64, byteCount: Int, lineCount: Int) -> BatchHeader {
        BatchHeader(
            stream: StreamNumber(1), offset: StreamOffset(offset), rawByteCount: byteCount, lineCount: lineCount,
            wireByteCount: 0, checksum: 0)
    }

    private func end(_ tally: inout RunTally, _ notices: TailNotices = TailNotices()) -> AgentSummary {
        tally.end(
            notices, SuccessionCounts(), wireByteCount: 11, disputedStreamCount: 2, failure: "gone", at: time(4000))
        return tally.summary
    }

    @Test func `lines are durable batch by batch, and those sent again count once`() {
        var tally = self.tally()
        tally.sent(self.stream, self.header(at: 0, byteCount: 10, lineCount: 2), streamCount: 1)
        tally.sent(self.stream, self.header(at: 10, byteCount: 30, lineCount: 4), streamCount: 1)
        tally.acked(self.stream, upTo: 25, byteCount: 25)
        // The connection ends; the receiver holds the first batch and a part of the second one.
        tally.resumed(self.stream, at: StreamOffset(25))
        tally.sent(self.stream, self.header(at: 25, byteCount: 15, lineCount: 3), streamCount: 1)
        tally.acked(self.stream, upTo: 40, byteCount: 15)
        let summary = self.end(&tally)
        #expect(summary.ackedLineCount == 5 && summary.ackedByteCount == 40)
        #expect(summary.batchCount == 3 && summary.lineCount == 9 && summary.rawByteCount == 55)
        #expect(summary.streamCount == 1)
        var other = self.tally(countsLines: false)
        other.sent(self.stream, self.header(at: 0, byteCount: 10, lineCount: 2), streamCount: 1)
        other.acked(self.stream, upTo: 10, byteCount: 10)
        #expect(self.end(&other).ackedLineCount == 0)
    }

    @Test func `the end has what the run found and left, and what it has so far stays`() throws {
        var tally = self.tally()
        tally.skipped(try #require(SkippedRange(offset: StreamOffset(0), byteCount: 9, reason: .truncated, tail: nil)))
        tally.stored(byteCount: 3)
        tally.sealed(unstoredByteCount: 4)
        tally.reshipped()
        tally.connected(.older)
        tally.connected(nil)
        var notices = TailNotices()
        notices.complain("/a", .unreadable(path: "/a", FileSystemError("open", path: "/a", errno: Errno.noEntry)))
        let present = tally.summary(notices, SuccessionCounts(), wireByteCount: 5)
        #expect(present.wireByteCount == 5 && present.files.unreadableCount == 1 && present.duration == .zero)
        #expect(tally.summary.files.unreadableCount == 0)
        let summary = self.end(&tally, notices)
        #expect(summary.storedByteCount == 7 && summary.sealedStreamCount == 1 && summary.reshippedSegmentCount == 1)
        #expect(summary.receivers.connectionCount == 2 && summary.receivers.olderCount == 1)
        #expect(summary.wireByteCount == 11 && summary.files.unreadableCount == 1)
        #expect(summary.disputedStreamCount == 2)
        #expect(summary.duration == .seconds(3) && summary.lastFailure == "gone")
        #expect(tally.start.wall == WallTime(milliseconds: 7))
    }

    @Test func `whole lines that are left are counted where lines are, and unfinished ones as bytes`() throws {
        let files = POSIXFileSystem()
        let path = "/tmp/waybill-tally-\(SystemRandom.seed())"
        try files.replace(path, with: Array("a\nb\nc\nd".utf8))
        let position = StreamPosition(
            source: 0, place: FilePlace(path), acked: 2, cursor: 6, byteCount: 7, modified: 0, isFaulty: false,
            isGone: false, isDrained: true)
        var tally = self.tally()
        tally.leaves(position, mayHaveLines: false, on: files)
        #expect(tally.summary.remainingLineCount == 0 && tally.summary.files.heldByteCount == 1)
        tally.leaves(position, mayHaveLines: true, on: files)
        #expect(tally.summary.remainingLineCount == 2 && tally.summary.files.heldByteCount == 2)
        var other = self.tally(countsLines: false)
        other.leaves(position, mayHaveLines: true, on: files)
        #expect(other.summary.remainingLineCount == 0)
        try files.unlink(path)
    }

    @Test func `progress is told four times a second at most`() {
        var tally = self.tally()
        tally.sent(self.stream, self.header(at: 0, byteCount: 10, lineCount: 2), streamCount: 1)
        var told: [[Int]] = []
        for now in [1250, 1251, 1400, 1502] {
            tally.tell({ told.append([$0, $1]) }, at: time(now)) { now }
        }
        #expect(told == [[10, 1261], [10, 1512]])
    }
}
