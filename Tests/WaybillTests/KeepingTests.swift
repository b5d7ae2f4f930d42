import Testing
import Waybill
import WaybillEvent
import WaybillSpool
import WaybillSystem
import WaybillTestSupport
import WaybillTesting

/// A client whose segments hold a few lines of 1 KB each.
private func smallClient(
    on disk: FaultyFiles = FaultyFiles(), seed: UInt64 = 1, clock: ManualClock = ManualClock(),
    byteCountMax: Int = 100_000, ageMax: Duration = .seconds(86_400), freeByteCountMin: Int = 1000
) throws -> Client {
    disk.memory.now = clock.wallTime().milliseconds * 1_000_000
    return try Client(
        on: disk, seed: seed, segmentByteCountMax: 10_000, clock: clock,
        adjusting: { configuration in
            configuration.quota = WaybillClient.Quota(
                byteCountMax: byteCountMax, ageMax: ageMax, freeByteCountMin: freeByteCountMin)
        })
}

extension Client {
    fileprivate func fill(_ range: Range<Int>) {
        let filler = String(repeating: "x", count: 500)
        for index in range { self.track("e\(index)") { $0.put("filler", filler) } }
    }

    fileprivate var byteCount: Int {
        self.disk.names(in: "/spool").filter { $0.hasSuffix(".ndjson") }
            .reduce(0) { $0 + (self.disk.bytes(of: "/spool/\($1)")?.count ?? 0) }
    }

    fileprivate func names(_ prefix: String) -> [String] {
        self.members("name").map { String($0.dropFirst().dropLast()) }.filter { $0.hasPrefix(prefix) }
    }
}

@Test func `beyond the quota the oldest segments go, each with a record`() throws {
    let client = try smallClient()
    client.fill(0..<300)
    #expect(client.byteCount <= 112_000)
    let left = client.names("e")
    #expect(left == (300 - left.count..<300).map { "e\($0)" })
    let counters = client.core.counters
    #expect(left.count + Int(counters.evicted) == 300)
    let records = client.lines.filter { $0.contains("\"wb.evicted\"") }
    let counts = records.compactMap { UInt64(member("count", of: $0)) }
    #expect(counts.reduce(0, +) == counters.evicted)
    #expect(records.allSatisfy { member("reason", of: $0) == "\"quota\"" })
    // What the records name and what is left are all numbers there ever were.
    var sequences = Set(client.members("seq").compactMap { UInt64($0) })
    for record in records {
        let first = try #require(UInt64(member("first_seq", of: record)))
        let last = try #require(UInt64(member("last_seq", of: record)))
        sequences.formUnion(first...last)
    }
    #expect(sequences.count == Int(counters.stored))
    #expect(sequences.max() == counters.stored)
    #expect(counters.upkeepFailures == 0)
}

@Test func `what is said about users survives its segment, byte for byte`() throws {
    let client = try smallClient()
    _ = client.core.setUser("u-1", traits: ["tier": "PREMIUM"])
    _ = client.core.setConsent(analytics: true, ads: false)
    let spoken = client.lines
    client.fill(0..<300)
    let lines = client.lines
    #expect(spoken.allSatisfy { line in lines.count { $0 == line } == 1 })
    let kept = client.disk.names(in: "/spool").filter { $0.hasSuffix("-00009007199254740992.ndjson") }
    #expect(!kept.isEmpty)
    let first = try #require(lines.first { $0.contains("\"first_seq\":1,") })
    #expect(member("kept", of: first) == "2")
}

@Test func `kept lines are bounded too`() throws {
    let client = try smallClient()
    let filler = String(repeating: "y", count: 500)
    for index in 0..<500 {
        _ = client.core.setUser("u-\(index)", traits: ["filler": .string(filler)])
    }
    #expect(client.byteCount <= 112_000)
    let counters = client.core.counters
    #expect(UInt64(client.lines.count) + counters.evicted == counters.stored)
}

