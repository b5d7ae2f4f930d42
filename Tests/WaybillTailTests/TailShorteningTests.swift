import Testing
import WaybillSystem
import WaybillTestSupport

@testable import WaybillTail

/// Files that are shorter than what was read of them.
struct TailShorteningTests {
    let files = FaultyFiles()

    private static func line(_ number: Int) -> String {
        "{\"n\":\(number),\"fill\":\"\(String(repeating: "x", count: 40))\"}\n"
    }

    /// A file of 20 lines, shipped in 10 batches.
    private func shipped(_ bench: TailBench<FaultyFiles>) -> String {
        var text = ""
        for number in stride(from: 0, to: 20, by: 2) {
            text += Self.line(number) + Self.line(number + 1)
            self.files.append("/log/a.log", Self.line(number) + Self.line(number + 1))
            bench.run()
        }
        return text
    }

    private static func wait(_ bench: TailBench<FaultyFiles>, _ milliseconds: Int64) {
        for _ in 0..<(milliseconds / 500) {
            bench.advance(500)
            bench.run()
        }
    }

    @Test(arguments: [false, true])
    func `a file that is shorter for a moment continues`(isRestarted: Bool) throws {
        let bench = try TailBench(files)
        let text = self.shipped(bench)
        try bench.checkpoint()
        files.rewrite("/log/a.log", String(text.dropLast(20)))
        if isRestarted { try bench.restart() }
        Self.wait(bench, 2_500)
        files.rewrite("/log/a.log", text + Self.line(20))
        Self.wait(bench, 6_000)
        #expect(bench.texts == [text + Self.line(20)])
        #expect(bench.losses.isEmpty)
        #expect(bench.withTail { $0.successionCounts.rereadByteCount } == 0)
    }

    @Test func `a file that grew to its old length with other bytes is verified by the next agent`() throws {
        let bench = try TailBench(files)
        let text = self.shipped(bench)
        files.rewrite("/log/a.log", String(text.dropLast(20)))
        bench.scan()
        let rest = text.utf8.count - Self.line(0).utf8.count
        let other = Self.line(0) + String(repeating: "y", count: rest - 1) + "\n"
        files.rewrite("/log/a.log", other)
        bench.scan()
        try bench.checkpoint()
        try bench.restart()
        Self.wait(bench, 6_000)
        #expect(bench.texts == [text, other])
    }

    /// Lines that were seen and not read.
    private static let unread = Self.line(20) + Self.line(21)

    @Test(arguments: ["back", "other", "short"], [false, true])
    func `unread bytes that are missing for a moment are no loss`(then what: String, isRestarted: Bool) throws {
        let bench = try TailBench(files)
        let text = self.shipped(bench)
        files.append("/log/a.log", Self.unread)
        bench.scan()
        files.rewrite("/log/a.log", text + Self.line(20))
        bench.advance(500)
        bench.scan()
        try bench.checkpoint()
        if isRestarted { try bench.restart() }
        var end = Self.line(20)
        switch what {
        case "back": end += Self.line(21)
        case "other": end += Self.line(22) + Self.line(23)
        default: break
        }
        files.rewrite("/log/a.log", text + end)
        Self.wait(bench, 6_000)
        #expect(bench.texts == [text + end])
        // What a line was that an earlier agent saw is not known.
        let isLost = what == "short" || what == "other" && !isRestarted
        #expect(bench.withTail { $0.notices.loss.byteCount } == (isLost ? Self.line(21).utf8.count : 0))
    }

    @Test func `a file that is gone before it has grown back is sealed`() throws {
        var limits = TailLimits()
        limits.openFileCountMax = 1
        let bench = try TailBench(files, limits: limits)
        files.append("/log/a.log", "one\ntwo\n")
        bench.run()
        files.rewrite("/log/a.log", "one\n")
        bench.run()
        // Only its descriptor leads to it, and another file needs that.
        files.remove("/log/a.log")
        bench.run()
        files.append("/log/b.log", "three\n")
        Self.wait(bench, 6_000)
        #expect(bench.texts == ["one\ntwo\n", "three\n"])
        #expect(bench.sealed.count == 1)
    }

