internal import WaybillSystem

/// A small XML text of a store: elements and their text.
///
/// Constraints:
/// - The answer comes from whatever the endpoint names, so it is hostile: a document type (and with it every entity but the
///   five of XML), more than 16 levels or ``elementCountMax`` elements, and anything malformed end with `nil`.
/// - Attributes, comments and instructions are skipped; prefixes of names are cut off.
struct XMLElement: Hashable {
    let name: String
    var text = ""
    var children: [XMLElement] = []

    /// A listing has 1000 objects with about 6 elements each.
    private static let elementCountMax = 20_000
    private static let depthMax = 16

    func first(_ name: String) -> XMLElement? { self.children.first { $0.name == name } }

    /// The text of the first child of that name.
    func text(of name: String) -> String? { self.first(name)?.text }

    /// - Returns: the root; `nil` for what is not such a text.
    static func parse(_ bytes: [UInt8]) -> XMLElement? {
        guard String(validating: bytes, as: UTF8.self) != nil else { return nil }
        var reader = XMLReader(bytes: bytes)
        var open: [XMLElement] = []
        var elementCount = 0
        while let token = reader.next() {
            switch token {
            case .text(let text):
                if open.isEmpty {
                    guard text.allSatisfy(\.isWhitespace) else { return nil }
                } else {
                    open[open.count - 1].text += text
                }
            case .start(let name, let isEmpty):
                elementCount += 1
                guard elementCount <= Self.elementCountMax, open.count < Self.depthMax else { return nil }
                open.append(XMLElement(name: name))
                if isEmpty, let root = Self.close(&open) { return reader.isAtEnd ? root : nil }
            case .end(let name):
                guard open.last?.name == name else { return nil }
                if let root = Self.close(&open) { return reader.isAtEnd ? root : nil }
            }
        }
        return nil
    }

    /// Moves the innermost element into the one around it; returns it if there is none.
    private static func close(_ open: inout [XMLElement]) -> XMLElement? {
        let element = open.removeLast()
        guard !open.isEmpty else { return element }
        open[open.count - 1].children.append(element)
        return nil
    }
}

private struct XMLReader {
    enum Token {
        case text(String)
        case start(String, isEmpty: Bool)
        case end(String)
    }

    private let bytes: [UInt8]
    private var position = 0

    init(bytes: [UInt8]) {
        self.bytes = bytes
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { self.position = 3 }
    }

    /// Whether only white space follows.
    var isAtEnd: Bool { self.bytes[self.position...].allSatisfy { [0x20, 0x09, 0x0A, 0x0D].contains($0) } }

    /// `nil` at the end, and at what is malformed.
    mutating func next() -> Token? {
        while self.position < self.bytes.count {
            guard self.bytes[self.position] == UInt8(ascii: "<") else { return self.text() }
            if self.skip("<!--", until: "-->") || self.skip("<?", until: "?>") { continue }
            if let section = self.section() { return .text(section) }
            return self.tag()
        }
        return nil
    }

    private mutating func text() -> Token? {
        let end = self.bytes[self.position...].firstIndex(of: UInt8(ascii: "<")) ?? self.bytes.count
        let text = Self.unescaped(self.bytes[self.position..<end])
        self.position = end
        return text.map(Token.text)
    }

    private func hasPrefix(_ text: StaticString) -> Bool {
        let wanted = UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
        return self.bytes[self.position...].starts(with: wanted)
    }

    private func find(_ text: StaticString, from start: Int) -> Int? {
        let wanted = UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
        guard start + wanted.count <= self.bytes.count else { return nil }
        return (start...(self.bytes.count - wanted.count)).first { self.bytes[$0...].starts(with: wanted) }
    }

    private mutating func skip(_ opening: StaticString, until closing: StaticString) -> Bool {
        guard self.hasPrefix(opening), let end = self.find(closing, from: self.position + opening.utf8CodeUnitCount)
        else { return false }
        self.position = end + closing.utf8CodeUnitCount
        return true
    }

    private mutating func section() -> String? {
        let opening: StaticString = "<![CDATA["
        guard self.hasPrefix(opening) else { return nil }
        let start = self.position + opening.utf8CodeUnitCount
        guard let end = self.find("]]>", from: start) else { return nil }
        self.position = end + 3
        return String(decoding: self.bytes[start..<end], as: UTF8.self)
    }

    private mutating func tag() -> Token? {
        var end = self.position + 1
        var quote: UInt8?
        while end < self.bytes.count {
            let byte = self.bytes[end]
            if let open = quote {
                if byte == open { quote = nil }
            } else if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
                quote = byte
            } else if byte == UInt8(ascii: ">") {
                break
            }
            end += 1
        }
        guard end < self.bytes.count else { return nil }
        var inside = self.bytes[(self.position + 1)..<end]
        self.position = end + 1
        let isEnd = inside.first == UInt8(ascii: "/")
        if isEnd { inside = inside.dropFirst() }
        let isEmpty = inside.last == UInt8(ascii: "/")
        if isEmpty { inside = inside.dropLast() }
        let name = inside.prefix { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
        // Also refuses "<!DOCTYPE", and with it every declared entity.
        guard !name.isEmpty, name.allSatisfy({ $0.isNameByte || $0 == UInt8(ascii: ":") }), !(isEnd && isEmpty) else {
            return nil
        }
        let local = name.split(separator: UInt8(ascii: ":")).last ?? []
        let text = String(decoding: local, as: UTF8.self)
        return isEnd ? .end(text) : .start(text, isEmpty: isEmpty)
    }

    private static let entities: [String: UInt8] = ["lt": 0x3C, "gt": 0x3E, "amp": 0x26, "quot": 0x22, "apos": 0x27]

    /// `nil` for an entity that XML itself does not know.
    private static func unescaped(_ bytes: ArraySlice<UInt8>) -> String? {
        guard bytes.contains(UInt8(ascii: "&")) else { return String(decoding: bytes, as: UTF8.self) }
        var text: [UInt8] = []
        var rest = bytes
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "&") else {
                text.append(byte)
                continue
            }
            guard let end = rest.prefix(12).firstIndex(of: UInt8(ascii: ";")) else { return nil }
            let name = String(decoding: rest[..<end], as: UTF8.self)
            rest = rest[(end + 1)...]
            if let entity = Self.entities[name] {
                text.append(entity)
            } else if name.hasPrefix("#") {
                let digits = name.dropFirst()
                let number =
                    digits.first == "x" ? UInt32(digits.dropFirst(), radix: 16) : UInt32(digits, radix: 10)
                guard let number, number != 0, let scalar = Unicode.Scalar(number) else { return nil }
                text.append(contentsOf: String(Character(scalar)).utf8)
            } else {
                return nil
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}
