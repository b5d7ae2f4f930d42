/// One value or key on a ``JSONTape``.
@usableFromInline
package struct JSONEntry: Hashable, Sendable {
    /// The position of the value's first byte; for a string or key, of the byte after its opening quote.
    @usableFromInline package var start: UInt32
    /// The position after the value; for a string or key, of its closing quote.
    @usableFromInline package var end: UInt32
    /// The index of the entry after this value and its contents.
    @usableFromInline package var next: UInt32
    @usableFromInline package var kind: JSONKind
    @usableFromInline package var traits: JSONStringTraits

    @inlinable
    @inline(__always)
    package init(start: UInt32, end: UInt32, next: UInt32, kind: JSONKind, traits: JSONStringTraits) {
        self.start = start
        self.end = end
        self.next = next
        self.kind = kind
        self.traits = traits
    }
}

/// One line as a flat list of positions, in document order.
///
///     {"a":1,"b":[true]}     0 object next 6 · 1 "a" · 2 number · 3 "b" · 4 array next 6 · 5 true
///
/// An object's children are key, value, key, value …; `next` jumps over a value. The tape points into the line's bytes
/// and is valid as long as they are, until the next ``parse(_:from:)``. Its capacity is kept from line to line and
/// released only after a line much longer than the others. It is not copyable, because a copy would share the storage.
@usableFromInline
package struct JSONTape: ~Copyable {
    /// Above this number of entries, capacity is released when a line needs less than an eighth of it: 256 KiB.
    private static var retainedCapacity: Int { 16_384 }

    @usableFromInline var entries: UnsafeMutablePointer<JSONEntry>
    @usableFromInline package private(set) var count = 0
    @usableFromInline package private(set) var source = UnsafeRawBufferPointer(start: nil, count: 0)
    /// The number of entries that fit.
    ///
    /// What writes an entry compares with it: no formula over the length says how many will fit.
    private var capacity: Int

    /// - Parameter capacity: the number of entries that fit before the tape grows for the first time.
    package init(capacity: Int = 256) {
        precondition(capacity > 0, "capacity \(capacity) must be at least 1")
        self.capacity = capacity
        self.entries = .allocate(capacity: capacity)
    }

    deinit {
        self.entries.deallocate()
    }

    /// The entry at `index`, which must be below ``count``.
    @inlinable
    package subscript(index: Int) -> JSONEntry {
        @inline(__always)
        get {
            precondition(index >= 0 && index < self.count, "entry \(index) of \(self.count)")
            return self.entries[index]
        }
    }

    /// The bytes of an entry as written in the line: a string without quotes, anything else whole.
    @inlinable
    @inline(__always)
    package func bytes(of index: Int) -> UnsafeRawBufferPointer {
        let entry = self[index]
        return UnsafeRawBufferPointer(
            start: self.source.baseAddress.unsafelyUnwrapped + Int(entry.start), count: Int(entry.end &- entry.start))
    }

    /// The members of the object at `index`, in order; any other value has none.
    @inlinable
    package func members(of index: Int) -> JSONMembers {
        let entry = self[index]
        // The elements of a list are no pairs.
        return JSONMembers(next: index + 1, end: entry.kind == .object ? Int(entry.next) : index + 1)
    }

    /// The value of the first member with that name.
    package func firstValue(of name: StaticString, in object: Int) -> Int? {
        self.firstValue(
            of: UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount), in: object)
    }

    /// The value of the first member whose unescaped name equals these bytes.
    package func firstValue(of name: UnsafeRawBufferPointer, in object: Int) -> Int? {
        guard self[object].kind == .object else { return nil }
        var members = self.members(of: object)
        while let member = members.next(in: self) {
            let key = self.bytes(of: member.key)
            let isEscaped = self[member.key].traits.contains(.hasEscapes)
            if isEscaped ? JSONText.unescapedEquals(key, name) : JSONText.equals(key, name) { return member.value }
        }
        return nil
    }

    /// Parses one object and replaces the tape's entries; entry 0 is the object itself.
    ///
    /// Accepts exactly what ``JSONScanner/scanObject(_:from:member:)`` accepts. After an error the tape is empty.
    package mutating func parse(_ bytes: UnsafeRawBufferPointer, from start: Int = 0) throws(JSONError) {
        self.count = 0
        let lexer = try JSONScanner.open(bytes, from: start)
        // An entry takes at least one byte.
        self.release(unlessNeededFor: bytes.count - lexer.position)
        try self.parseObject(lexer, of: bytes)
    }

    /// Parses an object after the existing entries, which stay when it has an error.
    private mutating func parseObject(_ lexer: JSONLexer, of bytes: UnsafeRawBufferPointer) throws(JSONError) {
        self.source = bytes
        var parser = TapeParser(lexer: lexer, entries: self.entries, capacity: self.capacity, count: self.count)
        defer {
            self.entries = parser.entries
            self.capacity = parser.capacity
        }
        try parser.parseObject()
        try JSONScanner.close(parser.lexer)
        self.count = parser.count
    }

    /// Replaces the tape with the entries of one object; for anything else returns `false` and empties the tape.
    package mutating func accepts(_ bytes: UnsafeRawBufferPointer, from start: Int = 0) -> Bool {
        do throws(JSONError) {
            try self.parse(bytes, from: start)
            return true
        } catch {
            return false
        }
    }

    /// Adds the entries of one object stored after the line, and returns its index.
    ///
    /// - Parameters:
    ///   - start: where the object begins in `bytes`; only white space may follow the object.
    ///   - bytes: a copy of the bytes that the tape was parsed from, followed by the object; the tape points into it
    ///     from now on.
    package mutating func append(objectAt start: Int, of bytes: UnsafeRawBufferPointer) throws(JSONError) -> Int {
        let lexer = try JSONScanner.open(bytes, from: start)
        let index = self.count
        try self.parseObject(lexer, of: bytes)
        return index
    }

    /// All entries; valid until the tape changes.
    package var all: UnsafeBufferPointer<JSONEntry> {
        UnsafeBufferPointer(start: self.entries, count: self.count)
    }

    /// Replaces the tape with a copy of another tape's entries for `bytes`.
    package mutating func copy(_ entries: UnsafeBufferPointer<JSONEntry>, of bytes: UnsafeRawBufferPointer) {
        self.release(unlessNeededFor: entries.count)
        if entries.count > self.capacity { self.replace(withCapacity: entries.count) }
        if let start = entries.baseAddress { self.entries.update(from: start, count: entries.count) }
        self.count = entries.count
        self.source = bytes
    }

    /// Drops the entries and their memory when it is large, and `entryCount` entries need less than an eighth of it.
    private mutating func release(unlessNeededFor entryCount: Int) {
        if self.capacity > Self.retainedCapacity, entryCount < self.capacity / 8 {
            self.replace(withCapacity: max(entryCount, 256))
        }
    }

    /// Drops the entries, and has room for this many.
    private mutating func replace(withCapacity capacity: Int) {
        self.entries.deallocate()
        self.entries = .allocate(capacity: capacity)
        self.capacity = capacity
    }
}

