/// A grid of cohorts: rows are cohorts, columns are days after, a cell is darker the more of the cohort is there.
struct CohortChart {
    private static let cohortCountMax = 40
    private static let dayCountMax = 40
    /// A grid with more columns has no room for numbers in its cells.
    private static let numberedDayCountMax = 14
    private static let gridStart = 156.0
    private static let rowHeight = 24.0
    private static let top = 26.0

    private let report: Report
    private let rows: ArraySlice<[Report.Cell]>
    private let label: Int
    private let size: Int
    private let days: Range<Int>

    init?(_ report: Report, label: Int, size: Int, first: Int) {
        self.report = report
        self.rows = report.rows.suffix(Self.cohortCountMax)
        self.label = label
        self.size = size
        self.days = first..<min(max(first, report.columns.count), first + Self.dayCountMax)
        let days = self.days
        guard self.rows.contains(where: { row in days.contains { report.value(row, $0) != nil } }) else { return nil }
    }

    private var cellWidth: Double { (SVGElement.width - Self.gridStart - 4) / Double(self.days.count) }
    private var isNumbered: Bool { self.days.count <= Self.numberedDayCountMax }

    var markup: String {
        let height = Self.top + Double(self.rows.count) * Self.rowHeight + 4
        var element = SVGElement(title: self.report.title, description: self.description, height: height)
        self.drawHeads(&element)
        self.drawCells(&element)
        for (index, row) in self.rows.enumerated() {
            let y = Self.top + Double(index) * Self.rowHeight + 16
            element.text(self.report.text(row, self.label), x: 4, y: y, scalarCountMax: 14)
            element.text(
                self.report.text(row, self.size), x: Self.gridStart - 10, y: y, classes: "soft end", scalarCountMax: 12)
            if self.isNumbered { self.drawNumbers(of: row, y: y, &element) }
        }
        return element.markup
    }

    private var description: String {
        let left = self.report.rows.count - self.rows.count + self.report.columns.count - self.days.upperBound
        return "Grid of \(self.rows.count) cohorts: a cell is darker the larger its share of the cohort. "
            + (left > 0 ? "Rows and columns after the first \(Self.dayCountMax) are only in the table. " : "")
            + "The table next to the chart has all values."
    }

    private func drawHeads(_ element: inout SVGElement) {
        let step = self.isNumbered ? 1 : 5
        for (index, column) in self.days.enumerated() where index.isMultiple(of: step) {
            element.text(
                self.report.columnName(column), x: Self.gridStart + (Double(index) + 0.5) * self.cellWidth, y: 16,
                classes: "soft mid", scalarCountMax: 8)
        }
    }

    /// One path for each shade: a large grid stays small.
    private func drawCells(_ element: inout SVGElement) {
        var paths = [String](repeating: "", count: 6)
        for (index, row) in self.rows.enumerated() {
            let y = SVGElement.number(Self.top + Double(index) * Self.rowHeight + 1)
            for (place, column) in self.days.enumerated() {
                guard let share = self.share(row, column) else { continue }
                let x = SVGElement.number(Self.gridStart + Double(place) * self.cellWidth + 1)
                let width = SVGElement.number(self.cellWidth - 2)
                paths[Self.shade(share)] += "M\(x) \(y)h\(width)v\(SVGElement.number(Self.rowHeight - 2))h-\(width)z"
            }
        }
        for (shade, path) in paths.enumerated() where !path.isEmpty { element.path(path, classes: "q\(shade)") }
    }

    private func drawNumbers(of row: [Report.Cell], y: Double, _ element: inout SVGElement) {
        for (place, column) in self.days.enumerated() {
            guard let share = self.share(row, column) else { continue }
            element.text(
                self.report.text(row, column), x: Self.gridStart + (Double(place) + 0.5) * self.cellWidth, y: y,
                classes: Self.shade(share) == 5 ? "mid on" : "mid", scalarCountMax: 9)
        }
    }

    /// A cell as a share of its cohort; `nil` where there is no value yet.
    private func share(_ row: [Report.Cell], _ column: Int) -> Double? {
        guard let value = self.report.value(row, column) else { return nil }
        if self.report.columnUnit(column) == .share { return value }
        guard let size = self.report.value(row, self.size), size > 0 else { return 0 }
        return value / size
    }

    /// 0 for none, then five shades.
    private static func shade(_ share: Double) -> Int {
        share > 0 ? min(5, 1 + Int(min(1, share) * 5)) : 0
    }
}
