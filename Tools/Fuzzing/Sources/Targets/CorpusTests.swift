import Testing
import WaybillSystem
import WaybillTestSupport

/// Every fuzz target over the inputs in `Tools/Fuzzing/Corpus`, and over seeded mutations of them.
@Suite struct CorpusTests {
    private static let mutationCount = 1500

    /// The inputs that `Tools/fuzz` packed: a line for each, with its bytes as `text` or as `hex`.
    private static func inputs(of target: FuzzTarget) throws -> [(name: String, bytes: [UInt8])] {
        let path = Path.join(repositoryPath, "Tools/Fuzzing/Corpus/\(target.name).ndjson")
        let packed = try #require(try POSIXFileSystem().contents(of: path), "no \(path)")
        return try packed.split(separator: 0x0A).map { line in
            let row = try #require(ReferenceJSON(Array(line)))
            let name = try #require(row["name"]?.text)
            if let text = row["text"]?.text { return (name, Array(text.utf8)) }
            return (name, try Self.bytes(hexadecimal: try #require(row["hex"]?.text, "no bytes of \(name)")))
        }
    }

    private static func bytes(hexadecimal text: String) throws -> [UInt8] {
        let digits = text.compactMap(\.hexDigitValue)
        try #require(digits.count == text.utf8.count && digits.count.isMultiple(of: 2), "\(text)")
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }

    private static func check(_ target: FuzzTarget, _ input: [UInt8], _ name: String) {
        do {
            try target.run(input)
        } catch {
            Issue.record("\(target.name), \(name): \(error)")
        }
    }

    @Test(arguments: FuzzTarget.all.map(\.name))
    func `what once failed and what covers the target holds`(name: String) throws {
        let target = try #require(FuzzTarget.all.first { $0.name == name })
        let inputs = try Self.inputs(of: target)
        #expect(!inputs.isEmpty)
        for input in inputs { Self.check(target, input.bytes, input.name) }
    }

    @Test(arguments: FuzzTarget.all.map(\.name))
    func `mutations of the inputs hold`(name: String) throws {
        let target = try #require(FuzzTarget.all.first { $0.name == name })
        let inputs = try Self.inputs(of: target).map(\.bytes)
        var mutator = Mutator(seed: 1, byteCountMax: target.byteCountMax)
        for number in 0..<Self.mutationCount {
            Self.check(target, mutator.next(of: inputs), "mutation \(number)")
        }
    }

    @Test func `a seed gives the same mutations every time`() {
        let inputs: [[UInt8]] = [Array("one input".utf8), Array("another".utf8)]
        var first = Mutator(seed: 7, byteCountMax: 100)
        var second = Mutator(seed: 7, byteCountMax: 100)
        for _ in 0..<100 { #expect(first.next(of: inputs) == second.next(of: inputs)) }
    }
}

/// Inputs made from others: bits flipped, bytes put in, taken out and repeated, two joined, words that parsers know.
struct Mutator {
    private static let words: [[UInt8]] =
        [
            "\"", "\\u0000", "\\ud800", "{", "}", "[[", "]]", ":", ",", "-0", "1e9", "0.", "null", "\n", " ", "%", "-",
            "9007199254740992", "18446744073709551616", "\u{FEFF}", "MARK ", "OPEN ", "=",
        ].map { Array($0.utf8) } + [[0xFF, 0xFF, 0xFF, 0xFF], [0, 0, 0, 0], [0xED, 0xA0, 0x80], [0xC0]]

    private var generator: SeededGenerator
    private let byteCountMax: Int

    init(seed: UInt64, byteCountMax: Int) {
        self.generator = SeededGenerator(seed: seed)
        self.byteCountMax = byteCountMax
    }

    private mutating func index(_ bytes: [UInt8]) -> Int {
        Int.random(in: 0...bytes.count, using: &self.generator)
    }

    mutating func next(of inputs: [[UInt8]]) -> [UInt8] {
        var bytes = inputs.randomElement(using: &self.generator) ?? []
        for _ in 0..<Int.random(in: 1...4, using: &self.generator) {
            let start = self.index(bytes)
            let end = min(bytes.count, start + Int.random(in: 1...16, using: &self.generator))
            switch Int.random(in: 0..<7, using: &self.generator) {
            case 0 where start < bytes.count: bytes[start] ^= 1 << UInt8.random(in: 0...7, using: &self.generator)
            case 1 where start < bytes.count: bytes[start] = UInt8.random(in: 0...255, using: &self.generator)
            case 2: bytes.removeSubrange(start..<end)
            case 3: bytes.insert(contentsOf: bytes[start..<end], at: self.index(bytes))
            case 4: bytes.removeSubrange(start...)
            case 5:
                let other = inputs.randomElement(using: &self.generator) ?? []
                bytes.replaceSubrange(start..., with: other[self.index(other)...])
            default: bytes.insert(contentsOf: Self.words.randomElement(using: &self.generator) ?? [], at: start)
            }
        }
        return Array(bytes.prefix(self.byteCountMax))
    }
}
