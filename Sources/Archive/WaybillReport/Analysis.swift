internal import WaybillExport
internal import WaybillSystem

/// The rows that a report counts, and how its range looks.
struct Analysis {
    let table: EventTable
    let request: ReportRequest
    let zone: TimeZoneRules
    /// Days since 1970.
    let range: ClosedRange<Int32>
    /// The last day that is over, in days since 1970.
    let lastClosed: Int32
    /// What every report of the range must say.
    let notes: [String]
    /// For each row the number of its division, 0 if it does not count; `nil` if every row counts.
    private(set) var groups: [UInt16]?
    /// The texts of the divisions, from number 1 on; `nil` for events without one.
    private(set) var groupNames: [String?] = []
    /// The division to count; `nil` for all.
    private var group: UInt16?
    /// The rows by day, if the order of the rows is not theirs: clocks may be set back over midnight.
    private let dayOrder: [Int32]?

    /// Divisions of one report: more are not readable, and each costs a pass.
    static var groupCountMax: Int { 200 }

    init(
        _ table: EventTable, _ request: ReportRequest, zone: TimeZoneRules, range: ClosedRange<Int32>,
        lastClosed: Int32, notes: [String]
    ) throws(ReportFailure) {
        self.table = table
        self.request = request
        self.zone = zone
        self.range = range
        self.lastClosed = lastClosed
        self.notes = notes
        let rows = table.rows
        let isOrdered = zip(rows, rows.dropFirst()).allSatisfy { $0.day <= $1.day }
        self.dayOrder =
            isOrdered
            ? nil
            : (0..<Int32(rows.count)).sorted { a, b in
                let (left, right) = (rows[Int(a)].day, rows[Int(b)].day)
                return left == right ? a < b : left < right
            }
        try self.divide()
    }

    /// Finds the rows that `--where` admits, and their divisions.
    private mutating func divide() throws(ReportFailure) {
        let matchers = self.request.conditions.map { Matcher($0, self.table) }
        guard !matchers.isEmpty || self.request.division != nil else { return }
        var groups = [UInt16](repeating: 0, count: self.table.rows.count)
        var numbers: [String?: UInt16] = [:]
        var numbersOfTexts: [UInt32: UInt16] = [:]
        for (index, row) in self.table.rows.enumerated() {
            guard matchers.allSatisfy({ $0.matches(row, at: index, in: self.table) }) else { continue }
            guard let field = self.request.division else {
                groups[index] = 1
                continue
            }
            let number = self.table.number(of: field, row, at: index)
            if number != 0, let known = numbersOfTexts[number] {
                groups[index] = known
                continue
            }
            let text = self.table.text(of: field, row, at: index)
            if let known = numbers[text] {
                groups[index] = known
            } else {
                guard numbers.count < Int(UInt16.max) else {
                    throw .badOption(
                        name: "by", text: self.request.options.by ?? "", remedy: "it has more than 65,534 values")
                }
                groups[index] = UInt16(numbers.count + 1)
                numbers[text] = groups[index]
            }
            if number != 0 { numbersOfTexts[number] = groups[index] }
        }
        self.groups = groups
        self.groupNames = [String?](repeating: nil, count: numbers.count)
        for (text, number) in numbers { self.groupNames[Int(number) - 1] = text }
    }

    /// The same range, of one division alone.
    func part(_ group: UInt16) -> Analysis {
        var part = self
        part.group = group
        return part
    }

    /// The same range, of all divisions.
    var whole: Analysis {
        var whole = self
        whole.group = nil
        return whole
    }

    // MARK: Rows

    /// Whether `--where` admits a row and it is of the division.
    @inline(__always)
    private func counts(_ index: Int) -> Bool {
        guard let groups else { return true }
        return self.group.map { groups[index] == $0 } ?? (groups[index] != 0)
    }

    /// Calls `body` with each row that is kept, in order.
    @inline(__always)
    func forEachKept(_ body: (_ index: Int, _ row: EventRow) -> Void) {
        self.table.rows.withUnsafeBufferPointer { rows in
            for index in rows.indices where self.counts(index) { body(index, rows[index]) }
        }
    }

