internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON
internal import WaybillSystem

/// Where lines came from; one for all lines of a run.
final class LineOrigin {
    /// `nil`: not recorded, so the line is read as one of Waybill's own.
    let reader: EventReader?
    /// The number of the agent that shipped it.
    let agent: UInt32
    /// Milliseconds since 1970; 0: unknown.
    let received: Int64

    init(reader: EventReader? = nil, agent: UInt32 = 0, received: Int64 = 0) {
        self.reader = reader
        self.agent = agent
        self.received = received
        self.isForeign = reader?.source.isForeign ?? false
    }

    /// What foreign lines are; `nil` for Waybill's own.
    var foreign: SourceDescription? { self.isForeign ? self.reader?.source : nil }
    let isForeign: Bool
}

/// What a request asks of each line.
struct RowOptions: Hashable, Sendable {
    var properties: [PropertyPath] = []
    /// Whether the catalogue of names is to be made.
    var wantsCatalogue = false

    var wantsData: Bool { self.properties.contains { if case .data = $0 { true } else { false } } }
    var wantsTraits: Bool { self.properties.contains { if case .trait = $0 { true } else { false } } }
}

/// Makes rows of lines: one scan of each, and no allocation for a text that the line before had too.
///
/// Not shared between threads. The texts' numbers are those of the table that it fills.
final class RowParser {
    /// Fields whose last value is remembered.
    private enum Field: Int, CaseIterable {
        case writer, name, screen, previous, session, user, install, version, systemVersion
    }

    private static var memoryByteCount: Int { 64 }

    private let options: RowOptions
    /// The last value of each field, as in the line, and its number.
    private let memory: UnsafeMutableRawBufferPointer
    private let memoryCounts: UnsafeMutablePointer<Int>
    private let memoryNumbers: UnsafeMutablePointer<UInt32>
    private var unescaped = ByteBuilder(capacity: 256)
    private var members = LineMembers()
    /// The values of ``RowOptions/properties`` that are members of the line itself.
    private var requested: [ValueSpan]
    /// The texts of ``RowOptions/properties`` in the line that was read last.
    private(set) var values: [UInt32]
    /// The members of `data` in the line that was given to ``readFields(_:in:)`` last.
    private(set) var fields: [LineField] = []
    private let hasLineMembers: Bool

    init(_ options: RowOptions) {
        self.options = options
        self.memory = .allocate(byteCount: Field.allCases.count * Self.memoryByteCount, alignment: 16)
        self.memoryCounts = .allocate(capacity: Field.allCases.count)
        self.memoryCounts.initialize(repeating: -1, count: Field.allCases.count)
        self.memoryNumbers = .allocate(capacity: Field.allCases.count)
        self.memoryNumbers.initialize(repeating: 0, count: Field.allCases.count)
        self.requested = options.properties.map { _ in ValueSpan() }
        self.values = options.properties.map { _ in 0 }
        self.hasLineMembers = options.properties.contains { if case .member = $0 { true } else { false } }
    }

    deinit {
        self.memory.deallocate()
        self.memoryCounts.deallocate()
        self.memoryNumbers.deallocate()
    }

    /// The id of the line that was read last, without quotes.
    func id(in line: UnsafeRawBufferPointer, isForeign: Bool) -> UnsafeRawBufferPointer? {
        guard self.members.id.kind == .string, let id = self.members.id.body(in: line), !id.isEmpty else { return nil }
        // Any other id of a foreign line may be that of a thing, such as an order.
        return isForeign && !LineStream.isEventID(id) ? nil : id
    }

    /// The app that the line that was read last names.
    func isBundle(_ bundle: String, in line: UnsafeRawBufferPointer, _ origin: LineOrigin) -> Bool {
        if let source = origin.foreign { return source.bundle == bundle }
        guard self.members.bundle.kind == .string, let body = self.members.bundle.body(in: line) else { return false }
        return JSONText.string(body) == bundle
    }

    /// Reads a line.
    ///
    /// - Returns: `nil` if it is not an event.
    func read(
        _ line: UnsafeRawBufferPointer, _ origin: LineOrigin, into table: inout DayTable
    ) -> EventRow? {
        guard origin.isForeign, let reader = origin.reader else {
            guard self.scan(line, nil), self.members.time.kind == .string,
                let time = self.members.time.body(in: line).flatMap({ TimeText.parse($0) }),
                self.members.name.kind == .string
            else { return nil }
            var row = EventRow(time: time)
            row.name = self.number(.name, self.members.name, line, &table)
            guard self.members.name.end - self.members.name.start > 2 else { return nil }
            row.kind = self.kind(line)
            self.fill(&row, line, origin, &table)
            return row
        }
        guard case .event(let facts) = reader.read(line), self.scan(line, reader.source) else { return nil }
        var row = EventRow(time: facts.time.milliseconds)
        row.isForeign = true
        if let name = facts.name {
            row.name = self.number(
                .name, ValueSpan((name.lowerBound - 1)..<(name.upperBound + 1), .string), line, &table)
        } else {
            row.name = table.strings.intern("log")
        }
        row.kind = RowKind(facts.kind)
        if self.isDash(self.members.user, line) { self.members.user = ValueSpan() }
        if self.isDash(self.members.install, line) { self.members.install = ValueSpan() }
        self.fill(&row, line, origin, &table)
        return row
    }

