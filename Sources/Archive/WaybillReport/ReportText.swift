internal import WaybillJSON

/// Reports as text: a table for people, CSV, or JSON.
package enum ReportText {
    // MARK: Table

    /// The reports as aligned columns; what all of them must say comes once.
    package static func table(_ set: ReportSet) -> String {
        var text = "\(set.range)\n"
        let shared = Self.sharedNotes(set.reports)
        for note in shared { text += "- \(Self.printable(note))\n" }
        for report in set.reports {
            text += "\n\(Self.printable(report.title))\n" + Self.wrapped(Self.printable(report.definition))
            for note in report.notes where !shared.contains(note) { text += "- \(Self.printable(note))\n" }
            text += "\n" + Self.grid(report)
        }
        return text
    }

    static func sharedNotes(_ reports: [Report]) -> [String] {
        guard let first = reports.first else { return [] }
        return first.notes.filter { note in reports.allSatisfy { $0.notes.contains(note) } }
    }

    private static func grid(_ report: Report) -> String {
        guard !report.rows.isEmpty else { return "  (nothing in this range)\n" }
        let cells =
            [report.columns.map { Self.printable($0.name) }]
            + report.rows.map { row in
                zip(row, report.columns).map { Self.printable(Self.person($0, $1.unit)) }
            }
        let widths = report.columns.indices.map { column in cells.map { Self.width($0[column]) }.max() ?? 0 }
        var text = ""
        for (number, row) in cells.enumerated() {
            var line = "  "
            for (column, cell) in row.enumerated() {
                let space = String(repeating: " ", count: widths[column] - Self.width(cell))
                let isText = report.columns[column].unit == .text || report.columns[column].unit == .day
                line += (isText ? cell + space : space + cell) + "  "
            }
            while line.hasSuffix(" ") { line.removeLast() }
            text += line + "\n"
            if number == 0 {
                text += "  " + widths.map { String(repeating: "-", count: $0) }.joined(separator: "  ") + "\n"
            }
        }
        return text
    }

    /// A cell as a person reads it.
    private static func person(_ cell: Report.Cell, _ unit: Report.Unit) -> String {
        switch (cell, unit) {
        case (.number(let share), .share): Self.number((share * 1000).rounded() / 10) + " %"
        case (.number(let seconds), .seconds): Self.number(seconds) + " s"
        case (.number(let milliseconds), .milliseconds): Self.number(milliseconds) + " ms"
        default: Self.plain(cell)
        }
    }

    /// The columns that a text takes in a terminal: wide characters take two.
    private static func width(_ text: String) -> Int {
        text.unicodeScalars.reduce(0) { sum, scalar in
            if scalar.properties.generalCategory == .nonspacingMark { return sum }
            switch scalar.value {
            case 0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF00...0xFF60,
                0xFFE0...0xFFE6, 0x1F300...0x1FAFF, 0x20000...0x3FFFD:
                return sum + 2
            default: return sum + 1
            }
        }
    }

    /// Names come from apps: characters that move a terminal's cursor or turn its text around are replaced.
    private static func printable(_ text: String) -> String {
        String(
            String.UnicodeScalarView(
                text.unicodeScalars.map { scalar in
                    switch scalar.properties.generalCategory {
                    case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate: "\u{FFFD}"
                    default: scalar
                    }
                }))
    }

    private static func wrapped(_ text: String) -> String {
        var lines = [""]
        for word in text.split(separator: " ") {
            if lines[lines.count - 1].count + word.count > 98 { lines.append("") }
            lines[lines.count - 1] += (lines[lines.count - 1].isEmpty ? "" : " ") + word
        }
        return lines.map { "  \($0)\n" }.joined()
    }

    // MARK: CSV

    /// The reports as RFC 4180, one table after the other; lines that begin with `#` explain each.
    package static func csv(_ set: ReportSet) -> String {
        var text = ""
        for report in set.reports {
            if !text.isEmpty { text += "\r\n" }
            for line in ["\(report.title): \(set.range)", report.definition] + report.notes {
                text += "# \(Self.oneLine(line))\r\n"
            }
            text += report.columns.map { Self.field($0.name) }.joined(separator: ",") + "\r\n"
            for row in report.rows { text += row.map { Self.field(Self.plain($0)) }.joined(separator: ",") + "\r\n" }
        }
        return text
    }

    private static func oneLine(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.map { $0.value < 0x20 ? " " : $0 }))
    }

    private static func field(_ text: String) -> String {
        let needsQuotes = text.utf8.contains { $0 == 0x22 || $0 == 0x2C || $0 == 0x0A || $0 == 0x0D || $0 == 0x23 }
        return needsQuotes
            ? "\"" + text.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
            : text
    }

    // MARK: JSON

    /// The reports as one object.
    ///
    /// - Parameter drawing: an SVG element for each report, if it is wanted; `.some(nil)` becomes `null`.
    package static func json(_ set: ReportSet, drawing: ((Report) -> String?)? = nil) -> [UInt8] {
        JSONWriter.object { json in
            json.member("range", set.range)
            json.member("reports", objects: set.reports) { json, report in
                json.member("name", report.name)
                json.member("title", report.title)
                json.member("definition", report.definition)
                json.member("notes", array: report.notes) { $0.string($1) }
                json.member("columns", objects: report.columns) { json, column in
                    json.member("name", column.name)
                    json.member("unit", column.unit.rawValue)
                }
                json.member("rows", array: report.rows) { json, row in
                    json.beginArray()
                    for cell in row { Self.write(cell, to: &json) }
                    json.endArray()
                }
                if let drawing { json.member("svg", drawing(report)) }
            }
            json.member("left_out", array: set.leftOut) { $0.string($1) }
            json.member("damaged", array: set.damagedDays) { $0.string($1) }
        }
    }

    private static func write(_ cell: Report.Cell, to json: inout JSONWriter) {
        switch cell {
        case .text(let text): json.string(text)
        case .count(let count): json.integer(Int64(count))
        case .number(let number):
            Array(Self.number(number).utf8).withUnsafeBytes { json.verbatim($0) }
        case .empty: json.null()
        }
    }

    // MARK: Cells

    private static func plain(_ cell: Report.Cell) -> String {
        switch cell {
        case .text(let text): text
        case .count(let count): String(count)
        case .number(let number): Self.number(number)
        case .empty: ""
        }
    }

    /// A number in as few digits as tell it from others; a whole one without a point.
    private static func number(_ number: Double) -> String {
        Int64(exactly: number).map { String($0) } ?? "\(number)"
    }
}