/// Iterates over the members of one object.
@usableFromInline
package struct JSONMembers: Sendable {
    @usableFromInline var next: Int
    @usableFromInline let end: Int

    @inlinable
    @inline(__always)
    init(next: Int, end: Int) {
        self.next = next
        self.end = end
    }

    /// The tape indices of the next member's key and value.
    @inlinable
    @inline(__always)
    package mutating func next(in tape: borrowing JSONTape) -> (key: Int, value: Int)? {
        guard self.next < self.end else { return nil }
        let key = self.next
        self.next = Int(tape[key &+ 1].next)
        return (key, key &+ 1)
    }
}

/// Writes the entries of one object, and moves all of them when there is no room for the next one.
private struct TapeParser {
    var lexer: JSONLexer
    /// The tape's memory, which this parser may replace: the tape takes it back in any case.
    private(set) var entries: UnsafeMutablePointer<JSONEntry>
    private(set) var capacity: Int
    private(set) var count: Int
    /// The innermost open container, whose `next` holds the container around it until it is closed.
    private var container = 0
    private var depth = 0

    /// - Parameter count: the number of existing entries.
    init(lexer: JSONLexer, entries: UnsafeMutablePointer<JSONEntry>, capacity: Int, count: Int) {
        self.lexer = lexer
        self.entries = entries
        self.capacity = capacity
        self.count = count
    }

