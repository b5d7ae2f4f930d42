/// UTF-8 as RFC 3629 allows it: shortest forms only, no surrogates, nothing above U+10FFFF.
@usableFromInline
package enum UTF8Text {
    /// The length of the sequence at `start`, 1 to 4; 0 if the bytes are not a valid sequence.
    @inlinable
    @inline(__always)
    package static func sequenceByteCount(_ start: UnsafeRawPointer, available: Int) -> Int {
        let first = start.load(as: UInt8.self)
        if first < 0x80 { return 1 }
        if first >= 0xE0, first < 0xF0 {
            guard available >= 3 else { return 0 }
            let second = start.load(fromByteOffset: 1, as: UInt8.self)
            let third = start.load(fromByteOffset: 2, as: UInt8.self)
            guard second & 0xC0 == 0x80, third & 0xC0 == 0x80 else { return 0 }
            if first == 0xE0, second < 0xA0 { return 0 }
            if first == 0xED, second > 0x9F { return 0 }
            return 3
        }
        if first < 0xE0 {
            guard first >= 0xC2, available >= 2 else { return 0 }
            return start.load(fromByteOffset: 1, as: UInt8.self) & 0xC0 == 0x80 ? 2 : 0
        }
        guard first <= 0xF4, available >= 4 else { return 0 }
        let second = start.load(fromByteOffset: 1, as: UInt8.self)
        guard second & 0xC0 == 0x80,
            start.load(fromByteOffset: 2, as: UInt8.self) & 0xC0 == 0x80,
            start.load(fromByteOffset: 3, as: UInt8.self) & 0xC0 == 0x80
        else { return 0 }
        if first == 0xF0, second < 0x90 { return 0 }
        if first == 0xF4, second > 0x8F { return 0 }
        return 4
    }

    /// The position of the first byte that is not part of well-formed UTF-8; `nil` if there is none.
    package static func firstInvalidOffset(in bytes: UnsafeRawBufferPointer) -> Int? {
        guard let base = bytes.baseAddress else { return nil }
        var at = 0
        while at < bytes.count {
            let count = Self.sequenceByteCount(base + at, available: bytes.count - at)
            if count == 0 { return at }
            at += count
        }
        return nil
    }
}
