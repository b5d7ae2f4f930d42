/// Finds and counts line ends, eight bytes at a time; the only loop over every shipped byte.
enum LineScanner {
    static let lineFeed: UInt8 = 0x0A

    /// The index of the first LF at or after `start`.
    static func firstLineFeed(in bytes: UnsafeRawBufferPointer, from start: Int = 0) -> Int? {
        var index = start
        while index + 8 <= bytes.count {
            let marks = Self.marks(in: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            if marks != 0 { return index + marks.trailingZeroBitCount / 8 }
            index += 8
        }
        while index < bytes.count {
            if bytes[index] == Self.lineFeed { return index }
            index += 1
        }
        return nil
    }

    /// The index of the first byte that is not NUL; the count without one.
    static func firstNonNUL(in bytes: UnsafeRawBufferPointer, from start: Int = 0) -> Int {
        var index = start
        while index + 8 <= bytes.count, bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self) == 0 { index += 8 }
        while index < bytes.count, bytes[index] == 0 { index += 1 }
        return index
    }

    /// The index of the first NUL at or after `start`.
    static func firstNUL(in bytes: UnsafeRawBufferPointer, from start: Int = 0) -> Int? {
        let ones: UInt64 = 0x0101_0101_0101_0101
        var index = start
        while index + 8 <= bytes.count {
            let word = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            if (word &- ones) & ~word & (ones << 7) != 0 { break }
            index += 8
        }
        return bytes[index...].firstIndex(of: 0)
    }

    static func lastLineFeed(in bytes: UnsafeRawBufferPointer) -> Int? {
        var end = bytes.count
        while end >= 8 {
            let marks = Self.marks(in: bytes.loadUnaligned(fromByteOffset: end - 8, as: UInt64.self))
            if marks != 0 { return end - 1 - marks.leadingZeroBitCount / 8 }
            end -= 8
        }
        while end > 0 {
            end -= 1
            if bytes[end] == Self.lineFeed { return end }
        }
        return nil
    }

    static func lineFeedCount(in bytes: UnsafeRawBufferPointer) -> Int {
        var count = 0
        var index = 0
        while index + 8 <= bytes.count {
            count += Self.marks(in: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)).nonzeroBitCount
            index += 8
        }
        while index < bytes.count {
            if bytes[index] == Self.lineFeed { count += 1 }
            index += 1
        }
        return count
    }

    /// The number of bytes in the first `lineCount` lines, which must exist.
    static func byteCount(ofFirst lineCount: Int, linesIn bytes: UnsafeRawBufferPointer) -> Int {
        var end = 0
        for _ in 0..<lineCount {
            guard let lineFeed = Self.firstLineFeed(in: bytes, from: end) else { return end }
            end = lineFeed + 1
        }
        return end
    }

    /// The top bit of each byte that is an LF, first byte lowest (Warren, Hacker's Delight, section 6-1).
    private static func marks(in word: UInt64) -> UInt64 {
        let difference = UInt64(littleEndian: word) ^ 0x0A0A_0A0A_0A0A_0A0A
        let low: UInt64 = 0x7F7F_7F7F_7F7F_7F7F
        return ~(((difference & low) + low) | difference | low)
    }
}
