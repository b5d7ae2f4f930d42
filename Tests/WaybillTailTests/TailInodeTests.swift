import Testing
import WaybillSystem
import WaybillTestSupport

@testable import WaybillTail

/// Files whose inode another one gets, while one descriptor is too few to keep it.
struct TailInodeTests {
    private let files: FaultyFiles
    private let bench: TailBench<FaultyFiles>

    init() throws {
        (self.files, self.bench) = try Self.site(hasBirths: true)
    }

    private static func site(hasBirths: Bool) throws -> (FaultyFiles, TailBench<FaultyFiles>) {
        let files = FaultyFiles(MemoryDisk(hasBirths: hasBirths))
        var limits = TailLimits()
        limits.openFileCountMax = 1
        return (files, try TailBench(files, limits: limits))
    }

    private static func lines(_ ranges: Range<Int>...) -> String {
        ranges.joined().map { "{\"n\":\($0),\"fill\":\"\(String(repeating: "x", count: 40))\"}\n" }.joined()
    }

    private static func replace(_ files: FaultyFiles, _ path: String, _ text: String) {
        files.append("/log/.new", text)
        files.move("/log/.new", path)
    }

    /// Another file takes the only descriptor.
    private static func distract(_ files: FaultyFiles, _ bench: TailBench<FaultyFiles>) {
        files.append("/log/z.log", "z\n")
        bench.run()
    }

    private static func run(_ bench: TailBench<FaultyFiles>) {
        for _ in 0..<16 {
            bench.run()
            bench.advance(500)
        }
        bench.run()
    }

    private static func texts(_ bench: TailBench<FaultyFiles>) -> [String] {
        bench.texts.filter { !$0.hasPrefix("z\n") }
    }

    @Test(arguments: [false, true], [false, true])
    func `another log that gets the inode of a replaced one is not that one`(hasBirths: Bool, isHinted: Bool) throws {
        let (files, bench) = try Self.site(hasBirths: hasBirths)
        files.append("/log/a.log", Self.lines(0..<50))
        files.append("/log/b.log", Self.lines(100..<150))
        Self.run(bench)
        Self.distract(files, bench)
        let inode = files.inode(of: "/log/b.log")
        Self.replace(files, "/log/b.log", Self.lines(100..<160))
        Self.replace(files, "/log/a.log", Self.lines(0..<60))
        #expect(files.inode(of: "/log/a.log") == inode)
        if isHinted { bench.hint("/log/b.log") }
        Self.run(bench)
        #expect(Self.texts(bench) == [Self.lines(0..<60), Self.lines(100..<160)])
        #expect(bench.losses.isEmpty)
        #expect(bench.withTail { $0.successionCounts.continuedCount } == 2)
    }

    @Test(arguments: [false, true])
    func `a log that is renamed is the same, whether its birth or its content shows it`(hasBirths: Bool) throws {
        let (files, bench) = try Self.site(hasBirths: hasBirths)
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        Self.distract(files, bench)
        files.move("/log/a.log", "/log/a.log.1")
        files.append("/log/a.log.1", Self.lines(50..<51))
        files.append("/log/a.log", Self.lines(0..<1))
        Self.run(bench)
        #expect(Self.texts(bench) == [Self.lines(0..<51), Self.lines(0..<1)])
        #expect(bench.losses.isEmpty)
    }

    @Test
    func `a third file in the inode of the first is found once`() throws {
        let texts = [100, 200, 300].map { Self.lines(0..<1, $0..<($0 + 50)) }
        files.append("/log/a.log", texts[0])
        Self.run(bench)
        let inode = files.inode(of: "/log/a.log")
        for text in texts[1...] {
            Self.distract(files, bench)
            Self.replace(files, "/log/a.log", text)
            bench.run()
            bench.advance(500)
        }
        #expect(files.inode(of: "/log/a.log") == inode)
        Self.run(bench)
        #expect(Self.texts(bench) == texts)
        #expect(bench.losses.allSatisfy { $0.hasSuffix("+0") })
        #expect(bench.notices.count { if case .discovered = $0 { true } else { false } } == 4)
        bench.settle()
        #expect(bench.sealed.count == 2)
    }

    @Test(arguments: [false, true])
    func `a file that waits for its successor and has to be closed waits on`(hasBirths: Bool) throws {
        let (files, bench) = try Self.site(hasBirths: hasBirths)
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        Self.replace(files, "/log/a.log", Self.lines(0..<60))
        bench.scan()
        Self.distract(files, bench)
        Self.run(bench)
        #expect(Self.texts(bench) == [Self.lines(0..<60)])
        #expect(bench.losses.isEmpty)
    }

    // MARK: Loss

    /// A log was shipped, is replaced by a longer one, and this by another text, or cut to it, before it is decided.
    private func replaceTwice(by text: String?, isCut: Bool = false) {
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        Self.distract(files, bench)
        Self.replace(files, "/log/a.log", Self.lines(0..<60))
        bench.scan()
        Self.distract(files, bench)
        if let text, isCut {
            files.rewrite("/log/a.log", text)
        } else if let text {
            Self.replace(files, "/log/a.log", text)
        } else {
            files.remove("/log/a.log")
        }
        Self.run(bench)
    }

    @Test
    func `of a file that is replaced before it is decided, nothing is lost that the next one has`() {
        self.replaceTwice(by: Self.lines(0..<70))
        #expect(Self.texts(bench) == [Self.lines(0..<70)])
        #expect(bench.losses.isEmpty)
    }

    @Test(arguments: [false, true])
    func `of a file that is gone or cut before it is decided, what it added is lost`(isCut: Bool) {
        self.replaceTwice(by: isCut ? "" : nil, isCut: isCut)
        let (start, end) = (Self.lines(0..<50).utf8.count, Self.lines(0..<60).utf8.count)
        #expect(Self.texts(bench) == [Self.lines(0..<50)])
        #expect(
            Set(bench.losses) == ["vanished /log/a.log \(start)+\(end - start)", "vanished /log/a.log \(start)+0"])
    }

    @Test
    func `what a file added that is followed by another content is lost`() {
        let text = Self.lines(0..<50, 70..<90)
        self.replaceTwice(by: text)
        let (start, end) = (Self.lines(0..<50).utf8.count, Self.lines(0..<60).utf8.count)
        #expect(Self.texts(bench) == [text])
        #expect(bench.losses == ["vanished /log/a.log \(start)+\(end - start)"])
    }

    @Test
    func `unread lines that the next file does not have are told`() throws {
        files.append("/log/a.log", Self.lines(0..<50))
        Self.run(bench)
        files.append("/log/a.log", Self.lines(50..<60))
        bench.scan()
        try bench.checkpoint()
        bench.kill()
        let text = Self.lines(0..<55)
        Self.replace(files, "/log/a.log", text)
        try bench.start()
        Self.run(bench)
        let lost = Self.lines(55..<60).utf8.count
        #expect(Self.texts(bench) == [text])
        #expect(bench.losses == ["cut /log/a.log \(text.utf8.count)+\(lost)"])
    }
}
