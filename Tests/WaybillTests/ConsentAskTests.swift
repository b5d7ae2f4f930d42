import Testing
import Waybill
import WaybillEvent
import WaybillSystem
import WaybillTestSupport
import WaybillTesting

private func asking(
    on disk: FaultyFiles = FaultyFiles(), seed: UInt64 = 1, _ consent: WaybillClient.ConsentDefault = .ask,
    adjusting adjust: (inout WaybillClient.Configuration) -> Void = { _ in }
) throws -> Client {
    try Client(
        on: disk, seed: seed,
        adjusting: { configuration in
            configuration.consent = consent
            adjust(&configuration)
        })
}

@Test func `until the user has answered nothing about the user is on the disk`() throws {
    let client = try asking(adjusting: { $0.lifecycle = .recorded })
    #expect(client.track("a") == .held)
    client.core.setUser("alice", traits: ["tier": "P"])
    client.clock.advance(milliseconds: 40 * 60_000)
    client.track("in a later session")
    try client.core.synchronize()
    client.core.enter(.background)
    #expect(client.disk.names(in: "/spool") == ["install.lock"])
    #expect(client.core.counters.stored == 0 && client.core.counters.heldCount == 6)
    #expect(client.core.counters.installFailures == 0)
}

@Test func `what was held is stored with its own times when the user agrees`() throws {
    let client = try asking()
    let witness = ObservedNames()
    let token = client.core.observe(.all(witness))
    client.track("a")
    client.clock.advance(milliseconds: 5000)
    client.screen("Home")
    client.clock.advance(milliseconds: 5000)
    token.drain()
    #expect(witness.names.isEmpty)
    #expect(client.core.setConsent(analytics: true, ads: false) == .stored(seq: 3))
    #expect(client.track("b") == .stored(seq: 4))
    #expect(client.members("name") == ["\"a\"", "\"screen_view\"", "\"wb.consent\"", "\"b\""])
    #expect(client.members("up") == ["0", "5000", "10000", "10000"])
    #expect(client.members("seq") == ["1", "2", "3", "4"])
    #expect(client.lines.map { $0.contains("\"consent\":{") } == [false, false, true, true])
    token.drain()
    #expect(witness.names == ["a", "screen_view", "wb.consent", "b"])
    let next = try asking(on: client.disk, seed: 2)
    #expect(next.track("c") == .stored(seq: 1))
    #expect(Set(next.members("anon")).count == 1)
}

@Test func `what was held is dropped and counted when the user refuses`() throws {
    let client = try asking()
    client.track("a")
    client.track("b")
    #expect(client.core.setConsent(analytics: false, ads: false) == .stored(seq: 1))
    #expect(client.core.counters.dropped(.optedOut) == 2 && client.core.counters.heldCount == 0)
    #expect(client.track("c") == .dropped(.optedOut))
    #expect(client.members("name") == ["\"wb.consent\""])
    #expect(!client.disk.names(in: "/spool").contains("session.json"))
    #expect(try asking(on: client.disk, seed: 2).track("d") == .dropped(.optedOut))
}

@Test func `an answer never given leaves nothing, and the next start asks again`() throws {
    let disk = FaultyFiles()
    do { try asking(on: disk, adjusting: { $0.lifecycle = .recorded }).track("lost") }
    let client = try asking(on: disk, seed: 2, adjusting: { $0.lifecycle = .recorded })
    #expect(client.core.installOrigin == .created)
    _ = client.core.setConsent(analytics: true, ads: true)
    #expect(client.members("name") == ["\"app_installed\"", "\"app_opened\"", "\"wb.consent\""])
}

