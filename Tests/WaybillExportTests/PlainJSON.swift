/// A small JSON reader of its own, so that records are not judged by the code that wrote them.
enum PlainJSON {
    case null
    case bool(Bool)
    case number(String)
    case string(String)
    case array([PlainJSON])
    case object([Member])

    struct Member {
        var key: String
        var value: PlainJSON
    }

    struct Malformed: Error {
        var offset: Int
    }

    init(_ text: String) throws {
        var reader = PlainJSONReader(bytes: Array(text.utf8))
        self = try reader.value()
        guard reader.at == reader.bytes.count else { throw Malformed(offset: reader.at) }
    }

    var members: [Member] {
        if case .object(let members) = self { members } else { [] }
    }

    var elements: [PlainJSON] {
        if case .array(let elements) = self { elements } else { [] }
    }

    var text: String? {
        if case .string(let text) = self { text } else { nil }
    }

    var number: String? {
        if case .number(let number) = self { number } else { nil }
    }

    subscript(key: String) -> PlainJSON? {
        self.members.first { $0.key == key }?.value
    }

    /// Containers inside each other.
    var depth: Int {
        switch self {
        case .null, .bool, .number, .string: 0
        case .array(let elements): 1 + (elements.map(\.depth).max() ?? 0)
        case .object(let members): 1 + (members.map(\.value.depth).max() ?? 0)
        }
    }
}

private struct PlainJSONReader {
    private static let escapes: [Character: UInt8] = [
        "\"": 0x22, "\\": 0x5C, "/": 0x2F, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9,
    ]

    let bytes: [UInt8]
    var at = 0

    init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    mutating func take(_ text: String) throws {
        guard self.bytes[self.at...].starts(with: text.utf8) else { throw PlainJSON.Malformed(offset: self.at) }
        self.at += text.utf8.count
    }

    func peek() throws -> Character {
        guard self.at < self.bytes.count else { throw PlainJSON.Malformed(offset: self.at) }
        return Character(Unicode.Scalar(self.bytes[self.at]))
    }

    mutating func value() throws -> PlainJSON {
        switch try self.peek() {
        case "{":
            return .object(
                try self.list("{", "}") { reader in
                    let key = try reader.string()
                    try reader.take(":")
                    return PlainJSON.Member(key: key, value: try reader.value())
                })
        case "[": return .array(try self.list("[", "]") { try $0.value() })
        case "\"": return .string(try self.string())
        case "t":
            try self.take("true")
            return .bool(true)
        case "f":
            try self.take("false")
            return .bool(false)
        case "n":
            try self.take("null")
            return .null
        default:
            let start = self.at
            while self.at < self.bytes.count, "+-.eE0123456789".utf8.contains(self.bytes[self.at]) { self.at += 1 }
            let number = String(decoding: self.bytes[start..<self.at], as: UTF8.self)
            guard Double(number) != nil else { throw PlainJSON.Malformed(offset: start) }
            return .number(number)
        }
    }

    private mutating func list<Element>(
        _ opener: String, _ closer: Character, _ element: (inout PlainJSONReader) throws -> Element
    ) throws -> [Element] {
        try self.take(opener)
        var elements: [Element] = []
        while try self.peek() != closer {
            if !elements.isEmpty { try self.take(",") }
            elements.append(try element(&self))
        }
        self.at += 1
        return elements
    }

    private mutating func string() throws -> String {
        try self.take("\"")
        var text: [UInt8] = []
        while self.at < self.bytes.count, self.bytes[self.at] != UInt8(ascii: "\"") {
            guard self.bytes[self.at] >= 0x20 else { throw PlainJSON.Malformed(offset: self.at) }
            guard self.bytes[self.at] == UInt8(ascii: "\\") else {
                text.append(self.bytes[self.at])
                self.at += 1
                continue
            }
            self.at += 1
            if let byte = Self.escapes[try self.peek()] {
                text.append(byte)
                self.at += 1
            } else {
                try self.take("u00")
                let digits = String(decoding: self.bytes[self.at..<(self.at + 2)], as: UTF8.self)
                guard let byte = UInt8(digits, radix: 16), byte < 0x20 else {
                    throw PlainJSON.Malformed(offset: self.at)
                }
                text.append(byte)
                self.at += 2
            }
        }
        try self.take("\"")
        guard let string = String(validating: text, as: UTF8.self) else { throw PlainJSON.Malformed(offset: self.at) }
        return string
    }
}
