internal import WaybillEvent

/// A destination that an operator describes: the columns of a record and the source of each.
package struct CustomOptions: Hashable, Sendable {
    package enum Format: String, Hashable, Sendable, CaseIterable {
        /// One JSON object per line; a column without a value is left out.
        case ndjson
        /// RFC 4180 with a header; a column without a value is an empty cell.
        case csv
    }

    /// A column's type; a value of another type is converted if that loses nothing, otherwise dropped.
    package enum ColumnType: String, Hashable, Sendable, CaseIterable {
        case string
        /// The digits are kept unchanged.
        case number
        case boolean
        /// Any value, as compact JSON.
        case json
        /// `YYYY-MM-DDTHH:MM:SS.mmmZ`; numbers are read as times since 1970.
        case time
    }

    package struct Column: Hashable, Sendable {
        package var name: String
        /// A member of the event, with nested members after dots: `name`, `data.price`, `ids.ga4`.
        package var from: String
        package var type = ColumnType.string
        /// The limit in UTF-16 units; longer strings are cut and longer JSON is dropped.
        package var characterCountMax: Int?
        /// Whether an event without a value for it is refused.
        package var isRequired = false
        /// The value if the event has none: text for strings and times, JSON for other types.
        package var defaultValue: String?

        package init(name: String, from: String) {
            self.name = name
            self.from = from
        }
    }

    package var format: Format
    package var columns: [Column]
    package var kinds = KindSet([.screen, .action, .event])
    package var recordsPerPartMax = Limits.Custom.recordsPerPartMax
    package var partByteCountMax = Limits.Custom.partByteCountMax
    package var recordByteCountMax = Limits.Custom.recordByteCountMax
    /// For CSV: whether text that a spreadsheet would evaluate, such as text that begins with `=`, is guarded.
    package var isGuarded = true

    package init(format: Format, columns: [Column]) {
        self.format = format
        self.columns = columns
    }

    /// Whether `from` names a member that an event can have.
    package static func isSource(_ from: String) -> Bool {
        CustomSource(from) != nil
    }

    /// A text that depends only on the options' meaning and never changes between versions.
    package var canonicalText: String {
        var lines = [
            "\(self.format.rawValue) \(self.kinds.kinds.map(\.rawValue)) \(self.recordsPerPartMax) "
                + "\(self.partByteCountMax) \(self.recordByteCountMax) \(self.isGuarded)"
        ]
        for column in self.columns {
            lines.append(
                "\(column.name)\t\(column.from)\t\(column.type.rawValue)\t\(column.characterCountMax ?? -1)\t"
                    + "\(column.isRequired)\t\(column.defaultValue ?? "\t")")
        }
        return lines.joined(separator: "\n")
    }
}

extension Limits {
    /// Defaults for destinations that an operator describes.
    package enum Custom {
        package static let recordsPerPartMax = 1_000_000
        package static let partByteCountMax = 256 << 20
        /// Fits a record of the longest line, with room for names.
        package static let recordByteCountMax = 2 << 20
        package static let columnCountMax = 1000
    }
}
