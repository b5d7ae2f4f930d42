/// `@unchecked Sendable` comes with a comment that says after a colon what guards the state.
let uncheckedSendable = FileRule(name: "unchecked-sendable", applies: Scope.swift) { file in
    let text = file.swift
    let places = text.tokens.indices.dropFirst().filter {
        text.tokens[$0].text == "unchecked" && text.tokens[$0 - 1].text == "@"
    }
    return places.compactMap { place in
        let line = text.tokens[place].line
        let comment = text.commentOfDeclaration(before: place)
        let reason = comment.split(separator: "@unchecked Sendable", maxSplits: 1).last ?? ""
        let words = reason.split(separator: ":", maxSplits: 1).last?.split(separator: " ") ?? []
        if comment.contains("@unchecked Sendable"), reason.contains(":"), words.count >= 3 { return nil }
        return Finding(line: line, text: "name its lock in a comment: `@unchecked Sendable`: guarded by …")
    }
}

/// No comment leaves work for later.
let unfinished = FileRule(name: "unfinished", applies: Scope.swift) { file in
    let text = file.swift
    return (1...max(1, text.lineCount)).flatMap { line in
        let words = text.line(line, [.comment]).split { !$0.isLetter }
        return words.filter { ["TODO", "FIXME"].contains($0) }.map {
            Finding(line: line, text: "`\($0)`: do it, or open an issue")
        }
    }
}

/// A warning or an error has an identifier, which `waybill explain` knows.
///
/// Modules of the client have loggers of another kind; `WaybillHost` has the calls.
let unnamedWarnings = FileRule(
    name: "unnamed-warning",
    applies: { path in
        Scope.sources(path) && !["Waybill", "WaybillHost", "WaybillSystemLog"].contains(Scope.module(path) ?? "")
    }
) { file in
    let tokens = file.swift.tokens
    return tokens.indices.dropFirst(2).dropLast(3).compactMap { place in
        guard tokens[place - 1].text == ".", ["logger", "Logger"].contains(tokens[place - 2].text),
            tokens[place + 1].text == "("
        else { return nil }
        switch tokens[place].text {
        case "warning", "error", "critical":
            if tokens[place + 2].text == "." { return nil }
        case "log":
            guard tokens[place + 2].text == "level" else { return nil }
        default: return nil
        }
        return Finding(line: tokens[place].line, text: "name a case of `Notice` first; add one, with its text")
    }
}

/// A function has at most 70 lines, from its keyword to its brace.
let longFunctions = FileRule(name: "long-function", applies: Scope.swift) { file in
    file.swift.functions().filter { $0.lineCount > 70 }.map {
        Finding(line: $0.line, text: "`\($0.name)` has \($0.lineCount) lines: divide it, at most 70")
    }
}

/// A file has at most 500 lines.
let longFiles = FileRule(name: "long-file", applies: Scope.swift) { file in
    let count = file.swift.lineCount
    return count > 500 ? [Finding(line: count, text: "\(count) lines: divide the file, at most 500")] : []
}

/// A type has at most 20 stored properties; each one more is a finding.
let manyProperties = FileRule(name: "many-properties", applies: Scope.sources) { file in
    file.swift.storedProperties().flatMap { type, properties in
        properties.dropFirst(20).map {
            Finding(
                line: $0.line, text: "`\(type).\($0.name)`: give a value with one job some of the \(properties.count)")
        }
    }
}

/// The cases of a public enum and the requirements of a public protocol have a doc comment.
///
/// `swift format lint` sees the declarations that are themselves marked as public; these are not.
let undocumented = FileRule(name: "undocumented", applies: Scope.sources) { file in
    let text = file.swift
    return text.publicMembers().filter { !text.hasDocumentation(above: $0.line) }.map {
        Finding(line: $0.line, text: "`\($0.name)`: give it a doc comment")
    }
}

/// No public type has the name of a module that an app imports, or of a macro that it uses.
let moduleNames = typeNames(apartFrom: frameworks)

/// No public type has one of `names`: a file could not say which of the two it means.
func typeNames(apartFrom names: Set<String>) -> FileRule {
    FileRule(name: "module-name", applies: Scope.sources) { file in
        file.swift.publicTypes().filter { names.contains($0.name) }.map {
            Finding(line: $0.line, text: "`\($0.name)`: a module or a macro has that name")
        }
    }
}

