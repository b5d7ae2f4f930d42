import Testing
import WaybillJSON
import WaybillSystem

@Suite struct JSONTextTests {
    private func equals(_ body: String, _ text: StaticString) -> Bool {
        Array(body.utf8).withUnsafeBytes { JSONText.equals($0, isEscaped: JSONText.hasEscapes($0), text) }
    }

    @Test func `a key with escapes is compared by what it spells`() {
        #expect(self.equals("\\u0074s", "ts"))
        #expect(self.equals("ts", "ts"))
        #expect(!self.equals("ts", "tz"))
        #expect(!self.equals("\\u0074", "ts"))
        #expect(self.equals("overrides", "overrides"))
        #expect(!self.equals("overridez", "overrides"))
    }

    @Test(arguments: [
        ("plain", "plain"), ("a\\n\\t\\\"\\\\\\/", "a\n\t\"\\/"), ("\\uD83D\\uDE00", "😀"), ("\\ud83d", "\u{FFFD}"),
        ("\\ud83dx", "\u{FFFD}x"), ("\\ude00\\ud83d", "\u{FFFD}\u{FFFD}"), ("\\ud83d\\u0041", "\u{FFFD}A"),
        ("\\u0000", "\0"), ("한\\uae00", "한글"),
    ])
    func `a body is unescaped to its text`(body: String, text: String) {
        #expect(Array(body.utf8).withUnsafeBytes { JSONText.string($0) } == text)
    }

    @Test(arguments: [
        "plain", "a\\n\\t\\\"\\\\\\/", "\\uD83D\\uDE00", "\\ud83d", "\\ud83dx", "\\ude00\\ud83d", "\\ud83d\\u0041",
        "\\u0000",
        "한\\uae00", "\\u00e9", "x\\", "\\u", "\\u004", "",
    ])
    func `a body spells its text, and neither a part of it nor more`(body: String) {
        let body = Array(body.utf8)
        let text = Array(body.withUnsafeBytes { JSONText.string($0) }.utf8)
        func isSpelled(_ text: [UInt8]) -> Bool {
            body.withUnsafeBytes { body in text.withUnsafeBytes { JSONText.unescapedEquals(body, $0) } }
        }
        #expect(isSpelled(text))
        #expect(!isSpelled(text + [0x41]))
        for byteCount in text.indices {
            #expect(!isSpelled(Array(text[..<byteCount])), "the first \(byteCount) bytes")
            var other = text
            other[byteCount] ^= 1
            #expect(!isSpelled(other), "another byte at \(byteCount)")
        }
    }

    /// A line that is not JSON is searched for names, too: nothing behind the body may be read as a part of it.
    @Test(
        arguments: [
            ("\\u0041", [0: "", 1: "\\", 2: "\\u", 3: "\\u0", 4: "\\u00", 5: "\\u004", 6: "A"]),
            ("x\\n", [1: "x", 2: "x\\", 3: "x\n"]),
            ("\\ud83d\\ude00", [6: "\u{FFFD}", 8: "\u{FFFD}\\u", 11: "\u{FFFD}\\ude0", 12: "😀"]),
            ("\\u004\"1", [7: "\\u004\"1"]), ("\\ud83d\\u\"\"\"\"", [12: "\u{FFFD}\\u\"\"\"\""]),
        ] as [(String, [Int: String])])
    func `an escape that a body's end cuts off stays as it is`(whole: String, texts: [Int: String]) {
        for (byteCount, text) in texts {
            let found = Array(whole.utf8).withUnsafeBytes { bytes in
                JSONText.string(UnsafeRawBufferPointer(rebasing: bytes[..<byteCount]))
            }
            #expect(found == text, "\(whole) up to \(byteCount)")
        }
    }

    @Test func `every byte survives escape and unescape, at every place in a word`() {
        for byte in UInt8(0)..<0x80 {
            for place in 0..<17 {
                var text = [UInt8](repeating: UInt8(ascii: "x"), count: 17)
                text[place] = byte
                var body = ByteBuilder()
                text.withUnsafeBytes { JSONText.escape($0, into: &body) }
                let hasControl = body.bytes.contains { $0 < 0x20 }
                #expect(!hasControl)
                var back = ByteBuilder()
                JSONText.unescape(body.bytes, into: &back)
                let unescaped = Array(back.bytes)
                #expect(unescaped == text)
            }
        }
    }

    @Test func `the first of two members of one name counts`() throws {
        var tape = JSONTape()
        try Array(#"{"b":0,"a":1,"\u0061":2,"a":3}"#.utf8).withUnsafeBytes { bytes in
            try tape.parse(bytes)
            let first = tape.firstValue(of: "a", in: 0)
            let value = try #require(first)
            let text = String(decoding: tape.bytes(of: value), as: UTF8.self)
            #expect(text == "1")
            let missing = tape.firstValue(of: "c", in: 0)
            #expect(missing == nil)
        }
    }

    @Test func `a tape gives room back after a very long line`() throws {
        var tape = JSONTape()
        let long = Array(("{\"a\":[" + String(repeating: "1,", count: 400_000) + "1]}").utf8)
        try long.withUnsafeBytes { try tape.parse($0) }
        let longCount = tape.count
        #expect(longCount == 400_004)
        try Array(#"{"a":1}"#.utf8).withUnsafeBytes { try tape.parse($0) }
        let shortCount = tape.count
        #expect(shortCount == 3)
    }

    @Test func `a writer puts commas where they belong and can go back`() {
        var writer = JSONWriter()
        writer.beginObject()
        writer.key("a")
        writer.beginArray()
        writer.integer(-1)
        writer.null()
        writer.beginObject()
        writer.endObject()
        writer.endArray()
        let mark = writer.mark
        writer.key("gone")
        writer.string("x")
        writer.rewind(to: mark)
        writer.key("b")
        writer.string(prefix: "$device:", UnsafeRawBufferPointer(start: nil, count: 0))
        writer.key("c")
        writer.quotedInteger(18_446_744_073_709_551_615)
        writer.key("d")
        writer.integer(.min)
        writer.endObject()
        let text = String(decoding: writer.output.bytes, as: UTF8.self)
        #expect(
            text
                == #"{"a":[-1,null,{}],"b":"$device:","c":"18446744073709551615","d":-9223372036854775808}"#)
    }

    @Test func `a builder keeps what was appended while it grows`() {
        var builder = ByteBuilder(capacity: 1)
        var expected: [UInt8] = []
        var random = SeededGenerator(seed: 3)
        for _ in 0..<500 {
            let bytes = (0..<Int.random(in: 0...40, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            builder.append(bytes)
            expected += bytes
            if Int.random(in: 0..<10, using: &random) == 0 {
                let kept = Int.random(in: 0...expected.count, using: &random)
                builder.truncate(to: kept)
                expected.removeLast(expected.count - kept)
            }
            let built = Array(builder.bytes)
            #expect(built == expected)
        }
    }
}
