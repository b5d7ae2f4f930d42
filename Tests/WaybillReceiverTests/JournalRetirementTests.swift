import Logging
import Testing
import WaybillData
import WaybillFleet
import WaybillHost
import WaybillSystem
import WaybillTestSupport

@testable import WaybillReceiver

struct JournalRetirementTests {
    private func time(_ seconds: Int64) -> MonotonicTime {
        MonotonicTime(nanoseconds: seconds * 1_000_000_000)
    }

    @Test func `nothing is let go before every projection has said where it stands`() {
        let retirement = JournalRetirement(names: ["archive", "csv"], retention: .zero)
        retirement.checkpointed("csv", at: JournalPosition(900))
        #expect(retirement.dueStanding(now: self.time(1))?.passed == nil)
        retirement.checkpointed("archive", at: JournalPosition(400))
        #expect(retirement.dueStanding(now: self.time(20))?.passed == JournalPosition(400))
    }

    @Test func `a merger's readers are known once they have said where they stand`() {
        let retirement = JournalRetirement(names: ["archive", "csv", "ga4"], retention: .zero)
        #expect(
            ["archive", "exports", "csv", "mixpanel"].map { retirement.standing(of: $0) } == [
                .unknown, .unknown, .unknown, ReaderStanding.none,
            ])
        retirement.checkpointed("archive", at: JournalPosition(400))
        retirement.checkpointed("csv", at: JournalPosition(900))
        #expect(retirement.standing(of: "archive") == .read(upTo: JournalPosition(400)))
        #expect(retirement.standing(of: "csv") == .read(upTo: JournalPosition(900)))
        #expect(retirement.standing(of: "exports") == .unknown)
        retirement.checkpointed("ga4", at: JournalPosition(700))
        #expect(retirement.standing(of: "exports") == .read(upTo: JournalPosition(700)))
        let alone = JournalRetirement(names: ["archive"], retention: .zero)
        #expect(alone.standing(of: "exports") == .none)
    }

    @Test func `it is asked for every ten seconds at most`() {
        let retirement = JournalRetirement(names: ["archive"], retention: .zero)
        retirement.checkpointed("archive", at: JournalPosition(400))
        #expect(retirement.dueStanding(now: self.time(1))?.passed == JournalPosition(400))
        #expect(retirement.dueStanding(now: self.time(10)) == nil)
        #expect(retirement.dueStanding(now: self.time(11))?.passed == JournalPosition(400))
    }

    @Test(arguments: [ReceiverProjections.all, .none])
    func `a bound deletes nothing of a journal that the bucket lacks, also after a reload`(
        projections: ReceiverProjections
    ) {
        var configuration = ReceiverConfiguration(dataDirectory: "/data")
        configuration.projections = projections
        let store = StoreAttachment(
            store: MemoryStore(), fleet: "5b0c6f2e9a174d38b6e1c07f42a9d813", sealInterval: .seconds(300))
        let receiver = Receiver(configuration: configuration, logger: Logger(label: "test"), store: store)
        let archive: Set = projections == .all ? ["archive"] : []
        #expect(receiver.host.retirement.required == archive.union(["store"]))
        receiver.reload(configuration) { _, _ in [] }
        #expect(receiver.host.retirement.required == archive.union(["store"]))
        let alone = Receiver(configuration: configuration, logger: Logger(label: "test"))
        #expect(alone.host.retirement.required == ["archive"])
    }

    @Test func `an export that stands still does not hide how far the archive is`() throws {
        let retirement = JournalRetirement(names: ["archive", "csv", "ga4"], retention: .zero)
        retirement.checkpointed("archive", at: JournalPosition(900))
        retirement.checkpointed("csv", at: JournalPosition(400))
        let standing = try #require(retirement.dueStanding(now: self.time(1)))
        #expect(standing.passed == nil && standing.required == JournalPosition(900))
        retirement.required = ["archive", "csv"]
        #expect(retirement.dueStanding(now: self.time(20))?.required == JournalPosition(400))
        retirement.required = ["archive", "ga4"]
        #expect(try #require(retirement.dueStanding(now: self.time(40))).required == nil)
        // One that has not recovered has read nothing.
        #expect(retirement.names(before: JournalPosition(400)) == ["ga4"])
        #expect(retirement.names(before: JournalPosition(401)) == ["csv", "ga4"])
    }
}
