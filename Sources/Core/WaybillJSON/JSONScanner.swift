/// Checks that a line is exactly one JSON object, and reports where its members are.
@usableFromInline
package enum JSONScanner {
    /// Checks one object and reports its top-level members in order.
    ///
    ///     {"name":"login", "data":{"k":[1]}}
    ///       key   value     key    value         `key` without quotes, `value` with its quotes or brackets
    ///
    /// Duplicates are all reported. Only white space may surround the object.
    ///
    /// - Parameters:
    ///   - start: where the line begins in `bytes`; reported positions are relative to the start of `bytes`.
    ///   - member: called for each member, inlined into the caller. After an error, discard what it received.
    @inlinable
    @inline(__always)
    package static func scanObject(
        _ bytes: UnsafeRawBufferPointer,
        from start: Int = 0,
        member: (_ key: Range<Int>, _ value: Range<Int>, _ kind: JSONKind) -> Void
    ) throws(JSONError) {
        try Self.scanMembers(bytes, from: start) { key, _, value, kind in member(key, value, kind) }
    }

    /// Like ``scanObject(_:from:member:)``, but also reports whether a key has escapes: its bytes then differ from its
    /// name, so compare it with ``JSONText/equals(_:isEscaped:_:)``.
    @inlinable
    @inline(__always)
    package static func scanMembers(
        _ bytes: UnsafeRawBufferPointer,
        from start: Int = 0,
        member: (_ key: Range<Int>, _ keyTraits: JSONStringTraits, _ value: Range<Int>, _ kind: JSONKind) -> Void
    ) throws(JSONError) {
        var lexer = try Self.open(bytes, from: start)
        if try lexer.nextByte() == UInt8(ascii: "}") {
            return try Self.close(lexer)
        }
        while true {
            let (key, traits) = try lexer.scanKey()
            let valueStart = lexer.position
            let kind = try lexer.scanValue(depth: 1)
            member(key, traits, Range(uncheckedBounds: (valueStart, lexer.position)), kind)
            let byte = try lexer.nextByte()
            if byte == UInt8(ascii: ",") {
                lexer.position &+= 1
                continue
            }
            guard byte == UInt8(ascii: "}") else { throw JSONError(.expectedCommaOrEnd, at: lexer.position) }
            return try Self.close(lexer)
        }
    }

    /// The kind of the single JSON value in `bytes`.
    package static func scanValue(_ bytes: UnsafeRawBufferPointer, from start: Int = 0) throws(JSONError) -> JSONKind {
        guard let base = bytes.baseAddress else { throw JSONError(.empty, at: 0) }
        var lexer = JSONLexer(base: base, position: start, end: bytes.count)
        lexer.skipWhitespace()
        guard lexer.position < bytes.count else { throw JSONError(.empty, at: lexer.position) }
        let kind = try lexer.scanValue(depth: 0)
        lexer.skipWhitespace()
        guard lexer.position == bytes.count else { throw JSONError(.trailingBytes, at: lexer.position) }
        return kind
    }

    /// A lexer positioned after the opening brace.
    @usableFromInline
    static func open(_ bytes: UnsafeRawBufferPointer, from start: Int) throws(JSONError) -> JSONLexer {
        guard bytes.count <= JSONLimits.byteCountMax else { throw JSONError(.tooLong, at: JSONLimits.byteCountMax) }
        guard let base = bytes.baseAddress else { throw JSONError(.empty, at: 0) }
        var lexer = JSONLexer(base: base, position: start, end: bytes.count)
        lexer.skipWhitespace()
        guard lexer.position < bytes.count else { throw JSONError(.empty, at: lexer.position) }
        guard lexer.byte(lexer.position) == UInt8(ascii: "{") else {
            let position = lexer.position
            _ = try Self.scanValue(bytes, from: position)
            throw JSONError(.notObject, at: position)
        }
        lexer.position += 1
        return lexer
    }

    /// Advances over the closing brace; only white space may follow.
    @usableFromInline
    static func close(_ outer: JSONLexer) throws(JSONError) {
        var lexer = outer
        lexer.position += 1
        lexer.skipWhitespace()
        guard lexer.position == lexer.end else { throw JSONError(.trailingBytes, at: lexer.position) }
    }
}
