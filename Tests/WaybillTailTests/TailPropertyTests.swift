import Testing
import WaybillSystem
import WaybillTail
import WaybillTestSupport

/// Random lives of a log folder against a model that remembers every content a file ever had.
private struct FolderModel {
    struct File {
        var path: String
        var text = ""
        /// Renamed out of the patterns; no one writes to it any more.
        var isOutside = false
    }

    var live: [File] = []
    /// Contents whose file is gone, or that were cut away after they were read.
    var past: [String] = []
    var lineCount = 0
    var fileCount = 0

    mutating func line() -> String {
        self.lineCount += 1
        return "line \(self.lineCount)" + String(repeating: ".", count: self.lineCount % 23) + "\n"
    }

    mutating func newPath(_ prefix: String) -> String {
        self.fileCount += 1
        return "\(prefix)\(self.fileCount)"
    }

    /// What the receiver must hold in the end: whole lines of the living, everything of the dead.
    var expected: [String] {
        let living = self.live.map { file -> String in
            guard !file.isOutside, let end = file.text.lastIndex(of: "\n") else {
                return file.isOutside ? file.text : ""
            }
            return String(file.text[...end])
        }
        return (self.past + living).filter { !$0.isEmpty }.sorted()
    }
}

private struct FolderLife {
    let files: FaultyFiles
    let bench: TailBench<FaultyFiles>
    var model = FolderModel()
    var random: SeededGenerator

    init(seed: UInt64) throws {
        self.random = SeededGenerator(seed: seed)
        self.files = FaultyFiles(MemoryDisk(hasBirths: seed % 4 != 0))
        var limits = TailLimits()
        limits.lineByteCountMax = 4096
        let source = SourceConfiguration(name: "app", kind: .files(patterns: ["/log/a.*"]))
        self.bench = try TailBench(self.files, sources: [source], limits: limits)
    }

    private mutating func pick() -> Int? {
        let writable = self.model.live.indices.filter { !self.model.live[$0].isOutside }
        return writable.randomElement(using: &self.random)
    }

    private mutating func append(_ index: Int, _ text: String) {
        self.model.live[index].text += text
        self.files.append(self.model.live[index].path, text)
    }

    private mutating func write() {
        if self.model.live.isEmpty || Int.random(in: 0..<5, using: &self.random) == 0 {
            self.model.live.append(FolderModel.File(path: self.model.newPath("/log/a.")))
            self.files.append(self.model.live[self.model.live.count - 1].path, "")
        }
        guard let index = self.pick() else { return }
        for _ in 0..<Int.random(in: 1...4, using: &self.random) { self.append(index, self.model.line()) }
        if Int.random(in: 0..<3, using: &self.random) == 0 {
            self.model.lineCount += 1
            self.append(index, "half \(self.model.lineCount) ")
        }
    }

    private mutating func endLine(_ index: Int) {
        let text = self.model.live[index].text
        if !text.isEmpty, !text.hasSuffix("\n") { self.append(index, "end\n") }
    }

    private mutating func rename(toOutside isOutside: Bool) throws {
        guard let index = self.pick() else { return }
        if isOutside {
            // Only a file that is known can be followed out of its patterns.
            self.endLine(index)
            self.bench.run()
            try self.bench.checkpoint()
            self.model.live[index].isOutside = true
        }
        let path = self.model.newPath(isOutside ? "/log/old." : "/log/a.")
        self.files.move(self.model.live[index].path, path)
        self.model.live[index].path = path
    }

    private mutating func delete() {
        guard let index = self.pick() else { return }
        self.bench.scan()
        self.files.remove(self.model.live[index].path)
        self.model.past.append(self.model.live[index].text)
        self.model.live.remove(at: index)
    }

    private mutating func copyTruncate() {
        guard let index = self.pick(), !self.model.live[index].text.isEmpty else { return }
        self.endLine(index)
        self.bench.run()
        self.model.past.append(self.model.live[index].text)
        self.model.live[index].text = ""
        self.files.rewrite(self.model.live[index].path, "")
        if Bool.random(using: &self.random) {
            for _ in 0..<Int.random(in: 1...6, using: &self.random) { self.append(index, self.model.line()) }
        }
    }

    private mutating func restart(keepingRegistry: Bool) throws {
        // What only a descriptor holds dies with the process; see the tests of counted loss.
        self.bench.settle()
        if Bool.random(using: &self.random) { try self.bench.checkpoint() }
        self.bench.kill()
        if !keepingRegistry {
            self.files.remove("/state/registry")
            self.files.remove("/state/registry.previous")
        }
        if Bool.random(using: &self.random) { self.write() }
        try self.bench.start()
    }

    /// The receiver comes back from a backup that knows only the first lines of a living file.
    private mutating func forgetAtReceiver() {
        self.bench.run()
        guard let index = self.pick(), let head = self.model.live[index].text.split(separator: "\n").first else {
            return
        }
        let prefix = Array("\(head)\n".utf8)
        let id = self.bench.received.first { $0.value.starts(with: prefix) && !self.bench.sealed.contains($0.key) }?.key
        guard let id else { return }
        self.bench.received[id] = prefix
        self.bench.receiverCameBackOlder()
    }

    mutating func step() throws {
        switch Int.random(in: 0..<16, using: &self.random) {
        case 0...5: self.write()
        case 6: try self.rename(toOutside: false)
        case 7: try self.rename(toOutside: true)
        case 8: self.delete()
        case 9: self.copyTruncate()
        case 10: try self.restart(keepingRegistry: Bool.random(using: &self.random))
        case 11: self.forgetAtReceiver()
        case 12: self.bench.loseConnection()
        case 13: self.bench.advance(4_000)
        case 14: try self.bench.checkpoint()
        default:
            if let index = self.pick() { self.bench.hint(self.model.live[index].path) }
        }
        self.bench.isSlow = Int.random(in: 0..<3, using: &self.random) == 0
        if Bool.random(using: &self.random) { self.bench.scan() }
        self.bench.ship(
            readCountMax: Int.random(in: 0...6, using: &self.random),
            byteCountMax: Int.random(in: 1...100, using: &self.random))
    }
}

struct TailPropertyTests {
    @Test(arguments: 0..<UInt64(300))
    func `every line of every content arrives once, whatever happens to its file`(seed: UInt64) throws {
        var life = try FolderLife(seed: seed)
        for _ in 0..<60 { try life.step() }
        life.bench.settle()
        let received = life.bench.received.values.map { String(decoding: $0, as: UTF8.self) }
        #expect(received.filter { !$0.isEmpty }.sorted() == life.model.expected)
    }
}
