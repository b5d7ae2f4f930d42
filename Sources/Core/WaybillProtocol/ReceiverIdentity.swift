/// One making of a receiver's data directory: 128 random bits.
package struct Incarnation: Hashable, Sendable {
    private let bits: Bits128

    /// Makes one of two random numbers.
    package init(_ first: UInt64, _ second: UInt64) {
        self.bits = Bits128(high: first, low: second)
    }

    /// Reads 32 lower-case hexadecimal digits; `nil` for any other text.
    package init?(_ text: some Collection<UInt8>) {
        guard let bits = Bits128(text: text) else { return nil }
        self.bits = bits
    }

    /// 32 lower-case hexadecimal digits.
    package var text: String { self.bits.text }
}

/// One start of a receiver's process, and the journal's position at that moment.
package struct ReceiverStart: Hashable, Sendable {
    /// Random.
    package let id: UInt64
    package let position: UInt64

    package init(id: UInt64, position: UInt64) {
        self.id = id
        self.position = position
    }

    /// 16 lower-case hexadecimal digits.
    package var idText: String { FreeText.hexadecimal(self.id) }
}

/// Which receiver answers, and how far its journal goes: an agent can tell whether the receiver came back older.
package struct ReceiverIdentity: Hashable, Sendable {
    /// The most starts that `READY` names.
    package static let startCountMax = 16

    /// The configured name; for people.
    package let name: String
    package let incarnation: Incarnation
    /// The last starts of this incarnation, oldest first; the last one is the present one.
    package let starts: [ReceiverStart]
    /// The journal's durable end.
    package let end: UInt64

    /// Returns `nil` without a start, or when positions go backwards.
    package init?(name: String, incarnation: Incarnation, starts: [ReceiverStart], end: UInt64) {
        guard let last = starts.last, last.position <= end,
            zip(starts, starts.dropFirst()).allSatisfy({ $0.position <= $1.position })
        else { return nil }
        self.name = name
        self.incarnation = incarnation
        self.starts = starts.suffix(Self.startCountMax)
        self.end = end
    }

    /// The same receiver, whose journal now ends at `end`.
    package func reaching(_ end: UInt64) -> ReceiverIdentity {
        ReceiverIdentity(name: self.name, incarnation: self.incarnation, starts: self.starts, end: end) ?? self
    }

    /// The present start.
    package var start: UInt64 { self.starts[self.starts.count - 1].id }

    /// The name that is unique among receivers and their data directories.
    package var id: String { "\(self.name)~\(self.incarnation.text)" }

    /// Whether everything that the journal held below `end` during the start `id` is still there.
    ///
    /// Every later start is compared: a journal that was put back and then grew past `end` shows it at the start that
    /// followed.
    package func holds(start id: UInt64, end: UInt64) -> Bool {
        guard let index = self.starts.firstIndex(where: { $0.id == id }) else { return false }
        return self.end >= end && self.starts[(index + 1)...].allSatisfy { $0.position >= end }
    }
}
