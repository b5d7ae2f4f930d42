import Testing
import WaybillSystem
import WaybillTail
import WaybillTestSupport

/// Looks at a part of the files.
struct TailLookTests {
    let files = FaultyFiles()

    private func bench(_ pattern: String, without excludes: [String] = []) throws -> TailBench<FaultyFiles> {
        let source = SourceConfiguration(name: "0:x", kind: .files(patterns: [pattern]), excludes: excludes)
        return try TailBench(self.files, sources: [source])
    }

    /// Looks at a folder; returns those that were listed.
    private func look(at folder: String, _ bench: TailBench<FaultyFiles>) -> [String] {
        var entered: [String] = []
        let now = bench.now
        bench.withTail { $0.pathsChanged([], folders: [folder], now) { folder, _ in entered.append(folder) } }
        bench.ship()
        return entered
    }

    @Test
    func `a new folder is looked at, and no other one`() throws {
        self.files.makeDirectory("/pods")
        for name in ["1", "2"] { self.files.makeDirectory("/pods/" + name) }
        let bench = try self.bench("/pods/*/*.log")
        bench.run()
        self.files.append("/pods/1/a.log", "missed\n")
        self.files.makeDirectory("/pods/3")
        self.files.append("/pods/3/a.log", "new\n")
        #expect(self.look(at: "/pods/3", bench) == ["/pods/3"])
        #expect(bench.texts == ["new\n"])
        bench.run()
        #expect(bench.texts.sorted() == ["missed\n", "new\n"])
    }

    @Test
    func `folders above the first wildcard, files and names that only begin alike are told apart`() throws {
        for folder in ["/pods", "/pods/1", "/pods/1/log", "/pods/10", "/pods/10/log"] {
            self.files.makeDirectory(folder)
        }
        let bench = try self.bench("/pods/*/log/*.log")
        bench.run()
        self.files.append("/pods/1/log/a.log", "one\n")
        self.files.append("/pods/10/log/a.log", "ten\n")
        #expect(self.look(at: "/pods/1", bench) == ["/pods/1/log"])
        #expect(bench.texts == ["one\n"])
        #expect(self.look(at: "/other", bench) == [])
        #expect(self.look(at: "/", bench) == ["/pods", "/pods/1/log", "/pods/10/log"])
        #expect(bench.texts == ["one\n", "ten\n"])
    }

    @Test
    func `a look at a folder finds what the scan finds there`() throws {
        let folders = [
            "/log", "/log/a", "/log/a/b", "/log/a/old", "/log/a/old/b", "/log/.a", "/web", "/web/a", "/web/a/b",
        ]
        for folder in folders { self.files.makeDirectory(folder) }
        for name in ["/log/x.log", "/log/a/x.log", "/log/a/b/x.log", "/log/a/b/y.log", "/log/a/old/b/x.log"] {
            self.files.append(name, "")
            self.files.append(name + ".gz", "")
        }
        for pattern in [
            "/log/**", "/log/**/*.log", "/{log,web}/**/b/*", "/log/*/b/*.log", "/**/b/{x,y}.log", "/log/a/*",
        ] {
            for excludes in [[], ["**/old"], ["/log/a/b"], ["*.gz", "/log/a"]] {
                let patterns = FilePatterns([pattern], without: excludes)
                let all = self.walk(patterns, within: nil)
                for scope in folders {
                    let found = self.walk(patterns, within: scope)
                    let isInScope = { (path: String) in path == scope || path.hasPrefix(scope + "/") }
                    let note = Comment(rawValue: "\(pattern) without \(excludes) in \(scope)")
                    #expect(found.files.filter(isInScope) == all.files.filter(isInScope), note)
                    #expect(found.entered == all.entered.filter(isInScope), note)
                }
            }
        }
    }

    private func walk(_ patterns: FilePatterns, within scope: String?) -> (files: [String], entered: [String]) {
        var expansion = GlobPattern.Expansion()
        var (found, entered): ([String], [String]) = ([], [])
        patterns.expand(
            on: self.files, .followed, within: scope, into: &expansion, enter: { entered.append($0) },
            visit: { found.append($0) })
        return (found, entered)
    }

    @Test
    func `a folder that is left out is neither looked at nor watched, and a hint from it ships nothing`() throws {
        for folder in ["/log", "/log/a", "/log/a/old"] { self.files.makeDirectory(folder) }
        let bench = try self.bench("/log/**/*.log", without: ["**/old", "b.log"])
        bench.run()
        for name in ["/log/a/old/a.log", "/log/a/b.log", "/log/a/c.log"] { self.files.append(name, "one\n") }
        #expect(self.look(at: "/log/a/old", bench) == [])
        bench.hint("/log/a/old/a.log", "/log/a/b.log")
        bench.ship()
        #expect(bench.texts == [])
        #expect(self.look(at: "/log/a", bench) == ["/log/a"])
        #expect(bench.texts == ["one\n"])
        self.files.makeDirectory("/log/a/new")
        self.files.makeDirectory("/log/a/new/x")
        self.files.append("/log/a/new/x/a.log", "two\n")
        #expect(self.look(at: "/log/a/new", bench) == ["/log/a/new", "/log/a/new/x"])
        #expect(bench.texts == ["one\n", "two\n"])
        #expect(bench.withTail { $0.watchDirectories } == ["/log", "/log/a", "/log/a/new", "/log/a/new/x"])
    }

