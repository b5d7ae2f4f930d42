public import WaybillEvent

/// A checkout began.
public struct BeginCheckout: ActionEvent {
    /// What is in the cart.
    public var items: [Item]
    /// The currency, a code of ISO 4217 such as "EUR".
    public var currency: String
    /// The value; `nil`: the sum of the items' prices.
    public var value: Amount?
    /// A coupon for the whole order.
    public var coupon: String?

    /// Creates the event.
    public init(items: [Item], currency: String, value: Amount? = nil, coupon: String? = nil) {
        self.items = items
        self.currency = currency
        self.value = value
        self.coupon = coupon
    }

    /// The name, `begin_checkout`.
    public var name: String { "begin_checkout" }

    /// Adds the fields that exports map.
    public func encode(into fields: inout Fields) {
        fields.put("coupon", self.coupon)
        Item.put(self.items, self.currency, value: self.value, into: &fields)
    }
}

/// A way of shipping was chosen.
public struct AddShippingInfo: ActionEvent {
    /// What is in the cart.
    public var items: [Item]
    /// The currency, a code of ISO 4217 such as "EUR".
    public var currency: String
    /// The value; `nil`: the sum of the items' prices.
    public var value: Amount?
    /// A coupon for the whole order.
    public var coupon: String?
    /// The way of shipping, such as "Express".
    public var shippingTier: String?

    /// Creates the event.
    public init(
        items: [Item], currency: String, value: Amount? = nil, coupon: String? = nil, shippingTier: String? = nil
    ) {
        self.items = items
        self.currency = currency
        self.value = value
        self.coupon = coupon
        self.shippingTier = shippingTier
    }

    /// The name, `add_shipping_info`.
    public var name: String { "add_shipping_info" }

    /// Adds the fields that exports map.
    public func encode(into fields: inout Fields) {
        fields.put("coupon", self.coupon)
        fields.put("shipping_tier", self.shippingTier)
        Item.put(self.items, self.currency, value: self.value, into: &fields)
    }
}

/// A way of payment was chosen.
public struct AddPaymentInfo: ActionEvent {
    /// What is in the cart.
    public var items: [Item]
    /// The currency, a code of ISO 4217 such as "EUR".
    public var currency: String
    /// The value; `nil`: the sum of the items' prices.
    public var value: Amount?
    /// A coupon for the whole order.
    public var coupon: String?
    /// The way of payment, such as "Credit card".
    public var paymentType: String?

    /// Creates the event.
    public init(
        items: [Item], currency: String, value: Amount? = nil, coupon: String? = nil, paymentType: String? = nil
    ) {
        self.items = items
        self.currency = currency
        self.value = value
        self.coupon = coupon
        self.paymentType = paymentType
    }

    /// The name, `add_payment_info`.
    public var name: String { "add_payment_info" }

    /// Adds the fields that exports map.
    public func encode(into fields: inout Fields) {
        fields.put("coupon", self.coupon)
        fields.put("payment_type", self.paymentType)
        Item.put(self.items, self.currency, value: self.value, into: &fields)
    }
}
