/// The bytes of a line under construction, in memory that the next line reuses.
///
/// It grows by doubling up to a limit. Bytes that do not fit are left out and set ``isOverflowing``, so a caller checks
/// only once, at the end of a line.
package struct LineBuffer: ~Copyable {
    private var base: UnsafeMutablePointer<UInt8>
    private var capacity: Int
    private let byteCountMax: Int
    package private(set) var count = 0
    /// Whether more was appended than fits; the bytes are then not a line.
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

    /// Removes all bytes and keeps the memory.
    package mutating func removeAll() {
        self.count = 0
        self.isOverflowing = false
    }

    /// Removes the bytes from index `count` on.
    package mutating func truncate(to count: Int) {
        precondition((0...self.count).contains(count), "\(count) bytes of \(self.count) cannot be kept")
        self.count = count
    }

    @inline(__always)
    package mutating func append(_ byte: UInt8) {
        guard self.reserve(1) else { return }
        self.base[self.count] = byte
        self.count &+= 1
    }

    @inline(__always)
    package mutating func append(_ text: StaticString) {
        self.append(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    @inline(__always)
    package mutating func append(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard let source = bytes.baseAddress, self.reserve(bytes.count) else { return }
        (self.base + self.count).update(from: source, count: bytes.count)
        self.count &+= bytes.count
    }

    @inline(__always)
    package mutating func append(_ other: borrowing LineBuffer) {
        if !other.isEmpty { self.append(other.bytes) }
        if other.isOverflowing { self.isOverflowing = true }
    }

    package mutating func append(_ other: borrowing LineBuffer, _ range: Range<Int>) {
        self.append(other[range])
    }

    /// Lets `body` write exactly `byteCount` bytes, for which capacity is reserved once; writes nothing above the limit.
    @inline(__always)
    mutating func fill(_ byteCount: Int, _ body: (inout LineCursor) -> Void) {
        guard self.reserve(byteCount) else { return }
        var cursor = LineCursor(next: self.base + self.count, byteCount: byteCount)
        body(&cursor)
        precondition(cursor.isFull, "fewer than \(byteCount) bytes were written")
        self.count &+= byteCount
    }

    /// The bytes so far; valid until the next change.
    package var bytes: UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: self.base, count: self.count)
    }

    /// The bytes at a range of them; valid until the next change.
    @inline(__always)
    subscript(range: Range<Int>) -> UnsafeBufferPointer<UInt8> {
        precondition(range.lowerBound >= 0 && range.upperBound <= self.count, "bytes \(range) of \(self.count)")
        return UnsafeBufferPointer(rebasing: self.bytes[range])
    }

    func starts(with text: StaticString) -> Bool {
        UnsafeBufferPointer(rebasing: self.bytes.prefix(text.utf8CodeUnitCount)).elementsEqual(
            UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    /// Reserves capacity for `byteCount` more bytes; returns `false` above the limit.
    @inline(__always)
    private mutating func reserve(_ byteCount: Int) -> Bool {
        if self.count &+ byteCount <= self.capacity { return true }
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
        let digitCount = LineCursor.digitCount(of: value)
        self.fill(digitCount) { $0.putDecimal(value, digitCount: digitCount) }
    }

    /// Appends the last `digitCount` decimal digits of `value`, with leading zeros.
    package mutating func appendDecimal(_ value: UInt64, digitCount: Int) {
        self.fill(digitCount) { $0.putDecimal(value, digitCount: digitCount) }
    }

    /// Appends the low `digitCount` hexadecimal digits of `value`, in lower case; at most eight.
    package mutating func appendHexadecimal(_ value: UInt32, digitCount: Int) {
        precondition((1...8).contains(digitCount), "\(digitCount) digits are not 1 to 8")
        self.fill(digitCount) { cursor in
            var digits = LineCursor.hexadecimalDigits(value) >> UInt64(8 * (8 - digitCount))
            withUnsafeBytes(of: &digits) { bytes in
                cursor.put(UnsafeBufferPointer(rebasing: bytes.bindMemory(to: UInt8.self)[..<digitCount]))
            }
        }
    }
}
