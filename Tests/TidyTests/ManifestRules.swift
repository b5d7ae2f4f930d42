/// Rules about the manifest and the imports of its targets.
struct ImportGraph {
    let manifest: Manifest
    /// What each target's files import, and where first.
    private let imports: [String: [String: (path: String, line: Int)]]
    private let swiftTargets: Set<String>

    /// Modules that come with the toolchain or a platform, and need no declaration.
    private static let platform: Set<String> = [
        "CoreFoundation", "Darwin", "Dispatch", "Foundation", "FoundationEssentials", "FoundationNetworking", "Glibc",
        "Musl", "Observation",
        "SwiftUI",
        "Synchronization", "Testing", "UIKit", "os",
    ]

    /// A product of a package is imported by its own name; each of those that are used here is.
    init(_ manifest: Manifest, files: [SourceFile]) {
        self.manifest = manifest
        var imports: [String: [String: (path: String, line: Int)]] = [:]
        var swiftTargets: Set<String> = []
        for file in files where file.path.hasSuffix(".swift") && !file.path.contains(".docc/") {
            guard let target = manifest.targets.first(where: { file.path.hasPrefix($0.folder + "/") }) else { continue }
            swiftTargets.insert(target.name)
            for (module, line) in file.swift.imports() where imports[target.name]?[module] == nil {
                imports[target.name, default: [:]][module] = (file.path, line)
            }
        }
        self.imports = imports
        self.swiftTargets = swiftTargets
    }

    /// Imports without a declared dependency, by target and module.
    func undeclared() -> [String: [Finding]] {
        self.findings { target in
            let known = Set(target.dependencies).union(Self.platform).union([target.module])
            return self.imports[target.name, default: [:]].filter { !known.contains($0.key) }.map { module, place in
                (module, Finding(line: 0, text: "declare it in Package.swift: \(place.path):\(place.line) imports it"))
            }
        }
    }

    /// Declared dependencies that no file of the target imports.
    func unused() -> [String: [Finding]] {
        self.findings { target in
            let imported = self.imports[target.name, default: [:]]
            return target.dependencies.filter { imported[$0] == nil }.map {
                ($0, Finding(line: 0, text: "no file imports it: remove it from Package.swift"))
            }
        }
    }

    /// Dependencies on targets that are declared further down.
    func upward() -> [String: [Finding]] {
        let modules = self.manifest.targets.map(\.module)
        return self.findings { target in
            let above = modules.prefix { $0 != target.module }
            return target.dependencies.filter { modules.contains($0) && !above.contains($0) }.map {
                ($0, Finding(line: 0, text: "a module imports only what stands above it in Package.swift"))
            }
        }
    }

    /// What a target declares or imports.
    func direct(_ name: String) -> Set<String> {
        let declared = self.manifest.targets.first { $0.name == name }?.dependencies ?? []
        return Set(declared).union(self.imports[name, default: [:]].keys)
    }

    /// Whether it has files of Swift.
    func isSwift(_ target: Manifest.Target) -> Bool { self.swiftTargets.contains(target.name) }

    private func findings(_ find: (Manifest.Target) -> [(String, Finding)]) -> [String: [Finding]] {
        var all: [String: [Finding]] = [:]
        for target in self.manifest.targets {
            for (module, finding) in find(target) { all["\(target.name)->\(module)", default: []].append(finding) }
        }
        return all
    }
}

extension SwiftText {
    private static let importKinds: Set<String> = [
        "struct", "class", "enum", "protocol", "typealias", "func", "let", "var",
    ]

    /// Modules that the text imports, with lines.
    func imports() -> [(module: String, line: Int)] {
        self.tokens.indices.dropLast().compactMap { index in
            guard self.tokens[index].text == "import" else { return nil }
            let isKind = Self.importKinds.contains(self.tokens[index + 1].text)
            return (self.tokens[index + (isKind ? 2 : 1)].text, self.tokens[index].line)
        }
    }
}

/// Paths and names that a case-insensitive volume takes for one.
///
/// Folders count: two files in `Sources/A` and `Sources/a` meet there.
func clashes(_ paths: [String]) -> [[String]] {
    var spellings: [String: Set<String>] = [:]
    for path in paths {
        let parts = path.split(separator: "/")
        for count in parts.indices.map({ $0 + 1 }) {
            let prefix = parts.prefix(count).joined(separator: "/")
            spellings[prefix.lowercased(), default: []].insert(prefix)
        }
    }
    return spellings.values.filter { $0.count > 1 }.map { $0.sorted() }.sorted { $0[0] < $1[0] }
}
