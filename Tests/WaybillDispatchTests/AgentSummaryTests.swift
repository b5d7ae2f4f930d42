import Testing
import WaybillProtocol
import WaybillSystem

@testable import WaybillAgent
@testable import WaybillTail

struct AgentSummaryTests {
    private func quarantined(_ count: Int, by export: String? = nil) throws -> QuarantineCount {
        let stream = try #require(StreamID("s1"))
        return QuarantineCount(stream: stream, export: export, reason: "not-json", count: count)
    }

    @Test func `what receivers set aside is counted by its kind, and has a limit`() throws {
        var counts = SetAsideCounts()
        counts.count([try quarantined(3), try quarantined(2, by: "csv"), try quarantined(3)])
        #expect(counts.lineCount == 6 && counts.eventCount == 2)
        counts.count([try quarantined(.max)])
        #expect(counts.lineCount == .max && counts.eventCount == 2)
    }

    @Test func `each connection counts, and receivers that are not known, or came back older`() {
        var counts = ReceiverCounts()
        for meeting in [ReceiverMeeting.known, .unknown, .older, .older, nil] { counts.count(meeting) }
        #expect(counts.connectionCount == 5 && counts.unknownCount == 1 && counts.olderCount == 2)
    }

    @Test func `skipped bytes are given up, or NULs that no one wrote`() throws {
        var counts = SkipCounts()
        for reason in [SkipReason.truncated, .hole] {
            let end = StreamOffset(8)
            let tail = reason == .truncated ? nil : [UInt8](repeating: 0, count: StreamProof.byteCount(at: end))
            counts.count(
                try #require(SkippedRange(offset: StreamOffset(0), byteCount: 8, reason: reason, tail: tail)))
        }
        #expect(counts.byteCount == 8 && counts.holeByteCount == 8)
    }

    @Test func `a notice counts what it is about`() throws {
        let stream = try #require(StreamID("s1"))
        var counts = NoticeCounts()
        counts.count(.segmentsReturned(count: 3, byteCount: 9))
        counts.count(.receiverDiffers(stream, path: "/a", receiverOffset: 1, byteCount: 2))
        counts.count(.receiverForgot(stream, path: "/a", receiverOffset: 1, ackedOffset: 2))
        for _ in 0..<2 { counts.count(.segmentShortened(stream, path: "/a", receiverOffset: 1, byteCount: 2)) }
        counts.count(.keptSegmentDeleted(path: "/a", byteCount: 1, .age))
        #expect(counts.returnedSegmentCount == 3 && counts.differingStreamCount == 1)
        #expect(counts.forgottenStreamCount == 1 && counts.shortenedStreamCount == 2)
        #expect(counts.expiredSegmentCount == 1 && counts.expiredQuarantineCount == 0)
    }

    @Test func `files count by what the tail has noticed, and by what a run leaves of them`() {
        var notices = TailNotices()
        notices.complain("/a", .unreadable(path: "/a", FileSystemError("open", path: "/a", errno: Errno.noEntry)))
        var counts = FileCounts()
        for _ in 0..<2 { counts.take(notices) }
        #expect(counts.unreadableCount == 1 && counts.refusedCount == 0 && counts.lostByteCount == 0)
        for _ in 0..<2 {
            counts.leave(
                StreamPosition(
                    source: 0, place: FilePlace("/a"), acked: 2, cursor: 6, byteCount: 7, modified: 0, isFaulty: false,
                    isGone: false, isDrained: true))
        }
        #expect(counts.heldByteCount == 2)
    }

    @Test func `the summary is a line of JSON`() throws {
        var summary = AgentSummary()
        summary.streamCount = 1
        summary.setAside.count([try quarantined(4)])
        summary.duration = .milliseconds(1_023)
        #expect(
            summary.json
                == "{\"streams\":1,\"bytes\":0,\"lines\":0,\"batches\":0,\"wire_bytes\":0,\"skipped_bytes\":0,"
                + "\"sealed\":0,\"held_bytes\":0,\"lost_bytes\":0,\"unreadable_files\":0,\"refused_files\":0,"
                + "\"quarantined_lines\":4,\"refused_events\":0,\"seconds\":1.023}")
    }
}
