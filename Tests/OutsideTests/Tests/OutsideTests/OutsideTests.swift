import Testing
import Waybill
import WaybillTesting

@testable import outside

@Test func `an event of another package is recorded, and what a provider gets of it`() throws {
    let recorder = try Recorder { configuration in configuration.providers = [.all(.ga4)] }
    let tapped = ItemTapped(item: Item(id: "p-1", price: 39_900), coupon: nil, email: "a@example.com")
    recorder.waybill.track(tapped)
    try recorder.expectTracked("Item Tapped", ["id": "p-1", "price": 39_900], times: 1)
    try recorder.expectNotTracked("list_scroll")
    let delivery = try #require(recorder.events.last?.delivery(to: .ga4))
    #expect(delivery.name == "select_item")
    #expect(delivery.fields.map(\.text) == ["p-1"])
}

@Test func `a full disk holds events, and time begins sessions`() throws {
    let recorder = try Recorder()
    recorder.waybill.track(ShopScreen())
    recorder.fillDisk()
    #expect(recorder.waybill.track(ListScrolled()) == .held)
    recorder.freeDisk()
    recorder.advance(by: .seconds(31 * 60))
    recorder.waybill.track(ListScrolled())
    #expect(recorder.names.suffix(2) == ["list_scroll", "list_scroll"])
    #expect(throws: ExpectationFailure.self) { try recorder.expectTracked("nothing") }
}
