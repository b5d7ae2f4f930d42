package import WaybillSystem

/// A path with wildcards in any component.
///
///     *       any run of characters, none of them "/"          ?    one character
///     [a-z]   one of a set; [!…] or [^…] one not in the set         everything else matches itself
///
/// A name that begins with a dot is matched only by a component that begins with a dot. Backslashes do not escape; use
/// `[*]`.
package struct GlobPattern: Hashable, Sendable {
    package let description: String
    private let components: [GlobComponent]
    private let isAbsolute: Bool

    package init(_ pattern: String) {
        self.description = pattern
        self.isAbsolute = Path.isAbsolute(pattern)
        self.components = Path.components(of: pattern).map { GlobComponent($0) }
    }

    /// Whether a path has characters that match others than themselves.
    package static func hasWildcard(_ path: String) -> Bool {
        Path.components(of: path).contains { GlobComponent($0).literal == nil }
    }

    /// The pattern that matches only this path, whatever characters it has.
    package static func quoted(_ path: String) -> String {
        var quoted = ""
        for scalar in path.unicodeScalars {
            switch scalar {
            case "*", "?", "[": quoted += "[\(scalar)]"
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted
    }

    /// Whether the pattern matches `path`, which must be written in the same form.
    package func matches(_ path: String) -> Bool {
        let names = Path.components(of: path)
        guard names.count == self.components.count, Path.isAbsolute(path) == self.isAbsolute else { return false }
        return zip(self.components, names).allSatisfy { $0.matches($1) }
    }

    /// Which links to folders a walk follows.
    package enum LinkRule: Hashable, Sendable {
        case followed
        /// Those before the first wildcard, which the operator wrote.
        case ownPart
        /// The same, but not the folder that holds the files.
        case spool
    }

    /// How many components, of those before the last one, come before the first wildcard.
    private var literalCount: Int {
        self.components.dropLast().prefix { $0.literal != nil }.count
    }

    /// The folder before the first wildcard, or before the last component; empty for the current folder.
    package var literalFolder: String {
        let names = self.components.prefix(self.literalCount).compactMap(\.literal)
        return (self.isAbsolute ? "/" : "") + names.joined(separator: "/")
    }

    /// The result of a walk over the directories.
    package struct Expansion: Sendable {
        /// The paths whose last component matches, sorted within each directory; not checked for existence.
        package var paths: [String] = []
        /// The directories in which new matches can appear.
        package var directories: [String] = []
        package var failures: [FileSystemError] = []
        /// Folders that were passed over because they are links.
        package var links: [String] = []

        package init() {}
    }

    /// Lists matching paths; missing directories have no matches.
    package func expand(
        on files: some FileSystem, _ links: LinkRule = .followed, into expansion: inout Expansion
    ) {
        var paths: [String] = []
        self.expand(on: files, links, into: &expansion) { paths.append($0) }
        expansion.paths += paths
    }

    /// Iterates over matching paths, with only one directory in memory at a time.
    ///
    /// - Parameter expansion: receives everything except the paths.
    func expand(
        on files: some FileSystem, _ links: LinkRule, into expansion: inout Expansion, visit: (_ path: String) -> Void
    ) {
        guard !self.components.isEmpty else { return }
        self.expand(
            self.components[...], below: self.isAbsolute ? "/" : "", on: files, links, into: &expansion, visit: visit)
    }

    private func expand(
        _ rest: ArraySlice<GlobComponent>, below directory: String, on files: some FileSystem, _ links: LinkRule,
        into expansion: inout Expansion, visit: (_ path: String) -> Void
    ) {
        guard let component = rest.first else { return }
        let isLast = rest.count == 1
        let listed = directory.isEmpty ? "." : directory
        let names: [String]
        do throws(FileSystemError) {
            guard try self.isPassable(listed, rest, on: files, links, &expansion) else { return }
            if !isLast, let literal = component.literal {
                names = [literal]
            } else {
                guard try files.status(at: listed)?.kind == .directory else { return }
                expansion.directories.append(listed)
                names = try files.list(listed)
            }
        } catch {
            expansion.failures.append(error)
            return
        }
        for name in names where component.matches(name[...]) {
            let path = directory.isEmpty ? name : Path.join(directory, name)
            if isLast {
                visit(path)
            } else {
                self.expand(rest.dropFirst(), below: path, on: files, links, into: &expansion, visit: visit)
            }
        }
    }

    /// Whether the walk may go through a folder; notes one that it may not go through because it is a link.
    private func isPassable(
        _ folder: String, _ rest: ArraySlice<GlobComponent>, on files: some FileSystem, _ links: LinkRule,
        _ expansion: inout Expansion
    ) throws(FileSystemError) -> Bool {
        let isOwn = rest.startIndex <= self.literalCount && !(links == .spool && rest.count == 1)
        if links == .followed || isOwn || rest.startIndex == 0 { return true }
        guard try files.status(ofEntry: folder)?.kind == .link else { return true }
        if try files.status(at: folder)?.kind == .directory { expansion.links.append(folder) }
        return false
    }
}

/// One component of a pattern, split into tokens.
private struct GlobComponent: Hashable, Sendable {
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

    func matches(_ name: Substring) -> Bool {
        if let literal { return name.utf8.elementsEqual(literal.utf8) }
        if name.utf8.first == UInt8(ascii: "."), self.tokens.first != .scalar(".") { return false }
        let scalars = name.unicodeScalars
        var position = scalars.startIndex
        var token = 0
        // Where to resume when a later token fails: after the last run, one character further on.
        var retry: (token: Int, position: Substring.UnicodeScalarView.Index)?
        while position < scalars.endIndex {
            if token < self.tokens.count, self.tokens[token] == .run {
                retry = (token + 1, position)
                token += 1
            } else if token < self.tokens.count, self.tokens[token].matches(scalars[position]) {
                token += 1
                position = scalars.index(after: position)
            } else if let (retryToken, retryPosition) = retry {
                position = scalars.index(after: retryPosition)
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
