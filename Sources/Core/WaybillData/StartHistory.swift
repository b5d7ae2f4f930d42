package import WaybillProtocol
internal import WaybillSystem

/// What distinguishes one start of a receiver from all others.
package struct StartSeed: Hashable, Sendable {
    /// The id of the start.
    package let id: UInt64
    /// The incarnation, if one begins with this start.
    package let incarnation: Incarnation

    package init(id: UInt64, incarnation: Incarnation) {
        self.id = id
        self.incarnation = incarnation
    }

    /// Makes one that no other process has.
    package static func random() -> StartSeed {
        StartSeed(id: SystemRandom.seed(), incarnation: Incarnation(SystemRandom.seed(), SystemRandom.seed()))
    }
}

/// The starts of the journal's present incarnation; the head of each segment restates them.
struct StartHistory: Hashable {
    private(set) var incarnation: Incarnation?
    /// Oldest first.
    private(set) var starts: [ReceiverStart] = []

    /// The most starts that a head restates: about 65 KB.
    private static let countMax = 1000

    /// Adds a start that was found in a head.
    mutating func add(_ start: ReceiverStart, of incarnation: Incarnation) {
        if incarnation != self.incarnation { self.starts = [] }
        self.incarnation = incarnation
        self.starts.append(start)
    }

    /// Adds the present start.
    ///
    /// - Parameter isLossy: whether records were lost since the last start: then another incarnation begins.
    mutating func begin(_ seed: StartSeed, at position: JournalPosition, isLossy: Bool) {
        let incarnation = isLossy ? seed.incarnation : self.incarnation ?? seed.incarnation
        self.add(ReceiverStart(id: seed.id, position: UInt64(position.rawValue)), of: incarnation)
        self.starts.removeFirst(max(0, self.starts.count - Self.countMax))
    }

    /// Whether the incarnation began at or after `position`.
    func began(after position: JournalPosition) -> Bool {
        self.starts.first.map { $0.position >= UInt64(position.rawValue) } ?? false
    }

    var messages: [Message] {
        guard let incarnation else { return [] }
        return self.starts.map { .start($0, incarnation) }
    }
}
