import Waybill

extension ProviderID {
    /// The table of visits, which `receiver.yaml` defines.
    static let visits = ProviderID("visits")
}

/// An event of the server itself, tracked without a visitor.
struct ServerEvent: FieldlessEvent {
    let name: String

    func customize(_ overrides: inout Overrides) {
        // Mixpanel would create a person for the server.
        overrides[.mixpanel].skip = true
    }
}

// Events of visitors. The visitor is not part of the event: the route passes it to `track(_:by:)`. Each event has its
// own screen, because the process's previous event may belong to another visitor.

struct HomeScreen: ScreenEvent, FieldlessEvent {
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
        // GA4 recommends a name and fields for this event; they replace its own.
        overrides[.ga4].name = "view_item"
        overrides[.ga4].replaceAll { $0.put(items: [self.product]) }
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
        overrides[.ga4].replaceAll { $0.put(items: [self.product]) }
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

/// The result of an action: neither a screen nor an action itself.
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
        overrides[.ga4].replaceAll { fields in
            fields.put("transaction_id", self.order)
            fields.put(items: self.products)
        }
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
        // For internal use: it is in the archive and CSV, but not in Mixpanel.
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
    /// Adds products in GA4's form: `currency`, `value`, `items`.
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
