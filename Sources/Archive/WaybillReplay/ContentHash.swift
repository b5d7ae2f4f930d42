/// Checksums by which sets of records are compared: equal sets have equal sums, in any order.
///
/// Each word is mixed in reversibly, so records that differ in one word always have different checksums.
enum ContentHash {
    static func hash(_ bytes: UnsafeRawBufferPointer, seed: UInt64 = 0) -> UInt64 {
        var hash = seed ^ UInt64(truncatingIfNeeded: bytes.count) &* 0x9E37_79B9_7F4A_7C15
        var offset = 0
        while offset + 8 <= bytes.count {
            hash = Self.mix(hash ^ bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
            offset += 8
        }
        var rest: UInt64 = 0
        while offset < bytes.count {
            rest = rest << 8 | UInt64(bytes[offset])
            offset += 1
        }
        return Self.mix(Self.mix(hash ^ rest) ^ 0xD6E8_FEB8_6659_FD93)
    }

    static func hash(_ bytes: some Collection<UInt8>, seed: UInt64 = 0) -> UInt64 {
        let own = bytes.withContiguousStorageIfAvailable { Self.hash(UnsafeRawBufferPointer($0), seed: seed) }
        return own ?? Array(bytes).withUnsafeBytes { Self.hash($0, seed: seed) }
    }

    private static func mix(_ value: UInt64) -> UInt64 {
        let product = value &* 0xFF51_AFD7_ED55_8CCD
        return product ^ product >> 32
    }

    /// A record without its terminator.
    static func content(_ record: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        var end = record.count
        while end > 0, record[end - 1] == 0x0A || record[end - 1] == 0x0D { end -= 1 }
        return UnsafeRawBufferPointer(rebasing: record[..<end])
    }
}

/// The checksum of an event's record and of the record with the event's id.
struct EventContent: Hashable {
    let record: UInt64
    let whole: UInt64

    init(_ record: UnsafeRawBufferPointer, id: UnsafeRawBufferPointer) {
        let own = ContentHash.hash(ContentHash.content(record))
        self.record = own
        self.whole = ContentHash.hash(id, seed: own)
    }
}
