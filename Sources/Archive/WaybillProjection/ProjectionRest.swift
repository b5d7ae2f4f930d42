package import WaybillData

/// Whether a projection changes files, as far as its state says.
package enum ProjectionRest {
    /// Prefixes of entries that announce a change of files: days being sealed, parts being closed, days being exchanged,
    /// deleted or erased.
    private static let announcements = ["seal:", "closed:", "switch:", "delete:", "exchange"]

    /// Whether nothing that was announced is left to do.
    package static func isAtRest(_ entries: [String: String]) -> Bool {
        !entries.contains { key, value in !value.isEmpty && Self.announcements.contains { key.hasPrefix($0) } }
    }

    /// How far a projection has read the journal, as its state says.
    package static func position(in entries: [String: String]) -> JournalPosition? {
        entries["position"].flatMap { Int($0) }.map(JournalPosition.init)
    }
}
