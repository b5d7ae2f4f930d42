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
    package var taken = 0
    /// Some changes need a restart.
    package var partial = 0
    package var refused = 0

    package init() {}

    /// Counts a reload with these changes.
    package mutating func count(_ changes: [ConfigurationChange]) {
        if changes.contains(where: \.needsRestart) { self.partial += 1 } else { self.taken += 1 }
    }
}
