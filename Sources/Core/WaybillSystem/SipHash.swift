/// SipHash-2-4 (Aumasson and Bernstein, 2012): a fast keyed hash of short texts, without allocation.
///
/// Without the key no one predicts it or makes two texts collide; it is no digest to tell two texts apart for good.
package struct SipHash: Hashable, Sendable {
    private let key: (UInt64, UInt64)

    /// - Parameter key: 16 bytes, the first of which are the lowest.
    package init(key: [UInt8]) {
        precondition(key.count == 16, "a key of \(key.count) bytes, not 16")
        self.key = key.withUnsafeBytes { (Self.word($0, 0), Self.word($0, 8)) }
    }

    package static func == (left: SipHash, right: SipHash) -> Bool { left.key == right.key }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(self.key.0)
        hasher.combine(self.key.1)
    }

    package func hash(of bytes: UnsafeRawBufferPointer) -> UInt64 {
        var state = State(self.key)
        let whole = bytes.count & ~7
        var position = 0
        while position < whole {
            state.take(Self.word(bytes, position))
            position += 8
        }
        var last = UInt64(truncatingIfNeeded: bytes.count) << 56
        for index in whole..<bytes.count { last |= UInt64(bytes[index]) << UInt64(8 * (index - whole)) }
        state.take(last)
        return state.finish()
    }

    @inline(__always)
    private static func word(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt64 {
        UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    private struct State {
        var (a, b, c, d): (UInt64, UInt64, UInt64, UInt64)

        init(_ key: (UInt64, UInt64)) {
            // "somepseudorandomlygeneratedbytes"
            self.a = key.0 ^ 0x736f_6d65_7073_6575
            self.b = key.1 ^ 0x646f_7261_6e64_6f6d
            self.c = key.0 ^ 0x6c79_6765_6e65_7261
            self.d = key.1 ^ 0x7465_6462_7974_6573
        }

        @inline(__always)
        private mutating func round() {
            self.a &+= self.b
            self.b = self.b << 13 | self.b >> 51
            self.b ^= self.a
            self.a = self.a << 32 | self.a >> 32
            self.c &+= self.d
            self.d = self.d << 16 | self.d >> 48
            self.d ^= self.c
            self.a &+= self.d
            self.d = self.d << 21 | self.d >> 43
            self.d ^= self.a
            self.c &+= self.b
            self.b = self.b << 17 | self.b >> 47
            self.b ^= self.c
            self.c = self.c << 32 | self.c >> 32
        }

        @inline(__always)
        mutating func take(_ word: UInt64) {
            self.d ^= word
            self.round()
            self.round()
            self.a ^= word
        }

        mutating func finish() -> UInt64 {
            self.c ^= 0xFF
            for _ in 0..<4 { self.round() }
            return self.a ^ self.b ^ self.c ^ self.d
        }
    }
}