extension SwiftText {
    struct Declaration: Hashable {
        let name: String
        let line: Int
        var lineCount = 1
    }

    private static let declarations: Set<String> = [
        "func", "init", "deinit", "subscript", "var", "let", "case", "struct", "class", "enum", "protocol", "actor",
        "extension", "typealias", "associatedtype", "import", "public", "package", "internal", "private", "fileprivate",
        "static", "mutating", "@",
    ]

    /// Functions, initialisers, subscripts and computed properties that have a body.
    func functions() -> [Declaration] {
        self.tokens.indices.compactMap { index in
            let token = self.tokens[index]
            guard ["func", "init", "deinit", "subscript", "var"].contains(token.text) else { return nil }
            if index > 0, self.tokens[index - 1].text == "." { return nil }
            guard let body = self.body(after: index), let end = self.end(of: body) else { return nil }
            let name = token.text == "func" || token.text == "var" ? self.name(at: index + 1) : token.text
            return Declaration(name: name, line: token.line, lineCount: self.tokens[end].line - token.line + 1)
        }
    }

    /// The stored properties of instances of each struct, class and actor.
    func storedProperties() -> [(type: String, properties: [Declaration])] {
        self.tokens.indices.dropLast().compactMap { index in
            let (token, next) = (self.tokens[index], self.tokens[index + 1])
            guard ["struct", "class", "actor"].contains(token.text), next.text.first?.isUppercase ?? false,
                let open = self.tokens.indices[index...].first(where: { self.tokens[$0].text == "{" }),
                let end = self.end(of: open)
            else { return nil }
            var depth = 0
            let properties = self.tokens.indices[open..<end].compactMap { place -> Declaration? in
                switch self.tokens[place].text {
                case "{", "(", "[": depth += 1
                case "}", ")", "]": depth -= 1
                case "let", "var": if depth == 1, self.isStored(place) { return self.property(at: place) }
                default: break
                }
                return nil
            }
            return (next.text, properties)
        }
    }

    private func property(at index: Int) -> Declaration {
        Declaration(name: self.tokens[index + 1].text, line: self.tokens[index].line)
    }

    private func isStored(_ index: Int) -> Bool {
        guard index > 0, self.tokens[index - 1].text != "static", self.tokens[index - 1].text != "class" else {
            return false
        }
        guard self.tokens[index].text == "var", let body = self.body(after: index) else { return true }
        return ["didSet", "willSet"].contains(self.tokens[body + 1].text)
    }

    /// The name at `index`, or the raw one that is a literal there.
    private func name(at index: Int) -> String {
        let before = self.tokens[index - 1]
        let raw = self.line(before.line, [.literal])
        return raw.hasPrefix("`") ? raw : index < self.tokens.count ? self.tokens[index].text : ""
    }

    /// The brace that opens the body of the declaration at `index`.
    private func body(after index: Int) -> Int? {
        let isProperty = self.tokens[index].text == "var"
        var depth = 0
        for place in self.tokens.indices[(index + 1)...] {
            let token = self.tokens[place]
            switch token.text {
            case "(", "[": depth += 1
            case ")", "]": depth -= 1
            case "{" where depth == 0: return place
            case "}" where depth == 0: return nil
            case "=" where depth == 0 && isProperty: return nil
            default:
                let isNext = depth == 0 && token.line > self.tokens[place - 1].line
                if isNext, isProperty || Self.declarations.contains(token.text) { return nil }
            }
            if depth < 0 { return nil }
        }
        return nil
    }

    /// The brace that closes the one at `open`.
    private func end(of open: Int) -> Int? {
        var depth = 0
        for place in self.tokens.indices[open...] {
            if self.tokens[place].text == "{" { depth += 1 }
            if self.tokens[place].text == "}" { depth -= 1 }
            if depth == 0 { return place }
        }
        return nil
    }

    /// Where a type is declared as public, with the word for its kind.
    private func publicDeclarations() -> [(kind: String, index: Int)] {
        self.tokens.indices.compactMap { index in
            guard ["public", "open"].contains(self.tokens[index].text) else { return nil }
            var place = index + 1
            while place < self.tokens.count, ["final", "indirect", "nonisolated"].contains(self.tokens[place].text) {
                place += 1
            }
            guard place + 1 < self.tokens.count else { return nil }
            let kind = self.tokens[place].text
            let kinds = ["struct", "class", "enum", "protocol", "actor", "typealias", "macro"]
            return kinds.contains(kind) ? (kind, place) : nil
        }
    }

