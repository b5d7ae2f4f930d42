import Foundation
import Testing
import WaybillFoundation
import WaybillTesting

/// What Foundation adds, encoded by hand and by the compiler.
private struct Booked: ActionEvent, Encodable {
    let at: Date
    let until: Date?
    let page: URL
    let id: UUID
    let price: Decimal
    let scale: CGFloat
    let dates: [Date]
    let prices: [String: Decimal]
    let room: Room

    var name: String { "booked" }

    struct Room: Encodable {
        let id: UUID
        let free: [Date?]
    }
}

extension Booked {
    /// The same as the compiler's encoding.
    func put(into fields: inout Fields) {
        fields.put("at", self.at)
        fields.put("until", self.until)
        fields.put("page", self.page)
        fields.put("id", self.id)
        fields.put("price", self.price)
        fields.put("scale", self.scale)
        fields.put("dates", self.dates)
        fields.put("prices", self.prices)
        fields.put("room") { room in
            room.put("id", self.room.id)
            room.put("free", self.room.free)
        }
    }
}

private func fields(_ body: (inout Fields) -> Void) throws -> [String] {
    let recorder = try Recorder()
    recorder.waybill.track("e", adding: body)
    return try #require(recorder.events.last).fields.map(\.json)
}

@Test func `Foundation's types have the same form in an Encodable event as by hand`() throws {
    let recorder = try Recorder()
    let event = Booked(
        at: Date(timeIntervalSince1970: 1_740_820_461.403), until: nil,
        page: try #require(URL(string: "https://example.com/a?b=%20c")),
        id: try #require(UUID(uuidString: "0195505E-AAAA-7000-8000-0000000000AA")),
        price: try #require(Decimal(string: "39.90")), scale: 1.5,
        // Foundation counts that one in the Julian calendar, from 0001-01-01.
        dates: [.distantPast, Date(timeIntervalSince1970: 0)],
        prices: ["b": 2, "a": try #require(Decimal(string: "0.1"))],
        room: Booked.Room(id: UUID(), free: [nil, Date(timeIntervalSince1970: -1)]))
    recorder.waybill.track(event)
    recorder.waybill.track("booked", .action, adding: event.put)
    let events = recorder.events
    #expect(events.map(\.fields).first == events.map(\.fields).last)
    #expect(
        events[0].fields.map(\.json).prefix(7) == [
            #""2025-03-01T09:14:21.403Z""#, #""https://example.com/a?b=%20c""#,
            #""0195505e-aaaa-7000-8000-0000000000aa""#, "39.9", "1.5",
            #"["0000-12-30T00:00:00.000Z","1970-01-01T00:00:00.000Z"]"#, #"{"a":0.1,"b":2}"#,
        ])
    #expect(events[0].fields.last?.json.hasSuffix(#""free":["1969-12-31T23:59:59.000Z"]}"#) == true)
    #expect(recorder.waybill.counters.repairs == FieldRepairs())
}

@Test(arguments: [
    ("0", "0"), ("39900", "39900"), ("-0.5", "-0.5"), ("0.000000000001234", "0.000000000001234"),
    ("123456789012345", "123456789012345"), ("1234567890123456", "\"1234567890123456\""),
    ("0.1234567890123456", "\"0.1234567890123456\""), ("12345678901234567890.12", "\"12345678901234567890.12\""),
    ("1e-60", "\"0.\(String(repeating: "0", count: 59))1\""),
])
func `a decimal is a number as long as a reader with doubles keeps its digits`(text: String, json: String) throws {
    let decimal = try #require(Decimal(string: text))
    #expect(try fields { $0.put("n", decimal) } == [json])
    if !json.hasPrefix("\"") { #expect(Decimal(string: "\(try #require(Double(json)))") == decimal) }
}

@Test(arguments: [
    (-62_167_219_200.0, "0000-01-01T00:00:00.000Z"), (-62_162_035_200, "0000-03-01T00:00:00.000Z"),
    (-2_203_977_600, "1900-02-28T00:00:00.000Z"), (-2_203_891_200, "1900-03-01T00:00:00.000Z"),
    (-0.001, "1969-12-31T23:59:59.999Z"), (0.0004, "1970-01-01T00:00:00.000Z"),
    (951_782_400.5, "2000-02-29T00:00:00.500Z"), (253_402_300_799.999, "9999-12-31T23:59:59.999Z"),
])
func `a date is its time in UTC to the nearest millisecond`(seconds: Double, text: String) throws {
    #expect(try fields { $0.put("at", Date(timeIntervalSince1970: seconds)) } == ["\"\(text)\""])
}

@Test func `dates that the format cannot represent and decimals that are no number are counted`() throws {
    let recorder = try Recorder()
    recorder.waybill.track("e") { fields in
        fields.put("past", Date(timeIntervalSince1970: -62_167_219_201))
        fields.put("future", Date.distantFuture.addingTimeInterval(1e12))
        fields.put("nan", Date(timeIntervalSince1970: .nan))
        fields.put("list", [Date(), Date(timeIntervalSince1970: .infinity)])
        fields.put("price", Decimal.nan)
        fields.put("scale", CGFloat.infinity)
    }
    #expect(recorder.events.last?.fields.isEmpty == true)
    #expect(recorder.waybill.counters.repairs.nonFinite == 6)
}

private struct Attached: Event, Encodable {
    let file: Data
    let name: String
    let title: String
}

@Test func `bytes are refused by name`() throws {
    let recorder = try Recorder()
    recorder.waybill.track(Attached(file: Data([1, 2, 3]), name: "attached", title: "T"))
    #expect(recorder.events.last?.fields.map(\.name) == ["title"])
    #expect(recorder.waybill.counters.repairs.refused == 1)
}
