import WaybillJSON
import WaybillHost

/// A merger's status.
extension StatusView {
    static func mergerSummary(_ document: StatusDocument, _ rates: StatusRates) -> String {
        var parts = ["round \(HumanText.count(document.count("round")))"]
        let lag = document.count("lag_seconds")
        parts.append(lag > 0 ? "\(HumanText.seconds(lag)) behind" : "nothing behind")
        parts.append("\(HumanText.count(document.lineCount)) lines since the start")
        if let lines = rates.lines { parts.append("\(HumanText.count(lines)) lines/s") }
        for (name, text): (StaticString, String) in [
            ("dropped_lines", "dropped"), ("conflict_lines", "in conflict"), ("unproven_lines", "unproven"),
        ] where document.count(name) > 0 {
            parts.append("\(HumanText.count(document.count(name))) \(text)")
        }
        let damaged = document.count("damaged_bytes")
        if damaged > 0 { parts.append("\(HumanText.bytes(damaged)) damaged") }
        parts.append("journal \(HumanText.bytes(document.count("journal_end")))")
        if let published = document.json["published"] {
            parts.append("\(HumanText.count(document.count("created", of: published))) files published")
            let different = document.count("different", of: published)
            if different > 0 { parts.append("\(HumanText.count(different)) differ") }
        }
        return (parts + Self.space(document)).joined(separator: ", ")
    }

    /// The journals of receivers, those that are silent first.
    static func chains(_ document: StatusDocument) -> StatusTable {
        let rows = document.objects("chains").map { chain -> StatusTable.Row in
            let name = document.text("chain", of: chain) ?? "?"
            let silence = document.optionalCount("heard", of: chain).map { max(0, document.time - $0) / 1000 }
            let isStale = chain["stale"]?.bool == true
            return StatusTable.Row(
                cells: [
                    name, HumanText.bytes(document.count("position", of: chain)),
                    silence.map { HumanText.seconds($0) + " ago" } ?? "-", isStale ? "silent" : "",
                ], health: isStale ? .degraded : .ok, name: name, behind: silence ?? 0,
                rate: document.count("position", of: chain))
        }
        return StatusTable(
            columns: [
                .init(name: "CHAIN"), .init(name: "MERGED", isNumber: true), .init(name: "HEARD", isNumber: true),
                .init(name: "STATE"),
            ], rows: rows.filter { $0.health != .ok } + rows.filter { $0.health == .ok },
            unlistedCount: max(0, document.count("chain_count") - rows.count))
    }

    /// The streams of which bytes are missing.
    static func missing(_ document: StatusDocument) -> StatusTable {
        let rows = document.objects("missing").map { missing -> StatusTable.Row in
            let principal = document.text("principal", of: missing).map { "\($0)/" } ?? ""
            let name = principal + (document.text("stream", of: missing) ?? "?")
            let byteCount = document.count("bytes", of: missing)
            let told = (missing["told"]?.elements ?? []).compactMap(\.string).map(TerminalText.escaped)
            return StatusTable.Row(
                cells: [
                    name, HumanText.bytes(byteCount), told.isEmpty ? "-" : told.joined(separator: ", "),
                    document.text("ranges", of: missing) ?? "?",
                ], health: .degraded, name: name, behind: byteCount, rate: byteCount)
        }
        return StatusTable(
            columns: [
                .init(name: "STREAM", isPath: true), .init(name: "MISSING", isNumber: true), .init(name: "TOLD"),
                .init(name: "OFFSETS"),
            ], rows: rows, unlistedCount: max(0, document.count("missing_streams") - rows.count))
    }
}
