/// Bytes of a line in the making, in memory that is used again for the next line.
///
/// Grows by doubling up to a limit and never beyond: what does not fit sets ``isOverflowing`` and is left out, so
/// that a caller checks once at the end of a line.
package struct LineBuffer: ~Copyable {
    private var base: UnsafeMutablePointer<UInt8>
    private var capacity: Int
    private let byteCountMax: Int
    package private(set) var count = 0
    /// More was appended than fits; the bytes are not a line.
    package private(set) var isOverflowing = false

    package init(capacity: Int = 256, byteCountMax: Int = EventLimits.lineByteCountMax) {
        precondition(capacity > 0 && capacity <= byteCountMax, "capacity \(capacity) is not in 1...\(byteCountMax)")
        self.base = .allocate(capacity: capacity)
        self.capacity = capacity
        self.byteCountMax = byteCountMax
    }

    deinit {
        self.base.deallocate()
    }

    package var isEmpty: Bool {
        self.count == 0
    }

    /// Forgets the bytes and keeps the memory.
    package mutating func removeAll() {
        self.count = 0
        self.isOverflowing = false
    }

    /// Forgets the bytes from `count` on.
    package mutating func truncate(to count: Int) {
        precondition(count <= self.count, "\(count) bytes of \(self.count) cannot be kept")
        self.count = count
    }

    @inline(__always)
    package mutating func append(_ byte: UInt8) {
        guard self.reserve(1) else { return }
        self.base[self.count] = byte
        self.count += 1
    }

    @inline(__always)
    package mutating func append(_ text: StaticString) {
        self.append(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    @inline(__always)
    package mutating func append(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard let source = bytes.baseAddress, self.reserve(bytes.count) else { return }
        (self.base + self.count).update(from: source, count: bytes.count)
        self.count += bytes.count
    }

    package mutating func append(_ other: borrowing LineBuffer) {
        self.append(other.bytes)
        if other.isOverflowing { self.isOverflowing = true }
    }

    package mutating func append(_ other: borrowing LineBuffer, _ range: Range<Int>) {
        self.append(UnsafeBufferPointer(rebasing: other.bytes[range]))
    }

    /// The bytes so far; valid until the next change.
    package var bytes: UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: self.base, count: self.count)
    }

    /// Room for `byteCount` more bytes; `false` beyond the limit.
    @inline(__always)
    private mutating func reserve(_ byteCount: Int) -> Bool {
        if self.count + byteCount <= self.capacity { return true }
        return self.grow(byteCount)
    }

    @inline(never)
    private mutating func grow(_ byteCount: Int) -> Bool {
        guard !self.isOverflowing, self.count + byteCount <= self.byteCountMax else {
            self.isOverflowing = true
            return false
        }
        let grown = min(self.byteCountMax, max(self.capacity * 2, self.count + byteCount))
        let memory = UnsafeMutablePointer<UInt8>.allocate(capacity: grown)
        memory.update(from: self.base, count: self.count)
        self.base.deallocate()
        self.base = memory
        self.capacity = grown
        return true
    }
}

extension LineBuffer {
    /// Appends `value` in decimal.
    package mutating func appendDecimal(_ value: UInt64) {
        var digitCount = 1
        var power: UInt64 = 10
        while digitCount < 20, value >= power {
            digitCount += 1
            let (next, overflow) = power.multipliedReportingOverflow(by: 10)
            if overflow { break }
            power = next
        }
        if digitCount == 19, value >= 10_000_000_000_000_000_000 { digitCount = 20 }
        self.appendDecimal(value, digitCount: digitCount)
    }

    /// Appends the last `digitCount` decimal digits of `value`, with leading zeros.
    package mutating func appendDecimal(_ value: UInt64, digitCount: Int) {
        guard self.reserve(digitCount) else { return }
        var rest = value
        var index = self.count + digitCount
        while index > self.count {
            index -= 1
            self.base[index] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
        self.count += digitCount
    }

    /// Appends the low `digitCount` hexadecimal digits of `value`, in lower case; at most eight.
    package mutating func appendHexadecimal(_ value: UInt32, digitCount: Int) {
        guard self.reserve(digitCount) else { return }
        var digits = Self.hexadecimalDigits(value) >> UInt64(8 * (8 - digitCount))
        withUnsafeBytes(of: &digits) { bytes in
            UnsafeMutableRawPointer(self.base + self.count).copyMemory(from: bytes.baseAddress!, byteCount: digitCount)
        }
        self.count += digitCount
    }

    /// Eight digits, the first in the lowest byte: nibbles are spread to bytes, then all become letters at once.
    private static func hexadecimalDigits(_ value: UInt32) -> UInt64 {
        var nibbles = UInt64(value.byteSwapped)
        nibbles = (nibbles | nibbles << 16) & 0x0000_FFFF_0000_FFFF
        nibbles = (nibbles | nibbles << 8) & 0x00FF_00FF_00FF_00FF
        nibbles = (nibbles >> 4 | nibbles << 8) & 0x0F0F_0F0F_0F0F_0F0F
        let isLetter = (nibbles &+ 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
        return nibbles &+ 0x3030_3030_3030_3030 &+ isLetter &* UInt64(UInt8(ascii: "a") - UInt8(ascii: "0") - 10)
    }
}