    @Test
    func `a folder that is gone loses its files, and the one in its place begins`() throws {
        for folder in ["/pods", "/pods/1"] { self.files.makeDirectory(folder) }
        let bench = try self.bench("/pods/*/*.log")
        self.files.append("/pods/1/a.log", "one\n")
        bench.run()
        self.files.append("/pods/1/a.log", "two\n")
        self.files.move("/pods/1", "/pods/old")
        self.files.makeDirectory("/pods/1")
        self.files.append("/pods/1/a.log", "uno\n")
        #expect(self.look(at: "/pods/1", bench) == ["/pods/1"])
        #expect(bench.texts == ["one\n", "uno\n"])
        self.checkFreshFiles(bench)
        #expect(bench.texts == ["one\ntwo\n", "uno\n"])
    }

    @Test
    func `a folder is entered before it is listed, and one that is missing too`() throws {
        let bench = try self.bench("/later/*.log")
        var entered: [String] = []
        let now = bench.now
        bench.withTail { tail in
            tail.scan(now) { folder, _ in
                entered.append(folder)
                self.files.makeDirectory("/later")
            }
            tail.scan(now) { folder, _ in
                entered.append(folder)
                // Comes after the watch and before the list.
                self.files.append("/later/a.log", "one\n")
            }
        }
        bench.ship()
        #expect(entered == ["/later", "/later"])
        #expect(bench.texts == ["one\n"])
    }

    @Test
    func `a file that was written to lately is looked at without a hint, until it rests`() throws {
        self.files.makeDirectory("/log")
        let bench = try self.bench("/log/*.log")
        self.files.append("/log/old.log", "zero\n")
        bench.run()
        self.files.append("/log/a.log", "one\n")
        bench.run()
        self.files.append("/log/a.log", "two\n")
        self.checkFreshFiles(bench)
        #expect(bench.texts == ["zero\n", "one\ntwo\n"])
        // A rotation.
        self.files.append("/log/a.log", "three\n")
        self.files.move("/log/a.log", "/log/a.log.1")
        self.files.append("/log/a.log", "uno\n")
        self.checkFreshFiles(bench)
        self.files.append("/log/a.log.1", "four\n")
        self.checkFreshFiles(bench)
        #expect(bench.texts == ["zero\n", "one\ntwo\nthree\nfour\n", "uno\n"])
        bench.advance(FreshFiles.age.nanoseconds / 1_000_000)
        self.checkFreshFiles(bench)
        #expect(!bench.withTail { $0.hasFreshFiles })
        self.files.append("/log/a.log", "dos\n")
        bench.hint("/log/a.log")
        #expect(bench.withTail { $0.hasFreshFiles })
    }

    private func checkFreshFiles(_ bench: TailBench<FaultyFiles>) {
        let now = bench.now
        bench.withTail { $0.checkFreshFiles(now) }
        bench.ship()
    }

    @Test
    func `of too many fresh files those that changed last come first`() throws {
        for name in ["/log", "/log/a"] { self.files.makeDirectory(name) }
        let bench = try self.bench("/log/*.log")
        for number in 0..<3 { self.files.append("/log/\(number).log", "one\n") }
        bench.run()
        let keys = bench.withTail { $0.fileKeys }
        var fresh = FreshFiles()
        let start = MonotonicTime(nanoseconds: 0)
        for (number, key) in keys.enumerated() { fresh.note(key, start + .seconds(number)) }
        #expect(fresh.isWhole)
        #expect(fresh.due(start + .seconds(3)) { _ in true } == keys.reversed())
        #expect(fresh.due(start + .seconds(3)) { $0 != keys[1] } == [keys[2], keys[0]])
        fresh.note(keys[0], start + .seconds(9))
        #expect(fresh.due(start + FreshFiles.age + .seconds(1)) { _ in true } == [keys[0], keys[2]])
        #expect(fresh.due(start + FreshFiles.age + .seconds(9)) { _ in true } == [] && fresh.isEmpty)
    }

    @Test
    func `links to files are told where they are followed`() throws {
        try withFolder { path in
            try POSIXFileSystem().createDirectory(path + "/log")
            try POSIXFileSystem().replace(path + "/file", with: Array("one\n".utf8))
            try POSIXFileSystem().replace(path + "/log/b.log", with: Array("two\n".utf8))
            try makeLink(path + "/log/a.log", to: "../file")
            for followsLinks in [false, true] {
                let source = SourceConfiguration(
                    name: "0:x", kind: .files(patterns: [path + "/log/*.log"]), followsLinks: followsLinks)
                let bench = try TailBench(POSIXFileSystem(), root: path, sources: [source])
                bench.scan()
                let links = Set(bench.withTail { $0.takeLinks() })
                #expect(links == (followsLinks ? [path + "/log/a.log"] : []))
                #expect(bench.withTail { $0.takeLinks() } == [])
                bench.kill()
            }
        }
    }
}
