import Testing
import WaybillTail
import WaybillTestSupport

struct GlobPatternTests {
    @Test(arguments: [
        ("/log/*.log", "/log/a.log", true), ("/log/*.log", "/log/.log", false), ("/log/*.log", "/log/a.log.1", false),
        ("/log/*.log", "/log/x/a.log", false), ("/log/a?c", "/log/abc", true), ("/log/a?c", "/log/aéc", true),
        ("/log/a?c", "/log/ac", false), ("/log/[a-c]x", "/log/bx", true), ("/log/[a-c]x", "/log/dx", false),
        ("/log/[!a-c]x", "/log/dx", true), ("/log/[^a-c]x", "/log/ax", false), ("/log/[]]x", "/log/]x", true),
        ("/log/[*]", "/log/*", true), ("/log/[*]", "/log/a", false), ("/log/[ab", "/log/[ab", true),
        ("/*/app/*", "/var/app/x", true), ("/*/app/*", "/var/other/x", false), ("/log/**a*b*", "/log/xaxxbx", true),
        ("/log/*a*b", "/log/aabab", true), ("/log/*a*b", "/log/aaba", false), ("/log/.*", "/log/.x", true),
        ("log/*", "/log/x", false), ("log/*", "log/x", true), ("/log/plain", "/log/plain", true),
        // A combining mark makes one character of the slash before it, and of the letter before it another one.
        (".*", ".*/\u{30F}x", false), ("/log/?x", "/log/\u{30F}x", true), ("/\u{30F}*", "/\u{30F}x", true),
        ("/log/a\u{308}", "/log/ä", false), ("/log/a\u{308}", "/log/a\u{308}", true),
    ])
    func `a pattern matches as a shell's does`(pattern: String, path: String, isMatch: Bool) {
        #expect(GlobPattern(pattern).matches(path) == isMatch)
    }

    @Test
    func `a path that has characters of patterns is quoted`() {
        let pattern = GlobPattern(GlobPattern.quoted("/sp[a]ol*/x?") + "/*.ndjson")
        #expect(pattern.matches("/sp[a]ol*/x?/1.ndjson"))
        #expect(!pattern.matches("/spaolb/xy/1.ndjson"))
        let files = FaultyFiles()
        for directory in ["/sp[a]ol*", "/sp[a]ol*/x?", "/spaolb", "/spaolb/xy"] { files.makeDirectory(directory) }
        for path in ["/sp[a]ol*/x?/1.ndjson", "/spaolb/xy/2.ndjson"] { files.append(path, "x") }
        var expansion = GlobPattern.Expansion()
        pattern.expand(on: files, into: &expansion)
        #expect(expansion.paths == ["/sp[a]ol*/x?/1.ndjson"])
    }

    @Test
    func `a wildcard with a combining mark is quoted`() {
        let quoted = GlobPattern(GlobPattern.quoted("/a*\u{308}/b"))
        #expect(quoted.matches("/a*\u{308}/b") && !quoted.matches("/ax\u{308}/b"))
    }

    @Test
    func `an expansion lists the matches and the directories in which more can appear`() {
        let files = FaultyFiles()
        for directory in ["/var", "/var/a", "/var/b", "/var/c", "/var/a/log", "/var/b/log"] {
            files.makeDirectory(directory)
        }
        for path in ["/var/a/log/2.log", "/var/a/log/1.log", "/var/b/log/x.txt", "/var/b/log/3.log", "/var/d"] {
            files.append(path, "x")
        }
        var expansion = GlobPattern.Expansion()
        GlobPattern("/var/*/log/*.log").expand(on: files, into: &expansion)
        #expect(expansion.paths == ["/var/a/log/1.log", "/var/a/log/2.log", "/var/b/log/3.log"])
        #expect(expansion.directories == ["/var", "/var/a/log", "/var/b/log"])
        #expect(expansion.failures == [])
    }
}
