/// Compares, unescapes and escapes text in JSON strings.
@usableFromInline
package enum JSONText {
    /// Whether the body of a string spells `text`.
    ///
    /// - Parameter isEscaped: whether the body has backslashes (``JSONStringTraits/hasEscapes``); if unknown, use
    ///   ``hasEscapes(_:)``.
    @inlinable
    @inline(__always)
    package static func equals(_ body: UnsafeRawBufferPointer, isEscaped: Bool, _ text: StaticString) -> Bool {
        let expected = UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
        return isEscaped ? Self.unescapedEquals(body, expected) : Self.equals(body, expected)
    }

    /// Whether two runs have the same bytes.
    @inlinable
    @inline(__always)
    package static func equals(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        guard left.count == right.count else { return false }
        guard let left = left.baseAddress, let rightStart = right.baseAddress else { return true }
        var at = 0
        while at &+ 8 <= right.count {
            guard
                left.loadUnaligned(fromByteOffset: at, as: UInt64.self)
                    == rightStart.loadUnaligned(fromByteOffset: at, as: UInt64.self)
            else { return false }
            at &+= 8
        }
        while at < right.count {
            guard
                left.load(fromByteOffset: at, as: UInt8.self) == rightStart.load(fromByteOffset: at, as: UInt8.self)
            else { return false }
            at &+= 1
        }
        return true
    }

    /// Whether a string's body has a backslash.
    package static func hasEscapes(_ body: UnsafeRawBufferPointer) -> Bool {
        body.contains(UInt8(ascii: "\\"))
    }

    /// Whether an escaped body spells `text`; ends at the first byte that differs, and copies nothing.
    ///
    /// Names are compared with each name of a schema, and a sender may escape all of its own.
    @usableFromInline
    package static func unescapedEquals(_ body: UnsafeRawBufferPointer, _ text: UnsafeRawBufferPointer) -> Bool {
        var at = 0
        var spelled = 0
        while at < body.count {
            guard body[at] == UInt8(ascii: "\\") else {
                guard spelled < text.count, body[at] == text[spelled] else { return false }
                at += 1
                spelled += 1
                continue
            }
            let escape = Self.escape(body, at)
            guard escape.byteCount <= text.count - spelled else { return false }
            for index in 0..<escape.byteCount where escape.byte(index) != text[spelled + index] { return false }
            at = escape.end
            spelled += escape.byteCount
        }
        return spelled == text.count
    }

    /// The text of a string's body.
    package static func string(_ body: UnsafeRawBufferPointer) -> String {
        var unescaped = ByteBuilder(capacity: max(body.count, 1))
        Self.unescape(body, into: &unescaped)
        return String(decoding: unescaped.bytes, as: UTF8.self)
    }

    /// Appends the text of a string's body.
    ///
    /// An unpaired surrogate is not a character; it becomes U+FFFD. What the scanner would refuse, as an escape that is cut
    /// off, stays as it is: a body may come from a line that is not JSON.
    package static func unescape(_ body: UnsafeRawBufferPointer, into text: inout ByteBuilder) {
        var at = 0
        var copied = 0
        while at < body.count {
            guard body[at] == UInt8(ascii: "\\") else {
                at += 1
                continue
            }
            text.append(UnsafeRawBufferPointer(rebasing: body[copied..<at]))
            let escape = Self.escape(body, at)
            for index in 0..<escape.byteCount { text.append(escape.byte(index)) }
            at = escape.end
            copied = at
        }
        text.append(UnsafeRawBufferPointer(rebasing: body[copied..<at]))
    }

    /// What an escape stands for.
    private struct Escape {
        /// UTF-8, the first byte lowest.
        let bytes: UInt32
        let byteCount: Int
        /// The position after it.
        let end: Int

        init(_ byte: UInt8, end: Int) {
            self.bytes = UInt32(byte)
            self.byteCount = 1
            self.end = end
        }

        /// - Parameter unit: half a surrogate pair is not a character.
        init(unit: UInt32, end: Int) {
            var (bytes, byteCount) = (UInt32(0), 0)
            for byte in UTF8.encode(Unicode.Scalar(unit) ?? "\u{FFFD}")! {  // UTF-8 encodes every scalar.
                bytes |= UInt32(byte) << UInt32(8 * byteCount)
                byteCount += 1
            }
            self.bytes = bytes
            self.byteCount = byteCount
            self.end = end
        }

        /// The beginning of one that is not whole: `\u`.
        init(brokenUnitEndingAt end: Int) {
            self.bytes = 0x755C
            self.byteCount = 2
            self.end = end
        }

        @inline(__always)
        func byte(_ index: Int) -> UInt8 { UInt8(truncatingIfNeeded: self.bytes >> UInt32(8 * index)) }
    }

    /// The escape that begins at `at`.
    private static func escape(_ body: UnsafeRawBufferPointer, _ at: Int) -> Escape {
        guard at + 1 < body.count else { return Escape(body[at], end: at + 1) }
        let letter = body[at + 1]
        switch letter {
        case UInt8(ascii: "b"): return Escape(0x08, end: at + 2)
        case UInt8(ascii: "f"): return Escape(0x0C, end: at + 2)
        case UInt8(ascii: "n"): return Escape(0x0A, end: at + 2)
        case UInt8(ascii: "r"): return Escape(0x0D, end: at + 2)
        case UInt8(ascii: "t"): return Escape(0x09, end: at + 2)
        case UInt8(ascii: "u"):
            guard let unit = Self.unit(body, at + 2) else { return Escape(brokenUnitEndingAt: at + 2) }
            if 0xD800..<0xDC00 ~= unit, at + 12 <= body.count, body[at + 6] == UInt8(ascii: "\\"),
                body[at + 7] == UInt8(ascii: "u"), let low = Self.unit(body, at + 8), 0xDC00..<0xE000 ~= low
            {
                return Escape(unit: 0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00), end: at + 12)
            }
            return Escape(unit: unit, end: at + 6)
        default: return Escape(letter, end: at + 2)
        }
    }

    /// The four hexadecimal digits at `at`; `nil` if they are not there.
    private static func unit(_ body: UnsafeRawBufferPointer, _ at: Int) -> UInt32? {
        guard at + 4 <= body.count else { return nil }
        var value: UInt32 = 0
        for index in at..<(at + 4) {
            guard let digit = Hex.value(body[index]) else { return nil }
            value = value << 4 | digit
        }
        return value
    }

    /// Appends text as the body of a string: escapes `"`, `\` and control characters, and copies everything else.
    @inlinable
    package static func escape(_ text: UnsafeRawBufferPointer, into output: inout ByteBuilder) {
        guard let base = text.baseAddress else { return }
        output.reserve(text.count)
        var at = 0
        var copied = 0
        while at < text.count {
            if at &+ 8 <= text.count {
                let marks = Self.escapeMarks(base.loadUnaligned(fromByteOffset: at, as: UInt64.self))
                if marks == 0 {
                    at &+= 8
                    continue
                }
                at &+= marks.trailingZeroBitCount &>> 3
            }
            let byte = base.load(fromByteOffset: at, as: UInt8.self)
            if byte >= 0x20, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\") {
                at &+= 1
                continue
            }
            output.append(base + copied, byteCount: at &- copied)
            Self.appendEscape(byte, to: &output)
            at &+= 1
            copied = at
        }
        output.append(base + copied, byteCount: at &- copied)
    }

    /// Like `JSONLexer.marks`, except that bytes above 0x7F are not marked: they need no escape.
    @inlinable
    @inline(__always)
    static func escapeMarks(_ loaded: UInt64) -> UInt64 {
        let word = UInt64(littleEndian: loaded)
        let ones: UInt64 = 0x0101_0101_0101_0101
        let quote = word ^ 0x2222_2222_2222_2222
        let backslash = word ^ 0x5C5C_5C5C_5C5C_5C5C
        let control = (word &- 0x2020_2020_2020_2020) & ~word
        let found = ((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash) | control
        return found & 0x8080_8080_8080_8080
    }

    @usableFromInline
    static func appendEscape(_ byte: UInt8, to output: inout ByteBuilder) {
        switch byte {
        case UInt8(ascii: "\""): output.append("\\\"")
        case UInt8(ascii: "\\"): output.append("\\\\")
        case 0x08: output.append("\\b")
        case 0x09: output.append("\\t")
        case 0x0A: output.append("\\n")
        case 0x0C: output.append("\\f")
        case 0x0D: output.append("\\r")
        default:
            output.append("\\u00")
            for digit in [byte >> 4, byte & 15] {
                output.append(digit < 10 ? 0x30 + digit : 0x57 + digit)
            }
        }
    }

    /// The range of a line's JSON, without a byte order mark and surrounding white space.
    package static func trimmed(_ line: UnsafeRawBufferPointer) -> Range<Int> {
        var start = Self.byteOrderMarkByteCount(line)
        var end = line.count
        while end > start, Self.isWhitespace(line[end - 1]) { end -= 1 }
        while start < end, Self.isWhitespace(line[start]) { start += 1 }
        return start..<end
    }

    /// 3 when the line begins with U+FEFF, which RFC 8259, section 8.1, allows a reader to ignore; otherwise 0.
    @inlinable
    @inline(__always)
    package static func byteOrderMarkByteCount(_ line: UnsafeRawBufferPointer) -> Int {
        line.count >= 3 && line[0] == 0xEF && line[1] == 0xBB && line[2] == 0xBF ? 3 : 0
    }

    private static func isWhitespace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D
    }
}

/// Hexadecimal digits.
enum Hex {
    @inline(__always)
    static func value(_ byte: UInt8) -> UInt32? {
        switch byte {
        case 0x30...0x39: UInt32(byte) - 0x30
        case 0x41...0x46: UInt32(byte) - 0x37
        case 0x61...0x66: UInt32(byte) - 0x57
        default: nil
        }
    }
}