    /// Parses from after the opening brace up to the closing one, which is left to the caller.
    mutating func parseObject() throws(JSONError) {
        self.open(.object, at: self.lexer.position - 1)
        var isObject = true
        var mayClose = true
        while true {
            let byte = try self.lexer.nextByte()
            if mayClose, byte == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) {
                mayClose = false
            } else {
                if isObject { try self.parseKey() }
                if let opened = try self.parseValue() {
                    isObject = opened
                    mayClose = true
                    continue
                }
                mayClose = false
            }
            // After a value, or before the bracket that closes an empty container.
            while true {
                let byte = try self.lexer.nextByte()
                if byte == UInt8(ascii: ",") {
                    self.lexer.position &+= 1
                    break
                }
                guard byte == (isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) else {
                    throw JSONError(.expectedCommaOrEnd, at: self.lexer.position)
                }
                if self.close() { return }
                isObject = self.entries[self.container].kind == .object
            }
        }
    }

    @inline(__always)
    private mutating func parseKey() throws(JSONError) {
        let (key, traits) = try self.lexer.scanKey()
        self.append(key.lowerBound, key.upperBound, .string, traits)
    }

    /// Parses a value, or only the opening bracket of a container; returns whether that container is an object.
    @inline(__always)
    private mutating func parseValue() throws(JSONError) -> Bool? {
        guard self.lexer.position < self.lexer.end else { throw JSONError(.truncated, at: self.lexer.end) }
        let start = self.lexer.position
        let first = self.lexer.byte(start)
        switch first {
        case UInt8(ascii: "\""):
            let traits = try self.lexer.scanString()
            self.append(start &+ 1, self.lexer.position &- 1, .string, traits)
            return nil
        case UInt8(ascii: "{"), UInt8(ascii: "["):
            guard self.depth < JSONLimits.depthMax else { throw JSONError(.tooDeep, at: start) }
            let isObject = first == UInt8(ascii: "{")
            self.open(isObject ? .object : .array, at: start)
            self.lexer.position &+= 1
            return isObject
        default:
            let kind = try self.lexer.scanScalar(first)
            self.append(start, self.lexer.position, kind, [])
            return nil
        }
    }

    @inline(__always)
    private mutating func append(_ start: Int, _ end: Int, _ kind: JSONKind, _ traits: JSONStringTraits) {
        if self.count >= self.capacity { self.grow() }
        self.entries[self.count] = JSONEntry(
            start: UInt32(truncatingIfNeeded: start), end: UInt32(truncatingIfNeeded: end),
            next: UInt32(truncatingIfNeeded: self.count &+ 1), kind: kind, traits: traits)
        self.count &+= 1
    }

    /// Moves the entries to at most twice the room.
    ///
    /// Or to what the rest of most lines needs: two bytes an entry. That is a guess about memory, not a promise: the next
    /// entry without room moves them again.
    @inline(never)
    private mutating func grow() {
        let rest = (self.lexer.end - self.lexer.position) / 2 + JSONLimits.depthMax
        let grown = self.capacity + min(self.capacity, rest)
        let entries = UnsafeMutablePointer<JSONEntry>.allocate(capacity: grown)
        entries.moveInitialize(from: self.entries, count: self.count)
        self.entries.deallocate()
        self.entries = entries
        self.capacity = grown
    }

    private mutating func open(_ kind: JSONKind, at start: Int) {
        let opened = self.count
        self.append(start, start, kind, [])
        self.entries[opened].next = UInt32(truncatingIfNeeded: self.container)
        self.container = opened
        self.depth &+= 1
    }

    /// Closes the innermost container at the lexer's position; returns true for the outermost.
    private mutating func close() -> Bool {
        let closed = self.container
        self.container = Int(self.entries[closed].next)
        self.entries[closed].next = UInt32(truncatingIfNeeded: self.count)
        self.entries[closed].end = UInt32(truncatingIfNeeded: self.lexer.position &+ 1)
        self.depth &-= 1
        if self.depth == 0 { return true }
        self.lexer.position &+= 1
        return false
    }
}
