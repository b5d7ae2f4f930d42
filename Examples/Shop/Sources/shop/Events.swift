import Waybill

/// Who a request came from.
///
/// An app has one user, and Waybill one current user, session and screen: those of the process. A server has many
/// visitors at once, so it never calls `setUser`, `reset` or `setConsent`: another visitor's event may come next, and
/// would be told of the wrong person. Instead each event brings its visitor, without whom it does not compile, and
/// its screen.
///
/// What the line says beside them is about the server: `anon`, `session`, `dt`, and `prev` of a screen, which is what
/// anyone saw last. So providers take the server for one person; count people by `data.visitor_id`. An operator's
/// mapping may rename that field for a provider.
struct Visitor: Sendable {
    /// From the cookie, or new.
    var id: String
    /// Once logged in.
    var user: String?

    func put(into fields: inout Fields) {
        fields.put("visitor_id", self.id)
        // Nothing is written for `nil`.
        fields.put("user_id", self.user)
    }
}

struct HomeScreen: ScreenEvent {
    let visitor: Visitor

    var screen: ScreenRef? { ScreenRef("Home") }

    func encode(into fields: inout Fields) {
        self.visitor.put(into: &fields)
    }
}

struct ProductListScreen: ScreenEvent {
    let visitor: Visitor
    let productCount: Int

    var screen: ScreenRef? { ScreenRef("Products") }

    func encode(into fields: inout Fields) {
        self.visitor.put(into: &fields)
        fields.put("product_count", self.productCount)
    }
}

struct ProductScreen: ScreenEvent {
    let visitor: Visitor
    let product: Product

    var screen: ScreenRef? { ScreenRef("Product", id: self.product.id) }

    func encode(into fields: inout Fields) {
        self.visitor.put(into: &fields)
        self.product.put(into: &fields)
    }

    func customize(_ overrides: inout Overrides) {
        // GA4 recommends a name and fields for this; they replace the event's own, so the visitor is put again.
        overrides[.ga4].name = "view_item"
        self.visitor.put(into: &overrides[.ga4].fields)
        overrides[.ga4].fields.put(items: [self.product])
        overrides[.mixpanel].name = "Product Viewed"
    }
}

struct AddedToCart: ActionEvent {
    let visitor: Visitor
    let product: Product
    let cartCount: Int

    var name: String { "add_to_cart" }
    var screen: ScreenRef? { ScreenRef("Product", id: self.product.id) }

    func encode(into fields: inout Fields) {
        self.visitor.put(into: &fields)
        self.product.put(into: &fields)
        fields.put("cart_count", self.cartCount)
    }

    func customize(_ overrides: inout Overrides) {
        self.visitor.put(into: &overrides[.ga4].fields)
        overrides[.ga4].fields.put(items: [self.product])
        overrides[.mixpanel].name = "Product Added"
    }
}

struct LoggedIn: ActionEvent {
    let visitor: Visitor

    var name: String { "login" }
    var screen: ScreenRef? { ScreenRef("Login") }

    func encode(into fields: inout Fields) {
        self.visitor.put(into: &fields)
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

    let visitor: Visitor
    let order: String
    let products: [Product]

    var name: String { "purchase" }
    var screen: ScreenRef? { ScreenRef("Checkout") }

    func encode(into fields: inout Fields) {
        self.visitor.put(into: &fields)
        fields.put("order", self.order)
        fields.put("cents", self.products.reduce(0) { $0 + $1.cents })
        fields.put("items", objects: self.products) { fields, product in product.put(into: &fields) }
    }

    func customize(_ overrides: inout Overrides) {
        self.visitor.put(into: &overrides[.ga4].fields)
        overrides[.ga4].fields.put("transaction_id", self.order)
        overrides[.ga4].fields.put(items: self.products)
        overrides[.mixpanel].name = "Order Completed"
    }
}

struct CheckoutRefused: Event {
    let visitor: Visitor
    let reason: String

    var name: String { "checkout_refused" }
    var screen: ScreenRef? { ScreenRef("Checkout") }

    func encode(into fields: inout Fields) {
        self.visitor.put(into: &fields)
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
