internal import WaybillJSON

/// A parsed line: the entries of its tape, and the tape index of each ``EventField``'s value.
struct ParsedEvent {
    let entries: UnsafeBufferPointer<JSONEntry>
    let slots: UnsafePointer<UInt32>
    let mayHaveFaults: Bool
}

/// An iterator over an event's fields.
struct EventFields {
    private var members: JSONMembers?
    private let isTopLevel: Bool

    init(members: JSONMembers?, isTopLevel: Bool) {
        self.members = members
        self.isTopLevel = isTopLevel
    }

    /// Tape indices of the next field's key and value.
    @inline(__always)
    mutating func next(in event: borrowing MappedEvent) -> (key: Int, value: Int)? {
        while let field = self.members?.next(in: event.tape) {
            if !self.isTopLevel || event.isForeignField(key: field.key, value: field.value) { return field }
        }
        return nil
    }
}