    // MARK: Members

    /// Finds the members; `false` if the line is not an object.
    private func scan(_ line: UnsafeRawBufferPointer, _ source: SourceDescription?) -> Bool {
        let isPlain = !self.hasLineMembers && source?.userMember == nil && source?.anonymousMember == nil
        guard isPlain else { return self.scanAll(line, source) }
        // Not the property: each access to it from a closure would be checked.
        var members = LineMembers()
        do throws(JSONError) {
            try JSONScanner.scanMembers(line, from: JSONText.byteOrderMarkByteCount(line)) { key, traits, value, kind in
                let body = UnsafeRawBufferPointer(rebasing: line[key])
                if traits.contains(.hasEscapes) {
                    Self.withText(of: body) { members.take($0, value, kind) }
                } else {
                    members.take(body, value, kind)
                }
            }
        } catch {
            return false
        }
        self.members = members
        return true
    }

    /// Finds the members, and those that the request or the source names.
    private func scanAll(_ line: UnsafeRawBufferPointer, _ source: SourceDescription?) -> Bool {
        var members = LineMembers()
        for index in self.requested.indices { self.requested[index] = ValueSpan() }
        let userMember = source?.userMember
        let installMember = source?.anonymousMember
        var named = (user: ValueSpan(), install: ValueSpan())
        do throws(JSONError) {
            try JSONScanner.scanMembers(line, from: JSONText.byteOrderMarkByteCount(line)) { key, traits, value, kind in
                let body = UnsafeRawBufferPointer(rebasing: line[key])
                let take = { (name: UnsafeRawBufferPointer) in
                    members.take(name, value, kind)
                    self.takeRequested(name, value, kind)
                    if let userMember, userMember.utf8.elementsEqual(name) { named.user.take(value, kind) }
                    if let installMember, installMember.utf8.elementsEqual(name) { named.install.take(value, kind) }
                }
                if traits.contains(.hasEscapes) { Self.withText(of: body, take) } else { take(body) }
            }
        } catch {
            return false
        }
        if userMember != nil { members.user = named.user }
        if installMember != nil { members.install = named.install }
        self.members = members
        return true
    }

    /// Calls `body` with the text of a string that has escapes.
    private static func withText(of string: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Void) {
        Array(JSONText.string(string).utf8).withUnsafeBytes(body)
    }

    private func takeRequested(_ key: UnsafeRawBufferPointer, _ value: Range<Int>, _ kind: JSONKind) {
        for (index, path) in self.options.properties.enumerated() {
            if case .member(let name) = path, name.utf8.elementsEqual(key) { self.requested[index].take(value, kind) }
        }
    }

    private func kind(_ line: UnsafeRawBufferPointer) -> RowKind {
        guard self.members.kind.kind == .string, let body = self.members.kind.body(in: line) else { return .event }
        if JSONText.equals(body, isEscaped: false, "screen") { return .screen }
        if JSONText.equals(body, isEscaped: false, "action") { return .action }
        if JSONText.equals(body, isEscaped: false, "event") { return .event }
        return RowKind(EventKind(rawValue: JSONText.string(body)))
    }

    private func isDash(_ span: ValueSpan, _ line: UnsafeRawBufferPointer) -> Bool {
        guard let body = span.body(in: line) else { return false }
        return body.isEmpty || body.elementsEqual("-".utf8)
    }

    // MARK: Rows

    private func fill(
        _ row: inout EventRow, _ line: UnsafeRawBufferPointer, _ origin: LineOrigin, _ table: inout DayTable
    ) {
        let members = self.members
        row.received = origin.received
        row.agent = origin.agent
        row.sequence = members.sequence.integer(in: line) ?? -1
        row.writer = self.number(.writer, members.writer, line, &table)
        row.screen = self.number(.screen, members.screen, line, &table)
        row.session = self.number(.session, members.session, line, &table)
        row.user = self.number(.user, members.user, line, &table)
        row.install = self.number(.install, members.install, line, &table)
        row.version = self.number(.version, members.version, line, &table)
        row.systemVersion = self.number(.systemVersion, members.systemVersion, line, &table)
        if row.kind == .screen, members.previous.isPresent,
            let milliseconds = members.previousMilliseconds.integer(in: line)
        {
            row.dwellScreen = self.number(.previous, members.previous, line, &table)
            if row.dwellScreen != 0 { row.dwell = milliseconds }
        }
        for (index, path) in self.options.properties.enumerated() {
            self.values[index] = 0
            if case .member = path { self.values[index] = self.number(self.requested[index], line, &table) }
        }
        let isScreenEnd = row.kind == .event && table.strings.isEqual(row.name, "screen_end")
        if isScreenEnd || self.options.wantsData { self.readData(&row, line, isScreenEnd, &table) }
        if self.options.wantsTraits, row.kind == .user { self.readTraits(line, &table) }
    }

