internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// The rows of a day's folder while its lines are read.
///
/// What is done for each line is here, and not in the reader, whose members the runtime would have to look up for each
/// line, because they depend on the kind of file system.
struct DayRows {
    private let rules: DayRules
    private var table = DayTable()
    private let parser: RowParser
    private var days: DayCursor
    var ids: LineIDs
    /// Where each file's rows begin.
    private var fileStarts: [Int] = []
    private var isLateFile = false
    private var hasSources = false
    /// Whether the file has lines of several apps.
    private var isShared = false
    private var readers: EventReaders
    /// Finds the lines of erased people that have no recorded origin; `nil`: no one was erased.
    private let strayReader: EventReader?
    /// Empty unless the catalogue of names is wanted.
    private var fieldLog = FieldLog()
    private var cutOffs: [Int32: Int64] = [:]

    init(_ rules: DayRules) {
        self.rules = rules
        self.parser = RowParser(rules.options)
        self.readers = EventReaders(erased: rules.erased)
        self.strayReader = rules.erased.map {
            EventReader(source: SourceDescription(env: .prod, bundle: "unknown", isForeign: false), erased: $0)
        }
        self.days = DayCursor(rules.zone)
        self.ids = LineIDs(byteCountMax: rules.idBudget.byteCount)
    }

    mutating func beginFile(_ file: DayFile, isShared: Bool) {
        self.fileStarts.append(self.table.rows.count)
        self.isLateFile = file.isLate
        self.hasSources = file.sourcesByteCount > 0
        self.isShared = isShared
    }

    /// The origin of a run's lines.
    mutating func origin(of run: SourceRun) -> LineOrigin {
        let name = run.description.owner.principal
        return LineOrigin(
            reader: self.readers.reader(for: run.description),
            agent: name.isEmpty ? 0 : self.table.strings.intern(name), received: run.receivedAt.milliseconds)
    }

    // MARK: Lines

    /// Takes the lines that begin before `end`, until the ids are over their budget.
    ///
    /// - Returns: the end of the last line that was taken.
    mutating func take(_ bytes: UnsafeRawBufferPointer, from start: Int, to end: Int, _ origin: LineOrigin) -> Int {
        let isUnexplained = origin.reader == nil && self.hasSources
        var position = start
        while position < end, let newline = bytes.firstNewline(from: position) {
            if isUnexplained { self.table.unexplainedByteCount += newline + 1 - position }
            self.take(UnsafeRawBufferPointer(rebasing: bytes[position..<newline]), origin)
            position = newline + 1
            if self.ids.isOverBudget { break }
        }
        return position
    }

    private mutating func take(_ line: UnsafeRawBufferPointer, _ origin: LineOrigin) {
        if let strayReader, (origin.reader ?? strayReader).read(line) == .quarantine(.erased) { return }
        guard var row = self.parser.read(line, origin, into: &self.table) else {
            self.table.strayLineCount += 1
            return
        }
        if self.isShared, let bundle = self.rules.bundle, !self.parser.isBundle(bundle, in: line, origin) { return }
        row.day = self.days.day(of: WallTime(milliseconds: row.time)).daysSince1970
        row.isLate = self.isLate(row)
        if row.isLate, self.rules.isStrict { return }
        if let id = self.parser.id(in: line, isForeign: row.isForeign) {
            if let place = self.ids.row(of: id) {
                self.table.repeatCount += 1
                self.replace(row, at: place, line)
                return
            }
        } else {
            self.ids.addRowWithoutID()
        }
        self.table.rows.append(row)
        if !self.parser.values.isEmpty { self.table.values.append(contentsOf: self.parser.values) }
        guard self.rules.options.wantsCatalogue else { return }
        self.parser.readFields(line, in: &self.table)
        self.fieldLog.append(self.parser.fields)
    }

    /// Takes a line with a known id, if it comes from the same file and is earlier.
    private mutating func replace(_ row: EventRow, at place: Int, _ line: UnsafeRawBufferPointer) {
        guard place >= self.fileStarts.last ?? 0, self.isEarlier(row, self.table.rows[place]) else { return }
        self.table.rows[place] = row
        let width = self.parser.values.count
        for index in 0..<width { self.table.values[place * width + index] = self.parser.values[index] }
        guard self.rules.options.wantsCatalogue else { return }
        self.parser.readFields(line, in: &self.table)
        self.fieldLog.replace(place, with: self.parser.fields)
    }

    private func isEarlier(_ left: EventRow, _ right: EventRow) -> Bool {
        if left.time != right.time { return left.time < right.time }
        let strings = self.table.strings
        if left.writer != right.writer { return strings.isOrdered(left.writer, right.writer) }
        if left.sequence != right.sequence { return left.orderedSequence < right.orderedSequence }
        if left.kind != right.kind { return left.kind.name < right.kind.name }
        if left.name != right.name { return strings.isOrdered(left.name, right.name) }
        return strings.isOrdered(left.screen, right.screen)
    }

