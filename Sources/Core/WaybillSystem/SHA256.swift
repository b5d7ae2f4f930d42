/// SHA-256 (FIPS 180-4) of short byte runs: proofs, names of devices, private values.
///
/// In Swift, because apps link this module, have no package dependencies, and run on platforms that have no libcrypto. It
/// hashes at most some hundred bytes per batch.
package struct SHA256 {
    private var state = Self.start
    /// Bytes of a block that is not full yet.
    private var rest: [UInt8] = []
    private var byteCount: UInt64 = 0

    private static let blockByteCount = 64

    package init() {
        self.rest.reserveCapacity(Self.blockByteCount)
    }

    /// The 32 bytes of the digest of a whole message.
    package static func digest(_ message: some Collection<UInt8>) -> [UInt8] {
        var hash = SHA256()
        hash.update(message)
        return hash.finish()
    }

    /// The first 16 bytes of the digest of a digest's 32 bytes and a number, most significant byte first.
    ///
    /// One block, without an allocation.
    package static func firstWords(ofDigest digest: [UInt8], _ number: UInt64) -> (UInt64, UInt64) {
        precondition(digest.count == 32, "a digest has 32 bytes, not \(digest.count)")
        var state = Self.start
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 64) { words in
            digest.withUnsafeBytes { bytes in
                for index in 0..<8 {
                    words[index] = UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: index * 4, as: UInt32.self))
                }
            }
            words[8] = UInt32(truncatingIfNeeded: number >> 32)
            words[9] = UInt32(truncatingIfNeeded: number)
            words[10] = 0x8000_0000
            for index in 11..<15 { words[index] = 0 }
            words[15] = 320
            Self.mix(words, into: &state)
        }
        return (UInt64(state[0]) << 32 | UInt64(state[1]), UInt64(state[2]) << 32 | UInt64(state[3]))
    }

    package mutating func update(_ bytes: some Collection<UInt8>) {
        if bytes.withContiguousStorageIfAvailable({ self.update(UnsafeRawBufferPointer($0)) }) == nil {
            Array(bytes).withUnsafeBytes { self.update($0) }
        }
    }

    private mutating func update(_ bytes: UnsafeRawBufferPointer) {
        self.byteCount += UInt64(bytes.count)
        var position = 0
        if !self.rest.isEmpty {
            position = min(Self.blockByteCount - self.rest.count, bytes.count)
            self.rest.append(contentsOf: bytes[..<position])
            guard self.rest.count == Self.blockByteCount else { return }
            let block = self.rest
            block.withUnsafeBytes { self.compress($0) }
            self.rest.removeAll(keepingCapacity: true)
        }
        while bytes.count - position >= Self.blockByteCount {
            self.compress(UnsafeRawBufferPointer(rebasing: bytes[position..<(position + Self.blockByteCount)]))
            position += Self.blockByteCount
        }
        self.rest.append(contentsOf: bytes[position...])
    }

    /// Returns 32 bytes; nothing can be added after it.
    package mutating func finish() -> [UInt8] {
        let bitCount = self.byteCount &* 8
        let zeroCount = (2 * Self.blockByteCount - 9 - self.rest.count) % Self.blockByteCount
        let length = (0..<8).map { UInt8(truncatingIfNeeded: bitCount >> (56 - 8 * UInt64($0))) }
        self.update([0x80] + [UInt8](repeating: 0, count: zeroCount) + length)
        return (0..<32).map { UInt8(truncatingIfNeeded: self.state[$0 / 4] >> UInt32(24 - 8 * ($0 % 4))) }
    }

    private mutating func compress(_ block: UnsafeRawBufferPointer) {
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 64) { schedule in
            for index in 0..<16 {
                schedule[index] = UInt32(
                    bigEndian: block.loadUnaligned(fromByteOffset: index * 4, as: UInt32.self))
            }
            Self.mix(schedule, into: &self.state)
        }
    }

    /// Adds the block in the first 16 words of `schedule`, and uses the others.
    private static func mix(_ schedule: UnsafeMutableBufferPointer<UInt32>, into state: inout SIMD8<UInt32>) {
        for index in 16..<64 {
            let (early, late) = (schedule[index - 15], schedule[index - 2])
            let first = early.rotated(7) ^ early.rotated(18) ^ early >> 3
            let second = late.rotated(17) ^ late.rotated(19) ^ late >> 10
            schedule[index] = schedule[index - 16] &+ first &+ schedule[index - 7] &+ second
        }
        var (a, b, c, d) = (state[0], state[1], state[2], state[3])
        var (e, f, g, h) = (state[4], state[5], state[6], state[7])
        Self.constants.withUnsafeBufferPointer { constants in
            for index in 0..<64 {
                let choice = (e & f) ^ (~e & g)
                let majority = (a & b) ^ (a & c) ^ (b & c)
                let upper =
                    h &+ (e.rotated(6) ^ e.rotated(11) ^ e.rotated(25)) &+ choice &+ constants[index]
                    &+ schedule[index]
                let lower = (a.rotated(2) ^ a.rotated(13) ^ a.rotated(22)) &+ majority
                (h, g, f, e) = (g, f, e, d &+ upper)
                (d, c, b, a) = (c, b, a, upper &+ lower)
            }
        }
        state &+= SIMD8(a, b, c, d, e, f, g, h)
    }

    /// The first 32 bits of the fractional parts of the square roots of the first 8 primes.
    private static let start = SIMD8<UInt32>(
        0x6A09_E667, 0xBB67_AE85, 0x3C6E_F372, 0xA54F_F53A, 0x510E_527F, 0x9B05_688C, 0x1F83_D9AB, 0x5BE0_CD19)

    /// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
    private static let constants: [UInt32] = [
        0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
        0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
        0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
        0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
        0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
        0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
        0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
        0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
    ]
}

extension UInt32 {
    fileprivate func rotated(_ count: UInt32) -> UInt32 {
        self &>> count | self &<< (32 &- count)
    }
}
