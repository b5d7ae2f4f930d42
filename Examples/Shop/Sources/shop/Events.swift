import Waybill
import WaybillCommerce

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
        ViewItem(items: [self.product.item], currency: "EUR").encode(into: &fields)
    }

    func customize(_ overrides: inout Overrides) {
        // A screen for the others; GA4 has a name for it.
        overrides[.ga4].name = "view_item"
        overrides[.mixpanel].name = "Product Viewed"
    }
}

struct AddedToCart: ActionEvent {
    let product: Product
    let cartCount: Int

    var name: String { "add_to_cart" }
    var screen: ScreenRef? { ScreenRef("Product", id: self.product.id) }

    func encode(into fields: inout Fields) {
        AddToCart(items: [self.product.item], currency: "EUR").encode(into: &fields)
        fields.put("cart_count", self.cartCount)
    }

    func customize(_ overrides: inout Overrides) {
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
///
/// It keeps its name for every provider, because the exports know revenue by it.
struct Purchased: Event {
    // Version 1.1 added `items`.
    static let logVersion = "1.1"

    let order: String
    let products: [Product]

    var name: String { "purchase" }
    var screen: ScreenRef? { ScreenRef("Checkout") }

    func encode(into fields: inout Fields) {
        Purchase(transactionID: self.order, items: self.products.map(\.item), currency: "EUR").encode(into: &fields)
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
    /// The product in GA4's form, which the exports translate for the other providers.
    var item: Item {
        Item(id: self.id, name: self.name, price: Amount(minor: self.cents))
    }
}
