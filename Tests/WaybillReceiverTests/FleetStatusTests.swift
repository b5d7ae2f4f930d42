import Logging
import Testing
import WaybillData
import WaybillFleet
import WaybillSystem
import WaybillTestSupport

@testable import WaybillMerger
@testable import WaybillReceiver

@Suite struct JournalAgesTests {
    private func time(_ seconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: seconds * 1_000_000_000) }

    @Test func `the oldest byte that waits has been durable since its group was`() {
        var ages = JournalAges()
        #expect(ages.oldest(at: self.time(100)) == .zero)
        ages.reached(JournalPosition(10), at: self.time(100))
        ages.reached(JournalPosition(20), at: self.time(130))
        #expect(ages.oldest(at: self.time(160)) == .seconds(60))
        ages.passed(JournalPosition(9))
        #expect(ages.oldest(at: self.time(160)) == .seconds(60))
        ages.passed(JournalPosition(10))
        #expect(ages.oldest(at: self.time(160)) == .seconds(30))
        ages.passed(JournalPosition(20))
        #expect(ages.oldest(at: self.time(160)) == .zero)
    }

    @Test func `an outage of any length takes bounded memory, and no age is too small`() {
        var ages = JournalAges()
        for second in 0..<100_000 { ages.reached(JournalPosition(second + 1), at: self.time(Int64(second))) }
        #expect(ages.groupCount <= JournalAges.groupCountMax)
        let now = self.time(100_000)
        #expect(ages.oldest(at: now) == .seconds(100_000))
        for stored in stride(from: 1, to: 100_000, by: 7919) {
            ages.passed(JournalPosition(stored))
            #expect(ages.oldest(at: now) >= .seconds(100_000 - stored))
        }
        ages.passed(JournalPosition(100_000))
        #expect(ages.oldest(at: now) == .zero)
    }
}

@Suite struct MergeProgressTests {
    private func chain(_ text: String, heard seconds: Int64) throws -> (ChainName, MergedChain) {
        var chain = MergedChain(position: JournalPosition(1))
        chain.lastMark = WallTime(milliseconds: seconds * 1000)
        return (try #require(ChainName(text)), chain)
    }

    @Test func `a receiver is stale by its newest chain, for a week`() throws {
        var standing = MergeProgress.Standing(caughtUp: .unknown)
        let now: Int64 = 1_795_000_000
        standing.answered = WallTime(milliseconds: now * 1000)
        let chains = [
            try self.chain("a~0000000000000001", heard: now - 90_000),
            try self.chain("a~0000000000000002", heard: now - 10),
            try self.chain("b~0000000000000003", heard: now - 1801),
            try self.chain("c~0000000000000004", heard: now - 1799),
            try self.chain("d~0000000000000005", heard: now - 8 * 86_400),
        ]
        standing.chains = Dictionary(uniqueKeysWithValues: chains)
        #expect(standing.staleChains(patience: .seconds(1800)).map(\.receiver) == ["b"])
    }

    @Test func `a merger is behind by the time since the bucket had nothing more`() {
        var standing = MergeProgress.Standing(caughtUp: WallTime(milliseconds: 5000))
        #expect(standing.lag(at: WallTime(milliseconds: 7500)) == .milliseconds(2500))
        #expect(standing.lag(at: WallTime(milliseconds: 4000)) == .zero)
        standing.missing = [
            MissingBytes(principal: "", stream: "s", ranges: [0..<5, 10..<20], receivers: []),
            MissingBytes(principal: "", stream: "t", ranges: [0..<UInt64.max], receivers: []),
        ]
        #expect(standing.missingByteCount == .max)
    }
}

@Suite struct AgentsRecordTests {
    private let time = WallTime(milliseconds: 1_795_165_200_000)

    private func principal(_ name: String, token: String = "0123456789abcdef") -> Principal {
        var principal = Principal(name: name)
        principal.tokens = [TokenDigest(of: token)]
        return principal
    }

    private func record(_ receiver: String, _ agents: [Principal]?) -> AgentsRecord {
        AgentsRecord(receiver: receiver, agents: agents, time: self.time)
    }

