internal import WaybillSystem

/// An identity in bounded memory: a UUID itself, or 128 bits of the SHA-256 of anything else.
package struct Digest128: Hashable, Sendable {
    package let high: UInt64
    package let low: UInt64

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// The digest of an event's id.
    package init(id: UnsafeRawBufferPointer) {
        if let uuid = Self.uuid(id) {
            self = uuid
        } else {
            self.init([id])
        }
    }

    /// The digest of several texts, which depends on their boundaries.
    package init(_ texts: [UnsafeRawBufferPointer]) {
        var digest = SHA256Digest()
        for text in texts {
            withUnsafeBytes(of: UInt64(text.count).littleEndian) { digest.update($0) }
            digest.update(text)
        }
        let hexadecimal = digest.finish()
        self.high = UInt64(hexadecimal.prefix(16), radix: 16) ?? 0
        self.low = UInt64(hexadecimal.dropFirst(16).prefix(16), radix: 16) ?? 0
    }

    private static func uuid(_ text: UnsafeRawBufferPointer) -> Digest128? {
        guard text.count == 36 else { return nil }
        var halves: (UInt64, UInt64) = (0, 0)
        var digitCount = 0
        for (index, byte) in text.enumerated() {
            if index == 8 || index == 13 || index == 18 || index == 23 {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            let digit: UInt8
            switch byte {
            // Upper-case digits make another text, and so another id.
            case 0x30...0x39: digit = byte - 0x30
            case 0x61...0x66: digit = byte - 0x57
            default: return nil
            }
            if digitCount < 16 {
                halves.0 = halves.0 << 4 | UInt64(digit)
            } else {
                halves.1 = halves.1 << 4 | UInt64(digit)
            }
            digitCount += 1
        }
        return Digest128(high: halves.0, low: halves.1)
    }

    /// 32 hexadecimal digits.
    package var text: String {
        Hexadecimal.text(self.high, digitCount: 16) + Hexadecimal.text(self.low, digitCount: 16)
    }

    /// Parses ``text``; `nil` if it is anything else.
    package init?(text: [UInt8]) {
        guard text.count == 32, text.allSatisfy({ 0x30...0x39 ~= $0 || 0x61...0x66 ~= $0 }),
            let high = UInt64(String(decoding: text.prefix(16), as: UTF8.self), radix: 16),
            let low = UInt64(String(decoding: text.suffix(16), as: UTF8.self), radix: 16)
        else { return nil }
        self.init(high: high, low: low)
    }
}
