/// SHA-256 (FIPS 180-4) for short texts; the client has no package dependencies and needs only this function.
package enum SHA256 {
    /// The 32 bytes of the digest.
    package static func digest(_ message: [UInt8]) -> [UInt8] {
        var padded = message
        padded.append(0x80)
        padded.append(contentsOf: repeatElement(0, count: (120 - padded.count % 64) % 64))
        let bitCount = UInt64(message.count) * 8
        for shift in stride(from: 56, through: 0, by: -8) {
            padded.append(UInt8(truncatingIfNeeded: bitCount >> shift))
        }
        var state = self.start
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 64) { words in
            for block in stride(from: 0, to: padded.count, by: 64) {
                for index in 0..<16 { words[index] = self.word(of: padded, at: block + index * 4) }
                self.compress(words, into: &state)
            }
        }
        return state.indices.flatMap { at in
            (0..<4).map { UInt8(truncatingIfNeeded: state[at] >> UInt32(24 - 8 * $0)) }
        }
    }

    /// The first 16 bytes of the digest of a digest's 32 bytes and a number, most significant byte first.
    ///
    /// Without an allocation: one block.
    package static func firstWords(ofDigest digest: [UInt8], _ number: UInt64) -> (UInt64, UInt64) {
        precondition(digest.count == 32, "a digest has 32 bytes, not \(digest.count)")
        var state = self.start
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 64) { words in
            for index in 0..<8 { words[index] = self.word(of: digest, at: index * 4) }
            words[8] = UInt32(truncatingIfNeeded: number >> 32)
            words[9] = UInt32(truncatingIfNeeded: number)
            words[10] = 0x8000_0000
            for index in 11..<15 { words[index] = 0 }
            words[15] = 320
            self.compress(words, into: &state)
        }
        return (UInt64(state[0]) << 32 | UInt64(state[1]), UInt64(state[2]) << 32 | UInt64(state[3]))
    }

    private static func word(of bytes: [UInt8], at: Int) -> UInt32 {
        UInt32(bytes[at]) << 24 | UInt32(bytes[at + 1]) << 16 | UInt32(bytes[at + 2]) << 8 | UInt32(bytes[at + 3])
    }

    /// Adds the block in the first 16 words, and uses the others.
    private static func compress(_ words: UnsafeMutableBufferPointer<UInt32>, into state: inout SIMD8<UInt32>) {
        for index in 16..<64 {
            words[index] =
                words[index - 16] &+ self.sigma(words[index - 15], 7, 18, shift: 3) &+ words[index - 7]
                &+ self.sigma(words[index - 2], 17, 19, shift: 10)
        }
        var (a, b, c, d) = (state[0], state[1], state[2], state[3])
        var (e, f, g, h) = (state[4], state[5], state[6], state[7])
        for index in 0..<64 {
            let choice = (e & f) ^ (~e & g)
            let first = h &+ self.rotations(e, 6, 11, 25) &+ choice &+ self.constants[index] &+ words[index]
            let majority = (a & b) ^ (a & c) ^ (b & c)
            let second = self.rotations(a, 2, 13, 22) &+ majority
            (h, g, f, e, d, c, b, a) = (g, f, e, d &+ first, c, b, a, first &+ second)
        }
        state &+= SIMD8(a, b, c, d, e, f, g, h)
    }

    private static func rotate(_ word: UInt32, _ count: UInt32) -> UInt32 {
        word >> count | word << (32 - count)
    }

    private static func rotations(_ word: UInt32, _ first: UInt32, _ second: UInt32, _ third: UInt32) -> UInt32 {
        self.rotate(word, first) ^ self.rotate(word, second) ^ self.rotate(word, third)
    }

    private static func sigma(_ word: UInt32, _ first: UInt32, _ second: UInt32, shift: UInt32) -> UInt32 {
        self.rotate(word, first) ^ self.rotate(word, second) ^ word >> shift
    }

    private static let start = SIMD8<UInt32>(
        0x6A09_E667, 0xBB67_AE85, 0x3C6E_F372, 0xA54F_F53A, 0x510E_527F, 0x9B05_688C, 0x1F83_D9AB, 0x5BE0_CD19)

    private static let constants: [UInt32] = [
        0x428A_2F98, 0x7137_4491, 0xB5C0_FBCF, 0xE9B5_DBA5, 0x3956_C25B, 0x59F1_11F1, 0x923F_82A4, 0xAB1C_5ED5,
        0xD807_AA98, 0x1283_5B01, 0x2431_85BE, 0x550C_7DC3, 0x72BE_5D74, 0x80DE_B1FE, 0x9BDC_06A7, 0xC19B_F174,
        0xE49B_69C1, 0xEFBE_4786, 0x0FC1_9DC6, 0x240C_A1CC, 0x2DE9_2C6F, 0x4A74_84AA, 0x5CB0_A9DC, 0x76F9_88DA,
        0x983E_5152, 0xA831_C66D, 0xB003_27C8, 0xBF59_7FC7, 0xC6E0_0BF3, 0xD5A7_9147, 0x06CA_6351, 0x1429_2967,
        0x27B7_0A85, 0x2E1B_2138, 0x4D2C_6DFC, 0x5338_0D13, 0x650A_7354, 0x766A_0ABB, 0x81C2_C92E, 0x9272_2C85,
        0xA2BF_E8A1, 0xA81A_664B, 0xC24B_8B70, 0xC76C_51A3, 0xD192_E819, 0xD699_0624, 0xF40E_3585, 0x106A_A070,
        0x19A4_C116, 0x1E37_6C08, 0x2748_774C, 0x34B0_BCB5, 0x391C_0CB3, 0x4ED8_AA4A, 0x5B9C_CA4F, 0x682E_6FF3,
        0x748F_82EE, 0x78A5_636F, 0x84C8_7814, 0x8CC7_0208, 0x90BE_FFFA, 0xA450_6CEB, 0xBEF9_A3F7, 0xC671_78F2,
    ]
}

