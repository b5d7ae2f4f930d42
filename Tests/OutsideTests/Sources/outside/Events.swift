import Waybill

struct Item: Sendable {
    let id: String
    let price: Int
}

struct ItemTapped: ActionEvent {
    static let logVersion = "1.1"

    let item: Item
    let coupon: String?
    let email: String

    var name: String { "Item Tapped" }
    var screen: ScreenRef? { ScreenRef("Shop", type: "ShopView", id: "s-1") }

    func encode(into fields: inout Fields) {
        fields.put("id", self.item.id)
        fields.put("price", self.item.price)
        fields.put("coupon", self.coupon)
        fields.put("email", private: self.email)
        fields.putNull("note")
        fields.put("ratio", 0.5)
        fields.put("big", Int64(1) << 40)
        fields.put("count", UInt64(3))
        fields.put("new", true)
        fields.put("tags", ["a", "b"])
        fields.put("address") { $0.put("city", "Seoul") }
        fields.put("items", objects: [self.item]) { fields, item in fields.put("id", item.id) }
    }

    func customize(_ overrides: inout Overrides) {
        overrides[.ga4].name = "select_item"
        overrides[.ga4].replaceAll { $0.put("item_id", self.item.id) }
        overrides[.flurry].skip = true
    }
}

struct ShopScreen: ScreenEvent, FieldlessEvent {}

struct ListScrolled: FieldlessEvent {
    var name: String { "list_scroll" }
}

extension ProviderID {
    /// Defined by the receiver's operator.
    static let warehouse = ProviderID("warehouse")
}

/// A value of the app's own that fields can have.
enum Color: String, ScalarFieldValue {
    case red

    func append(to fields: inout Fields) {
        self.rawValue.append(to: &fields)
    }
}
