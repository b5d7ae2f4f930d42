import Foundation
import Testing

/// The rules, applied to this repository.
@Suite(.serialized) struct RepositoryTests {
    private static let list = Repository.root.appending(path: "Tests/TidyTests/Allowed.txt")
    private static let architecture = Repository.root.appending(path: "ARCHITECTURE.md")

    private let repository: Repository

    init() throws {
        self.repository = try Repository.own.get()
    }

    /// Compares with the list, or lowers the list where `TIDY_UPDATE` is set.
    private func expect(_ rule: String, _ found: [String: [Finding]]) throws {
        var allowances = try Allowances(String(contentsOf: Self.list, encoding: .utf8))
        if ProcessInfo.processInfo.environment["TIDY_UPDATE"] != nil {
            allowances.lower(rule, to: found)
            try Data(allowances.text.utf8).write(to: Self.list)
        }
        let complaints = allowances.complaints(rule, found)
        if !complaints.isEmpty { Issue.record("\(complaints.joined(separator: "\n"))") }
    }

    @Test func `the repository is read whole`() {
        #expect(self.repository.paths.contains("Package.swift"))
        #expect(self.repository.files.count { Scope.sources($0.path) } > 250)
        #expect(self.repository.files.count { Scope.tests($0.path) } > 100)
        #expect(self.repository.files.count { $0.path.hasSuffix(".md") } > 20)
        #expect(self.repository.manifest.targets.count > 40)
    }

    @Test(arguments: FileRule.all)
    func `files keep to the rule`(rule: FileRule) throws {
        try self.expect(rule.name, rule.findings(in: self.repository.files))
    }

    @Test func `no public type has the name of one of our modules, or of one that they import`() throws {
        let targets = self.repository.manifest.targets
        let rule = typeNames(apartFrom: Set(targets.map(\.module) + targets.flatMap(\.dependencies)))
        #expect(rule.findings(in: self.repository.files) == [:])
    }

    @Test func `each entry of the list names a rule`() throws {
        let rules = Set(FileRule.all.map(\.name) + ["symlink", "undeclared", "unused", "upward"])
        let allowances = try Allowances(String(contentsOf: Self.list, encoding: .utf8))
        #expect(Set(allowances.counts.keys.map(\.rule)).subtracting(rules) == [])
    }

    @Test func `paths differ on a case-insensitive volume`() {
        #expect(clashes(self.repository.paths) == [])
    }

    @Test func `targets differ when case is folded, and so do products but for the library and the program`() {
        #expect(clashes(self.repository.manifest.targets.map(\.name)) == [])
        #expect(clashes(self.repository.manifest.products.map(\.name)) == [["Waybill", "waybill"]])
    }

    @Test func `tests and fuzzers have no linked sources`() throws {
        let links = self.repository.links.filter { $0.hasPrefix("Tests/") || $0.hasPrefix("Tools/Fuzzing/") }
        let finding = Finding(line: 0, text: "put what is shared into a target of its own")
        try self.expect("symlink", Dictionary(uniqueKeysWithValues: links.map { ($0, [finding]) }))
    }

    @Test func `imports and declared dependencies are the same`() throws {
        let graph = ImportGraph(self.repository.manifest, files: self.repository.files)
        try self.expect("undeclared", graph.undeclared())
        try self.expect("unused", graph.unused())
    }

    @Test func `modules import only what is declared above them`() throws {
        let graph = ImportGraph(self.repository.manifest, files: self.repository.files)
        try self.expect("upward", graph.upward())
    }

    /// With `TIDY_UPDATE`, the page gets the picture.
    @Test func `modules keep to the table of the architecture, and its picture is theirs`() throws {
        let graph = ImportGraph(self.repository.manifest, files: self.repository.files)
        var page = try String(contentsOf: Self.architecture, encoding: .utf8)
        let table = ModuleTable(page: page)
        #expect(graph.problems(with: table) == [])
        for target in self.repository.manifest.targets {
            let entries = table.entries[target.name, default: []].map { "\(target.folder)/\($0)" }
            #expect(entries.filter { !self.repository.paths.contains($0) } == [])
        }
        let start = try #require(page.range(of: "```mermaid\n"))
        let end = try #require(page.range(of: "```\n", range: start.upperBound..<page.endIndex))
        if ProcessInfo.processInfo.environment["TIDY_UPDATE"] != nil {
            page.replaceSubrange(start.upperBound..<end.lowerBound, with: graph.picture)
            try Data(page.utf8).write(to: Self.architecture)
        } else {
            #expect(page[start.upperBound..<end.lowerBound] == graph.picture)
        }
    }
}
