/// Base64 of RFC 4648 section 4, padded; the only text that a reader takes for some bytes is the one that a writer makes.
package enum Base64 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// The value of each byte; 64 for a byte that is not in the alphabet.
    private static let values: [UInt8] = (0...255).map { byte in
        Self.alphabet.firstIndex(of: UInt8(byte)).map(UInt8.init) ?? 64
    }

    package static func text(_ bytes: some Collection<UInt8>) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        var rest = bytes[...]
        while !rest.isEmpty {
            let group = Array(rest.prefix(3))
            rest = rest.dropFirst(3)
            let bits = (0..<3).reduce(UInt32(0)) { $0 << 8 | ($1 < group.count ? UInt32(group[$1]) : 0) }
            for index in 0..<4 {
                let value = Int(bits >> (18 - 6 * UInt32(index)) & 63)
                text.append(index <= group.count ? self.alphabet[value] : UInt8(ascii: "="))
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// With the alphabet for addresses and file names, unpadded (RFC 4648, section 5).
    package static func urlText(_ bytes: some Collection<UInt8>) -> String {
        let characters = self.text(bytes).utf8.filter { $0 != UInt8(ascii: "=") }.map { byte in
            switch byte {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            default: byte
            }
        }
        return String(decoding: characters, as: UTF8.self)
    }

    /// Returns `nil` for anything but what ``text(_:)`` returns.
    package static func bytes(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.count % 4 == 0 else { return nil }
        let padding = text.suffix(2).reversed().prefix { $0 == UInt8(ascii: "=") }.count
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 4 * 3)
        var bits: UInt32 = 0
        var bitCount: UInt32 = 0
        for byte in text.dropLast(padding) {
            let value = self.values[Int(byte)]
            guard value < 64 else { return nil }
            bits = bits << 6 | UInt32(value)
            bitCount += 6
            guard bitCount >= 8 else { continue }
            bitCount -= 8
            bytes.append(UInt8(truncatingIfNeeded: bits >> bitCount))
            bits &= (1 << bitCount) - 1
        }
        // Bits that belong to no byte are zero in the one text that a writer makes.
        return bits == 0 ? bytes : nil
    }
}
