import Testing
import WaybillProtocol
import WaybillSystem

/// The rules of `Protocol/protocol.md`, section 3, and of the lines that only journals have (`Protocol/formats/journal.md`).
///
/// ABNF of RFC 5234 and RFC 7405, as far as the two pages use it.
struct Grammar {
    indirect enum Form {
        case text([UInt8])
        case byte(ClosedRange<UInt8>)
        case rule(String)
        case sequence([Form])
        case choice([Form])
        case repeated(Form, ClosedRange<Int>)
        /// What the page says in words.
        case object
    }

    private var rules: [String: Form] = [:]
    /// The rule of each message, by its word.
    private(set) var messages: [String: Form] = [:]

    init() throws {
        for (page, section) in [("protocol.md", "3. Grammar"), ("formats/journal.md", "1. A segment")] {
            let text = try Vectors.section(section, of: page)
            for match in text.matches(of: Self.rule) {
                let tokens = match.2.replacing(/;[^\n]*/, with: "").matches(of: Self.token).map { String($0.0) }
                var rest = tokens[...]
                self.rules[String(match.1)] = Self.choice(&rest)
                try #require(rest.isEmpty, "\(match.1) has \(rest) left")
            }
        }
        for form in self.rules.values {
            guard case .sequence(let parts) = form, case .text(let word)? = parts.first else { continue }
            self.messages[String(decoding: word, as: UTF8.self)] = form
        }
    }

    /// A name and its form in ABNF; a line that begins with `/` continues the one before.
    private static var rule: Regex<(Substring, Substring, Substring)> {
        /\n {4,6}([a-zA-Z][a-zA-Z0-9-]*) += +([%"<*1-9a-zA-Z(][^\n]*(?:\n +\/ [^\n]*)*)/
    }

    private static var token: Regex<Substring> {
        /%s"[^"]*"|"[^"]*"|%x[0-9A-F]+(?:-[0-9A-F]+)?|<[^>]*>|[\[\]()\/]|\d*\*\d*|\d+|[a-zA-Z][a-zA-Z0-9-]*/
    }

    private static func choice(_ tokens: inout ArraySlice<String>) -> Form {
        var forms: [Form] = []
        repeat {
            if tokens.first == "/" { tokens.removeFirst() }
            var parts: [Form] = []
            while let token = tokens.first, !["/", ")", "]"].contains(token) { parts.append(Self.part(&tokens)) }
            forms.append(parts.count == 1 ? parts[0] : .sequence(parts))
        } while tokens.first == "/"
        return forms.count == 1 ? forms[0] : .choice(forms)
    }

    private static func part(_ tokens: inout ArraySlice<String>) -> Form {
        let token = tokens.removeFirst()
        if let counts = token.wholeMatch(of: /(\d*)(\*?)(\d*)/) {
            let least = Int(counts.1) ?? 0
            return .repeated(Self.part(&tokens), least...(counts.2.isEmpty ? least : Int(counts.3) ?? 4096))
        }
        switch token.first {
        case "(", "[":
            let form = Self.choice(&tokens)
            tokens.removeFirst()
            return token == "[" ? .repeated(form, 0...1) : form
        case "\"": return .text(Array(token.utf8.dropFirst().dropLast()))
        case "<": return .object
        case "%" where token.hasPrefix("%s"): return .text(Array(token.utf8.dropFirst(3).dropLast()))
        case "%":
            let bounds = token.dropFirst(2).split(separator: "-").compactMap { UInt8($0, radix: 16) }
            return .byte(bounds[0]...bounds[bounds.count - 1])
        default: return .rule(token)
        }
    }

    /// Whether a line, with its LF, is what the rule of its word allows.
    func allows(_ line: [UInt8]) -> Bool {
        let word = String(decoding: line.prefix { $0 > 0x20 }, as: UTF8.self)
        return self.messages[word].map { self.ends($0, in: line, from: [0]).contains(line.count) } ?? false
    }

    /// Where a form that begins at one of these positions can end.
    private func ends(_ form: Form, in line: [UInt8], from starts: Set<Int>) -> Set<Int> {
        switch form {
        case .text(let text): return Set(starts.filter { line[$0...].starts(with: text) }.map { $0 + text.count })
        case .byte(let range): return Set(starts.filter { $0 < line.count && range ~= line[$0] }.map { $0 + 1 })
        case .rule(let name): return self.rules[name].map { self.ends($0, in: line, from: starts) } ?? []
        case .sequence(let parts): return parts.reduce(starts) { self.ends($1, in: line, from: $0) }
        case .choice(let forms): return Set(forms.flatMap { self.ends($0, in: line, from: starts) })
        case .repeated(let part, let counts):
            var (all, last) = (counts.contains(0) ? starts : [], starts)
            for count in 1...counts.upperBound where !last.isEmpty {
                last = self.ends(part, in: line, from: last)
                if counts.contains(count) { all.formUnion(last) }
            }
            return all
        case .object:
            return Set(starts.filter { $0 < line.count && line[$0] == UInt8(ascii: "{") }.map { _ in line.count - 1 })
        }
    }

    /// One of the lines that a form allows; at most 20 of what may be repeated.
    func sample(_ form: Form, _ random: inout SeededGenerator) throws -> [UInt8] {
        switch form {
        case .text(let text): return text
        case .byte(let range): return [UInt8.random(in: range, using: &random)]
        case .rule("payload"): return []
        case .rule(let name): return try self.sample(try #require(self.rules[name], "no rule \(name)"), &random)
        case .sequence(let parts): return try parts.flatMap { try self.sample($0, &random) }
        case .choice(let forms): return try self.sample(try #require(forms.randomElement(using: &random)), &random)
        case .repeated(let part, let counts):
            let most = max(counts.lowerBound, min(counts.upperBound, 20))
            return try (0..<Int.random(in: counts.lowerBound...most, using: &random))
                .flatMap { _ in try self.sample(part, &random) }
        case .object: return Array("{}".utf8)
        }
    }
}