    /// Whether a line came after its day's cut-off: in the archive's zone the file says so, in another one the time of
    /// receipt, if it is known.
    private mutating func isLate(_ row: EventRow) -> Bool {
        guard self.rules.isForeignZone, row.received != 0 else { return self.isLateFile }
        if let known = self.cutOffs[row.day] { return row.received >= known }
        let cutOff = self.rules.zone.cutOff(of: CalendarDay(daysSince1970: row.day), self.rules.cutOffSecond)
        self.cutOffs[row.day] = cutOff
        return row.received >= cutOff
    }

    // MARK: The end

    /// Puts the rows in order, each id once.
    ///
    /// - Parameter repeated: rows with equal ids, which are all in the table.
    mutating func finish(repeated: [[Int32]]) -> DayTable {
        let repeats = self.repeats(in: repeated)
        self.table.repeatCount += repeats.count
        if self.rules.options.wantsCatalogue {
            self.table.catalogue = self.fieldLog.catalogue(of: self.table.rows, without: repeats)
        }
        let (rows, strings, ids) = (self.table.rows, self.table.strings, self.ids.order)
        let places = (0..<Int32(rows.count)).filter { repeats.isEmpty || !repeats.contains($0) }
        self.table.reorder(
            rows.inOrder(places) { a, b in
                let left = rows[Int(a)]
                let right = rows[Int(b)]
                if left.writer != right.writer { return strings.isOrdered(left.writer, right.writer) }
                if left.sequence != right.sequence { return left.orderedSequence < right.orderedSequence }
                return ids.isOrdered(a, b)
            })
        return self.table
    }

    /// All but one of the rows of each id.
    private func repeats(in repeated: [[Int32]]) -> Set<Int32> {
        var repeats: Set<Int32> = []
        for rows in repeated {
            var best = rows[0]
            let fileEnd = self.fileStarts.first { $0 > Int(best) } ?? self.table.rows.count
            for row in rows.dropFirst() {
                let isBetter =
                    Int(row) < fileEnd && self.isEarlier(self.table.rows[Int(row)], self.table.rows[Int(best)])
                repeats.insert(isBetter ? best : row)
                if isBetter { best = row }
            }
        }
        return repeats
    }
}

extension [EventRow] {
    /// Puts places of rows in the order of their times.
    ///
    /// - Parameter isBefore: the order of two places with the same time.
    func inOrder(_ places: [Int32], _ isBefore: (Int32, Int32) -> Bool) -> [Int32] {
        let times = places.lazy.map { self[Int($0)].time }
        let range = (times.max() ?? 0).subtractingReportingOverflow(times.min() ?? 0)
        guard let first = times.min(), !range.overflow, range.partialValue <= UInt32.max else {
            return places.sorted { a, b in
                let (left, right) = (self[Int(a)].time, self[Int(b)].time)
                return left == right ? isBefore(a, b) : left < right
            }
        }
        // Milliseconds of seven weeks, and a place.
        var keys = places.map { UInt64(self[Int($0)].time - first) << 32 | UInt64($0) }
        keys.sortByDigits()
        var order = keys.map { Int32(truncatingIfNeeded: $0) }
        var start = 0
        while start < keys.count {
            var end = start + 1
            while end < keys.count, keys[end] >> 32 == keys[start] >> 32 { end += 1 }
            if end > start + 1 { order[start..<end].sort(by: isBefore) }
            start = end
        }
        return order
    }
}

extension EventRow {
    /// No number comes last.
    var orderedSequence: Int64 { self.sequence < 0 ? .max : self.sequence }
}

extension TimeZoneRules {
    /// The first millisecond at which a day is closed.
    func cutOff(of day: CalendarDay, _ second: Int) -> Int64 {
        self.firstInstant(of: CalendarDay(daysSince1970: day.daysSince1970 + 1), secondOfDay: second) * 1000
    }
}

extension DayTable {
    /// Puts the rows into another order, unless it is theirs; rows that are not in it are left out.
    mutating func reorder(_ order: [Int32]) {
        guard order.count < self.rows.count || !zip(order, 0...).allSatisfy({ $0 == $1 }) else { return }
        let (rows, values) = (self.rows, self.values)
        let width = rows.isEmpty ? 0 : values.count / rows.count
        for (place, old) in order.enumerated() {
            self.rows[place] = rows[Int(old)]
            for index in 0..<width { self.values[place * width + index] = values[Int(old) * width + index] }
        }
        self.rows.removeLast(rows.count - order.count)
        self.values.removeLast(width * (rows.count - order.count))
    }
}
