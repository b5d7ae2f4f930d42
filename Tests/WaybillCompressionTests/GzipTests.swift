import Testing
import WaybillCompression

@Suite struct GzipTests {
    static func member(_ raw: [UInt8], level: Int = 6) -> [UInt8] {
        var deflater = GzipDeflater(level: level)
        var output = [UInt8](repeating: 0, count: deflater.byteCountMax(of: raw.count))
        let count = raw.withUnsafeBytes { raw in
            output.withUnsafeMutableBytes { deflater.deflate(raw, into: $0) }
        }
        return Array(output[..<count])
    }

    /// Inflates with input and output cut into pieces of these sizes.
    static func inflate(_ bytes: [UInt8], pieces: Int, room: Int) -> Result<[UInt8], InflateError> {
        var inflater = GzipInflater()
        var output: [UInt8] = []
        var rest = bytes[...]
        var buffer = [UInt8](repeating: 0, count: room)
        while !rest.isEmpty {
            var piece = Array(rest.prefix(pieces))[...]
            rest = rest.dropFirst(pieces)
            while true {
                let result = Array(piece).withUnsafeBytes { input in
                    buffer.withUnsafeMutableBytes { output -> Result<(taken: Int, filled: Int), InflateError> in
                        do throws(InflateError) {
                            return .success(try inflater.inflate(input, into: output))
                        } catch {
                            return .failure(error)
                        }
                    }
                }
                switch result {
                case .failure(let error): return .failure(error)
                case .success(let (taken, filled)):
                    output += buffer[..<filled]
                    piece = piece.dropFirst(taken)
                    if piece.isEmpty, filled < room { break }
                    continue
                }
                break
            }
        }
        return inflater.isBetweenMembers ? .success(output) : .failure(.truncated)
    }

    private static let texts: [[UInt8]] = [
        [], Array("a\n".utf8), Array(String(repeating: "{\"n\":1}\n", count: 40_000).utf8),
        (0..<70_000).map { UInt8(truncatingIfNeeded: $0 &* 2_654_435_761 >> 13) },
    ]

    @Test(arguments: [1, 7, 1000, 1 << 20], [1, 100, 1 << 16])
    func `members give their bytes, one behind the other, in pieces of any size`(pieces: Int, room: Int) {
        guard pieces * room > 1 else { return }
        let bytes = Self.texts.flatMap { Self.member($0) }
        #expect(Self.inflate(bytes, pieces: pieces, room: room) == .success(Self.texts.flatMap { $0 }))
    }

    @Test func `a member is the same bytes each time, without a time and a name`() {
        for text in Self.texts {
            let member = Self.member(text)
            #expect(member == Self.member(text))
            #expect(Array(member.prefix(10)) == [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF])
        }
    }

    @Test func `a cut anywhere is said, and so is a changed bit`() {
        let text = Array(String(repeating: "{\"n\":12345}\n", count: 30).utf8)
        let members = Self.member(text) + Self.member(text)
        for count in 1..<members.count where count != members.count / 2 {
            #expect(Self.inflate(Array(members[..<count]), pieces: 64, room: 64) == .failure(.truncated), "\(count)")
        }
        var sameCount = 0
        for index in 0..<(members.count * 8) {
            var changed = members
            changed[index / 8] ^= 1 << UInt8(index % 8)
            // Some bits say nothing: of a head, and what fills the last byte of the compressed ones.
            guard case .success(let bytes) = Self.inflate(changed, pieces: 64, room: 64) else { continue }
            let isSame = bytes == text + text
            #expect(isSame, "bit \(index)")
            sameCount += 1
        }
        #expect(sameCount < 2 * members.count)
        #expect(Self.inflate(members + [0], pieces: 64, room: 64) == .failure(.truncated))
        #expect(Self.inflate(members + Array("more".utf8), pieces: 64, room: 64) == .failure(.corrupt))
    }
}
