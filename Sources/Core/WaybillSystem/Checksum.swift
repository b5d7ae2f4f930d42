/// CRC-32 as in zlib, Ethernet and PNG (ISO 3309, reflected polynomial 0xEDB88320).
///
/// For names and small state files; frames use zlib's, which is 15 times as fast.
package struct CRC32: Sendable {
    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index)) { value, _ in
            value & 1 == 1 ? 0xEDB8_8320 ^ (value >> 1) : value >> 1
        }
    }

    private var state: UInt32 = 0xFFFF_FFFF

    package init() {}

    package mutating func update(_ bytes: some Sequence<UInt8>) {
        for byte in bytes {
            self.state = Self.table[Int(UInt8(truncatingIfNeeded: self.state) ^ byte)] ^ (self.state >> 8)
        }
    }

    package var value: UInt32 {
        ~self.state
    }

    package static func checksum(of bytes: some Sequence<UInt8>) -> UInt32 {
        var checksum = CRC32()
        checksum.update(bytes)
        return checksum.value
    }
}

/// FNV-1a, 64 bits: a fingerprint of short byte runs, for identity and not safe against an adversary.
package enum FNV1a {
    package static func hash(_ bytes: some Sequence<UInt8>) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in bytes {
            hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3
        }
        return hash
    }
}

/// Decimal numbers with leading zeros, which sort as text like the numbers.
package enum ZeroPadded {
    package static func text(_ number: some BinaryInteger, digitCount: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, digitCount - digits.utf8.count)) + digits
    }
}

/// Fixed-width lower-case hexadecimal.
package enum Hexadecimal {
    package static func text(_ value: some FixedWidthInteger & UnsignedInteger, digitCount: Int) -> String {
        let digits = String(value, radix: 16)
        return String(repeating: "0", count: max(0, digitCount - digits.utf8.count)) + digits
    }

    /// Two digits for each byte.
    package static func text(_ bytes: some Sequence<UInt8>) -> String {
        bytes.map { self.text($0, digitCount: 2) }.joined()
    }

    /// Whether a text has so many digits, and nothing else.
    package static func isText(_ text: String, digitCount: Int) -> Bool {
        text.utf8.count == digitCount && self.bytes(text) != nil
    }

    /// Reads what ``text(_:)`` returns; `nil` for anything else.
    package static func bytes(_ digits: some StringProtocol) -> [UInt8]? {
        guard digits.utf8.count % 2 == 0 else { return nil }
        var bytes: [UInt8] = []
        var high: UInt8?
        for digit in digits.utf8 {
            let value: UInt8
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = digit - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = digit - UInt8(ascii: "a") + 10
            default: return nil
            }
            if let first = high {
                bytes.append(first << 4 | value)
                high = nil
            } else {
                high = value
            }
        }
        return bytes
    }
}
