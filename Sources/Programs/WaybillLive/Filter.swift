internal import WaybillExport

/// Which events are shown, in words that are and-ed.
///
///     name:tapped user:u-7 data.method:kakao -kind:screen refused:ga4 "free words"
///
/// Letters are compared without their case, and `-` negates a word. `*` as a value means that the event has the member.
package struct Filter: Sendable, Equatable {
    /// Why a text is not a filter, and where.
    package struct Failure: Error, Hashable, CustomStringConvertible {
        /// Counted in characters, from 0.
        package let position: Int
        package let text: String

        package var description: String { "filter, character \(self.position + 1): \(self.text)" }
    }

    /// What a word looks at.
    enum Subject: Hashable, Sendable {
        case name, user, anon, screen, prev, kind, env, app, version, session, id, stream, via
        /// `data.x`, `traits.x`, `ids.x`.
        case member([String])
        case refused, reason
        /// Any text of the event.
        case anything
    }

    struct Word: Hashable, Sendable {
        let subject: Subject
        let isNegated: Bool
        let needle: Needle

        /// Whether it needs to know what the providers make of the event.
        var needsOutcomes: Bool { self.subject == .refused || self.subject == .reason }
    }

    package static let byteCountMax = 1000
    package static let wordCountMax = 32

    let words: [Word]

    /// Whether the words depend on what the providers make of the event.
    package var needsOutcomes: Bool { self.words.contains(where: \.needsOutcomes) }
    package var isEmpty: Bool { self.words.isEmpty }

    package static let everything = Filter(words: [])

    private init(words: [Word]) {
        self.words = words
    }

    /// Reads a filter; an empty text selects everything.
    package init(_ text: String) throws(Failure) {
        guard text.utf8.count <= Self.byteCountMax else {
            throw Failure(position: 0, text: "it has more than \(Self.byteCountMax) bytes; shorten it")
        }
        var reader = WordReader(text)
        var words: [Word] = []
        while let word = try reader.next() {
            guard words.count < Self.wordCountMax else {
                throw Failure(
                    position: reader.start, text: "there are more than \(Self.wordCountMax) words; leave some out")
            }
            words.append(word)
        }
        self.init(words: words)
    }

    /// - Parameter outcomes: the providers that refuse the event, with their reasons; called only if they matter.
    package func matches(
        _ line: borrowing ShownLine, refusals: () -> [(provider: String, reason: String)]
    ) -> Bool {
        // What providers make of it costs most.
        for word in self.words where !word.needsOutcomes {
            if Self.matches(word, line) == word.isNegated { return false }
        }
        guard self.needsOutcomes else { return true }
        let refusals = refusals()
        for word in self.words where word.needsOutcomes {
            let isMatch = refusals.contains {
                word.needle.isAny
                    || (word.subject == .refused ? word.needle.equals($0.provider) : word.needle.isPart(of: $0.reason))
            }
            if isMatch == word.isNegated { return false }
        }
        return true
    }

    private static func matches(_ word: Word, _ line: borrowing ShownLine) -> Bool {
        let needle = word.needle
        switch word.subject {
        case .name: return needle.isAny || needle.isPart(of: line.name)
        case .app: return needle.isAny || needle.isPart(of: line.app)
        case .kind: return needle.isAny || needle.equals(line.kind)
        case .env: return needle.isAny || needle.equals(line.env)
        case .stream: return needle.isAny || needle.isPart(of: line.source.stream?.id ?? "")
        case .user: return Self.has(line.user) { needle.equals($0) || needle.isAny }
        case .anon: return Self.has(line.anon) { needle.equals($0) || needle.isAny }
        case .via: return Self.has(line.text("via")) { needle.equals($0) || needle.isAny }
        case .session: return Self.has(line.text("session")) { needle.equals($0) || needle.isAny }
        case .id: return Self.has(line.text("id")) { needle.equals($0) || needle.isAny }
        case .screen: return Self.has(line.text("screen")) { needle.isPart(of: $0) || needle.isAny }
        case .prev: return Self.has(line.text("prev")) { needle.isPart(of: $0) || needle.isAny }
        case .version: return Self.has(line.text("app")) { needle.isVersion(of: $0) || needle.isAny }
        case .member(let path): return Self.has(line.value(at: path)) { needle.isPart(of: $0) || needle.isAny }
        case .anything: return line.hasText { needle.isPart(ofBody: $0, hasEscapes: $1) }
        case .refused, .reason: return true
        }
    }

    private static func has(_ text: String?, _ matches: (String) -> Bool) -> Bool {
        text.map(matches) ?? false
    }
}

