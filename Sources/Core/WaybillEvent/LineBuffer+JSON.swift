/// Writes JSON values (RFC 8259): strings with only the necessary escapes, and the shortest form of numbers.
extension LineBuffer {
    /// Appends `text` as a JSON string with its quotes.
    package mutating func appendString(_ text: String) {
        let isDone: Bool? = text.utf8.withContiguousStorageIfAvailable { bytes in
            self.appendString(bytes)
            return true
        }
        guard isDone == nil else { return }
        self.append(UInt8(ascii: "\""))
        for byte in text.utf8 { self.appendEscaped(byte) }
        self.append(UInt8(ascii: "\""))
    }

    /// Appends UTF-8 as a JSON string with its quotes.
    mutating func appendString(_ bytes: UnsafeBufferPointer<UInt8>) {
        if Self.plainEnd(of: bytes, from: 0) == bytes.count {
            return self.fill(bytes.count + 2) { cursor in
                cursor.put(UInt8(ascii: "\""))
                cursor.put(bytes)
                cursor.put(UInt8(ascii: "\""))
            }
        }
        self.append(UInt8(ascii: "\""))
        self.appendEscaped(bytes)
        self.append(UInt8(ascii: "\""))
    }

    /// Appends the first bytes of `text`, at most `byteCountMax`, without splitting a UTF-8 sequence.
    package mutating func appendString(_ text: String, byteCountMax: Int) {
        guard text.utf8.count > byteCountMax else { return self.appendString(text) }
        var end = text.utf8.index(text.utf8.startIndex, offsetBy: byteCountMax)
        while text.utf8[end] & 0xC0 == 0x80 { text.utf8.formIndex(before: &end) }
        self.appendString(String(text[..<end]))
    }

    /// Appends UTF-8 as the body of a JSON string.
    private mutating func appendEscaped(_ bytes: UnsafeBufferPointer<UInt8>) {
        var start = 0
        while start < bytes.count {
            let end = Self.plainEnd(of: bytes, from: start)
            self.append(UnsafeBufferPointer(rebasing: bytes[start..<end]))
            guard end < bytes.count else { return }
            self.appendEscaped(bytes[end])
            start = end + 1
        }
    }

    /// The index of the first byte from `start` on that needs an escape; eight bytes per step, the last step from the
    /// end.
    @inline(__always)
    private static func plainEnd(of bytes: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        var index = start
        if let base = bytes.baseAddress, bytes.count >= 8 {
            let last = UnsafeRawPointer(base) + (bytes.count &- 8)
            var next = UnsafeRawPointer(base) + start
            while next < last, self.isPlain(next) { next += 8 }
            if next >= last, self.isPlain(last) { return bytes.count }
            index = next - UnsafeRawPointer(base)
        }
        while index < bytes.count, !Self.needsEscape(bytes[index]) { index &+= 1 }
        return index
    }

    /// Whether none of the eight bytes needs an escape.
    @inline(__always)
    private static func isPlain(_ bytes: UnsafeRawPointer) -> Bool {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let word = bytes.loadUnaligned(as: UInt64.self)
        let quotes = word ^ (ones &* UInt64(UInt8(ascii: "\"")))
        let slashes = word ^ (ones &* UInt64(UInt8(ascii: "\\")))
        let controls = (word &- ones &* 0x20) & ~word
        let found = controls | ((quotes &- ones) & ~quotes) | ((slashes &- ones) & ~slashes)
        return found & 0x8080_8080_8080_8080 == 0
    }

    private static func needsEscape(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }

    private mutating func appendEscaped(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""): self.append("\\\"")
        case UInt8(ascii: "\\"): self.append("\\\\")
        case 0x08: self.append("\\b")
        case 0x09: self.append("\\t")
        case 0x0A: self.append("\\n")
        case 0x0C: self.append("\\f")
        case 0x0D: self.append("\\r")
        case 0x00..<0x20:
            self.append("\\u00")
            self.appendHexadecimal(UInt32(byte), digitCount: 2)
        default: self.append(byte)
        }
    }

    /// Appends an integer; above 2^53, where readers that use doubles are inexact, as a string.
    package mutating func appendNumber(_ value: Int64) {
        self.appendNumber(magnitude: value.magnitude, isNegative: value < 0)
    }

    /// Appends an integer; above 2^53, where readers that use doubles are inexact, as a string.
    package mutating func appendNumber(_ value: UInt64) {
        self.appendNumber(magnitude: value, isNegative: false)
    }

    private mutating func appendNumber(magnitude: UInt64, isNegative: Bool) {
        let isString = magnitude > EventLimits.integerMagnitudeMax
        if isString { self.append(UInt8(ascii: "\"")) }
        if isNegative { self.append(UInt8(ascii: "-")) }
        self.appendDecimal(magnitude)
        if isString { self.append(UInt8(ascii: "\"")) }
    }

    /// Appends the shortest decimal that reads back as `value`, which must be finite.
    ///
    /// Numbers of up to 15 digits are written without creating a `String`; others use the standard library's.
    package mutating func appendNumber(_ value: Double) {
        precondition(value.isFinite, "\(value) is not a JSON number")
        let magnitude = value.magnitude
        if magnitude >= 1e-4, magnitude < 1e15 {
            var scale = 1.0
            for fractionDigitCount in 0...15 {
                let scaled = (magnitude * scale).rounded()
                guard scaled < 9e15 else { break }
                // Both are exact below 2^53 and 10^22, so a reader of the decimal computes the same quotient.
                if scaled / scale == magnitude {
                    return self.appendFixed(
                        UInt64(scaled), fractionDigitCount: fractionDigitCount, isNegative: value.sign == .minus)
                }
                scale *= 10
            }
        }
        var text = value.description
        text.withUTF8 { self.append($0) }
    }

    private mutating func appendFixed(_ scaled: UInt64, fractionDigitCount: Int, isNegative: Bool) {
        if isNegative { self.append(UInt8(ascii: "-")) }
        var power: UInt64 = 1
        for _ in 0..<fractionDigitCount { power *= 10 }
        self.appendDecimal(scaled / power)
        self.append(UInt8(ascii: "."))
        self.appendDecimal(scaled % power, digitCount: max(1, fractionDigitCount))
    }

    /// Appends `true` or `false`.
    package mutating func appendBoolean(_ value: Bool) {
        self.append(value ? "true" : "false")
    }
}
