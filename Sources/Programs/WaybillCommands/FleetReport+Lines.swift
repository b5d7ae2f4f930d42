import WaybillData
import WaybillFleet
import WaybillHost
import WaybillSystem

/// The report as a terminal shows it.
extension FleetReport {
    func lines(width: Int?, rowCountMax: Int) -> [StatusLine] {
        let health = self.health
        var lines = [
            StatusLine(
                text: "fleet \(self.survey?.fleet?.fleet ?? "?") in \(self.store): \(health.rawValue)",
                style: .init(health))
        ]
        lines += self.problems.map {
            StatusLine(text: "! \(TerminalText.escaped($0))", style: health == .down ? .failure : .warning)
        }
        if self.survey != nil { lines.append(StatusLine(text: self.mergingText)) }
        lines += self.answers.compactMap(\.document).map {
            StatusLine(text: "\($0.part.rawValue) \($0.text("name") ?? "?"): \($0.health.rawValue)")
        }
        let tables = [
            Self.table(self.missing, none: "-", ("MISSING", "TOLD"), .degraded),
            Self.table(self.beforeFleet, none: "", ("BEFORE THE FLEET", "IN THE ARCHIVE OF"), .ok), self.chainTable,
        ]
        for table in tables {
            let rows = table.lines(width: width, countMax: rowCountMax, by: .worst)
            if !rows.isEmpty { lines += [StatusLine(text: "")] + rows }
        }
        return lines.fitted(to: width)
    }

    private func ago(_ time: WallTime) -> String {
        HumanText.seconds(Int(max(0, self.time.milliseconds - time.milliseconds) / 1000)) + " ago"
    }

    private var mergingText: String {
        var parts: [String] = []
        for merger in self.survey?.proposers ?? [] {
            parts.append(
                "\(TerminalText.escaped(merger.name)) made round \(HumanText.count(merger.round)) \(self.ago(merger.time))"
            )
        }
        if parts.isEmpty { parts.append("no merger has made a round") }
        if let checkpoint = self.survey?.checkpoint {
            parts.append("the newest checkpoint was made \(self.ago(checkpoint.time))")
        }
        return parts.joined(separator: ", ")
    }

    private var chainTable: StatusTable {
        let rows = self.rows.map { row -> StatusTable.Row in
            let chain = row.chain
            let unstored = row.unstored.map { HumanText.bytes($0.byteCount) }
            let isBad = row.state == .silent || row.state == .behind
            return StatusTable.Row(
                cells: [
                    chain.name.receiver, String(chain.name.description.suffix(16)),
                    chain.uploaded.map { HumanText.bytes($0.rawValue) } ?? "-",
                    row.silence.map { HumanText.seconds($0) + " ago" } ?? "-",
                    chain.merged.map { HumanText.bytes($0.rawValue) } ?? "?",
                    chain.waitingByteCount.map(HumanText.bytes) ?? "?",
                    row.waited.map(HumanText.seconds) ?? "-", unstored ?? "-", row.state.rawValue,
                ], health: isBad ? .degraded : .ok, name: chain.name.description)
        }
        return StatusTable(
            columns: [
                .init(name: "RECEIVER"), .init(name: "CHAIN"), .init(name: "UPLOADED", isNumber: true),
                .init(name: "HEARD", isNumber: true), .init(name: "MERGED", isNumber: true),
                .init(name: "WAITS", isNumber: true), .init(name: "FOR", isNumber: true),
                .init(name: "NOT STORED", isNumber: true), .init(name: "STATE"),
            ], rows: rows)
    }

    /// - Parameters:
    ///   - none: stands for no receiver.
    ///   - names: of the columns with the bytes and the receivers.
    private static func table(
        _ gaps: [Gap], none: String, _ names: (bytes: String, receivers: String), _ health: Health
    ) -> StatusTable {
        let rows = gaps.map { gap in
            let principal = gap.principal.isEmpty ? "" : gap.principal + "/"
            return StatusTable.Row(
                cells: [
                    TerminalText.escaped(principal + gap.stream), HumanText.bytes(gap.byteCount),
                    gap.receivers.isEmpty ? none : TerminalText.escaped(gap.receivers.joined(separator: ", ")),
                    TerminalText.escaped(gap.ranges),
                ], health: health)
        }
        return StatusTable(
            columns: [
                .init(name: "STREAM"), .init(name: names.bytes, isNumber: true), .init(name: names.receivers),
                .init(name: "OFFSETS"),
            ], rows: rows)
    }
}
