import Testing

@testable import Waybill
@testable import WaybillEvent

/// Has no form in an event: it encodes itself without end.
private struct Endless: Encodable {
    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self)
    }
}

private struct Failing: Encodable {
    struct NoConnection: Error {}

    func encode(to encoder: any Encoder) throws { throw NoConnection() }
}

private struct Booked: ActionEvent, Encodable {
    let room: String
    let at = Endless()
    let guest = Failing()
    var name: String { "booked" }
}

@Test func `a value that cannot be stored is counted each time and reported once, without the value`() throws {
    let client = try Client()
    for room in ["a", "b", "c"] { client.track(Booked(room: room)) }
    #expect(client.members("name") == ["\"wb.field\"", "\"wb.field\"", "\"booked\"", "\"booked\"", "\"booked\""])
    #expect(client.members("kind").prefix(3) == ["\"meta\"", "\"meta\"", "\"action\""])
    #expect(client.members("seq") == ["1", "2", "3", "4", "5"])
    #expect(client.lines[0].contains(#""data":{"event":"booked","field":"at","type":""#))
    #expect(client.lines[1].contains(#""field":"guest""#) && client.lines[1].contains("NoConnection"))
    #expect(client.lines[2].contains(#""data":{"room":"a"}"#))
    let repairs = client.core.counters.repairs
    #expect(repairs.refused == 3)
    #expect(repairs.failed == 3)
}

@Test func `no more than 32 kinds of values are reported`() throws {
    let client = try Client()
    for index in 0..<100 {
        _ = client.waybill.track(Named(name: "e\(index)"))
    }
    #expect(client.members("name").count { $0 == "\"wb.field\"" } == 32)
    #expect(client.core.counters.repairs.refused == 100)
}

private struct Named: Event, Encodable {
    let name: String
    let at = Endless()
}

@Test func `nothing is reported of an event without consent`() throws {
    let client = try Client()
    _ = client.core.setConsent(analytics: false, ads: false)
    client.track(Booked(room: "a"))
    #expect(client.members("name") == ["\"wb.consent\""])
}

@Test func `a fault is reported once for each event, field and type, and only the first 32`() {
    var reported = ReportedFaults()
    func isNew(_ event: String, _ field: String, _ type: String) -> Bool {
        reported.insert(FieldFault(field: field, type: type, remedy: ""), of: event)
    }
    #expect(isNew("a", "x", "T") && isNew("b", "x", "T") && isNew("a", "y", "T") && isNew("a", "x", "U"))
    #expect(!isNew("a", "x", "T") && !isNew("a", "x", "U"))
    #expect((0..<100).count { isNew("c\($0)", "x", "T") } == 28)
}
