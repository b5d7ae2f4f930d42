/// Phrases that no page, comment or message has, and what to write.
private let phrases = [
    ("goes on", "continues"),
    ("go on", "continue"),
    ("behind the", "after the"),
    ("beyond", "when exceeded, after"),
    ("nobody", "no one; name the actor"),
    ("somebody", "someone; name the actor"),
    ("alien", "unexpected"),
    ("is no", "is not a"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("let go of", "close"),
    ("lets go of", "closes"),
    ("cannot be said", "is invalid"),
    ("unless said otherwise", "default"),
    ("unless said beyond", "when exceeded"),
    ("nobody's", "unexpected"),
    ("what became of", "the result of"),
    ("what becomes of", "the result of"),
    ("anew", "again"),
    ("shall", "must"),
    ("whoever", "users who; name the actor"),
    ("is told of", "is reported in"),
    ("are told of", "are reported in"),
    ("lies on the disk", "is stored"),
    ("lies there", "exists"),
].map { (words: $0.split(separator: " ").map(String.init), replacement: $1) }

/// Pages, and the comments and strings of sources, are in plain English.
let prose = FileRule(
    name: "prose",
    applies: { path in
        path.hasSuffix(".md") || Scope.sources(path) || (path.hasPrefix("Sources/") && path.hasSuffix(".tutorial"))
    },
    findings: { file in
        var words: [(text: Substring, line: Int)] = []
        for (number, line) in textLines(of: file) {
            words += line.split { !$0.isLetter && $0 != "'" }.map { ($0, number) }
        }
        let lowercased = words.map { $0.text.lowercased() }
        return words.indices.flatMap { place in
            phrases.filter { phrase, _ in
                // In capitals it is a word of RFC 2119.
                lowercased[place...].starts(with: phrase) && !isPlain(phrase, at: place, in: lowercased)
                    && words[place].text != words[place].text.uppercased()
            }.map { phrase, replacement in
                Finding(line: words[place].line, text: "\"\(phrase.joined(separator: " "))\": \(replacement)")
            }
        }
    })

/// Whether the words around a phrase make it plain English: `there is no`, `is no longer`.
private func isPlain(_ phrase: [String], at place: Int, in words: [String]) -> Bool {
    guard phrase == ["is", "no"] else { return false }
    let next = place + 2 < words.count ? words[place + 2] : ""
    return ["longer", "more"].contains(next) || place > 0 && ["there", "it"].contains(words[place - 1])
}

/// The lines of a file as far as people read them as text.
private func textLines(of file: SourceFile) -> [(Int, String)] {
    if file.path.hasSuffix(".swift") {
        let text = file.swift
        return (1...max(1, text.lineCount)).map { ($0, text.line($0, [.comment, .literal])) }
    }
    return file.text.split(separator: "\n", omittingEmptySubsequences: false).enumerated().map { ($0 + 1, String($1)) }
}
