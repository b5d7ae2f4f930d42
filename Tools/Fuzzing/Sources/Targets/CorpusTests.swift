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
        var mutator = Mutator(target.shape, seed: 1, byteCountMax: target.byteCountMax)
        for number in 0..<Self.mutationCount {
            Self.check(target, mutator.next(of: inputs), "mutation \(number)")
        }
    }

    @Test func `a seed gives the same mutations every time`() {
        let inputs: [[UInt8]] = [Array("one input".utf8), Array("another".utf8)]
        var first = Mutator(.json, seed: 7, byteCountMax: 100)
        var second = Mutator(.json, seed: 7, byteCountMax: 100)
        for _ in 0..<100 { #expect(first.next(of: inputs) == second.next(of: inputs)) }
    }
}
