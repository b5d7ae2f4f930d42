import Observation
import Store
import Synchronization
import Testing
import Waybill
import WaybillTesting

/// The shop's own tests, as its team would write them.
@Suite struct StoreTests {
    private let recorder: Recorder
    private let model: StoreModel

    init() throws {
        self.recorder = try Recorder { $0.providers = [.all(.mixpanel)] }
        self.model = StoreModel(self.recorder.waybill)
    }

    @Test func `an order is the cart, with its value`() throws {
        self.model.add(.toaster)
        self.model.add(.kettle)
        self.model.order("o-1")
        #expect(self.recorder.names == ["add_to_cart", "add_to_cart", "begin_checkout", "purchase"])
        let fields = try #require(self.recorder.events.last).fields
        #expect(fields.first { $0.name == "value" }?.json == "64.4")
        #expect(fields.first { $0.name == "transaction_id" }?.text == "o-1")
        #expect(self.model.cart.isEmpty)
    }

    @Test func `the cart is observable`() {
        let isChanged = Mutex(false)
        withObservationTracking {
            _ = self.model.cart
        } onChange: {
            isChanged.withLock { $0 = true }
        }
        self.model.add(.toaster)
        #expect(isChanged.withLock { $0 })
        self.model.removeLast()
        self.model.removeLast()
        #expect(self.recorder.names == ["add_to_cart", "remove_from_cart"])
    }

    @Test func `a search has another name at Mixpanel`() throws {
        #expect(self.model.search("ket") == [.kettle])
        try self.recorder.expectTracked("search", ["search_term": "ket", "result_count": 1], times: 1)
        #expect(self.recorder.events.last?.delivery(to: .mixpanel)?.name == "Search")
    }

    @Test func `an email is stored only as a hash, and its user signs up`() throws {
        self.model.signUp("u-1", email: "a@example.com")
        let event = try #require(self.recorder.events.last)
        #expect(event.name == "sign_up" && event[member: "user"] == "u-1")
        #expect(!self.recorder.events.contains { $0.description.contains("example.com") })
    }

    @Test func `screens and views go together`() throws {
        self.model.open()
        self.model.open(.toaster)
        self.model.rate(.toaster, stars: 5)
        #expect(self.recorder.names == ["screen_view", "screen_view", "view_item", "rate"])
        #expect(self.recorder.events.last?[member: "screen"] == "Product")
    }
}
