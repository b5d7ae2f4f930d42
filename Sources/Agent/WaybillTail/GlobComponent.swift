/// One component of a pattern, split into tokens.
struct GlobComponent: Hashable, Sendable {
    private enum Token: Hashable {
        case run
        case one
        case scalar(Unicode.Scalar)
        case set([ClosedRange<Unicode.Scalar>], isNegated: Bool)

        func matches(_ scalar: Unicode.Scalar) -> Bool {
            switch self {
            case .run: false
            case .one: true
            case .scalar(let own): own == scalar
            case .set(let ranges, let isNegated): ranges.contains { $0.contains(scalar) } != isNegated
            }
        }
    }

    /// The name, if the component has no wildcard.
    let literal: String?
    private let tokens: [Token]

    init(_ text: Substring) {
        let scalars = Array(text.unicodeScalars)
        var tokens: [Token] = []
        var index = 0
        while index < scalars.count {
            switch scalars[index] {
            case "*":
                if tokens.last != .run { tokens.append(.run) }
                index += 1
            case "?":
                tokens.append(.one)
                index += 1
            case "[":
                if let (token, next) = Self.set(in: scalars, from: index + 1) {
                    tokens.append(token)
                    index = next
                } else {
                    tokens.append(.scalar("["))
                    index += 1
                }
            case let scalar:
                tokens.append(.scalar(scalar))
                index += 1
            }
        }
        self.tokens = tokens
        let isLiteral = tokens.allSatisfy { if case .scalar = $0 { true } else { false } }
        self.literal = isLiteral ? String(text) : nil
    }

    /// Parses a set after its "["; `nil` if it is not closed, so that the "[" matches itself.
    private static func set(in scalars: [Unicode.Scalar], from start: Int) -> (Token, next: Int)? {
        var index = start
        let isNegated = index < scalars.count && (scalars[index] == "!" || scalars[index] == "^")
        if isNegated { index += 1 }
        var ranges: [ClosedRange<Unicode.Scalar>] = []
        while index < scalars.count {
            // A leading "]" is a member, as in POSIX.1-2017, section 2.13.1.
            if scalars[index] == "]", !ranges.isEmpty { return (.set(ranges, isNegated: isNegated), index + 1) }
            if index + 2 < scalars.count, scalars[index + 1] == "-", scalars[index + 2] != "]" {
                let low = min(scalars[index], scalars[index + 2])
                ranges.append(low...max(scalars[index], scalars[index + 2]))
                index += 3
            } else {
                ranges.append(scalars[index]...scalars[index])
                index += 1
            }
        }
        return nil
    }

    /// The index after the set that begins with the "[" at `start`; `nil` if it is not closed in this component.
    static func endOfSet(in scalars: [Unicode.Scalar], from start: Int) -> Int? {
        let end = scalars[start...].firstIndex(of: "/") ?? scalars.count
        return Self.set(in: Array(scalars[..<end]), from: start + 1)?.next
    }

    /// Whether no name that begins with a dot is matched.
    var isWithoutDot: Bool { self.tokens.first != .scalar(".") }

    func matches(_ name: Substring) -> Bool {
        if let literal { return name.utf8.elementsEqual(literal.utf8) }
        if self.isWithoutDot, name.utf8.first == UInt8(ascii: ".") { return false }
        return self.matches(name.unicodeScalars) { $0.matches($1) }
    }

    /// Whether every name that `other` matches is matched, as far as the tokens show it.
    func covers(_ other: GlobComponent) -> Bool {
        guard self.isWithoutDot == other.isWithoutDot else { return false }
        return self.matches(other.tokens) { own, token in
            switch token {
            case .run: false
            case .one: own == .one
            case .scalar(let scalar): own.matches(scalar)
            case .set: own == .one || own == token
            }
        }
    }

    /// Whether the tokens take all items in turn, where a run takes any number of them.
    ///
    /// The work is bounded by the number of tokens times that of items, whatever they are: only the last run is extended.
    private func matches<Items: Collection>(_ items: Items, _ isMatch: (Token, Items.Element) -> Bool) -> Bool {
        var position = items.startIndex
        var token = 0
        // Where to resume when a later token fails: after the last run, one item further on.
        var retry: (token: Int, position: Items.Index)?
        while position < items.endIndex {
            if token < self.tokens.count, self.tokens[token] == .run {
                retry = (token + 1, position)
                token += 1
            } else if token < self.tokens.count, isMatch(self.tokens[token], items[position]) {
                token += 1
                position = items.index(after: position)
            } else if let (retryToken, retryPosition) = retry {
                position = items.index(after: retryPosition)
                token = retryToken
                retry = (retryToken, position)
            } else {
                return false
            }
        }
        while token < self.tokens.count, self.tokens[token] == .run { token += 1 }
        return token == self.tokens.count
    }
}