/// The salt of an install's private values: 32 random bytes that never leave it.
///
/// Its bytes are stored inline, so calls on many threads do not share a reference count.
package struct PrivacySalt: Hashable, Sendable {
    private let first: SIMD16<UInt8>
    private let second: SIMD16<UInt8>

    /// `nil` unless `bytes` has 32 bytes.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == 32 else { return nil }
        self.first = SIMD16(bytes[..<16])
        self.second = SIMD16(bytes[16...])
    }

    package init(_ generator: inout some RandomNumberGenerator) {
        self.first = SIMD16((0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
        self.second = SIMD16((0..<16).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }

    private var bytes: [UInt8] {
        self.first.indices.map { self.first[$0] } + self.second.indices.map { self.second[$0] }
    }

    /// The salted hash of `text` as 32 hexadecimal digits; equal texts of an install have equal hashes.
    package func hash(_ text: some Sequence<UInt8>) -> String {
        Self.hexadecimal(SHA256.digest(self.bytes + text).prefix(16))
    }

    /// The salt as 64 hexadecimal digits.
    package var hexadecimal: String {
        Self.hexadecimal(self.bytes[...])
    }

    /// Parses ``hexadecimal``; `nil` for anything else.
    package init?(hexadecimal text: String) {
        let digits = Array(text.utf8)
        guard digits.count == 64 else { return nil }
        let bytes = stride(from: 0, to: 64, by: 2).compactMap { index in
            UInt8(String(decoding: digits[index...index + 1], as: UTF8.self), radix: 16)
        }
        self.init(bytes)
    }

    private static func hexadecimal(_ bytes: ArraySlice<UInt8>) -> String {
        var buffer = LineBuffer(capacity: 64)
        for byte in bytes { buffer.appendHexadecimal(UInt32(byte), digitCount: 2) }
        return String(decoding: buffer.bytes, as: UTF8.self)
    }
}
