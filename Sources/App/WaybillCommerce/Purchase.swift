public import WaybillEvent

/// Items were bought: revenue, at every provider that counts it.
public struct Purchase: Event {
    /// The order's id, which no other order has.
    public var transactionID: String
    /// What was bought.
    public var items: [Item]
    /// The currency, a code of ISO 4217 such as "EUR".
    public var currency: String
    /// The revenue without tax and shipping; `nil`: the sum of the items' prices.
    public var value: Amount?
    /// The tax, not part of the value.
    public var tax: Amount?
    /// The cost of shipping, not part of the value.
    public var shipping: Amount?
    /// A coupon for the whole order.
    public var coupon: String?
    /// The way of payment, such as "Credit card".
    public var paymentType: String?

    /// Creates the event.
    public init(
        transactionID: String, items: [Item], currency: String, value: Amount? = nil, tax: Amount? = nil,
        shipping: Amount? = nil, coupon: String? = nil, paymentType: String? = nil
    ) {
        self.transactionID = transactionID
        self.items = items
        self.currency = currency
        self.value = value
        self.tax = tax
        self.shipping = shipping
        self.coupon = coupon
        self.paymentType = paymentType
    }

    /// The name, `purchase`.
    public var name: String { "purchase" }

    /// Adds the fields that exports map.
    public func encode(into fields: inout Fields) {
        fields.put("transaction_id", self.transactionID)
        fields.put("tax", self.tax)
        fields.put("shipping", self.shipping)
        fields.put("coupon", self.coupon)
        fields.put("payment_type", self.paymentType)
        Item.put(self.items, self.currency, value: self.value, into: &fields)
    }
}
