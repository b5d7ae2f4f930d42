internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// The source of a column's value.
struct CustomSource: Sendable {
    enum Place: Sendable {
        case time
        case receivedAt
        case name
        case kind
        case env
        case bundle
        case fields
        case member(EventField)
    }

    let place: Place
    /// Names of the nested members that lead to the value.
    let path: [[UInt8]]

    init?(_ from: String) {
        let words = from.split(separator: ".", omittingEmptySubsequences: false).map { Array($0.utf8) }
        guard let first = words.first, !words.contains([]) else { return nil }
        self.path = Array(words.dropFirst())
        switch from {
        case "received_at": self.place = .receivedAt
        case "ts": self.place = .time
        case "name": self.place = .name
        case "kind": self.place = .kind
        case "env": self.place = .env
        case "bundle": self.place = .bundle
        default:
            guard let field = first.withUnsafeBytes({ EventField.named($0) }) else { return nil }
            switch field {
            case .data: self.place = .fields
            case .traits, .traitsOnce, .traitsAdd, .ids, .consent: self.place = .member(field)
            case .v, .id, .writer, .seq, .up, .dt, .screen, .screenClass, .screenID, .prev, .prevMilliseconds,
                .session, .sessionNumber, .user, .anon, .app, .build, .os, .osVersion, .model, .lang, .tz, .log,
                .sampleRate, .country, .userAgent:
                guard self.path.isEmpty else { return nil }
                self.place = .member(field)
            case .ts, .name, .kind, .env, .bundle, .providers, .overrides: return nil
            }
        }
    }
}

/// An event's value for a column.
private enum CustomValue {
    case none
    case text(TextSlice)
    case time(WallTime)
    case fields
    /// A value on the tape.
    case node(Int)
}

/// The rendered value of a column; its bytes are in the draft's cell.
private enum CustomRendering {
    case none
    case text
    case json
}

/// Writes records of an operator's columns, as NDJSON or CSV.
///
///     {"at":"2025-03-01T09:14:19.003Z","event":"purchase","price":39900}
///     2025-03-01T09:14:19.003Z,purchase,39900
struct Custom: Provider {
    private struct Column: Sendable {
        let column: CustomOptions.Column
        let source: CustomSource
        let name: GivenName
    }

    private let id: Destination
    private let options: CustomOptions
    private let columns: [Column]

    /// - Parameter export: already checked; a custom provider without columns is a programming error.
    init(_ export: ExportOptions) {
        let name = export.provider
        guard let options = export.custom, !options.columns.isEmpty else {
            preconditionFailure("the provider \(name) has no columns")
        }
        self.id = name
        self.options = options
        self.columns = options.columns.map { column in
            guard let source = CustomSource(column.from) else {
                preconditionFailure("no event has \(column.from), the source of a column of \(name)")
            }
            return Column(column: column, source: source, name: GivenName(column.name))
        }
    }

    var description: ProviderDescription {
        ProviderDescription(
            id: self.id, fileExtension: self.options.format.rawValue, header: self.header,
            recordsPerPartMax: self.options.recordsPerPartMax, partByteCountMax: self.options.partByteCountMax)
    }

    private var header: [UInt8] {
        guard self.options.format == .csv else { return [] }
        var draft = Draft()
        for column in self.columns {
            draft.cell.removeAll()
            draft.cell.append(column.name.bytes)
            draft.finishCell(isGuarded: self.options.isGuarded, characterCountMax: .max)
        }
        return Array(draft.json.output.bytes.dropFirst()) + [0x0D, 0x0A]
    }

    var recordByteCountMax: Int { self.options.recordByteCountMax }
    var terminator: StaticString { self.options.format == .csv ? "\r\n" : "\n" }
    var isJSON: Bool { self.options.format == .ndjson }

    func takes(_ kind: EventKind) -> Bool {
        self.options.kinds.contains(kind)
    }

