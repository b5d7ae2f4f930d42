import Testing
import WaybillData
import WaybillExport
import WaybillProjection
import WaybillReplay
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

/// The record of erasures survives the loss of each of its copies, and nothing reads events without it.
@Suite struct ErasureRecordTests {
    private static let key = [UInt8](repeating: 7, count: 32)
    private static let first = "/data/state/erasures"
    private static let second = "/data/archive/_erasures"

    /// A data directory from which a number of people were erased, one after the other.
    private static func bench(people: Int = 2) throws -> ProjectionBench {
        let bench = try ProjectionBench()
        try bench.write([(ProjectionBench.description(0), Array("{}\n".utf8))])
        var archive = try ArchiveProjection(data: bench.data, zone: .utc)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try archive.recover().position
        while position < bench.end { position = try run.advance(&archive, from: position, upTo: bench.end) }
        try archive.checkpoint(at: position, sealing: nil)
        for number in 0..<people { try Self.erase(number, bench) }
        return bench
    }

    private static func erase(_ number: Int, _ bench: ProjectionBench) throws {
        var eraser = Eraser(
            dataDirectory: bench.data.root, .user, "person-\(number)", isDryRun: false, files: bench.disk)
        _ = try eraser.run(now: WallTime(milliseconds: ProjectionBench.noon)) { () throws(FileSystemError) in Self.key }
    }

    private static func knows(_ number: Int, _ bench: ProjectionBench) throws -> Bool {
        let people = try ErasedPeople.read(in: bench.data)
        return Array("person-\(number)".utf8).withUnsafeBytes { people?.contains($0, .user) ?? false }
    }

    private static func remove(_ path: String, _ bench: ProjectionBench) throws {
        for candidate in StateImage.paths(path) where try bench.disk.status(at: candidate) != nil {
            try bench.disk.unlink(candidate)
        }
    }

    /// Changes one byte, from the end if the number is negative.
    private static func damage(_ path: String, at offset: Int, _ bench: ProjectionBench) throws {
        var bytes = try #require(try bench.disk.contents(of: path))
        bytes[offset < 0 ? bytes.count + offset : offset] ^= 0x11
        let file = try bench.disk.open(path, .replace)
        defer { bench.disk.close(file) }
        try bench.disk.writeAll(file, bytes)
        try bench.disk.synchronize(file)
    }

    @Test(arguments: [Self.first, Self.second], [0, 20, -3])
    func `one damaged copy brings no one back, and is made again`(path: String, offset: Int) throws {
        let bench = try Self.bench()
        try Self.damage(path, at: offset, bench)
        for number in 0..<2 { #expect(try Self.knows(number, bench)) }
        try ErasureLog.finishExchange(in: bench.data)
        // Now the other one may be lost.
        try Self.remove(path == Self.first ? Self.second : Self.first, bench)
        for number in 0..<2 { #expect(try Self.knows(number, bench)) }
        #expect(try !Self.knows(2, bench))
    }

    @Test(arguments: [Self.first, Self.second])
    func `a lost copy brings no one back`(path: String) throws {
        let bench = try Self.bench()
        try Self.remove(path, bench)
        for number in 0..<2 { #expect(try Self.knows(number, bench)) }
    }

    @Test func `without a whole copy nothing is read, and the message says where and what to do`() throws {
        let bench = try Self.bench()
        try Self.damage(Self.first, at: 0, bench)
        try Self.damage(Self.second, at: -3, bench)
        let error = try #require(throws: FileSystemError.self) { try ErasedPeople.read(in: bench.data) }
        #expect(error.code == .damaged)
        #expect(!error.isTransient)
        let text = "\(error)"
        #expect(text.contains("\(Self.first) is damaged from byte 0 on"), "\(text)")
        #expect(text.contains("\(Self.second) is damaged from byte "), "\(text)")
        #expect(text.contains("restore it from a backup"), "\(text)")
        // Whatever opens the record changes nothing: the copies must not be set aside and forgotten.
        for _ in 0..<2 {
            #expect(throws: FileSystemError.self) { try ErasureLog.finishExchange(in: bench.data) }
            #expect(throws: FileSystemError.self) { _ = try ArchiveProjection(data: bench.data, zone: .utc) }
            #expect(throws: FileSystemError.self) {
                _ = try ExportProjection.live(ExportOptions(provider: .csv), data: bench.data)
            }
            #expect(throws: Eraser<FaultyFiles>.Failure.self) { try Self.erase(2, bench) }
        }
    }

    @Test func `a missing record is noticed by what the erasure left beside it`() throws {
        let bench = try Self.bench()
        var log = try StateLog(path: ErasureLog.copyPath(of: "export-csv", in: bench.data), files: bench.disk)
        var rewrite = try log.beginRewrite()
        try log.finish(rewrite)
        rewrite = try log.beginRewrite()
        try log.finish(rewrite)
        for path in [Self.first, Self.second] { try Self.remove(path, bench) }
        #expect(throws: FileSystemError.self) { try ErasedPeople.read(in: bench.data) }
    }

    @Test func `copies of different backups are united, and those of different directories are refused`() throws {
        let bench = try Self.bench(people: 1)
        let older = try #require(try bench.disk.contents(of: Self.second))
        try Self.erase(1, bench)
        try bench.disk.replace(Self.second, with: older)
        for number in 0..<2 { #expect(try Self.knows(number, bench)) }
        try bench.disk.replace(Self.first, with: older)
        #expect(try Self.knows(0, bench))

        let other = try ProjectionBench()
        var log = try ErasureLog(other.data)
        try log.use(key: [UInt8](repeating: 8, count: 32))
        try bench.disk.replace(Self.second, with: try #require(try other.disk.contents(of: Self.second)))
        #expect(throws: FileSystemError.self) { try ErasedPeople.read(in: bench.data) }
    }

    /// Deterministic deaths at every call: no one who was erased is forgotten, and the record stays readable.
    @Test func `a crash at any call of a commit leaves the people of before or of after`() throws {
        let whole = try Self.bench(people: 1)
        let digest = ErasedPeople.digest(of: Array("person-1".utf8), .user, key: Self.key)
        let record = ErasureRecord(kind: .user, at: WallTime(milliseconds: 1))
        let counting = try whole.copy()
        let start = counting.disk.callCount
        func add(_ bench: ProjectionBench) throws {
            var log = try ErasureLog(bench.data)
            try log.record(record, of: digest)
        }
        try add(counting)
        for call in 1...(counting.disk.callCount - start) {
            let bench = try whole.copy()
            bench.disk.stop(atCall: call)
            #expect(throws: FileSystemError.self) { try add(bench) }
            bench.disk.crash(seed: UInt64(call))
            #expect(try Self.knows(0, bench), "killed at call \(call)")
            try ErasureLog.finishExchange(in: bench.data)
            #expect(try Self.knows(0, bench), "killed at call \(call)")
            try add(bench)
            #expect(try Self.knows(1, bench), "killed at call \(call)")
        }
    }
}