@Test func `age evicts what another process's files prove to be old, and a clock that jumps does not`() throws {
    let first = try smallClient(byteCountMax: 1 << 20)
    first.fill(0..<30)
    first.core.enter(.background)
    let year: Int64 = 365 * 86_400_000
    let jumped = try smallClient(on: first.disk, seed: 2, clock: ManualClock(after: year), byteCountMax: 1 << 20)
    #expect(jumped.names("e").count == 30)
    jumped.track("later")
    jumped.core.enter(.background)
    let next = try smallClient(on: first.disk, seed: 3, clock: ManualClock(after: year + 1000), byteCountMax: 1 << 20)
    #expect(next.names("e").isEmpty)
    #expect(next.names("later") == ["later"])
    #expect(next.core.counters.evicted == 30)
    next.track("now")
    let records = next.lines.filter { $0.contains("\"wb.evicted\"") }
    #expect(Set(records.map { member("reason", of: $0) }) == ["\"age\""])
}

@Test func `a segment that a living process writes is never evicted`() throws {
    let disk = FaultyFiles()
    let living = try smallClient(on: disk)
    living.track("living")
    let other = try smallClient(on: disk, seed: 2)
    other.fill(0..<300)
    #expect(other.names("living") == ["living"])
    #expect(living.track("still") == .stored(seq: 2))
    #expect(other.names("still") == ["still"])
}

@Test func `below the floor of free space new events wait and stored ones stay`() throws {
    let client = try smallClient(byteCountMax: 1 << 20, freeByteCountMin: 5000)
    client.fill(0..<30)
    client.disk.memory.setFreeByteCount(4999)
    client.fill(30..<60)
    let stored = client.names("e").count
    #expect(stored >= 30 && stored < 60)
    #expect(client.core.counters.heldCount == 60 - stored)
    client.disk.memory.setFreeByteCount(5000)
    client.track("e60")
    #expect(client.names("e") == (0...60).map { "e\($0)" })
}

@Test(arguments: 0..<60)
func `a start after a crash during an eviction finishes it`(deadCall: Int) throws {
    let first = try smallClient(byteCountMax: 1 << 20)
    _ = first.core.setUser("u-1", traits: ["tier": "PREMIUM"])
    first.fill(0..<50)
    first.core.enter(.background)
    let spoken = try #require(first.lines.first { $0.contains("\"set_user\"") })
    let disk = first.disk
    let calls = disk.callCount
    // From the dead call on nothing works any more, as for a process that was killed.
    disk.setFaults { $0.number >= calls + deadCall ? .error(Errno.inputOutput) : nil }
    if let dying = try? smallClient(on: disk, seed: 2, byteCountMax: 20_000) { dying.track("dying") }
    disk.clearFaults()
    let next = try smallClient(on: disk, seed: 3, byteCountMax: 20_000)
    next.track("alive")
    #expect(next.byteCount <= 32_000)
    #expect(disk.names(in: "/spool").allSatisfy { !$0.hasSuffix(".evicted") })
    #expect(next.lines.count { $0 == spoken } >= 1)
    let left = next.names("e")
    #expect(left == (50 - left.count..<50).map { "e\($0)" })
    #expect(next.core.counters.upkeepFailures == 0)
}

