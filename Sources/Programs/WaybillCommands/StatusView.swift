import WaybillJSON
import WaybillHost

/// The status of receivers and agents as lines of text: a summary of each, and its tables.
struct StatusView {
    /// The columns of the screen; `nil` for no limit.
    var width: Int?
    /// Rows of each table.
    var rowCountMax = Int.max
    var order = StatusTable.Order.worst

    /// - Parameter place: where it answers.
    func lines(of document: StatusDocument, at place: String, rates: StatusRates = StatusRates()) -> [StatusLine] {
        var lines = [self.title(document, place)]
        for problem in document.json["problems"]?.elements ?? [] {
            guard let text = problem.string else { continue }
            lines.append(
                StatusLine(
                    text: "! \(TerminalText.escaped(text))", style: document.health == .down ? .failure : .warning))
        }
        let tables: [StatusTable]
        switch document.part {
        case .receiver:
            lines.append(StatusLine(text: Self.receiverSummary(document, rates)))
            tables = [Self.agents(document, rates), Self.projections(document), Self.disk(document)]
        case .agent:
            lines.append(StatusLine(text: Self.agentSummary(document, rates)))
            tables = [Self.files(document)]
        case .deliver:
            lines.append(StatusLine(text: "\(HumanText.count(document.lineCount)) events sent"))
            tables = [Self.deliveries(document)]
        case .merger:
            lines.append(StatusLine(text: Self.mergerSummary(document, rates)))
            tables = [
                Self.missing(document), Self.chains(document), Self.projections(document), Self.disk(document),
            ]
        case .ingest:
            lines.append(StatusLine(text: Self.doorSummary(document, rates)))
            if let line = Self.line(document) { lines.append(StatusLine(text: line)) }
            tables = [Self.keys(document)]
        }
        for table in tables {
            let rows = table.lines(width: self.width, countMax: self.rowCountMax, by: self.order)
            if !rows.isEmpty { lines += [StatusLine(text: "")] + rows }
        }
        return lines.fitted(to: self.width)
    }

    /// A place that gave no status.
    func lines(ofFailure failure: String, at place: String) -> [StatusLine] {
        let text = "\(TerminalText.escaped(place)): down: \(TerminalText.escaped(failure))"
        return [StatusLine(text: text, style: .failure)].fitted(to: self.width)
    }

    private func title(_ document: StatusDocument, _ place: String) -> StatusLine {
        let name = document.text("name") ?? "?"
        let software = document.text("software").map { " (\($0))" } ?? ""
        let up = max(0, document.time - document.count("started")) / 1000
        let text =
            "\(document.part.rawValue) \(name)\(software) at \(TerminalText.escaped(place)): "
            + "\(document.health.rawValue), up \(HumanText.seconds(up))"
        return StatusLine(text: text, style: .init(document.health))
    }

    // MARK: Receiver

    private static func receiverSummary(_ document: StatusDocument, _ rates: StatusRates) -> String {
        var parts = ["\(HumanText.count(document.lineCount)) lines since the start"]
        if let lines = rates.lines { parts.append("\(HumanText.count(lines)) lines/s") }
        parts.append("journal \(HumanText.bytes(document.count("journal_end")))")
        let agents = document.count("connected")
        parts.append(HumanText.count(agents, "agent"))
        if let store = document.json["store"], store.kind == .object {
            let seconds = document.count("unstored_seconds", of: store)
            parts.append(
                "\(HumanText.bytes(document.count("unstored_bytes", of: store))) not in the bucket"
                    + (seconds > 0 ? " for \(HumanText.seconds(seconds))" : ""))
        }
        return (parts + Self.space(document)).joined(separator: ", ")
    }

    static func space(_ document: StatusDocument) -> [String] {
        guard let disk = document.json["disk"], let free = document.optionalCount("free", of: disk) else { return [] }
        return [
            "disk \(HumanText.bytes(free)) free of \(HumanText.bytes(document.count("total", of: disk))), "
                + "\(HumanText.bytes(document.count("reserve", of: disk))) reserved"
        ]
    }

