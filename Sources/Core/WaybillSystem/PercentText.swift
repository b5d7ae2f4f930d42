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
        URIText.bytes(text, plus: UInt8(ascii: "+")).map { String(decoding: $0, as: UTF8.self) }
    }

    private static func isEncoded(_ byte: UInt8) -> Bool {
        byte <= 0x20 || byte == 0x7F || byte == UInt8(ascii: "%")
    }
}

/// Percent-encoding of signed requests: every byte but `A-Z a-z 0-9 - . _ ~`, so also `=`.
package enum URIText {
    package static func encode(_ text: String, keepingSlashes: Bool = false) -> String {
        var encoded: [UInt8] = []
        encoded.reserveCapacity(text.utf8.count)
        for byte in text.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: encoded.append(byte)
            case 0x2F where keepingSlashes: encoded.append(byte)
            default:
                encoded.append(UInt8(ascii: "%"))
                encoded.append(Self.digits[Int(byte >> 4)])
                encoded.append(Self.digits[Int(byte & 15)])
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }

    private static let digits = Array("0123456789ABCDEF".utf8)

    /// The text of a listing with `encoding-type=url`, where `+` stands for a space; `nil` for a bad escape.
    package static func decode(_ text: String) -> String? {
        guard let bytes = self.bytes(text[...]) else { return nil }
        let decoded = String(decoding: bytes, as: UTF8.self)
        // A byte that is not UTF-8 became another character.
        return decoded.utf8.elementsEqual(bytes) ? decoded : nil
    }

    /// The bytes of such a text; `nil` for a bad escape.
    ///
    /// - Parameter plus: what `+` stands for.
    package static func bytes(_ text: Substring, plus: UInt8 = UInt8(ascii: " ")) -> [UInt8]? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte == UInt8(ascii: "+") ? plus : byte)
                continue
            }
            // `UInt8` takes a sign.
            guard rest.count >= 2, rest.first != UInt8(ascii: "+"), rest.first != UInt8(ascii: "-"),
                let value = UInt8(Substring(rest.prefix(2)), radix: 16)
            else { return nil }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return bytes
    }
}