    /// Public types outside of every other declaration.
    func publicTypes() -> [Declaration] {
        self.publicDeclarations().filter { declaration in
            self.tokens[..<declaration.index].reduce(0) {
                $0 + ($1.text == "{" ? 1 : $1.text == "}" ? -1 : 0)
            } == 0
        }.map { Declaration(name: self.tokens[$0.index + 1].text, line: self.tokens[$0.index].line) }
    }

    /// Cases of public enums and requirements of public protocols.
    func publicMembers() -> [Declaration] {
        self.publicDeclarations().flatMap { declaration -> [Declaration] in
            let words: Set<String>
            switch declaration.kind {
            case "enum": words = ["case"]
            case "protocol": words = ["func", "var", "init", "subscript", "associatedtype"]
            default: return []
            }
            guard let open = self.tokens.indices[declaration.index...].first(where: { self.tokens[$0].text == "{" }),
                let end = self.end(of: open)
            else { return [] }
            var depth = 0
            return self.tokens.indices[open..<end].compactMap { place in
                let token = self.tokens[place]
                if ["{", "(", "["].contains(token.text) { depth += 1 }
                if ["}", ")", "]"].contains(token.text) { depth -= 1 }
                guard depth == 1, words.contains(token.text) else { return nil }
                return Declaration(name: self.tokens[place + 1].text, line: token.line)
            }
        }
    }

    /// Whether a `///` comment ends right above `line`, or above the attributes there.
    func hasDocumentation(above line: Int) -> Bool {
        var above = line - 1
        while self.line(above, [.code, .literal]).hasPrefix("@") { above -= 1 }
        return self.line(above, [.code, .literal]).isEmpty && self.line(above, [.comment]).hasPrefix("///")
    }

    /// The comments on the lines of the declaration that the token at `place` belongs to, and right above it.
    func commentOfDeclaration(before place: Int) -> String {
        let keywords: Set<String> = ["class", "struct", "enum", "actor", "extension", "protocol"]
        let start = self.tokens[..<place].last { keywords.contains($0.text) }?.line ?? self.tokens[place].line
        var lines = (start...self.tokens[place].line).map { self.line($0, [.comment]) }
        var above = start - 1
        while above >= 1 {
            let code = self.line(above, [.code, .literal])
            let comment = self.line(above, [.comment])
            guard code.hasPrefix("@") || (code.isEmpty && !comment.isEmpty) else { break }
            lines.insert(comment, at: 0)
            above -= 1
        }
        return lines.map { $0.drop { $0 == "/" } }.joined(separator: " ")
    }
}

/// Modules that an app imports beside ours, and names that the macros of some of them expand to.
let frameworks: Set<String> = [
    // The toolchain's.
    "Swift", "Foundation", "FoundationEssentials", "FoundationNetworking", "Observation", "Synchronization", "Testing",
    "XCTest", "Distributed", "RegexBuilder", "Cxx", "Glibc", "Musl", "Darwin", "Dispatch", "Subprocess", "System",
    // Apple's.
    "SwiftUI", "UIKit", "AppKit", "WatchKit", "Combine", "SwiftData", "CoreData", "OSLog", "os", "Network", "Charts",
    "MapKit", "StoreKit", "WidgetKit", "ActivityKit", "AppIntents", "CloudKit", "Contacts", "CoreLocation",
    "CoreGraphics", "CryptoKit", "EventKit", "Photos", "PhotosUI", "Security", "UserNotifications", "WebKit", "Speech",
    "Vision", "AVFoundation", "TipKit", "Translation", "MetricKit", "AdSupport", "AppTrackingTransparency",
    // Packages that servers use.
    "Logging", "Metrics", "Tracing", "ServiceLifecycle", "UnixSignals", "ArgumentParser", "NIO", "NIOCore", "Vapor",
    "Hummingbird", "Crypto", "AsyncAlgorithms", "Collections", "Algorithms", "Numerics", "Atomics", "Instrumentation",
    // Macros, and the types that their expansions name.
    "Observable", "ObservationRegistrar", "ObservationTracked", "ObservationIgnored", "Test", "Suite", "Tag", "Trait",
    "Model", "Query", "Preview", "Predicate", "Entry", "State", "Binding", "Bindable", "Environment", "View",
]
