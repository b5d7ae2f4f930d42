// A service in front of several SDKs, as apps write it:
//
//     final class AnalyticsService {
//         private var providers: [any AnalyticsProvider] = []
//         private let queue = DispatchQueue(label: "analytics", attributes: .concurrent)
//         func add(_ provider: any AnalyticsProvider) {
//             queue.async(flags: .barrier) { self.providers.append(provider) }  // Not there yet when it returns.
//         }
//         func track(_ event: any AnalyticsEvent, adding more: [String: Any] = [:]) {
//             queue.async {  // Concurrent: events overtake each other.
//                 for provider in self.providers where provider.subscriptions.contains(type(of: event).id) {
//                     let own = event.parameters.map { (provider.parameterName($0), $1) }
//                     let all = Dictionary(uniqueKeysWithValues: own).merging(more) { $1 }  // `more` is never mapped.
//                     provider.log(provider.eventName(event.name), all)
//                 }
//             }
//         }
//         func setUser(_ properties: [String: String]) {
//             properties.forEach { Analytics.setUserProperty($0.key, forName: $0.value) }  // Swapped.
//         }
//     }
//
// Subscriptions are the client's configuration; names of its own are each event's, or the export's; an SDK in the app
// is an observer of what was stored.

import WaybillSystem
import Testing
import Waybill
import WaybillExport
import WaybillServerTestSupport
import WaybillTesting

private struct LoginScreen: ScreenEvent, FieldlessEvent {
    var screen: ScreenRef? { ScreenRef("로그인 화면", type: "LoginView", id: "login") }
}

private struct ProductAddedToCart: ActionEvent {
    let product: String
    let price: Int
    var coupon: String?
    var name: String { "productAddedToCart" }

    func encode(into fields: inout Fields) {
        fields.put("productName", self.product)
        fields.put("productPrice", self.price)
        fields.put("couponCode", self.coupon)
    }

    func customize(_ overrides: inout Overrides) {
        overrides[.ga4].name = "add_to_cart"
        overrides[.ga4].rename("productName", to: "item_name")
        overrides[.ga4].rename("productPrice", to: "value")
        overrides[.ga4].rename("couponCode", to: "coupon")
    }
}

/// Its names are the export's to map.
private struct SearchDone: ActionEvent {
    let text: String
    var name: String { "searchDone" }

    func encode(into fields: inout Fields) {
        fields.put("searchText", self.text)
    }
}

private struct Heartbeat: Event {
    let number: Int
    var name: String { "heartbeat" }

    func encode(into fields: inout Fields) {
        fields.put("number", self.number)
    }
}

private let subscriptions: [ProviderSubscription] = [
    .only(.ga4, LoginScreen.self, ProductAddedToCart.self, SearchDone.self), .all(.mixpanel),
    .only(.csv, Heartbeat.self),
]

/// Stands for the SDK's `Analytics`: remembers what it was told, a value as JSON.
private final class FakeFirebase: Sendable {
    enum Call: Hashable {
        case event(String, [Parameter])
        case userID(String?)
        case userProperty(String, value: String?)
    }

    struct Parameter: Hashable {
        let name: String
        let json: String
    }

    private let told = Lock<[Call]>([])

    var calls: [Call] { self.told.withLock { $0 } }

    func logEvent(_ name: String, parameters: [Parameter]) {
        self.told.withLock { $0.append(.event(name, parameters)) }
    }

    func setUserID(_ id: String?) {
        self.told.withLock { $0.append(.userID(id)) }
    }

    func setUserProperty(_ value: String?, forName name: String) {
        self.told.withLock { $0.append(.userProperty(name, value: value)) }
    }
}

/// Hands the SDK what GA4 is to get.
private struct FirebaseAdapter: EventObserver {
    let firebase: FakeFirebase

    func eventStored(_ event: EventView) {
        guard let delivery = event.delivery(to: .ga4) else { return }
        switch event.kind {
        case .user:
            self.firebase.setUserID(event[member: "user"])
            for trait in delivery.fields {
                self.firebase.setUserProperty(trait.json == "null" ? nil : trait.text, forName: trait.name)
            }
        case .screen:
            let screen = [("screen_name", "screen"), ("screen_class", "screen_class"), ("screen_id", "screen_id")]
                .compactMap { parameter, member in
                    event[member: member].map { FakeFirebase.Parameter(name: parameter, json: "\"\($0)\"") }
                }
            self.firebase.logEvent(delivery.name, parameters: screen + Self.parameters(delivery))
        case .action, .event:
            self.firebase.logEvent(delivery.name, parameters: Self.parameters(delivery))
        case .meta: break
        }
    }

    private static func parameters(_ delivery: EventView.Delivery) -> [FakeFirebase.Parameter] {
        delivery.fields.map { FakeFirebase.Parameter(name: $0.name, json: $0.json) }
    }
}

