import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTail
import WaybillTestSupport

/// Random lives of a log folder whose writers destroy what no one has read yet.
private struct LossyLife {
    /// What was in a file from when it was made or cut until it was cut or deleted.
    struct Content {
        var text: String
        let head: String
        var hash: String { Hexadecimal.text(FNV1a.hash(Array(self.head.utf8)), digitCount: 16) }
        /// A scan found it and, as there was a descriptor to spare, could give it a stream.
        var isSeen = false
    }

    let files: FaultyFiles
    let bench: TailBench<FaultyFiles>
    var contents: [Content] = []
    /// Path → content.
    var living: [String: Int] = [:]
    var lineCount = 0
    var random: SeededGenerator

    init(seed: UInt64) throws {
        self.random = SeededGenerator(seed: seed)
        self.files = FaultyFiles(MemoryDisk(hasBirths: seed % 4 != 0))
        var limits = TailLimits()
        // Most runs have fewer descriptors than files.
        limits.openFileCountMax = 1 + Int(seed % 6)
        let source = SourceConfiguration(name: "app", kind: .files(patterns: ["/log/a.*"]))
        self.bench = try TailBench(self.files, sources: [source], limits: limits)
    }

    private mutating func chance(_ count: Int) -> Bool { Int.random(in: 0..<count, using: &self.random) == 0 }

    private mutating func line() -> String {
        self.lineCount += 1
        return "line \(self.lineCount)" + String(repeating: ".", count: self.lineCount % 5) + "\n"
    }

    private mutating func write() {
        let path = "/log/a.\(Int.random(in: 0..<8, using: &self.random))"
        var text = ""
        for _ in 0..<Int.random(in: 1...4, using: &self.random) { text += self.line() }
        if let content = self.living[path] {
            self.contents[content].text += text
        } else {
            self.living[path] = self.contents.count
            let head = String(text[...(text.firstIndex(of: "\n") ?? text.startIndex)])
            self.contents.append(Content(text: text, head: head))
        }
        self.files.append(path, text)
    }

    private mutating func pick() -> String? {
        self.living.keys.sorted().randomElement(using: &self.random)
    }

    private mutating func cut() {
        guard let path = self.pick() else { return }
        self.living[path] = nil
        self.files.rewrite(path, "")
    }

    private mutating func delete() {
        guard let path = self.pick() else { return }
        self.living[path] = nil
        self.files.remove(path)
    }

    private mutating func renameAway() {
        guard let path = self.pick(), let content = self.living.removeValue(forKey: path) else { return }
        self.files.move(path, "/log/old.\(content)")
    }

    private mutating func scan() {
        self.bench.scan()
        let ids = self.bench.withTail { tail in tail.streams.map { tail.id(of: $0).description } }
        for content in self.living.values {
            let hash = self.contents[content].hash
            if ids.contains(where: { $0.contains("-\(hash)-") }) { self.contents[content].isSeen = true }
        }
    }

    private mutating func restart() throws {
        try self.bench.checkpoint()
        self.bench.kill()
        for _ in 0..<Int.random(in: 0...3, using: &self.random) { self.disturb() }
        try self.bench.start()
    }

    private mutating func disturb() {
        switch Int.random(in: 0..<6, using: &self.random) {
        case 0...2: self.write()
        case 3: self.cut()
        case 4: self.delete()
        default: self.renameAway()
        }
    }

    mutating func step() throws {
        self.disturb()
        if self.chance(12) { try self.restart() }
        if self.chance(8) { self.bench.loseConnection() }
        if self.chance(2) { self.scan() }
        self.bench.isSlow = self.chance(3)
        self.bench.ship(
            readCountMax: Int.random(in: 0...6, using: &self.random),
            byteCountMax: Int.random(in: 1...60, using: &self.random))
    }

    /// Ends a life: a file that was cut is decided about when it has a whole line again.
    mutating func end() {
        for number in 0..<8 where self.files.exists("/log/a.\(number)") {
            self.files.append("/log/a.\(number)", "end \(number)\n")
            if let content = self.living["/log/a.\(number)"] { self.contents[content].text += "end \(number)\n" }
        }
        self.bench.settle()
    }

    /// Contents of which something is missing and nothing was said.
    func unnamed() -> [String] {
        var unnamed: [String] = []
        for content in self.contents where content.isSeen {
            var streams = self.bench.received.filter { $0.key.contains("-\(content.hash)-") }
            let whole = Array(content.text.utf8)
            // A file that went on after its seal is in two streams; the later one begins with a skip of the earlier.
            for (id, bytes) in streams where self.bench.sealed.contains(id) {
                let isHeld = streams.contains { $0.key != id && $0.value.count > bytes.count }
                if isHeld { streams[id] = nil }
            }
            if streams.isEmpty, self.bench.lostFrom.contains(where: { $0.key.contains("-\(content.hash)-") }) {
                continue
            }
            if streams.count != 1 { unnamed.append("\(content.head) has \(streams.count) streams") }
            for (id, bytes) in streams where bytes != whole {
                #expect(whole.starts(with: bytes), "\(content.head)")
                if !self.bench.lostFrom[id, default: []].contains(bytes.count) {
                    unnamed.append("\(content.head) ends at \(bytes.count) of \(whole.count)")
                }
            }
        }
        return unnamed
    }
}

struct TailLossTests {
    @Test(arguments: 0..<UInt64(400))
    func `whatever is missing was named from the byte on that is missing`(seed: UInt64) throws {
        var life = try LossyLife(seed: seed)
        for _ in 0..<80 { try life.step() }
        life.end()
        #expect(life.unnamed() == [])
    }
}
