public import WaybillEvent

/// Money was given back: negative revenue, at every provider that counts it.
public struct Refund: Event {
    /// The order's id, which no other order has.
    public var transactionID: String
    /// The amount, a positive number.
    public var value: Amount
    /// The currency, a code of ISO 4217 such as "EUR".
    public var currency: String
    /// What was given back; empty for the whole order.
    public var items: [Item]
    /// The tax that was given back, not part of the value.
    public var tax: Amount?
    /// The cost of shipping that was given back, not part of the value.
    public var shipping: Amount?
    /// A coupon for the whole order.
    public var coupon: String?

    /// Creates the event.
    public init(
        transactionID: String, value: Amount, currency: String, items: [Item] = [], tax: Amount? = nil,
        shipping: Amount? = nil, coupon: String? = nil
    ) {
        self.transactionID = transactionID
        self.value = value
        self.currency = currency
        self.items = items
        self.tax = tax
        self.shipping = shipping
        self.coupon = coupon
    }

    /// The name, `refund`.
    public var name: String { "refund" }

    /// Adds the fields that exports map.
    public func encode(into fields: inout Fields) {
        fields.put("transaction_id", self.transactionID)
        fields.put("tax", self.tax)
        fields.put("shipping", self.shipping)
        fields.put("coupon", self.coupon)
        Item.put(self.items, self.currency, value: self.value, into: &fields)
    }
}
