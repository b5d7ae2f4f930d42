public import WaybillEvent

/// Calls that take fields as a literal or a dictionary.
///
///     waybill.track("product_tapped", ["id": 3, "name": product.name])
///     waybill.setUser("u-1", traits: profile)
///
/// A literal keeps its order; the fields of a dictionary are sorted by name.
extension WaybillClient {
    /// Stores an event without a type of its own, with these fields; a field that is `nil` is left out.
    @discardableResult
    public func track(_ name: String, _ fields: KeyValuePairs<String, (any FieldValue)?>) -> TrackOutcome {
        self.track(name) { $0.put(fields) }
    }

    /// Stores an event without a type of its own, with these fields; a field that is `nil` is left out.
    @discardableResult
    public func track(
        _ name: String, _ kind: EventKind, _ fields: KeyValuePairs<String, (any FieldValue)?>
    ) -> TrackOutcome {
        self.track(name, kind) { $0.put(fields) }
    }

    /// Stores an event of one of a server's visitors, with these fields; a field that is `nil` is left out.
    @discardableResult
    public func track(
        _ name: String, _ fields: KeyValuePairs<String, (any FieldValue)?>, by visitor: Visitor
    ) -> TrackOutcome {
        self.track(name, by: visitor) { $0.put(fields) }
    }

    /// Stores an event without a type of its own, with the fields of a dictionary, sorted by name.
    @_disfavoredOverload  // A literal is not a dictionary, so that it keeps its order.
    @discardableResult
    public func track(_ name: String, _ fields: [String: (some FieldValue)?]) -> TrackOutcome {
        self.track(name) { $0.put(fields) }
    }

    /// Sets the user for this and all later events, with changed traits; `nil` removes a trait.
    ///
    /// The values have any type that fields can have.
    @discardableResult
    public func setUser(_ id: String?, traits: KeyValuePairs<String, (any FieldValue)?>) -> TrackOutcome {
        self.setUser(id) { $0.put(traits: traits) }
    }

    /// Sets the user for this and all later events, with the traits of a dictionary; `nil` removes a trait.
    @_disfavoredOverload
    @discardableResult
    public func setUser(_ id: String?, traits: [String: (some FieldValue)?]) -> TrackOutcome {
        self.setUser(id) { $0.put(traits: traits) }
    }

    /// Sets traits of the current user; `nil` removes a trait.
    @discardableResult
    public func setTraits(_ traits: KeyValuePairs<String, (any FieldValue)?>) -> TrackOutcome {
        self.setTraits { $0.put(traits: traits) }
    }

    /// Sets traits of the current user from a dictionary; `nil` removes a trait.
    @_disfavoredOverload
    @discardableResult
    public func setTraits(_ traits: [String: (some FieldValue)?]) -> TrackOutcome {
        self.setTraits { $0.put(traits: traits) }
    }

    /// Adds fields to every later screen, action and event, next to those registered before.
    ///
    /// - Returns: `false`, without any change, if all registered fields would exceed 8 KiB or a filter drops them.
    @discardableResult
    public func register(_ fields: KeyValuePairs<String, (any FieldValue)?>) -> Bool {
        self.register { $0.put(fields) }
    }

    /// Adds the fields of a dictionary to every later screen, action and event.
    ///
    /// - Returns: `false`, without any change, if all registered fields would exceed 8 KiB or a filter drops them.
    @_disfavoredOverload
    @discardableResult
    public func register(_ fields: [String: (some FieldValue)?]) -> Bool {
        self.register { $0.put(fields) }
    }
}
