/// Writes bytes of a line one after the other into capacity that was reserved before.
///
/// Its user has declared the number of bytes (``LineBuffer/fill(_:_:)``), and each write is checked against it.
struct LineCursor {
    private var next: UnsafeMutablePointer<UInt8>
    private let end: UnsafeMutablePointer<UInt8>

    /// - Parameter byteCount: the capacity from `next` on.
    init(next: UnsafeMutablePointer<UInt8>, byteCount: Int) {
        self.next = next
        self.end = next + byteCount
    }

    /// Whether all bytes were written.
    var isFull: Bool { self.next == self.end }

    /// Moves on over so many bytes; returns where they are to be written.
    @inline(__always)
    private mutating func take(_ byteCount: Int) -> UnsafeMutablePointer<UInt8> {
        precondition(byteCount <= self.end - self.next, "\(byteCount) bytes for \(self.end - self.next)")
        defer { self.next += byteCount }
        return self.next
    }

    @inline(__always)
    mutating func put(_ byte: UInt8) {
        self.take(1).pointee = byte
    }

    @inline(__always)
    mutating func put(_ text: StaticString) {
        self.take(text.utf8CodeUnitCount).update(from: text.utf8Start, count: text.utf8CodeUnitCount)
    }

    @inline(__always)
    mutating func put(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard let source = bytes.baseAddress else { return }
        self.take(bytes.count).update(from: source, count: bytes.count)
    }

    @inline(__always)
    mutating func put(_ buffer: borrowing LineBuffer) {
        if !buffer.isEmpty { self.put(buffer.bytes) }
    }

    /// Writes the last `digitCount` digits, with leading zeros; two per step.
    mutating func putDecimal(_ value: UInt64, digitCount: Int) {
        var rest = value
        var end = self.take(digitCount) + digitCount
        var digitCount = digitCount
        while digitCount >= 2 {
            let pair = Self.pairs + 2 * Int(truncatingIfNeeded: rest % 100)
            rest /= 100
            end -= 2
            end[0] = pair[0]
            end[1] = pair[1]
            digitCount &-= 2
        }
        if digitCount > 0 { end[-1] = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest % 10) }
    }

    /// Writes the 36 characters of a UUID.
    @inline(__always)
    mutating func put(_ id: UniqueID) {
        let first = Self.hexadecimalDigits(UInt32(truncatingIfNeeded: id.high >> 32))
        let second = Self.hexadecimalDigits(UInt32(truncatingIfNeeded: id.high))
        let third = Self.hexadecimalDigits(UInt32(truncatingIfNeeded: id.low >> 32))
        let fourth = Self.hexadecimalDigits(UInt32(truncatingIfNeeded: id.low))
        self.put(first)
        self.put(UInt8(ascii: "-"))
        self.put(UInt32(truncatingIfNeeded: second))
        self.put(UInt8(ascii: "-"))
        self.put(UInt32(truncatingIfNeeded: second >> 32))
        self.put(UInt8(ascii: "-"))
        self.put(UInt32(truncatingIfNeeded: third))
        self.put(UInt8(ascii: "-"))
        self.put(UInt32(truncatingIfNeeded: third >> 32))
        self.put(fourth)
    }

    /// Writes the bytes of a word, lowest first.
    @inline(__always)
    private mutating func put<Word: FixedWidthInteger>(_ word: Word) {
        UnsafeMutableRawPointer(self.take(MemoryLayout<Word>.size)).storeBytes(of: word.littleEndian, as: Word.self)
    }

    /// Eight digits, the first in the lowest byte: nibbles are spread to bytes, then all are converted to characters at
    /// once.
    @inline(__always)
    static func hexadecimalDigits(_ value: UInt32) -> UInt64 {
        var nibbles = UInt64(value.byteSwapped)
        nibbles = (nibbles | nibbles << 16) & 0x0000_FFFF_0000_FFFF
        nibbles = (nibbles | nibbles << 8) & 0x00FF_00FF_00FF_00FF
        nibbles = (nibbles >> 4 | nibbles << 8) & 0x0F0F_0F0F_0F0F_0F0F
        let isLetter = (nibbles &+ 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
        return nibbles &+ 0x3030_3030_3030_3030 &+ isLetter &* UInt64(UInt8(ascii: "a") - UInt8(ascii: "0") - 10)
    }

    @inline(__always)
    static func digitCount(of value: UInt64) -> Int {
        var digitCount = 1
        var rest = value
        while rest >= 10_000 {
            rest /= 10_000
            digitCount &+= 4
        }
        if rest >= 1000 { return digitCount &+ 3 }
        if rest >= 100 { return digitCount &+ 2 }
        return rest >= 10 ? digitCount &+ 1 : digitCount
    }

    /// The table of all pairs of digits.
    private static var pairs: UnsafePointer<UInt8> {
        let text: StaticString = """
            0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
            5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899
            """
        return text.utf8Start
    }
}
