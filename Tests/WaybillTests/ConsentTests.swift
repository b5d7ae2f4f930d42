import Testing
import Waybill
import WaybillEvent
import WaybillSystem
import WaybillTestSupport
import WaybillTesting

private func isAllowed(on disk: FaultyFiles, clock: ManualClock = ManualClock()) throws -> Bool {
    let client = try Client(on: disk, seed: 99, clock: clock)
    return client.track("later") != .dropped(.optedOut)
}

@Test func `an answer is on the disk when it was given`() throws {
    let disk = FaultyFiles()
    var configuration = Client.configuration()
    configuration.device = .init(os: "Linux")
    // Nothing runs later: as if the process had died in this moment.
    let core = try ClientCore(
        configuration, on: disk, clock: ManualClock(), seed: 1, zone: { _ in 0 }, execute: { _ in })
    _ = core.setConsent(analytics: false, ads: false)
    #expect(try !isAllowed(on: disk))
    _ = core.setConsent(analytics: true, ads: false)
    #expect(try isAllowed(on: disk))
}

@Test func `an answer that a full disk refused is saved once there is room`() throws {
    for recover: (Client) throws -> Void in [
        { $0.track("dropped") }, { try $0.core.synchronize() }, { $0.core.enter(.background) }, { try $0.core.purge() },
    ] {
        let client = try Client()
        client.disk.setFaults { _ in .error(Errno.noSpace) }
        _ = client.core.setConsent(analytics: false, ads: false)
        #expect(client.core.counters.installFailures == 1)
        client.track("too early to try again")
        #expect(client.core.counters.installFailures == 1)
        client.clock.advance(milliseconds: 11_000)
        client.disk.clearFaults()
        try recover(client)
        #expect(try !isAllowed(on: client.disk))
        #expect(client.core.counters.installFailures == 1)
    }
}

@Test func `an answer is saved also where the install could not be read at the start`() throws {
    let disk = FaultyFiles()
    let anonymous = try Client(on: disk).core.identity.anonymous
    disk.setFaults { _ in .error(Errno.inputOutput) }
    let client = try Client(on: disk, seed: 2)
    disk.clearFaults()
    _ = client.core.setConsent(analytics: false, ads: false)
    let next = try Client(on: disk, seed: 3)
    #expect(next.track("a") == .dropped(.optedOut))
    #expect(next.core.identity.anonymous == anonymous)
}

@Test(arguments: [false, true])
func `another process of the spool keeps what the user said here`(isReset: Bool) throws {
    let disk = FaultyFiles()
    let clock = ManualClock()
    let app = try Client(on: disk, seed: 1, clock: clock)
    let widget = try Client(on: disk, seed: 2, clock: clock)
    _ = app.core.setConsent(analytics: false, ads: false)
    clock.advance(milliseconds: 31 * 60_000)
    if isReset { try widget.core.reset() } else { widget.track("in a new session") }
    #expect(try !isAllowed(on: disk))
    // The last answer wins, wherever it was given.
    _ = widget.core.setConsent(analytics: true, ads: true)
    #expect(try isAllowed(on: disk))
}

@Test func `without consent no line says who the user is`() throws {
    let client = try Client()
    _ = client.core.setConsent(analytics: false, ads: false)
    client.core.setUser("alice@example.com", traits: ["tier": "P"])
    client.core.setVendorID("0a1b2c3d", for: .ga4)
    _ = client.core.setConsent(analytics: false, ads: true)
    #expect(!client.lines.joined().contains("alice"))
    #expect(!client.lines.joined().contains("0a1b2c3d"))
    _ = client.core.setConsent(analytics: true, ads: true)
    client.track("a")
    #expect(member("user", of: client.lines[3]) == "\"alice@example.com\"")
    #expect(client.core.identity.user == "alice@example.com")
    #expect(client.core.consent == Consent(analytics: true, ads: true))
}

@Test func `what the client says of itself is what its events say`() throws {
    let client = try Client()
    let waybill = client.waybill
    #expect(waybill.consent == nil && waybill.userID == nil)
    let traits = ["plan": "pro", "age": "31"]
    waybill.setUser("u-1") { fields in
        for (name, value) in traits.sorted(by: { $0.key < $1.key }) { fields.put(name, value) }
    }
    waybill.setTraits { $0.putNull("age") }
    let lines = client.lines
    #expect(lines[0].contains(#""traits":{"age":"31","plan":"pro"}"#))
    #expect(lines[1].contains(#""traits":{"age":null}"#))
    #expect(lines.map { member("user", of: $0) } == ["\"u-1\"", "\"u-1\""])
    #expect(waybill.userID == "u-1")
    #expect(member("anon", of: lines[1]) == "\"\(waybill.anonymousID)\"")
    #expect(member("session", of: lines[1]) == "\"\(waybill.sessionID)\"")
}

@Test func `an answer that allows is tried again by the events that it allows`() throws {
    let client = try Client()
    client.disk.setFaults { _ in .error(Errno.inputOutput) }
    _ = client.core.setConsent(analytics: true, ads: false)
    #expect(throws: WaybillError.self) { try client.core.synchronize() }
    client.disk.clearFaults()
    client.track("soon")
    let failureCount = client.core.counters.installFailures
    client.clock.advance(milliseconds: 11_000)
    client.track("later")
    #expect(try Client(on: client.disk, seed: 2).core.consent == Consent(analytics: true, ads: false))
    #expect(client.core.counters.installFailures == failureCount)
}

@Test func `an answer that is tried again gives nothing back that was denied meanwhile`() throws {
    let disk = FaultyFiles()
    let app = try Client(on: disk, seed: 1)
    let widget = try Client(on: disk, seed: 2)
    disk.setFaults { _ in .error(Errno.noSpace) }
    _ = app.core.setConsent(analytics: true, ads: true)
    disk.clearFaults()
    _ = widget.core.setConsent(analytics: false, ads: true)
    try app.core.synchronize()
    #expect(try Client(on: disk, seed: 3).core.consent == Consent(analytics: false, ads: true))
    // Asked anew, the user decides.
    _ = app.core.setConsent(analytics: true, ads: true)
    #expect(try Client(on: disk, seed: 4).core.consent == Consent(analytics: true, ads: true))
}

@Test func `an install of another environment is not written over`() throws {
    let disk = FaultyFiles()
    disk.setFaults { _ in .error(Errno.inputOutput) }
    let client = try Client(on: disk, adjusting: { $0.environment = .dev })
    disk.clearFaults()
    _ = try Client(on: disk, seed: 2)
    _ = client.core.setConsent(analytics: false, ads: false)
    #expect(client.core.counters.installFailures == 2)
    #expect(try Client(on: disk, seed: 3).core.consent == nil)
}

@Test func `a client that ends with lines that waited writes them and leaves nothing running`() throws {
    let disk = FaultyFiles()
    do {
        var configuration = Client.configuration()
        configuration.durability = .power(every: .seconds(3600))
        let core = try ClientCore(
            configuration, on: disk, clock: ManualClock(), seed: 1, zone: { _ in 0 },
            execute: { work in _ = Worker(name: "upkeep", work) })
        disk.setFaults { _ in .error(Errno.noSpace) }
        #expect(core.track { $0.take(.event, "a", nil, $1, $2) { _ in } } == .held)
        disk.clearFaults()
    }
    #expect(try Client(on: disk, seed: 2).members("name") == ["\"a\""])
}
