import Foundation
import Testing

/// The rules about manifests, paths and the list, on planted ones.
@Suite struct ManifestTests {
    private static let manifest = Manifest(
        targets: [
            .init(name: "CLow", folder: "Sources/CLow", dependencies: []),
            .init(name: "Low", folder: "Sources/Low", dependencies: ["CLow"]),
            .init(name: "High", folder: "Sources/High", dependencies: ["Low", "NIOCore"]),
            .init(name: "LowTests", folder: "Tests/LowTests", dependencies: ["Low"]),
        ],
        products: [.init(name: "Low", targets: ["Low"]), .init(name: "High", targets: ["High"])])

    private static let low = "internal import CLow\nimport Synchronization\n"
    private static let high = "public import struct Low.Thing\n@preconcurrency import NIOCore\n"
    private static let tests = "import Testing\n@testable import Low\n"

    private static func graph(
        _ manifest: Manifest = manifest, low: String = low, high: String = high, tests: String = tests
    ) -> ImportGraph {
        ImportGraph(
            manifest,
            files: [
                SourceFile(path: "Sources/Low/Low.swift", text: low),
                SourceFile(path: "Sources/Low/Low.docc/Resources/A.swift", text: "import SwiftUI\nimport High"),
                SourceFile(path: "Sources/High/Deep/High.swift", text: high),
                SourceFile(path: "Tests/LowTests/LowTests.swift", text: tests),
            ])
    }

    @Test func `what is declared and imported is in order`() {
        let graph = Self.graph()
        #expect(graph.undeclared() == [:])
        #expect(graph.unused() == [:])
        #expect(graph.upward() == [:])
    }

    @Test func `an import without a declaration is found`() {
        let graph = Self.graph(high: Self.high + "// import NIOPosix\n#if canImport(CLow)\n    import CLow\n#endif\n")
        let place = "Sources/High/Deep/High.swift:5"
        let found = graph.undeclared().mapValues { $0.map(\.text) }
        #expect(found == ["High->CLow": ["declare it in Package.swift: \(place) imports it"]])
        #expect(Self.graph(tests: Self.tests + "import NIOCore").undeclared().keys.sorted() == ["LowTests->NIOCore"])
    }

    @Test func `a declaration without an import is found`() {
        let graph = Self.graph(high: "import NIOCore\n// import Low\nlet a = \"import Low\"\n", tests: "import Testing")
        #expect(graph.unused().keys.sorted() == ["High->Low", "LowTests->Low"])
    }

    @Test func `a dependency on what stands further down is found`() {
        var manifest = Self.manifest
        manifest.targets.swapAt(1, 2)
        #expect(Self.graph(manifest).upward().keys.sorted() == ["High->Low"])
    }

    @Test func `the manifest is read as SwiftPM prints it`() throws {
        let json = """
            {"products": [{"name": "app", "targets": ["my-app"], "settings": [], "type": {"executable": null}}],
             "targets": [
               {"name": "CA", "type": "system", "dependencies": []},
               {"name": "my-app", "type": "executable", "path": "Code", "dependencies": [
                 {"byName": ["CA", null]}, {"target": ["B-C", {"platformNames": [], "traits": ["T"]}]},
                 {"product": ["NIOCore", "swift-nio", null, null]}]},
               {"name": "T", "type": "test", "dependencies": []}]}
            """
        let manifest = try Manifest(json: Data(json.utf8))
        #expect(
            manifest.targets == [
                .init(name: "CA", folder: "Sources/CA", dependencies: []),
                .init(name: "my-app", folder: "Code", dependencies: ["CA", "B_C", "NIOCore"]),
                .init(name: "T", folder: "Tests/T", dependencies: [], isTest: true),
            ])
        #expect(manifest.products == [.init(name: "app", targets: ["my-app"])])
    }

    @Test func `paths that a case-insensitive volume takes for one are found`() {
        #expect(clashes(["Sources/App/A.swift", "Sources/app/B.swift"]) == [["Sources/App", "Sources/app"]])
        #expect(clashes(["Tools/Fuzz/a", "Tools/fuzz"]) == [["Tools/Fuzz", "Tools/fuzz"]])
        #expect(clashes(["a/B.md", "a/b.md"]) == [["a/B.md", "a/b.md"]])
        #expect(clashes(["Sources/App/Waybill/A.swift", "Sources/App/WaybillUI/A.swift", "Tests/Waybill"]) == [])
    }

    @Test func `the list holds counts by rule and path`() throws {
        let list = try Allowances("# head\nrule 2 a b.swift\nother 1 a b.swift\n")
        let two = [Finding(line: 1, text: "x"), Finding(line: 2, text: "y")]
        #expect(list.complaints("rule", ["a b.swift": two]) == [])
        #expect(list.complaints("rule", ["a b.swift": two + [Finding(line: 3, text: "z")]]).count == 4)
        #expect(list.complaints("rule", ["a b.swift": two, "c": two]) == ["c:1: x", "c:2: y"])
        #expect(list.complaints("rule", ["a b.swift": [two[0]]]).count == 1)
        #expect(list.complaints("other", [:]).count == 1)
        #expect(list.complaints("third", [:]) == [])
    }

    @Test func `the list is lowered, never raised`() throws {
        let findings = (1...3).map { Finding(line: $0, text: "x") }
        var list = try Allowances("rule 2 a\nrule 2 b\nrule 2 c\nother 9 a\n")
        list.lower("rule", to: ["a": findings, "b": [findings[0]], "d": findings])
        #expect(try list == Allowances("rule 2 a\nrule 1 b\nother 9 a\n"))
        #expect(try Allowances(list.text) == list)
    }

    @Test(arguments: ["rule", "rule a 2", "rule 0 a", "rule -1 a"])
    func `a list that cannot be read is refused`(line: String) {
        #expect(throws: MalformedAllowance(line: line)) { try Allowances(line) }
    }
}
