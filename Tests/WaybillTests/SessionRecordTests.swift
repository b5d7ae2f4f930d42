import Testing
import Waybill
import WaybillEvent
import WaybillSystem
import WaybillTestSupport
import WaybillTesting

private let minute: Int64 = 60_000

/// The session's number and id in each line, as one text.
private func sessions(_ client: Client) -> [String] {
    zip(client.members("session_n"), client.members("session")).map { "\($0) \($1)" }
}

@Test func `a start within half an hour of the last event continues the session`() throws {
    let disk = FaultyFiles()
    let clock = ManualClock()
    do {
        let first = try Client(on: disk, clock: clock)
        clock.advance(milliseconds: 10 * minute)
        first.track("a")
    }
    clock.advance(milliseconds: 29 * minute)
    let second = try Client(on: disk, seed: 2, clock: clock)
    second.track("b")
    #expect(Set(sessions(second)).count == 1 && Set(second.members("writer")).count == 2)
    clock.advance(milliseconds: 30 * minute)
    let third = try Client(on: disk, seed: 3, clock: clock)
    third.track("c")
    #expect(Set(sessions(third)).count == 2)
    #expect(third.members("session_n").sorted() == ["1", "1", "2"])
}

@Test func `a process that was killed left a record that is about a minute old`() throws {
    let disk = FaultyFiles()
    let clock = ManualClock()
    let killed = try Client(on: disk, clock: clock)
    for _ in 0..<600 {
        clock.advance(milliseconds: 1000)
        killed.track("a")
    }
    // Still there, and not asked: as if it had been killed.
    clock.advance(milliseconds: 28 * minute)
    let next = try Client(on: disk, seed: 2, clock: clock)
    next.track("b")
    #expect(Set(sessions(next)).count == 1)
    withExtendedLifetime(killed) {}
}

@Test func `sessions that begin in a process are continued by the next`() throws {
    let disk = FaultyFiles()
    let clock = ManualClock()
    do {
        let first = try Client(on: disk, clock: clock)
        first.track("a")
        clock.advance(milliseconds: 31 * minute)
        first.track("b")
    }
    let second = try Client(on: disk, seed: 2, clock: clock)
    second.track("c")
    #expect(second.members("session_n").sorted() == ["1", "2", "2"])
    #expect(Set(sessions(second)).count == 2)
}

@Test func `a second start syncs nothing, unless the app is another version`() throws {
    let disk = FaultyFiles()
    let clock = ManualClock()
    do { try Client(on: disk, clock: clock).track("a") }
    let syncs = Monitor(0)
    disk.setFaults { call in
        if call.verb == .synchronize || call.verb == .synchronizeDirectory { syncs.update { $0 += 1 } }
        return nil
    }
    let second = try Client(on: disk, seed: 2, clock: clock)
    second.track("b")
    #expect(syncs.withLock { $0 } == 0)
    _ = try Client(on: disk, seed: 3, clock: clock, adjusting: { $0.build = "119" })
    #expect(syncs.withLock { $0 } == 2)
}

@Test func `a reset ends the session for the next start too`() throws {
    let disk = FaultyFiles()
    let first = try Client(on: disk)
    first.track("a")
    try first.core.reset()
    first.track("b")
    let second = try Client(on: disk, seed: 2)
    second.track("c")
    let byName = Dictionary(zip(second.members("name"), sessions(second))) { $1 }
    #expect(byName["\"b\""] == byName["\"c\""] && byName["\"a\""] != byName["\"b\""])
}

@Test(arguments: [
    "", "{}", "{\"v\":1,\"anon\":\"x\",\"session\":\"\",\"session_n\":1,\"ts\":\"2025-03-01T09:14:15.926Z\"}\n",
    "\u{0}",
    "{\"v\":1,\"anon\":\"b5372db0-c21e-41e4-8dfc-aa07a5b093db\",\"session\":\"019550fb-32b4-7000-8000-000000000001\",\"ses",
])
func `a damaged record begins a session`(text: String) throws {
    let disk = FaultyFiles()
    do { try Client(on: disk).track("a") }
    disk.place("/spool/session.json", Array(text.utf8))
    let next = try Client(on: disk, seed: 2)
    #expect(next.track("b") == .stored(seq: 1))
    #expect(next.core.installOrigin == .continued)
    #expect(Set(sessions(next)).count == 2)
}

@Test func `a clock that was set back or far forward begins a session`() throws {
    for jump in [-31 * minute, 31 * minute] {
        let disk = FaultyFiles()
        let clock = ManualClock()
        do { try Client(on: disk, clock: clock).track("a") }
        clock.jump(milliseconds: jump)
        let next = try Client(on: disk, seed: 2, clock: clock)
        next.track("b")
        #expect(Set(sessions(next)).count == 2)
    }
}

@Test func `a user who withdraws consent leaves no record of the session after a purge`() throws {
    let client = try Client()
    client.track("a")
    #expect(client.disk.names(in: "/spool").contains("session.json"))
    _ = client.core.setConsent(analytics: false, ads: false)
    try client.core.purge()
    client.core.enter(.background)
    #expect(!client.disk.names(in: "/spool").contains("session.json"))
}

@Test func `a disk that refuses the record costs the session and nothing else`() throws {
    let disk = FaultyFiles()
    do {
        let client = try Client(on: disk)
        disk.setFaults { $0.path.contains("session.json") ? .error(Errno.noSpace) : nil }
        client.clock.advance(milliseconds: 2 * minute)
        #expect(client.track("a") == .stored(seq: 1))
        #expect(client.core.counters.installFailures == 0 && client.core.counters.sessionFailures == 1)
    }
    disk.clearFaults()
    #expect(try Client(on: disk, seed: 2).track("b") == .stored(seq: 1))
}
