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

    private static func names(_ prefix: String) throws -> [String] {
        try POSIXFileSystem().list(Self.directory).filter { $0.hasPrefix(prefix) && $0.hasSuffix(".json") }
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

    @Test func `every y file is accepted by scanner and tape`() throws {
        let names = try Self.names("y_")
        #expect(names.count >= 40)
        for name in names {
            let errors = Self.judge(try Self.bytes(name))
            #expect(errors.scanner == nil, "\(name)")
            #expect(errors.tape == nil, "\(name)")
        }
    }

    @Test func `every n file is refused by scanner and tape at the same byte`() throws {
        let names = try Self.names("n_")
        #expect(names.count >= 80)
        for name in names {
            let bytes = try Self.bytes(name)
            let errors = Self.judge(bytes)
            let error = try #require(errors.scanner, "\(name)")
            #expect(errors.tape == error, "\(name)")
            #expect(0...bytes.count ~= error.offset, "\(name)")
        }
    }

    @Test(arguments: [
        ("n_empty.json", JSONError.Code.empty, 0), ("n_not_object_array.json", .notObject, 0),
        ("n_depth_65.json", .tooDeep, 68), ("n_string_tab.json", .controlCharacter, 7),
        ("n_utf8_surrogate.json", .badUTF8, 6), ("n_string_bad_unicode.json", .badEscape, 6),
        ("n_number_leading_zero.json", .expectedCommaOrEnd, 6), ("n_number_minus.json", .badNumber, 6),
        ("n_two_objects.json", .trailingBytes, 7), ("n_object_trailing_comma.json", .expectedKey, 7),
        ("n_object_no_colon.json", .expectedColon, 5), ("n_object_no_value.json", .expectedValue, 5),
        ("n_string_open.json", .truncated, 9),
    ])
    func `an error names the first byte that cannot be right`(name: String, code: JSONError.Code, offset: Int) throws {
        #expect(Self.judge(try Self.bytes(name)).scanner == JSONError(code, at: offset))
    }

    @Test func `scanner and tape judge damaged lines as Python does`() throws {
        let lines = String(decoding: try Self.bytes("mutations.hex"), as: UTF8.self).split(separator: "\n")
        #expect(lines.count == 1500)
        for line in lines {
            let digits = Array(line.utf8.dropFirst(2))
            let bytes = stride(from: 0, to: digits.count, by: 2).map { index in
                UInt8(String(decoding: digits[index..<(index + 2)], as: UTF8.self), radix: 16) ?? 0
            }
            let errors = Self.judge(bytes)
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
        for name in ["y_array_mixed.json", "y_string_escapes.json", "y_string_utf8_4.json", "y_number_exponent.json"] {
            let bytes = try Self.bytes(name)
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
