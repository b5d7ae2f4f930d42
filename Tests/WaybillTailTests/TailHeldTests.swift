import Testing
import WaybillSystem
import WaybillTestSupport

@testable import WaybillTail

/// Contents whose first bytes a receiver holds in another stream, while their files change.
struct TailHeldTests {
    private let files = FaultyFiles()
    private static let path = "/log/a.log"
    private static let head = "head\n"

    /// Lines that no other name gives.
    private static func lines(_ name: String, _ numbers: Range<Int>) -> String {
        numbers.map { "\(name) \($0) \(String(repeating: "x", count: 40))\n" }.joined()
    }

    private static let shipped = Self.head + Self.lines("old", 0..<20)
    private static let unread = "unread\n"

    /// Contents that begin alike.
    private static let others = [
        "longer": Self.head + Self.lines("new", 0..<40),
        "equally long": Self.head + Self.lines("new", 0..<20) + "unread\n",
        "equally long as what is held": Self.head + Self.lines("new", 0..<20),
        "shorter": Self.head + Self.lines("new", 0..<10),
        "only the head": Self.head,
    ]

    private static func id(_ id: String, _ incarnation: Int) -> String {
        id.prefix(through: id.lastIndex(of: "-") ?? id.startIndex) + "\(incarnation)"
    }

    /// A log whose stream was sealed, and that has grown; its agent has lost its connection.
    private func sealed() throws -> (bench: TailBench<FaultyFiles>, stream: String) {
        let bench = try TailBench(files)
        files.append(Self.path, Self.shipped)
        bench.run()
        let stream = bench.order[0]
        bench.sealed.insert(stream)
        bench.loseConnection()
        files.append(Self.path, Self.unread)
        return (bench, stream)
    }

    private func wait(_ bench: TailBench<FaultyFiles>, _ seconds: Int64) {
        for _ in 0..<seconds {
            bench.advance(1000)
            bench.run()
        }
    }

    /// The content is cut after the answer for the sealed stream, or after the one for the stream that is to skip it.
    @Test(arguments: Self.others.keys.sorted(), [0, 1])
    func `what a sealed stream holds is skipped of its own content alone`(name: String, moment: Int) throws {
        let other = try #require(Self.others[name])
        let (bench, stream) = try self.sealed()
        var isCut = false
        bench.afterAnswer = { [files] id in
            guard !isCut, id == Self.id(stream, moment) else { return }
            isCut = true
            files.rewrite(Self.path, other)
        }
        bench.run()
        self.wait(bench, 8)
        #expect(isCut)
        #expect(bench.texts.first == Self.shipped)
        #expect(bench.texts.dropFirst().joined() == other)
        #expect(bench.skipped.isEmpty)
        #expect(bench.withTail { $0.notices.loss.byteCount } <= Self.unread.utf8.count)
    }

    @Test(arguments: [0, 1])
    func `a log that is cut before what is held is skipped is shipped once`(moment: Int) throws {
        let (bench, stream) = try self.sealed()
        let rest = Self.head + Self.lines("old", 0..<19)
        var isCut = false
        bench.afterAnswer = { [files] id in
            guard !isCut, id == Self.id(stream, moment) else { return }
            isCut = true
            files.rewrite(Self.path, rest)
        }
        bench.run()
        files.append(Self.path, "other\n")
        self.wait(bench, 8)
        #expect(bench.texts.first == Self.shipped)
        // One batch had all of it: nothing shows that its first lines were shipped.
        #expect(bench.texts.last == rest + "other\n")
        #expect(bench.withTail { $0.notices.loss.byteCount } <= Self.unread.utf8.count)
    }

    @Test(arguments: [true, false])
    func `a content that was cut again is not taken for the one whose bytes are held`(isRestarted: Bool) throws {
        let bench = try TailBench(files)
        var text = Self.head
        files.append(Self.path, text)
        for number in 0..<20 {
            let line = Self.lines("old", number..<number + 1)
            files.append(Self.path, line)
            text += line
            bench.run()
        }
        let stream = bench.order[0]
        // The last line is taken back: the next stream begins with a skip of the others.
        let held = text.dropLast(Self.lines("old", 19..<20).utf8.count)
        files.rewrite(Self.path, String(held))
        bench.run()
        for _ in 0..<6 {
            bench.advance(1000)
            bench.scan()
        }
        try bench.checkpoint()
        let other = Self.head + Self.lines("new", 0..<30)
        if isRestarted {
            bench.kill()
            files.rewrite(Self.path, other)
            try bench.start()
        } else {
            bench.afterAnswer = { [files] id in
                if id == Self.id(stream, 1), bench.skipped.isEmpty { files.rewrite(Self.path, other) }
                bench.afterAnswer = { _ in }
            }
        }
        bench.run()
        self.wait(bench, 8)
        #expect(bench.texts.first == text)
        #expect(bench.texts.dropFirst().joined() == other)
        #expect(bench.skipped.isEmpty)
    }
}
