package import Waybill
package import WaybillCommerce

// Ten events of a small shop: two screens, five of WaybillCommerce (view, add, remove, checkout, purchase), and three of
// its own.

package struct ProductScreen: ScreenEvent {
    let product: Product

    package var screen: ScreenRef? { ScreenRef("Product", type: "ProductView", id: self.product.rawValue) }
    package func encode(into fields: inout Fields) { fields.put("product", self.product.rawValue) }
}

package struct Searched: ActionEvent {
    let term: String
    let resultCount: Int

    package var name: String { "search" }

    package func encode(into fields: inout Fields) {
        fields.put("search_term", self.term)
        fields.put("result_count", self.resultCount)
    }

    package func customize(_ overrides: inout Overrides) { overrides[.mixpanel].name = "Search" }
}

package struct SignedUp: ActionEvent {
    let method: String
    let email: String

    package var name: String { "sign_up" }

    package func encode(into fields: inout Fields) {
        fields.put("method", self.method)
        fields.put("email", private: self.email)
    }
}

package struct Rated: ActionEvent {
    let product: Product
    let stars: Int

    package var name: String { "rate" }

    package func encode(into fields: inout Fields) {
        fields.put("product", self.product.rawValue)
        fields.put("stars", self.stars)
    }
}

/// What the shop sells.
package enum Product: String, CaseIterable, Sendable {
    case toaster, kettle

    package var item: Item {
        switch self {
        case .toaster: Item(id: "p-1", name: "Toaster", price: 39.9, category: "Kitchen")
        case .kettle: Item(id: "p-2", name: "Kettle", price: 24.5, category: "Kitchen")
        }
    }
}
