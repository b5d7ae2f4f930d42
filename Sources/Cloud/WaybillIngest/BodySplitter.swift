internal import WaybillJSON

/// Finds the events of a body that is not JSON as a whole, and takes out what is not.
///
///     {"batch":[ {"event":"a","properties":{"x":1}}, {"event":"b","properties":{"x":NaN}} ],"sentAt":"…"}
///                                                    0                                     a broken event becomes this
///
/// Python's `json` writes `NaN` and `Infinity`, C libraries write bytes that are no UTF-8, and a value may be nested too deep.
/// Such a value ends where its brackets and quotes say so: at the comma or bracket after it. Where they do not (the body ends
/// too soon, a bracket closes nothing, a comma has nothing before it), no event can be told from another.
///
/// One pass; bytes keep their places, so that positions hold for the body as it came.
struct BodySplitter {
    private let text: UnsafeMutableRawBufferPointer
    /// Where values begin that were taken out, and where they end.
    private(set) var broken: [Int: Int] = [:]

    /// The lists of events that dialects know.
    private static let lists: [StaticString] = ["batch", "events", "data"]

    init(_ text: UnsafeMutableRawBufferPointer) {
        self.text = text
    }

    /// Takes out the members and list elements of an object that are not JSON.
    ///
    /// - Throws: where the object cannot be split; ``JSONError/Code/tooLong`` for more than
    ///   ``IngestLimits/eventCountMax`` broken values.
    mutating func split(from start: Int) throws(JSONError) {
        guard let base = self.text.baseAddress else { throw JSONError(.empty, at: 0) }
        var lexer = JSONLexer(base: UnsafeRawPointer(base), position: start, end: self.text.count)
        guard try lexer.nextByte() == UInt8(ascii: "{") else { throw JSONError(.notObject, at: lexer.position) }
        lexer.position += 1
        if try lexer.nextByte() == UInt8(ascii: "}") { return try self.end(lexer) }
        while true {
            let (key, traits) = try lexer.scanKey()
            let name = UnsafeRawBufferPointer(rebasing: self.text[key])
            let isEscaped = traits.contains(.hasEscapes)
            let isList = Self.lists.contains { JSONText.equals(name, isEscaped: isEscaped, $0) }
            if isList, try lexer.nextByte() == UInt8(ascii: "[") {
                try self.splitList(&lexer)
            } else {
                try self.takeValue(&lexer, depth: 1, closer: UInt8(ascii: "}"))
            }
            let byte = try lexer.nextByte()
            guard byte != UInt8(ascii: "}") else { return try self.end(lexer) }
            guard byte == UInt8(ascii: ",") else { throw JSONError(.expectedCommaOrEnd, at: lexer.position) }
            lexer.position += 1
        }
    }

    private mutating func splitList(_ lexer: inout JSONLexer) throws(JSONError) {
        lexer.position += 1
        var isEnd = try lexer.nextByte() == UInt8(ascii: "]")
        while !isEnd {
            lexer.skipWhitespace()
            try self.takeValue(&lexer, depth: 2, closer: UInt8(ascii: "]"))
            let byte = try lexer.nextByte()
            isEnd = byte == UInt8(ascii: "]")
            guard isEnd || byte == UInt8(ascii: ",") else { throw JSONError(.expectedCommaOrEnd, at: lexer.position) }
            if !isEnd { lexer.position += 1 }
        }
        lexer.position += 1
    }

    private func end(_ lexer: JSONLexer) throws(JSONError) {
        var lexer = lexer
        lexer.position += 1
        lexer.skipWhitespace()
        guard lexer.position == self.text.count else { throw JSONError(.trailingBytes, at: lexer.position) }
    }

    /// Advances over a value; one that is not JSON becomes `0` and blanks.
    private mutating func takeValue(_ lexer: inout JSONLexer, depth: Int, closer: UInt8) throws(JSONError) {
        let start = lexer.position
        if let end = Self.end(of: lexer, depth: depth, closer: closer) {
            lexer.position = end
            return
        }
        lexer.position = try self.endOfBroken(start, closer: closer)
        var end = lexer.position
        while end > start, self.text[end - 1].isBlank { end -= 1 }
        guard end > start else { throw JSONError(.expectedValue, at: start) }
        guard self.broken.count < IngestLimits.eventCountMax else { throw JSONError(.tooLong, at: start) }
        self.broken[start] = end
        self.text[start] = UInt8(ascii: "0")
        for index in (start + 1)..<max(end, start + 1) { self.text[index] = 0x20 }
    }

    /// The end of a value that is JSON, and that a comma or the bracket around it follows.
    private static func end(of lexer: JSONLexer, depth: Int, closer: UInt8) -> Int? {
        var lexer = lexer
        do throws(JSONError) {
            _ = try lexer.scanValue(depth: depth)
            let end = lexer.position
            let byte = try lexer.nextByte()
            return byte == UInt8(ascii: ",") || byte == closer ? end : nil
        } catch {
            return nil
        }
    }

    /// The position of the comma or the bracket after a value, by its brackets and quotes alone.
    private func endOfBroken(_ start: Int, closer: UInt8) throws(JSONError) -> Int {
        var closers: [UInt8] = []
        var at = start
        while at < self.text.count {
            let byte = self.text[at]
            switch byte {
            case UInt8(ascii: "\""):
                at = try self.endOfString(at)
                continue
            case UInt8(ascii: "{"): closers.append(UInt8(ascii: "}"))
            case UInt8(ascii: "["): closers.append(UInt8(ascii: "]"))
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                guard byte == closers.last ?? closer else { throw JSONError(.expectedCommaOrEnd, at: at) }
                if closers.isEmpty { return at }
                closers.removeLast()
            case UInt8(ascii: ",") where closers.isEmpty: return at
            default: break
            }
            at += 1
        }
        throw JSONError(.truncated, at: self.text.count)
    }

    private func endOfString(_ start: Int) throws(JSONError) -> Int {
        var at = start + 1
        while at < self.text.count {
            switch self.text[at] {
            case UInt8(ascii: "\""): return at + 1
            case UInt8(ascii: "\\"): at += 2
            default: at += 1
            }
        }
        throw JSONError(.truncated, at: self.text.count)
    }
}
