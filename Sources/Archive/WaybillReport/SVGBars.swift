/// Horizontal bars, one for each row of a report.
struct BarChart {
    /// Rows that are drawn; the table has the others.
    private static let barCountMax = 20
    /// Unicode scalars of a label that fit in front of its bar.
    private static let labelScalarCountMax = 30
    private static let barStart = 216.0
    private static let barEnd = SVGElement.width - 96
    private static let rowHeight = 24.0

    let markup: String

    init?(_ report: Report, label: Int, value: Int) {
        let rows = report.rows.prefix(Self.barCountMax)
        let values = rows.map { report.value($0, value) }
        guard let largest = values.compactMap({ $0 }).max(), largest > 0 else { return nil }
        let left = report.rows.count - rows.count
        let height = Double(rows.count) * Self.rowHeight + 8 + (left > 0 ? Self.rowHeight : 0)
        var element = SVGElement(
            title: report.title, description: Self.description(report, rows, values, label: label, value: value),
            height: height)
        for (index, row) in rows.enumerated() {
            let top = Double(index) * Self.rowHeight + 4
            element.text(
                report.text(row, label), x: Self.barStart - 8, y: top + 14, classes: "end",
                scalarCountMax: Self.labelScalarCountMax)
            let length = max(0, (values[index] ?? 0) / largest) * (Self.barEnd - Self.barStart)
            if length > 0 {
                element.rectangle(x: Self.barStart, y: top + 2, width: max(1, length), height: 16, classes: "bar")
            }
            element.text(report.text(row, value), x: Self.barStart + length + 6, y: top + 14)
        }
        if left > 0 {
            element.text(
                "The table has \(ReportNumber.grouped(left)) more.", x: Self.barStart, y: height - 10, classes: "soft")
        }
        self.markup = element.markup
    }

    private static func description(
        _ report: Report, _ rows: ArraySlice<[Report.Cell]>, _ values: [Double?], label: Int, value: Int
    ) -> String {
        let first = values.indices.max { (values[$0] ?? 0) < (values[$1] ?? 0) }
        let top = first.map { rows[rows.startIndex + $0] } ?? []
        let name = MarkupText.shortened(report.text(top, label), scalarCountMax: Self.labelScalarCountMax)
        return
            "Bars: \(report.columnName(value)) by \(report.columnName(label)). The largest of \(rows.count) is \(name), "
            + "with \(report.text(top, value)). The table next to the chart has all values."
    }
}

/// The steps of a funnel: each a bar as a part of the first, with who did not continue.
struct StepChart {
    private static let stepCountMax = 20
    private static let rowHeight = 46.0
    private static let barStart = 8.0
    private static let barEnd = SVGElement.width - 8

    let markup: String

    init?(_ report: Report, label: Int, value: Int) {
        let rows = report.rows.prefix(Self.stepCountMax)
        let values = rows.map { max(0, report.value($0, value) ?? 0) }
        guard let first = values.first, first > 0 else { return nil }
        let last = values[values.count - 1]
        var element = SVGElement(
            title: report.title,
            description: "Funnel of \(rows.count) steps: \(report.text(rows[0], value)) at the first, "
                + "\(ReportNumber.rounded(last, decimals: 0)) at the last, "
                + "which is \(ReportNumber.percent(last / first)). The table next to the chart has all values.",
            height: Double(rows.count) * Self.rowHeight + 4)
        for (index, row) in rows.enumerated() {
            let top = Double(index) * Self.rowHeight
            element.text(
                "\(index + 1). \(report.text(row, label))", x: Self.barStart, y: top + 16, scalarCountMax: 56)
            element.text(
                Self.summary(values, index, report.text(row, value)), x: Self.barEnd, y: top + 16, classes: "end")
            let whole = Self.barEnd - Self.barStart
            element.rectangle(x: Self.barStart, y: top + 22, width: whole, height: 18, classes: "track")
            let length = min(1, values[index] / first) * whole
            if length > 0 {
                element.rectangle(x: Self.barStart, y: top + 22, width: max(1, length), height: 18, classes: "bar")
            }
        }
        self.markup = element.markup
    }

    private static func summary(_ values: [Double], _ index: Int, _ text: String) -> String {
        let share = "\(text) · \(ReportNumber.percent(values[index] / values[0]))"
        guard index > 0, values[index - 1] > values[index] else { return share }
        return share + " · \(ReportNumber.rounded(values[index - 1] - values[index], decimals: 0)) went no further"
    }
}