@Test func `a purge leaves nothing of the user`() throws {
    let client = try smallClient(byteCountMax: 1 << 20)
    _ = client.core.setUser("u-1", traits: ["tier": "PREMIUM"])
    client.fill(0..<40)
    client.disk.setFaults { _ in .error(Errno.noSpace) }
    client.track("held")
    client.disk.clearFaults()
    _ = client.core.setConsent(analytics: false, ads: false)
    try client.core.purge()
    #expect(client.names("").allSatisfy { $0 == "wb.evicted" || $0 == "wb.consent" })
    #expect(client.names("").last == "wb.consent")
    let evicted = client.lines.compactMap { UInt64(member("count", of: $0)) }.reduce(0, +)
    #expect(evicted == 43)
    #expect(client.track("after") == .dropped(.optedOut))
    _ = client.core.setConsent(analytics: true, ads: false)
    guard case .stored = client.track("again") else { return #expect(Bool(false), "consent was given again") }
}

@Test func `a purge takes what waits in memory`() throws {
    let client = try smallClient()
    client.disk.setFaults { _ in .error(Errno.noSpace) }
    for _ in 0..<3 { client.track("held") }
    #expect(throws: WaybillError.self) { try client.core.purge() }
    client.disk.clearFaults()
    try client.core.purge()
    client.track("after")
    #expect(client.names("") == ["after"])
    #expect(client.core.counters.dropped(.purged) == 3)
}

@Test func `what waits is counted by events, segments and bytes`() throws {
    let client = try smallClient(byteCountMax: 1 << 20)
    client.fill(0..<40)
    let usage = try client.waybill.usage()
    #expect(usage.unacknowledgedCount == 40)
    #expect(usage.byteCount == client.byteCount)
    #expect(usage.segmentCount == client.disk.names(in: "/spool").count { $0.hasSuffix(".ndjson") })
    let gone = try #require(client.disk.names(in: "/spool").first { $0.hasSuffix(".ndjson") })
    try client.disk.unlink("/spool/\(gone)")
    #expect(try client.waybill.usage().unacknowledgedCount < 40)
}

@Test func `lines gathered in memory are written together, and by a synchronization`() throws {
    let client = try Client(adjusting: { $0.durability = .memory })
    #expect(client.track("a") == .held)
    client.clock.advance(milliseconds: 999)
    #expect(client.track("b") == .held)
    #expect(client.lines.isEmpty)
    client.clock.advance(milliseconds: 1)
    #expect(client.track("c") == .held)
    #expect(client.members("name") == ["\"a\"", "\"b\"", "\"c\""])
    #expect(client.members("seq") == ["1", "2", "3"])
    client.track("d")
    try client.core.synchronize()
    #expect(client.members("name").last == "\"d\"")
    for index in 0..<400 { client.track("e\(index)") }
    #expect(client.lines.count > 100)
    client.core.enter(.background)
    #expect(client.members("seq") == (1...404).map { "\($0)" })
    #expect(client.core.counters.stored == 404)
}

@Test func `a client that ends writes what it gathered`() throws {
    let disk = FaultyFiles()
    do {
        let client = try Client(on: disk, adjusting: { $0.durability = .memory })
        client.track("a")
    }
    let next = try Client(on: disk, seed: 2)
    #expect(next.members("name") == ["\"a\""])
}

@Test func `events survive a power cut an interval after they were stored`() throws {
    let client = try Client(adjusting: { $0.durability = .power(every: .milliseconds(1)) })
    client.track("a")
    let name = try #require(client.disk.names(in: "/spool").first { $0.hasSuffix(".ndjson") })
    let patience = POSIXClock().monotonicTime() + .seconds(30)
    while client.disk.durableByteCount(of: "/spool/\(name)") == 0, POSIXClock().monotonicTime() < patience {}
    #expect(client.disk.durableByteCount(of: "/spool/\(name)") == client.disk.bytes(of: "/spool/\(name)")?.count)
}

@Test func `in the background no segment is locked`() throws {
    let client = try Client()
    client.track("a")
    let isLocked = { client.disk.names(in: "/spool").contains { client.disk.isLocked("/spool/\($0)") } }
    #expect(isLocked())
    client.core.enter(.background)
    #expect(!isLocked())
    client.core.enter(.foreground)
    #expect(client.track("b") == .stored(seq: 2))
    #expect(client.members("seq") == ["1", "2"])
}

@Test func `processes that start at the same time share one install`() throws {
    let disk = FaultyFiles()
    let anonymous = Lock<[String]>([])
    let workers = (1...8).map { seed in
        Worker(name: "starter") {
            guard let client = try? Client(on: disk, seed: UInt64(seed)) else { return }
            client.track("a")
            anonymous.withLock { $0.append(client.lines.first.map { member("anon", of: $0) } ?? "") }
        }
    }
    for worker in workers { worker.join() }
    let last = try Client(on: disk, seed: 9)
    #expect(Set(last.members("anon")).count == 1)
    #expect(Set(last.members("session_n")) == ["1"] && Set(last.members("session")).count == 1)
}

@Test func `a spool holds one environment`() throws {
    let client = try Client()
    client.track("a")
    let refused = #expect(throws: WaybillError.self) {
        try Client(on: client.disk, seed: 2, adjusting: { $0.environment = .dev })
    }
    #expect(
        refused?.description
            == "configuration: the spool /spool holds events of prod; give dev its own folder")
    let configuration = WaybillClient.Configuration(
        spoolsIn: "/var/spool/shop", environment: .dev, bundle: "b", version: "1", build: "1")
    #expect(configuration.spool == "/var/spool/shop/dev")
}

