import Testing
import Waybill
import WaybillTesting

private struct AddedToCart: ActionEvent {
    let product: String
    var count: Int? = 1
    var name: String { "added_to_cart" }

    func encode(into fields: inout Fields) {
        fields.put("product", self.product)
        fields.put("count", self.count)
    }
}

/// What an app developer would test.
private struct Cart {
    let waybill: Waybill

    func add(_ product: String) {
        self.waybill.track(AddedToCart(product: product)) { $0.put("source", "list") }
    }
}

@Test func `an app's test sees what the app tracked`() throws {
    let recorder = try Recorder()
    let cart = Cart(waybill: recorder.waybill)
    cart.add("toaster \"2\"")
    cart.add("kettle")
    try recorder.expectTracked(AddedToCart(product: "toaster \"2\""), times: 1)
    try recorder.expectTracked(AddedToCart(product: "kettle", count: nil))
    try recorder.expectTracked("added_to_cart", ["source": "list", "count": 1], times: 2)
    try recorder.expectNotTracked("purchase")
    #expect(recorder.names == ["added_to_cart", "added_to_cart"])
    #expect(recorder.events.first?["bundle"] == "com.example.test")
}

@Test func `a failed expectation says what was tracked instead`() throws {
    let recorder = try Recorder()
    let nothing = #expect(throws: ExpectationFailure.self) { try recorder.expectTracked("a") }
    #expect(nothing?.description == "a() was to be tracked at least once, and was 0 times; tracked was nothing")
    Cart(waybill: recorder.waybill).add("kettle")
    let other = #expect(throws: ExpectationFailure.self) {
        try recorder.expectTracked(AddedToCart(product: "toaster"), times: 2)
    }
    #expect(
        other?.description == """
            added_to_cart(product: "toaster", count: 1) was to be tracked 2 times, and was 0 times; tracked:
              1. added_to_cart(product: "kettle", count: 1, source: "list")
            """)
    #expect(throws: ExpectationFailure.self) { try recorder.expectNotTracked("added_to_cart") }
}

@Test func `recorders know nothing of each other, and are the same in every run`() throws {
    let first = try Recorder()
    let second = try Recorder()
    first.waybill.track("a")
    #expect(second.events.isEmpty)
    second.waybill.track("a")
    #expect(first.events.map(\.line) == second.events.map(\.line))
}

@Test func `a test moves the clock and fills the disk`() throws {
    let recorder = try Recorder { $0.environment = .prod }
    recorder.waybill.screen("Home")
    recorder.advance(by: .seconds(1800))
    recorder.fillDisk()
    #expect(recorder.waybill.track("held") == .held)
    recorder.freeDisk()
    recorder.waybill.screen("Cart")
    #expect(recorder.names == ["screen_view", "held", "screen_view"])
    #expect(recorder.events.map { $0["session_n"] } == ["1", "2", "2"])
    #expect(recorder.events.last?["prev_ms"] == "1800000")
    #expect(recorder.events.last?["env"] == "prod")
}
