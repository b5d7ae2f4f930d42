import Testing
import WaybillYAML

@Suite struct YAMLNodeTests {
    private static func problem(_ text: String) -> YAMLError? {
        do throws(YAMLError) {
            _ = try YAMLNode.document(text)
            return nil
        } catch {
            return error
        }
    }

    @Test func `values are found with their lines`() throws {
        let root = try #require(try YAMLNode.document("# head\na: 1\nb:\n  - x\n  - \"2\"\nc: {d: ~}\n"))
        let pairs = try #require(root.mapping)
        #expect(pairs.map(\.key.string) == ["a", "b", "c"])
        #expect(pairs.map(\.key.line) == [2, 3, 6])
        #expect(pairs[0].value.int == 1)
        let list = try #require(pairs[1].value.sequence)
        #expect(list.map(\.string) == ["x", "2"])
        #expect(list.map(\.isPlain) == [true, false])
        #expect(list[1].int == nil)
        #expect(pairs[2].value.mapping?.first?.value.string == "~")
        #expect(root.string == nil && root.sequence == nil && !root.isScalar)
    }

    @Test(arguments: [
        ("7", 7), ("-3", -3), ("10_000", 10_000), ("+4", 4), ("9223372036854775807", Int.max),
    ])
    func `whole numbers`(_ text: String, _ value: Int) throws {
        #expect(try YAMLNode.document(text)?.int == value)
    }

    @Test(arguments: ["'7'", "7.0", "1e3", "_1", "1_", "9223372036854775808", "seven", "[7]", "\"\""])
    func `no whole numbers`(_ text: String) throws {
        #expect(try YAMLNode.document(text)?.int == nil)
    }

    @Test(arguments: [("on", true), ("Yes", true), ("TRUE", true), ("off", false), ("no", false), ("False", false)])
    func `booleans`(_ text: String, _ value: Bool) throws {
        #expect(try YAMLNode.document(text)?.bool == value)
        #expect(try YAMLNode.document("'\(text)'")?.bool == nil)
    }

    @Test(arguments: ["", "# nothing\n", "\n\n"])
    func `no document`(_ text: String) throws {
        #expect(try YAMLNode.document(text) == nil)
    }

    @Test func `a substituted value stays one scalar, and keys keep their text`() throws {
        let text = "$a: [x, '$b']\nc: $d\n"
        let root = try YAMLNode.document(text) { (text) throws(YAMLSubstitutionError) in
            switch text {
            case "$b": return "1, 2]\nevil: {"
            case "$d": throw YAMLSubstitutionError("no d")
            default: return text
            }
        }
        let pairs = try #require(root?.mapping)
        #expect(pairs.map(\.key.string) == ["$a", "c"])
        let list = try #require(pairs[0].value.sequence)
        #expect(list.map(\.string) == ["x", "1, 2]\nevil: {"])
        #expect(list.map(\.originalText) == [nil, "$b"])
        #expect(pairs[1].value.substitutionError?.description == "no d" && pairs[1].value.line == 2)
    }

    @Test func `an alias is the value that its anchor names`() throws {
        let root = try #require(try YAMLNode.document("a: &x [1, 2]\nb: *x\n"))
        #expect(root.mapping?[1].value.sequence?.map(\.int) == [1, 2])
    }

    /// Each level names the one before it ten times: no one may multiply that out.
    @Test func `aliases of aliases cost nothing`() throws {
        var text = "a0: &a0 [x]\n"
        for level in 1...60 {
            let alias = "*a\(level - 1)"
            text += "a\(level): &a\(level) [\(Array(repeating: alias, count: 10).joined(separator: ","))]\n"
        }
        #expect(try YAMLNode.document(text)?.mapping?.count == 61)
    }

    @Test func `a key given twice is named, at any depth`() {
        let problem = Self.problem("a:\n  b: 1\n  c: 2\n  b: 3\n")
        #expect(problem?.line == 4)
        #expect(problem?.duplicateKey == "b")
    }

    @Test(arguments: [
        ("a: [1", 2), ("a: 1\n b: 2\n", 2), ("a: 'x\n", 2), ("\tb: 1\n", 1), ("a: *x\n", 1), ("a: 1\n---\nb: 2\n", 3),
        ("a: \u{0}\n", 1),
    ])
    func `what is no YAML has its line`(_ text: String, _ line: Int) throws {
        let problem = try #require(Self.problem(text))
        #expect(problem.line == line, "\(problem)")
        #expect(problem.duplicateKey == nil)
        #expect(!problem.description.isEmpty)
    }

    @Test func `depth is bounded`() {
        #expect(Self.problem(String(repeating: "[", count: 5_000)) != nil)
    }
}
