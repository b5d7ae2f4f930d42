import Testing
import WaybillJournal
import WaybillSystem

@testable import WaybillReceiver

struct JournalRetirementTests {
    private func time(_ seconds: Int64) -> MonotonicTime {
        MonotonicTime(nanoseconds: seconds * 1_000_000_000)
    }

    @Test func `nothing is let go before every projection has said where it stands`() {
        let retirement = JournalRetirement(names: ["archive", "csv"], retention: .zero)
        retirement.checkpointed("csv", at: JournalPosition(900))
        #expect(retirement.duePosition(now: self.time(1)) == nil)
        retirement.checkpointed("archive", at: JournalPosition(400))
        #expect(retirement.duePosition(now: self.time(20)) == JournalPosition(400))
    }

    @Test func `it is asked for every ten seconds at most`() {
        let retirement = JournalRetirement(names: ["archive"], retention: .zero)
        retirement.checkpointed("archive", at: JournalPosition(400))
        #expect(retirement.duePosition(now: self.time(1)) == JournalPosition(400))
        #expect(retirement.duePosition(now: self.time(10)) == nil)
        #expect(retirement.duePosition(now: self.time(11)) == JournalPosition(400))
    }
}