extension Recorder {
    /// The app's client, told who it is by the SDK.
    fileprivate static func service() throws -> Recorder {
        let recorder = try Recorder.shop(providers: subscriptions)
        recorder.waybill.setVendorID(appInstanceID, for: .ga4)
        return recorder
    }
}

@Test func `each provider gets the events it subscribed to, in the order in which they were tracked`() throws {
    let recorder = try Recorder.service()
    let waybill = recorder.waybill
    waybill.track(LoginScreen())
    waybill.track(Heartbeat(number: 1))
    waybill.track(ProductAddedToCart(product: "Toaster", price: 39_900))
    waybill.track("untyped")
    waybill.track(Heartbeat(number: 2))
    waybill.track(SearchDone(text: "kettle"))
    func ids(_ sink: RecordingSink) -> [Int?] {
        let ids = recorder.events.map { $0.member("id") }
        return sink.records.flatMap { $0.ids.split(separator: ",") }.map { id in ids.firstIndex(of: String(id)) }
    }
    let ga4 = recorder.exported(ExportOptions(provider: .ga4))
    #expect(ids(ga4) == [0, 2, 5])
    #expect(ga4.skipped == [.notSubscribed, .notSubscribed, .notSubscribed])
    #expect(ids(recorder.exported(ExportOptions(provider: .mixpanel))) == [0, 1, 2, 3, 4, 5])
    #expect(ids(recorder.exported(ExportOptions(provider: .csv))) == [1, 4])
    #expect(ids(recorder.exported(ExportOptions(provider: .amplitude))) == [])
}

