import Testing
import WaybillSystem
import WaybillTestSupport

@testable import WaybillTail

/// Files that are written anew under their name.
struct TailSuccessionTests {
    let files = FaultyFiles()

    /// Numbered lines, together more than what proves a content.
    private static func lines(_ range: Range<Int>) -> String {
        range.map { "{\"n\":\($0),\"fill\":\"\(String(repeating: "x", count: 40))\"}\n" }.joined()
    }

    /// Writes a file as rsync and editors do: beside its place, then renamed over it.
    private static func replace(_ files: FaultyFiles, _ path: String, _ text: String) {
        files.append("/log/.new", text)
        files.move("/log/.new", path)
    }

    private static func run(_ bench: TailBench<FaultyFiles>, milliseconds: Int64 = 6_000) {
        for _ in 0..<(milliseconds / 500) {
            bench.run()
            bench.advance(500)
        }
        bench.run()
    }

    @Test(arguments: [false, true], [true, false])
    func `a file that is renamed over itself with more lines continues`(isStopped: Bool, hasBirths: Bool) throws {
        let files = FaultyFiles(MemoryDisk(hasBirths: hasBirths))
        let bench = try TailBench(files)
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        for round in 1...5 {
            if isStopped {
                try bench.checkpoint()
                bench.kill()
            }
            Self.replace(files, "/log/a.log", Self.lines(0..<(50 + round * 10)))
            if isStopped { try bench.start() }
            Self.run(bench)
        }
        #expect(bench.texts == [Self.lines(0..<100)])
        #expect(bench.losses.isEmpty)
        #expect(bench.withTail { $0.successionCounts.continuedCount } == (isStopped ? 1 : 5))
        files.append("/log/a.log", Self.lines(100..<101))
        bench.run()
        #expect(bench.texts == [Self.lines(0..<101)])
    }

    @Test(arguments: [false, true])
    func `a file that is deleted and made again continues, in the same inode too`(hasBirths: Bool) throws {
        let files = FaultyFiles(MemoryDisk(hasBirths: hasBirths))
        var limits = TailLimits()
        limits.openFileCountMax = 1
        let bench = try TailBench(files, limits: limits)
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        files.append("/log/b.log", "two\n")
        bench.run()
        let inode = files.inode(of: "/log/a.log")
        files.remove("/log/a.log")
        files.append("/log/a.log", Self.lines(0..<60))
        #expect(files.inode(of: "/log/a.log") == inode)
        Self.run(bench)
        #expect(bench.texts == [Self.lines(0..<60), "two\n"])
        #expect(bench.losses.isEmpty)
    }