    /// Calls `body` with each row of the range, in order.
    @inline(__always)
    func forEach(_ body: (_ index: Int, _ row: EventRow) -> Void) {
        self.forEachKept { index, row in
            if self.range.contains(row.day) { body(index, row) }
        }
    }

    /// Calls `body` with each row that is kept, one day after the other.
    @inline(__always)
    func forEachKeptByDay(_ body: (_ index: Int, _ row: EventRow) -> Void) {
        guard let dayOrder else { return self.forEachKept(body) }
        for index in dayOrder.lazy.map({ Int($0) }) where self.counts(index) { body(index, self.table.rows[index]) }
    }

    /// Calls `body` with each row of the range, one day after the other.
    @inline(__always)
    func forEachByDay(_ body: (_ index: Int, _ row: EventRow) -> Void) {
        self.forEachKeptByDay { index, row in
            if self.range.contains(row.day) { body(index, row) }
        }
    }

    func isNew(_ row: EventRow) -> Bool { self.table.firstDays[Int(row.person)] == row.day }

    func day(_ day: Int32) -> Report.Cell { .text(CalendarDay(daysSince1970: day).description) }

    func text(_ number: UInt32) -> Report.Cell { number == 0 ? .empty : .text(self.table.strings.text(number)) }

    // MARK: Names

    /// Requires that some event is on a screen.
    func requireScreen(_ name: String) throws(ReportFailure) {
        let number = self.table.strings.find(name)
        if number != 0, self.table.rows.contains(where: { $0.screen == number }) { return }
        throw .unknown(what: "screen", name: name, nearest: self.nearest(name, \.screen))
    }

    /// Requires that what a condition names occurs.
    func require(_ condition: EventCondition) throws(ReportFailure) {
        for term in condition.terms where !term.isNegated {
            guard let value = term.value else { continue }
            if term.field == .screen { try self.requireScreen(value) }
            guard term.field == .name else { continue }
            let number = self.table.strings.find(value)
            if number != 0, self.table.rows.contains(where: { $0.name == number }) { continue }
            throw .unknown(what: "name", name: value, nearest: self.nearest(value, \.name))
        }
    }

    private func nearest(_ name: String, _ field: KeyPath<EventRow, UInt32>) -> String? {
        var numbers: Set<UInt32> = []
        for row in self.table.rows where row[keyPath: field] != 0 { numbers.insert(row[keyPath: field]) }
        return NearestName.find(name, in: numbers.map { self.table.strings.text($0) }.sorted())
    }
}

/// Numbers as the reports print them.
enum Figure {
    static func share(_ count: Int, of total: Int) -> Report.Cell {
        total == 0 ? .empty : .number((100 * Double(count) / Double(total) * 10).rounded() / 1000)
    }

    static func rounded(_ value: Double, digits: Int) -> Double {
        let scale = digits == 1 ? 10.0 : digits == 2 ? 100.0 : 1000.0
        return (value * scale).rounded() / scale
    }

    /// The value below which a share of the ordered values is, interpolated between the two next to it.
    static func quantile(_ share: Double, of sorted: [Double]) -> Double? {
        guard let last = sorted.indices.last else { return nil }
        let place = share * Double(last)
        let low = Int(place)
        let high = min(low + 1, last)
        return sorted[low] + (sorted[high] - sorted[low]) * (place - Double(low))
    }
}

/// Counts different people for each key.
struct PeopleCount {
    private var pairs: [UInt64] = []

    mutating func add(_ person: UInt32, to key: UInt32) {
        guard person != 0 else { return }
        let pair = UInt64(key) << 32 | UInt64(person)
        // People do the same thing several times in a row.
        if self.pairs.last != pair { self.pairs.append(pair) }
    }

    /// The numbers of people, by key.
    func counts() -> [UInt32: Int] {
        var counts: [UInt32: Int] = [:]
        var last: UInt64?
        var pairs = self.pairs
        pairs.sortByDigits()
        for pair in pairs where pair != last {
            counts[UInt32(truncatingIfNeeded: pair >> 32), default: 0] += 1
            last = pair
        }
        return counts
    }
}

extension String {
    /// The order of the bytes, which does not depend on the language.
    static func isOrdered(_ left: String, _ right: String) -> Bool {
        left.utf8.lexicographicallyPrecedes(right.utf8)
    }
}
