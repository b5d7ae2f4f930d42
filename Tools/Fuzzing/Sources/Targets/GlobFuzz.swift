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
        let components = pattern.unicodeScalars.split(separator: "/").map { Array($0) }
        let names = path.unicodeScalars.split(separator: "/").map { Array($0) }
        guard components.count == names.count,
            (pattern.unicodeScalars.first == "/") == (path.unicodeScalars.first == "/")
        else { return false }
        return zip(components, names).allSatisfy { pattern, name in
            // A dot at the front is matched by a dot alone, not by a wildcard.
            (name.first != "." || pattern.first == ".") && Self.matches(pattern[...], name[...])
        }
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