extension Filter.Subject {
    /// The words before a colon, for help and errors.
    static let keys = [
        "name", "user", "anon", "screen", "prev", "kind", "env", "app", "version", "session", "id", "stream", "via",
        "data.FIELD", "traits.FIELD", "ids.NAME", "refused", "reason",
    ]

    private static let named: [String: Self] = [
        "name": .name, "user": .user, "anon": .anon, "screen": .screen, "prev": .prev, "kind": .kind, "env": .env,
        "app": .app, "version": .version, "session": .session, "id": .id, "stream": .stream, "via": .via,
        "refused": .refused, "reason": .reason,
    ]

    init?(key: String) {
        if let named = Self.named[key] {
            self = named
            return
        }
        let path = key.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard path.count > 1, ["data", "traits", "ids"].contains(path[0]), !path.contains("") else { return nil }
        self = .member(path)
    }
}

/// Cuts a filter's text into words.
///
/// It reads scalars: a mark after `-`, `:` or `"` makes one character with it and would hide it.
private struct WordReader {
    private let text: [Unicode.Scalar]
    private var position = 0
    /// Where the last word begins.
    private(set) var start = 0

    init(_ text: String) {
        self.text = Array(text.unicodeScalars)
    }

    private var current: Unicode.Scalar? { self.position < self.text.count ? self.text[self.position] : nil }

    mutating func next() throws(Filter.Failure) -> Filter.Word? {
        while self.current?.properties.isWhitespace == true { self.position += 1 }
        self.start = self.position
        guard let first = self.current else { return nil }
        let isNegated = first == "-"
        if isNegated { self.position += 1 }
        guard let letter = self.current, !letter.properties.isWhitespace else {
            throw self.failure("- negates the word after it; write one, or \"-\" for the sign itself")
        }
        if letter == "\"" {
            return Filter.Word(subject: .anything, isNegated: isNegated, needle: Needle(try self.phrase()))
        }
        var key = ""
        while let letter = self.current, !letter.properties.isWhitespace, letter != ":", letter != "\"" {
            key.unicodeScalars.append(letter)
            self.position += 1
        }
        guard self.current == ":" else {
            guard self.current != "\"" else {
                throw self.failure("a quote stands at the beginning of a word or after its colon; quote all of it")
            }
            return Filter.Word(subject: .anything, isNegated: isNegated, needle: Needle(key))
        }
        guard let subject = Filter.Subject(key: key) else {
            throw self.failure(
                "there is nothing called \"\(key)\" to look at; there is \(Filter.Subject.keys.joined(separator: ", ")). "
                    + "For a text with a colon use quotes: \"\(key):…\"")
        }
        self.position += 1
        let value = self.current == "\"" ? try self.phrase() : self.rest()
        guard !value.isEmpty else {
            throw self.failure("\(key): needs a value; \(key):* selects events that have one")
        }
        return Filter.Word(subject: subject, isNegated: isNegated, needle: Needle(value))
    }

    private mutating func rest() -> String {
        var value = ""
        while let letter = self.current, !letter.properties.isWhitespace {
            value.unicodeScalars.append(letter)
            self.position += 1
        }
        return value
    }

    private mutating func phrase() throws(Filter.Failure) -> String {
        self.position += 1
        var value = ""
        while let letter = self.current, letter != "\"" {
            value.unicodeScalars.append(letter)
            self.position += 1
        }
        guard self.current == "\"" else { throw self.failure("the quote is not closed; end it with \"") }
        self.position += 1
        guard !value.isEmpty else { throw self.failure("there is nothing between the quotes; leave them out") }
        return value
    }

    private func failure(_ text: String) -> Filter.Failure {
        Filter.Failure(position: self.start, text: text)
    }
}
