import Observation
package import Waybill
package import WaybillCommerce

/// The model of the shop's views, which tracks what the user does.
@Observable
package final class StoreModel {
    package private(set) var cart: [Item] = []
    @ObservationIgnored private let waybill: WaybillClient

    package init(_ waybill: WaybillClient) {
        self.waybill = waybill
    }

    package func open(_ product: Product? = nil) {
        guard let product else {
            self.waybill.screen("Home", type: "HomeView")
            return
        }
        self.waybill.track(ProductScreen(product: product))
        self.waybill.track(ViewItem(items: [product.item], currency: "EUR"))
    }

    package func search(_ term: String) -> [Product] {
        let found = Product.allCases.filter { $0.rawValue.contains(term) }
        self.waybill.track(Searched(term: term, resultCount: found.count))
        return found
    }

    package func add(_ product: Product) {
        self.cart.append(product.item)
        self.waybill.track(AddToCart(items: [product.item], currency: "EUR"))
    }

    package func removeLast() {
        guard let item = self.cart.popLast() else { return }
        self.waybill.track(RemoveFromCart(items: [item], currency: "EUR"))
    }

    package func order(_ id: String) {
        self.waybill.track(BeginCheckout(items: self.cart, currency: "EUR"))
        self.waybill.track(Purchase(transactionID: id, items: self.cart, currency: "EUR", tax: 6.37, shipping: 4.9))
        self.cart = []
    }

    package func signUp(_ user: String, email: String) {
        self.waybill.setUser(user, traits: ["plan": "free"])
        self.waybill.track(SignedUp(method: "email", email: email))
    }

    package func rate(_ product: Product, stars: Int) {
        self.waybill.track(Rated(product: product, stars: stars))
    }
}
