/// A file of the repository: where it is, and its text.
struct SourceFile: Sendable {
    let path: String
    let text: String
    /// The text, split, of a file of Swift.
    let swift: SwiftText

    init(path: String, text: String) {
        self.path = path
        self.text = text
        self.swift = SwiftText(path.hasSuffix(".swift") ? text : "")
    }
}

/// What breaks a rule, and what to write instead.
struct Finding: Hashable, Sendable {
    /// Counted from 1; 0 where it is about a whole file or target.
    let line: Int
    let text: String
}

/// Swift source, split into code, comments and the text of literals.
///
/// Strings of each form, interpolations, nested comments, extended regular expressions and raw identifiers are told
/// apart. A bare `/…/` is read as divisions; the sources write `#/…/#`.
struct SwiftText: Sendable {
    enum Kind: UInt8 {
        case code, comment, literal
    }

    /// A word or a single character of code.
    struct Token: Sendable {
        let text: String
        let offset: Int
        let line: Int

        var end: Int { self.offset + self.text.utf8.count }
    }

    let bytes: [UInt8]
    let kinds: [Kind]
    let tokens: [Token]
    /// Where each line begins, and the end of the text.
    let lineStarts: [Int]

    init(_ text: String) {
        var lexer = SwiftLexer(Array(text.utf8))
        lexer.scanCode(isInterpolation: false)
        self.bytes = lexer.bytes
        self.kinds = lexer.kinds
        self.lineStarts =
            [0] + self.bytes.indices.filter { lexer.bytes[$0] == UInt8(ascii: "\n") }.map { $0 + 1 }
            + [self.bytes.count]
        self.tokens = Self.tokens(lexer.bytes, lexer.kinds)
    }

    var lineCount: Int {
        self.bytes.isEmpty ? 0 : self.lineStarts.count - (self.bytes.last == UInt8(ascii: "\n") ? 2 : 1)
    }

    /// What stands on line `number`, counted from 1, as far as it is of one of `kinds`; the rest is blank.
    func line(_ number: Int, _ kinds: Set<Kind>) -> String {
        guard number >= 1, number < self.lineStarts.count else { return "" }
        let range = self.lineStarts[number - 1]..<self.lineStarts[number]
        let text = range.map { kinds.contains(self.kinds[$0]) ? self.bytes[$0] : UInt8(ascii: " ") }
        return String(decoding: text, as: UTF8.self).trimmed
    }

    private static func tokens(_ bytes: [UInt8], _ kinds: [Kind]) -> [Token] {
        var tokens: [Token] = []
        var (index, line) = (0, 1)
        while index < bytes.count {
            let start = index
            index += 1
            if bytes[start] == UInt8(ascii: "\n") { line += 1 }
            guard kinds[start] == .code, !bytes[start].isSpace else { continue }
            if bytes[start].isOfWord {
                while index < bytes.count, kinds[index] == .code, bytes[index].isOfWord { index += 1 }
            }
            tokens.append(Token(text: String(decoding: bytes[start..<index], as: UTF8.self), offset: start, line: line))
        }
        return tokens
    }
}

/// Finds the kind of each byte.
struct SwiftLexer {
    let bytes: [UInt8]
    private(set) var kinds: [SwiftText.Kind]
    private var index = 0

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        self.kinds = Array(repeating: .code, count: bytes.count)
    }

    /// Reads code up to the end, or up to the parenthesis that ends an interpolation.
    mutating func scanCode(isInterpolation: Bool) {
        var depth = 0
        while self.index < self.bytes.count {
            switch self.bytes[self.index] {
            case UInt8(ascii: "/") where self.has("//"):
                self.take(.comment, upTo: "\n")
            case UInt8(ascii: "/") where self.has("/*"):
                self.scanBlockComment()
            case UInt8(ascii: "`"):
                self.take(.literal, count: 1)
                self.take(.literal, upTo: "`")
                self.take(.literal, count: 1)
            case UInt8(ascii: "\""), UInt8(ascii: "#"):
                self.scanLiteral()
            case UInt8(ascii: ")") where depth == 0 && isInterpolation:
                return
            case let byte:
                if byte == UInt8(ascii: "(") { depth += 1 }
                if byte == UInt8(ascii: ")") { depth -= 1 }
                self.index += 1
            }
        }
    }

    private mutating func scanBlockComment() {
        var depth = 0
        repeat {
            if self.has("/*") {
                depth += 1
                self.take(.comment, count: 2)
            } else if self.has("*/") {
                depth -= 1
                self.take(.comment, count: 2)
            } else {
                self.take(.comment, count: 1)
            }
        } while depth > 0 && self.index < self.bytes.count
    }

    /// Reads a string or an extended regular expression, or a `#` that begins neither.
    private mutating func scanLiteral() {
        var hashes = ""
        while self.has(hashes + "#") { hashes += "#" }
        if !hashes.isEmpty, self.has(hashes + "/") {
            self.take(.literal, count: hashes.utf8.count + 1)
            self.take(.literal, upTo: "/" + hashes)
            self.take(.literal, count: hashes.utf8.count + 1)
        } else if self.has(hashes + "\"\"\"\n") {
            self.take(.literal, count: hashes.utf8.count + 3)
            self.scanString(upTo: "\"\"\"" + hashes, escape: "\\" + hashes, isOneLine: false)
        } else if self.has(hashes + "\"") {
            self.take(.literal, count: hashes.utf8.count + 1)
            self.scanString(upTo: "\"" + hashes, escape: "\\" + hashes, isOneLine: true)
        } else {
            self.index += hashes.utf8.count
        }
    }

    private mutating func scanString(upTo end: String, escape: String, isOneLine: Bool) {
        while self.index < self.bytes.count {
            if self.has(end) { return self.take(.literal, count: end.utf8.count) }
            if isOneLine, self.has("\n") { return }
            if self.has(escape + "(") {
                self.take(.literal, count: escape.utf8.count + 1)
                self.scanCode(isInterpolation: true)
                self.take(.literal, count: 1)
            } else {
                self.take(.literal, count: self.has(escape) ? escape.utf8.count + 1 : 1)
            }
        }
    }

    private func has(_ text: String) -> Bool {
        self.bytes[self.index...].starts(with: text.utf8)
    }

    private mutating func take(_ kind: SwiftText.Kind, count: Int) {
        let end = min(self.bytes.count, self.index + count)
        while self.index < end {
            self.kinds[self.index] = kind
            self.index += 1
        }
    }

    private mutating func take(_ kind: SwiftText.Kind, upTo end: String) {
        while self.index < self.bytes.count, !self.has(end) { self.take(kind, count: 1) }
    }
}

extension UInt8 {
    var isSpace: Bool {
        self == 0x20 || self == 0x0A || self == 0x09 || self == 0x0D
    }

    /// Letters, digits, `_`, and whatever is not ASCII.
    var isOfWord: Bool {
        switch self {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), 0x80...: true
        default: false
        }
    }
}

extension String {
    /// Without the white space at both ends.
    var trimmed: String {
        String(decoding: self.utf8.drop { $0.isSpace }.reversed().drop { $0.isSpace }.reversed(), as: UTF8.self)
    }
}
