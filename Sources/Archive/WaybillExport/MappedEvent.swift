package import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// One event while it is mapped: the line's tape, the places of its schema members, and the name and fields as changed
/// by the steps before the provider's own rules.
///
/// Keeps its capacity from line to line; the values it returns are valid until the next ``load(_:_:_:)``.
package struct MappedEvent: ~Copyable {
    private(set) var tape = JSONTape()
    /// Tape index of each ``EventField``'s value; 0 if there is none.
    let slots: UnsafeMutablePointer<UInt32>
    package private(set) var facts: EventFacts
    /// The event's kind for the provider; an override of the name turns a screen into an ``EventKind/event``.
    package private(set) var kind = EventKind.event
    package private(set) var name = TextSlice("log")
    /// The app's identifier, from the line or its source.
    private(set) var bundle = TextSlice("unknown")
    private var sourceBundle = ByteBuilder(capacity: 64)
    /// Where a foreign line is from; `nil` for a line of Waybill's own.
    private(set) var foreignSource: SourceDescription?
    /// Where the line begins in its stream.
    private(set) var streamOffset: UInt64 = 0
    /// The id that was made for a foreign line.
    private(set) var madeID: UniqueID?
    private var madeText = ByteBuilder(capacity: 36)
    /// The event's id, if it is allowed in a list of ids: 1 to 64 letters, digits, `-`, `_`, `.` or `:`.
    private(set) var identifier: UnsafeRawBufferPointer?
    /// The kinds of text in which all characters of ``identifier`` are allowed.
    private(set) var identifierTraits: CharacterTraits = []
    /// The object whose members are the event's fields; -1 for none.
    private var fieldsObject = -1
    /// Whether members of the line itself are fields, after those of ``fieldsObject``: those of a foreign line that
    /// ``isForeignField(key:value:)`` finds.
    private var hasTopLevelFields = false
    /// Whether a strict JSON reader may refuse a value of the line.
    private var mayHaveFaults = false
    /// Tape index of the object whose members are the event's: 0, or the repaired one.
    private(set) var root = 0
    /// Where the values of a foreign line's time and name begin.
    private(set) var timeStart = 0
    private(set) var nameStart = -1
    private var names = NameSet()

    init() {
        self.slots = .allocate(capacity: EventField.allCases.count)
        self.slots.initialize(repeating: 0, count: EventField.allCases.count)
        self.facts = EventFacts(
            time: WallTime(milliseconds: 0), env: .dev, bundle: nil, name: nil, kind: nil, timeOffset: 0)
    }

    deinit {
        self.slots.deallocate()
    }

    /// Reads a line like ``EventReader/read(_:)``, and loads it if it is an event.
    ///
    /// For one of Waybill's own lines, one parse does both.
    ///
    /// - Parameter offset: where the line begins in its stream.
    mutating func load(_ line: UnsafeRawBufferPointer, _ reader: EventReader, at offset: UInt64) -> EventReading {
        self.madeID = nil
        self.streamOffset = offset
        guard !reader.source.isForeign, line.count <= Limits.lineByteCountMax else {
            return self.loadJudged(line, reader)
        }
        do throws(JSONError) {
            try self.parse(line)
        } catch {
            return .quarantine(reader.reason(for: error, in: line))
        }
        let reading = reader.judge(self.ownMembers, of: line)
        if case .event(let facts) = reading { self.take(facts, of: line, reader.source) }
        return reading
    }

    private mutating func loadJudged(_ line: UnsafeRawBufferPointer, _ reader: EventReader) -> EventReading {
        let reading = reader.read(line)
        guard case .event(let facts) = reading else { return reading }
        do throws(JSONError) {
            try self.load(line, facts, reader.source, at: self.streamOffset)
        } catch {
            return .quarantine(reader.reason(for: error, in: line))
        }
        return reading
    }

    /// Parses a line that ``EventReader`` accepted.
    mutating func load(
        _ line: UnsafeRawBufferPointer, _ facts: EventFacts, _ source: SourceDescription, at offset: UInt64
    ) throws(JSONError) {
        self.madeID = nil
        self.streamOffset = offset
        try self.parse(line)
        self.take(facts, of: line, source)
    }

    /// Loads an event that was parsed once for several exports.
    ///
    /// - Parameter line: the bytes that it was parsed from.
    @inline(__always)
    mutating func load(
        _ parsed: ParsedEvent, _ facts: EventFacts, of line: UnsafeRawBufferPointer, _ source: SourceDescription,
        at offset: UInt64, madeID: UniqueID?
    ) {
        self.madeID = madeID
        self.streamOffset = offset
        self.tape.copy(parsed.entries, of: line)
        self.slots.update(from: parsed.slots, count: EventField.allCases.count)
        self.mayHaveFaults = parsed.mayHaveFaults
        self.take(facts, of: line, source)
    }

    /// The parsed line, for others to load; valid until the next line is loaded.
    var parsed: ParsedEvent {
        ParsedEvent(
            entries: self.tape.all, slots: UnsafePointer(self.slots), mayHaveFaults: self.mayHaveFaults)
    }

    /// Fills tape and slots; of members with the same name, the first counts.
    private mutating func parse(_ line: UnsafeRawBufferPointer) throws(JSONError) {
        try self.tape.parse(line, from: JSONText.byteOrderMarkByteCount(line))
        let mayRepeatName = self.findSlots(of: 0)
        self.mayHaveFaults = mayRepeatName || JSONFaults.mayOccur(in: self.tape, &self.names)
    }

    /// Finds the members of the schema in an object; returns whether a name may occur twice in it.
    @discardableResult
    private mutating func findSlots(of root: Int) -> Bool {
        var mayRepeatName = false
        self.names.removeAll()
        self.slots.update(repeating: 0, count: EventField.allCases.count)
        var members = self.tape.members(of: root)
        while let (key, value) = members.next(in: self.tape) {
            guard let field = self.field(named: key) else {
                if JSONFaults.isRepeated(key, in: self.tape, &self.names) { mayRepeatName = true }
                continue
            }
            let slot = self.slots + Int(field.rawValue)
            if slot.pointee == 0 {
                slot.pointee = UInt32(truncatingIfNeeded: value)
            } else {
                mayRepeatName = true
            }
        }
        return mayRepeatName
    }

    private var ownMembers: OwnMembers {
        OwnMembers(
            version: self.member(.v), time: self.member(.ts), env: self.member(.env), name: self.member(.name),
            kind: self.member(.kind), bundle: self.member(.bundle), user: self.member(.user), anon: self.member(.anon))
    }

    /// The range of a member's value in the line, including its quotes.
    @inline(__always)
    private func member(_ field: EventField) -> Member {
        guard let index = self.index(field) else { return Member() }
        let entry = self.tape[index]
        let quote = entry.kind == .string ? 1 : 0
        return Member(start: Int(entry.start) - quote, end: Int(entry.end) + quote, kind: entry.kind)
    }

    private mutating func take(_ facts: EventFacts, of line: UnsafeRawBufferPointer, _ source: SourceDescription) {
        self.foreignSource = source.isForeign ? source : nil
        self.facts = facts
        self.root = 0
        self.timeStart = facts.timeOffset
        self.nameStart = facts.name?.lowerBound ?? -1
        self.kind = facts.kind ?? .event
        if let name = facts.name {
            let body = UnsafeRawBufferPointer(rebasing: line[name])
            self.name = TextSlice(body: body, isEscaped: JSONText.hasEscapes(body))
        } else {
            self.name = TextSlice("log")
        }
        if let bundle = facts.bundle {
            let body = UnsafeRawBufferPointer(rebasing: line[bundle])
            self.bundle = TextSlice(body: body, isEscaped: JSONText.hasEscapes(body))
        } else {
            self.sourceBundle.removeAll()
            self.sourceBundle.append(source.bundle)
            self.bundle = TextSlice(body: self.sourceBundle.bytes, isEscaped: false)
        }
        self.findFields()
    }

    private mutating func findFields() {
        self.findIdentifier()
        self.fieldsObject = self.object(.data) ?? -1
        self.hasTopLevelFields = self.foreignSource != nil
    }

    /// Whether the event needs a ``LineRepair`` for a provider.
    ///
    /// - Parameter isStrict: whether the provider's records are JSON.
    @inline(__always)
    func needsRepair(isStrict: Bool) -> Bool {
        isStrict && self.mayHaveFaults || self.number(.user) != nil || self.number(.anon) != nil
    }

    /// Replaces the event by its repaired form.
    ///
    /// - Parameter repair: valid as long as the event is.
    mutating func take(_ repair: borrowing LineRepair) throws(JSONError) {
        let time = self.rootPlace(of: self.timeStart)
        let name = self.rootPlace(of: self.nameStart - 1)
        let root = try self.tape.append(objectAt: repair.start, of: repair.bytes)
        self.findSlots(of: root)
        self.root = root
        if let value = self.value(named: time) {
            let quote = self.tape[value].kind == .string ? 1 : 0
            self.timeStart = Int(self.tape[value].start) - quote
        }
        if let value = self.value(named: name), let text = self.text(at: value) {
            self.nameStart = Int(self.tape[value].start)
            self.name = text
        }
        if self.facts.bundle != nil, let text = self.text(.bundle) { self.bundle = text }
        self.findFields()
    }

    /// Tape index of the key of the top-level member whose value begins at an offset of the line.
    private func rootPlace(of start: Int) -> Int? {
        var members = self.tape.members(of: 0)
        while let (key, value) = members.next(in: self.tape) {
            let entry = self.tape[value]
            if Int(entry.start) - (entry.kind == .string ? 1 : 0) == start { return key }
        }
        return nil
    }

    /// The repaired value of the member that the key at a tape index of the line names.
    private func value(named key: Int?) -> Int? {
        guard let key else { return nil }
        var name = ByteBuilder(capacity: 64)
        JSONText.unescape(self.tape.bytes(of: key), into: &name)
        return self.tape.firstValue(of: name.bytes, in: self.root)
    }

    @inline(__always)
    func field(named key: Int) -> EventField? {
        self.tape[key].traits.contains(.hasEscapes)
            ? EventField.named(escaped: self.tape.bytes(of: key)) : EventField.named(self.tape.bytes(of: key))
    }

    /// Applies the event's own name and fields for this provider, if it has any.
    mutating func apply(override index: Int) {
        if let name = self.tape.firstValue(of: "name", in: index), let text = self.text(at: name), !text.body.isEmpty {
            if self.kind == .screen, !JSONText.equals(text.body, self.name.body) { self.kind = .event }
            self.name = text
        }
        if let data = self.tape.firstValue(of: "data", in: index), self.tape[data].kind == .object {
            self.fieldsObject = data
            self.hasTopLevelFields = false
        }
    }

    /// Replaces the event's fields by those that an operator's mapping made of them.
    ///
    /// - Parameter patch: valid as long as the event is.
    mutating func take(fieldsOf patch: borrowing FieldPatch) throws(JSONError) {
        self.fieldsObject = try self.tape.append(objectAt: patch.start, of: patch.bytes)
        self.hasTopLevelFields = false
    }

    /// Sets the name that an operator's mapping gives; a renamed screen is an ``EventKind/event``.
    ///
    /// - Parameter name: its text is valid as long as the event is.
    mutating func rename(to name: TextSlice) {
        if self.kind == .screen, !JSONText.equals(name.body, self.name.body) { self.kind = .event }
        self.name = name
    }

    /// Tape index of a member's value.
    @inline(__always)
    func index(_ field: EventField) -> Int? {
        let index = self.slots[Int(field.rawValue)]
        return index == 0 ? nil : Int(index)
    }

    /// The text of a member that is a string with at least one character.
    @inline(__always)
    package func text(_ field: EventField) -> TextSlice? {
        guard let index = self.index(field), let text = self.text(at: index), !text.body.isEmpty else { return nil }
        if self.foreignSource != nil, !self.isMember(field, text) { return nil }
        return text
    }

    @inline(__always)
    func text(at index: Int) -> TextSlice? {
        let entry = self.tape[index]
        guard entry.kind == .string else { return nil }
        return TextSlice(body: self.tape.bytes(of: index), isEscaped: entry.traits.contains(.hasEscapes))
    }

    /// A member that is a number, as written in the line.
    func number(_ field: EventField) -> UnsafeRawBufferPointer? {
        guard let index = self.index(field), self.tape[index].kind == .number else { return nil }
        return self.tape.bytes(of: index)
    }

    /// A member that is a whole number of at most 18 digits.
    func integer(_ field: EventField) -> Int? {
        self.index(field).flatMap { self.integer(at: $0) }
    }

    /// A value that is a whole number of at most 18 digits.
    func integer(at index: Int) -> Int? {
        guard self.tape[index].kind == .number else { return nil }
        let digits = self.tape.bytes(of: index)
        var value = 0
        let isNegative = digits.first == UInt8(ascii: "-")
        guard digits.count <= 18 else { return nil }
        for byte in digits.dropFirst(isNegative ? 1 : 0) {
            guard byte &- 0x30 < 10 else { return nil }
            value = value * 10 + Int(byte - 0x30)
        }
        return isNegative ? -value : value
    }

    /// A member that is an object.
    func object(_ field: EventField) -> Int? {
        guard let index = self.index(field), self.tape[index].kind == .object else { return nil }
        return index
    }

    /// A nested member, such as `consent.ads`, if it is a boolean.
    func flag(_ field: EventField, _ name: StaticString) -> Bool? {
        guard let object = self.object(field), let index = self.tape.firstValue(of: name, in: object) else {
            return nil
        }
        switch self.tape[index].kind {
        case .true: return true
        case .false: return false
        case .null, .number, .string, .array, .object: return nil
        }
    }

    /// Whether the event is for a provider: `providers` names it or is not a list.
    func isSubscribed(by name: UnsafeRawBufferPointer) -> Bool {
        guard let list = self.index(.providers), self.tape[list].kind == .array else { return true }
        var element = list + 1
        while element < Int(self.tape[list].next) {
            if let text = self.text(at: element), text.equals(name) { return true }
            element = Int(self.tape[element].next)
        }
        return false
    }

    private mutating func findIdentifier() {
        self.identifier = nil
        if let foreignSource { self.findPerson(foreignSource) }
        if let text = self.text(.id), !text.isEscaped, text.body.count <= 64 {
            self.identifierTraits = CharacterTraits(commonTo: text.body)
            if self.identifierTraits.contains(.identifier) { self.identifier = text.body }
        }
        if let stream = self.foreignSource?.stream { self.makeIdentifier(stream) }
    }

    /// Gives a foreign line an id, unless it has one of its own.
    private mutating func makeIdentifier(_ stream: LineStream) {
        if let identifier, LineStream.isEventID(identifier) { return }
        let id = self.madeID ?? stream.lineID(at: self.streamOffset)
        self.madeID = id
        self.madeText.removeAll()
        self.madeText.append(id)
        self.identifier = self.madeText.bytes
        self.identifierTraits = CharacterTraits(commonTo: self.madeText.bytes)
    }

    /// Whether the event has an id: a valid one of its own or, if it is foreign, a UUID of its own or a made one.
    var isIdentified: Bool { self.foreignSource == nil ? self.identifier != nil : self.uuid != nil }

    /// The event's id as text: the line's own, or the made one.
    var id: TextSlice? {
        guard self.madeID != nil, let identifier else { return self.text(.id) }
        return TextSlice(body: identifier, isEscaped: false)
    }

    /// The event's id, if it is a UUID.
    package var uuid: UnsafeRawBufferPointer? {
        guard let id = self.identifier, Self.isUUID(id, self.identifierTraits) else { return nil }
        return id
    }

    /// Whether text whose characters have `traits` is 32 hexadecimal digits with dashes in the four places.
    static func isUUID(_ text: UnsafeRawBufferPointer, _ traits: CharacterTraits) -> Bool {
        guard traits.contains(.uuid), text.count == 36 else { return false }
        let dash = UInt8(ascii: "-")
        // The four dashes are in place; a fifth would be among the digits.
        var dashCount = 0
        for byte in text { dashCount &+= byte == dash ? 1 : 0 }
        return dashCount == 4 && text[8] == dash && text[13] == dash && text[18] == dash && text[23] == dash
    }

    /// A value's nesting depth: 0 for a scalar, 1 for a flat list or object.
    func depth(of index: Int) -> Int {
        let entry = self.tape[index]
        guard entry.kind == .array || entry.kind == .object else { return 0 }
        let step = entry.kind == .object ? 1 : 0
        var deepest = 0
        var child = index + 1 + step
        while child < Int(entry.next) + step {
            deepest = max(deepest, self.depth(of: child))
            child = Int(self.tape[child].next) + step
        }
        return deepest + 1
    }

    /// The session's id, if it is a UUID.
    var sessionID: TextSlice? {
        guard let text = self.text(.session), !text.isEscaped,
            Self.isUUID(text.body, CharacterTraits(commonTo: text.body))
        else { return nil }
        return text
    }

    /// The session's start in milliseconds since 1970: the first 48 bits of its UUIDv7.
    var sessionStart: UInt64? {
        guard let text = self.sessionID else { return nil }
        var value: UInt64 = 0
        for index in 0..<13 {
            let byte = text.body[index]
            if index == 8 { continue }
            switch byte {
            case 0x30...0x39: value = value << 4 | UInt64(byte - 0x30)
            case 0x41...0x46: value = value << 4 | UInt64(byte - 0x37)
            case 0x61...0x66: value = value << 4 | UInt64(byte - 0x57)
            default: return nil
            }
        }
        return text.body[14] == UInt8(ascii: "7") ? value : nil
    }

    /// Iterates over the fields in their written order; of a foreign line, those in `data` come first.
    package func fields() -> EventFields {
        EventFields(
            members: self.fieldsObject >= 0 ? self.tape.members(of: self.fieldsObject) : nil,
            lineMembers: self.hasTopLevelFields ? self.tape.members(of: self.root) : nil)
    }

    /// Iterates over the members of an object.
    func members(of object: Int?) -> EventFields {
        EventFields(members: object.map { self.tape.members(of: $0) }, lineMembers: nil)
    }
}
