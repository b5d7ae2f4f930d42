/// A growable byte buffer that keeps its capacity when it is emptied.
///
/// It is not copyable, because a copy would be a hidden allocation.
@usableFromInline
package struct ByteBuilder: ~Copyable {
    @usableFromInline var base: UnsafeMutableRawPointer
    @usableFromInline package private(set) var count = 0
    @usableFromInline var capacity: Int

    package init(capacity: Int = 1024) {
        precondition(capacity > 0, "capacity \(capacity) must be at least 1")
        self.capacity = capacity
        self.base = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit {
        self.base.deallocate()
    }

    /// The appended bytes; valid until the next mutation and only while the builder lives: do not take it from a
    /// temporary.
    @inlinable
    package var bytes: UnsafeRawBufferPointer {
        @inline(__always)
        get { UnsafeRawBufferPointer(start: self.base, count: self.count) }
    }

    @inlinable
    package var isEmpty: Bool {
        self.count == 0
    }

    /// Empties the builder; keeps its capacity, up to `retainedByteCount`.
    @inlinable
    package mutating func removeAll(retaining retainedByteCount: Int = 4 << 20) {
        self.count = 0
        if self.capacity > retainedByteCount { self.shrink(to: retainedByteCount) }
    }

    /// Truncates the buffer.
    @inlinable
    package mutating func truncate(to byteCount: Int) {
        precondition(byteCount >= 0 && byteCount <= self.count, "\(byteCount) is outside 0...\(self.count)")
        self.count = byteCount
    }

    /// Reserves capacity for `byteCount` more bytes.
    @inlinable
    @inline(__always)
    package mutating func reserve(_ byteCount: Int) {
        if self.capacity &- self.count < byteCount { self.grow(by: byteCount) }
    }

    @inlinable
    @inline(__always)
    package mutating func append(_ byte: UInt8) {
        self.reserve(1)
        self.base.storeBytes(of: byte, toByteOffset: self.count, as: UInt8.self)
        self.count &+= 1
    }

    /// Appends bytes that are not in this builder's own buffer.
    @inlinable
    @inline(__always)
    package mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard let start = bytes.baseAddress else { return }
        self.append(start, byteCount: bytes.count)
    }

    @inlinable
    @inline(__always)
    package mutating func append(_ start: UnsafeRawPointer, byteCount: Int) {
        self.reserve(byteCount)
        (self.base + self.count).copyMemory(from: start, byteCount: byteCount)
        self.count &+= byteCount
    }

    @inlinable
    @inline(__always)
    package mutating func append(_ text: StaticString) {
        self.append(UnsafeRawPointer(text.utf8Start), byteCount: text.utf8CodeUnitCount)
    }

    package mutating func append(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { self.append($0) }
    }

    package mutating func append(_ text: String) {
        var text = text
        text.withUTF8 { self.append(UnsafeRawBufferPointer($0)) }
    }

    /// Appends an integer in decimal.
    package mutating func append(decimal value: Int64) {
        if value < 0 { self.append(UInt8(ascii: "-")) }
        self.append(decimal: value.magnitude)
    }

    /// Appends an integer in decimal, with at least `digitCount` digits.
    package mutating func append(decimal value: UInt64, digitCount: Int = 1) {
        var digits = 1
        var rest = value
        while rest >= 10 {
            rest /= 10
            digits += 1
        }
        digits = max(digits, digitCount)
        self.reserve(digits)
        rest = value
        var at = self.count + digits
        while at > self.count {
            at -= 1
            self.base.storeBytes(of: 0x30 + UInt8(truncatingIfNeeded: rest % 10), toByteOffset: at, as: UInt8.self)
            rest /= 10
        }
        self.count += digits
    }

    @usableFromInline
    @inline(never)
    mutating func grow(by byteCount: Int) {
        self.move(toCapacity: max(self.capacity * 2, self.count + byteCount))
    }

    @usableFromInline
    @inline(never)
    mutating func shrink(to byteCount: Int) {
        self.move(toCapacity: max(byteCount, 1))
    }

    private mutating func move(toCapacity capacity: Int) {
        let moved = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
        moved.copyMemory(from: self.base, byteCount: self.count)
        self.base.deallocate()
        self.base = moved
        self.capacity = capacity
    }
}
