import Testing
import WaybillSystem
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
        ("/log/*.{log,json}", "/log/a.json", true), ("/log/*.{log,json}", "/log/a.txt", false),
        ("/{var,srv/app}/*.log", "/srv/app/a.log", true), ("/{var,srv/app}/*.log", "/srv/a.log", false),
        ("/log/{a,{b,c}d}", "/log/cd", true), ("/log/{a,{b,c}d}", "/log/c", false), ("/log/{a,}x", "/log/x", true),
        ("/log/{a}", "/log/{a}", true), ("/log/{a,b", "/log/{a,b", true), ("/log/[{]a,b}", "/log/{a,b}", true),
        ("/log/{[,}],b}", "/log/,", true), ("{/log,sub}/x", "/log/x", true), ("{/log,sub}/x", "sub/x", true),
        ("{/log,sub}/x", "/sub/x", false), ("/**/x", "/x", true), ("/**/x", "/a/b/x", true),
        ("/**/x", "/a/.b/x", false), ("/log/**", "/log/a/b", true), ("/log/**", "/log", false),
        ("/log/**", "/log/.a", false), ("/log/**/**/*.log", "/log/a.log", true), ("/log/**.log", "/log/a/b.log", false),
        ("/**/a/**/b", "/a/x/a/y/b", true), ("/**/a/**/b", "/a/x/b/c", false), ("**/x", "a/x", true),
        ("**/x", "/a/x", false), ("/log/**/.a/*", "/log/b/.a/x", true), ("/", "/", false), ("", "", false),
        ("/**/" + String(repeating: "a/", count: 32) + "x", "/" + String(repeating: "a/", count: 33) + "x", true),
        ("/**/x", "/" + String(repeating: "a/", count: 32) + "x", true),
        ("/**/x", "/" + String(repeating: "a/", count: 33) + "x", false),
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

    @Test func `a path with braces is quoted`() {
        #expect(GlobPattern(GlobPattern.quoted("/a{b,c}/**/x")).matches("/a{b,c}/**/x"))
        #expect(!GlobPattern(GlobPattern.quoted("/a{b,c}/**/x")).matches("/ab/x"))
    }

    @Test(arguments: [
        ("/log/*", nil), ("/{a,b}{c,d}", nil), (String(repeating: "{a,b}", count: 6), nil),
        (String(repeating: "{a,b}", count: 7), "has more than 64 choices in braces; write several patterns"),
        (String(repeating: "{a,b}", count: 400), "has more than 64 choices in braces; write several patterns"),
        (
            String(repeating: "{a,", count: 400) + String(repeating: "}", count: 400),
            "has more than 64 choices in braces; write several patterns"
        ),
        (String(repeating: "{a,", count: 400), nil),
        (String(repeating: "a", count: 2049), "is longer than 2048 bytes; shorten it"),
    ])
    func `a pattern with more choices than anybody writes is refused`(pattern: String, problem: String?) {
        #expect(GlobPattern.problem(of: pattern) == problem)
    }

    /// The work is counted, not timed: a matcher that tries everything would not end.
    @Test func `hostile patterns end`() {
        let stars = String(repeating: "*a", count: 200) + "b"
        let name = String(repeating: "a", count: 255)
        #expect(!GlobPattern("/\(stars)").matches("/\(name)"))
        let folders = String(repeating: "**/a/", count: 200) + "b"
        #expect(!GlobPattern("/\(folders)").matches("/" + String(repeating: "a/", count: 30) + "a"))
        let braces = "/" + String(repeating: "{**/a,**/a/**}/", count: 6) + "b"
        #expect(!GlobPattern(braces).matches("/" + String(repeating: "a/", count: 30) + "a"))
        let sets = String(repeating: "[", count: 2000)
        #expect(GlobPattern("/\(sets)").matches("/\(sets)"))
    }

    // MARK: Walks

    private func expand(
        _ pattern: String, on files: FaultyFiles, _ links: GlobPattern.LinkRule = .followed
    ) -> GlobPattern.Expansion {
        var expansion = GlobPattern.Expansion()
        GlobPattern(pattern).expand(on: files, links, into: &expansion)
        return expansion
    }

    @Test func `a walk finds what the pattern matches, and lists each folder once`() {
        let files = FaultyFiles()
        let paths = ["/var/a.log", "/var/a/a.log", "/var/a/b/a.log", "/var/a/.c/a.log", "/var/b/x.json", "/srv/a.log"]
        for path in paths { files.place(path, Array("x".utf8)) }
        for pattern in [
            "/var/**", "/var/**/*.log", "/**/a/**/*.log", "/{var,srv}/*.log", "/{var,srv}/**/*.{log,json}",
            "/var/**/.c/*",
            "/{var/a,var/*}/*.log", "/var/{a,b}/**", "/**/{a,b}/{a,b}/*", "/var/a/b/a.log",
        ] {
            let expansion = self.expand(pattern, on: files)
            let expected = paths.filter { GlobPattern(pattern).matches($0) }
            #expect(Set(expansion.paths).intersection(paths) == Set(expected), "\(pattern)")
            #expect(!expected.isEmpty, "\(pattern)")
            #expect(Set(expansion.paths).count == expansion.paths.count, "\(pattern)")
            #expect(Set(expansion.directories).count == expansion.directories.count, "\(pattern)")
            // A file can appear in each folder that is watched, and in no other one.
            #expect(Set(expected.map { Path.parent(of: $0) }).isSubset(of: expansion.directories), "\(pattern)")
            #expect(expansion.failures == [])
        }
    }

    @Test(arguments: [GlobPattern.LinkRule.followed, .ownPart])
    func `links that lead round are not followed by any folders`(rule: GlobPattern.LinkRule) {
        let files = FaultyFiles()
        files.place("/srv/log/a/x.log", Array("x".utf8))
        files.memory.link("/var", to: "/srv")
        files.memory.link("/srv/log/a/round", to: "/srv/log")
        files.memory.link("/srv/log/other", to: "/srv/log/a")
        files.memory.link("/srv/log/y.log", to: "/srv/log/a/x.log")
        let expansion = self.expand("/var/log/**/*.log", on: files, rule)
        #expect(expansion.paths.sorted() == ["/var/log/a/x.log", "/var/log/y.log"])
        #expect(expansion.directories.sorted() == ["/var/log", "/var/log/a"])
        #expect(expansion.links.sorted() == (rule == .followed ? [] : ["/var/log/a/round", "/var/log/other"]))
        // Beside the `**`, a component of its own is as in any pattern.
        let named = self.expand("/var/log/**/round/*.log", on: files, rule)
        #expect(named.paths == (rule == .followed ? ["/var/log/a/round/y.log"] : []))
    }

    @Test func `a walk goes no deeper than a pattern matches`() {
        let files = FaultyFiles()
        for depth in [31, 32, 33, 60] { files.place("/" + String(repeating: "a/", count: depth) + "x", [0x78]) }
        let pattern = GlobPattern("/**/x")
        let paths = self.expand("/**/x", on: files).paths
        #expect(paths.map { Path.components(of: $0).count - 1 }.sorted() == [31, 32])
        #expect(paths.allSatisfy { pattern.matches($0) })
    }
}

