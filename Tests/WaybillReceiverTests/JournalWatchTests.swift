import Testing
import WaybillData
import WaybillSystem

@testable import WaybillReceiver

@Suite struct JournalWatchTests {
    private let counts = Lock<[String: Int]>([:])

    private func wait(_ watch: JournalWatch, beyond position: Int, _ name: String) -> JournalWatch.Wait {
        watch.wait(beyond: JournalPosition(position)) { self.counts.withLock { $0[name, default: 0] += 1 } }
    }

    private var answered: [String: Int] { self.counts.withLock { $0 } }

    @Test func `who asks for less than there is is answered at once`() {
        let watch = JournalWatch(end: JournalPosition(10))
        #expect(self.wait(watch, beyond: 9, "a") == .answered)
        #expect(self.answered == ["a": 1])
    }

    @Test func `who is up to date waits for more, and is answered once`() {
        let watch = JournalWatch(end: JournalPosition(10))
        #expect(self.wait(watch, beyond: 10, "a") == .waiting(1))
        #expect(self.wait(watch, beyond: 25, "b") == .waiting(2))
        watch.reached(JournalPosition(10))
        #expect(self.answered == [:])
        watch.reached(JournalPosition(20))
        #expect(self.answered == ["a": 1])
        watch.cancel(1)
        #expect(self.answered == ["a": 1])
        watch.reached(JournalPosition(26))
        watch.close()
        #expect(self.answered == ["a": 1, "b": 1])
    }

    @Test func `only so many wait, and a place becomes free`() {
        let watch = JournalWatch(end: JournalPosition(0), countMax: 2)
        #expect(self.wait(watch, beyond: 0, "a") == .waiting(1))
        #expect(self.wait(watch, beyond: 0, "b") == .waiting(2))
        #expect(self.wait(watch, beyond: 0, "c") == .refused)
        watch.cancel(1)
        #expect(self.wait(watch, beyond: 0, "d") == .waiting(3))
        #expect(self.answered == ["a": 1])
    }

    @Test func `a stop answers all, and who comes later`() {
        let watch = JournalWatch(end: JournalPosition(0))
        #expect(self.wait(watch, beyond: 0, "a") == .waiting(1))
        watch.close()
        #expect(self.wait(watch, beyond: 5, "b") == .answered)
        #expect(self.answered == ["a": 1, "b": 1])
    }

    @Test func `a group that is published moves the feed's end on`() {
        let feed = JournalFeed(end: JournalPosition(5), byteCountMax: 1000)
        #expect(self.wait(feed.watch, beyond: 5, "a") == .waiting(1))
        feed.publish([], end: JournalPosition(6))
        #expect(self.answered == ["a": 1])
        #expect(self.wait(feed.watch, beyond: 6, "b") == .waiting(2))
        feed.close()
        #expect(self.answered == ["a": 1, "b": 1])
    }
}
