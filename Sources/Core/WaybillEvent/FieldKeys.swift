/// The place of a key in the bytes of an event's fields.
package struct FieldKey {
    let hash: UInt32
    var start: Int
    /// The length of the key as written, including quotes.
    let byteCount: Int

    /// The place of the key with its quotes.
    var range: Range<Int> { self.start..<self.start + self.byteCount }
}

/// The keys of an event's fields, in memory that the next event reuses.
package struct FieldKeys: ~Copyable {
    private var base = UnsafeMutablePointer<FieldKey>.allocate(capacity: 16)
    private var capacity = 16
    private(set) var count = 0

    deinit {
        self.base.deallocate()
    }

    subscript(_ index: Int) -> FieldKey {
        @inline(__always) get {
            precondition(index >= 0 && index < self.count, "there is no key \(index) of \(self.count)")
            return self.base[index]
        }
        set {
            precondition(index >= 0 && index < self.count, "there is no key \(index) of \(self.count)")
            self.base[index] = newValue
        }
    }

    @inline(__always)
    mutating func append(_ key: FieldKey) {
        if self.count == self.capacity { self.grow() }
        self.base[self.count] = key
        self.count &+= 1
    }

    @inline(never)
    private mutating func grow() {
        let memory = UnsafeMutablePointer<FieldKey>.allocate(capacity: self.capacity * 2)
        memory.update(from: self.base, count: self.count)
        self.base.deallocate()
        self.base = memory
        self.capacity *= 2
    }

    mutating func remove(at index: Int) {
        for next in index + 1..<self.count { self[next - 1] = self[next] }
        self.count -= 1
    }

    /// Removes all except the first `count` keys.
    @inline(__always)
    mutating func truncate(to count: Int) {
        precondition((0...self.count).contains(count), "\(count) keys of \(self.count) cannot be kept")
        self.count = count
    }
}
