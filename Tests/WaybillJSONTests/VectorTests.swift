import Testing
import WaybillJSON
import WaybillSystem

/// The files in `Protocol/vectors/json` decide what a line is.
@Suite struct VectorTests {
    static let directory = Path.join(
        Path.parent(of: Path.parent(of: Path.parent(of: #filePath))), "Protocol/vectors/json")

    private static func bytes(_ name: String) throws -> [UInt8] {
        try #require(try POSIXFileSystem().contents(of: Path.join(Self.directory, name)), "no vector \(name)")
    }

    private static func bytes(hexadecimal digits: Substring) -> [UInt8] {
        let digits = Array(digits.utf8)
        return stride(from: 0, to: digits.count, by: 2).map { index in
            UInt8(String(decoding: digits[index..<(index + 2)], as: UTF8.self), radix: 16) ?? 0
        }
    }

    /// The lines of `named.hex` by their names, those that are accepted or those that are not.
    private static func lines(accepted isAccepted: Bool) throws -> [String: [UInt8]] {
        let rows = String(decoding: try Self.bytes("named.hex"), as: UTF8.self).split(separator: "\n")
        let named = rows.map { $0.split(separator: " ", omittingEmptySubsequences: false) }
        return Dictionary(
            uniqueKeysWithValues: named.filter { $0[0] == (isAccepted ? "1" : "0") }
                .map { (String($0[1]), Self.bytes(hexadecimal: $0[2])) })
    }

    private static func line(_ name: String, accepted isAccepted: Bool) throws -> [UInt8] {
        try #require(try Self.lines(accepted: isAccepted)[name], "no line \(name)")
    }

    /// The errors of scanner and tape; both `nil` when both accept.
    private static func judge(_ bytes: [UInt8]) -> (scanner: JSONError?, tape: JSONError?) {
        var tape = JSONTape()
        return bytes.withUnsafeBytes { bytes in
            var errors: (scanner: JSONError?, tape: JSONError?) = (nil, nil)
            do throws(JSONError) {
                try JSONScanner.scanObject(bytes) { _, _, _ in }
            } catch {
                errors.scanner = error
            }
            do throws(JSONError) {
                try tape.parse(bytes)
            } catch {
                errors.tape = error
                let count = tape.count
                #expect(count == 0)
            }
            return errors
        }
    }

    @Test func `every line to accept is accepted by scanner and tape`() throws {
        let lines = try Self.lines(accepted: true)
        #expect(lines.count >= 40)
        for (name, bytes) in lines {
            let errors = Self.judge(bytes)
            #expect(errors.scanner == nil, "\(name)")
            #expect(errors.tape == nil, "\(name)")
        }
    }

    @Test func `every line to refuse is refused by scanner and tape at the same byte`() throws {
        let lines = try Self.lines(accepted: false)
        #expect(lines.count >= 80)
        for (name, bytes) in lines {
            let errors = Self.judge(bytes)
            let error = try #require(errors.scanner, "\(name)")
            #expect(errors.tape == error, "\(name)")
            #expect(0...bytes.count ~= error.offset, "\(name)")
        }
    }

    @Test(arguments: [
        ("empty", JSONError.Code.empty, 0), ("not_object_array", .notObject, 0),
        ("depth_65", .tooDeep, 68), ("string_tab", .controlCharacter, 7),
        ("utf8_surrogate", .badUTF8, 6), ("string_bad_unicode", .badEscape, 6),
        ("number_leading_zero", .expectedCommaOrEnd, 6), ("number_minus", .badNumber, 6),
        ("two_objects", .trailingBytes, 7), ("object_trailing_comma", .expectedKey, 7),
        ("object_no_colon", .expectedColon, 5), ("object_no_value", .expectedValue, 5),
        ("string_open", .truncated, 9),
    ])
    func `an error names the first byte that cannot be right`(name: String, code: JSONError.Code, offset: Int) throws {
        #expect(Self.judge(try Self.line(name, accepted: false)).scanner == JSONError(code, at: offset))
    }

    @Test func `scanner and tape judge damaged lines as Python does`() throws {
        let lines = String(decoding: try Self.bytes("mutations.hex"), as: UTF8.self).split(separator: "\n")
        #expect(lines.count == 1500)
        for line in lines {
            let errors = Self.judge(Self.bytes(hexadecimal: line.dropFirst(2)))
            #expect((errors.scanner == nil) == (line.first == "1"), "\(line)")
            #expect(errors.tape == errors.scanner, "\(line)")
        }
    }

    @Test func `a corpus written again is what Python writes`() throws {
        let lines = try Self.bytes("corpus.ndjson").split(separator: 0x0A)
        let expected = try Self.bytes("corpus.compact.ndjson").split(separator: 0x0A)
        #expect(lines.count == 600)
        var tape = JSONTape()
        var writer = JSONWriter()
        for (line, compact) in zip(lines, expected) {
            try Array(line).withUnsafeBytes { bytes in
                try tape.parse(bytes)
                writer.removeAll()
                Rewriter.write(0, of: tape, to: &writer)
            }
            let written = Array(writer.output.bytes)
            #expect(written == Array(compact))
        }
    }

    @Test func `the scanner reports each member of the corpus where the tape has it`() throws {
        var tape = JSONTape()
        for line in try Self.bytes("corpus.ndjson").split(separator: 0x0A) {
            try Array(line).withUnsafeBytes { bytes in
                try tape.parse(bytes)
                var members = tape.members(of: 0)
                try JSONScanner.scanObject(bytes) { key, value, kind in
                    guard let member = members.next(in: tape) else {
                        Issue.record("the tape has fewer members")
                        return
                    }
                    let entry = tape[member.value]
                    #expect(entry.kind == kind)
                    let keyBytes = Array(tape.bytes(of: member.key))
                    #expect(keyBytes == Array(bytes[key]))
                    let quote = kind == .string ? 1 : 0
                    #expect(Int(entry.start) - quote..<Int(entry.end) + quote == value)
                }
                let hasMore = members.next(in: tape) != nil
                #expect(!hasMore)
            }
        }
    }

    @Test func `every prefix of a valid line is refused and none is read beyond`() throws {
        for name in ["array_mixed", "string_escapes", "string_utf8_4", "number_exponent"] {
            let bytes = try Self.line(name, accepted: true)
            for count in 0..<bytes.count {
                // An allocation of its own length, so that the address sanitizer sees a read behind it.
                #expect(Self.judge(Array(bytes[..<count])).scanner != nil, "\(name) \(count)")
            }
        }
    }
}

/// Writes a tape again, every string unescaped and escaped.
enum Rewriter {
    static func write(_ index: Int, of tape: borrowing JSONTape, to writer: inout JSONWriter) {
        switch tape[index].kind {
        case .null: writer.null()
        case .false: writer.bool(false)
        case .true: writer.bool(true)
        case .number: writer.verbatim(tape.bytes(of: index))
        case .string:
            let text = Self.text(index, of: tape)
            writer.string(text.bytes)
        case .array:
            writer.beginArray()
            var element = index + 1
            while element < Int(tape[index].next) {
                Self.write(element, of: tape, to: &writer)
                element = Int(tape[element].next)
            }
            writer.endArray()
        case .object:
            writer.beginObject()
            var members = tape.members(of: index)
            while let (key, value) = members.next(in: tape) {
                let text = Self.text(key, of: tape)
                writer.key(text.bytes)
                Self.write(value, of: tape, to: &writer)
            }
            writer.endObject()
        }
    }

    private static func text(_ index: Int, of tape: borrowing JSONTape) -> ByteBuilder {
        var text = ByteBuilder()
        JSONText.unescape(tape.bytes(of: index), into: &text)
        return text
    }
}
