/// Advances over one JSON token at a time; shared by scanner and tape.
///
/// String bodies are read eight bytes at a time: one subtraction and a mask find the first quote, backslash, control
/// character or non-ASCII byte of a word (Mycroft's test). A borrow can set false marks only above a true one, so the
/// lowest mark is always correct.
@usableFromInline
package struct JSONLexer {
    @usableFromInline let base: UnsafeRawPointer
    @usableFromInline let end: Int
    @usableFromInline package var position: Int

    @inlinable
    @inline(__always)
    package init(base: UnsafeRawPointer, position: Int, end: Int) {
        self.base = base
        self.end = end
        self.position = position
    }

    @inlinable
    @inline(__always)
    package func byte(_ at: Int) -> UInt8 {
        self.base.load(fromByteOffset: at, as: UInt8.self)
    }

    @inlinable
    @inline(__always)
    package mutating func skipWhitespace() {
        while self.position < self.end {
            let byte = self.byte(self.position)
            if byte > 0x20 { return }
            guard byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 else { return }
            self.position &+= 1
        }
    }

    /// The next byte that is not white space.
    @inlinable
    @inline(__always)
    package mutating func nextByte() throws(JSONError) -> UInt8 {
        if self.position < self.end {
            let byte = self.byte(self.position)
            if byte > 0x20 { return byte }
        }
        self.skipWhitespace()
        guard self.position < self.end else { throw JSONError(.truncated, at: self.end) }
        return self.byte(self.position)
    }

    /// Advances over `"key" :` and returns the range of the key, without its quotes.
    @inlinable
    @inline(__always)
    package mutating func scanKey() throws(JSONError) -> (key: Range<Int>, traits: JSONStringTraits) {
        guard try self.nextByte() == UInt8(ascii: "\"") else { throw JSONError(.expectedKey, at: self.position) }
        let start = self.position &+ 1
        let traits = try self.scanString()
        let key = Range(uncheckedBounds: (start, self.position &- 1))
        guard try self.nextByte() == UInt8(ascii: ":") else { throw JSONError(.expectedColon, at: self.position) }
        self.position &+= 1
        self.skipWhitespace()
        return (key, traits)
    }

    /// Advances from an opening quote past the closing one.
    @inlinable
    @inline(__always)
    package mutating func scanString() throws(JSONError) -> JSONStringTraits {
        var at = self.position &+ 1
        while at &+ 8 <= self.end {
            let marks = Self.marks(self.base.loadUnaligned(fromByteOffset: at, as: UInt64.self))
            if marks == 0 {
                at &+= 8
                continue
            }
            at &+= marks.trailingZeroBitCount &>> 3
            if self.byte(at) == UInt8(ascii: "\"") {
                self.position = at &+ 1
                return []
            }
            break
        }
        let (end, traits) = try Self.endOfString(self, from: at)
        self.position = end
        return traits
    }

    /// The bytes of a word that end plain text, each marked by its highest bit; only the lowest mark is exact.
    ///
    /// Bytes above 0x7F are marked in any case, so the tests need not be correct for them.
    @inlinable
    @inline(__always)
    static func marks(_ loaded: UInt64) -> UInt64 {
        let word = UInt64(littleEndian: loaded)
        let ones: UInt64 = 0x0101_0101_0101_0101
        let quote = (word ^ 0x2222_2222_2222_2222) &- ones
        let backslash = (word ^ 0x5C5C_5C5C_5C5C_5C5C) &- ones
        let control = word &- 0x2020_2020_2020_2020
        return (quote | backslash | control | word) & 0x8080_8080_8080_8080
    }

    /// Advances over the rest of a string with escapes, non-ASCII text, an error, or the last bytes of the line.
    ///
    /// Takes the lexer by value: passed by address, it would keep the caller from holding the position in a register.
    @usableFromInline
    static func endOfString(
        _ lexer: JSONLexer, from start: Int
    ) throws(JSONError) -> (end: Int, traits: JSONStringTraits) {
        var traits: JSONStringTraits = []
        var at = start
        while at < lexer.end {
            if at &+ 8 <= lexer.end {
                let marks = Self.marks(lexer.base.loadUnaligned(fromByteOffset: at, as: UInt64.self))
                if marks == 0 {
                    at &+= 8
                    continue
                }
                at &+= marks.trailingZeroBitCount &>> 3
            }
            let byte = lexer.byte(at)
            if byte == UInt8(ascii: "\"") {
                return (at &+ 1, traits)
            } else if byte == UInt8(ascii: "\\") {
                traits.insert(.hasEscapes)
                at = try lexer.endOfEscape(at)
            } else if byte >= 0x80 {
                traits.insert(.hasNonASCII)
                repeat {
                    let count = UTF8Text.sequenceByteCount(lexer.base + at, available: lexer.end &- at)
                    guard count > 0 else { throw JSONError(.badUTF8, at: at) }
                    at &+= count
                } while at < lexer.end && lexer.byte(at) >= 0x80
            } else if byte < 0x20 {
                throw JSONError(.controlCharacter, at: at)
            } else {
                at &+= 1
            }
        }
        throw JSONError(.truncated, at: lexer.end)
    }

    /// The position after the escape that begins at `at`.
    private func endOfEscape(_ at: Int) throws(JSONError) -> Int {
        guard at &+ 1 < self.end else { throw JSONError(.truncated, at: self.end) }
        switch self.byte(at &+ 1) {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            return at &+ 2
        case UInt8(ascii: "u"):
            for index in (at &+ 2)..<(at &+ 6) {
                guard index < self.end else { throw JSONError(.truncated, at: self.end) }
                guard Hex.value(self.byte(index)) != nil else { throw JSONError(.badEscape, at: at) }
            }
            return at &+ 6
        default:
            throw JSONError(.badEscape, at: at)
        }
    }

    /// Advances over `-? int frac? exp?`.
    @inlinable
    @inline(__always)
    package mutating func scanNumber() throws(JSONError) {
        var at = self.position
        if self.byte(at) == UInt8(ascii: "-") { at &+= 1 }
        if at < self.end, self.byte(at) == UInt8(ascii: "0") {
            at &+= 1
        } else {
            at = try self.endOfDigits(from: at)
        }
        if at < self.end, self.byte(at) == UInt8(ascii: ".") || self.byte(at) | 0x20 == UInt8(ascii: "e") {
            at = try self.endOfFraction(from: at)
        }
        self.position = at
    }

    /// The position after a number's fraction and exponent.
    @usableFromInline
    func endOfFraction(from: Int) throws(JSONError) -> Int {
        var at = from
        if self.byte(at) == UInt8(ascii: ".") { at = try self.endOfDigits(from: at &+ 1) }
        if at < self.end, self.byte(at) | 0x20 == UInt8(ascii: "e") {
            at &+= 1
            if at < self.end, self.byte(at) == UInt8(ascii: "+") || self.byte(at) == UInt8(ascii: "-") { at &+= 1 }
            at = try self.endOfDigits(from: at)
        }
        return at
    }

    /// The position after one or more digits.
    @inlinable
    @inline(__always)
    func endOfDigits(from: Int) throws(JSONError) -> Int {
        var at = from
        while at < self.end, self.byte(at) &- 0x30 < 10 { at &+= 1 }
        guard at > from else { throw JSONError(at < self.end ? .badNumber : .truncated, at: at) }
        return at
    }

    /// Advances over a value that is neither a string nor a container.
    @inlinable
    @inline(__always)
    package mutating func scanScalar(_ first: UInt8) throws(JSONError) -> JSONKind {
        switch first {
        case UInt8(ascii: "-"), 0x30...0x39:
            try self.scanNumber()
            return .number
        case UInt8(ascii: "t"):
            self.position = try self.endOfWord("true")
            return .true
        case UInt8(ascii: "f"):
            self.position = try self.endOfWord("false")
            return .false
        case UInt8(ascii: "n"):
            self.position = try self.endOfWord("null")
            return .null
        default:
            throw JSONError(.expectedValue, at: self.position)
        }
    }

    @usableFromInline
    func endOfWord(_ word: StaticString) throws(JSONError) -> Int {
        for index in 0..<word.utf8CodeUnitCount {
            let at = self.position + index
            guard at < self.end else { throw JSONError(.truncated, at: self.end) }
            guard self.byte(at) == word.utf8Start[index] else { throw JSONError(.expectedValue, at: self.position) }
        }
        return self.position + word.utf8CodeUnitCount
    }

    /// Advances over one value of any kind, including nested values.
    ///
    /// - Parameter depth: the number of containers around this value. Containers opened inside it are one bit each in a
    ///   word, so depth costs neither memory nor recursion.
    @inlinable
    @inline(__always)
    package mutating func scanValue(depth: Int) throws(JSONError) -> JSONKind {
        guard self.position < self.end else { throw JSONError(.truncated, at: self.end) }
        let first = self.byte(self.position)
        switch first {
        case UInt8(ascii: "\""):
            _ = try self.scanString()
            return .string
        case UInt8(ascii: "{"):
            self.position = try Self.endOfContainer(self, depth: depth)
            return .object
        case UInt8(ascii: "["):
            self.position = try Self.endOfContainer(self, depth: depth)
            return .array
        default:
            return try self.scanScalar(first)
        }
    }

    @usableFromInline
    static func endOfContainer(_ outer: JSONLexer, depth outerDepth: Int) throws(JSONError) -> Int {
        var lexer = outer
        /// One bit for each open container, 1 for an object; the innermost is the lowest.
        var stack: UInt64 = 0
        var open = 0
        while true {
            guard lexer.position < lexer.end else { throw JSONError(.truncated, at: lexer.end) }
            let first = lexer.byte(lexer.position)
            if first == UInt8(ascii: "\"") {
                _ = try lexer.scanString()
            } else if first == UInt8(ascii: "{") || first == UInt8(ascii: "[") {
                open &+= 1
                guard outerDepth &+ open <= JSONLimits.depthMax else { throw JSONError(.tooDeep, at: lexer.position) }
                stack = stack &<< 1 | (first == UInt8(ascii: "{") ? 1 : 0)
                lexer.position &+= 1
                if try lexer.nextByte() != Self.closer(stack) {
                    if stack & 1 == 1 { _ = try lexer.scanKey() }
                    continue
                }
            } else {
                _ = try lexer.scanScalar(first)
            }
            if try lexer.closeContainers(&stack, &open) { return lexer.position }
            if stack & 1 == 1 { _ = try lexer.scanKey() } else { lexer.skipWhitespace() }
        }
    }

    /// Advances over closing brackets and the next comma; returns true when no container is open.
    @inline(__always)
    private mutating func closeContainers(_ stack: inout UInt64, _ open: inout Int) throws(JSONError) -> Bool {
        while true {
            let byte = try self.nextByte()
            if byte == UInt8(ascii: ",") {
                self.position &+= 1
                return false
            }
            guard byte == Self.closer(stack) else { throw JSONError(.expectedCommaOrEnd, at: self.position) }
            self.position &+= 1
            stack &>>= 1
            open &-= 1
            if open == 0 { return true }
        }
    }

    @inline(__always)
    private static func closer(_ stack: UInt64) -> UInt8 {
        stack & 1 == 1 ? UInt8(ascii: "}") : UInt8(ascii: "]")
    }
}
