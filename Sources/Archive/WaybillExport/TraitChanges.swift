internal import WaybillEvent
internal import WaybillJSON

/// What a `user` event does to the user's traits.
///
///     {"traits":{"tier":"PREMIUM","age":null},"traits_once":{"first_seen":"2025-03-01"},"traits_add":{"visits":1}}
///               |<---- set ---->| |<unset>|                 |<------ setOnce -------->|              |< add >|
///
/// A null that is set once means nothing, and only numbers can be added: other values are left out and counted.
enum TraitOperation {
    case set, unset, setOnce, add

    fileprivate var field: EventField {
        switch self {
        case .set, .unset: .traits
        case .setOnce: .traitsOnce
        case .add: .traitsAdd
        }
    }

    fileprivate func includes(_ kind: JSONKind) -> Bool {
        switch self {
        case .set, .setOnce: kind != .null
        case .unset: kind == .null
        case .add: kind == .number
        }
    }
}

/// An iterator over the traits that a `user` event changes in one way.
struct ChangedTraits {
    private var members: EventFields
    private let operation: TraitOperation

    fileprivate init(_ members: EventFields, _ operation: TraitOperation) {
        self.members = members
        self.operation = operation
    }

    /// Tape indices of the next trait's key and value.
    mutating func next(in event: borrowing MappedEvent) -> (key: Int, value: Int)? {
        while let member = self.members.next(in: event) {
            if self.operation.includes(event.tape[member.value].kind) { return member }
        }
        return nil
    }
}

extension MappedEvent {
    /// Iterates over the traits that the event changes in one way.
    func traits(_ operation: TraitOperation) -> ChangedTraits {
        ChangedTraits(self.members(of: self.object(operation.field)), operation)
    }

    /// Whether the event changes a trait in this way.
    func hasTraits(_ operation: TraitOperation) -> Bool {
        var traits = self.traits(operation)
        return traits.next(in: self) != nil
    }

    /// Whether it is a `user` event that changes traits, but none in a way that the provider takes.
    ///
    /// - Parameter takesOnce: whether the provider can set a trait once.
    func hasOnlyOtherTraits(takesOnce: Bool) -> Bool {
        guard self.kind == .user, !self.hasTraits(.set), !self.hasTraits(.unset) else { return false }
        let hasOnce = self.hasTraits(.setOnce)
        return hasOnce ? !takesOnce : self.hasTraits(.add)
    }
}

extension Draft {
    /// Counts the traits that no provider can take: those without a value to set once, and those to which no number is
    /// added.
    mutating func countUselessTraits(of event: borrowing MappedEvent) {
        var once = event.members(of: event.object(.traitsOnce))
        while let (_, value) = once.next(in: event) {
            if event.tape[value].kind == .null { self.fixes.count(.dropNull) }
        }
        var added = event.members(of: event.object(.traitsAdd))
        while let (_, value) = added.next(in: event) {
            if event.tape[value].kind != .number { self.fixes.count(.dropField) }
        }
    }

    /// Counts the traits that the provider cannot change in this way.
    mutating func dropTraits(_ operation: TraitOperation, of event: borrowing MappedEvent) {
        var traits = event.traits(operation)
        while traits.next(in: event) != nil { self.fixes.count(.dropField) }
    }
}
