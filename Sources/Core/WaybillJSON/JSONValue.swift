/// One value of a JSON text, for what is read seldom: manifests, messages, answers.
///
///     guard let json = JSONValue(bytes), let lines = json["lines"]?.count else { return nil }
///
/// It owns its text. Events are read from a ``JSONTape``, which allocates nothing for each of them.
package struct JSONValue {
    /// A text and the tape that points into it.
    private final class Document {
        private let text: UnsafeMutableRawBufferPointer
        private(set) var tape = JSONTape()

        init(_ bytes: UnsafeRawBufferPointer) throws(JSONError) {
            self.text = .allocate(byteCount: bytes.count, alignment: 1)
            self.text.copyMemory(from: bytes)
            try self.tape.parse(UnsafeRawBufferPointer(self.text))
        }

        deinit {
            self.text.deallocate()
        }
    }

    private let document: Document
    private let index: Int

    private init(_ document: Document, _ index: Int) {
        self.document = document
        self.index = index
    }

    /// Reads one JSON object.
    package init(parsing bytes: UnsafeRawBufferPointer) throws(JSONError) {
        self.init(try Document(bytes), 0)
    }

    /// Reads one JSON object; `nil` for anything else.
    package init?(_ bytes: [UInt8]) {
        do throws(JSONError) {
            self = try bytes.withUnsafeBufferPointer { (buffer) throws(JSONError) in
                try JSONValue(parsing: UnsafeRawBufferPointer(buffer))
            }
        } catch {
            return nil
        }
    }

    package var kind: JSONKind { self.document.tape[self.index].kind }

    /// Where it stands in the text; a string without its quotes.
    package var range: Range<Int> {
        let entry = self.document.tape[self.index]
        return Int(entry.start)..<Int(entry.end)
    }

    /// As it stands in the text: a string without its quotes, its escapes as they are.
    package var literal: String { String(decoding: self.document.tape.bytes(of: self.index), as: UTF8.self) }

    /// The value of an object's first member of that name.
    package subscript(name: StaticString) -> JSONValue? {
        self.document.tape.firstValue(of: name, in: self.index).map { JSONValue(self.document, $0) }
    }

    /// An object's members, in order.
    package var members: [(name: String, value: JSONValue)]? {
        self.keyedMembers?.map { ($0.name, $0.value) }
    }

    /// An object's members in order, each with the position of its name, after the quote.
    package var keyedMembers: [(name: String, position: Int, value: JSONValue)]? {
        guard self.kind == .object else { return nil }
        var members: [(name: String, position: Int, value: JSONValue)] = []
        var walk = self.document.tape.members(of: self.index)
        while let (key, value) = walk.next(in: self.document.tape) {
            let name = JSONText.string(self.document.tape.bytes(of: key))
            members.append((name, Int(self.document.tape[key].start), JSONValue(self.document, value)))
        }
        return members
    }

    /// An array's elements, in order.
    package var elements: [JSONValue]? {
        guard self.kind == .array else { return nil }
        var elements: [JSONValue] = []
        var index = self.index + 1
        while index < Int(self.document.tape[self.index].next) {
            elements.append(JSONValue(self.document, index))
            index = Int(self.document.tape[index].next)
        }
        return elements
    }

    /// The text of a string.
    package var string: String? {
        self.kind == .string ? JSONText.string(self.document.tape.bytes(of: self.index)) : nil
    }

    /// A whole number that fits.
    package var integer: Int? {
        self.kind == .number ? Int(self.literal) : nil
    }

    /// A whole number from 0 to 2^53 - 1, without a sign.
    package var count: Int? {
        guard let value = self.integer, (0..<(1 << 53)).contains(value), !self.literal.hasPrefix("-") else {
            return nil
        }
        return value
    }

    /// An object of counts, by name.
    package var counts: [String: Int]? {
        guard let members = self.members else { return nil }
        var counts: [String: Int] = [:]
        for (name, value) in members {
            guard let count = value.count else { return nil }
            counts[name] = count
        }
        return counts
    }

    package var bool: Bool? {
        switch self.kind {
        case .true: true
        case .false: false
        case .null, .number, .string, .array, .object: nil
        }
    }
}

/// Reads an array of values that must all be good.
extension Array where Element == JSONValue {
    /// What `read` makes of each; `nil` where it is `nil` for one.
    package func all<Value>(_ read: (JSONValue) -> Value?) -> [Value]? {
        let values = self.compactMap(read)
        return values.count == self.count ? values : nil
    }
}
