import Testing
import WaybillSystem
import WaybillTestSupport

@testable import WaybillTail

/// Files that were rotated out of the paths that patterns lead to.
struct TailSearchTests {
    private static func lines(_ range: Range<Int>) -> String {
        range.map { "{\"n\":\($0),\"fill\":\"\(String(repeating: "x", count: 40))\"}\n" }.joined()
    }

    private let disk = MemoryDisk()
    private let files: FaultyFiles

    init() {
        self.files = FaultyFiles(self.disk)
        for folder in ["/pods", "/releases", "/releases/1", "/releases/2", "/log"] { self.files.makeDirectory(folder) }
    }

    private func bench(_ pattern: String, followsLinks: Bool) throws -> TailBench<FaultyFiles> {
        try TailBench(
            self.files,
            sources: [
                SourceConfiguration(name: "app", kind: .files(patterns: [pattern]), followsLinks: followsLinks)
            ])
    }

    private func unseen(_ bench: TailBench<FaultyFiles>) -> [String] {
        bench.notices.compactMap { notice in
            if case .unseenEnds(let folders, let first, let count) = notice {
                "\(count) \(first) \(folders.joined(separator: ","))"
            } else {
                nil
            }
        }
    }

    @Test(arguments: [false, true])
    func `what was rotated behind a link is read to its end`(isStopped: Bool) throws {
        files.append("/pods/0.log", Self.lines(0..<30))
        disk.link("/log/p.log", to: "/pods/0.log")
        let bench = try self.bench("/log/*.log", followsLinks: true)
        bench.settle()
        try bench.checkpoint()
        if isStopped { bench.kill() }
        files.append("/pods/0.log", Self.lines(30..<40))
        files.move("/pods/0.log", "/pods/0.log.1")
        files.append("/pods/0.log", "next\n")
        if isStopped { try bench.start() }
        bench.settle()
        #expect(bench.texts == [Self.lines(0..<40), "next\n"])
        #expect(self.unseen(bench).isEmpty)
    }

    /// `EMFILE` and `EIO`.
    @Test(arguments: [24, 5] as [Int32], [false, true])
    func `what cannot be looked for just now is not lost`(errno: Int32, isStopped: Bool) throws {
        files.append("/pods/0.log", Self.lines(0..<30))
        disk.link("/log/p.log", to: "/pods/0.log")
        let bench = try self.bench("/log/*.log", followsLinks: true)
        bench.settle()
        bench.scan()
        try bench.checkpoint()
        bench.kill()
        files.append("/pods/0.log", Self.lines(30..<40))
        if !isStopped {
            try bench.start()
            bench.scan()
        }
        files.move("/pods/0.log", "/pods/0.log.1")
        files.append("/pods/0.log", "next\n")
        files.setFaults { $0.path.hasPrefix("/pods") && [.open, .list].contains($0.verb) ? .error(errno) : nil }
        if isStopped { try bench.start() }
        for _ in 0..<20 {
            bench.advance(500)
            bench.run()
        }
        files.clearFaults()
        bench.settle()
        #expect(bench.texts == [Self.lines(0..<40), "next\n"])
        #expect(self.unseen(bench).isEmpty)
        #expect(bench.losses.isEmpty)
    }

    @Test func `what was rotated behind a link is found after its device got another number`() throws {
        files.append("/pods/0.log", Self.lines(0..<30))
        disk.link("/log/p.log", to: "/pods/0.log")
        let bench = try self.bench("/log/*.log", followsLinks: true)
        bench.settle()
        try bench.checkpoint()
        bench.kill()
        files.append("/pods/0.log", Self.lines(30..<40))
        files.move("/pods/0.log", "/pods/0.log.1")
        files.append("/pods/0.log", "next\n")
        disk.renumberDevice()
        try bench.start()
        bench.settle()
        #expect(bench.texts == [Self.lines(0..<40), "next\n"])
        #expect(self.unseen(bench).isEmpty)
        #expect(bench.losses.isEmpty)
    }

    @Test(arguments: [false, true])
    func `a file of the release before is read to its end`(isStopped: Bool) throws {
        files.append("/releases/1/a.log", Self.lines(0..<30))
        disk.link("/current", to: "/releases/1")
        let bench = try self.bench("/current/*.log", followsLinks: false)
        bench.settle()
        try bench.checkpoint()
        if isStopped { bench.kill() }
        files.append("/releases/1/a.log", Self.lines(30..<40))
        files.remove("/current")
        disk.link("/current", to: "/releases/2")
        files.append("/releases/2/a.log", "next\n")
        if isStopped { try bench.start() }
        bench.settle()
        #expect(bench.texts == [Self.lines(0..<40), "next\n"])
        #expect(self.unseen(bench).isEmpty)
        #expect(bench.losses.isEmpty)
    }

    @Test(arguments: [("/log/a.log", "/log"), ("/log/p.log", "/pods")], [false, true])
    func `what was rotated into a subfolder is read to its end`(place: (path: String, folder: String), isStopped: Bool)
        throws
    {
        let real = place.folder + "/a.log"
        files.makeDirectory(place.folder + "/old")
        files.append(real, Self.lines(0..<30))
        if real != place.path { disk.link(place.path, to: real) }
        let bench = try self.bench("/log/*.log", followsLinks: real != place.path)
        bench.settle()
        try bench.checkpoint()
        if isStopped { bench.kill() }
        files.append(real, Self.lines(30..<40))
        files.move(real, place.folder + "/old/a.log-20261127")
        files.append(real, "next\n")
        if isStopped { try bench.start() }
        bench.settle()
        #expect(bench.texts == [Self.lines(0..<40), "next\n"])
        #expect(self.unseen(bench).isEmpty)
        #expect(bench.losses.isEmpty)
    }

