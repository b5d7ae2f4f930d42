internal import WaybillJSON

/// The set of a mapping's field rules that apply to an event, one bit each.
struct FieldRuleSet {
    private(set) var bits: UInt64 = 0

    var isEmpty: Bool { self.bits == 0 }

    func contains(_ index: Int) -> Bool {
        self.bits & (1 << UInt64(index)) != 0
    }

    mutating func insert(_ index: Int) {
        self.bits |= 1 << UInt64(index)
    }
}

/// Applies an operator's mapping to events, one at a time.
///
/// Changed fields are rewritten after a copy of the line, so that offsets into the line stay valid:
///
///     {"v":1,"name":"tap","data":{"a":1,"b":2}}{"channel":"app","b2":2}
///     |<------------- the line --------------->|<- bytes from `start` ->|
///
/// Its buffers keep their capacity from event to event. One owner.
struct FieldPatch: ~Copyable {
    private var json = JSONWriter()
    /// Where the fields begin in ``bytes``.
    private(set) var start = 0
    /// The event's name without escapes.
    private var name = ByteBuilder(capacity: 64)
    private var text = ByteBuilder(capacity: 64)
    private var newName = ByteBuilder(capacity: 64)

    var bytes: UnsafeRawBufferPointer { self.json.output.bytes }

    /// The field rules that apply to an event; `nil` if the mapping excludes it.
    mutating func select(_ event: borrowing MappedEvent, _ mapping: CompiledMapping) -> FieldRuleSet? {
        Self.unescape(event.name, into: &self.name)
        let env = event.facts.env
        if let kinds = mapping.take.kinds, !kinds.contains(event.kind) { return nil }
        if let environments = mapping.take.environments, !environments.contains(env) { return nil }
        if let names = mapping.take.names, !names.contains(self.name.bytes) { return nil }
        if let kinds = mapping.leave.kinds, kinds.contains(event.kind) { return nil }
        if let environments = mapping.leave.environments, environments.contains(env) { return nil }
        if let names = mapping.leave.names, names.contains(self.name.bytes) { return nil }
        if mapping.take.apps != nil || mapping.leave.apps != nil {
            Self.unescape(event.bundle, into: &self.text)
            if let apps = mapping.take.apps, !apps.contains(self.text.bytes) { return nil }
            if let apps = mapping.leave.apps, apps.contains(self.text.bytes) { return nil }
        }
        var rules = FieldRuleSet()
        for index in mapping.fields.indices where mapping.fields[index].names?.contains(self.name.bytes) ?? true {
            rules.insert(index)
        }
        return rules
    }

    /// Writes the event's fields as changed by the rules; constants come first, so that a limit drops them last.
    mutating func write(_ rules: FieldRuleSet, of event: borrowing MappedEvent, _ mapping: CompiledMapping) {
        self.json.removeAll()
        self.json.output.append(event.tape.source)
        self.start = self.json.output.count
        self.json.beginObject()
        for index in mapping.fields.indices where rules.contains(index) {
            let rule = mapping.fields[index]
            for constant in rule.constantNames.indices {
                let name = rule.constantNames[constant]
                let isSet = name.bytes.withUnsafeBytes { Self.isConstant($0, in: mapping, rules, before: index) }
                if isSet { continue }
                name.body.withUnsafeBytes { self.json.key(plain: $0) }
                rule.constantValues[constant].withUnsafeBytes { self.json.verbatim($0) }
            }
        }
        var fields = event.fields()
        while let (key, value) = fields.next(in: event) {
            self.writeField(key, value, of: event, rules, mapping)
        }
        self.json.endObject()
    }

    /// The name that the mapping gives to the last selected event.
    mutating func name(for event: borrowing MappedEvent, _ mapping: CompiledMapping) -> TextSlice? {
        guard let index = mapping.renamed.index(of: self.name.bytes) else { return nil }
        self.newName.removeAll()
        self.newName.append(mapping.newNames[index].body)
        return TextSlice(body: self.newName.bytes, isEscaped: mapping.newNames[index].isEscaped)
    }

    private mutating func writeField(
        _ key: Int, _ value: Int, of event: borrowing MappedEvent, _ rules: FieldRuleSet, _ mapping: CompiledMapping
    ) {
        let body = event.tape.bytes(of: key)
        Self.unescape(
            TextSlice(body: body, isEscaped: event.tape[key].traits.contains(.hasEscapes)), into: &self.text)
        let end = mapping.fields.endIndex
        for index in mapping.fields.indices where rules.contains(index) {
            if mapping.fields[index].dropped.contains(self.text.bytes) { return }
            guard let renamed = mapping.fields[index].renamed.index(of: self.text.bytes) else { continue }
            let name = mapping.fields[index].newNames[renamed]
            guard !name.bytes.withUnsafeBytes({ Self.isConstant($0, in: mapping, rules, before: end) }) else { return }
            name.body.withUnsafeBytes { self.json.key(plain: $0) }
            return self.writeValue(value, of: event)
        }
        guard !Self.isConstant(self.text.bytes, in: mapping, rules, before: end) else { return }
        self.json.key(plain: body)
        self.writeValue(value, of: event)
    }

    private mutating func writeValue(_ value: Int, of event: borrowing MappedEvent) {
        if event.tape[value].kind == .string {
            self.json.string(plain: event.tape.bytes(of: value))
        } else {
            self.json.verbatim(event.tape.bytes(of: value))
        }
    }

    /// Whether one of the rules before `end` sets a field of that name.
    private static func isConstant(
        _ name: UnsafeRawBufferPointer, in mapping: CompiledMapping, _ rules: FieldRuleSet, before end: Int
    ) -> Bool {
        for index in 0..<end where rules.contains(index) {
            if mapping.fields[index].constants.index(of: name) != nil { return true }
        }
        return false
    }

    private static func unescape(_ slice: TextSlice, into text: inout ByteBuilder) {
        text.removeAll()
        if slice.isEscaped {
            JSONText.unescape(slice.body, into: &text)
        } else {
            text.append(slice.body)
        }
    }
}
