import Testing
import Waybill
import WaybillCommerce
import WaybillEvent
import WaybillExport
import WaybillServerTestSupport
import WaybillTesting

private let toaster = Item(
    id: "p-1", name: "Toaster", price: 39.9, quantity: 2, brand: "Hot", category: "Kitchen", variant: "red", index: 1)
private let kettle = Item(id: "p-2", name: "Kettle", price: 24.5, coupon: "TEA", discount: 5)

private let purchase = Purchase(
    transactionID: "o-7001", items: [toaster, kettle], currency: "EUR", tax: 16.65, shipping: 4.9, coupon: "SPRING",
    paymentType: "card")

/// The fields of an event as the client stores them.
private func fields(of event: some Event) throws -> String {
    let recorder = try Recorder()
    recorder.waybill.track(event)
    let stored = try #require(recorder.events.last)
    return "\(stored.name): " + stored.fields.map { "\($0.name)=\($0.json)" }.joined(separator: ", ")
}

/// What a provider gets of an event that the client stored.
private func record(of event: some Event, for provider: Destination) throws -> PlainRecord {
    let recorder = try Recorder()
    recorder.waybill.setUser("u-8812345")
    recorder.waybill.setVendorID("0a1b2c3d4e5f60718293a4b5c6d7e8f9", for: .ga4)
    recorder.waybill.track(event)
    let line = String(decoding: try #require(recorder.events.last).line.dropLast(), as: UTF8.self)
    let sink = export([line], ExportOptions(provider: provider), isAgeJudged: false)
    let record = try #require(sink.records.first)
    #expect(sink.refusals.isEmpty && sink.skipped.isEmpty && sink.records.count == 1)
    return PlainRecord(text: record.text, droppedItemCount: record.fixes[.dropItem])
}

private struct PlainRecord {
    let text: String
    let droppedItemCount: Int

    /// The record holds each text.
    func expect(_ texts: String..., location: SourceLocation = #_sourceLocation) {
        for text in texts { #expect(self.text.contains(text), "\(self.text)", sourceLocation: location) }
        #expect(self.droppedItemCount == 0, sourceLocation: location)
    }
}

/// One purchase, through every exporter, in the field that the provider's own reports read.
@Suite struct PurchaseTests {
    private static let items =
        #"[{"item_id":"p-1","item_name":"Toaster","item_brand":"Hot","item_category":"Kitchen","item_variant":"red","#
        + #""price":39.9,"quantity":2,"index":1},"#
        + #"{"item_id":"p-2","item_name":"Kettle","price":24.5,"quantity":1,"coupon":"TEA","discount":5}]"#

    @Test func `a purchase has GA4's fields, and the sum of its items as value`() throws {
        #expect(
            try fields(of: purchase) == "purchase: transaction_id=\"o-7001\", tax=16.65, shipping=4.9, "
                + "coupon=\"SPRING\", payment_type=\"card\", currency=\"EUR\", value=104.3, items=\(Self.items)")
    }

    @Test func `GA4 gets a purchase as its own event`() throws {
        try record(of: purchase, for: .ga4).expect(
            #""name":"purchase""#, #""transaction_id":"o-7001","tax":16.65,"shipping":4.9,"coupon":"SPRING""#,
            #""currency":"EUR","value":104.3,"items":\#(Self.items)"#)
    }

    @Test func `Amplitude counts the revenue`() throws {
        try record(of: purchase, for: .amplitude).expect(
            #""revenue":104.3,"revenueType":"purchase","currency":"EUR""#)
        let single = Purchase(transactionID: "o-1", items: [toaster], currency: "EUR")
        try record(of: single, for: .amplitude).expect(
            #""revenue":79.8,"productId":"p-1","revenueType":"purchase","currency":"EUR""#)
    }

    @Test func `Mixpanel has revenue and a list of items`() throws {
        try record(of: purchase, for: .mixpanel).expect(
            #""event":"purchase""#, #""revenue":104.3"#, #""items":\#(Self.items)"#)
    }

    @Test func `Segment has an order with products`() throws {
        try record(of: purchase, for: .segment).expect(
            #""event":"purchase""#,
            #""revenue":104.3,"order_id":"o-7001","tax":16.65,"shipping":4.9,"coupon":"SPRING""#,
            #""products":[{"product_id":"p-1","name":"Toaster","brand":"Hot","category":"Kitchen","variant":"red","#
                + #""price":39.9,"quantity":2,"position":1}"#)
    }

    @Test func `PostHog has revenue`() throws {
        try record(of: purchase, for: .posthog).expect(
            #""event":"purchase""#, #""revenue":104.3,"transaction_id":"o-7001""#, #""items":\#(Self.items)"#)
    }

    @Test func `Snowplow has a transaction and products that its schemas accept`() throws {
        let plain = Amount(minor: 2450)
        let order = Purchase(
            transactionID: "o-7001", items: [toaster, Item(id: "p-2", price: plain)], currency: "EUR", tax: 16.65,
            shipping: 4.9, coupon: "SPRING", paymentType: "card")
        try record(of: order, for: .snowplow).expect(
            #"{\"transaction_id\":\"o-7001\",\"revenue\":104.3,\"currency\":\"EUR\",\"payment_method\":\"card\","#
                + #"\"total_quantity\":3,\"tax\":16.65,\"shipping\":4.9,\"discount_code\":\"SPRING\"}"#,
            #"{\"id\":\"p-1\",\"name\":\"Toaster\",\"category\":\"Kitchen\",\"price\":39.9,\"quantity\":2,"#
                + #"\"variant\":\"red\",\"brand\":\"Hot\",\"position\":1,\"currency\":\"EUR\"}"#,
            #"{\"id\":\"p-2\",\"category\":\"\",\"price\":24.5,\"quantity\":1,\"currency\":\"EUR\"}"#)
    }

    @Test(arguments: [Destination.flurry, .csv, .syslog, .journald])
    func `the other exports have the fields`(provider: Destination) throws {
        let record = try record(of: purchase, for: provider)
        #expect(record.text.contains("o-7001") && record.text.contains("104.3") && record.text.contains("Toaster"))
    }
}

@Suite struct RefundTests {
    private static let refund = Refund(transactionID: "o-7001", value: 39.9, currency: "EUR")

    @Test(arguments: [Destination.amplitude, .mixpanel, .segment, .posthog])
    func `a refund is negative revenue`(provider: Destination) throws {
        try record(of: Self.refund, for: provider).expect("\"revenue\":-39.9")
    }

    @Test func `GA4 and Snowplow have a refund of their own`() throws {
        try record(of: Self.refund, for: .ga4).expect(
            #""name":"refund""#, #""transaction_id":"o-7001","currency":"EUR","value":39.9"#)
        try record(of: Self.refund, for: .snowplow).expect(
            #"{\"transaction_id\":\"o-7001\",\"currency\":\"EUR\",\"refund_amount\":39.9}"#)
    }

    @Test func `a refund of a part has its items`() throws {
        let part = Refund(
            transactionID: "o-7001", value: 24.5, currency: "EUR", items: [kettle], tax: 3.91, shipping: 1)
        #expect(
            try fields(of: part) == "refund: transaction_id=\"o-7001\", tax=3.91, shipping=1, currency=\"EUR\", "
                + #"value=24.5, items=[{"item_id":"p-2","item_name":"Kettle","price":24.5,"quantity":1,"#
                + #""coupon":"TEA","discount":5}]"#)
    }
}

/// The events before the purchase.
@Suite struct BrowsingTests {
    private static let item = Item(id: "p-1", price: 39.9)
    private static let data = #"currency="EUR", value=39.9, items=[{"item_id":"p-1","price":39.9,"quantity":1}]"#

    @Test func `each event has GA4's name and its own fields`() throws {
        let items = [Self.item]
        #expect(
            try fields(of: ViewItemList(listID: "l-1", listName: "Search", items: items, currency: "EUR"))
                == "view_item_list: item_list_id=\"l-1\", item_list_name=\"Search\", \(Self.data)")
        #expect(
            try fields(of: SelectItem(listName: "Search", items: items, currency: "EUR"))
                == "select_item: item_list_name=\"Search\", \(Self.data)")
        #expect(try fields(of: ViewItem(items: items, currency: "EUR")) == "view_item: \(Self.data)")
        #expect(try fields(of: AddToWishlist(items: items, currency: "EUR")) == "add_to_wishlist: \(Self.data)")
        #expect(try fields(of: AddToCart(items: items, currency: "EUR")) == "add_to_cart: \(Self.data)")
        #expect(try fields(of: RemoveFromCart(items: items, currency: "EUR")) == "remove_from_cart: \(Self.data)")
        #expect(try fields(of: ViewCart(items: items, currency: "EUR")) == "view_cart: \(Self.data)")
        #expect(
            try fields(of: BeginCheckout(items: items, currency: "EUR", coupon: "C"))
                == "begin_checkout: coupon=\"C\", \(Self.data)")
        #expect(
            try fields(of: AddShippingInfo(items: items, currency: "EUR", shippingTier: "Express"))
                == "add_shipping_info: shipping_tier=\"Express\", \(Self.data)")
        #expect(
            try fields(of: AddPaymentInfo(items: items, currency: "EUR", paymentType: "card"))
                == "add_payment_info: payment_type=\"card\", \(Self.data)")
    }

    @Test(arguments: [Destination.amplitude, .mixpanel, .segment, .posthog])
    func `none of them is revenue`(provider: Destination) throws {
        #expect(
            !(try record(of: AddToCart(items: [Self.item], currency: "EUR"), for: provider)).text.contains("revenue"))
    }

    @Test func `a value of one's own wins, and an item without a price leaves none`() throws {
        #expect(
            try fields(of: ViewItem(items: [Self.item], currency: "EUR", value: 10)).contains("value=10, "))
        let items = [Self.item, Item(id: "p-3")]
        #expect(!(try fields(of: ViewItem(items: items, currency: "EUR"))).contains("value"))
        #expect(try fields(of: ViewCart(items: [], currency: "EUR")) == "view_cart: currency=\"EUR\"")
    }
}
