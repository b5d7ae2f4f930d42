import Testing

/// A rule that each file keeps or breaks by itself.
struct FileRule: Sendable, CustomTestStringConvertible {
    /// The word for it in `Allowed.txt`.
    let name: String
    /// Whether the rule holds for the file at a path.
    let applies: @Sendable (String) -> Bool
    /// The lines that break it.
    let findings: @Sendable (SourceFile) -> [Finding]

    var testDescription: String { self.name }

    /// What breaks the rule in `files`, by path.
    func findings(in files: [SourceFile]) -> [String: [Finding]] {
        var found: [String: [Finding]] = [:]
        for file in files where self.applies(file.path) {
            let findings = self.findings(file)
            if !findings.isEmpty { found[file.path] = findings }
        }
        return found
    }

    static let all: [FileRule] =
        bannedCalls.map(\.rule) + [
            uncheckedSendable, unfinished, unnamedWarnings, longFunctions, longFiles, manyProperties, undocumented,
            moduleNames, prose,
        ]

    static func named(_ name: String) -> FileRule? {
        all.first { $0.name == name }
    }
}

/// Sets of paths.
enum Scope {
    /// Our Swift, with what tests share; the steps of a tutorial are an app's.
    @Sendable static func sources(_ path: String) -> Bool {
        (path.hasPrefix("Sources/") || self.support(path)) && path.hasSuffix(".swift") && !path.contains(".docc/")
    }

    @Sendable static func tests(_ path: String) -> Bool {
        path.hasPrefix("Tests/") && !self.support(path) && path.hasSuffix(".swift")
    }

    private static func support(_ path: String) -> Bool { path.hasPrefix("Tests/Support/") }

    @Sendable static func swift(_ path: String) -> Bool {
        self.sources(path) || self.tests(path)
    }

    /// The module of a path: `Sources/Core/WaybillEvent/Event.swift`, `Tests/Support/…`.
    static func module(_ path: String) -> Substring? {
        let folders = path.split(separator: "/")
        return folders.count > 3 && (folders[0] == "Sources" || self.support(path)) ? folders[2] : nil
    }
}
