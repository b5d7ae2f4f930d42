internal import WaybillJSON
internal import WaybillTestSupport

/// Scanner, tape, text and writer against a plain reader of JSON.
enum JSONFuzz {
    @Sendable static func run(_ input: [UInt8]) throws {
        try withExactBytes(input) { try Self.check($0, input) }
        try Self.checkText(input)
    }

    private static func check(_ bytes: UnsafeRawBufferPointer, _ input: [UInt8]) throws {
        let value = ReferenceJSON(input)
        var object: [ReferenceJSON.Member]?
        if case .object(let members) = value { object = members }
        var members: [(key: Range<Int>, value: Range<Int>, kind: JSONKind)] = []
        let scanned = Self.error { () throws(JSONError) in
            try JSONScanner.scanObject(bytes) { key, value, kind in members.append((key, value, kind)) }
        }
        var tape = JSONTape()
        var parsed: JSONError?
        do throws(JSONError) { try tape.parse(bytes) } catch { parsed = error }
        try require((scanned == nil) == (object != nil), "scanner says \(String(describing: scanned)): \(shown(input))")
        try require(parsed == scanned, "tape says \(String(describing: parsed)): \(shown(input))")
        try Self.checkAnyValue(bytes, value, input)
        guard let object else {
            let count = tape.count
            try require(count == 0, "a refused line leaves \(count) entries")
            try require(0...input.count ~= (scanned?.offset ?? -1), "an error outside the line")
            return
        }
        try require(Self.tree(0, of: tape) == .object(object), "another tree: \(shown(input))")
        try require(members.count == object.count, "\(members.count) members of \(object.count)")
        for (member, expected) in zip(members, object) {
            try require(Self.text(bytes, member.key) == expected.key, "key \(member.key) of \(shown(input))")
            let value = ReferenceJSON(Array(bytes[member.value]))
            try require(value == expected.value, "value \(member.value) of \(shown(input))")
            try require(value.map(Self.kind) == member.kind, "kind at \(member.value) of \(shown(input))")
        }
        try Self.checkWriting(tape, .object(object))
    }

    private static func error(_ body: () throws(JSONError) -> Void) -> JSONError? {
        do throws(JSONError) {
            try body()
            return nil
        } catch {
            return error
        }
    }

    private static func checkAnyValue(
        _ bytes: UnsafeRawBufferPointer, _ expected: ReferenceJSON?, _ input: [UInt8]
    ) throws {
        var kind: JSONKind?
        do throws(JSONError) { kind = try JSONScanner.scanValue(bytes) } catch { kind = nil }
        try require(kind == expected.map(Self.kind), "a value of kind \(String(describing: kind)): \(shown(input))")
    }

    /// What is written is read as the same, and written again as the same bytes.
    private static func checkWriting(_ tape: borrowing JSONTape, _ value: ReferenceJSON) throws {
        var writer = JSONWriter(capacity: 1)
        Self.write(0, of: tape, to: &writer)
        let written = Array(writer.output.bytes)
        try require(ReferenceJSON(written) == value, "written as \(shown(written))")
        var again = JSONTape()
        try written.withUnsafeBytes { bytes in
            try again.parse(bytes)
            writer.removeAll()
            Self.write(0, of: again, to: &writer)
        }
        try require(Array(writer.output.bytes) == written, "written twice, not the same: \(shown(written))")
    }

    /// Any text, escaped as a string's body, is that text.
    private static func checkText(_ input: [UInt8]) throws {
        let text = Array(String(decoding: input, as: UTF8.self).utf8)
        var body = ByteBuilder(capacity: 1)
        withExactBytes(text) { JSONText.escape($0, into: &body) }
        let quoted = [0x22] + Array(body.bytes) + [0x22]
        try require(ReferenceJSON(quoted) == .string(text), "escaped as \(shown(quoted))")
        var back = ByteBuilder(capacity: 1)
        JSONText.unescape(body.bytes, into: &back)
        try require(Array(back.bytes) == text, "unescaped as \(shown(Array(back.bytes)))")
        let isEqual = text.withUnsafeBytes { JSONText.unescapedEquals(body.bytes, $0) }
        try require(isEqual, "not equal to itself: \(shown(text))")
        let isValid = String(validating: input, as: UTF8.self) != nil
        let invalid = withExactBytes(input) { UTF8Text.firstInvalidOffset(in: $0) }
        try require((invalid == nil) == isValid, "UTF-8 is judged wrong: \(input)")
        if let invalid {
            try require(String(validating: input[..<invalid], as: UTF8.self) != nil, "an earlier byte is bad: \(input)")
        }
    }

    private static func text(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> [UInt8] {
        Array(JSONText.string(UnsafeRawBufferPointer(rebasing: bytes[range])).utf8)
    }

    private static func kind(_ value: ReferenceJSON) -> JSONKind {
        switch value {
        case .null: .null
        case .bool(let value): value ? .true : .false
        case .number: .number
        case .string: .string
        case .array: .array
        case .object: .object
        }
    }

    private static func tree(_ index: Int, of tape: borrowing JSONTape) -> ReferenceJSON {
        let entry = tape[index]
        switch entry.kind {
        case .null: return .null
        case .false: return .bool(false)
        case .true: return .bool(true)
        case .number: return .number(String(decoding: tape.bytes(of: index), as: UTF8.self))
        case .string: return .string(Self.string(index, of: tape))
        case .array:
            var elements: [ReferenceJSON] = []
            var child = index + 1
            while child < Int(entry.next) {
                elements.append(Self.tree(child, of: tape))
                child = Int(tape[child].next)
            }
            return .array(elements)
        case .object:
            var members: [ReferenceJSON.Member] = []
            var walk = tape.members(of: index)
            while let member = walk.next(in: tape) {
                members.append(
                    ReferenceJSON.Member(
                        key: Self.string(member.key, of: tape), value: Self.tree(member.value, of: tape)))
            }
            return .object(members)
        }
    }

    private static func string(_ index: Int, of tape: borrowing JSONTape) -> [UInt8] {
        let body = tape.bytes(of: index)
        let traits = tape[index].traits
        precondition(traits.contains(.hasEscapes) == JSONText.hasEscapes(body), "escapes are marked wrong")
        precondition(traits.contains(.hasNonASCII) == body.contains { $0 >= 0x80 }, "text beyond ASCII is marked wrong")
        return Array(JSONText.string(body).utf8)
    }

    private static func write(_ index: Int, of tape: borrowing JSONTape, to writer: inout JSONWriter) {
        let entry = tape[index]
        switch entry.kind {
        case .null: writer.null()
        case .false: writer.bool(false)
        case .true: writer.bool(true)
        case .number: writer.verbatim(tape.bytes(of: index))
        case .string: Self.string(index, of: tape).withUnsafeBytes { writer.string($0) }
        case .array:
            writer.beginArray()
            var child = index + 1
            while child < Int(entry.next) {
                Self.write(child, of: tape, to: &writer)
                child = Int(tape[child].next)
            }
            writer.endArray()
        case .object:
            writer.beginObject()
            var walk = tape.members(of: index)
            while let member = walk.next(in: tape) {
                Self.string(member.key, of: tape).withUnsafeBytes { writer.key($0) }
                Self.write(member.value, of: tape, to: &writer)
            }
            writer.endObject()
        }
    }
}
