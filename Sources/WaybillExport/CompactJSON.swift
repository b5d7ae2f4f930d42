internal import WaybillJSON

/// Rewrites values of a line without white space, in the same order and with unchanged numbers.
struct CompactJSON {
    /// The limit to which strings and names inside are cut; `nil` for none.
    let limit: Int?
    let unit: LengthUnit
    /// How many strings were cut.
    private(set) var cutCount = 0

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
            var members = event.tape.members(of: index)
            while let (key, value) = members.next(in: event.tape) {
                self.writeText(key, of: event, into: &json, text: &text, isKey: true)
                self.write(value, of: event, into: &json, text: &text)
            }
            json.endObject()
        }
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
        var kept = text.count
        if kept > limit {
            kept = TextLimit.keptByteCount(of: text.bytes, limit: limit, unit: self.unit)
            if kept < text.count { self.cutCount += 1 }
        }
        let cut = UnsafeRawBufferPointer(rebasing: text.bytes[..<kept])
        if isKey { json.key(cut) } else { json.string(cut) }
    }
}
