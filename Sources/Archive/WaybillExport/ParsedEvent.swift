internal import WaybillJSON

/// A parsed line: the entries of its tape, and the tape index of each ``EventField``'s value.
struct ParsedEvent {
    let entries: UnsafeBufferPointer<JSONEntry>
    let slots: UnsafePointer<UInt32>
    let mayHaveFaults: Bool
}

/// An iterator over an event's fields.
package struct EventFields {
    private var members: JSONMembers?
    /// The members of a foreign line itself, which follow.
    private var lineMembers: JSONMembers?

    init(members: JSONMembers?, lineMembers: JSONMembers?) {
        self.members = members
        self.lineMembers = lineMembers
    }

    /// Tape indices of the next field's key and value.
    @inline(__always)
    package mutating func next(in event: borrowing MappedEvent) -> (key: Int, value: Int)? {
        if let field = self.members?.next(in: event.tape) { return field }
        while let field = self.lineMembers?.next(in: event.tape) {
            if event.isForeignField(key: field.key, value: field.value) { return field }
        }
        return nil
    }
}
