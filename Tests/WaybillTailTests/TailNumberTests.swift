import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@testable import WaybillTail

/// One number in a fleet for each content of a log, whatever receiver it goes to and whatever dies.
struct TailNumberTests {
    private static let fleet = "7d2a40c5e9b1836f04d8fa6e21c97b53"
    private let files = FaultyFiles()
    private let log = "/log/a.log"
    private let old = "head\nold\n"
    private let new = "head\nnew, and longer than before\n"

    private func bench() throws -> TailBench<FaultyFiles> {
        let bench = try TailBench(files)
        bench.receiver.fleet = Self.fleet
        return bench
    }

    private func store(_ name: String, of fleet: String? = Self.fleet) -> BenchStore { BenchStore(name, of: fleet) }

    /// A log whose first content the first receiver has, and nothing stored; `id` is that of number 0.
    private func sent() throws -> (bench: TailBench<FaultyFiles>, id: String) {
        let bench = try bench()
        files.append(log, old)
        bench.run()
        let id = try #require(bench.order.first)
        #expect(id.hasSuffix("-0"))
        return (bench, id)
    }

    private func id(_ id: String, number: Int) -> String { id.dropLast() + String(number) }

    // MARK: Where it goes

    @Test func `a content has one number at all receivers, and no other content has it`() throws {
        let (bench, id) = try sent()
        files.rewrite(log, new)
        bench.run()
        #expect(bench.received[self.id(id, number: 1)] == Array(new.utf8))
        var second = store("second")
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.received == [self.id(id, number: 1): Array(new.utf8)])
    }

    @Test func `no number is given twice after the device got another number`() throws {
        let (bench, _) = try sent()
        try bench.checkpoint()
        bench.kill()
        files.memory.renumberDevice()
        try bench.start()
        var ids: [String] = []
        for round in 1...4 {
            files.rewrite(log, "head\n\(round) \(String(repeating: "x", count: round))\n")
            bench.settle()
            ids.append(try #require(bench.order.last))
            var next = store("receiver \(round)")
            bench.exchange(with: &next)
            bench.settle()
        }
        #expect(Set(ids).count == 4)
    }

    @Test func `without births a new file in an inode has no number that a fleet knows`() throws {
        let files = FaultyFiles(MemoryDisk(hasBirths: false))
        let bench = try TailBench(files)
        bench.receiver.fleet = Self.fleet
        files.append(log, old)
        let inode = files.inode(of: log)
        bench.run()
        files.remove(log)
        bench.settle()
        #expect(bench.sealed.count == 1)
        try bench.checkpoint()
        try bench.restart()
        var second = store("second")
        bench.exchange(with: &second)
        files.append(log, new)
        #expect(files.inode(of: log) == inode)
        bench.run()
        #expect(bench.order.count == 1 && bench.order != second.order)
    }

    @Test func `a log that is cut on its way to the next receiver has another number there`() throws {
        let (bench, id) = try sent()
        var second = store("second")
        bench.exchange(with: &second)
        files.rewrite(log, new)
        bench.run()
        #expect(bench.received == [self.id(id, number: 1): Array(new.utf8)])
    }

    @Test func `a content that a receiver cannot take gets its next number at all of them`() throws {
        let (bench, id) = try sent()
        var second = store("second")
        second.received[id] = Array("other\n".utf8)
        second.order = [id]
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.received[self.id(id, number: 1)] == Array(old.utf8))
        var third = store("third")
        bench.exchange(with: &third)
        bench.run()
        #expect(bench.received == [self.id(id, number: 1): Array(old.utf8)])
    }

    @Test func `a receiver outside the fleet is asked from 0 on`() throws {
        let (bench, id) = try sent()
        files.rewrite(log, new)
        bench.run()
        var alone = store("alone", of: nil)
        bench.exchange(with: &alone)
        bench.run()
        #expect(bench.received == [id: Array(new.utf8)])
        bench.exchange(with: &alone)
        files.append(log, "more\n")
        bench.run()
        #expect(bench.received[self.id(id, number: 1)] == Array((new + "more\n").utf8))
    }

    // MARK: What dies

    @Test(arguments: [true, false])
    func `an agent that was killed knows at the next receiver which content it has sent`(isCut: Bool) throws {
        let (bench, id) = try sent()
        bench.kill()
        if isCut { files.rewrite(log, new) }
        try bench.start()
        var second = store("second")
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.received == [self.id(id, number: isCut ? 1 : 0): Array((isCut ? new : old).utf8)])
    }

    @Test func `a longer content with the same bytes below what was written at first is another one`() throws {
        let (bench, id) = try sent()
        files.append(log, "more\n")
        bench.run()
        bench.kill()
        files.rewrite(log, old + "MORE, and longer\n")
        try bench.start()
        var second = store("second")
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.received.keys.sorted() == [self.id(id, number: 1)])
    }

    @Test func `an agent that was killed while the log was empty knows the number that comes next`() throws {
        let (bench, id) = try sent()
        files.rewrite(log, "")
        bench.settle()
        #expect(bench.sealed == [], "the end waits for the next content")
        try bench.checkpoint()
        try bench.restart()
        bench.settle()
        #expect(bench.sealed == [])
        try bench.checkpoint()
        try bench.restart()
        var second = store("second")
        bench.exchange(with: &second)
        bench.run()
        files.append(log, new)
        bench.run()
        #expect(bench.received == [self.id(id, number: 1): Array(new.utf8)])
        bench.exchange(with: &second)
        bench.settle()
        #expect(bench.sealed == [id])
        #expect(bench.received[self.id(id, number: 1)] == Array(new.utf8))
    }

    @Test func `the end of a content is said when its empty file is deleted`() throws {
        let (bench, id) = try sent()
        files.rewrite(log, "")
        bench.settle()
        files.remove(log)
        bench.settle()
        #expect(bench.sealed == [id])
        try bench.checkpoint()
        #expect(bench.withTail { $0.streams } == [])
    }

    // MARK: The registry

    /// Makes every write and sync of the registry fail.
    private func breakRegistry(_ bench: TailBench<FaultyFiles>) {
        files.setFaults { [path = bench.registryPath] call in
            call.isChange && call.path.hasPrefix(path) ? .error(Errno.noSpace) : nil
        }
    }

    @Test func `nothing is opened under a number that is not durable`() throws {
        let bench = try bench()
        bench.run()
        breakRegistry(bench)
        files.append(log, old)
        bench.run()
        #expect(bench.questionCount == 0)
        files.clearFaults()
        bench.run()
        #expect(bench.texts == [old])
    }

    @Test(arguments: 0..<UInt64(8))
    func `a power cut after the first OPEN leaves the number`(seed: UInt64) throws {
        let bench = try bench()
        bench.run()
        files.memory.writeBack()
        files.place(log, Array(old.utf8))
        bench.scan()
        bench.ship(readCountMax: 1)
        #expect(bench.questionCount == 1)
        bench.kill()
        files.crash(seed: seed)
        try bench.start()
        bench.scan()
        #expect(bench.withTail { tail in tail.streams.compactMap { tail.entry(of: $0).number?.number } } == [0])
    }

    @Test func `nothing is sent whose end the registry does not have`() throws {
        let (bench, id) = try sent()
        breakRegistry(bench)
        files.append(log, "more\n")
        bench.run()
        #expect(bench.received[id] == Array(old.utf8))
        files.clearFaults()
        bench.run()
        #expect(bench.received[id] == Array((old + "more\n").utf8))
    }

    @Test(arguments: [true, false])
    func `a content from before there were numbers keeps that of its stream`(isStored: Bool) throws {
        let (bench, id) = try sent()
        files.rewrite(log, new)
        bench.run()
        let next = self.id(id, number: 1)
        if isStored { bench.store(next, upTo: 5) }
        try bench.checkpoint()
        bench.kill()
        try self.removeNumbers(bench)
        try bench.start()
        bench.run()
        var second = store("second")
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.received == [next: Array(new.utf8)])
        #expect(bench.claimed == (isStored ? [5] : []))
    }

    private func removeNumbers(_ bench: TailBench<FaultyFiles>) throws {
        var registry = try StateLog(path: bench.registryPath, files: files)
        var lines = StateLines()
        for (key, text) in registry.takeEntries().sorted(by: { $0.key < $1.key }) {
            lines.set(key, text.split(separator: " ").filter { !$0.hasPrefix("number=") }.joined(separator: " "))
        }
        var rewrite = try registry.beginRewrite()
        try registry.write(lines, to: &rewrite)
        try registry.finish(rewrite)
    }

    private static let digest = "88efdc26636ef92fe896d762ef1aed71"

    @Test(arguments: ["3:0:-:0", "3:4:\(Self.digest):0", "3:4:\(Self.digest):4:2"])
    func `a number is read as it was written`(text: String) {
        #expect(ContentNumber(text[...])?.text == text)
    }

    @Test(
        arguments: [
            "3:4:-:0", "3:0:\(Self.digest):0", "3:4:\(Self.digest):5:1", "3:4:\(Self.digest):4",
            "3:4:\(Self.digest):0:1", "3:0:-", "-1:0:-:0", "",
        ])
    func `no other text is a number`(text: String) {
        #expect(ContentNumber(text[...]) == nil)
    }

    // MARK: A sealed content that grew

    @Test func `what was sealed is skipped at every receiver, until the fleet has stored more`() throws {
        let (bench, id) = try sent()
        bench.sealed = [id]
        files.append(log, "more\n")
        bench.loseConnection()
        bench.run()
        let next = self.id(id, number: 1)
        #expect(bench.skipped == [next: ["0+9 held"]])
        var second = store("second")
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.skipped == [next: ["0+9 held", "0+9 held"]])
        #expect(bench.received[next]?.suffix(5) == Array("more\n".utf8)[...])
        #expect(bench.received[id] == nil)
        bench.store(next, upTo: 14)
        files.append(log, "last\n")
        var third = store("third")
        bench.exchange(with: &third)
        bench.run()
        #expect(bench.skipped[next] == ["0+9 held", "0+9 held", "0+14 elsewhere"])
        #expect(bench.received[next]?.suffix(5) == Array("last\n".utf8)[...])
    }

    @Test func `a log that is cut behind a sealed content is not skipped`() throws {
        let (bench, id) = try sent()
        bench.sealed = [id]
        files.append(log, "more\n")
        bench.loseConnection()
        bench.run()
        bench.kill()
        files.rewrite(log, new)
        try bench.start()
        var second = store("second")
        bench.exchange(with: &second)
        bench.run()
        #expect(bench.skipped == [self.id(id, number: 1): ["0+9 held"]])
        #expect(bench.received == [self.id(id, number: 2): Array(new.utf8)])
    }
}
