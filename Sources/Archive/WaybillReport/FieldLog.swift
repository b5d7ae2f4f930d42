/// A member of an event's `data`, and the type of its value.
struct LineField {
    let property: UInt32
    let type: ValueType
}

/// The fields of a folder's rows, for the catalogue of names.
///
/// The catalogue is made when all lines are read: a line that repeats an id may replace a row, and then the replaced line
/// counts nowhere.
struct FieldLog {
    private var fields: [LineField] = []
    /// Where each row's fields end.
    private var ends: [Int] = []
    /// The fields of rows that were replaced.
    private var replaced: [Int: [LineField]] = [:]

    /// Adds the fields of the next row.
    mutating func append(_ fields: [LineField]) {
        self.fields.append(contentsOf: fields)
        self.ends.append(self.fields.count)
    }

    /// Takes the fields of a line that replaces a row.
    mutating func replace(_ row: Int, with fields: [LineField]) {
        self.replaced[row] = fields
    }

    /// Counts the fields of the rows, which are in the order in which they were added, but for those that do not count.
    func catalogue(of rows: [EventRow], without repeats: Set<Int32>) -> [CatalogueKey: CatalogueEntry] {
        var catalogue: [CatalogueKey: CatalogueEntry] = [:]
        for (index, row) in rows.enumerated() where row.kind != .meta && !repeats.contains(Int32(index)) {
            func count(_ property: UInt32, _ type: ValueType) {
                let key = CatalogueKey(
                    name: row.name, kind: row.kind, property: property, type: type, version: row.version)
                catalogue[key, default: CatalogueEntry()].add(CatalogueEntry(count: 1, first: row.time, last: row.time))
            }
            count(0, .none)
            if let others = self.replaced[index] {
                for field in others { count(field.property, field.type) }
            } else {
                let start = index == 0 ? 0 : self.ends[index - 1]
                for field in self.fields[start..<self.ends[index]] { count(field.property, field.type) }
            }
        }
        return catalogue
    }
}