    @Test
    func `an editor that keeps a backup for a moment changes nothing`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        files.move("/log/a.log", "/log/a.log~")
        bench.run()
        files.append("/log/a.log", Self.lines(0..<20))
        bench.run()
        files.append("/log/a.log", Self.lines(20..<51))
        bench.run()
        files.remove("/log/a.log~")
        Self.run(bench)
        #expect(bench.texts == [Self.lines(0..<51)])
        #expect(bench.losses.isEmpty)
    }

    @Test
    func `while both files exist, the inode decides`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        files.move("/log/a.log", "/log/a.log.1")
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        files.append("/log/a.log", "new\n")
        files.append("/log/a.log.1", "old\n")
        Self.run(bench)
        #expect(bench.texts == [Self.lines(0..<50) + "old\n", Self.lines(0..<50) + "new\n"])
    }

    @Test func `a file that has waited for another one and is a content of its own continues in a third`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        // It begins as the first one did, as far as it goes.
        Self.replace(files, "/log/a.log", Self.lines(0..<1))
        bench.run()
        bench.advance(500)
        let text = Self.lines(0..<1) + Self.lines(100..<160)
        files.rewrite("/log/a.log", text)
        bench.run()
        bench.advance(500)
        #expect(bench.texts == [Self.lines(0..<50), text])
        Self.replace(files, "/log/a.log", text + Self.lines(160..<170))
        Self.run(bench)
        #expect(bench.texts == [Self.lines(0..<50), text + Self.lines(160..<170)])
        #expect(bench.losses.isEmpty)
    }

    @Test(arguments: ["head", "middle", "end", "shorter"])
    func `a file with other bytes is another content`(place: String) throws {
        let bench = try TailBench(files)
        for start in stride(from: 0, to: 60, by: 10) {
            files.append("/log/a.log", Self.lines(start..<(start + 10)))
            bench.run()
        }
        var text = Self.lines(0..<70)
        switch place {
        case "head": text = text.replacing("\"n\":0,", with: "\"n\":7,", maxReplacements: 1)
        case "middle": text = text.replacing("\"n\":39,", with: "\"n\":77,")
        case "end": text = text.replacing("\"n\":59,", with: "\"n\":77,")
        default: text = Self.lines(0..<59)
        }
        Self.replace(files, "/log/a.log", text)
        Self.run(bench)
        #expect(bench.texts == [Self.lines(0..<60), text])
        #expect(bench.losses.isEmpty)
    }

    @Test
    func `fewer than 512 bytes prove nothing`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\ntwo\n")
        Self.run(bench)
        Self.replace(files, "/log/a.log", "one\ntwo\nthree\n")
        Self.run(bench)
        #expect(bench.texts == ["one\ntwo\n", "one\ntwo\nthree\n"])
    }

    @Test
    func `unread lines of the file before are shipped, in its place or in the new file`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        files.append("/log/a.log", Self.lines(50..<60))
        bench.scan()
        Self.replace(files, "/log/a.log", Self.lines(0..<70))
        Self.run(bench)
        #expect(bench.texts == [Self.lines(0..<70)])
        files.append("/log/a.log", Self.lines(70..<80))
        bench.scan()
        // A program continues in the old file, which the new one was copied from.
        Self.replace(files, "/log/a.log", Self.lines(0..<75))
        Self.run(bench, milliseconds: 20_000)
        #expect(bench.texts == [Self.lines(0..<80), Self.lines(0..<75)])
        #expect(bench.losses.isEmpty)
    }

    @Test
    func `files that follow one another quickly continue one after the other`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        for count in [60, 70, 80] {
            Self.replace(files, "/log/a.log", Self.lines(0..<count))
            bench.scan()
            bench.advance(700)
        }
        Self.run(bench, milliseconds: 12_000)
        #expect(bench.texts == [Self.lines(0..<80)])
        #expect(bench.losses.isEmpty)
    }

    @Test(arguments: [false, true])
    func `another device number without births changes nothing`(hasBirths: Bool) throws {
        let disk = MemoryDisk(hasBirths: hasBirths)
        let files = FaultyFiles(disk)
        let bench = try TailBench(files)
        for name in ["a", "b"] { files.append("/log/\(name).log", Self.lines(0..<50) + name + "\n") }
        Self.run(bench)
        try bench.checkpoint()
        for round in 0..<3 {
            bench.kill()
            disk.renumberDevice()
            for name in ["a", "b"] { files.append("/log/\(name).log", "\(round)\n") }
            try bench.start()
            Self.run(bench)
            try bench.checkpoint()
        }
        #expect(bench.texts == ["a", "b"].map { Self.lines(0..<50) + $0 + "\n0\n1\n2\n" })
        #expect(bench.losses.isEmpty)
    }

    @Test(arguments: ["/log/a.log.1", "/log/a-1.log"])
    func `a log that was rotated before its device got another number continues without births`(name: String) throws {
        let disk = MemoryDisk(hasBirths: false)
        let files = FaultyFiles(disk)
        let bench = try TailBench(files, sources: [.init(name: "app", kind: .files(patterns: ["/log/a*"]))])
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        try bench.checkpoint()
        bench.kill()
        files.move("/log/a.log", name)
        files.append(name, "late\n")
        files.append("/log/a.log", "new\n")
        disk.renumberDevice()
        try bench.start()
        Self.run(bench, milliseconds: 12_000)
        #expect(bench.texts.sorted() == [Self.lines(0..<50) + "late\n", "new\n"].sorted())
        #expect(bench.losses.isEmpty)
    }

    @Test
    func `of contents on several device numbers the last one continues`() throws {
        let disk = MemoryDisk(hasBirths: false)
        let files = FaultyFiles(disk)
        let bench = try TailBench(files)
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        try bench.checkpoint()
        bench.kill()
        // The content before is nowhere, and its device has another number.
        files.rewrite("/log/a.log", Self.lines(0..<1) + Self.lines(50..<100))
        disk.renumberDevice()
        try bench.start()
        Self.run(bench, milliseconds: 12_000)
        try bench.checkpoint()
        bench.kill()
        disk.renumberDevice()
        files.append("/log/a.log", "more\n")
        try bench.start()
        Self.run(bench, milliseconds: 12_000)
        #expect(bench.texts == [Self.lines(0..<50), Self.lines(0..<1) + Self.lines(50..<100) + "more\n"])
    }

    /// Each of the two is nowhere, and departs again at each look, for its device may come back.
    @Test
    func `a file that continues neither of two that had its inode does not wait for them in turn for ever`() throws {
        let disk = MemoryDisk(hasBirths: false)
        let files = FaultyFiles(disk)
        let bench = try TailBench(files, sources: [.init(name: "app", kind: .files(patterns: ["/log/a.log*"]))])
        let texts = [
            Self.lines(0..<50), Self.lines(0..<1) + Self.lines(50..<90), Self.lines(0..<1) + Self.lines(90..<95),
        ]
        for (number, text) in texts.enumerated() {
            let path = "/log/a.log.\(number)"
            files.append(path, text)
            if number > 0 { try bench.start() }
            Self.run(bench, milliseconds: 12_000)
            try bench.checkpoint()
            guard number < 2 else { break }
            bench.kill()
            let inode = files.inode(of: path)
            // No other number is given back after that one.
            disk.writeBack()
            files.remove(path)
            disk.renumberDevice()
            files.append("/log/a.log.\(number + 1)", "")
            #expect(files.inode(of: "/log/a.log.\(number + 1)") == inode)
        }
        #expect(bench.texts == texts)
        files.append("/log/a.log.2", "more\n")
        bench.run()
        #expect(bench.texts == [texts[0], texts[1], texts[2] + "more\n"])
    }

    @Test
    func `what continues in another file is known after the agent was killed at once`() throws {
        let bench = try TailBench(files, sources: [.init(name: "app", kind: .files(patterns: ["/log/a.log*"]))])
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        try bench.checkpoint()
        Self.replace(files, "/log/a.log", Self.lines(0..<60))
        while bench.withTail({ $0.successionCounts.continuedCount }) == 0 {
            bench.scan()
            bench.advance(500)
        }
        bench.run()
        bench.kill()
        files.move("/log/a.log", "/log/a.log.1")
        files.append("/log/a.log", "other\n")
        try bench.start()
        Self.run(bench)
        #expect(bench.texts.sorted() == [Self.lines(0..<60), "other\n"].sorted())
    }

    @Test
    func `with one open file, what continues twice in a row continues`() throws {
        var limits = TailLimits()
        limits.openFileCountMax = 1
        let bench = try TailBench(files, limits: limits)
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        for round in 1...6 {
            Self.replace(files, "/log/a.log", Self.lines(0..<(50 + round)))
            for _ in 0..<round {
                bench.run()
                bench.advance(500)
            }
        }
        Self.run(bench, milliseconds: 12_000)
        #expect(bench.texts == [Self.lines(0..<56)])
        #expect(bench.losses.isEmpty)
    }

    @Test(arguments: [false, true])
    func `what was seen of a file is lost if the longer one that continues it does not have it`(hasRest: Bool) throws {
        var limits = TailLimits()
        limits.openFileCountMax = 1
        let bench = try TailBench(files, limits: limits)
        let shipped = Self.lines(0..<50)
        files.append("/log/a.log", shipped)
        Self.run(bench)
        files.append("/log/a.log", Self.lines(50..<60))
        var (text, losses) = (shipped + Self.lines(50..<60), [String]())
        // The second time, what was seen is known of the file that has continued.
        for lines in [100..<120, 200..<230] {
            bench.scan()
            // Another file needs the descriptor.
            files.append("/log/b.log", "b\n")
            bench.scan()
            if !hasRest {
                losses.append("cut /log/a.log \(shipped.utf8.count)+\(text.utf8.count - shipped.utf8.count)")
                text = shipped
            }
            text += Self.lines(lines)
            Self.replace(files, "/log/a.log", text)
            for _ in 0..<8 {
                bench.scan()
                bench.advance(500)
            }
        }
        Self.run(bench)
        #expect(bench.texts == [text, "b\nb\n"])
        #expect(bench.losses == losses)
    }

    @Test
    func `what follows a content with another stem is known after the agent was killed at once`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "head\n" + Self.lines(0..<20))
        Self.run(bench)
        try bench.checkpoint()
        bench.kill()
        files.memory.renumberDevice()
        try bench.start()
        Self.run(bench)
        try bench.checkpoint()
        files.rewrite("/log/a.log", "head\n" + Self.lines(30..<32))
        bench.run()
        bench.kill()
        files.append("/log/a.log", Self.lines(32..<60))
        try bench.start()
        Self.run(bench)
        #expect(bench.texts == ["head\n" + Self.lines(0..<20), "head\n" + Self.lines(30..<60)])
    }

    @Test(arguments: [false, true])
    func `a file that was seen for a moment and is gone is told unless the one before it has its bytes`(
        isBeginning: Bool
    ) throws {
        var limits = TailLimits()
        limits.openFileCountMax = 1
        let bench = try TailBench(
            files, sources: [.init(name: "app", kind: .files(patterns: ["/log/a.log*"]))], limits: limits)
        let old = "head\n" + Self.lines(0..<50)
        files.append("/log/a.log", old)
        Self.run(bench)
        files.move("/log/a.log", "/log/a.log.1")
        files.append("/log/a.log", isBeginning ? String(old.prefix(40)) : "head\nother\n")
        bench.scan()
        Self.replace(files, "/log/a.log", "head\nthird\n")
        Self.run(bench)
        #expect(bench.texts == [old, "head\nthird\n"])
        #expect(bench.losses == (isBeginning ? [] : ["vanished /log/a.log 0+11"]))
    }

    @Test
    func `a log that was rotated before its device got another number is found again`() throws {
        let bench = try TailBench(files, sources: [.init(name: "app", kind: .files(patterns: ["/log/a.log*"]))])
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        try bench.checkpoint()
        bench.kill()
        files.memory.renumberDevice()
        files.move("/log/a.log", "/log/a.log.1")
        files.append("/log/a.log.1", "late\n")
        // It begins in the same way, and is found first.
        files.append("/log/a.log", Self.lines(0..<3))
        try bench.start()
        Self.run(bench)
        #expect(bench.texts.sorted() == [Self.lines(0..<50) + "late\n", Self.lines(0..<3)].sorted())
        #expect(bench.losses.isEmpty)
    }

    @Test(arguments: [false, true])
    func `a new file in the inode that a content left gets ids of its own`(isForgotten: Bool) throws {
        let files = FaultyFiles(MemoryDisk(hasBirths: false))
        var limits = TailLimits()
        limits.openFileCountMax = 1
        let bench = try TailBench(files, limits: limits)
        files.append("/log/a.log", Self.lines(0..<50))
        let inode = files.inode(of: "/log/a.log")
        Self.run(bench)
        Self.replace(files, "/log/a.log", Self.lines(0..<60))
        Self.run(bench)
        if isForgotten {
            files.remove("/log/a.log")
            bench.settle()
            #expect(bench.sealed == [bench.order[0]])
        }
        try bench.checkpoint()
        try bench.restart()
        files.append("/log/b.log", Self.lines(0..<1) + "other\n")
        if !isForgotten { #expect(files.inode(of: "/log/b.log") == inode) }
        Self.run(bench)
        #expect(bench.texts == [Self.lines(0..<60), Self.lines(0..<1) + "other\n"])
        #expect(Set(bench.order).count == 2)
    }

    @Test func `a copy in the inode that a content left asks no receiver for that content's stream`() throws {
        let files = FaultyFiles(MemoryDisk(hasBirths: false))
        let bench = try TailBench(files)
        files.append("/log/a.log", Self.lines(0..<50))
        let inode = files.inode(of: "/log/a.log")
        Self.run(bench)
        var older = BenchStore("older", of: nil)
        (older.received, older.order) = (bench.received, bench.order)
        Self.replace(files, "/log/a.log", Self.lines(0..<60))
        Self.run(bench)
        files.append("/log/b.log", Self.lines(0..<60) + "b\n")
        #expect(files.inode(of: "/log/b.log") == inode)
        Self.run(bench)
        bench.exchange(with: &older)
        Self.run(bench)
        #expect(bench.texts.sorted() == [Self.lines(0..<60), Self.lines(0..<60) + "b\n"].sorted())
    }

    @Test
    func `a content that went on in another file and is cut there begins anew`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        Self.replace(files, "/log/a.log", Self.lines(0..<60))
        Self.run(bench)
        files.rewrite("/log/a.log", "")
        bench.run()
        files.append("/log/a.log", Self.lines(0..<2))
        bench.run()
        try bench.checkpoint()
        try bench.restart()
        files.append("/log/a.log", Self.lines(2..<3))
        Self.run(bench)
        #expect(bench.texts == [Self.lines(0..<60), Self.lines(0..<3)])
        #expect(bench.losses.allSatisfy { $0.hasSuffix("+0") })
    }
}
