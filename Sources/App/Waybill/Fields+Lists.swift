internal import WaybillEvent

/// Fields and traits that are given as literals or dictionaries instead of being put one by one.
extension Fields {
    /// Adds fields in their order; `nil` adds nothing.
    mutating func put(_ fields: KeyValuePairs<String, (any FieldValue)?>) {
        for (name, value) in fields {
            if let value { self.put(name, some: value) }
        }
    }

    /// Adds fields in their order; `nil` adds nothing.
    mutating func put(_ fields: KeyValuePairs<String, (any FieldValue & Sendable)?>) {
        for (name, value) in fields {
            if let value { self.put(name, some: value) }
        }
    }

    /// Adds fields, sorted by name; `nil` adds nothing.
    mutating func put(_ fields: [String: (some FieldValue)?]) {
        for (name, value) in Self.sorted(fields) { self.put(name, value) }
    }

    /// Adds traits in their order; `nil` removes a trait.
    mutating func put(traits: KeyValuePairs<String, Scalar?>) {
        for (name, value) in traits { self.put(trait: name, value) }
    }

    /// Adds traits in their order; `nil` removes a trait.
    mutating func put(traits: KeyValuePairs<String, (any FieldValue)?>) {
        for (name, value) in traits {
            if let value {
                self.put(name, some: value)
            } else {
                self.putNull(name)
            }
        }
    }

    /// Adds traits, sorted by name; `nil` removes a trait.
    mutating func put(traits: [String: (some FieldValue)?]) {
        for (name, value) in Self.sorted(traits) { self.put(trait: name, value) }
    }

    /// Adds numbers that are to be added to traits, in their order.
    mutating func put(amounts: KeyValuePairs<String, any NumberFieldValue>) {
        for (name, amount) in amounts { self.put(amount: name, amount) }
    }

    /// Adds numbers that are to be added to traits, sorted by name.
    mutating func put(amounts: [String: some NumberFieldValue]) {
        for (name, amount) in Self.sorted(amounts) { self.put(amount: name, amount) }
    }

    private mutating func put(trait name: String, _ value: (some FieldValue)?) {
        if let value {
            self.put(name, value)
        } else {
            self.putNull(name)
        }
    }

    private mutating func put(_ name: String, some value: some FieldValue) {
        self.put(name, value)
    }

    /// A dictionary has no order of its own, but equal events must have equal lines.
    private static func sorted<Value>(_ fields: [String: Value]) -> [(key: String, value: Value)] {
        fields.sorted { $0.key < $1.key }
    }
}
