internal import WaybillSystem

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
        guard let bytes = Hexadecimal.bytes(text) else { return nil }
        self.init(bytes)
    }

    private static func hexadecimal(_ bytes: ArraySlice<UInt8>) -> String {
        var buffer = LineBuffer(capacity: 64)
        for byte in bytes { buffer.appendHexadecimal(UInt32(byte), digitCount: 2) }
        return String(decoding: buffer.bytes, as: UTF8.self)
    }
}
