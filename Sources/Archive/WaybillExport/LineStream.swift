internal import WaybillSystem
package import WaybillEvent
internal import WaybillJSON

/// The stream of a line, as its dead letter names it, and from which the ids of foreign lines are made.
///
///     id = the first 16 bytes of SHA-256(SHA-256(principal NUL stream) offset), as a UUID of version 8
///
/// `offset` is where the line begins in the stream, as 8 bytes, most significant first. So a line has the same id live,
/// in a replay, and after it was shipped again in other batches.
///
/// - SeeAlso: `Protocol/formats/exports.md`, section 2; RFC 9562, section 5.8.
package struct LineStream: Hashable, Sendable {
    /// The stream's owner; empty: none.
    package let principal: String
    package let id: String
    private let seed: [UInt8]

    package init(principal: String, id: String) {
        self.principal = principal
        self.id = id
        self.seed = SHA256.digest(Array("\(principal)\u{0}\(id)".utf8))
    }

    /// Whether the `id` of a foreign line is its event's: a UUID that is not nil.
    ///
    /// Others may be those of things.
    package static func isEventID(_ text: UnsafeRawBufferPointer) -> Bool {
        MappedEvent.isUUID(text, CharacterTraits(commonTo: text))
            && text.contains { $0 != UInt8(ascii: "0") && $0 != UInt8(ascii: "-") }
    }

    /// The id of the foreign line at an offset.
    package func lineID(at offset: UInt64) -> UniqueID {
        let words = SHA256.firstWords(ofDigest: self.seed, offset)
        return UniqueID(
            high: words.0 & 0xFFFF_FFFF_FFFF_0FFF | 0x8000, low: words.1 & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
        )
    }
}

extension ByteBuilder {
    /// Appends the 36 characters of a UUID.
    mutating func append(_ id: UniqueID) {
        for index in 0..<32 {
            if index == 8 || index == 12 || index == 16 || index == 20 { self.append(UInt8(ascii: "-")) }
            let word = index < 16 ? id.high : id.low
            let digit = UInt8(truncatingIfNeeded: word >> UInt64(60 - 4 * (index & 15))) & 0xF
            self.append(digit + (digit < 10 ? 0x30 : 0x57))
        }
    }
}
