import Testing
import WaybillCompression
import WaybillData
import WaybillSystem
import WaybillTestSupport

/// Files of exports, read at any offset before and after they are compressed.
@Suite struct StoredBytesTests {
    private static let raw: [UInt8] = (0..<9000).flatMap { Array("line \($0) of a part\n".utf8) }
    private static let path = "/data/part-00000.ndjson"

    private static func members(_ sizes: [Int]) -> [UInt8] {
        var start = 0
        var stored: [UInt8] = []
        for size in sizes {
            stored += Gzip.member(of: Array(Self.raw[start..<(start + size)]))
            start += size
        }
        return stored + Gzip.member(of: Array(Self.raw[start...]))
    }

    private static func disk(plain: [UInt8]?, compressed: [UInt8]?) throws -> FaultyFiles {
        let disk = FaultyFiles()
        try disk.createDirectories("/data")
        if let plain { disk.place(Self.path, plain) }
        if let compressed { disk.place(Self.path + ".gz", compressed) }
        return disk
    }

    private static func read(_ bytes: StoredBytes<FaultyFiles>, at offset: Int, _ count: Int) throws -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: count)
        let filled = try buffer.withUnsafeMutableBytes { try bytes.read(at: offset, into: $0) }
        return Array(buffer[..<filled])
    }

    @Test(arguments: [[], [1], [50_000, 50_000], [70_000, 0, 1, 60_000]])
    func `any range has the same bytes, compressed or not`(sizes: [Int]) throws {
        let disk = try Self.disk(plain: nil, compressed: Self.members(sizes))
        let bytes = try StoredBytes(path: Self.path, isCompressed: false, files: disk)
        #expect(bytes.isCompressed && bytes.path == Self.path + ".gz")
        var generator = SeededGenerator(seed: UInt64(sizes.count))
        for _ in 0..<60 {
            let offset = Int.random(in: 0...(Self.raw.count + 10), using: &generator)
            let count = Int.random(in: 0...90_000, using: &generator)
            let expected = Array(Self.raw.dropFirst(offset).prefix(count))
            #expect(try Self.read(bytes, at: offset, count) == expected)
        }
        var all: [UInt8] = []
        try bytes.visit { all += $0 }
        #expect(all == Self.raw)
        var lines = LineReader(bytes, files: disk)
        lines.seek(to: 70_000)
        var found = 0
        while try lines.next() != nil { found += 1 }
        #expect(found == Self.raw[70_000...].count { $0 == 0x0A })
    }

    @Test func `where both files exist, it is said which one counts`() throws {
        let disk = try Self.disk(plain: Array("plain\n".utf8), compressed: Gzip.member(of: Array("other\n".utf8)))
        let plain = try StoredBytes(path: Self.path, isCompressed: false, files: disk)
        #expect(try Self.read(plain, at: 0, 99) == Array("plain\n".utf8))
        let compressed = try StoredBytes(path: Self.path, isCompressed: true, files: disk)
        #expect(try Self.read(compressed, at: 0, 99) == Array("other\n".utf8))
    }

    @Test func `a compressed file that is cut or changed is damaged, and none is larger than ours`() throws {
        let whole = Self.members([50_000])
        var flipped = whole
        flipped[whole.count / 3] ^= 0x10
        let large = Gzip.member(of: [UInt8](repeating: 0x0A, count: Gzip.memberByteCountMax + 100))
        for damaged in [Array(whole.dropLast()), Array(whole.prefix(400)), flipped, whole + [0x1F], large] {
            let disk = try Self.disk(plain: nil, compressed: damaged)
            let bytes = try StoredBytes(path: Self.path, isCompressed: true, files: disk)
            #expect {
                try bytes.visit { _ in }
            } throws: { error in
                if case .damaged(Self.path + ".gz", _, _) = error as? PartReadError { true } else { false }
            }
        }
    }

    @Test func `an error of the disk is no damage`() throws {
        let disk = try Self.disk(plain: nil, compressed: Self.members([]))
        let bytes = try StoredBytes(path: Self.path, isCompressed: true, files: disk)
        disk.fail(call: 1, .error(Errno.inputOutput))
        #expect {
            try bytes.visit { _ in }
        } throws: { error in
            if case .disk = error as? PartReadError { true } else { false }
        }
        var all: [UInt8] = []
        try bytes.visit { all += $0 }
        #expect(all == Self.raw)
    }
}
