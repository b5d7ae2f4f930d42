import Waybill

/// What the server says of itself; nobody did it, so it is tracked without a visitor.
struct ServerEvent: Event {
    let name: String

    func customize(_ overrides: inout Overrides) {
        // Mixpanel would make a person of the server.
        overrides[.mixpanel].skip = true
    }
}

// From here on what visitors do. Nothing here says who it was: the route does, `track(_:by:)`. Each event brings its
// screen, for a visitor's takes none over from the event before, which was another's.

struct HomeScreen: ScreenEvent {
    var screen: ScreenRef? { ScreenRef("Home") }
}

struct ProductListScreen: ScreenEvent {
    let productCount: Int

    var screen: ScreenRef? { ScreenRef("Products") }

    func encode(into fields: inout Fields) {
        fields.put("product_count", self.productCount)
    }
}

struct ProductScreen: ScreenEvent {
    let product: Product

    var screen: ScreenRef? { ScreenRef("Product", id: self.product.id) }

    func encode(into fields: inout Fields) {
        self.product.put(into: &fields)
    }

    func customize(_ overrides: inout Overrides) {
        // GA4 recommends a name and fields for this; they replace the event's own.
        overrides[.ga4].name = "view_item"
        overrides[.ga4].fields.put(items: [self.product])
        overrides[.mixpanel].name = "Product Viewed"
    }
}

struct AddedToCart: ActionEvent {
    let product: Product
    let cartCount: Int

    var name: String { "add_to_cart" }
    var screen: ScreenRef? { ScreenRef("Product", id: self.product.id) }

    func encode(into fields: inout Fields) {
        self.product.put(into: &fields)
        fields.put("cart_count", self.cartCount)
    }

    func customize(_ overrides: inout Overrides) {
        overrides[.ga4].fields.put(items: [self.product])
        overrides[.mixpanel].name = "Product Added"
    }
}

struct LoggedIn: ActionEvent {
    var name: String { "login" }
    var screen: ScreenRef? { ScreenRef("Login") }

    func encode(into fields: inout Fields) {
        fields.put("method", "name")
    }

    func customize(_ overrides: inout Overrides) {
        overrides[.mixpanel].name = "Logged In"
    }
}

/// Not what the visitor did, but what came of it: neither screen nor action.
struct Purchased: Event {
    // Version 1.1 added `items`.
    static let logVersion = "1.1"

    let order: String
    let products: [Product]

    var name: String { "purchase" }
    var screen: ScreenRef? { ScreenRef("Checkout") }

    func encode(into fields: inout Fields) {
        fields.put("order", self.order)
        fields.put("cents", self.products.reduce(0) { $0 + $1.cents })
        fields.put("items", objects: self.products) { fields, product in product.put(into: &fields) }
    }

    func customize(_ overrides: inout Overrides) {
        overrides[.ga4].fields.put("transaction_id", self.order)
        overrides[.ga4].fields.put(items: self.products)
        overrides[.mixpanel].name = "Order Completed"
    }
}

struct CheckoutRefused: Event {
    let reason: String

    var name: String { "checkout_refused" }
    var screen: ScreenRef? { ScreenRef("Checkout") }

    func encode(into fields: inout Fields) {
        fields.put("reason", self.reason)
    }

    func customize(_ overrides: inout Overrides) {
        // For our own eyes: the archive and CSV have it, Mixpanel does not.
        overrides[.mixpanel].skip = true
    }
}

extension Product {
    func put(into fields: inout Fields) {
        fields.put("product_id", self.id)
        fields.put("name", self.name)
        fields.put("cents", self.cents)
    }
}

extension Fields {
    /// Products as GA4 has them: `currency`, `value`, `items`.
    mutating func put(items products: [Product]) {
        self.put("currency", "EUR")
        self.put("value", Double(products.reduce(0) { $0 + $1.cents }) / 100)
        self.put("items", objects: products) { fields, product in
            fields.put("item_id", product.id)
            fields.put("item_name", product.name)
            fields.put("price", Double(product.cents) / 100)
        }
    }
}
