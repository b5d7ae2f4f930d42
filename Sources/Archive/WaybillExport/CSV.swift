internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// An operator's options for CSV files.
package struct CSVOptions: ProviderOptions, Hashable {
    package enum Zone: String, Hashable, Sendable, CaseIterable {
        case report
        /// The device's time zone.
        case event
    }

    package enum Others: String, Hashable, Sendable, CaseIterable {
        /// All fields in one cell.
        case cell
        /// Each field in a cell of its own; the number of cells then differs between lines.
        case columns
    }

    package var hasByteOrderMark = false
    package var hasMilliseconds = false
    package var zone = Zone.report
    package var others = Others.cell
    /// Whether `user` events are written too.
    package var includesUsers = false
    /// Turn off only for files that no spreadsheet opens: spreadsheets evaluate text that begins with `=`.
    package var isGuarded = true
    /// Whether an eighth column has the event's id.
    package var hasID = false

    package init() {}
}

/// CSV after the logging scheme: one row per event, RFC 4180, CRLF at the end of every line.
///
///     Time,AppVersion,OS,LogVersion,Event,View,Others
///     2025-03-01 18:14:15,118,17.0.1,1.0,screen_view,로그인 화면,method=email
///
/// A cell that a spreadsheet would evaluate is prefixed with `'` (OWASP, "CSV Injection"); a reader removes one `'`.
struct CSV: Provider {
    private let options: CSVOptions

    init(_ options: ExportOptions) {
        self.options = options.csv
    }

    var description: ProviderDescription {
        let mark: [UInt8] = self.options.hasByteOrderMark ? [0xEF, 0xBB, 0xBF] : []
        let names = "Time,AppVersion,OS,LogVersion,Event,View,Others" + (self.options.hasID ? ",Id" : "")
        return ProviderDescription(
            id: .csv, fileExtension: "csv", header: mark + Array(names.utf8) + [0x0D, 0x0A],
            recordsPerPartMax: Limits.CSV.recordsPerPartMax, partByteCountMax: Limits.CSV.partByteCountMax)
    }

    var recordByteCountMax: Int { Limits.CSV.partByteCountMax }
    var terminator: StaticString { "\r\n" }
    var isJSON: Bool { false }

    func takes(_ kind: EventKind) -> Bool {
        switch kind {
        case .screen, .action, .event: true
        case .user: self.options.includesUsers
        case .meta: false
        }
    }

    func map(_ event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft) -> MappingOutcome {
        self.writeTime(of: event, context, into: &draft)
        self.writeCell(event.text(.build), into: &draft)
        self.writeCell(event.text(.osVersion), into: &draft)
        self.writeCell(event.text(.log), into: &draft)
        self.writeCell(event.kind == .user ? TextSlice("set_user") : event.name, into: &draft)
        self.writeCell(event.text(.screen), into: &draft)
        switch self.options.others {
        case .cell: self.writeOthersCell(of: event, into: &draft)
        case .columns: self.writeOthersColumns(of: event, into: &draft)
        }
        if self.options.hasID { self.writeCell(event.id, into: &draft) }
        return .written
    }

    private func writeTime(of event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft) {
        var offset = context.offsetSeconds
        if self.options.zone == .event, let minutes = event.integer(.tz), abs(minutes) < 24 * 60 {
            offset = minutes * 60
        }
        let local = event.facts.time.milliseconds + Int64(offset) * 1000
        let seconds = local.quotientAndRemainder(flooringBy: 1000)
        let days = seconds.quotient.quotientAndRemainder(flooringBy: 86_400)
        TimeText.append(
            day: CalendarDay(daysSince1970: Int32(clamping: days.quotient)), to: &draft.json.output)
        draft.json.output.append(UInt8(ascii: " "))
        TimeText.append(secondOfDay: days.remainder, to: &draft.json.output)
        guard self.options.hasMilliseconds else { return }
        draft.json.output.append(UInt8(ascii: "."))
        draft.json.output.append(decimal: UInt64(seconds.remainder), digitCount: 3)
    }

    // MARK: Cells

    @inline(__always)
    private func writeCell(_ slice: TextSlice?, into draft: inout Draft) {
        draft.appendCell(slice, isGuarded: self.options.isGuarded)
    }

    private func finishCell(in draft: inout Draft) {
        draft.finishCell(isGuarded: self.options.isGuarded)
    }

    // MARK: Others

    /// Pairs that share the beginning of their names.
    private struct Pairs {
        var members: EventFields
        var prefix: StaticString = ""
    }

    /// What is written of a `user` event.
    private func traits(of event: borrowing MappedEvent) -> [Pairs] {
        [
            Pairs(members: event.members(of: event.object(.traits))),
            Pairs(members: event.members(of: event.object(.traitsOnce)), prefix: "traits_once."),
            Pairs(members: event.members(of: event.object(.traitsAdd)), prefix: "traits_add."),
        ]
    }