    @Test func `a record is read as it was written, and has no secret`() throws {
        let record = self.record("a", [self.principal("shop")])
        #expect(AgentsRecord(record.encoded) == record)
        let none = self.record("b", nil)
        #expect(AgentsRecord(none.encoded) == none && none.digest == nil)
        let text = String(decoding: record.encoded, as: UTF8.self)
        #expect(!text.contains("0123456789abcdef"))
        #expect(!text.contains(TokenDigest(of: "0123456789abcdef").text.dropFirst(7)))
        #expect(AgentsRecord(Array("{\"receiver\":\"a/b\",\"time\":1}".utf8)) == nil)
        #expect(AgentsRecord(Array("{\"receiver\":\"a\",\"digest\":\"x\",\"time\":1}".utf8)) == nil)
    }

    @Test func `the order of entries does not matter, everything else does`() {
        let both = [self.principal("shop"), self.principal("web")]
        #expect(self.record("a", both).digest == self.record("b", both.reversed()).digest)
        var changed: [[Principal]] = [[both[0]], [both[0], self.principal("web", token: "another-token-16")]]
        let changes: [(inout Principal) -> Void] = [
            { $0.environments = ["prod"] }, { $0.bundles = ["com.*"] }, { $0.formerly = ["x"] }, { $0.adopts = true },
            { $0.hasDevices = true }, { $0.share = 2 }, { $0.skippedByteCountMax = 1 },
            { $0.quotas.connectionCountMax = 1 }, { $0.certificates = [.name("n")] },
        ]
        for change in changes {
            var agents = both
            change(&agents[1])
            changed.append(agents)
        }
        let digests = changed.map { self.record("a", $0).digest } + [self.record("a", both).digest]
        #expect(Set(digests).count == changed.count + 1)
    }

    @Test func `receivers without agents, and with others, are named`() {
        let agents = [self.principal("shop")]
        let others = [
            self.record("c", nil), self.record("b", agents), self.record("d", [self.principal("web")]),
            self.record("a", nil),
        ]
        let with = self.record("a", agents).comparison(with: others)
        #expect(with == .init(having: [], lacking: ["c"], differing: ["d"]))
        let without = self.record("a", nil).comparison(with: others)
        #expect(without == .init(having: ["b", "d"], lacking: [], differing: []))
        #expect(self.record("a", agents).comparison(with: [others[1]]).isEqual)
    }

    @Test func `a record is put into the bucket once, and again after a reload`() throws {
        let store = MemoryStore()
        store.place("agents/b.json", self.record("b", [self.principal("shop")]).encoded)
        store.place("agents/rubbish.json", [1, 2, 3])
        let telemetry = ReceiverTelemetry(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let announcement = AgentsAnnouncement(self.record("a", nil))
        // The bucket is away: the next piece tries again.
        store.setFaults { _ in .refused(.unreachable) }
        announcement.announce(in: store, telemetry)
        #expect(store.objects["agents/a.json"] == nil)
        store.setFaults(nil)
        announcement.announce(in: store, telemetry)
        #expect(store.objects["agents/a.json"] == self.record("a", nil).encoded)
        let count = store.callCount
        announcement.announce(in: store, telemetry)
        #expect(store.callCount == count)
        announcement.set(self.record("a", [self.principal("shop")]))
        announcement.announce(in: store, telemetry)
        #expect(try AgentsRecord.all(in: store).map(\.receiver) == ["a", "b"])
        // A policy that does not allow it is asked once.
        store.setFaults { _ in .refused(.forbidden) }
        announcement.set(self.record("a", nil))
        announcement.announce(in: store, telemetry)
        let refusedCount = store.callCount
        announcement.announce(in: store, telemetry)
        #expect(store.callCount == refusedCount)
    }
}

@Suite struct MeteredStoreTests {
    @Test func `calls are counted by kind, those that failed apart`() throws {
        let (store, counts, ended) = (MemoryStore(), MeteredStore.Counts(), Lock(0))
        let metered = MeteredStore(store, counts) { ended.withLock { $0 += 1 } }
        #expect(try metered.create("a", ObjectBody([1])) == .created)
        try metered.replace("b", ObjectBody([2]))
        #expect(try metered.read("a", nil) == [1])
        #expect(try metered.status(of: "a")?.byteCount == 1)
        #expect(try metered.list("", after: nil, isFolded: false).objects.count == 2)
        try metered.delete("b")
        store.setFaults { _ in .refused(.busy) }
        #expect(throws: StoreError.self) { try metered.read("a", nil) }
        #expect(MeteredStore.Method.allCases.map { counts.count($0, .answered) } == [2, 1, 1, 1, 1])
        #expect(MeteredStore.Method.allCases.map { counts.count($0, .failed) } == [0, 1, 0, 0, 0])
        #expect(ended.withLock { $0 } == 7)
    }
}
