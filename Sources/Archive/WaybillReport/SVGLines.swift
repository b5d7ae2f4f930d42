/// Lines over days, one for each column; each has a dash pattern of its own and its name at its end.
struct LineChart {
    /// Rows that are drawn: the last ones.
    private static let pointCountMax = 366
    private static let seriesCountMax = 6
    private static let left = 64.0
    private static let right = SVGElement.width - 132
    private static let top = 14.0
    private static let bottom = 214.0
    private static let height = 240.0
    /// Labels at the ends of lines are at least so far apart.
    private static let labelDistance = 15.0

    private let report: Report
    private let rows: ArraySlice<[Report.Cell]>
    private let x: Int
    private let series: [Int]
    private let scale: ValueScale

    init?(_ report: Report, x: Int, values: [Int]) {
        self.report = report
        self.rows = report.rows.suffix(Self.pointCountMax)
        self.x = x
        self.series = Array(values.prefix(Self.seriesCountMax))
        let all = self.rows.flatMap { row in values.prefix(Self.seriesCountMax).compactMap { report.value(row, $0) } }
        guard let largest = all.max(), largest > 0 else { return nil }
        self.scale = ValueScale(largest)
    }

    var markup: String {
        var element = SVGElement(title: self.report.title, description: self.description, height: Self.height)
        for tick in self.scale.ticks {
            let y = self.y(tick)
            element.path(
                "M\(SVGElement.number(Self.left)) \(SVGElement.number(y))H\(SVGElement.number(Self.right))",
                classes: "grid")
            element.text(self.text(tick), x: Self.left - 8, y: y + 4, classes: "soft end")
        }
        for index in self.labelledRows {
            let row = self.rows[self.rows.startIndex + index]
            element.text(
                self.report.text(row, self.x), x: self.x(index), y: Self.height - 8, classes: "soft mid",
                scalarCountMax: 12)
        }
        for (number, column) in self.series.enumerated() {
            let data = self.path(column)
            if !data.isEmpty { element.path(data, classes: "line s\(number + 1)") }
        }
        for label in self.endLabels {
            element.text(label.text, x: Self.right + 10, y: label.y + 4, scalarCountMax: 18)
        }
        return element.markup
    }

    private var description: String {
        let names = self.series.map(self.report.columnName).joined(separator: ", ")
        let first = self.rows.first.map { self.report.text($0, self.x) } ?? ""
        let last = self.rows.last.map { self.report.text($0, self.x) } ?? ""
        let left = self.report.rows.count - self.rows.count
        return "Lines: \(names), from \(first) to \(last)"
            + (left > 0 ? "; the \(left) rows before are only in the table." : ".")
            + " The table next to the chart has all values."
    }

    private func text(_ tick: Double) -> String {
        ReportNumber.text(of: .number(tick), unit: self.series.first.map(self.report.columnUnit) ?? .count) ?? ""
    }

    private func x(_ index: Int) -> Double {
        guard self.rows.count > 1 else { return (Self.left + Self.right) / 2 }
        return Self.left + (Self.right - Self.left) * Double(index) / Double(self.rows.count - 1)
    }

    private func y(_ value: Double) -> Double {
        Self.bottom - (Self.bottom - Self.top) * max(0, value) / self.scale.end
    }

    /// At most six rows at equal distances, from the first one on.
    private var labelledRows: [Int] {
        let step = max(1, (self.rows.count + 5) / 6)
        return Array(stride(from: 0, to: self.rows.count, by: step))
    }

    /// A row without a value leaves a gap in the line; a value on its own is a dot.
    private func path(_ column: Int) -> String {
        var data = ""
        var isDown = false
        for (index, row) in self.rows.enumerated() {
            guard let value = self.report.value(row, column) else {
                isDown = false
                continue
            }
            let place = "\(SVGElement.number(self.x(index))) \(SVGElement.number(self.y(value)))"
            data += isDown ? "L\(place)" : "M\(place)h0"
            isDown = true
        }
        return data
    }

    /// The name and the last value of each line, at its end and above one another where the ends are close.
    private var endLabels: [(text: String, y: Double)] {
        var labels = self.series.compactMap { column -> (text: String, y: Double)? in
            guard let row = self.rows.last(where: { self.report.value($0, column) != nil }),
                let value = self.report.value(row, column)
            else { return nil }
            return ("\(self.report.columnName(column)) \(self.report.text(row, column))", self.y(value))
        }
        labels = labels.enumerated().sorted { ($0.element.y, $0.offset) < ($1.element.y, $1.offset) }.map(\.element)
        for index in labels.indices.dropFirst() {
            labels[index].y = max(labels[index].y, labels[index - 1].y + Self.labelDistance)
        }
        var limit = Self.bottom
        for index in labels.indices.reversed() {
            labels[index].y = min(labels[index].y, limit)
            limit = labels[index].y - Self.labelDistance
        }
        return labels
    }
}

/// A vertical scale from 0 to a round number that no value exceeds.
struct ValueScale {
    let end: Double
    let ticks: [Double]

    init(_ largest: Double) {
        var power = 1.0
        while power * 10 <= largest { power *= 10 }
        while power > largest { power /= 10 }
        // At most five steps of 1, 2 or 5 times a power of ten; whole ones where values are.
        let steps = [0.5, 1, 2].map { $0 * power }.filter { $0 >= 1 || largest < 1 }
        let step = steps.first { $0 * 5 >= largest } ?? power * 2
        let count = max(1, Int((largest / step).rounded(.up)))
        self.end = step * Double(count)
        self.ticks = (0...count).map { Double($0) * step }
    }
}