struct FilePatternsTests {
    @Test(arguments: [
        ("*.gz", "/log/a.log.gz", false), ("*.gz", "/log/a.log", true), ("*.gz", "/log/x.gz/a.log", true),
        ("a.log", "/log/a.log", false), ("/log/old", "/log/old/a.log", false),
        ("/log/old/**", "/log/old/b/a.log", false),
        ("/log/old", "/log/older/a.log", true), ("**/old", "/log/x/old/a.log", false), ("**/old", "/log/old", false),
        ("/log/*/tmp", "/log/x/tmp/y/a.log", false), ("/log/*/tmp", "/log/tmp/a.log", true),
        ("{*.gz,*.zst}", "/log/a.zst", false),
        ("old/*.log", "/log/old/a.log", true), ("/**", "/log/a.log", false), ("**", "/log/a.log", false),
        ("*", "/log/a.log", false),
    ])
    func `a file is left out by its name, its path or its folder`(exclude: String, path: String, isMatch: Bool) {
        #expect(FilePatterns(["/log/**"], without: [exclude]).matches(path) == isMatch)
    }

    @Test func `a walk leaves out what the patterns leave out, and does not enter their folders`() {
        let files = FaultyFiles()
        let paths = ["/log/a.log", "/log/a.log.gz", "/log/b/a.log", "/log/private/x/a.log", "/log/private/a.gz"]
        for path in paths { files.place(path, Array("x".utf8)) }
        for excludes in [
            ["*.gz"], ["/log/private"], ["**/private", "*.gz"], ["/log/private/**"], ["/log/*/a.*"], ["**"],
        ] {
            let patterns = FilePatterns(["/log/**"], without: excludes)
            var expansion = GlobPattern.Expansion()
            var found: [String] = []
            patterns.expand(on: files, .ownPart, into: &expansion) { found.append($0) }
            #expect(found.filter(paths.contains).sorted() == paths.filter(patterns.matches).sorted(), "\(excludes)")
            let isEntered = expansion.directories.contains { $0.hasPrefix("/log/private") }
            #expect(isEntered == ["*.gz", "/log/*/a.*"].contains(excludes[0]), "\(excludes)")
        }
    }

    @Test(arguments: [
        (["/log/*.log"], ["*.gz"], []), (["/log/**/*.log"], ["/log/old", "**/tmp/**"], []),
        (["log/*.log"], [], ["log/*.log is looked for in the folder"]), (["./log/*.log"], ["./log/old", "*.gz"], []),
        (["/"], [], ["/ matches no file"]), (["/log/.."], [], ["/log/.. matches no file"]),
        (["/log/*.log"], ["*"], ["/log/*.log matches no file, for exclude"]),
        (["/log/*.log", "/log/*.json"], ["*.log"], ["/log/*.log matches no file, for exclude"]),
        (["/log/a*.log"], ["*.l?g"], ["/log/a*.log matches no file, for exclude"]),
        (["/log/[ab].log"], ["?.log"], ["/log/[ab].log matches no file, for exclude"]),
        (["/log/**/*.log"], ["/log"], ["/log/**/*.log matches no file, for exclude"]),
        (["/log/*/x/*.log"], ["/log/**/x"], ["/log/*/x/*.log matches no file, for exclude"]),
        (["/log/*.log"], ["a*.log", "*a.log", "[!x].log", "/log/a.log", "/log/*/x"], []),
        (["/log/*.log"], ["log/*.gz"], ["log/*.gz leaves nothing out, for the patterns of files are absolute"]),
        (["/log/*.log"], ["/lgo/*.log"], ["/lgo/*.log leaves nothing out, for no pattern of files leads there"]),
        (["/log/a.log"], ["/log/a.log/b"], ["/log/a.log/b leaves nothing out, for no pattern of files leads there"]),
    ])
    func `what can never match is doubted`(files: [String], excludes: [String], doubts: [String]) {
        let found = FilePatterns(files, without: excludes).doubts
        #expect(found.count == doubts.count, "\(found)")
        for (doubt, expected) in zip(found, doubts) {
            #expect("\(doubt.pattern) \(doubt.text)".hasPrefix(expected), "\(doubt)")
        }
    }
}