@Test func `an event has its own names in the line and GA4's in the request`() throws {
    let recorder = try Recorder.service()
    recorder.waybill.track(ProductAddedToCart(product: "토스터 \"2구\"", price: 39_900))
    let event = try #require(recorder.events.first)
    #expect(event.name == "productAddedToCart")
    #expect(
        event.contents == #"""
            "data":{"productName":"토스터 \"2구\"","productPrice":39900},"providers":["ga4","mixpanel"],\#
            "overrides":{"ga4":{"name":"add_to_cart","data":{"item_name":"토스터 \"2구\"","value":39900}}}
            """#)
    #expect(
        recorder.exported(ExportOptions(provider: .ga4)).output
            == ga4Request("add_to_cart", #""item_name":"토스터 \"2구\"","value":39900"#))
}

@Test func `a screen is a screen view with the screen's own name, class and id`() throws {
    let recorder = try Recorder.service()
    recorder.waybill.track(LoginScreen()) { $0.put("method", "email") }
    #expect(
        recorder.exported(ExportOptions(provider: .ga4)).output
            == ga4Request(
                "screen_view",
                #""screen_name":"로그인 화면","screen_class":"LoginView","screen_id":"login","method":"email""#))
}

/// The table that the old service had in its code, as the operator of the export has it.
private func ga4Names() -> ExportOptions {
    var rules = OperatorMapping.Rules(version: 1)
    rules.renames = [.init(from: "searchDone", to: "search")]
    var fields = OperatorMapping.FieldRule()
    fields.renames = [.init(from: "searchText", to: "search_term"), .init(from: "resultCount", to: "results")]
    rules.fields = [fields]
    var options = ExportOptions(provider: .ga4)
    options.mapping = OperatorMapping(rules)
    return options
}

@Test func `what the call site adds goes through the export's names like the event's own fields`() throws {
    let recorder = try Recorder.service()
    recorder.waybill.track(SearchDone(text: "kettle")) { fields in
        fields.put("resultCount", 12)
        fields.put("startedFrom", "home")
        fields.put("searchText", "the event's own wins")
        fields.put("filter", nil as String?)
    }
    let event = try #require(recorder.events.first)
    #expect(
        event.contents == #"""
            "data":{"searchText":"kettle","resultCount":12,"startedFrom":"home"},"providers":["ga4","mixpanel"]
            """#)
    let request = ga4Request("search", #""search_term":"kettle","results":12,"started_from":"home""#)
    #expect(recorder.exported(ga4Names()).output == request)
    // Without a table GA4 gets names that it takes, made of the app's.
    #expect(
        recorder.exported(ExportOptions(provider: .ga4)).output
            == ga4Request("search_done", #""search_text":"kettle","result_count":12,"started_from":"home""#))
}

@Test func `what the call site adds stands beside the fields that a provider has of its own`() throws {
    let recorder = try Recorder.service()
    recorder.waybill.track(ProductAddedToCart(product: "Toaster", price: 1)) { fields in
        fields.put("source", "list")
        fields.put("value", "what GA4 has already stays")
    }
    let event = try #require(recorder.events.first)
    #expect(
        event.contents == #"""
            "data":{"productName":"Toaster","productPrice":1,"source":"list","value":"what GA4 has already stays"},\#
            "providers":["ga4","mixpanel"],\#
            "overrides":{"ga4":{"name":"add_to_cart","data":{"item_name":"Toaster","value":1,"source":"list"}}}
            """#)
    #expect(
        recorder.exported(ExportOptions(provider: .ga4)).output
            == ga4Request("add_to_cart", #""item_name":"Toaster","value":1,"source":"list""#))
    #expect(
        recorder.exported(ExportOptions(provider: .mixpanel)).output
            == event.mixpanelRecord(
                "productAddedToCart",
                #""productName":"Toaster","productPrice":1,"source":"list","value":"what GA4 has already stays""#))
}

@Test func `a user property has its name as name and its value as value, and nil removes it`() throws {
    let recorder = try Recorder.service()
    recorder.waybill.setUser("u-8812345", traits: ["membership": "gold", "age_band": nil, "visits": 7])
    recorder.advance(by: .milliseconds(1500))
    recorder.waybill.setUser(nil, traits: ["membership": nil])
    let events = recorder.events
    #expect(events.map { $0[member: "user"] } == ["u-8812345", nil])
    #expect(
        events.map { event in event.fields.map { "\($0.name)=\($0.json)" } } == [
            [#"membership="gold""#, "age_band=null", "visits=7"], ["membership=null"],
        ])
    let ga4 = recorder.exported(ExportOptions(provider: .ga4))
    let time = "\"timestamp_micros\":1740820455926000"
    #expect(
        ga4.records.map(\.text) == [
            ga4Request(
                "user_updated", "", user: "u-8812345",
                properties: ",\"user_properties\":{\"membership\":{\"value\":\"gold\",\(time)},"
                    + "\"visits\":{\"value\":7,\(time)}}"),
            ga4Request("user_updated", "", after: 1500, engagement: 1500),
        ])
    // GA4's protocol cannot remove a property: it is counted; Mixpanel's can.
    #expect(ga4.records.map { $0.fixes[.dropNull] } == [1, 1])
    let profiles = recorder.exported(ExportOptions(provider: .mixpanelProfiles)).output
    #expect(profiles.contains(#""$set":{"membership":"gold","visits":7}"#))
    #expect(profiles.contains(#""$unset":["age_band"]"#) && profiles.contains(#""$unset":["membership"]"#))
}

@Test func `an SDK in the app gets the names and parameters that the export writes`() throws {
    let recorder = try Recorder.service()
    let firebase = FakeFirebase()
    let token = recorder.waybill.observe(.all(FirebaseAdapter(firebase: firebase)))
    recorder.waybill.track(LoginScreen()) { $0.put("method", "email") }
    recorder.waybill.track(Heartbeat(number: 1))
    let added = ProductAddedToCart(product: "토스터, \"2구\"", price: 39_900, coupon: "SPRING")
    recorder.waybill.track(added) { $0.put("source", "list") }
    token.drain()
    let calls = firebase.calls
    #expect(
        calls == [
            .event(
                "screen_view",
                [
                    .init(name: "screen_name", json: #""로그인 화면""#), .init(name: "screen_class", json: #""LoginView""#),
                    .init(name: "screen_id", json: #""login""#), .init(name: "method", json: #""email""#),
                ]),
            .event(
                "add_to_cart",
                [
                    .init(name: "item_name", json: #""토스터, \"2구\"""#), .init(name: "value", json: "39900"),
                    .init(name: "coupon", json: #""SPRING""#), .init(name: "source", json: #""list""#),
                ]),
        ])
    let events = calls.map { call in
        guard case .event(let name, let parameters) = call else { return "" }
        return ga4Event(name, parameters.map { "\"\($0.name)\":\($0.json)" }.joined(separator: ","))
    }
    #expect(
        recorder.exported(ExportOptions(provider: .ga4)).output
            == "{\"app_instance_id\":\"\(appInstanceID)\",\"events\":[\(events.joined(separator: ","))]}\n")
}

@Test func `an SDK in the app is told of users and their properties, and forgets those that are removed`() throws {
    let recorder = try Recorder.service()
    let firebase = FakeFirebase()
    let token = recorder.waybill.observe(.all(FirebaseAdapter(firebase: firebase)))
    recorder.waybill.setUser("u-8812345", traits: ["membership": "gold"])
    recorder.waybill.setUser(nil, traits: ["membership": nil])
    token.drain()
    #expect(
        firebase.calls == [
            .userID("u-8812345"), .userProperty("membership", value: "gold"), .userID(nil),
            .userProperty("membership", value: nil),
        ])
}

@Test func `an SDK in the app gets events in the order in which they were tracked`() throws {
    let recorder = try Recorder.shop(providers: [.all(.ga4)])
    let firebase = FakeFirebase()
    let token = recorder.waybill.observe(.all(FirebaseAdapter(firebase: firebase)))
    for number in 0..<1000 { recorder.waybill.track(Heartbeat(number: number)) }
    token.drain()
    #expect(
        firebase.calls
            == (0..<1000).map { .event("heartbeat", [FakeFirebase.Parameter(name: "number", json: "\($0)")]) })
}
