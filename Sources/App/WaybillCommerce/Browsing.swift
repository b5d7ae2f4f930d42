public import WaybillEvent

/// A list of items was shown, such as a category or the result of a search.
public struct ViewItemList: Event {
    /// The list's id.
    public var listID: String?
    /// The list's name.
    public var listName: String?
    /// The items in the list's order.
    public var items: [Item]
    /// The currency, a code of ISO 4217 such as "EUR".
    public var currency: String

    /// Creates the event.
    public init(listID: String? = nil, listName: String? = nil, items: [Item], currency: String) {
        self.listID = listID
        self.listName = listName
        self.items = items
        self.currency = currency
    }

    /// The name, `view_item_list`.
    public var name: String { "view_item_list" }

    /// Adds the fields that exports map.
    public func encode(into fields: inout Fields) {
        fields.put("item_list_id", self.listID)
        fields.put("item_list_name", self.listName)
        Item.put(self.items, self.currency, into: &fields)
    }
}

/// An item was selected in a list.
public struct SelectItem: ActionEvent {
    /// The list's id.
    public var listID: String?
    /// The list's name.
    public var listName: String?
    /// The item.
    public var items: [Item]
    /// The currency, a code of ISO 4217 such as "EUR".
    public var currency: String

    /// Creates the event.
    public init(listID: String? = nil, listName: String? = nil, items: [Item], currency: String) {
        self.listID = listID
        self.listName = listName
        self.items = items
        self.currency = currency
    }

    /// The name, `select_item`.
    public var name: String { "select_item" }

    /// Adds the fields that exports map.
    public func encode(into fields: inout Fields) {
        fields.put("item_list_id", self.listID)
        fields.put("item_list_name", self.listName)
        Item.put(self.items, self.currency, into: &fields)
    }
}

/// An item's own page was shown.
public struct ViewItem: Event {
    /// The item.
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

    /// The name, `view_item`.
    public var name: String { "view_item" }

    /// Adds the fields that exports map.
    public func encode(into fields: inout Fields) {
        Item.put(self.items, self.currency, value: self.value, into: &fields)
    }
}

/// An item was put on a wish list.
public struct AddToWishlist: ActionEvent {
    /// The item.
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

    /// The name, `add_to_wishlist`.
    public var name: String { "add_to_wishlist" }

    /// Adds the fields that exports map.
    public func encode(into fields: inout Fields) {
        Item.put(self.items, self.currency, value: self.value, into: &fields)
    }
}