@Test func `segments grow old in a process that runs for long, too`() throws {
    let disk = FaultyFiles()
    let clock = ManualClock()
    let old = try smallClient(on: disk, seed: 1, clock: clock, byteCountMax: .max)
    old.fill(0..<40)
    let runs = try smallClient(on: disk, seed: 2, clock: clock, byteCountMax: .max)
    for day in 1...3 {
        clock.advance(milliseconds: 86_400_000)
        disk.memory.now = clock.wallTime().milliseconds * 1_000_000
        // Another process bears out what time it is.
        old.fill(day * 1000..<day * 1000 + 1)
        runs.fill(day * 1000..<day * 1000 + 20)
    }
    #expect(runs.core.counters.evicted > 20)
}

@Test func `the quota holds for events that only synchronizations write`() throws {
    let client = try Client(
        segmentByteCountMax: 10_000,
        adjusting: { configuration in
            configuration.durability = .memory
            configuration.quota.byteCountMax = 20_000
        })
    for index in 0..<300 {
        client.fill(index..<index + 1)
        try client.core.synchronize()
    }
    #expect(client.byteCount < 40_000)
    #expect(client.core.counters.evicted > 0)
}

@Test func `what was written first goes first, whichever process wrote it`() throws {
    let disk = FaultyFiles()
    let clock = ManualClock()
    // The server has the older name, the job the older lines.
    let server = try smallClient(on: disk, seed: 1, clock: clock, byteCountMax: .max)
    clock.advance(milliseconds: 1000)
    let job = try smallClient(on: disk, seed: 2, clock: clock, byteCountMax: .max)
    job.fill(1000..<1020)
    clock.advance(milliseconds: 86_400_000)
    disk.memory.now = clock.wallTime().milliseconds * 1_000_000
    server.fill(0..<60)
    clock.advance(milliseconds: 1000)
    let next = try smallClient(on: disk, seed: 3, clock: clock, byteCountMax: 60_000, ageMax: .seconds(864_000))
    #expect(next.core.counters.evicted > 0)
    let left = next.names("e")
    #expect(left.filter { $0.count == 5 }.count < 20)
    #expect(left.contains("e0"))
}

@Test func `a clock beyond any calendar ends nothing`() throws {
    let disk = FaultyFiles()
    try smallClient(on: disk, seed: 1).fill(0..<40)
    let clock = ManualClock()
    // The year 2269 is beyond what 64 bits of nanoseconds hold.
    clock.jump(milliseconds: 9_450_000_000_000 - clock.wallTime().milliseconds)
    disk.memory.now = .max
    let client = try Client(on: disk, seed: 2, clock: clock)
    #expect(client.track("a") == .stored(seq: 1))
}
