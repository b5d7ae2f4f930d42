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

private struct HomeScreen: ScreenEvent, FieldlessEvent {}

private struct LoginScreen: ScreenEvent, FieldlessEvent {}

private struct ProductScreen: ScreenEvent, FieldlessEvent {
    let screen: ScreenRef?

    init(id: String, type: String?) {
        self.screen = ScreenRef("Product", type: type, id: id)
    }
}

/// A screen that the client calls by its event's name.
private struct NamelessScreen: ScreenEvent, FieldlessEvent {
    var name: String { "Settings" }
    var screen: ScreenRef? { nil }
}

/// Not the user's doing, under the name of what is.
private struct CartFilled: FieldlessEvent {
    var name: String { "added_to_cart" }
}

private struct SignedUp: Event {
    let email: String
    var name: String { "sign_up" }
    func encode(into fields: inout Fields) { fields.put("email", private: self.email) }
}

/// What an app developer would test.
private struct Cart {
    let waybill: WaybillClient

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
    #expect(recorder.events.first?[member: "bundle"] == "com.example.test")
}

@Test func `a failed expectation says what was tracked instead`() throws {
    let recorder = try Recorder()
    let nothing = #expect(throws: ExpectationFailure.self) { try recorder.expectTracked("a") }
    #expect(nothing?.description == "expected a() to be tracked at least once, found 0; nothing was tracked")
    Cart(waybill: recorder.waybill).add("kettle")
    let other = #expect(throws: ExpectationFailure.self) {
        try recorder.expectTracked(AddedToCart(product: "toaster"), times: 2)
    }
    #expect(
        other?.description == """
            expected action added_to_cart(product: "toaster", count: 1) to be tracked 2 times, found 0; tracked:
              1. action added_to_cart(product: "kettle", count: 1, source: "list")
            """)
    #expect(throws: ExpectationFailure.self) { try recorder.expectNotTracked("added_to_cart") }
}

@Test func `a screen that was tracked is no other screen`() throws {
    let recorder = try Recorder()
    recorder.waybill.track(LoginScreen())
    try recorder.expectTracked(LoginScreen(), times: 1)
    try recorder.expectTracked(HomeScreen(), times: 0)
    try recorder.expectNotTracked(HomeScreen())
    let failure = #expect(throws: ExpectationFailure.self) { try recorder.expectTracked(HomeScreen(), times: 1) }
    #expect(
        failure?.description == """
            expected screen screen_view() on HomeScreen to be tracked 1 times, found 0; tracked:
              1. screen screen_view() on LoginScreen
            """)
    #expect(throws: ExpectationFailure.self) { try recorder.expectNotTracked(LoginScreen()) }
}

@Test func `a screen is expected with its class and id, and by whichever name the client gives it`() throws {
    let recorder = try Recorder()
    recorder.waybill.track(ProductScreen(id: "1", type: "ProductView"))
    recorder.waybill.track(NamelessScreen())
    try recorder.expectTracked(ProductScreen(id: "1", type: "ProductView"), times: 1)
    try recorder.expectNotTracked(ProductScreen(id: "2", type: "ProductView"))
    try recorder.expectTracked(NamelessScreen(), times: 1)
    let failure = #expect(throws: ExpectationFailure.self) {
        try recorder.expectTracked(ProductScreen(id: "1", type: nil))
    }
    #expect(
        failure?.description == """
            expected screen screen_view() on Product, id 1 to be tracked at least once, found 0; tracked:
              1. screen screen_view() on Product, class ProductView, id 1
              2. screen Settings() on Settings
            """)
}

@Test func `an event of another kind is another event, and one without a screen may be on any`() throws {
    let recorder = try Recorder()
    let cart = Cart(waybill: recorder.waybill)
    recorder.waybill.track(HomeScreen())
    cart.add("kettle")
    try recorder.expectTracked(AddedToCart(product: "kettle"), times: 1)
    try recorder.expectNotTracked(CartFilled())
    recorder.waybill.track(CartFilled())
    try recorder.expectTracked(CartFilled(), times: 1)
    try recorder.expectTracked("added_to_cart", times: 2)
}

