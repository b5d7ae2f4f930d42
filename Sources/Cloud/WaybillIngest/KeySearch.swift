/// Finds the key that a body names, without reading its events.
///
///     {"batch":[{"event":…,"properties":{…,"token":KEY}},…],"sent_at":…,"api_key":KEY}
///
/// A body comes from anyone until its key is known. So it is looked through as bytes, by its brackets, quotes and the names of
/// members, and nothing is kept of it: one pass, in which each event that is broken is passed twice. It ends at the body's own
/// key, and at the first key that is not known. Whether another own key follows is known to who reads the body
/// (``IngestBody/hasSeveralKeys``).
///
/// A key is the body's own `writeKey`, `api_key` or `token`; where it has none of them, it is the `api_key`, the `token` or the
/// `properties.token` of its events. Only in such a body is a property called token a key: backends have fields of that name.
package struct KeySearch {
    package enum Finding: Hashable, Sendable {
        case known(String)
        case unknown
        /// Events with keys that differ.
        case several
        case noKey
        /// None, and brackets or quotes do not match: no event could be told from another.
        case unreadable
    }

    private enum End: Error {
        case known(String)
        case unknown
        case several
        case unreadable
    }

    /// What an object is, whose members are looked at.
    private enum Place {
        case body
        case event
        case properties
    }

    private let body: [UInt8]
    private let isKnown: (String) -> Bool
    private var position = 0
    /// The first key of an event, and whether another event has another one.
    private var ofEvents: Range<Int>?
    private var areEventsSeveral = false
    /// The keys of the event that is looked at.
    private var ofEvent: Range<Int>?
    private var ofProperties: Range<Int>?

    private init(_ body: [UInt8], _ isKnown: @escaping (String) -> Bool) {
        self.body = body
        self.isKnown = isKnown
    }

    /// - Parameter body: inflated and unwrapped.
    package static func find(in body: [UInt8], isKnown: @escaping (String) -> Bool) -> Finding {
        var search = KeySearch(body, isKnown)
        return search.find()
    }

    private mutating func find() -> Finding {
        do throws(End) {
            try self.searchBody()
        } catch {
            switch error {
            case .known(let key): return .known(key)
            case .unknown: return .unknown
            case .several: return .several
            // What stands behind a key may be broken: that is judged by who reads the events.
            case .unreadable: if self.ofEvents == nil { return .unreadable }
            }
        }
        if self.areEventsSeveral { return .several }
        guard let key = self.ofEvents else { return .noKey }
        let text = self.text(key)
        return self.isKnown(text) ? .known(text) : .unknown
    }

    private func text(_ range: Range<Int>) -> String { String(decoding: self.body[range], as: UTF8.self) }

    private mutating func searchBody() throws(End) {
        if self.body.starts(with: [0xEF, 0xBB, 0xBF]) { self.position = 3 }
        switch try self.next() {
        case UInt8(ascii: "{"):
            try self.searchObject(.body)
            self.takeEvent()
        case UInt8(ascii: "["): try self.searchList(isBody: true)
        default: throw .unreadable
        }
        while self.position < self.body.count {
            guard self.body[self.position].isBlank else { throw .unreadable }
            self.position += 1
        }
    }

    /// Looks at the events of a list, and ends behind it.
    private mutating func searchList(isBody: Bool) throws(End) {
        self.position += 1
        while true {
            let start = self.position
            do throws(End) {
                if try self.next() == UInt8(ascii: "{") { try self.searchObject(.event) }
            } catch {
                guard case .unreadable = error else { throw error }
                // A broken event ends where its brackets say so.
                self.position = start
                (self.ofEvent, self.ofProperties) = (nil, nil)
            }
            self.takeEvent()
            // No key of the body comes.
            if isBody {
                if self.areEventsSeveral { throw .several }
                if let key = self.ofEvents, !self.isKnown(self.text(key)) { throw .unknown }
            }
            try self.skipValue()
            let end = self.body[self.position]
            self.position += 1
            if end == UInt8(ascii: "]") { return }
            guard end == UInt8(ascii: ",") else { throw .unreadable }
        }
    }

    /// Looks at the members of an object, and ends behind it.
    private mutating func searchObject(_ place: Place) throws(End) {
        self.position += 1
        if try self.next() == UInt8(ascii: "}") {
            self.position += 1
            return
        }
        while true {
            guard try self.next() == UInt8(ascii: "\"") else { throw .unreadable }
            let name = try self.string()
            guard try self.next() == UInt8(ascii: ":") else { throw .unreadable }
            self.position += 1
            try self.searchMember(name, of: place)
            try self.skipValue()
            let end = self.body[self.position]
            self.position += 1
            if end == UInt8(ascii: "}") { return }
            guard end == UInt8(ascii: ",") else { throw .unreadable }
        }
    }

    private mutating func searchMember(_ name: Range<Int>, of place: Place) throws(End) {
        let first = try self.next()
        switch (place, first) {
        case (.body, UInt8(ascii: "\""))
        where self.isName(name, "writeKey") || self.isName(name, "api_key") || self.isName(name, "token"):
            guard let key = try self.key() else { return }
            let text = self.text(key)
            throw self.isKnown(text) ? .known(text) : .unknown
        case (.body, UInt8(ascii: "[")) where self.isName(name, "batch") || self.isName(name, "data"):
            try self.searchList(isBody: false)
        case (.event, UInt8(ascii: "\"")) where self.isName(name, "api_key") || self.isName(name, "token"):
            guard let key = try self.key() else { return }
            if let ofEvent, self.body[ofEvent] != self.body[key] { self.areEventsSeveral = true }
            self.ofEvent = key
        case (.properties, UInt8(ascii: "\"")) where self.isName(name, "token"):
            if let key = try self.key() { self.ofProperties = key }
        // A body without a list is an event itself.
        case (.body, UInt8(ascii: "{")) where self.isName(name, "properties"),
            (.event, UInt8(ascii: "{")) where self.isName(name, "properties"):
            try self.searchObject(.properties)
        default: break
        }
    }

    /// Takes the key of the event that ends here.
    private mutating func takeEvent() {
        defer { (self.ofEvent, self.ofProperties) = (nil, nil) }
        guard let key = self.ofEvent ?? self.ofProperties else { return }
        if let first = self.ofEvents {
            if self.body[first] != self.body[key] { self.areEventsSeveral = true }
        } else {
            self.ofEvents = key
        }
    }

    private func isName(_ range: Range<Int>, _ name: StaticString) -> Bool {
        name.utf8CodeUnitCount == range.count && name.withUTF8Buffer { self.body[range].elementsEqual($0) }
    }

    // MARK: Bytes

    /// The next byte that is not blank; the position is at it.
    private mutating func next() throws(End) -> UInt8 {
        while self.position < self.body.count {
            let byte = self.body[self.position]
            if !byte.isBlank { return byte }
            self.position += 1
        }
        throw .unreadable
    }

    /// A text that is a key, from its quote on; `nil` if it is empty.
    private mutating func key() throws(End) -> Range<Int>? {
        let text = try self.string()
        return text.isEmpty ? nil : text
    }

    /// What stands between two quotes; ends behind them.
    private mutating func string() throws(End) -> Range<Int> {
        let start = self.position + 1
        guard let end = Self.endOfString(in: self.body, from: start) else { throw .unreadable }
        self.position = end
        return start..<(end - 1)
    }

    /// Advances to the comma or the bracket after a value.
    private mutating func skipValue() throws(End) {
        guard let end = Self.endOfValue(in: self.body, from: self.position) else { throw .unreadable }
        self.position = end
    }

    /// After the quote that ends a string; `nil`: none does.
    @inline(__always)
    private static func endOfString(in body: [UInt8], from start: Int) -> Int? {
        let bytes = body.span.bytes
        var at = start
        while at < body.count {
            if at + 8 <= body.count {
                let marks = Self.marks(bytes.unsafeLoadUnaligned(fromByteOffset: at, as: UInt64.self))
                if marks == 0 {
                    at += 8
                    continue
                }
                at += marks.trailingZeroBitCount / 8
            }
            let byte = body[at]
            at += 1
            if byte == UInt8(ascii: "\"") { return at }
            if byte == UInt8(ascii: "\\") { at += 1 }
        }
        return nil
    }

    /// The quotes and backslashes of a word; only the lowest mark is exact (`JSONLexer.marks`).
    @inline(__always)
    private static func marks(_ loaded: UInt64) -> UInt64 {
        let word = UInt64(littleEndian: loaded)
        let (quote, backslash) = (word ^ 0x2222_2222_2222_2222, word ^ 0x5C5C_5C5C_5C5C_5C5C)
        let ones: UInt64 = 0x0101_0101_0101_0101
        return ((quote &- ones) & ~quote | (backslash &- ones) & ~backslash) & 0x8080_8080_8080_8080
    }

    /// Takes no `self`, so that position and depth stay in registers.
    private static func endOfValue(in body: [UInt8], from start: Int) -> Int? {
        var (at, depth) = (start, 0)
        while at < body.count {
            switch body[at] {
            case UInt8(ascii: "\""):
                guard let end = Self.endOfString(in: body, from: at + 1) else { return nil }
                at = end
                continue
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                if depth == 0 { return at }
                depth -= 1
            case UInt8(ascii: ","): if depth == 0 { return at }
            default: break
            }
            at += 1
        }
        return nil
    }
}
