package import WaybillData
internal import WaybillJSON

/// What a receiver, or a merger, says about itself at `/status`.
package struct ReceiverReport {
    /// What a projection has made of its lines since the receiver started.
    struct Projection {
        let name: String
        var exported = 0
        var held = 0
        var refused: [String: Int] = [:]
        var skipped: [String: Int] = [:]
        var quarantined: [String: Int] = [:]
        var unaccounted = 0
        var pending = 0
    }

    /// Up to where the journal is durable.
    package let journalEnd: JournalPosition
    let projections: [Projection]
    /// The agents as the receiver wrote them.
    let agents: [[UInt8]]

    /// Reads an answer; `nil` if it is not one.
    package init?(_ bytes: [UInt8]) {
        guard let json = JSONValue(bytes), let end = json["journal_end"]?.count,
            let projections = json["projections"]?.elements
        else { return nil }
        self.journalEnd = JournalPosition(end)
        // A merger has none.
        self.agents = (json["agents"]?.elements ?? []).map { Array(bytes[$0.range]) }
        self.projections = projections.compactMap { json in
            guard let name = json["name"]?.string else { return nil }
            return Projection(
                name: name, exported: json["exported"]?.count ?? 0, held: json["held"]?.integer ?? 0,
                refused: json["refused"]?.counts ?? [:], skipped: json["skipped"]?.counts ?? [:],
                quarantined: json["quarantined"]?.counts ?? [:], unaccounted: json["unaccounted"]?.integer ?? 0,
                pending: json["pending"]?.count ?? 0)
        }
    }
}
