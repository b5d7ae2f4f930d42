public import WaybillEvent

/// Items were put into the cart.
public struct AddToCart: ActionEvent {
    /// What was added.
    public var items: [Item]
    /// The currency, a code of ISO 4217 such as "EUR".
    public var currency: String
    /// The value; `nil`: the sum of the items' prices.
    public var value: Amount?

    /// Creates the event.
    public init(items: [Item], currency: String, value: Amount? = nil) {
        self.items = items
        self.currency = currency
        self.value = value
    }

    /// The name, `add_to_cart`.
    public var name: String { "add_to_cart" }

    /// Adds the fields that exports map.
    public func encode(into fields: inout Fields) {
        Item.put(self.items, self.currency, value: self.value, into: &fields)
    }
}

/// Items were taken out of the cart.
public struct RemoveFromCart: ActionEvent {
    /// What was removed.
    public var items: [Item]
    /// The currency, a code of ISO 4217 such as "EUR".
    public var currency: String
    /// The value; `nil`: the sum of the items' prices.
    public var value: Amount?

    /// Creates the event.
    public init(items: [Item], currency: String, value: Amount? = nil) {
        self.items = items
        self.currency = currency
        self.value = value
    }

    /// The name, `remove_from_cart`.
    public var name: String { "remove_from_cart" }

    /// Adds the fields that exports map.
    public func encode(into fields: inout Fields) {
        Item.put(self.items, self.currency, value: self.value, into: &fields)
    }
}

/// The cart was shown.
public struct ViewCart: Event {
    /// What is in the cart.
    public var items: [Item]
    /// The currency, a code of ISO 4217 such as "EUR".
    public var currency: String
    /// The value; `nil`: the sum of the items' prices.
    public var value: Amount?

    /// Creates the event.
    public init(items: [Item], currency: String, value: Amount? = nil) {
        self.items = items
        self.currency = currency
        self.value = value
    }

    /// The name, `view_cart`.
    public var name: String { "view_cart" }

    /// Adds the fields that exports map.
    public func encode(into fields: inout Fields) {
        Item.put(self.items, self.currency, value: self.value, into: &fields)
    }
}
