/// One finished report: numbers, and the words that say how they were counted.
package struct Report: Sendable, Equatable {
    /// What a column's numbers are; a share is from 0 to 1.
    package enum Unit: String, Sendable {
        case text, count, share, seconds, milliseconds, day
    }

    package struct Column: Sendable, Equatable {
        package var name: String
        package var unit: Unit

        package init(_ name: String, _ unit: Unit) {
            self.name = name
            self.unit = unit
        }
    }

    package enum Cell: Sendable, Equatable {
        case text(String)
        case count(Int)
        case number(Double)
        /// There is no value, for instance because the day is not over.
        case empty
    }

    /// How a report is best drawn; the numbers are indexes of columns.
    package enum Chart: Sendable, Equatable {
        case none
        case bars(label: Int, value: Int)
        case lines(x: Int, values: [Int])
        /// A funnel.
        case steps(label: Int, value: Int)
        /// A retention grid: its columns from `first` on are days after the first one.
        case cohorts(label: Int, size: Int, first: Int)
    }

    /// The word for it in a command, such as `screens`.
    package var name: String
    package var title: String
    /// How its numbers were counted; printed with every result, in every format.
    package var definition: String
    /// What a reader must know besides: open days, damaged days, lines without people.
    package var notes: [String]
    package var columns: [Column]
    package var rows: [[Cell]]
    package var chart: Chart

    package init(
        name: String, title: String, definition: String, notes: [String] = [], columns: [Column], rows: [[Cell]] = [],
        chart: Chart = .none
    ) {
        self.name = name
        self.title = title
        self.definition = definition
        self.notes = notes
        self.columns = columns
        self.rows = rows
        self.chart = chart
    }
}
