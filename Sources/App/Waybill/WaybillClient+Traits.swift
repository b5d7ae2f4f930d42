public import WaybillEvent

/// Traits that are set once, and numbers that are added to traits.
///
///     waybill.setTraitsOnce(["first_seen": "2025-03-01"])
///     waybill.incrementTrait("visits")
///     waybill.incrementTraits(["orders": 1, "spent": 39.9])
///
/// Each call stores an event of kind ``EventKind/user``; the client keeps no traits. What a trait has is known to the
/// providers alone, and those that cannot set once or add leave such changes out.
extension WaybillClient {
    /// Sets traits of the current user that have no value yet; a trait that is `nil` is left out.
    @discardableResult
    public func setTraitsOnce(_ traits: KeyValuePairs<String, (any FieldValue)?>) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(.setOnce, rules, salt) { $0.put(traits) } }
    }

    /// Sets traits of the current user that have no value yet, from a dictionary, sorted by name.
    @_disfavoredOverload  // A literal is not a dictionary, so that it keeps its order.
    @discardableResult
    public func setTraitsOnce(_ traits: [String: (some FieldValue)?]) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(.setOnce, rules, salt) { $0.put(traits) } }
    }

    /// Sets traits of one of a server's visitors that have no value yet; a trait that is `nil` is left out.
    @discardableResult
    public func setTraitsOnce(
        _ traits: KeyValuePairs<String, (any FieldValue)?>, of visitor: Visitor
    ) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(.setOnce, rules, salt, by: visitor) { $0.put(traits) } }
    }

    /// Adds a number to a trait of the current user; a negative one subtracts.
    ///
    /// Integers are stored exactly. One above 2^53 and a number that is not finite are left out, and counted in
    /// ``FieldRepairs/nonFinite``. A trait without a value counts as 0.
    @discardableResult
    public func incrementTrait(_ name: String, by amount: some NumberFieldValue = 1) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(.add, rules, salt) { $0.put(amount: name, amount) } }
    }

    /// Adds a number to a trait of one of a server's visitors; a negative one subtracts.
    @discardableResult
    public func incrementTrait(
        _ name: String, by amount: some NumberFieldValue = 1, of visitor: Visitor
    ) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(.add, rules, salt, by: visitor) { $0.put(amount: name, amount) } }
    }

    /// Adds numbers to traits of the current user, in one event; negative ones subtract.
    @discardableResult
    public func incrementTraits(_ amounts: KeyValuePairs<String, any NumberFieldValue>) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(.add, rules, salt) { $0.put(amounts: amounts) } }
    }

    /// Adds numbers to traits of the current user, from a dictionary, sorted by name.
    @_disfavoredOverload
    @discardableResult
    public func incrementTraits(_ amounts: [String: some NumberFieldValue]) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(.add, rules, salt) { $0.put(amounts: amounts) } }
    }

    /// Adds numbers to traits of one of a server's visitors, in one event; negative ones subtract.
    @discardableResult
    public func incrementTraits(
        _ amounts: KeyValuePairs<String, any NumberFieldValue>, of visitor: Visitor
    ) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(.add, rules, salt, by: visitor) { $0.put(amounts: amounts) } }
    }
}
