import Testing
import Waybill
import WaybillEvent

private struct Unwanted: Event {
    var name: String { "unwanted" }
    func encode(into fields: inout Fields) { Issue.record("a client that is switched off encodes events") }
}

private struct Silent: EventObserver {
    func eventStored(_ event: EventView) { Issue.record("a client that is switched off stores events") }
}

@Test func `a client that is switched off stores nothing, and counts what it was given`() throws {
    let waybill = WaybillClient.disabled
    #expect(waybill.track(Unwanted()) == .dropped(.disabled))
    #expect(waybill.track("a", ["b": 1]) == .dropped(.disabled))
    #expect(waybill.screen("Home") == .dropped(.disabled))
    #expect(waybill.setUser("u-1", traits: ["tier": "PREMIUM"]) == .dropped(.disabled))
    #expect(waybill.setConsent(analytics: true, ads: false) == .dropped(.disabled))
    #expect(waybill.counters.dropped(.disabled) == 5)
    #expect(waybill.counters.description == "0 stored, 5 dropped (disabled 5), 0 held, 0 evicted")
    let usage = try waybill.usage()
    #expect(usage.byteCount == 0 && usage.segmentCount == 0 && usage.unacknowledgedCount == 0)
}

@Test func `every call of a client that is switched off works`() throws {
    let waybill = WaybillClient.disabled
    #expect(waybill.register(["plan": "pro"]))
    waybill.unregister("plan")
    #expect(waybill.setVendorID("x", for: .ga4))
    let token = waybill.observe(.all(Silent()))
    waybill.track("a")
    token.drain()
    waybill.enter(.background)
    try waybill.synchronize()
    try waybill.purge()
    waybill.setUser("u-1")
    waybill.setConsent(analytics: true, ads: true)
    #expect(waybill.userID == "u-1" && waybill.consent == Consent(analytics: true, ads: true))
    try waybill.reset()
    #expect(waybill.userID == nil && waybill.installOrigin == .created)
    #expect(waybill.anonymousID == waybill.sessionID)
}

@Test func `an app whose client cannot be created continues with one that is switched off`() {
    let configuration = WaybillClient.Configuration(
        spool: "/dev/null", environment: .dev, bundle: "com.example.shop", version: "1", build: "1")
    let waybill = (try? WaybillClient(configuration)) ?? .disabled
    #expect(waybill.track("a") == .dropped(.disabled))
}
