import Testing
import WaybillSystem
import WaybillTestSupport

@testable import WaybillTail

/// One file that is appended to, cut, and written anew at random, with a ledger of what was seen of it and never read.
private struct LossLife {
    let files: FaultyFiles
    let bench: TailBench<FaultyFiles>
    var random: SeededGenerator
    private let path = "/log/a.log"
    private var content = ""
    private var number = 0
    /// The length at the last look at this content.
    private var seen = 0
    /// How many bytes of earlier contents were read before this one began.
    private var readBefore = 0
    private(set) var lost = 0

    init(seed: UInt64) throws {
        self.random = SeededGenerator(seed: seed)
        self.files = FaultyFiles(MemoryDisk(hasBirths: seed % 3 != 0))
        self.bench = try TailBench(self.files)
    }

    /// How many bytes of the present content were read.
    private var readCount: Int { self.bench.batches.reduce(0) { $0 + $1.bytes.count } - self.readBefore }

    private mutating func line() -> String {
        self.number += 1
        return "{\"n\":\(self.number)}" + String(repeating: " ", count: Int.random(in: 0..<90, using: &self.random))
            + "\n"
    }

    private mutating func append() {
        let text = (0..<Int.random(in: 1...5, using: &self.random)).map { _ in self.line() }.joined()
        self.content += text
        self.files.append(self.path, text)
    }

    private mutating func look() {
        self.bench.scan()
        self.seen = self.content.utf8.count
    }

    /// Nothing may be read or settled of an old content once the file has another one.
    private mutating func endContent() {
        self.lost += max(0, self.seen - self.readCount)
        self.readBefore += self.readCount
        self.seen = 0
    }

    private mutating func rewrite() {
        self.endContent()
        self.content = (0..<Int.random(in: 0...12, using: &self.random)).map { _ in self.line() }.joined()
        self.files.rewrite(self.path, self.content)
        self.look()
    }

    /// Takes back lines that were seen and not read.
    private mutating func cutUnread() {
        let lines = self.content.split(separator: "\n", omittingEmptySubsequences: true)
        var length = 0
        let ends = lines.map { line -> Int in
            length += line.utf8.count + 1
            return length
        }
        guard
            let end = ends.filter({ $0 >= max(1, self.readCount) && $0 < self.seen }).randomElement(using: &self.random)
        else { return }
        self.lost += self.seen - end
        self.content = String(decoding: Array(self.content.utf8)[..<end], as: UTF8.self)
        self.files.rewrite(self.path, self.content)
        self.look()
    }

    mutating func step() {
        switch Int.random(in: 0..<8, using: &self.random) {
        case 0...2: self.append()
        case 3: self.look()
        case 4: self.rewrite()
        case 5: self.cutUnread()
        case 6: self.bench.advance(1_000)
        default: self.bench.loseConnection()
        }
        guard Bool.random(using: &self.random) else { return }
        // A read sees what is there, too.
        self.look()
        self.bench.ship(readCountMax: Int.random(in: 0...3, using: &self.random), byteCountMax: 200)
    }

    mutating func end() {
        self.bench.run()
        self.bench.settle()
    }
}

struct TailLossPropertyTests {
    @Test(arguments: 0..<UInt64(300))
    func `what is told as lost was seen and never read, and nothing else`(seed: UInt64) throws {
        var life = try LossLife(seed: seed)
        for _ in 0..<60 { life.step() }
        life.end()
        #expect(life.bench.withTail { $0.notices.loss.byteCount } == life.lost)
    }
}
