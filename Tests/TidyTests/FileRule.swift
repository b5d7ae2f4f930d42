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
            uncheckedSendable, unfinished, unnamedWarnings, longFunctions, longFiles, undocumented, moduleNames, prose,
        ]

    static func named(_ name: String) -> FileRule? {
        all.first { $0.name == name }
    }
}

/// Sets of paths.
enum Scope {
    /// Our Swift; the steps of a tutorial are an app's.
    @Sendable static func sources(_ path: String) -> Bool {
        path.hasPrefix("Sources/") && path.hasSuffix(".swift") && !path.contains(".docc/")
    }

    @Sendable static func tests(_ path: String) -> Bool {
        path.hasPrefix("Tests/") && path.hasSuffix(".swift")
    }

    @Sendable static func swift(_ path: String) -> Bool {
        self.sources(path) || self.tests(path)
    }

    static func module(_ path: String) -> Substring? {
        let folders = path.split(separator: "/")
        return folders.count > 2 && folders[0] == "Sources" ? folders[1] : nil
    }
}
