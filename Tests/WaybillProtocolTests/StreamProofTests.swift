import Testing
import WaybillProtocol
import WaybillSystem

/// `Protocol/vectors/protocol/proofs.ndjson` decides what proves a stream.
@Suite struct StreamProofTests {
    private struct Row {
        let name: String
        let id: StreamID
        let offset: StreamOffset
        let tail: [UInt8]
        let digest: ProofDigest?

        static func all() throws -> [Row] {
            try Vectors.rows("proofs.ndjson").map { row in
                let tail = try Vectors.bytes(hexadecimal: try row.requireText("tail"))
                #expect(tail.count == (try row.requireCount("count")))
                return Row(
                    name: try row.requireText("name"), id: try #require(StreamID(try row.requireText("stream"))),
                    offset: StreamOffset(try row.requireInteger("offset")), tail: tail,
                    digest: try row["digest"]?.text.map { try #require(ProofDigest($0.utf8)) })
            }
        }
    }

    @Test func `every row's proof has its count and its digest`() throws {
        let rows = try Row.all()
        #expect(rows.count >= 20)
        for row in rows {
            let proof = StreamProof(of: row.id, at: row.offset, tail: row.tail)
            #expect(proof.byteCount == row.tail.count, "\(row.name)")
            #expect(proof.digest == row.digest, "\(row.name)")
            #expect(proof == StreamProof(byteCount: row.tail.count, digest: row.digest, at: row.offset), "\(row.name)")
            let stored = try #require(StreamTail(end: row.offset, bytes: row.tail))
            #expect(stored.proof(of: row.id) == proof, "\(row.name)")
        }
    }

    @Test func `no two rows have one digest`() throws {
        let digests = try Row.all().compactMap(\.digest)
        #expect(Set(digests).count == digests.count)
    }

    @Test func `a proof covers 512 bytes, and near the start all there are`() {
        for (offset, count) in [
            (0, 0), (1, 1), (511, 511), (512, 512), (513, 512), (Int(LineProtocol.integerMax), 512),
        ] {
            #expect(StreamProof.byteCount(at: StreamOffset(UInt64(offset))) == count)
        }
    }

    @Test func `a proof that contradicts itself or its offset is none`() {
        let digest = Sample.proof(100).digest
        let offset = StreamOffset(100)
        #expect(StreamProof(byteCount: 100, digest: digest, at: offset) == Sample.proof(100))
        #expect(StreamProof(byteCount: 101, digest: digest, at: offset) == nil)
        #expect(StreamProof(byteCount: -1, digest: digest, at: offset) == nil)
        #expect(StreamProof(byteCount: 0, digest: digest, at: offset) == nil)
        #expect(StreamProof(byteCount: 100, digest: nil, at: offset) == nil)
        #expect(StreamProof(byteCount: 513, digest: digest, at: StreamOffset(9999)) == nil)
        #expect(StreamProof(byteCount: 0, digest: nil, at: offset) == .empty)
    }

    @Test func `id, offset, count and each byte decide the digest`() {
        let tail = Sample.tail(100)
        let proof = StreamProof(of: Sample.id("a"), at: StreamOffset(100), tail: tail)
        #expect(proof != StreamProof(of: Sample.id("b"), at: StreamOffset(100), tail: tail))
        #expect(proof != StreamProof(of: Sample.id("a"), at: StreamOffset(101), tail: tail))
        #expect(proof != StreamProof(of: Sample.id("a"), at: StreamOffset(100), tail: tail.dropFirst()))
        for index in tail.indices {
            var other = tail
            other[index] ^= 1
            #expect(proof != StreamProof(of: Sample.id("a"), at: StreamOffset(100), tail: other))
        }
    }

    @Test(arguments: 0..<UInt64(50))
    func `a tail is the last bytes of the source, whatever the batches were`(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let source = (0..<Int.random(in: 1...3000, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random)
        }
        var tail = StreamTail()
        var givenUp = 0
        var skippedByteCount: UInt64 = 0
        while Int(tail.end.rawValue) < source.count {
            let start = Int(tail.end.rawValue)
            let longest = [1, 5, 600, 3000].randomElement(using: &random) ?? 1
            let end = min(source.count, start + Int.random(in: 1...longest, using: &random))
            switch Int.random(in: 0...9, using: &random) {
            case 0:
                let below = Array(source[..<end].suffix(StreamProof.byteCountMax))
                let range = SkippedRange(
                    offset: tail.end, byteCount: UInt64(end - start), reason: .tooLong, tail: below)
                tail.skip(try #require(range))
                // The agent has told what is below, bytes that were given up before included.
                givenUp = 0
                skippedByteCount += UInt64(end - start)
            case 1 where seed % 2 == 0:
                let range = SkippedRange(
                    offset: tail.end, byteCount: UInt64(end - start), reason: .truncated, tail: nil)
                tail.skip(try #require(range))
                givenUp = end
                skippedByteCount += UInt64(end - start)
            default:
                source[start..<end].withUnsafeBytes { tail.append($0) }
            }
            #expect(tail.bytes == Array(source[givenUp..<end].suffix(StreamProof.byteCountMax)))
            #expect(tail.proof(of: Sample.id("a")).byteCount == min(end - givenUp, StreamProof.byteCountMax))
            #expect(tail.proof(of: Sample.id("a")).skippedByteCount == skippedByteCount)
        }
    }

    @Test(arguments: SkipReason.allCases)
    func `every skip counts but that of bytes which the fleet has stored`(reason: SkipReason) throws {
        var tail = StreamTail()
        let below = reason == .truncated ? nil : Array(repeating: UInt8(ascii: "x"), count: 512)
        for round in 1...3 as ClosedRange<UInt64> {
            let range = SkippedRange(
                offset: tail.end, byteCount: 600, reason: reason, tail: below, holder: reason == .before ? "r-1" : nil)
            tail.skip(try #require(range))
            let proof = tail.proof(of: Sample.id("a"))
            #expect(proof.skippedByteCount == (reason == .elsewhere ? 0 : 600 * round))
            let bytes = StreamProof(of: Sample.id("a"), at: tail.end, tail: below ?? [])
            #expect(proof.coversSame(as: bytes))
            #expect((proof == bytes) == (reason == .elsewhere))
        }
    }

    @Test(arguments: SkipReason.allCases)
    func `a hole counts 4 KiB of what may be skipped, whatever its length`(reason: SkipReason) throws {
        for byteCount in [5, 4096, 500_000_000] as [UInt64] {
            let tail = [UInt8](repeating: 0, count: Int(min(byteCount, 512)))
            let range = try #require(
                SkippedRange(
                    offset: StreamOffset(0), byteCount: byteCount, reason: reason,
                    tail: reason == .truncated ? nil : tail, holder: reason == .before ? "r-1" : nil))
            #expect(range.countedByteCount == (reason == .hole ? 4096 : reason.isOfFleet ? 0 : byteCount))
            #expect(range.hasOnlyNULs == (reason != .truncated))
            let isLost = [.tooLong, .tornTail, .truncated].contains(reason)
            #expect(range.isGivenUp == isLost)
        }
    }

    @Test(arguments: [0, 1, 511])
    func `one byte that is not NUL shows in a tail`(place: Int) throws {
        var tail = [UInt8](repeating: 0, count: 512)
        tail[place] = 0x0A
        let range = SkippedRange(offset: StreamOffset(8), byteCount: 600, reason: .hole, tail: tail)
        #expect(try #require(range).hasOnlyNULs == false)
    }

    @Test func `a stored tail with more bytes than its offset allows is none`() {
        #expect(StreamTail(end: StreamOffset(3), bytes: [1, 2, 3]) != nil)
        #expect(StreamTail(end: StreamOffset(2), bytes: [1, 2, 3]) == nil)
        #expect(StreamTail(end: StreamOffset(9999), bytes: Array(repeating: 1, count: 513)) == nil)
    }

    @Test(arguments: SkipReason.allCases)
    func `a skip carries exactly the tail that its end demands`(reason: SkipReason) {
        for (offset, byteCount) in [(0, 5), (3, 5), (400, 300), (1 << 40, 1)] as [(UInt64, UInt64)] {
            let count = StreamProof.byteCount(at: StreamOffset(offset + byteCount))
            for given in [nil, 0, 1, count - 1, count, count + 1, 512, 513] as [Int?] {
                let range = SkippedRange(
                    offset: StreamOffset(offset), byteCount: byteCount, reason: reason,
                    tail: given.map { Array(repeating: 7, count: $0) }, holder: reason == .before ? "a" : nil)
                #expect((range != nil) == (given == (reason == .truncated ? nil : count)))
            }
        }
        let nothing = SkippedRange(offset: StreamOffset(0), byteCount: 0, reason: reason, tail: nil)
        #expect(nothing == nil)
        let beyond = SkippedRange(
            offset: StreamOffset(LineProtocol.integerMax), byteCount: 1, reason: .truncated, tail: nil)
        #expect(beyond == nil)
    }

    @Test(arguments: SkipReason.allCases)
    func `a skip names a holder of the bytes if they are before the fleet, and only then`(reason: SkipReason) {
        let tail: [UInt8]? = reason == .truncated ? nil : [7]
        func isTaken(_ holder: String?) -> Bool {
            SkippedRange(offset: StreamOffset(0), byteCount: 1, reason: reason, tail: tail, holder: holder) != nil
        }
        #expect(isTaken(nil) == (reason != .before))
        for holder in ["a", "Collector-1._", String(repeating: "a", count: 64)] {
            #expect(isTaken(holder) == (reason == .before))
        }
        for holder in ["", String(repeating: "a", count: 65), "a b", "a:1", "a~1", "a/b", "a\n", "a\u{1B}", "é"] {
            #expect(!isTaken(holder))
        }
    }
}