    func map(_ event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft) -> MappingOutcome {
        if self.options.format == .ndjson { draft.json.beginObject() }
        for column in self.columns {
            var rendering = self.render(column, of: event, context, into: &draft)
            if rendering == .none, let value = column.column.defaultValue {
                draft.cell.removeAll()
                draft.cell.append(value)
                rendering = Self.isText(column.column.type) ? .text : .json
            }
            if rendering == .none, column.column.isRequired {
                return .refused(
                    RefusalCause(.customMissing, "a required column has no value", field: column.column.from))
            }
            switch self.options.format {
            case .ndjson: self.writeMember(column, rendering, into: &draft)
            case .csv: self.writeCell(rendering, into: &draft)
            }
        }
        switch self.options.format {
        case .ndjson: draft.json.endObject()
        case .csv: Self.dropFirstComma(of: &draft)
        }
        // For the line's end.
        guard draft.json.output.count + 2 <= self.options.recordByteCountMax else {
            return .refused(
                RefusalCause(
                    .customTooLarge, "the record is too large", limit: self.options.recordByteCountMax))
        }
        return .written
    }

    private static func isText(_ type: CustomOptions.ColumnType) -> Bool {
        switch type {
        case .string, .time: true
        case .number, .boolean, .json: false
        }
    }

    private func writeMember(_ column: Column, _ rendering: CustomRendering, into draft: inout Draft) {
        guard rendering != .none else { return }
        column.name.body.withUnsafeBytes { draft.json.key(plain: $0) }
        if rendering == .text {
            draft.json.string(draft.cell.bytes)
        } else {
            draft.json.verbatim(draft.cell.bytes)
        }
    }

    private func writeCell(_ rendering: CustomRendering, into draft: inout Draft) {
        if rendering == .none { draft.cell.removeAll() }
        draft.finishCell(isGuarded: self.options.isGuarded, characterCountMax: .max)
    }

    /// Removes the comma in front of the first cell.
    private static func dropFirstComma(of draft: inout Draft) {
        draft.moveToTail()
        draft.json.output.append(UnsafeRawBufferPointer(rebasing: draft.tail.output.bytes.dropFirst()))
    }

    // MARK: Values

    private func value(_ source: CustomSource, of event: borrowing MappedEvent, _ context: MappingContext)
        -> CustomValue
    {
        switch source.place {
        case .time: return .time(event.facts.time)
        case .receivedAt: return context.receivedAt == .unknown ? .none : .time(context.receivedAt)
        case .name: return .text(event.name)
        case .kind: return .text(TextSlice(event.kind.staticName))
        case .env: return .text(TextSlice(event.facts.env.staticName))
        case .bundle: return .text(event.bundle)
        case .fields:
            guard let first = source.path.first else { return .fields }
            var fields = event.fields()
            while let (key, value) = fields.next(in: event) {
                let name = TextSlice(
                    body: event.tape.bytes(of: key), isEscaped: event.tape[key].traits.contains(.hasEscapes))
                if first.withUnsafeBytes({ name.equals($0) }) {
                    return Self.descend(from: value, source.path.dropFirst(), in: event)
                }
            }
            return .none
        case .member(.id) where event.madeID != nil:
            return event.id.map(CustomValue.text) ?? .none
        case .member(let field):
            guard let index = event.index(field) else { return .none }
            return Self.descend(from: index, source.path[...], in: event)
        }
    }

    private static func descend(
        from index: Int, _ path: ArraySlice<[UInt8]>, in event: borrowing MappedEvent
    ) -> CustomValue {
        var index = index
        for name in path {
            guard let inner = name.withUnsafeBytes({ event.tape.firstValue(of: $0, in: index) }) else { return .none }
            index = inner
        }
        return .node(index)
    }

