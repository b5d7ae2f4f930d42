import WaybillHost

/// A line of the status, as a terminal shows it.
struct StatusLine: Hashable {
    enum Style: Hashable {
        case plain, heading, warning, failure

        /// Of the first line about something.
        init(_ health: Health) {
            switch health {
            case .ok: self = .heading
            case .degraded: self = .warning
            case .down: self = .failure
            }
        }
    }

    var text: String
    var style = Style.plain

    /// With its colour, if there are colours.
    func rendered(isColoured: Bool) -> String {
        guard isColoured else { return self.text }
        switch self.style {
        case .plain: return self.text
        case .heading: return "\u{1B}[1m\(self.text)\u{1B}[0m"
        case .warning: return "\u{1B}[33m\(self.text)\u{1B}[0m"
        case .failure: return "\u{1B}[31m\(self.text)\u{1B}[0m"
        }
    }
}

extension [StatusLine] {
    /// - Parameter width: the columns of the screen; `nil` for no limit.
    func fitted(to width: Int?) -> [StatusLine] {
        guard let width else { return self }
        return self.map { StatusLine(text: TerminalText.prefix($0.text, width: width), style: $0.style) }
    }

    /// Writes them to standard output, with colours where it shows them.
    func print() {
        let isColoured = Terminal.hasColours(1)
        for line in self { Console.write(line.rendered(isColoured: isColoured) + "\n", to: 1) }
    }
}

/// A table of the status: cells of text that is safe to print.
struct StatusTable: Hashable {
    struct Column: Hashable {
        let name: String
        var isNumber = false
        /// A path: what does not fit is left out at its beginning.
        var isPath = false
    }

    struct Row: Hashable {
        var cells: [String]
        var health = Health.ok
        /// What rows are sorted by.
        var name = ""
        var behind = 0
        var rate = 0
    }

    /// The order of rows.
    enum Order: String, CaseIterable {
        /// As they came: those with a problem first.
        case worst
        case name, behind, rate

        var next: Order {
            let all = Self.allCases
            return all[(all.firstIndex(of: self).map { $0 + 1 } ?? 0) % all.count]
        }
    }

    var columns: [Column]
    var rows: [Row]
    /// Rows that the program only counted.
    var unlistedCount = 0

    func sorted(by order: Order) -> [Row] {
        let rows = self.rows.enumerated()
        switch order {
        case .worst: return self.rows
        case .name: return rows.sorted { ($0.element.name, $0.offset) < ($1.element.name, $1.offset) }.map(\.element)
        case .behind:
            return rows.sorted { ($1.element.behind, $0.offset) < ($0.element.behind, $1.offset) }.map(\.element)
        case .rate: return rows.sorted { ($1.element.rate, $0.offset) < ($0.element.rate, $1.offset) }.map(\.element)
        }
    }

    /// - Parameters:
    ///   - width: the columns of the screen; `nil` for no limit.
    ///   - countMax: rows to show; the others are only counted.
    func lines(width: Int?, countMax: Int, by order: Order) -> [StatusLine] {
        guard !self.rows.isEmpty || self.unlistedCount > 0 else { return [] }
        let rows = self.sorted(by: order).prefix(countMax)
        let widths = self.widths(rows, width)
        var lines = [StatusLine(text: self.text(self.columns.map(\.name), widths), style: .heading)]
        lines += rows.map { row in
            StatusLine(
                text: self.text(row.cells, widths),
                style: row.health == .ok ? .plain : .init(row.health))
        }
        let rest = self.rows.count - rows.count + self.unlistedCount
        if rest > 0 { lines.append(StatusLine(text: "… and \(HumanText.count(rest)) more")) }
        return lines.fitted(to: width)
    }

    /// What each column takes; paths give way first, down to 20.
    private func widths(_ rows: some Sequence<Row>, _ width: Int?) -> [Int] {
        var widths = self.columns.map { TerminalText.width($0.name) }
        for row in rows {
            for (index, cell) in row.cells.enumerated() { widths[index] = max(widths[index], TerminalText.width(cell)) }
        }
        guard let width else { return widths }
        var excess = widths.reduce(0, +) + 2 * (widths.count - 1) - width
        for index in self.columns.indices where self.columns[index].isPath && excess > 0 {
            let narrow = max(min(20, widths[index]), widths[index] - excess)
            excess -= widths[index] - narrow
            widths[index] = narrow
        }
        return widths
    }

    private func text(_ cells: [String], _ widths: [Int]) -> String {
        var text = ""
        for (index, cell) in cells.enumerated() {
            let column = self.columns[index]
            let shown = column.isPath ? TerminalText.suffix(cell, width: widths[index]) : cell
            text += TerminalText.padded(shown, to: widths[index], isNumber: column.isNumber)
            if index < cells.count - 1 { text += "  " }
        }
        while text.last == " " { text.removeLast() }
        return text
    }
}