    @Test(arguments: ["owner", "content", "link to the folder", "link to the file"])
    func `what a subfolder has is taken only if it is proven and no link`(reason: String) throws {
        files.makeDirectory("/log/old")
        files.append("/log/a.log", Self.lines(0..<30))
        let bench = try self.bench("/log/*.log", followsLinks: reason == "link to the folder")
        bench.settle()
        try bench.checkpoint()
        bench.kill()
        switch reason {
        case "owner":
            files.move("/log/a.log", "/log/old/a.log.1")
            disk.own("/log/old/a.log.1", by: 77, 77, permissions: 0o644)
        case "content":
            files.rewrite("/log/a.log", Self.lines(0..<5) + Self.lines(7..<40))
            files.move("/log/a.log", "/log/old/a.log.1")
        case "link to the folder":
            files.move("/log/a.log", "/releases/a.log.1")
            disk.link("/log/older", to: "/releases")
        default:
            files.move("/log/a.log", "/releases/a.log.1")
            disk.link("/log/old/a.log.1", to: "/releases/a.log.1")
        }
        files.append("/log/a.log", "next\n")
        try bench.start()
        bench.settle()
        #expect(bench.texts == [Self.lines(0..<30), "next\n"])
        #expect(self.unseen(bench) == ["1 /log/a.log /log"])
    }

    @Test
    func `what is two folders down is not looked for`() throws {
        files.makeDirectory("/log/old")
        files.makeDirectory("/log/old/2026")
        files.append("/log/a.log", Self.lines(0..<30))
        let bench = try self.bench("/log/*.log", followsLinks: false)
        bench.settle()
        try bench.checkpoint()
        bench.kill()
        files.move("/log/a.log", "/log/old/2026/a.log")
        try bench.start()
        bench.settle()
        #expect(self.unseen(bench) == ["1 /log/a.log /log"])
    }

    @Test
    func `of subfolders with many names those count in which a name changed last`() throws {
        for folder in ["/log/first", "/log/second"] { files.makeDirectory(folder) }
        for name in ["a", "b"] { files.append("/log/\(name).log", Self.lines(0..<30)) }
        let bench = try self.bench("/log/*.log", followsLinks: false)
        bench.settle()
        try bench.checkpoint()
        bench.kill()
        for name in ["a", "b"] { files.append("/log/\(name).log", Self.lines(30..<40)) }
        files.move("/log/a.log", "/log/first/1")
        for number in 0..<FileSearch.nameCountMax { disk.place("/log/second/\(number)", [0x0A]) }
        files.move("/log/b.log", "/log/second/b.log")
        try bench.start()
        bench.settle()
        #expect(Set(bench.texts) == [Self.lines(0..<30), Self.lines(0..<40)])
        #expect(self.unseen(bench) == ["1 /log/a.log /log"])
    }

    @Test
    func `a look lists a folder once for all files that are missing in it`() throws {
        files.makeDirectory("/log/old")
        for number in 0..<200 { files.append("/log/\(number).log", Self.lines(0..<20)) }
        let bench = try self.bench("/log/*.log", followsLinks: false)
        bench.settle()
        try bench.checkpoint()
        bench.kill()
        for number in 0..<100 { files.move("/log/\(number).log", "/log/old/\(number)") }
        for number in 100..<200 { files.move("/log/\(number).log", "/log/\(number)") }
        let lists = Lock(0)
        files.setFaults { call in
            if call.verb == .list, call.path == "/log/old" { lists.withLock { $0 += 1 } }
            return nil
        }
        try bench.start()
        bench.scan()
        #expect(lists.withLock { $0 } == 1)
        files.setFaults { _ in nil }
        bench.settle()
        #expect(self.unseen(bench).isEmpty)
    }

    @Test(arguments: ["owner", "content", "elsewhere"])
    func `what is not proven to be the file is not taken, and its end is told as unseen`(reason: String) throws {
        files.append("/log/a.log", Self.lines(0..<30))
        let bench = try self.bench("/log/*.log", followsLinks: false)
        bench.settle()
        try bench.checkpoint()
        bench.kill()
        switch reason {
        case "owner":
            files.move("/log/a.log", "/log/a.log.1")
            disk.own("/log/a.log.1", by: 77, 77, permissions: 0o644)
        case "content":
            files.rewrite("/log/a.log", Self.lines(0..<5) + Self.lines(7..<40))
            files.move("/log/a.log", "/log/a.log.1")
        default: files.move("/log/a.log", "/releases/a.log")
        }
        files.append("/log/a.log", "next\n")
        try bench.start()
        bench.settle()
        #expect(bench.texts == [Self.lines(0..<30), "next\n"])
        #expect(self.unseen(bench) == ["1 /log/a.log /log"])
        #expect(bench.withTail { $0.notices.unseenEndCount } == 1)
    }

    @Test
    func `a file that is deleted under a running agent after it was shipped is no message`() throws {
        files.append("/log/a.log", Self.lines(0..<30))
        let bench = try self.bench("/log/*.log", followsLinks: false)
        bench.settle()
        files.remove("/log/a.log")
        bench.settle()
        #expect(bench.sealed.count == 1)
        #expect(self.unseen(bench).isEmpty)
        #expect(bench.losses.allSatisfy { $0.hasSuffix("+0") })
    }

    @Test
    func `many files that are gone are one message for each folder`() throws {
        for number in 0..<50 { files.append("/log/\(number).log", Self.lines(0..<20)) }
        let bench = try self.bench("/log/*.log", followsLinks: false)
        bench.settle()
        try bench.checkpoint()
        bench.kill()
        for number in 0..<50 { files.remove("/log/\(number).log") }
        try bench.start()
        bench.settle()
        #expect(self.unseen(bench) == ["50 /log/0.log /log"])
    }
}