    /// Puts a column's value into the draft's cell, in the column's type.
    private func render(
        _ column: Column, of event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft
    ) -> CustomRendering {
        draft.cell.removeAll()
        let type = column.column.type
        switch self.value(column.source, of: event, context) {
        case .none: return .none
        case .text(let slice): return Self.render(slice, as: column.column, into: &draft)
        case .time(let time): return Self.render(time, as: type, into: &draft)
        case .fields:
            Self.writeFields(of: event, into: &draft)
            return Self.renderNested(as: column.column, into: &draft)
        case .node(let index):
            let bytes = event.tape.bytes(of: index)
            switch event.tape[index].kind {
            case .null:
                draft.fixes.count(.dropNull)
                return .none
            case .string:
                let isEscaped = event.tape[index].traits.contains(.hasEscapes)
                return Self.render(TextSlice(body: bytes, isEscaped: isEscaped), as: column.column, into: &draft)
            case .number: return Self.render(number: bytes, as: column.column, into: &draft)
            case .true, .false: return Self.render(flag: bytes, as: column.column, into: &draft)
            case .array, .object:
                draft.compactText(index, of: event)
                draft.cell.append(draft.text.bytes)
                return Self.renderNested(as: column.column, into: &draft)
            }
        }
    }

    private static func writeFields(of event: borrowing MappedEvent, into draft: inout Draft) {
        draft.cell.append(UInt8(ascii: "{"))
        draft.itemNames.removeAll()
        var fields = event.fields()
        while let (key, value) = fields.next(in: event) {
            guard draft.beginCellField(key, of: event) else { continue }
            draft.compactText(value, of: event)
            draft.cell.append(draft.text.bytes)
        }
        draft.cell.append(UInt8(ascii: "}"))
    }

    // MARK: Types

    private static func dropped(_ draft: inout Draft) -> CustomRendering {
        draft.fixes.count(.dropField)
        return .none
    }

    private static func coerced(_ rendering: CustomRendering, _ draft: inout Draft) -> CustomRendering {
        draft.fixes.count(.coerce)
        return rendering
    }

    /// Cuts the cell's text to the column's length.
    private static func cutText(_ column: CustomOptions.Column, _ draft: inout Draft) -> CustomRendering {
        if let limit = column.characterCountMax {
            let kept = TextLimit.keptByteCount(of: draft.cell.bytes, limit: limit, unit: .utf16)
            if kept < draft.cell.count {
                draft.cell.truncate(to: kept)
                draft.fixes.count(.truncateValue)
            }
        }
        return .text
    }

    private static func render(
        _ slice: TextSlice, as column: CustomOptions.Column, into draft: inout Draft
    ) -> CustomRendering {
        draft.unescape(slice)
        switch column.type {
        case .string:
            draft.cell.append(draft.text.bytes)
            return Self.cutText(column, &draft)
        case .json:
            draft.cell.append(UInt8(ascii: "\""))
            JSONText.escape(draft.text.bytes, into: &draft.cell)
            draft.cell.append(UInt8(ascii: "\""))
            return Self.limitJSON(column, &draft)
        case .number:
            guard Self.isNumber(draft.text.bytes), !JSONFaults.isTooLarge(draft.text.bytes) else {
                return Self.dropped(&draft)
            }
            draft.cell.append(draft.text.bytes)
            return Self.coerced(.json, &draft)
        case .boolean:
            let text = TextSlice(body: draft.text.bytes, isEscaped: false)
            guard text.equals("true") || text.equals("false") else { return Self.dropped(&draft) }
            draft.cell.append(draft.text.bytes)
            return Self.coerced(.json, &draft)
        case .time:
            let milliseconds = TimeText.parse(draft.text.bytes) ?? TimeText.parse(number: draft.text.bytes)
            guard let milliseconds, Self.isTime(milliseconds) else { return Self.dropped(&draft) }
            TimeText.append(WallTime(milliseconds: milliseconds), to: &draft.cell)
            if !JSONText.equals(draft.cell.bytes, draft.text.bytes) { draft.fixes.count(.coerce) }
            return .text
        }
    }

