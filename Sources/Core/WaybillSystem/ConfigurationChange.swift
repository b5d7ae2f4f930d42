/// A configuration key whose value a reload found changed.
package struct ConfigurationChange: Hashable, Sendable, CustomStringConvertible {
    package let key: String
    package let old: String
    package let new: String
    /// Whether the new value needs a restart.
    package let needsRestart: Bool

    package init(key: String, old: String, new: String, needsRestart: Bool) {
        self.key = key
        self.old = old
        self.new = new
        self.needsRestart = needsRestart
    }

    package var description: String { "\(self.key): \(self.old) -> \(self.new)" }
}

/// How often a program's configuration was reloaded, by the outcome.
package struct ReloadCounts: Hashable, Sendable {
    package enum Outcome: String, Hashable, Sendable, CaseIterable {
        case taken
        /// Some changes need a restart.
        case partial
        case refused
    }

    private var counts: [Outcome: Int] = [:]

    package init() {}

    package subscript(outcome: Outcome) -> Int { self.counts[outcome] ?? 0 }

    package mutating func count(_ outcome: Outcome) {
        self.counts[outcome, default: 0] += 1
    }

    /// Counts a reload with these changes.
    package mutating func count(_ changes: [ConfigurationChange]) {
        self.count(changes.contains(where: \.needsRestart) ? .partial : .taken)
    }
}
