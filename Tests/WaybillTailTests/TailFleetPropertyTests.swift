import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@testable import WaybillTail

/// Random lives of logs that all begin with the same line, whose agent moves between three receivers of a fleet.
private struct FleetFolderLife {
    private static let fleet = "7d2a40c5e9b1836f04d8fa6e21c97b53"
    private static let head = "head\n"
    private let files = FaultyFiles()
    let bench: TailBench<FaultyFiles>
    /// The receivers that do not answer now.
    private var others: [BenchStore] = []
    private var texts: [String: String] = ["/log/a.log": ""]
    private var lineCount = 0
    private var random: SeededGenerator

    init(seed: UInt64) throws {
        self.random = SeededGenerator(seed: seed)
        self.bench = try TailBench(self.files)
        self.bench.receiver.fleet = Self.fleet
        self.others = ["second", "third"].map { BenchStore($0, of: Self.fleet) }
    }

    private mutating func draw(_ range: Range<Int>) -> Int { Int.random(in: range, using: &self.random) }

    private mutating func lines() -> String {
        var text = ""
        for _ in 0..<self.draw(1..<5) {
            self.lineCount += 1
            text += "line \(self.lineCount)" + String(repeating: ".", count: self.lineCount % 23) + "\n"
        }
        return text
    }

    private mutating func append() {
        let text = self.texts["/log/a.log"] ?? ""
        let more = (text.isEmpty ? Self.head : "") + self.lines()
        self.texts["/log/a.log"] = text + more
        self.files.append("/log/a.log", more)
    }

    private mutating func cut() {
        let isRefilled = Bool.random(using: &self.random)
        let text = isRefilled ? Self.head + self.lines() + (Bool.random(using: &self.random) ? self.lines() : "") : ""
        self.texts["/log/a.log"] = text
        self.files.rewrite("/log/a.log", text)
    }

    private mutating func rotate() {
        guard let text = self.texts.removeValue(forKey: "/log/a.log"), !text.isEmpty else { return }
        let path = "/log/old-\(self.lineCount).log"
        self.files.move("/log/a.log", path)
        self.texts[path] = text
    }

    private mutating func delete() {
        guard let path = self.texts.keys.sorted().randomElement(using: &self.random) else { return }
        self.texts[path] = nil
        self.files.remove(path)
    }

    private mutating func restart() throws {
        if Bool.random(using: &self.random) { try self.bench.checkpoint() }
        self.bench.kill()
        for _ in 0..<self.draw(0..<3) { if Bool.random(using: &self.random) { self.cut() } else { self.append() } }
        try self.bench.start()
        if Bool.random(using: &self.random) { self.move() }
    }

    private mutating func move() { self.bench.exchange(with: &self.others[self.draw(0..<self.others.count)]) }

    /// The fleet has stored a stream up to the end of one of its lines.
    private mutating func store() {
        guard let id = self.bench.received.keys.sorted().randomElement(using: &self.random),
            let bytes = self.bench.received[id],
            let end = bytes.indices.filter({ bytes[$0] == 0x0A }).randomElement(using: &self.random)
        else { return }
        self.bench.store(id, upTo: end + 1)
    }

    mutating func step() throws {
        switch self.draw(0..<16) {
        case 0...4: self.append()
        case 5, 6: self.cut()
        case 7: self.rotate()
        case 8: self.delete()
        case 9, 10: try self.restart()
        case 11, 12: self.move()
        case 13: self.store()
        case 14: self.bench.loseConnection()
        default: self.bench.advance(4_000)
        }
        if Bool.random(using: &self.random) { self.bench.scan() }
        self.bench.isSlow = self.draw(0..<3) == 0
        self.bench.ship(readCountMax: self.draw(0..<7), byteCountMax: self.draw(1..<100))
    }

    mutating func end() {
        for _ in 0..<3 {
            self.move()
            self.bench.settle()
        }
    }

    /// Lines that were sent at two places, and places at which two lines were sent.
    var confusions: [String] {
        var places: [String: String] = [:]
        var lines: [String: String] = [:]
        var confusions: [String] = []
        for batch in self.bench.batches {
            var offset = batch.offset
            for line in batch.bytes.split(separator: 0x0A) {
                let (place, text) = ("\(batch.id) \(offset)", String(decoding: line, as: UTF8.self))
                offset += line.count + 1
                if let other = lines.updateValue(text, forKey: place), other != text {
                    confusions.append("\(place) has \(other) and \(text)")
                }
                guard text != "head", let other = places.updateValue(place, forKey: text), other != place else {
                    continue
                }
                confusions.append("\(text) is at \(other) and at \(place)")
            }
        }
        return confusions
    }

    /// Lines that files have and that were never sent.
    var missing: [String] {
        let sent = Set(self.bench.batches.flatMap { $0.bytes.split(separator: 0x0A).map { Array($0) } })
        return self.texts.values.flatMap { $0.split(separator: "\n") }.filter { !sent.contains(Array($0.utf8)) }
            .map { String($0) }.sorted()
    }
}

struct TailFleetPropertyTests {
    @Test(arguments: 0..<UInt64(300))
    func `a number means one content, and a content has one number`(seed: UInt64) throws {
        var life = try FleetFolderLife(seed: seed)
        for _ in 0..<60 { try life.step() }
        life.end()
        #expect(life.confusions == [])
        #expect(life.missing == [])
    }
}
