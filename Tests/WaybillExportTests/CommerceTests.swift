import Testing
import WaybillExport
import WaybillServerTestSupport

/// Revenue, items and groups reach the fields that each provider's reports read, from GA4's names for them.
@Suite struct CommerceTests {
    private static let data = #"""
        {"transaction_id":"T1","value":25.50,"currency":"EUR","tax":4.1,"items":[{"item_id":"S1",\#
        "item_name":"Toaster","item_category":"Kitchen","price":12.75,"quantity":2,"index":0}],"group_id":"acme"}
        """#

    private func output(
        _ provider: Destination, _ name: String, _ data: String = Self.data, kind: String = "event"
    ) -> String {
        export([event(name: name, kind: kind, members: ",\"data\":\(data)")], ExportOptions(provider: provider)).output
    }

    @Test func `Amplitude counts revenue, product and group`() {
        #expect(
            self.output(.amplitude, "purchase").contains(
                #""revenue":25.50,"productId":"S1","revenueType":"purchase","currency":"EUR","groups":{"group":"acme"},"#
                    + #""event_properties":{"transaction_id":"T1","value":25.50,"#))
        #expect(self.output(.amplitude, "refund").contains(#""revenue":-25.50,"#))
        #expect(self.output(.amplitude, "refund", #"{"value":-3}"#).contains(#""revenue":-3,"#))
        #expect(self.output(.amplitude, "refund", #"{"value":0.0}"#).contains(#""revenue":0.0,"#))
        #expect(
            self.output(.amplitude, "in_app_purchase", #"{"product_id":"coins","price":3.99,"quantity":2}"#).contains(
                #""price":3.99,"quantity":2,"productId":"coins","revenueType":"in_app_purchase","event_properties""#))
    }

    @Test(arguments: ["add_to_cart", "view_item", "Purchase", "order_completed"])
    func `a value that is no revenue is not counted as such`(name: String) {
        for provider in [Destination.amplitude, .mixpanel, .segment, .posthog] {
            #expect(!self.output(provider, name).contains("\"revenue\""), "\(provider)")
        }
        #expect(!self.output(.snowplow, name).contains("/transaction/"))
    }

    @Test(arguments: [#"{"value":"25"}"#, #"{"value":null}"#, #"{"currency":"EUR"}"#, "{}"])
    func `without an amount there is no revenue`(data: String) {
        for provider in [Destination.amplitude, .mixpanel, .segment, .posthog] {
            #expect(!self.output(provider, "purchase", data).contains("\"revenue\""), "\(provider)")
        }
    }

    @Test(arguments: [Destination.mixpanel, .segment, .posthog])
    func `revenue is a property of its own, unless the event has one`(provider: Destination) {
        #expect(self.output(provider, "purchase").contains("\"revenue\":25.50,"))
        #expect(self.output(provider, "refund").contains("\"revenue\":-25.50,"))
        let own = self.output(provider, "purchase", #"{"value":2,"revenue":1}"#)
        #expect(own.contains("\"value\":2,\"revenue\":1") && !own.contains("\"revenue\":2"))
    }

    @Test func `Mixpanel keeps the list of items and the group's key`() {
        let output = self.output(.mixpanel, "purchase")
        #expect(
            output.contains(#""items":[{"item_id":"S1","item_name":"Toaster","item_category":"Kitchen","price":12.75"#))
        #expect(output.contains(#""group_id":"acme""#))
    }

    @Test func `Segment has its own names for orders and products`() {
        let output = self.output(.segment, "purchase")
        #expect(
            output.contains(
                #""properties":{"revenue":25.50,"order_id":"T1","value":25.50,"currency":"EUR","tax":4.1,"products":"#
                    + #"[{"product_id":"S1","name":"Toaster","category":"Kitchen","price":12.75,"quantity":2,"position":0}],"#
                    + #""group_id":"acme"}"#))
        #expect(output.contains(#""groupId":"acme","library""#))
        #expect(self.output(.segment, "view_item").contains(#"{"transaction_id":"T1","value":25.50,"#))
        let both = self.output(
            .segment, "view_item", #"{"items":[{"item_id":1,"product_id":2,"list":3}],"products":4}"#)
        #expect(both.contains(#""properties":{"products":[{"product_id":1,"list":3}]}"#))
        #expect(self.output(.segment, "view_item", #"{"items":[1]}"#).contains(#"{"items":[1]}"#))
    }

    @Test func `PostHog has groups, which no one without a person has`() {
        #expect(self.output(.posthog, "tap", #"{"group_id":"acme"}"#).contains(#""$groups":{"group":"acme"}"#))
        #expect(!self.output(.posthog, "tap", #"{"group_id":5}"#).contains("$groups"))
        let long = "{\"group_id\":\"\(String(repeating: "g", count: 401))\"}"
        #expect(!self.output(.posthog, "tap", long).contains("$groups"))
        var options = ExportOptions(provider: .posthog)
        options.posthog.isPersonless = true
        let line = event(user: nil, members: #","data":{"group_id":"acme"}"#)
        #expect(!export([line], options).output.contains("$groups"))
    }

    /// The text of `co`, unescaped.
    private func entities(_ output: String) throws -> String? {
        try PlainJSON(String(output.dropLast()))["co"]?.text
    }

    private static let commerce = "iglu:com.snowplowanalytics.snowplow.ecommerce"
    private static let contexts = "iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/1-0-0"

    @Test func `Snowplow has entities of products and transactions`() throws {
        #expect(
            try self.entities(self.output(.snowplow, "purchase")) == #"{"schema":"\#(Self.contexts)","data":["#
                + #"{"schema":"\#(Self.commerce)/product/jsonschema/1-0-0","data":{"id":"S1","name":"Toaster","#
                + #""category":"Kitchen","price":12.75,"quantity":2,"position":0,"currency":"EUR"}},"#
                + #"{"schema":"\#(Self.commerce)/transaction/jsonschema/1-0-0","data":{"transaction_id":"T1","#
                + #""revenue":25.50,"currency":"EUR","payment_method":"","total_quantity":2,"tax":4.1}}]}"#)
        #expect(
            try self.entities(self.output(.snowplow, "refund", #"{"transaction_id":"T1","value":5,"currency":"EUR"}"#))
                == #"{"schema":"\#(Self.contexts)","data":[{"schema":"\#(Self.commerce)/refund/jsonschema/1-0-0","#
                + #""data":{"transaction_id":"T1","currency":"EUR","refund_amount":5}}]}"#)
        #expect(try self.entities(self.output(.snowplow, "tap", #"{"a":1}"#)) == nil)
    }

    @Test(arguments: [
        #"{"items":[{"item_id":"a"}],"currency":"EUR"}"#, #"{"items":[{"item_id":"a","price":1}]}"#,
        #"{"items":[{"item_id":"a","price":1.001}],"currency":"EUR"}"#,
        #"{"items":[{"item_id":"a","price":-1}],"currency":"EUR"}"#,
        #"{"items":[{"item_id":"a","price":10000000}],"currency":"EUR"}"#,
        #"{"items":[{"item_id":"a","price":9999999.5}],"currency":"EUR"}"#,
        #"{"items":[{"item_id":"a","price":1e2}],"currency":"EUR"}"#,
        #"{"items":[{"price":1}],"currency":"EUR"}"#, #"{"items":[{"item_id":"a","price":1}],"currency":"Euro"}"#,
    ])
    func `a product that its schema refuses is left out and counted`(data: String) throws {
        let sink = export(
            [event(name: "view_item", members: ",\"data\":\(data)")], ExportOptions(provider: .snowplow))
        #expect(try self.entities(sink.output) == nil)
        #expect(sink.records.map { $0.fixes[.dropItem] } == [1])
    }

    @Test(arguments: ["1", "0", "0.10", "9999999", "9999999.00", "12.340", "1.5"])
    func `an amount of at most two decimals is one`(price: String) throws {
        let data = "{\"items\":[{\"item_id\":\"a\",\"price\":\(price)}],\"currency\":\"EUR\"}"
        #expect(try self.entities(self.output(.snowplow, "view_item", data))?.contains("\"price\":\(price),") == true)
    }

    @Test func `a screen's fields are an entity, with a draft of its schema`() throws {
        let output = self.output(.snowplow, "screen_view", #"{"method":"email","n":1}"#, kind: "screen")
        #expect(
            try self.entities(output) == #"{"schema":"\#(Self.contexts)","data":[{"schema":"#
                + #""iglu:com.example.shop/screen_data/jsonschema/1-0-0","data":{"method":"email","n":1}}]}"#)
        var schemas = SnowplowSchemas()
        schemas.add(part: Array(output.utf8))
        #expect(schemas.paths == ["com.example.shop/screen_data/jsonschema/1-0-0"])
        #expect(
            String(decoding: schemas.draft(at: schemas.paths[0]), as: UTF8.self).contains(
                #""properties":{"method":{"type":["string"]},"n":{"type":["integer"]}}"#))
    }
}
