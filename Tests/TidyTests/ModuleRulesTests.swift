import Testing

/// The rules about modules, on a planted package.
@Suite struct ModuleRulesTests {
    private static let folders = [
        "Low": "Sources/Core/Low", "Wire": "Sources/Core/Wire", "Store": "Sources/Cloud/Store",
        "Tail": "Sources/Agent/Tail", "Bench": "Tests/Support/Bench", "LowTests": "Tests/LowTests",
    ]
    private static let imports = [
        "Low": ["CLow", "Glibc"], "Wire": ["Low", "NIOCore"], "Store": ["Low", "Wire"], "Tail": ["Low"],
        "Bench": ["CWire", "Store", "Testing"], "LowTests": ["Low", "Testing"],
    ]
    private static let forbidden = [
        "Core": "Agent, Cloud", "Low": "Core, packages", "Wire": "`Testing`", "Cloud": "Agent", "Store": "`CWire`",
        "Agent": "Cloud", "Tail": "`NIO…`", "Tests/Support": "Agent", "Bench": "`Tail`",
    ]

    /// - Parameter changes: imports in place of the usual ones.
    private static func graph(_ changes: [String: [String]] = [:]) -> ImportGraph {
        let imports = Self.imports.merging(changes) { $1 }
        // Packages are known by what the manifest declares.
        let targets = Self.folders.sorted { $0.key < $1.key }.map { name, folder in
            Manifest.Target(
                name: name, folder: folder, dependencies: imports[name, default: []].filter { $0 == "NIOCore" },
                isTest: name == "LowTests")
        }
        let files = Self.folders.map { name, folder in
            SourceFile(
                path: "\(folder)/A.swift", text: imports[name, default: []].map { "import \($0)\n" }.joined())
        }
        return ImportGraph(Manifest(targets: targets), files: files)
    }

    private static func table(_ changes: [String: String] = [:]) -> ModuleTable {
        let rows = Self.forbidden.merging(changes) { $1 }.map { name, cell in
            let isRoom = name.contains("/") || ["Core", "Cloud", "Agent"].contains(name)
            return "| \(isRoom ? "**\(name)**" : "`\(name)` (product)") | holds | \(cell) | `A.swift`, `B.swift` |\n"
        }
        return ModuleTable(page: "# A\n\n| `No` | row | Core | |\n\n## Modules\n\n\(rows.joined())\n## Threads\n")
    }

    private static func problems(_ imports: [String: [String]] = [:], _ rows: [String: String] = [:]) -> [String] {
        Self.graph(imports).problems(with: Self.table(rows))
    }

    @Test func `modules that keep to the table are in order`() {
        #expect(Self.problems() == [])
    }

    @Test func `a forbidden import is found by its room, its name, its beginning and as a package`() {
        #expect(Self.problems(["Tail": ["NIOCore"]]) == ["Tail may not import `NIO…`: Tail → NIOCore"])
        #expect(Self.problems(["Store": ["CWire"]]).contains("Store may not import `CWire`: Store → CWire"))
        #expect(Self.problems(["Wire": ["Tail"]]).contains("Wire may not import Agent: Wire → Tail"))
        #expect(Self.problems(["Low": ["NIOCore"]]).contains("Low may not import packages: Low → NIOCore"))
    }

    @Test func `a forbidden import is found through other modules`() {
        #expect(Self.problems(["Tail": ["Wire"]]) == ["Tail may not import `NIO…`: Tail → Wire → NIOCore"])
    }

    @Test func `a room in a row of its own stands for the other modules`() {
        #expect(Self.problems([:], ["Wire": "Core"]).contains("Wire may not import Core: Wire → Low"))
    }

    @Test func `a row that says nothing, and a name that names nothing, are found`() {
        for name in ["Bench", "Cloud"] {
            let missing = "\(name): its row does not say what it may not import"
            #expect(Self.problems([:], [name: ""]).contains(missing))
        }
        for term in ["`Fondation`", "`Fondation…`", "Sky", "package"] {
            let unknown = "\(term) names no room, no module and no import"
            #expect(Self.problems([:], ["Agent": term]).contains(unknown))
        }
    }

    @Test func `a row of nothing is found, and what to start at is read`() {
        #expect(Self.problems([:], ["Gone": "Core"]) == ["Gone is no module and no room"])
        #expect(Self.table().entries["Low"] == ["A.swift", "B.swift"])
    }

    @Test func `the picture leaves out what is implied, and what no product holds`() {
        let picture = """
            flowchart LR
                subgraph Agent
                    Tail
                end
                subgraph Cloud
                    Store
                end
                subgraph Core
                    Low
                    Wire
                end
                Store --> Wire
                Tail --> Low
                Wire --> Low

            """
        #expect(Self.graph().picture == picture)
    }
}