    /// Writes `k=v;k=v`, cut at the end of a pair.
    private func writeOthersCell(of event: borrowing MappedEvent, into draft: inout Draft) {
        draft.cell.removeAll()
        var length = CSVText.Length()
        if event.kind == .user {
            for pairs in self.traits(of: event) {
                guard self.appendPairs(pairs, of: event, &length, into: &draft) else { break }
            }
        } else {
            _ = self.appendPairs(Pairs(members: event.fields()), of: event, &length, into: &draft)
        }
        if CSVText.isPlain(draft.cell.bytes) {
            draft.json.output.append(UInt8(ascii: ","))
            draft.json.output.append(draft.cell.bytes)
        } else {
            self.finishCell(in: &draft)
        }
    }

    /// Returns false if a pair did not fit.
    @inline(__always)
    private func appendPairs(
        _ pairs: Pairs, of event: borrowing MappedEvent, _ length: inout CSVText.Length, into draft: inout Draft
    ) -> Bool {
        var pairs = pairs
        while let (key, value) = pairs.members.next(in: event) {
            let start = draft.cell.count
            if start > 0 { draft.cell.append(UInt8(ascii: ";")) }
            guard draft.appendPair(key, value, of: event, start: start, prefix: pairs.prefix) else { continue }
            // One character is reserved for the guard.
            if length.exceeds(Limits.CSV.cellCharacterCountMax - 1, draft.cell.bytes) {
                draft.cell.truncate(to: start)
                draft.fixes.count(.truncateValue)
                return false
            }
        }
        return true
    }

    private func writeOthersColumns(of event: borrowing MappedEvent, into draft: inout Draft) {
        var count = 0
        if event.kind == .user {
            for pairs in self.traits(of: event) { count += self.writeColumns(pairs, of: event, into: &draft) }
        } else {
            count = self.writeColumns(Pairs(members: event.fields()), of: event, into: &draft)
        }
        if count == 0 { draft.json.output.append(UInt8(ascii: ",")) }
    }

    @inline(__always)
    private func writeColumns(_ pairs: Pairs, of event: borrowing MappedEvent, into draft: inout Draft) -> Int {
        var pairs = pairs
        var count = 0
        while let (key, value) = pairs.members.next(in: event) {
            draft.cell.removeAll()
            guard draft.appendPair(key, value, of: event, start: 0, prefix: pairs.prefix) else { continue }
            self.finishCell(in: &draft)
            count += 1
        }
        return count
    }
}

extension CSV {
    static let name = "csv"

    static func options<Keys: ProviderOptionKeys>(_ keys: Keys) -> [Keys.Key] {
        [
            keys.choice("zone", \.csv.zone, "The time zone of `Time`: the export's, or the one the device was in."),
            keys.flag("millis", \.csv.hasMilliseconds, "`Time` has milliseconds."),
            keys.flag("bom", \.csv.hasByteOrderMark, "Begin with a byte order mark, for Excel."),
            keys.flag("guard", \.csv.isGuarded, "Write `'` before what a spreadsheet would calculate."),
            keys.choice("others", \.csv.others, "Fields share one cell, or each has a cell of its own."),
            keys.flag("users", \.csv.includesUsers, "Write `user` events too."),
            keys.flag("id", \.csv.hasID, "Write the event's id in an eighth column."),
        ]
    }

    static func addOptions(of options: ExportOptions, to text: inout CanonicalOptions) {
        let usual = CSVOptions()
        let csv = options.csv
        text.add("bom", csv.hasByteOrderMark, unless: usual.hasByteOrderMark)
        text.add("millis", csv.hasMilliseconds, unless: usual.hasMilliseconds)
        text.add("zone", csv.zone.rawValue, unless: usual.zone.rawValue)
        text.add("others", csv.others.rawValue, unless: usual.others.rawValue)
        text.add("users", csv.includesUsers, unless: usual.includesUsers)
        text.add("guard", csv.isGuarded, unless: usual.isGuarded)
        text.add("id", csv.hasID, unless: usual.hasID)
    }
}

extension Destination {
    package static var csv: Destination { Destination(CSV.self) }
}

extension ExportOptions {
    package var csv: CSVOptions {
        get { self[CSVOptions.self] }
        set { self[CSVOptions.self] = newValue }
    }
}

extension Limits {
    /// Microsoft, "Excel specifications and limits".
    package enum CSV {
        package static let cellCharacterCountMax = 32_767
        /// A million lines with the header; Excel opens 1 048 576 rows.
        package static let recordsPerPartMax = 999_999
        package static let partByteCountMax = 256 << 20
    }
}