    @Test func `a short file that was replaced by another one is sealed`() throws {
        var limits = TailLimits()
        limits.openFileCountMax = 1
        let bench = try TailBench(files, limits: limits)
        let text = self.shipped(bench)
        files.rewrite("/log/a.log", String(text.dropLast(Self.line(19).utf8.count)))
        bench.scan()
        files.append("/log/b.log", "b\n")
        bench.run()
        files.append("/log/new", Self.line(0) + "another\n")
        files.move("/log/new", "/log/a.log")
        Self.wait(bench, 12_000)
        #expect(bench.texts == [text, "b\n", Self.line(0) + "another\n"])
        #expect(bench.sealed.count == 1)
        #expect(bench.losses.allSatisfy { $0.hasSuffix("+0") })
    }

    @Test(arguments: ["agent", "restart", "fleet"])
    func `a program that takes its last line back costs one batch at most`(place: String) throws {
        let bench = try TailBench(files)
        if place == "fleet" { bench.receiver.fleet = "7d2a40c5e9b1836f04d8fa6e21c97b53" }
        let text = self.shipped(bench)
        try bench.checkpoint()
        files.rewrite("/log/a.log", String(text.dropLast(Self.line(19).utf8.count)))
        bench.run()
        files.append("/log/a.log", "other\n")
        if place == "restart" { try bench.restart() }
        Self.wait(bench, 6_000)
        if place == "restart" {
            try bench.checkpoint()
            try bench.restart()
            Self.wait(bench, 6_000)
        }
        #expect(bench.order.count == 2)
        let second = try #require(bench.order.last)
        let held = text.utf8.count - Self.line(18).utf8.count - Self.line(19).utf8.count
        #expect(bench.skipped[second]?.count == 1)
        #expect(bench.batches.filter { $0.id == second }.map(\.offset) == [held])
        let sent = bench.batches.filter { $0.id == second }.flatMap(\.bytes)
        #expect(String(decoding: sent, as: UTF8.self) == Self.line(18) + "other\n")
        #expect(bench.losses.isEmpty)
        #expect(bench.sealed == [bench.order[0]])
    }

    @Test
    func `a file that was seen empty and begins alike is a new content`() throws {
        let bench = try TailBench(files)
        let text = self.shipped(bench)
        files.rewrite("/log/a.log", "")
        bench.run()
        files.rewrite("/log/a.log", text + "more\n")
        Self.wait(bench, 6_000)
        #expect(bench.texts == [text, text + "more\n"])
        #expect(bench.losses.allSatisfy { $0.hasSuffix("+0") })
    }

    @Test
    func `unread bytes of a file that was cut are the loss, and no others`() throws {
        let bench = try TailBench(files)
        let text = self.shipped(bench)
        files.append("/log/a.log", "unread 1\nunread 2\n")
        bench.scan()
        files.rewrite("/log/a.log", "")
        files.append("/log/a.log", String(repeating: "another content\n", count: 200))
        bench.run()
        #expect(bench.losses == ["cut /log/a.log \(text.utf8.count)+18"])
        Self.wait(bench, 6_000)
        #expect(bench.texts.count == 2)
    }

    @Test
    func `a shipped file that is cut and written again longer has lost nothing`() throws {
        let bench = try TailBench(files)
        _ = self.shipped(bench)
        files.rewrite("/log/a.log", String(repeating: "another content\n", count: 20_000))
        bench.run()
        #expect(bench.losses.allSatisfy { $0.hasSuffix("+0") })
        #expect(bench.withTail { $0.notices.loss.byteCount } == 0)
    }

