internal import WaybillEvent

/// A product in an event, with GA4's item parameters.
///
///     Item(id: "p-1", name: "Toaster", price: 39.9, quantity: 2, category: "Kitchen")
public struct Item: Hashable, Sendable {
    /// The product's id, `item_id`.
    public var id: String
    /// The product's name, `item_name`.
    public var name: String?
    /// The price of one piece after discounts, in the event's currency.
    public var price: Amount?
    /// The number of pieces.
    public var quantity: Int
    /// The brand, `item_brand`.
    public var brand: String?
    /// The category, `item_category`.
    public var category: String?
    /// The variant, such as a color, `item_variant`.
    public var variant: String?
    /// A coupon for this item.
    public var coupon: String?
    /// What was taken off the price of one piece.
    public var discount: Amount?
    /// The position in a list.
    public var index: Int?

    /// Creates an item.
    public init(
        id: String, name: String? = nil, price: Amount? = nil, quantity: Int = 1, brand: String? = nil,
        category: String? = nil, variant: String? = nil, coupon: String? = nil, discount: Amount? = nil,
        index: Int? = nil
    ) {
        self.id = id
        self.name = name
        self.price = price
        self.quantity = quantity
        self.brand = brand
        self.category = category
        self.variant = variant
        self.coupon = coupon
        self.discount = discount
        self.index = index
    }

    private func encode(into fields: inout Fields) {
        fields.put("item_id", self.id)
        fields.put("item_name", self.name)
        fields.put("item_brand", self.brand)
        fields.put("item_category", self.category)
        fields.put("item_variant", self.variant)
        fields.put("price", self.price)
        fields.put("quantity", self.quantity)
        fields.put("coupon", self.coupon)
        fields.put("discount", self.discount)
        fields.put("index", self.index)
    }
}

extension Item {
    /// Adds `currency`, `value` and `items`.
    ///
    /// - Parameter value: `nil`: the sum of the items' prices; left out if one has none.
    static func put(
        _ items: [Item], _ currency: String, value: Amount? = nil, into fields: inout Fields
    ) {
        fields.put("currency", currency)
        fields.put("value", value ?? Self.total(of: items))
        if !items.isEmpty { fields.put("items", objects: items) { fields, item in item.encode(into: &fields) } }
    }

    private static func total(of items: [Item]) -> Amount? {
        guard !items.isEmpty else { return nil }
        var total: Amount = 0
        for item in items {
            guard let price = item.price else { return nil }
            total = total + price * item.quantity
        }
        return total
    }
}
