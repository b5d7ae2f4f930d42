import Testing

/// Each rule catches what it is for, and only that.
@Suite struct FileRuleTests {
    private static let source = "Sources/Core/WaybillEvent/Planted.swift"

    private static func lines(_ rule: String, _ text: String, at path: String = source) throws -> [Int] {
        let rule = try #require(FileRule.named(rule))
        return rule.findings(in: [SourceFile(path: path, text: text)])[path, default: []].map(\.line)
    }

    @Test func `rules have names of their own`() {
        #expect(Set(FileRule.all.map(\.name)).count == FileRule.all.count)
    }

    @Test(arguments: bannedCalls.flatMap { call in call.patterns.map { (call.name, $0) } })
    func `a banned call is found in code, and not in text or longer names`(name: String, pattern: String) throws {
        let call = try #require(bannedCalls.first { $0.name == name })
        let path = call.applies(Self.source) ? Self.source : "Tests/WaybillEventTests/Planted.swift"
        let code = "func planted() {\n    \(pattern)\n}\n"
        let found = call.rule.findings(in: [SourceFile(path: path, text: code)])
        #expect(found == [path: [Finding(line: 2, text: "`\(pattern)`: \(call.replacement)")]])

        let first = try #require(SwiftText(pattern).tokens.first { $0.text != "=" && $0.text != "return" }).text
        let others = [
            "// \(pattern)", "/// \(pattern)", "/* /* */ \(pattern) */", "\"\(pattern)\"", "#\"\" \(pattern)\"#",
            "\"\"\"\n\(pattern)\n\"\"\"", "func `\(pattern)`() {}", pattern.replacing(first, with: first + "Like"),
            pattern.replacing(first, with: "Un" + first),
        ]
        for other in others { #expect(try Self.lines(name, other, at: path) == [], "\(other)") }
        for module in call.allowedModules {
            #expect(try Self.lines(name, pattern, at: "Sources/Room/\(module)/Planted.swift") == [])
        }
        #expect(try Self.lines(name, pattern, at: "Sources/App/Waybill/Waybill.docc/Resources/Planted.swift") == [])
        #expect(try Self.lines(name, pattern, at: "Examples/Shop/Sources/shop/Planted.swift") == [])
    }

    @Test(arguments: [
        ("print", "self.print(x)"), ("print", "func print(_ text: String)"), ("sleep", "func sleep(_ time: Duration)"),
        ("force-try", "try !x()"), ("optional-try", "try x?.y()"), ("task", "let task: Task<Void, Never>?"),
        ("task", "group.addTask { x }"), ("date", "let date: Date"), ("unsafe-global", "nonisolated func x()"),
    ])
    func `what only resembles a banned call is left alone`(rule: String, code: String) throws {
        #expect(try Self.lines(rule, code) == [])
    }

    @Test(arguments: [
        ("print", #""a \(print(x)) b""#), ("sleep", "try await Task.sleep(for: x)"), ("sleep", "Thread.sleep(x)"),
        ("task", "Task{ x }"), ("task", "Task(priority: x) { y }"), ("task", "let x = Task<Void, Never> { y }"),
    ])
    func `other forms of a banned call are found`(rule: String, code: String) throws {
        #expect(try Self.lines(rule, code) == [1])
    }

    @Test func `a simulator has a clock of its own`() throws {
        let path = "Tests/SimulatorTests/Tests/ScreensTests/ScreensTests.swift"
        #expect(try Self.lines("test-sleep", "try await Task.sleep(for: .milliseconds(10))", at: path) == [])
    }

    @Test(arguments: [
        ("final class A: @unchecked Sendable {}", false),
        ("/// A thing.\nfinal class A: @unchecked Sendable {}", false),
        ("/// `@unchecked Sendable`\nfinal class A: @unchecked Sendable {}", false),
        ("/// `@unchecked Sendable`: it is.\n\nfinal class A: @unchecked Sendable {}", false),
        ("let a = \"`@unchecked Sendable`: guarded by its lock\"\nclass A: @unchecked Sendable {}", false),
        ("/// `@unchecked Sendable`: guarded by `lock`.\nfinal class A: @unchecked Sendable {}", true),
        ("/// `@unchecked Sendable`: guarded by `lock`.\n@A final class B<\n    C\n>: @unchecked Sendable {}", true),
        ("final class A: @unchecked Sendable {}  // `@unchecked Sendable`: guarded by `lock`.", true),
        ("// @unchecked Sendable\nlet a = \"@unchecked Sendable\"", true),
    ])
    func `an unchecked conformance names its lock`(code: String, isGood: Bool) throws {
        #expect(try Self.lines("unchecked-sendable", code).isEmpty == isGood, "\(code)")
    }

    @Test func `work left for later is found in comments`() throws {
        #expect(try Self.lines("unfinished", "// TODO: x\na\n/* FIXME */") == [1, 3])
        #expect(try Self.lines("unfinished", "let TODO = \"TODO\"  // TODOS\n") == [])
    }

    @Test(arguments: [
        ("self.logger.warning(\"a\")", false), ("logger.error(\n    isA ? \"a\" : \"b\", metadata: [:])", false),
        ("logger.critical(text)", false), ("self.logger.log(level: level, \"a\")", false),
        ("self.logger.warning(.fileCut, \"a\")", true), ("logger.error(\n    .fileCut,\n    \"a\")", true),
        ("logger.log(.fileCut, level: .error, \"a\")", true), ("logger.info(\"a\")", true),
        ("// logger.warning(a)", true), ("disk.error(code)", true),
    ])
    func `a warning has an identifier`(code: String, isGood: Bool) throws {
        #expect(try Self.lines("unnamed-warning", "func a() {\n    \(code)\n}\n").isEmpty == isGood, "\(code)")
    }

    /// A declaration whose body has `count` lines between the braces.
    private static func long(_ head: String, _ count: Int) -> String {
        "struct A {\n    \(head) {\n\(String(repeating: "        x()\n", count: count))    }\n}\n"
    }

    @Test(arguments: [
        "func a()", "func a(\n        b: () -> Void = {}\n    ) throws(E) -> C", "init(a: Int)", "deinit", "var a: Int",
        "subscript(a: Int) -> Int", "func a<B>() where B: C", "func `a name`()",
    ])
    func `a function has at most 70 lines`(head: String) throws {
        let own = head.split(separator: "\n").count + 1
        #expect(try Self.lines("long-function", Self.long(head, 70 - own)) == [])
        #expect(try Self.lines("long-function", Self.long(head, 71 - own)) == [2])
    }

    @Test(arguments: ["extension B", "struct B", "let a = b", "var a = B()\n    struct B", "self.init()\n    do"])
    func `what is no function may be longer`(head: String) throws {
        #expect(try Self.lines("long-function", Self.long(head, 100)) == [])
    }

    @Test func `a requirement has no body, though a type with one follows`() throws {
        let code = "protocol A {\n    func a() -> Int\n    var b: Int { get }\n}\n" + Self.long("extension B", 100)
        #expect(try Self.lines("long-function", code) == [])
    }

    @Test func `a type has at most 20 stored properties`() throws {
        let stored = ["let a = 1", "private(set) var a: Int", "var a = { 1 }()", "var a = 1 {\n didSet { b() }\n }"]
        let others = [
            "static let a = 1", "var a: Int { 1 }", "func a() {\n let b = 1\n }", "enum B { case a }",
            "init(a: Int) {}",
            "struct C {\n let a = 1\n }",
        ]
        for property in stored {
            let twenty = String(repeating: "let a = 1\n", count: 20)
            let code = "struct A {\n\(twenty)\(others.joined(separator: "\n"))\n"
            #expect(try Self.lines("many-properties", code + "}\n") == [])
            #expect(try Self.lines("many-properties", code + property + "\n}\n").count == 1, "\(property)")
        }
    }

    @Test func `a file has at most 500 lines`() throws {
        #expect(try Self.lines("long-file", String(repeating: "\n", count: 500)) == [])
        #expect(try Self.lines("long-file", String(repeating: "\n", count: 501)) == [501])
    }

    @Test func `cases and requirements that are public are documented`() throws {
        let code = """
            /// A.
            public enum A {
                case a
                /// B.
                case b(Int)
                /// C.
                @available(*, deprecated)
                case c

                func d() { switch self { case .a: break } }
            }
            public protocol B {
                func a()
                /// B.
                var b: Int { get }
            }
            enum C {
                case a
            }
            """
        #expect(try Self.lines("undocumented", code) == [3, 13])
    }

    @Test func `no public type has the name of a module`() throws {
        #expect(try Self.lines("module-name", "public final class Observation {}\npublic enum Logging {}") == [1, 2])
        #expect(try Self.lines("module-name", "class Observation {}\npackage struct Logging {}") == [])
        #expect(try Self.lines("module-name", "public struct A {\n    public enum State {}\n}") == [])
        #expect(try Self.lines("module-name", "// public struct Testing\npublic struct ObservationToken {}") == [])
        let shadow = SourceFile(path: Self.source, text: "public final class Waybill {}")
        #expect(typeNames(apartFrom: ["Waybill"]).findings(in: [shadow]).keys.sorted() == [Self.source])
    }

    @Test func `phrases are found in pages, comments and strings`() throws {
        #expect(try Self.lines("prose", "// It is read\n// anew.\nlet a = \"unless said otherwise\"") == [2, 3])
        #expect(try Self.lines("prose", "// It holds unless said\n// otherwise.") == [1])
        #expect(try Self.lines("prose", "let anew = whoever") == [])
        #expect(try Self.lines("prose", "// canew whoevers") == [])
        #expect(try Self.lines("prose", "# Title\n\nNobody's files.\n", at: "Documentation/a.md") == [3])
        #expect(try Self.lines("prose", "The words SHALL and MUST.\n", at: "Protocol/protocol.md") == [])
        #expect(try Self.lines("prose", "// anew", at: "Tests/WaybillTests/A.swift") == [])
    }
}