    @Test
    func `what is written after a cut reaches a receiver that holds more of the content before`() throws {
        let bench = try TailBench(files)
        let text = self.shipped(bench)
        var other = BenchStore(receiver: BenchReceiver(name: "other"))
        bench.exchange(with: &other)
        // The other one holds nothing yet.
        files.rewrite("/log/a.log", Self.line(0) + Self.line(100))
        bench.scan()
        files.append("/log/a.log", Self.line(101))
        Self.wait(bench, 500)
        bench.exchange(with: &other)
        Self.wait(bench, 8_000)
        #expect(bench.texts.first == text)
        #expect(bench.texts.dropFirst().joined().contains(Self.line(100) + Self.line(101)))
        #expect(bench.losses.isEmpty)
    }

    @Test(arguments: [false, true])
    func `what another fleet holds of a shortened file is sent to this one`(isRestarted: Bool) throws {
        let bench = try TailBench(files)
        bench.receiver.fleet = "7d2a40c5e9b1836f04d8fa6e21c97b53"
        let text = self.shipped(bench)
        files.rewrite("/log/a.log", String(text.dropLast(Self.line(19).utf8.count)))
        bench.run()
        files.append("/log/a.log", "other\n")
        Self.wait(bench, 6_000)
        #expect(bench.order.count == 2)
        try bench.checkpoint()
        var other = BenchStore("other", of: "0123456789abcdef0123456789abcdef")
        bench.exchange(with: &other)
        if isRestarted { try bench.restart() }
        Self.wait(bench, 2_000)
        #expect(bench.texts == [text.dropLast(Self.line(19).utf8.count) + "other\n"])
    }

    @Test(arguments: [false, true], [false, true])
    func `what two contents of a log have is lost with neither`(isShipped: Bool, isRestarted: Bool) throws {
        let bench = try TailBench(files)
        let lines = (0..<4).map(Self.line)
        files.append("/log/a.log", lines.joined())
        bench.scan()
        bench.isSlow = true
        bench.ship()
        if isShipped { bench.deliver() }
        files.rewrite("/log/a.log", lines[..<3].joined())
        for _ in 0..<12 {
            bench.scan()
            bench.advance(500)
        }
        files.append("/log/a.log", "other\n")
        bench.scan()
        if isRestarted {
            try bench.checkpoint()
            try bench.restart()
            bench.scan()
        }
        if isShipped {
            files.rewrite("/log/a.log", "new\n")
            bench.scan()
        }
        bench.isSlow = false
        bench.loseConnection()
        Self.wait(bench, 6_000)
        // Its last line, or the one that was written after the cut.
        #expect(bench.withTail { $0.notices.loss.byteCount } == (isShipped ? 6 : lines[3].utf8.count))
    }

    @Test func `what a receiver took and could not acknowledge before the file was cut is no loss`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", Self.line(0) + Self.line(1))
        bench.scan()
        bench.isSlow = true
        bench.ship()
        bench.deliver(isAnswered: false)
        files.append("/log/a.log", Self.line(2))
        bench.scan()
        bench.loseConnection()
        files.rewrite("/log/a.log", "new\n")
        bench.scan()
        #expect(bench.withTail { $0.notices.loss.byteCount } == 0, "not known yet")
        bench.isSlow = false
        Self.wait(bench, 6_000)
        #expect(bench.withTail { $0.notices.loss.byteCount } == Self.line(2).utf8.count)
        #expect(bench.texts == [Self.line(0) + Self.line(1), "new\n"])
    }

    @Test
    func `a file that is shorter than what was sent and not acknowledged is waited for`() throws {
        let bench = try TailBench(files)
        let text = self.shipped(bench)
        let more = Self.line(20) + Self.line(21)
        files.append("/log/a.log", more)
        bench.scan()
        // The receiver has it, and its answer is lost.
        bench.isSlow = true
        bench.ship()
        bench.deliver(isAnswered: false)
        files.rewrite("/log/a.log", String(text.dropLast(20)))
        bench.loseConnection()
        Self.wait(bench, 2_000)
        files.rewrite("/log/a.log", text + more + Self.line(22))
        Self.wait(bench, 6_000)
        #expect(bench.texts == [text + more + Self.line(22)])
        #expect(bench.losses.isEmpty)
    }
}