@Test func `beyond what is held for an answer the oldest events are dropped, and reported once it is given`() throws {
    let client = try asking()
    let filler = String(repeating: "x", count: 10_000)
    for index in 0..<40 { client.track("e\(index)") { $0.put("filler", filler) } }
    let dropped = client.core.counters.dropped(.unanswered)
    #expect(dropped > 0 && dropped + UInt64(client.core.counters.heldCount) == 40)
    _ = client.core.setConsent(analytics: true, ads: false)
    client.track("after")
    let report = try #require(client.lines.first { $0.contains("\"wb.dropped\"") })
    #expect(member("unanswered", of: report) == "\(dropped)")
    #expect(client.members("name").contains("\"e39\"") && !client.members("name").contains("\"e0\""))
    #expect(Set(client.members("seq")).count == client.lines.count)
}

@Test func `an answer on a full disk is kept, and what was held is stored once there is room`() throws {
    let client = try asking()
    client.track("a")
    client.disk.setFaults { _ in .error(Errno.noSpace) }
    #expect(client.core.setConsent(analytics: true, ads: false) == .held)
    client.disk.clearFaults()
    client.clock.advance(milliseconds: 11_000)
    client.track("b")
    #expect(client.members("name") == ["\"a\"", "\"wb.consent\"", "\"b\""])
    #expect(try asking(on: client.disk, seed: 2).core.consent == Consent(analytics: true, ads: false))
}

@Test func `an app may store nothing unless the user has agreed`() throws {
    let client = try asking(.denied)
    #expect(client.track("a") == .dropped(.optedOut))
    #expect(client.disk.names(in: "/spool") == ["install.lock"])
    _ = client.core.setConsent(analytics: true, ads: false)
    #expect(client.track("b") == .stored(seq: 2))
}

@Test func `an install from before the question says nothing new of the user until the answer`() throws {
    let disk = FaultyFiles()
    do { try asking(on: disk, .given).track("a") }
    let names = disk.names(in: "/spool").filter { $0.hasSuffix(".ndjson") }
    let session = disk.bytes(of: "/spool/session.json")
    let client = try asking(on: disk, seed: 2)
    client.clock.advance(milliseconds: 5 * 60_000)
    #expect(client.track("b") == .held)
    client.core.enter(.background)
    #expect(disk.names(in: "/spool").filter { $0.hasSuffix(".ndjson") } == names)
    #expect(disk.bytes(of: "/spool/session.json") == session)
}

@Test func `a purge drops what is held for an answer`() throws {
    let client = try asking()
    client.track("a")
    try client.core.purge()
    #expect(client.core.counters.dropped(.purged) == 1)
    _ = client.core.setConsent(analytics: true, ads: false)
    #expect(client.members("name") == ["\"wb.consent\""])
}

@Test func `named categories of consent are in events, and remembered`() throws {
    let client = try Client()
    let waybill = client.waybill
    waybill.setConsent(analytics: true, ads: false, categories: ["personalization": true, "chat": false])
    client.track("a")
    let member = #""consent":{"analytics":true,"ads":false,"chat":false,"personalization":true}"#
    #expect(client.lines.allSatisfy { $0.contains(member) })
    #expect(client.lines[0].contains(#""data":{"analytics":true,"ads":false,"chat":false,"personalization":true}"#))
    let next = try Client(on: client.disk, seed: 2)
    #expect(
        next.core.consent == Consent(analytics: true, ads: false, categories: ["personalization": true, "chat": false]))
    next.track("b")
    #expect(next.lines.allSatisfy { $0.contains(member) })
}

@Test func `categories that cannot be written are counted, and the rest of the answer holds`() throws {
    let client = try Client()
    var categories = ["": true, "ads": true, String(repeating: "n", count: 65): true]
    for index in 10..<50 { categories["c\(index)"] = false }
    client.waybill.setConsent(analytics: false, ads: false, categories: categories)
    #expect(client.core.counters.omittedCategories == 11)
    #expect(client.lines[0].contains(#""ads":false,"c10":false,"#) && client.lines[0].contains(#""c41":false}"#))
    #expect(client.track("a") == .dropped(.optedOut))
}

/// Keeps the names of what it sees.
private final class ObservedNames: EventObserver {
    private let seen = Monitor<[String]>([])

    var names: [String] { self.seen.withLock { $0 } }

    func eventStored(_ event: EventView) { self.seen.update { $0.append(event.name) } }
}
