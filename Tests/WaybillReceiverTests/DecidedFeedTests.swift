import Testing
import WaybillData
import WaybillProjection
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem

@testable import WaybillReceiver

/// Who follows the archive gets nothing before it is decided, and everything behind it.
@Suite struct DecidedFeedTests {
    private static let passed = MonotonicTime(nanoseconds: 1)

    /// Two batches, from 100 to 200 and from 210 to 300.
    private static func feed() -> JournalFeed {
        let feed = JournalFeed(end: JournalPosition(100), byteCountMax: 1 << 20)
        let entries = [(100, 200), (210, 300)].map { start, end in
            FeedEntry(
                position: JournalPosition(start), end: JournalPosition(end),
                description: ProjectionBench.description(1), offset: StreamOffset(0),
                receivedAt: WallTime(milliseconds: 5), lineCount: 1, raw: SharedBytes(capacity: 1) { _ in 1 },
                account: Account(principal: "", device: "a"))
        }
        feed.publish(entries, end: JournalPosition(310), at: WallTime(milliseconds: 5))
        return feed
    }

    private static func next(_ feed: JournalFeed, after position: Int, known: WallTime? = nil) -> String {
        let next = feed.next(
            after: JournalPosition(position), until: Self.passed, known: known, followsArchive: true)
        return switch next {
        case .entry(let entry)?: "\(entry.position.rawValue)"
        case .behind(let end)?: "behind to \(end.rawValue)"
        case .passed(_, let end)?: "passed to \(end.rawValue)"
        case .closed?: "closed"
        case .abandoned?: "abandoned"
        case nil: "nothing"
        }
    }

    @Test func `a batch comes once the archive has decided beyond its beginning`() {
        let feed = Self.feed()
        #expect(Self.next(feed, after: 100) == "nothing")
        #expect(Self.next(feed, after: 50) == "nothing")
        #expect(feed.hasMore(after: JournalPosition(100)))
        feed.decided(upTo: JournalPosition(60))
        #expect(Self.next(feed, after: 50) == "behind to 60")
        feed.decided(upTo: JournalPosition(210))
        #expect(Self.next(feed, after: 50) == "behind to 210")
        #expect(Self.next(feed, after: 100) == "100")
        // The second one is undecided, and a decision is never taken back.
        feed.decided(upTo: JournalPosition(150))
        #expect(Self.next(feed, after: 200) == "nothing")
        feed.decided(upTo: JournalPosition(300))
        #expect(Self.next(feed, after: 200) == "210")
        #expect(Self.next(feed, after: 300, known: .unknown) == "nothing")
        #expect(!feed.hasMore(after: JournalPosition(300)))
        feed.decided(upTo: JournalPosition(310))
        #expect(Self.next(feed, after: 300, known: .unknown) == "passed to 310")
        #expect(Self.next(feed, after: 300) == "nothing")
    }

    @Test func `what the archive leaves undecided at the end is left to the next start`() {
        let feed = Self.feed()
        feed.decided(upTo: JournalPosition(210))
        feed.close()
        #expect(Self.next(feed, after: 100) == "100")
        #expect(Self.next(feed, after: 200) == "nothing")
        feed.endDecisions()
        #expect(Self.next(feed, after: 200) == "closed")
        feed.reopen()
        #expect(Self.next(feed, after: 200) == "nothing")
    }

    @Test func `the archive itself waits for no one`() {
        let feed = Self.feed()
        guard case .entry(let entry)? = feed.next(after: JournalPosition(100), until: Self.passed) else {
            Issue.record("nothing came")
            return
        }
        #expect(entry.position == JournalPosition(100))
    }
}