@Test func `a recorder sees what would gather in memory`() throws {
    let recorder = try Recorder { $0.durability = .memory }
    #expect(recorder.waybill.track(HomeScreen()) == .stored(seq: 1))
    try recorder.expectTracked(HomeScreen(), times: 1)
    #expect(throws: ExpectationFailure.self) { try recorder.expectNotTracked("screen_view") }
}

@Test func `private values have the same hashes in every recorder, and others after a reset`() throws {
    let first = try Recorder()
    let second = try Recorder()
    for recorder in [first, second] {
        recorder.waybill.track(SignedUp(email: "a@example.com"))
        try recorder.waybill.reset()
        recorder.waybill.track(SignedUp(email: "a@example.com"))
    }
    #expect(first.events.map(\.line) == second.events.map(\.line))
    let hashes = first.events.flatMap { event in event.fields.map(\.text) }
    #expect(Set(hashes).count == 2)
    try first.expectTracked(SignedUp(email: "a@example.com"), times: 1)
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
    #expect(recorder.events.map { $0[member: "session_n"] } == ["1", "2", "2"])
    #expect(recorder.events.last?[member: "prev_ms"] == "1800000")
    #expect(recorder.events.last?[member: "env"] == "prod")
}

@Test func `a recorder finds the last event of a type, whatever its name`() throws {
    let recorder = try Recorder()
    #expect(recorder.last(AddedToCart.self) == nil)
    recorder.waybill.track(AddedToCart(product: "kettle"))
    recorder.waybill.track(AddedToCart(product: "toaster", count: nil))
    recorder.waybill.track(CartFilled())
    recorder.fillDisk()
    recorder.waybill.track(HomeScreen())
    recorder.freeDisk()
    recorder.waybill.track(LoginScreen())
    #expect(recorder.last(AddedToCart.self)?.fields["product"] == "toaster")
    #expect(recorder.last(AddedToCart.self)?.fields["count"] == nil)
    #expect(recorder.events(of: AddedToCart.self).map(\.sequence) == [1, 2])
    #expect(recorder.events(of: HomeScreen.self).map(\.sequence) == [4])
    #expect(recorder.last(ProductScreen.self) == nil)
    try recorder.waybill.purge()
    #expect(recorder.last(AddedToCart.self) == nil)
}

@Test func `an expectation of traits says how they change`() throws {
    let recorder = try Recorder()
    recorder.waybill.setUser("u-1", traits: ["tier": "PREMIUM", "trial": nil])
    recorder.waybill.setTraitsOnce(["first_seen": "2025-03-01", "phone": Scalar.hashed("1")])
    recorder.waybill.incrementTraits(["visits": 1, "spent": 39.9])
    recorder.waybill.incrementTrait("visits")
    try recorder.expectTraits(.set, ["tier": "PREMIUM", "trial": nil], times: 1)
    try recorder.expectTraits(.setOnce, ["first_seen": "2025-03-01"])
    try recorder.expectTraits(.setOnce, ["phone": .hashed("1")])
    try recorder.expectTraits(.add, ["visits": 1], times: 2)
    try recorder.expectTraits(.add, ["spent": 39.9], times: 1)
    #expect(throws: ExpectationFailure.self) { try recorder.expectTraits(.set, ["visits": 1]) }
    #expect(throws: ExpectationFailure.self) { try recorder.expectTraits(.add, ["visits": 2]) }
    let failure = #expect(throws: ExpectationFailure.self) {
        try recorder.expectTraits(.setOnce, ["first_seen": "2025-03-02"])
    }
    let text = failure?.description ?? ""
    #expect(text.hasPrefix("expected user set_user(once first_seen: \"2025-03-02\") to be tracked at least once"))
    #expect(text.contains("2. user set_user(once first_seen: \"2025-03-01\", once phone: "))
    #expect(text.contains("3. user set_user(add visits: 1, add spent: 39.9)"))
}
