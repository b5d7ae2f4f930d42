/// One report on the page: its words, its chart and its table.
struct HTMLSection {
    /// Columns and notes that are shown; what is left out is counted.
    private static let columnCountMax = 64
    private static let noteCountMax = 20
    private static let noteScalarCountMax = 300
    /// Kept for the sentences about what is left out.
    private static let reservedByteCount = 500

    let anchor: String
    let title: String
    private let report: Report
    private let head: String
    private var chart: String?
    /// Charts that the page has no room for are named.
    private var isChartLeftOut = false
    /// All rows, or as many as a whole page holds.
    private var rows: [String] = []
    private var rowByteCount = 0
    /// How many of them are shown.
    private var rowCount = 0

    /// - Parameter shared: notes that stand at the head of the page.
    init(_ report: Report, number: Int, shared: [String]) {
        var report = report
        report.notes.removeAll { shared.contains($0) }
        self.report = report
        self.anchor = "r\(number)"
        self.title = MarkupText.escaped(report.title, scalarCountMax: 60)
        self.chart = SVGChart.element(of: report)
        self.head = Self.head(report, anchor: self.anchor, title: self.title)
    }

    // MARK: Room

    /// Chooses how many rows each section shows: all of them, or an equal part of what the others leave.
    ///
    /// Where the heads alone are too large, charts go first and then whole sections, the last ones each time.
    static func fit(_ sections: inout [HTMLSection], into room: Int) {
        var left = room - sections.reduce(0) { $0 + $1.fixedByteCount }
        for index in sections.indices.reversed() where left < 0 {
            left += sections[index].removeChart()
        }
        while left < 0, sections.count > 1 {
            left += sections.removeLast().fixedByteCount
        }
        for index in sections.indices { sections[index].makeRows(byteCountMax: max(0, left)) }
        let order = sections.indices.sorted {
            (sections[$0].rowByteCount, $0) < (sections[$1].rowByteCount, $1)
        }
        for (done, index) in order.enumerated() {
            left -= sections[index].takeRows(byteCountMax: max(0, left) / (order.count - done))
        }
    }

    /// Returns how many bytes it took.
    private mutating func removeChart() -> Int {
        guard let chart else { return 0 }
        self.chart = nil
        self.isChartLeftOut = true
        return chart.utf8.count
    }

    private var fixedByteCount: Int {
        self.head.utf8.count + (self.chart?.utf8.count ?? 0) + self.tableStart.utf8.count + Self.reservedByteCount
    }

    private mutating func makeRows(byteCountMax: Int) {
        for row in self.report.rows {
            let markup = self.markup(of: row)
            guard self.rowByteCount + markup.utf8.count <= byteCountMax else { break }
            self.rowByteCount += markup.utf8.count
            self.rows.append(markup)
        }
    }

    private mutating func takeRows(byteCountMax: Int) -> Int {
        var byteCount = 0
        for row in self.rows {
            guard byteCount + row.utf8.count <= byteCountMax else { break }
            byteCount += row.utf8.count
            self.rowCount += 1
        }
        return byteCount
    }

    // MARK: Markup

    var markup: String {
        var text = self.head
        if let chart { text += "<figure tabindex=\"0\" aria-label=\"\(self.title), chart\">\n\(chart)\n</figure>\n" }
        if self.isChartLeftOut { text += "<p class=\"left\">The chart is left out: the page has no room for it.</p>\n" }
        if self.report.rows.isEmpty { return text + "<p class=\"left\">Nothing to show.</p>\n</section>\n" }
        text += self.tableStart
        for row in self.rows.prefix(self.rowCount) { text += row }
        text += "</tbody>\n</table>\n</div>\n"
        let left = self.report.rows.count - self.rowCount
        if left > 0 {
            text +=
                "<p class=\"left\">\(ReportNumber.grouped(left)) of \(ReportNumber.grouped(self.report.rows.count)) rows "
                + "are left out. <code>--format csv</code> prints all of them.</p>\n"
        }
        let leftColumns = self.report.columns.count - self.columns.count
        if leftColumns > 0 {
            text += "<p class=\"left\">\(ReportNumber.grouped(leftColumns)) columns are left out.</p>\n"
        }
        return text + "</section>\n"
    }

    private static func head(_ report: Report, anchor: String, title: String) -> String {
        var text = """
            <section id="\(anchor)" aria-labelledby="\(anchor)t">
            <h2 id="\(anchor)t">\(title)</h2>
            <p class="definition">\(MarkupText.escaped(report.definition, scalarCountMax: 1200))</p>

            """
        text += Self.list(report.notes)
        return text
    }

    /// Notes as a list; nothing for none.
    static func list(_ notes: [String]) -> String {
        guard !notes.isEmpty else { return "" }
        var text = "<ul class=\"notes\">\n"
        for note in notes.prefix(Self.noteCountMax) {
            text += "<li>\(MarkupText.escaped(note, scalarCountMax: Self.noteScalarCountMax))</li>\n"
        }
        let left = notes.count - Self.noteCountMax
        if left > 0 { text += "<li>\(ReportNumber.grouped(left)) more notes are left out.</li>\n" }
        return text + "</ul>\n"
    }

    private var columns: ArraySlice<Report.Column> { self.report.columns.prefix(Self.columnCountMax) }

    private var tableStart: String {
        var text = """
            <div class="wide" tabindex="0" role="region" aria-label="\(self.title), table">
            <table>
            <thead>
            <tr>
            """
        for column in self.columns {
            let unit = Self.unit(column.unit).map { " <span class=\"unit\">\($0)</span>" } ?? ""
            let classes = Self.isNumber(column.unit) ? " class=\"n\"" : ""
            text += "<th scope=\"col\"\(classes)>\(MarkupText.escaped(column.name))\(unit)</th>"
        }
        return text + "</tr>\n</thead>\n<tbody>\n"
    }

    private static func unit(_ unit: Report.Unit) -> String? {
        switch unit {
        case .seconds: "s"
        case .milliseconds: "ms"
        case .text, .count, .share, .day: nil
        }
    }

    private static func isNumber(_ unit: Report.Unit) -> Bool {
        unit != .text && unit != .day
    }

    private func markup(of row: [Report.Cell]) -> String {
        var text = "<tr>"
        for (index, column) in self.columns.enumerated() {
            let shown = ReportNumber.text(of: self.report.cell(row, index), unit: column.unit)
            let cell = shown.map { MarkupText.escaped($0) } ?? "–"
            if index == 0 {
                let classes = column.unit == .day ? " class=\"day\"" : ""
                text += "<th scope=\"row\"\(classes)><bdi>\(cell)</bdi></th>"
            } else if Self.isNumber(column.unit) {
                text += "<td class=\"n\">\(cell)</td>"
            } else {
                text += "<td><bdi>\(cell)</bdi></td>"
            }
        }
        return text + "</tr>\n"
    }
}