    static func agents(_ document: StatusDocument, _ rates: StatusRates) -> StatusTable {
        let rows = document.objects("agents").map { agent -> StatusTable.Row in
            let name = document.text("name", of: agent) ?? "?"
            let rate =
                rates.byAgent[agent["name"]?.string ?? ""] ?? document.count("lines_per_second", of: agent)
            let silence = max(0, document.time - document.count("last_heard", of: agent)) / 1000
            let clock = document.optionalCount("clock_difference_ms", of: agent)
            // A clock that is a minute wrong gives events wrong times.
            let isOff = (clock?.magnitude ?? 0) > 60_000
            return StatusTable.Row(
                cells: [
                    name, document.text("principal", of: agent) ?? "-", document.text("address", of: agent) ?? "-",
                    document.text("software", of: agent) ?? "-",
                    HumanText.seconds(max(0, document.time - document.count("since", of: agent)) / 1000),
                    HumanText.count(rate), HumanText.seconds(silence) + " ago",
                    clock.map { HumanText.difference(milliseconds: $0) } ?? "-",
                    HumanText.count(document.count("streams", of: agent)),
                ], health: isOff ? .degraded : .ok, name: name, behind: silence, rate: rate)
        }
        return StatusTable(
            columns: [
                .init(name: "AGENT"), .init(name: "PRINCIPAL"), .init(name: "ADDRESS"), .init(name: "SOFTWARE"),
                .init(name: "SINCE", isNumber: true), .init(name: "LINES/S", isNumber: true),
                .init(name: "HEARD", isNumber: true), .init(name: "CLOCK", isNumber: true),
                .init(name: "STREAMS", isNumber: true),
            ], rows: rows, unlistedCount: max(0, document.count("connected") - rows.count))
    }

    static func projections(_ document: StatusDocument) -> StatusTable {
        let rows = document.objects("projections").map { projection -> StatusTable.Row in
            let name = document.text("name", of: projection) ?? "?"
            let state = document.text("state", of: projection) ?? "?"
            let behind = document.count("behind_bytes", of: projection)
            let seconds = document.optionalCount("behind_seconds", of: projection)
            let written = document.count("archived", of: projection) + document.count("exported", of: projection)
            let refused = (projection["refused"]?.counts ?? [:]).merging(
                projection["quarantined"]?.counts ?? [:], uniquingKeysWith: +)
            let open = document.optionalCount("open_parts", of: projection)
            return StatusTable.Row(
                cells: [
                    name, document.text("error", of: projection).map { "\(state) (\($0))" } ?? state,
                    HumanText.bytes(behind), seconds.map(HumanText.seconds) ?? "?", HumanText.count(written),
                    HumanText.count(refused.values.reduce(0, +)), open.map(HumanText.count) ?? "-",
                    Self.reasons(refused),
                ], health: state == "failing" ? .down : state == "ok" ? .ok : .degraded, name: name, behind: behind,
                rate: written)
        }
        return StatusTable(
            columns: [
                .init(name: "PROJECTION"), .init(name: "STATE"), .init(name: "BEHIND", isNumber: true),
                .init(name: "FOR", isNumber: true), .init(name: "WRITTEN", isNumber: true),
                .init(name: "REFUSED", isNumber: true), .init(name: "OPEN PARTS", isNumber: true),
                .init(name: "REASONS"),
            ], rows: rows)
    }

    static func disk(_ document: StatusDocument) -> StatusTable {
        let parts = document.json["disk"].map { document.objects("parts", of: $0) } ?? []
        let rows = parts.map { part -> StatusTable.Row in
            let name = document.text("name", of: part) ?? "?"
            let byteCount = document.count("bytes", of: part)
            return StatusTable.Row(
                cells: [name, HumanText.bytes(byteCount), HumanText.count(document.count("files", of: part))],
                name: name, behind: byteCount, rate: byteCount)
        }
        return StatusTable(
            columns: [.init(name: "DISK"), .init(name: "SIZE", isNumber: true), .init(name: "FILES", isNumber: true)],
            rows: rows)
    }

    // MARK: Agent

