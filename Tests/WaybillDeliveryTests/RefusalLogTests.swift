import Testing
import WaybillData
import WaybillEvent
import WaybillExport
import WaybillProjection
import WaybillSystem
import WaybillTestSupport

@testable import WaybillDelivery

/// The dead letters of a part's delivery, before and after they are compressed.
@Suite struct RefusalLogTests {
    private static let folder = "/data/exports/mixpanel/env=prod/date=2026-11-20"
    private static let stem = Self.folder + "/dead/delivery-00000"
    private static let lines = [Array("{\"a\":1}\n{\"a\":2}\n".utf8), Array("{\"a\":3}\n".utf8)]
    private static var all: [UInt8] { Self.lines.flatMap { $0 } }

    private static func log(_ files: FaultyFiles, byteCount: Int?) throws -> RefusalLog<FaultyFiles> {
        try RefusalLog(folder: Self.folder, partNumber: "00000", byteCount: byteCount, files: files)
    }

    private static func compress(_ files: FaultyFiles, byteCount: Int?) throws {
        try Self.log(files, byteCount: byteCount).compress(
            .mixpanel, .prod, try #require(CalendarDay("2026-11-20")))
    }

    private static func written() throws -> FaultyFiles {
        let files = FaultyFiles()
        try files.createDirectories(Self.folder)
        let log = try Self.log(files, byteCount: nil)
        for lines in Self.lines { try log.append(lines) }
        #expect(log.byteCount == Self.all.count)
        return files
    }

    private static func content(_ files: FaultyFiles) throws -> [UInt8] {
        var content: [UInt8] = []
        let manifest = files.bytes(of: Self.stem + ".manifest.json").flatMap(DeadLetterManifest.init(json:))
        try StoredBytes(path: Self.stem + ".ndjson", isCompressed: manifest?.gzipSHA256 != nil, files: files)
            .visit { content += $0 }
        return content
    }

    @Test(arguments: [false, true])
    func `a death at any call of compressing leaves the log whole, in one form`(isPowerCut: Bool) throws {
        var call = 1
        while true {
            let files = try Self.written()
            files.stop(atCall: call)
            do { try Self.compress(files, byteCount: Self.all.count) } catch { #expect(files.isStopped) }
            if !files.isStopped { break }
            if isPowerCut { files.crash(seed: UInt64(call)) } else { files.kill() }
            #expect(try Self.content(files) == Self.all)
            try Self.compress(files, byteCount: Self.all.count)
            #expect(try Self.content(files) == Self.all)
            let names = files.tree(Self.folder).keys.map { Path.name(of: $0) }.sorted()
            #expect(names == ["delivery-00000.manifest.json", "delivery-00000.ndjson.gz"], "call \(call)")
            call += 1
        }
        #expect(call > 10)
    }

    @Test func `a log continues when its part's number is used again`() throws {
        let files = try Self.written()
        try Self.compress(files, byteCount: Self.all.count)
        let log = try Self.log(files, byteCount: nil)
        #expect(log.byteCount == Self.all.count)
        let more = Array("{\"a\":4}\n".utf8)
        try log.append(more)
        #expect(log.byteCount == Self.all.count + more.count)
        try Self.compress(files, byteCount: log.byteCount)
        #expect(try Self.content(files) == Self.all + more)
        let manifest = try #require(
            files.bytes(of: Self.stem + ".manifest.json").flatMap(DeadLetterManifest.init(json:)))
        #expect(manifest.recordCount == 4)
        #expect(manifest.gzipSHA256 == (try SHA256Digest.ofFile(Self.stem + ".ndjson.gz", files)))
    }

    @Test func `lines that no commit has are not compressed`() throws {
        let files = try Self.written()
        try Self.compress(files, byteCount: Self.lines[0].count)
        #expect(try Self.content(files) == Self.lines[0])
    }

    @Test func `a part without dead letters gets no file`() throws {
        let files = FaultyFiles()
        try files.createDirectories(Self.folder)
        try Self.compress(files, byteCount: 0)
        #expect(files.tree(Self.folder).isEmpty)
    }

    @Test(arguments: [false, true])
    func `a death at any call of going on leaves the log whole, and never a manifest next to what continues`(
        isPowerCut: Bool
    ) throws {
        let more = Array("{\"a\":4}\n".utf8)
        var call = 1
        while true {
            let files = try Self.written()
            try Self.compress(files, byteCount: Self.all.count)
            files.stop(atCall: call)
            do { try Self.log(files, byteCount: nil).append(more) } catch { #expect(files.isStopped) }
            if !files.isStopped {
                let names = files.tree(Self.folder).keys.map { Path.name(of: $0) }
                #expect(names == ["delivery-00000.ndjson"])
                break
            }
            if isPowerCut { files.crash(seed: UInt64(call)) } else { files.kill() }
            #expect(try Self.content(files).starts(with: Self.all), "call \(call)")
            try Self.log(files, byteCount: Self.all.count).append(more)
            #expect(try Self.content(files) == Self.all + more, "call \(call)")
            #expect(files.tree(Self.folder).count == 1, "call \(call)")
            call += 1
        }
        #expect(call > 10)
    }

    @Test func `a damaged log is told apart from an error of the disk`() throws {
        let files = try Self.written()
        try Self.compress(files, byteCount: Self.all.count)
        let path = Self.stem + ".ndjson.gz"
        let whole = try #require(files.bytes(of: path))
        files.place(path, Array(whole.dropLast(9)))
        do {
            _ = try Self.log(files, byteCount: nil)
            Issue.record("it cannot be read")
        } catch let error as FileSystemError {
            #expect(error.isDamage && error.path == path)
        }
        files.place(path, whole)
        files.fail(.open, of: path, .error(Errno.inputOutput))
        do {
            _ = try Self.log(files, byteCount: nil)
            Issue.record("it cannot be read")
        } catch let error as FileSystemError {
            #expect(!error.isDamage)
        }
    }
}
