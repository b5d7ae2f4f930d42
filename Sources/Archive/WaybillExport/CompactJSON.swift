internal import WaybillJSON
internal import WaybillSystem

/// Rewrites values of a line without white space, in the same order and with unchanged numbers.
struct CompactJSON {
    /// The limit to which strings and names inside are cut; `nil` for none.
    let limit: Int?
    let unit: LengthUnit
    /// How many strings were cut.
    private(set) var cutCount = 0
    /// How many members were dropped because another has their name, as cut.
    private(set) var repeatCount = 0

    init(limit: Int? = nil, unit: LengthUnit = .bytes) {
        self.limit = limit
        self.unit = unit
    }

    /// Writes the value at a tape index; recurses as deep as the scanner allows, 64 levels.
    mutating func write(
        _ index: Int, of event: borrowing MappedEvent, into json: inout JSONWriter, text: inout ByteBuilder
    ) {
        switch event.tape[index].kind {
        case .null, .false, .true, .number:
            json.verbatim(event.tape.bytes(of: index))
        case .string:
            self.writeText(index, of: event, into: &json, text: &text, isKey: false)
        case .array:
            json.beginArray()
            var element = index + 1
            while element < Int(event.tape[index].next) {
                self.write(element, of: event, into: &json, text: &text)
                element = Int(event.tape[element].next)
            }
            json.endArray()
        case .object:
            json.beginObject()
            let mayRepeat = self.hasLongName(in: index, of: event)
            var names = Set<[UInt8]>()
            var members = event.tape.members(of: index)
            while let (key, value) = members.next(in: event.tape) {
                if mayRepeat, !names.insert(self.cutName(key, of: event, text: &text)).inserted {
                    self.repeatCount += 1
                    continue
                }
                self.writeText(key, of: event, into: &json, text: &text, isKey: true)
                self.write(value, of: event, into: &json, text: &text)
            }
            json.endObject()
        }
    }

    /// Whether a name will be cut, and may then equal another.
    private func hasLongName(in object: Int, of event: borrowing MappedEvent) -> Bool {
        guard let limit else { return false }
        var members = event.tape.members(of: object)
        while let member = members.next(in: event.tape) {
            if event.tape.bytes(of: member.key).count > limit { return true }
        }
        return false
    }

    /// A name without escapes, as cut.
    private func cutName(_ key: Int, of event: borrowing MappedEvent, text: inout ByteBuilder) -> [UInt8] {
        text.removeAll()
        JSONText.unescape(event.tape.bytes(of: key), into: &text)
        return Array(self.cut(text.bytes))
    }

    private func cut(_ text: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let limit = self.limit ?? .max
        guard text.count > limit else { return text }
        return UnsafeRawBufferPointer(
            rebasing: text[..<TextLimit.keptByteCount(of: text, limit: limit, unit: self.unit)])
    }

    private mutating func writeText(
        _ index: Int, of event: borrowing MappedEvent, into json: inout JSONWriter, text: inout ByteBuilder, isKey: Bool
    ) {
        let body = event.tape.bytes(of: index)
        let limit = self.limit ?? .max
        if !event.tape[index].traits.contains(.hasEscapes), body.count <= limit {
            if isKey { json.key(plain: body) } else { json.string(plain: body) }
            return
        }
        text.removeAll()
        JSONText.unescape(body, into: &text)
        let cut = self.cut(text.bytes)
        if cut.count < text.count { self.cutCount += 1 }
        if isKey { json.key(cut) } else { json.string(cut) }
    }
}
