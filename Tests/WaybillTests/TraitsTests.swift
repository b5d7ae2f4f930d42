import Testing
import Waybill
import WaybillEvent
import WaybillTestSupport
import WaybillTesting

@Test func `traits that are set once and added to are these lines byte for byte`() throws {
    let client = try Client()
    let waybill = client.waybill
    waybill.setTraitsOnce(["first_seen": "2025-03-01", "referrer": nil, "plan \"토\"": 3])
    client.clock.advance(milliseconds: 250)
    waybill.setUser("u-8812345")
    waybill.incrementTrait("visits")
    waybill.incrementTraits(["spent": 39.9, "credits": -2, "big": 1 << 53])
    var visitor = Visitor(user: "u-17", anonymous: "b5372db1-c21e")
    visitor.consent = Consent(analytics: true, ads: false)
    waybill.setTraitsOnce(["first_seen": "2025-02-01"], of: visitor)
    waybill.incrementTrait("visits", by: 2, of: visitor)
    waybill.incrementTraits(["a": UInt8(1), "b": Float(0.5)], of: visitor)
    let expected = try vectorLines("traits.ndjson")
    #expect(client.lines == expected)
}

@Test func `traits of a dictionary are sorted`() throws {
    let recorder = try Recorder()
    let counts = ["b": 2, "c": 3, "a": 1]
    let texts: [String: String?] = ["y": nil, "x": "1", "w": "2"]
    recorder.waybill.incrementTraits(counts)
    recorder.waybill.setTraitsOnce(texts)
    #expect(recorder.events[0].traits(.add).map(\.name) == ["a", "b", "c"])
    #expect(recorder.events[1].traits(.setOnce).map(\.name) == ["w", "x"])
}

@Test func `an event changes traits in one way alone, and has no fields`() throws {
    let recorder = try Recorder()
    recorder.waybill.setTraits(["a": 1])
    recorder.waybill.setTraitsOnce(["a": 2])
    recorder.waybill.incrementTrait("a", by: 3)
    recorder.waybill.track("a") { $0.put("a", 4) }
    let events = recorder.events
    #expect(events.map(\.kind) == [.user, .user, .user, .event])
    for change in TraitChange.allCases {
        let values = events.map { $0.traits(change)["a"]?.int }
        switch change {
        case .set: #expect(values == [1, nil, nil, nil])
        case .setOnce: #expect(values == [nil, 2, nil, nil])
        case .add: #expect(values == [nil, nil, 3, nil])
        }
    }
    #expect(events.map { $0.fields["a"]?.int } == [1, nil, nil, 4])
}

@Test func `what is no exact number is not added, and counted`() throws {
    let recorder = try Recorder()
    let waybill = recorder.waybill
    waybill.incrementTrait("nan", by: Double.nan)
    waybill.incrementTraits(["infinite": Double.infinity, "n": 1, "m": Int64.max, "n": 2, "k": UInt64(1) << 54, "j": 3])
    #expect(waybill.counters.repairs.nonFinite == 4)
    #expect(waybill.counters.repairs.duplicate == 1)
    #expect(recorder.events.map { $0.traits(.add).map { "\($0.name)=\($0.json)" } } == [[], ["n=1", "j=3"]])
}

@Test(arguments: [1 << 53, -(1 << 53), 0, 9_007_199_254_740_991])
func `an integer is added with all its digits`(amount: Int) throws {
    let recorder = try Recorder()
    recorder.waybill.incrementTrait("n", by: amount)
    #expect(recorder.events[0].traits(.add)["n"]?.json == "\(amount)")
}

@Test func `without consent no trait is stored, whatever is done to it`() throws {
    let recorder = try Recorder()
    let waybill = recorder.waybill
    waybill.setConsent(analytics: false, ads: false)
    #expect(waybill.setTraitsOnce(["a": 1]) == .dropped(.optedOut))
    #expect(waybill.incrementTrait("a") == .dropped(.optedOut))
    #expect(waybill.incrementTraits(["a": 1]) == .dropped(.optedOut))
    waybill.setConsent(analytics: true, ads: false)
    var refusing = Visitor(user: "u-2")
    refusing.consent = Consent(analytics: false, ads: false)
    #expect(waybill.setTraitsOnce(["a": 1], of: refusing) == .dropped(.optedOut))
    #expect(waybill.incrementTrait("a", of: refusing) == .dropped(.optedOut))
    #expect(waybill.incrementTraits(["a": 1], of: refusing) == .dropped(.optedOut))
    #expect(recorder.names == ["wb.consent", "wb.consent"])
    // The client keeps no traits: the next ones say nothing of those that were dropped.
    waybill.incrementTrait("a", by: 5)
    #expect(recorder.events.last?.traits(.add)["a"] == 5)
}

@Test func `traits wait for the answer, and are dropped with a no`() throws {
    let asking = try Recorder { $0.consent = .ask }
    #expect(asking.waybill.setTraitsOnce(["a": 1]) == .held)
    #expect(asking.waybill.incrementTrait("b") == .held)
    #expect(asking.events.isEmpty)
    asking.waybill.setConsent(analytics: true, ads: false)
    try asking.expectTraits(.setOnce, ["a": 1], times: 1)
    try asking.expectTraits(.add, ["b": 1], times: 1)
    let refused = try Recorder { $0.consent = .ask }
    refused.waybill.incrementTrait("b")
    refused.waybill.setConsent(analytics: false, ads: false)
    #expect(refused.names == ["wb.consent"])
    #expect(refused.waybill.counters.dropped(.optedOut) == 1)
}

@Test func `after a reset traits belong to the new anonymous id`() throws {
    let recorder = try Recorder()
    recorder.waybill.setUser("u-1")
    recorder.waybill.incrementTrait("visits")
    try recorder.waybill.reset()
    recorder.waybill.incrementTrait("visits")
    recorder.waybill.setTraitsOnce(["first_seen": "2025-03-02"])
    let events = recorder.events
    #expect(events.map { $0[member: "user"] } == ["u-1", "u-1", nil, nil])
    #expect(events[2][member: "anon"] == recorder.waybill.anonymousID)
    #expect(Set(events.map { $0[member: "anon"] }).count == 2)
}

@Test func `a filter removes or hashes traits, and a number that is added is removed rather than hashed`() throws {
    let recorder = try Recorder { $0.filters = [.hashing("phone"), .hashing("age"), .removing("email")] }
    recorder.waybill.setTraitsOnce(["phone": "1", "email": "a@example.com", "plan": "pro"])
    recorder.waybill.incrementTraits(["age": 1, "visits": 1])
    let once = recorder.events[0].traits(.setOnce)
    #expect(once.map(\.name) == ["phone", "plan"])
    #expect(once["phone"]?.text.utf8.count == 32)
    #expect(recorder.events[1].traits(.add).map(\.name) == ["visits"])
}

@Test func `a client that is switched off changes no traits`() {
    let waybill = WaybillClient.disabled
    #expect(waybill.setTraitsOnce(["a": 1]) == .dropped(.disabled))
    #expect(waybill.incrementTrait("a") == .dropped(.disabled))
    #expect(waybill.incrementTraits(["a": 1]) == .dropped(.disabled))
}
