import Testing

/// Text is told from code in each form that Swift has.
@Suite struct SwiftTextTests {
    @Test(arguments: [
        ("a // b\nc", ["a", "c"]),
        ("a /* b /* c */ d */ e", ["a", "e"]),
        ("a /* b", ["a"]),
        (#"a "b // c" d"#, ["a", "d"]),
        (#"a "b \" c" d"#, ["a", "d"]),
        (#"a "\\" b "c""#, ["a", "b"]),
        ("a \"\"\"\n  b \"c\" // d\n  \"\"\" e", ["a", "e"]),
        (##"a #"b " \(c) \"# d"##, ["a", "d"]),
        ("a #\"\"\"\n  b \"\"\" c\n  \"\"\"# d", ["a", "d"]),
        (##"a #"b \#(c) d"# e"##, ["a", "c", "e"]),
        (#"a "b \(c("d", e)) f" g"#, ["a", "c", "(", ",", "e", ")", "g"]),
        (#"a "b \(c ? "d" : "e \(f)") g" h"#, ["a", "c", "?", ":", "f", "h"]),
        ("a \"\" b", ["a", "b"]),
        ("a #/ b \" c /# d", ["a", "d"]),
        ("func `b \" c // d`() {}", ["func", "(", ")", "{", "}"]),
        ("#if a\nb", ["#", "if", "a", "b"]),
        ("a / b / c", ["a", "/", "b", "/", "c"]),
        ("a.b_1 = ü", ["a", ".", "b_1", "=", "ü"]),
        ("a \"b\nc", ["a", "c"]),
    ])
    func `code is what is neither a comment nor a literal`(source: String, code: [String]) {
        #expect(SwiftText(source).tokens.map(\.text) == code)
    }

    @Test func `lines are counted, and divided by kind`() {
        let text = SwiftText("a // b\n\"c\"\n\nlast\n")
        #expect(text.lineCount == 4)
        #expect(text.tokens.map(\.line) == [1, 4])
        #expect(text.line(1, [.code]) == "a")
        #expect(text.line(1, [.comment]) == "// b")
        #expect(text.line(2, [.literal]) == "\"c\"")
        #expect(text.line(3, [.code, .comment, .literal]) == "")
        #expect(text.line(5, [.code]) == "")
        #expect(SwiftText("").lineCount == 0)
        #expect(SwiftText("a").lineCount == 1)
    }
}
