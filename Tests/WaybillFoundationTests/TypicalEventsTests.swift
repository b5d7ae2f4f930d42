import Foundation
import Testing
import WaybillFoundation
import WaybillTesting

// The declarations and calls of a shop's five typical events.
struct HomeScreen: ScreenEvent, FieldlessEvent {}
struct ProductScreen: ScreenEvent, Encodable {
    let productID: String
    var screen: ScreenRef? { ScreenRef("Product", id: productID) }
}
struct Item: Encodable { let id: String, name: String, price: Decimal }
struct AddedToCart: ActionEvent, Encodable {
    let item: Item, quantity: Int, coupon: String?
    var name: String { "add_to_cart" }
}
struct OrderPlaced: ActionEvent, Encodable {
    let orderID: String, total: Decimal, currency: String, items: [Item], deliveryAt: Date?
    var name: String { "order_placed" }
}
enum Method: String, Encodable { case mail, apple }
struct SignedUp: ActionEvent, Encodable {
    let method: Method, referrer: URL?
    var name: String { "sign_up" }
}
private func trackAll(_ waybill: WaybillClient, _ toaster: Item) {
    waybill.track(HomeScreen())
    waybill.track(ProductScreen(productID: toaster.id))
    waybill.track(AddedToCart(item: toaster, quantity: 2, coupon: nil))
    waybill.track(OrderPlaced(orderID: "o-1", total: 80, currency: "EUR", items: [toaster], deliveryAt: nil))
    waybill.track(SignedUp(method: .apple, referrer: nil))
}
// The end.

@Test func `five typical events take at most 25 lines`() throws {
    let text = try String(contentsOf: URL(filePath: #filePath), encoding: .utf8)
    let lines = text.split(separator: "\n").map(String.init)
    let start = try #require(lines.firstIndex { $0.hasPrefix("// The declarations") })
    let end = try #require(lines.firstIndex { $0.hasPrefix("// The end") })
    // The function around the calls is the test's.
    let code = lines[(start + 1)..<end].filter { !$0.hasPrefix("private func trackAll") }.dropLast()
    #expect(code.count <= 25)
    #expect(code.count { $0.contains("waybill.track(") } == 5)
}

@Test func `five typical events are stored with their fields`() throws {
    let recorder = try Recorder()
    // A literal would go through a double, and have other digits.
    let price = try #require(Decimal(string: "39.9"))
    trackAll(recorder.waybill, Item(id: "p-1", name: "토스터", price: price))
    #expect(recorder.names == ["screen_view", "screen_view", "add_to_cart", "order_placed", "sign_up"])
    let fields = recorder.events.map { event in event.fields.map { "\($0.name)=\($0.json)" } }
    let item = #"{"id":"p-1","name":"토스터","price":39.9}"#
    #expect(fields[0] == [])
    #expect(fields[1] == ["productID=\"p-1\""])
    #expect(fields[2] == ["item=\(item)", "quantity=2"])
    #expect(fields[3] == ["orderID=\"o-1\"", "total=80", "currency=\"EUR\"", "items=[\(item)]"])
    #expect(fields[4] == ["method=\"apple\""])
    #expect(recorder.waybill.counters.repairs == FieldRepairs())
}
