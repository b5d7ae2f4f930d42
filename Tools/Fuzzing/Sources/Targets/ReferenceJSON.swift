/// JSON (RFC 8259) read the plain way: one function for each production, values as a tree.
///
/// It shares nothing with the module it judges. Text is UTF-8 with lone surrogates as U+FFFD; numbers stay text.
indirect enum ReferenceJSON: Equatable {
    case null
    case bool(Bool)
    case number(String)
    case string([UInt8])
    case array([ReferenceJSON])
    case object([Member])

    struct Member: Equatable {
        let key: [UInt8]
        let value: ReferenceJSON
    }

    /// `nil` when `bytes` are not one JSON value with white space around it, or have more than `depthMax` containers
    /// inside each other.
    init?(_ bytes: [UInt8], depthMax: Int = 64) {
        var reader = ReferenceReader(bytes: bytes)
        reader.skipSpace()
        guard let value = reader.value(depth: depthMax) else { return nil }
        reader.skipSpace()
        guard reader.position == bytes.count else { return nil }
        self = value
    }

    /// The first member of that name.
    subscript(name: String) -> ReferenceJSON? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.key.elementsEqual(name.utf8) }?.value
    }

    var text: String? {
        if case .string(let bytes) = self { String(decoding: bytes, as: UTF8.self) } else { nil }
    }

    var elements: [ReferenceJSON]? {
        if case .array(let elements) = self { elements } else { nil }
    }

    /// An integer as the protocol writes them: no sign, no fraction, at most 2^53 - 1.
    var integer: UInt64? {
        guard case .number(let text) = self, text.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), let value = UInt64(text),
            value < 1 << 53
        else { return nil }
        return value
    }
}

private struct ReferenceReader {
    let bytes: [UInt8]
    var position = 0

    init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    var next: UInt8? {
        self.position < self.bytes.count ? self.bytes[self.position] : nil
    }

    mutating func take(_ byte: Character) -> Bool {
        guard let next = self.next, next == byte.asciiValue else { return false }
        self.position += 1
        return true
    }

    mutating func skipSpace() {
        while let next = self.next, [0x20, 0x09, 0x0A, 0x0D].contains(next) { self.position += 1 }
    }

    mutating func value(depth: Int) -> ReferenceJSON? {
        switch self.next.map({ Character(Unicode.Scalar($0)) }) {
        case "{": return depth > 0 ? self.object(depth: depth - 1) : nil
        case "[": return depth > 0 ? self.array(depth: depth - 1) : nil
        case "\"": return self.string().map { .string($0) }
        case "t": return self.word("true") ? .bool(true) : nil
        case "f": return self.word("false") ? .bool(false) : nil
        case "n": return self.word("null") ? .null : nil
        default: return self.number().map { .number($0) }
        }
    }

    mutating func word(_ word: String) -> Bool {
        guard self.bytes[self.position...].starts(with: word.utf8) else { return false }
        self.position += word.utf8.count
        return true
    }

    mutating func object(depth: Int) -> ReferenceJSON? {
        self.position += 1
        var members: [ReferenceJSON.Member] = []
        self.skipSpace()
        if self.take("}") { return .object(members) }
        while true {
            self.skipSpace()
            guard self.next == 0x22, let key = self.string() else { return nil }
            self.skipSpace()
            guard self.take(":") else { return nil }
            self.skipSpace()
            guard let value = self.value(depth: depth) else { return nil }
            members.append(ReferenceJSON.Member(key: key, value: value))
            self.skipSpace()
            if self.take("}") { return .object(members) }
            guard self.take(",") else { return nil }
        }
    }

    mutating func array(depth: Int) -> ReferenceJSON? {
        self.position += 1
        var elements: [ReferenceJSON] = []
        self.skipSpace()
        if self.take("]") { return .array(elements) }
        while true {
            self.skipSpace()
            guard let value = self.value(depth: depth) else { return nil }
            elements.append(value)
            self.skipSpace()
            if self.take("]") { return .array(elements) }
            guard self.take(",") else { return nil }
        }
    }

    mutating func digits() -> Bool {
        let start = self.position
        while let next = self.next, 0x30...0x39 ~= next { self.position += 1 }
        return self.position > start
    }

    mutating func number() -> String? {
        let start = self.position
        _ = self.take("-")
        if !self.take("0"), !self.digits() { return nil }
        if self.take("."), !self.digits() { return nil }
        if self.take("e") || self.take("E") {
            if !self.take("+") { _ = self.take("-") }
            if !self.digits() { return nil }
        }
        return String(decoding: self.bytes[start..<self.position], as: UTF8.self)
    }

    mutating func unit() -> UInt32? {
        guard self.position + 4 <= self.bytes.count else { return nil }
        var value: UInt32 = 0
        for byte in self.bytes[self.position..<(self.position + 4)] {
            guard let digit = Character(Unicode.Scalar(byte)).hexDigitValue, byte < 0x80 else { return nil }
            value = value * 16 + UInt32(digit)
        }
        self.position += 4
        return value
    }

    mutating func string() -> [UInt8]? {
        self.position += 1
        var text: [UInt8] = []
        while let byte = self.next {
            self.position += 1
            switch byte {
            case 0x22: return String(validating: text, as: UTF8.self) == nil ? nil : text
            case 0..<0x20: return nil
            case 0x5C:
                guard let escape = self.next else { return nil }
                self.position += 1
                switch Character(Unicode.Scalar(escape)) {
                case "\"", "\\", "/": text.append(escape)
                case "b": text.append(8)
                case "f": text.append(12)
                case "n": text.append(10)
                case "r": text.append(13)
                case "t": text.append(9)
                case "u":
                    guard let scalar = self.escapedScalar() else { return nil }
                    text.append(contentsOf: Array(String(Character(scalar)).utf8))
                default: return nil
                }
            default:
                // A whole sequence at once, so that broken ones beside an escape do not join up.
                let start = text.count
                text.append(byte)
                if byte >= 0x80 {
                    while let more = self.next, more >= 0x80 {
                        text.append(more)
                        self.position += 1
                    }
                    if String(validating: text[start...], as: UTF8.self) == nil { return nil }
                }
            }
        }
        return nil
    }

    mutating func escapedScalar() -> Unicode.Scalar? {
        guard let high = self.unit() else { return nil }
        if 0xD800..<0xDC00 ~= high, self.bytes[self.position...].starts(with: "\\u".utf8) {
            let start = self.position
            self.position += 2
            guard let low = self.unit() else { return nil }
            if 0xDC00..<0xE000 ~= low { return Unicode.Scalar(0x10000 + (high - 0xD800) << 10 + (low - 0xDC00)) }
            self.position = start
        }
        return Unicode.Scalar(high) ?? "\u{FFFD}"
    }
}