    private static func agentSummary(_ document: StatusDocument, _ rates: StatusRates) -> String {
        var parts: [String] = []
        if document.json["connected"]?.bool == true, let receiver = document.text("receiver") {
            let since = document.optionalCount("since").map { max(0, document.time - $0) / 1000 } ?? 0
            let address = document.text("address") ?? "?"
            parts.append("connected to \(receiver) at \(address) for \(HumanText.seconds(since))")
        } else {
            parts.append("not connected: \(document.text("last_error") ?? "no receiver has answered yet")")
        }
        parts.append("\(HumanText.count(document.lineCount)) lines sent")
        if let lines = rates.lines { parts.append("\(HumanText.count(lines)) lines/s") }
        parts.append("\(HumanText.bytes(document.count("behind_bytes"))) behind")
        let lost = document.count("lost_bytes")
        if lost > 0 { parts.append("\(HumanText.bytes(lost)) lost") }
        let lag = document.count("look_lag_seconds")
        if lag > 2 { parts.append("files last looked at \(HumanText.seconds(lag)) ago") }
        for mount in document.objects("hanging") {
            let (files, sources) = (document.count("files", of: mount), document.count("sources", of: mount))
            parts.append(
                "\(document.text("path", of: mount) ?? "?") has not answered for "
                    + HumanText.seconds(document.count("seconds", of: mount))
                    + " (\(HumanText.count(files, "file")) of \(HumanText.count(sources, "source")) wait)")
        }
        return parts.joined(separator: ", ")
    }

    static func files(_ document: StatusDocument) -> StatusTable {
        let rows = document.objects("files").map { file -> StatusTable.Row in
            let path = document.text("path", of: file) ?? "?"
            let behind = document.count("behind_bytes", of: file)
            let error = document.text("error", of: file)
            let isBad =
                error != nil
                || ["disputed", "unreadable", "gone", "refused"].contains(document.text("state", of: file))
            return StatusTable.Row(
                cells: [
                    path, document.optionalCount("size", of: file).map(HumanText.bytes) ?? "-",
                    HumanText.bytes(document.count("acknowledged", of: file)), HumanText.bytes(behind),
                    document.optionalCount("behind_seconds", of: file).map(HumanText.seconds) ?? "-",
                    document.text("state", of: file) ?? "?", error ?? "",
                ], health: isBad ? .degraded : .ok, name: path, behind: behind,
                rate: document.count("behind_seconds", of: file))
        }
        let unread = document.objects("files").filter { $0["size"]?.integer == nil }.count
        return StatusTable(
            columns: [
                .init(name: "FILE", isPath: true), .init(name: "SIZE", isNumber: true),
                .init(name: "ACKED", isNumber: true), .init(name: "BEHIND", isNumber: true),
                .init(name: "FOR", isNumber: true), .init(name: "STATE"), .init(name: "ERROR"),
            ], rows: rows, unlistedCount: max(0, document.count("followed") + unread - rows.count))
    }

    // MARK: Deliveries

    static func deliveries(_ document: StatusDocument) -> StatusTable {
        let rows = document.objects("deliveries").map { delivery -> StatusTable.Row in
            let name = document.text("name", of: delivery) ?? "?"
            let state = document.text("state", of: delivery) ?? "?"
            let oldest = document.optionalCount("oldest_unsent_s", of: delivery)
            let success = document.optionalCount("last_success", of: delivery)
            let refused = (delivery["refused"]?.counts ?? [:]).values.reduce(0, +)
            return StatusTable.Row(
                cells: [
                    name, document.text("provider", of: delivery) ?? "?", state,
                    HumanText.count(document.count("sent", of: delivery)), HumanText.count(refused),
                    HumanText.count(document.count("waiting", of: delivery)),
                    HumanText.count(document.count("open", of: delivery)), oldest.map(HumanText.seconds) ?? "-",
                    success.map { HumanText.seconds(max(0, document.time - $0) / 1000) + " ago" } ?? "-",
                ], health: document.objects("problems", of: delivery).isEmpty ? .ok : .degraded, name: name,
                behind: oldest ?? 0, rate: document.count("sent", of: delivery))
        }
        return StatusTable(
            columns: [
                .init(name: "DELIVERY"), .init(name: "PROVIDER"), .init(name: "STATE"),
                .init(name: "SENT", isNumber: true), .init(name: "REFUSED", isNumber: true),
                .init(name: "WAITING", isNumber: true), .init(name: "OPEN", isNumber: true),
                .init(name: "OLDEST", isNumber: true), .init(name: "ACCEPTED", isNumber: true),
            ], rows: rows)
    }
}
