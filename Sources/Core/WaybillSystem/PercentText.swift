/// Text without spaces and control characters: those and `%` become `%` and two hexadecimal digits.
package enum PercentText {
    package static func encode(_ text: String) -> String {
        guard text.utf8.contains(where: Self.isEncoded) else { return text }
        var encoded: [UInt8] = []
        for byte in text.utf8 {
            if Self.isEncoded(byte) {
                encoded.append(contentsOf: "%\(Hexadecimal.text(byte, digitCount: 2))".utf8)
            } else {
                encoded.append(byte)
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }

    package static func decode(_ text: Substring) -> String? {
        guard text.utf8.contains(UInt8(ascii: "%")) else { return String(text) }
        var decoded: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                decoded.append(byte)
                continue
            }
            guard rest.count >= 2, let value = UInt8(Substring(rest.prefix(2)), radix: 16) else { return nil }
            decoded.append(value)
            rest = rest.dropFirst(2)
        }
        return String(decoding: decoded, as: UTF8.self)
    }

    private static func isEncoded(_ byte: UInt8) -> Bool {
        byte <= 0x20 || byte == 0x7F || byte == UInt8(ascii: "%")
    }
}
