/// A report's chart as one `<svg>` element.
///
/// Looks are classes, which ``stylesheet`` defines: a strict content security policy refuses style attributes. Every chart
/// has a title, a description and its values as text; colour alone says nothing.
package enum SVGChart {
    /// The chart as a document of its own; `nil` for a report without a chart, or without a value to draw.
    package static func markup(of report: Report) -> String? {
        self.element(of: report).map { "<svg xmlns=\"http://www.w3.org/2000/svg\"" + $0.dropFirst(4) }
    }

    /// The chart as a part of a page of HTML, where an element needs no name of its space.
    static func element(of report: Report) -> String? {
        switch report.chart {
        case .none: nil
        case .bars(let label, let value): BarChart(report, label: label, value: value)?.markup
        case .lines(let x, let values): LineChart(report, x: x, values: values)?.markup
        case .steps(let label, let value): StepChart(report, label: label, value: value)?.markup
        case .cohorts(let label, let size, let first):
            CohortChart(report, label: label, size: size, first: first)?.markup
        }
    }

    /// The rules for the classes of charts, light and dark.
    package static let stylesheet = """
        .chart{--ink:#1a1d21;--muted:#5b6470;--grid:#d9dde2;--track:#eceff3;--c1:#1f5fbf;--c2:#b45309;--c3:#11795a;\
        --c4:#8b3fa8;--c5:#b3261e;--c6:#4a5560;display:block;width:100%;height:auto;min-width:34rem;\
        font:12px system-ui,-apple-system,"Segoe UI",sans-serif;font-variant-numeric:tabular-nums}
        .chart text{fill:var(--ink);unicode-bidi:isolate}
        .chart .soft{fill:var(--muted)}
        .chart .end{text-anchor:end}
        .chart .mid{text-anchor:middle}
        .chart .bar{fill:var(--c1)}
        .chart .track{fill:var(--track)}
        .chart .grid{stroke:var(--grid);fill:none}
        .chart .line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
        .chart .s1{stroke:var(--c1)}
        .chart .s2{stroke:var(--c2);stroke-dasharray:7 4}
        .chart .s3{stroke:var(--c3);stroke-dasharray:2 4}
        .chart .s4{stroke:var(--c4);stroke-dasharray:11 4 2 4}
        .chart .s5{stroke:var(--c5);stroke-dasharray:5 3}
        .chart .s6{stroke:var(--c6);stroke-dasharray:1 5}
        .chart .q0{fill:var(--track)}
        .chart .q1{fill:var(--c1);fill-opacity:.12}
        .chart .q2{fill:var(--c1);fill-opacity:.25}
        .chart .q3{fill:var(--c1);fill-opacity:.37}
        .chart .q4{fill:var(--c1);fill-opacity:.5}
        .chart .q5{fill:var(--c1)}
        .chart .on{fill:#fff}
        @media (prefers-color-scheme:dark){.chart{--ink:#e8eaed;--muted:#a3abb5;--grid:#3a4048;--track:#272c33;\
        --c1:#7fb0ff;--c2:#f2b161;--c3:#62d0a4;--c4:#d79bf0;--c5:#ff938a;--c6:#b9c1ca}.chart .on{fill:#10131a}}
        @media print{.chart{--ink:#000;--muted:#444;--grid:#bbb;--track:#eee;--c1:#1f5fbf;--c2:#b45309;--c3:#11795a;\
        --c4:#8b3fa8;--c5:#b3261e;--c6:#4a5560;min-width:0;-webkit-print-color-adjust:exact;print-color-adjust:exact}\
        .chart .on{fill:#fff}}

        """
}

/// What the charts of all kinds share: an element that is written piece by piece.
struct SVGElement {
    /// Units from left to right; a page scales them to its own width.
    static let width = 720.0

    private(set) var content = ""

    /// Opens the element; `description` is text that is not escaped yet.
    init(title: String, description: String, height: Double) {
        self.content =
            "<svg class=\"chart\" viewBox=\"0 0 \(Self.number(Self.width)) \(Self.number(height))\" role=\"img\">"
            + "<title>\(MarkupText.escaped(title))</title><desc>\(MarkupText.escaped(description, scalarCountMax: 400))</desc>"
    }

    /// The whole element.
    var markup: String { self.content + "</svg>" }

    /// A coordinate with at most one decimal: the same bytes on every machine.
    static func number(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        let sign = tenths < 0 ? "-" : ""
        let size = tenths.magnitude
        return size.isMultiple(of: 10) ? "\(sign)\(size / 10)" : "\(sign)\(size / 10).\(size % 10)"
    }

    mutating func text(
        _ text: String, x: Double, y: Double, classes: String = "", scalarCountMax: Int = 60
    ) {
        let named = classes.isEmpty ? "" : " class=\"\(classes)\""
        self.content +=
            "<text\(named) x=\"\(Self.number(x))\" y=\"\(Self.number(y))\">"
            + MarkupText.escaped(MarkupText.shortened(text, scalarCountMax: scalarCountMax)) + "</text>"
    }

    mutating func rectangle(x: Double, y: Double, width: Double, height: Double, classes: String) {
        self.content +=
            "<rect class=\"\(classes)\" x=\"\(Self.number(x))\" y=\"\(Self.number(y))\" "
            + "width=\"\(Self.number(width))\" height=\"\(Self.number(height))\"/>"
    }

    mutating func path(_ data: String, classes: String) {
        self.content += "<path class=\"\(classes)\" d=\"\(data)\"/>"
    }
}

extension Report {
    /// The cell of a row, or an empty one where a row is too short.
    func cell(_ row: [Cell], _ column: Int) -> Cell {
        row.indices.contains(column) ? row[column] : .empty
    }

    /// The name of a column; a chart that names a missing one has none.
    func columnName(_ column: Int) -> String {
        self.columns.indices.contains(column) ? self.columns[column].name : ""
    }

    func columnUnit(_ column: Int) -> Unit {
        self.columns.indices.contains(column) ? self.columns[column].unit : .text
    }

    /// A cell as text that is not escaped yet, "–" for an empty one.
    func text(_ row: [Cell], _ column: Int) -> String {
        ReportNumber.text(of: self.cell(row, column), unit: self.columnUnit(column)) ?? "–"
    }

    /// A cell as a value that can be drawn.
    func value(_ row: [Cell], _ column: Int) -> Double? {
        ReportNumber.value(of: self.cell(row, column))
    }
}
