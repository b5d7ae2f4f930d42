internal import WaybillTail
internal import WaybillTestSupport

/// Patterns against a matcher that tries everything.
enum GlobFuzz {
    @Sendable static func run(_ input: [UInt8]) throws {
        let parts = input.split(separator: 0x0A, maxSplits: 1, omittingEmptySubsequences: false)
        let pattern = String(decoding: parts[0].prefix(24), as: UTF8.self)
        let path = String(decoding: parts.count > 1 ? parts[1].prefix(24) : [], as: UTF8.self)
        let isMatch = GlobPattern(pattern).matches(path)
        let expected = Self.matches(pattern, path)
        try require(isMatch == expected, "\(pattern.debugDescription) matches \(path.debugDescription): \(isMatch)")
        try require(GlobPattern(pattern) == GlobPattern(pattern), "a pattern is not itself")
    }

    private static func matches(_ pattern: String, _ path: String) -> Bool {
        let texts = Self.texts(Array(pattern.unicodeScalars))
        let names = path.unicodeScalars.split(separator: "/").map { Array($0) }
        return (texts.count > GlobPattern.branchCountMax ? [Array(pattern.unicodeScalars)] : texts).contains { text in
            guard !names.isEmpty, (text.first == "/") == (path.unicodeScalars.first == "/") else { return false }
            var components = text.split(separator: "/").map { Array($0) }
            // All files below.
            if components.last == ["*", "*"] { components.append(["*"]) }
            return Self.lead(components[...], names[...])
        }
    }

    private static func lead(_ components: ArraySlice<[Unicode.Scalar]>, _ names: ArraySlice<[Unicode.Scalar]>) -> Bool
    {
        guard let component = components.first else { return names.isEmpty }
        if component == ["*", "*"] {
            let hidden = names.firstIndex { $0.first == "." } ?? names.endIndex
            return (names.startIndex...hidden).contains { Self.lead(components.dropFirst(), names[$0...]) }
        }
        // A dot at the front is matched by a dot alone, not by a wildcard.
        guard let name = names.first, name.first != "." || component.first == "." else { return false }
        return Self.matches(component[...], name[...]) && Self.lead(components.dropFirst(), names.dropFirst())
    }

    /// The texts that braces give, the first braces first.
    private static func texts(_ text: [Unicode.Scalar]) -> [[Unicode.Scalar]] {
        var index = 0
        while index < text.count {
            if text[index] == "{", let (choices, end) = Self.choices(text, index) {
                return choices.flatMap { Self.texts(Array(text[..<index] + $0 + text[end...])) }
            }
            index = Self.afterSet(text, index) ?? index + 1
        }
        return [text]
    }

    private static func choices(
        _ text: [Unicode.Scalar], _ start: Int
    ) -> (choices: [ArraySlice<Unicode.Scalar>], end: Int)? {
        var choices: [ArraySlice<Unicode.Scalar>] = []
        var depth = 0
        var begin = start + 1
        var index = start
        while index < text.count {
            if let end = Self.afterSet(text, index) {
                index = end
                continue
            }
            if text[index] == "{" { depth += 1 }
            if text[index] == "}" { depth -= 1 }
            if depth == 0 || depth == 1 && text[index] == "," {
                choices.append(text[begin..<index])
                begin = index + 1
            }
            index += 1
            if depth == 0 { return choices.count > 1 ? (choices, index) : nil }
        }
        return nil
    }

    private static func afterSet(_ text: [Unicode.Scalar], _ start: Int) -> Int? {
        guard text[start] == "[" else { return nil }
        let component = text[start...].prefix { $0 != "/" }
        return Self.set(component.dropFirst()).map { $0.rest.startIndex }
    }

    private static func matches(_ pattern: ArraySlice<Unicode.Scalar>, _ name: ArraySlice<Unicode.Scalar>) -> Bool {
        guard let first = pattern.first else { return name.isEmpty }
        switch first {
        case "*":
            // Neighbouring stars are one.
            let rest = pattern.drop { $0 == "*" }
            return (name.startIndex...name.endIndex).contains { Self.matches(rest, name[$0...]) }
        case "?": return !name.isEmpty && Self.matches(pattern.dropFirst(), name.dropFirst())
        case "[":
            guard let (members, isNegated, rest) = Self.set(pattern.dropFirst()) else { break }
            guard let scalar = name.first else { return false }
            return members.contains { $0.contains(scalar) } != isNegated && Self.matches(rest, name.dropFirst())
        default: break
        }
        return name.first == first && Self.matches(pattern.dropFirst(), name.dropFirst())
    }

    private static func set(
        _ text: ArraySlice<Unicode.Scalar>
    ) -> (members: [ClosedRange<Unicode.Scalar>], isNegated: Bool, rest: ArraySlice<Unicode.Scalar>)? {
        var rest = text
        let isNegated = rest.first == "!" || rest.first == "^"
        if isNegated { rest = rest.dropFirst() }
        var members: [ClosedRange<Unicode.Scalar>] = []
        while let low = rest.popFirst() {
            if low == "]", !members.isEmpty { return (members, isNegated, rest) }
            if rest.count >= 2, rest.first == "-", let high = rest.dropFirst().first, high != "]" {
                rest = rest.dropFirst(2)
                members.append(min(low, high)...max(low, high))
            } else {
                members.append(low...low)
            }
        }
        return nil
    }
}