    private func readData(
        _ row: inout EventRow, _ line: UnsafeRawBufferPointer, _ isScreenEnd: Bool, _ table: inout DayTable
    ) {
        var dwell: Int64?
        self.visit(self.members.data, line) { key, span in
            if isScreenEnd, dwell == nil, JSONText.equals(key, isEscaped: false, "duration_ms") {
                dwell = span.integer(in: line)
            }
            for (index, path) in self.options.properties.enumerated() where self.values[index] == 0 {
                if case .data(let name) = path, name.utf8.elementsEqual(key) {
                    self.values[index] = self.number(span, line, &table)
                }
            }
        }
        if isScreenEnd, let dwell, row.screen != 0 {
            row.dwellScreen = row.screen
            row.dwell = dwell
        }
    }

    /// Finds the ``fields`` of the line that was read last.
    func readFields(_ line: UnsafeRawBufferPointer, in table: inout DayTable) {
        self.fields.removeAll(keepingCapacity: true)
        self.visit(self.members.data, line) { key, span in
            let type = Self.type(span, line)
            if type != .none { self.fields.append(LineField(property: table.strings.intern(key), type: type)) }
        }
    }

    private func readTraits(_ line: UnsafeRawBufferPointer, _ table: inout DayTable) {
        self.visit(self.members.traits, line) { key, span in
            for (index, path) in self.options.properties.enumerated() where self.values[index] == 0 {
                if case .trait(let name) = path, name.utf8.elementsEqual(key) {
                    self.values[index] = self.number(span, line, &table)
                }
            }
        }
    }

    /// Calls `body` with each member of an object in the line; the keys are unescaped.
    private func visit(
        _ object: ValueSpan, _ line: UnsafeRawBufferPointer,
        _ body: (_ key: UnsafeRawBufferPointer, _ value: ValueSpan) -> Void
    ) {
        guard object.isPresent, object.kind == .object else { return }
        let part = UnsafeRawBufferPointer(rebasing: line[..<object.end])
        do throws(JSONError) {
            try JSONScanner.scanMembers(part, from: object.start) { key, traits, value, kind in
                let span = ValueSpan(value, kind)
                let raw = UnsafeRawBufferPointer(rebasing: line[key])
                if traits.contains(.hasEscapes) {
                    Self.withText(of: raw) { body($0, span) }
                } else {
                    body(raw, span)
                }
            }
        } catch {
            preconditionFailure("an object of a line that was scanned before cannot be read: \(error)")
        }
    }

    private static func type(_ span: ValueSpan, _ line: UnsafeRawBufferPointer) -> ValueType {
        switch span.kind {
        case .null: .none
        case .true, .false: .boolean
        case .string: .string
        case .array: .array
        case .object: .object
        case .number:
            line[span.start..<span.end].contains { $0 == UInt8(ascii: ".") || $0 | 0x20 == UInt8(ascii: "e") }
                ? .number : .integer
        }
    }

    // MARK: Texts

    /// The number of a field's text, which is often that of the line before.
    @inline(__always)
    private func number(
        _ field: Field, _ span: ValueSpan, _ line: UnsafeRawBufferPointer, _ table: inout DayTable
    ) -> UInt32 {
        guard span.isPresent, span.kind == .string || span.kind == .number, let body = span.body(in: line) else {
            return 0
        }
        let slot = field.rawValue
        let place = slot * Self.memoryByteCount
        if body.count == self.memoryCounts[slot],
            JSONText.equals(body, UnsafeRawBufferPointer(rebasing: self.memory[place..<(place + body.count)]))
        {
            return self.memoryNumbers[slot]
        }
        let number = self.number(span, line, &table)
        if body.count <= Self.memoryByteCount {
            UnsafeMutableRawBufferPointer(rebasing: self.memory[place..<(place + body.count)]).copyMemory(from: body)
            self.memoryCounts[slot] = body.count
            self.memoryNumbers[slot] = number
        }
        return number
    }

    /// The number of a value's text: a string's characters, anything else as it is written; 0 for null.
    private func number(
        _ span: ValueSpan, _ line: UnsafeRawBufferPointer, _ table: inout DayTable
    ) -> UInt32 {
        guard span.kind != .null, let body = span.body(in: line) else { return 0 }
        guard span.kind == .string, JSONText.hasEscapes(body) else { return table.strings.intern(body) }
        self.unescaped.removeAll()
        JSONText.unescape(body, into: &self.unescaped)
        return table.strings.intern(self.unescaped.bytes)
    }
}

extension RowKind {
    init(_ kind: EventKind?) {
        switch kind {
        case .screen: self = .screen
        case .action: self = .action
        case .user: self = .user
        case .meta: self = .meta
        case .event, nil: self = .event
        }
    }

    /// As in a line.
    var name: String {
        switch self {
        case .event: "event"
        case .screen: "screen"
        case .action: "action"
        case .user: "user"
        case .meta: "meta"
        }
    }
}
