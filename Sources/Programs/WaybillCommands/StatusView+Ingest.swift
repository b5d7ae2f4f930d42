import WaybillJSON

/// The status of a door: what came, and by which keys.
extension StatusView {
    static func doorSummary(_ document: StatusDocument, _ rates: StatusRates) -> String {
        var parts = ["\(HumanText.count(document.lineCount)) events stored since the start"]
        if let lines = rates.lines { parts.append("\(HumanText.count(lines)) events/s") }
        parts.append("\(HumanText.count(document.count("repeated"))) repeated")
        parts.append("\(HumanText.count(document.count("quarantined"))) in the quarantine")
        let connections = document.count("connections")
        parts.append(HumanText.count(connections, "connection"))
        parts.append("\(HumanText.bytes(document.count("waiting_bytes"))) of bodies")
        let refused = (document.json["refused"]?.counts ?? [:]).filter { $0.value > 0 }
        if !refused.isEmpty { parts.append("refused requests: \(Self.reasons(refused))") }
        return parts.joined(separator: ", ")
    }

    /// How agents reach the receiver; `nil` for a door that no tunnel goes through.
    static func line(_ document: StatusDocument) -> String? {
        guard let line = document.json["line"], line.kind == .object else { return nil }
        var parts: [String] = []
        if let since = document.optionalCount("away_since", of: line) {
            let time = HumanText.seconds(max(0, document.time - since) / 1000)
            parts.append("away for \(time) (\(document.text("away_reason", of: line) ?? "?"))")
        } else {
            parts.append(HumanText.count(document.count("tunnels", of: line), "tunnel"))
        }
        return "tunnels to \(document.text("receiver", of: line) ?? "?"): \(parts.joined(separator: ", "))"
    }

    static func keys(_ document: StatusDocument) -> StatusTable {
        let rows = document.objects("keys").map { key -> StatusTable.Row in
            let name = document.text("key", of: key) ?? "?"
            let stored = document.count("stored", of: key)
            let refused = (key["refused"]?.counts ?? [:]).filter { $0.value > 0 }
            let silence = document.optionalCount("last", of: key).map { max(0, document.time - $0) / 1000 }
            return StatusTable.Row(
                cells: [
                    name, document.text("bundle", of: key) ?? "?", document.text("env", of: key) ?? "?",
                    HumanText.count(stored), HumanText.count(document.count("repeated", of: key)),
                    HumanText.count(document.count("quarantined", of: key)),
                    HumanText.count(refused.values.reduce(0, +)), silence.map { HumanText.seconds($0) + " ago" } ?? "-",
                    Self.reasons(refused),
                ], name: name, behind: refused.values.reduce(0, +), rate: stored)
        }
        return StatusTable(
            columns: [
                .init(name: "KEY"), .init(name: "APP"), .init(name: "ENV"), .init(name: "STORED", isNumber: true),
                .init(name: "REPEATED", isNumber: true), .init(name: "QUARANTINED", isNumber: true),
                .init(name: "REFUSED", isNumber: true), .init(name: "LAST", isNumber: true), .init(name: "REASONS"),
            ], rows: rows)
    }

    static func reasons(_ counts: [String: Int]) -> String {
        counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
            .map { "\(TerminalText.escaped($0.key)) \(HumanText.count($0.value))" }.joined(separator: ", ")
    }
}
