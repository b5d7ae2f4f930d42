internal import WaybillEvent
internal import WaybillJSON

/// The members of a foreign line: which have a use as members of the schema, and which are fields.
///
/// A foreign line may have other things in a member with a name of the schema, such as Docker's `log`. Such a member is
/// a field like those with other names, so that nothing vanishes.
extension MappedEvent {
    /// Takes the user and the anonymous id of a foreign line from the members that its source names.
    mutating func findPerson(_ source: SourceDescription) {
        self.take(.user, fromMember: source.userMember)
        self.take(.anon, fromMember: source.anonymousMember)
    }

    private mutating func take(_ field: EventField, fromMember name: String?) {
        if var name {
            let value = name.withUTF8 { self.tape.firstValue(of: UnsafeRawBufferPointer($0), in: self.root) }
            self.slots[Int(field.rawValue)] = UInt32(truncatingIfNeeded: value ?? 0)
        }
        // Servers write a dash for a value that is missing.
        if self.text(field)?.equals("-") ?? false { self.slots[Int(field.rawValue)] = 0 }
    }

    /// Whether a top-level member of a foreign line is a field: neither its time, its name, nor of any other use.
    func isForeignField(key: Int, value: Int) -> Bool {
        let entry = self.tape[value]
        let start = entry.kind == .string ? Int(entry.start) - 1 : Int(entry.start)
        if start == self.timeStart || start + 1 == self.nameStart { return false }
        let field = self.field(named: key)
        if let name = self.foreignSource?.userMember {
            if self.isKey(key, name) { return !self.isPerson(value) }
            if field == .user { return true }
        }
        if let name = self.foreignSource?.anonymousMember {
            if self.isKey(key, name) { return !self.isPerson(value) }
            if field == .anon { return true }
        }
        guard let field else { return true }
        return !self.isUsed(field, value)
    }

    private func isKey(_ key: Int, _ name: String) -> Bool {
        var name = name
        let text = TextSlice(
            body: self.tape.bytes(of: key), isEscaped: self.tape[key].traits.contains(.hasEscapes))
        return name.withUTF8 { text.equals(UnsafeRawBufferPointer($0)) }
    }

    /// Whether a value can be an id of a person, or says that there is none.
    private func isPerson(_ value: Int) -> Bool {
        switch self.tape[value].kind {
        case .string, .number, .null: true
        case .false, .true, .array, .object: false
        }
    }

    /// Whether a member of a foreign line has the use that its name has in the schema; null has nothing to lose.
    private func isUsed(_ field: EventField, _ value: Int) -> Bool {
        let kind = self.tape[value].kind
        if kind == .null { return true }
        switch field {
        case .v: return kind == .number && self.integer(at: value) == 1
        case .id: return kind == .string && self.madeID == nil
        // The line's time and name are known, and its source has the other two.
        case .ts, .name, .env, .bundle: return false
        case .kind: return self.facts.kind != nil
        case .traits: return self.facts.kind == .user
        case .traitsOnce, .traitsAdd: return self.facts.kind == .user && kind == .object
        case .user, .anon: return self.isPerson(value)
        case .log: return self.text(at: value).map(Self.isLogVersion) ?? false
        case .seq, .sampleRate: return kind == .number
        case .up, .dt, .prevMilliseconds, .sessionNumber, .tz: return self.integer(at: value) != nil
        case .writer, .screen, .screenClass, .screenID, .prev, .session, .app, .build, .os, .osVersion, .model, .lang:
            return kind == .string
        // Programs have such fields of their own; they stay what they were.
        case .country, .userAgent: return false
        case .ids, .data, .overrides, .consent: return kind == .object
        case .providers: return kind == .array
        }
    }

    /// Whether the text of a foreign line's member has the use that its name has in the schema.
    func isMember(_ field: EventField, _ text: TextSlice) -> Bool {
        if field == .log { return Self.isLogVersion(text) }
        return field != .country && field != .userAgent
    }

    /// Whether text is `M.m`, two numbers of one to nine digits.
    static func isLogVersion(_ text: TextSlice) -> Bool {
        guard !text.isEscaped, text.body.count <= 19,
            let point = text.body.firstIndex(of: UInt8(ascii: "."))
        else { return false }
        return 1...9 ~= point && 1...9 ~= text.body.count - point - 1
            && text.body.indices.allSatisfy { $0 == point || 0x30...0x39 ~= text.body[$0] }
    }
}