    private static func render(
        _ time: WallTime, as type: CustomOptions.ColumnType, into draft: inout Draft
    ) -> CustomRendering {
        switch type {
        case .string, .time:
            TimeText.append(time, to: &draft.cell)
            return .text
        case .number:
            draft.cell.append(decimal: time.milliseconds)
            return .json
        case .json:
            draft.cell.append(UInt8(ascii: "\""))
            TimeText.append(time, to: &draft.cell)
            draft.cell.append(UInt8(ascii: "\""))
            return .json
        case .boolean: return Self.dropped(&draft)
        }
    }

    private static func render(
        number: UnsafeRawBufferPointer, as column: CustomOptions.Column, into draft: inout Draft
    ) -> CustomRendering {
        switch column.type {
        case .number, .json:
            draft.cell.append(number)
            return .json
        case .string:
            draft.cell.append(number)
            return Self.coerced(Self.cutText(column, &draft), &draft)
        case .boolean:
            let text = TextSlice(body: number, isEscaped: false)
            guard text.equals("0") || text.equals("1") else { return Self.dropped(&draft) }
            draft.cell.append(text.equals("1") ? "true" : "false")
            return Self.coerced(.json, &draft)
        case .time:
            guard let milliseconds = TimeText.parse(number: number), Self.isTime(milliseconds) else {
                return Self.dropped(&draft)
            }
            TimeText.append(WallTime(milliseconds: milliseconds), to: &draft.cell)
            return Self.coerced(.text, &draft)
        }
    }

    private static func render(
        flag: UnsafeRawBufferPointer, as column: CustomOptions.Column, into draft: inout Draft
    ) -> CustomRendering {
        switch column.type {
        case .boolean, .json:
            draft.cell.append(flag)
            return .json
        case .string:
            draft.cell.append(flag)
            return Self.coerced(Self.cutText(column, &draft), &draft)
        case .number, .time: return Self.dropped(&draft)
        }
    }

    /// Renders a list or an object, which is in the cell as compact JSON.
    private static func renderNested(as column: CustomOptions.Column, into draft: inout Draft) -> CustomRendering {
        switch column.type {
        case .json: return Self.limitJSON(column, &draft)
        case .string: return Self.coerced(Self.cutText(column, &draft), &draft)
        case .number, .boolean, .time: return Self.dropped(&draft)
        }
    }

    /// Drops JSON that is too long: cut, it would be invalid.
    private static func limitJSON(_ column: CustomOptions.Column, _ draft: inout Draft) -> CustomRendering {
        if let limit = column.characterCountMax, TextLimit.utf16Count(draft.cell.bytes) > limit {
            return Self.dropped(&draft)
        }
        return .json
    }

    private static func isNumber(_ text: UnsafeRawBufferPointer) -> Bool {
        guard let first = text.first, let last = text.last, 0x30...0x39 ~= last,
            0x30...0x39 ~= first || first == UInt8(ascii: "-")
        else { return false }
        do throws(JSONError) {
            return try JSONScanner.scanValue(text) == .number
        } catch {
            return false
        }
    }

    /// Whether the year is 1 to 9999, which fits four digits.
    private static func isTime(_ milliseconds: Int64) -> Bool {
        -62_135_596_800_000...253_402_300_799_999 ~= milliseconds
    }
}

extension Custom {
    static let name = "custom"
    static let refusals: [RefusalReason] = [.customMissing, .customTooLarge]

    static func addOptions(of options: ExportOptions, to text: inout CanonicalOptions) {
        text.lines.append(options.custom?.canonicalText ?? "")
    }
}

extension RefusalReason {
    package static let customMissing = RefusalReason(
        "custom.missing", remedy: "give the required column a value in each event, or make the column optional")
    package static let customTooLarge = RefusalReason("custom.too_large", remedy: Remedy.sendLess)
}
