import Testing
import WaybillCompression
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

/// What each format of the data directory finds wrong with its own bytes.
@Suite struct FormatCheckTests {
    private static let path = "archive/env=prod/bundle=com.example.shop/date=2026-11-20"
    private static let raw = Array("{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n".utf8)
    private static let sources =
        #"OPEN 1 {"stream":"s-1","source":"/a","env":"prod","bundle":"b","format":"waybill"}"#
        + "\nFROM 1 0 1000 0 16 2\nFROM 1 16 1001 16 8 1\n"

    private static func flipped(_ bytes: [UInt8], at index: Int) -> [UInt8] {
        var bytes = bytes
        bytes[index] ^= 1
        return bytes
    }

    // MARK: Checkpoints

    private static func checkpoint(_ entries: [String: String?]) throws -> [UInt8] {
        let disk = FaultyFiles()
        try disk.createDirectories("/data/state")
        var store = try StateStore(path: "/data/state/archive.state", files: disk)
        try store.commit(entries)
        return try #require(disk.bytes(of: "/data/state/archive.state"))
    }

    @Test func `a checkpoint says how far a projection is and how long its files are`() throws {
        let bytes = try Self.checkpoint(["position": "42", "file:archive/a": "7", "zone": "UTC"])
        let (checkpoint, problems) = ProjectionCheckpoint.verify(bytes, at: "state/archive.state")
        #expect(problems == [] && checkpoint?.position == JournalPosition(42))
        #expect(checkpoint?.lengths == ["archive/a": 7] && checkpoint?.entries["zone"] == "UTC")
        #expect(StateImage.problem(in: bytes, at: "state/x") == nil)
    }

    @Test func `a checkpoint that is torn, empty or says no position is damaged`() throws {
        func verify(_ bytes: [UInt8]) -> (position: JournalPosition?, problems: [Problem]) {
            let (checkpoint, problems) = ProjectionCheckpoint.verify(bytes, at: "state/archive.state")
            return (checkpoint?.position, problems)
        }
        let whole = try Self.checkpoint(["position": "42"])
        let torn = verify(whole + Array("+ position 50\n".utf8))
        #expect(torn.position == JournalPosition(42) && torn.problems.map(\.code) == [.damaged])
        #expect(torn.problems.map(\.offset) == [whole.count] && torn.problems.map(\.byteCount) == [14])
        let flipped = verify(Self.flipped(whole, at: whole.count - 3))
        #expect(flipped.position == nil && flipped.problems.map(\.offset) == [0])
        #expect(
            verify(try Self.checkpoint(["zone": "UTC"])).problems.map(\.text) == ["it has no position in the journal"])
        let unclear = verify(try Self.checkpoint(["position": "42", "file:archive/a": "-1"]))
        #expect(unclear.problems.map(\.text) == ["it has no length for archive/a"])
        #expect(StateImage.problem(in: whole + [0x2B], at: "state/x")?.offset == whole.count)
        #expect(StateImage.problem(in: Array(whole.dropLast()), at: "state/x")?.offset == 0)
    }

    @Test func `a file that a checkpoint lists is there and long enough`() {
        #expect(FileSet<FaultyFiles>.verify("archive/a", 7, stated: 7) == nil)
        #expect(FileSet<FaultyFiles>.verify("archive/a", 9, stated: 7) == nil)
        #expect(FileSet<FaultyFiles>.verify("archive/a", nil, stated: 0) == nil)
        #expect(FileSet<FaultyFiles>.verify("archive/a", nil, stated: 7)?.code == .missing)
        let short = FileSet<FaultyFiles>.verify("archive/a", 4, stated: 7)
        #expect(short?.code == .short && short?.offset == 4 && short?.byteCount == 3)
    }

    // MARK: Sealed days

    private static func sealed() throws -> (disk: FaultyFiles, manifest: DayManifest) {
        let disk = FaultyFiles()
        let folder = try #require(DayFolder(path: Self.path))
        try disk.createDirectories("/data/" + Self.path)
        let name = "/data/\(Self.path)/part-00001"
        disk.place(name + ".ndjson", Self.raw)
        disk.place(name + ".ndjson.gz", Gzip.member(of: Self.raw))
        disk.place(name + ".sources", Array(Self.sources.utf8))
        var file = DayManifest.File(name: "part-00001.ndjson.gz")
        file.lineCount = 3
        file.byteCount = Self.raw.count
        file.gzipByteCount = Gzip.member(of: Self.raw).count
        file.sha256 = try SHA256Digest.ofFile(name + ".ndjson.gz", disk)
        file.rawSHA256 = try SHA256Digest.ofFile(name + ".ndjson", disk)
        file.sourcesByteCount = Self.sources.utf8.count
        file.sourcesSHA256 = try SHA256Digest.ofFile(name + ".sources", disk)
        try disk.unlink(name + ".ndjson")
        var manifest = DayManifest(
            folder: folder, revision: 1, zone: "UTC", sealedAt: WallTime(milliseconds: 1_795_165_200_005))
        manifest.files = [file]
        manifest.otherLineCount = 3
        return (disk, manifest)
    }

    @Test func `a manifest of a day is verified by itself and against its folder`() throws {
        let json = try Self.sealed().manifest.json
        func verify(_ bytes: [UInt8], in path: String = Self.path) throws -> [Problem] {
            DayManifest.verify(bytes, at: "manifest.json", in: try #require(DayFolder(path: path))).problems
        }
        #expect(try verify(json) == [])
        #expect(try verify(json, in: Self.path.replacing("-20", with: "-21")).map(\.code) == [.disagreement])
        for index in json.indices { #expect(try verify(Self.flipped(json, at: index)) != [], "\(index)") }
        let unreadable = DayManifest.verify(Array("{}".utf8), at: "m", in: try #require(DayFolder(path: Self.path)))
        #expect(unreadable.manifest == nil && unreadable.problems.map(\.code) == [.damaged])
    }

    @Test func `_SUCCESS is empty and beside a manifest, unless a seal may be about to write`() {
        func codes(_ byteCount: Int?, _ isSealed: Bool, isChanging: Bool = false) -> [Problem.Code] {
            DayFolder.verifySuccess(byteCount, in: Self.path, isSealed: isSealed, isChanging: isChanging).map(\.code)
        }
        #expect(codes(0, true) == [] && codes(nil, false) == [])
        #expect(codes(nil, true) == [.missing] && codes(0, false) == [.disagreement])
        #expect(codes(5, true) == [.unexplained] && codes(5, false) == [.unexplained, .disagreement])
        #expect(codes(nil, true, isChanging: true) == [] && codes(5, false, isChanging: true) == [.unexplained])
    }

    @Test func `a sealed file and its sources are what the manifest states`() throws {
        let (disk, manifest) = try Self.sealed()
        let check = SealedFileCheck(manifest.files[0], in: Self.path, root: "/data", files: disk)
        func problems() throws -> [Problem] {
            [try check.verifyStored(), try check.verifySources()].compactMap { $0 }
                + (try check.verifyLines { _, _, _ in }).problems
        }
        var runs: [[Int]] = []
        let lines = try check.verifyLines { run, lineCount, _ in runs.append([run.range.count, lineCount]) }
        #expect(lines.problems == [] && runs == [[16, 2], [8, 1]])
        #expect(lines.contents.lineCount == 3 && lines.contents.byteCount == Self.raw.count)
        #expect(try problems() == [])
        for path in [check.path, check.sourcesPath] {
            let bytes = try #require(disk.bytes(of: "/data/" + path))
            for index in bytes.indices {
                disk.place("/data/" + path, Self.flipped(bytes, at: index))
                #expect(try problems().contains { $0.path == path }, "\(path) \(index)")
            }
            disk.place("/data/" + path, bytes)
        }
        disk.place("/data/" + check.path, Gzip.member(of: Array(Self.raw.dropLast(8))))
        #expect(try check.verifyStored()?.code == .different)
        #expect(try check.verifyLines { _, _, _ in }.problems.map(\.code) == [.different, .disagreement])
        try disk.unlink("/data/" + check.path)
        #expect(try check.verifyStored()?.code == .missing)
    }

    @Test func `open lines are what their sources state`() throws {
        let disk = FaultyFiles()
        try disk.createDirectories("/data/" + Self.path)
        let check = OpenLinesCheck(stem: Self.path + "/part-00001", root: "/data", files: disk)
        func verify(_ raw: [UInt8], _ sources: String = Self.sources) throws -> (runs: [[Int]], problems: [Problem]) {
            disk.place("/data/" + check.path, raw)
            disk.place("/data/" + check.sourcesPath, Array(sources.utf8))
            var runs: [[Int]] = []
            let found = try check.verify(byteCount: raw.count, sourcesByteCount: sources.utf8.count) {
                runs.append([$0.range.lowerBound, $1])
            }
            #expect(found.contents.erasedLineCount == 0)
            return (runs, found.problems)
        }
        let whole = try verify(Self.raw)
        #expect(whole.runs == [[0, 2], [16, 1]] && whole.problems == [])
        let more = try verify(Self.raw + Array("{}\n".utf8))
        #expect(more.problems.map(\.code) == [.unexplained] && more.problems.map(\.offset) == [Self.raw.count])
        // A line feed that is another byte joins two lines, here within a run and then over its end.
        #expect(try verify(Self.flipped(Self.raw, at: 7)).problems.map(\.code) == [.different])
        let joined = try verify(Self.flipped(Self.raw, at: 15))
        #expect(
            joined.problems.map(\.text) == [
                "the .sources state 2 lines, but there are 2, and the run ends within a line"
            ])
        let lost = Self.sources.replacing("FROM 1 0 1000 0 16 2\n", with: "")
        #expect(try verify(Self.raw, lost).problems.map(\.path) == [check.sourcesPath, check.path])
        #expect(try verify([], "").problems == [])
    }

    // MARK: Stored bytes, and journals

    @Test func `stored bytes have the digests of their manifest`() throws {
        let (disk, manifest) = try Self.sealed()
        let file = manifest.files[0]
        let path = "\(Self.path)/part-00001.ndjson"
        func verify(_ raw: String, _ compressed: String?) throws -> [Problem] {
            let stored = try #require(
                try StoredBytes.ifThere(path: "/data/" + path, isCompressed: true, files: disk))
            var bytes: [UInt8] = []
            let read = try stored.verify(as: path, (raw, compressed)) { bytes += $0 }
            #expect(!read.isWhole || bytes == Self.raw)
            return read.problems
        }
        #expect(try verify(file.rawSHA256, file.sha256) == [])
        #expect(try verify(file.sha256, file.sha256).map(\.code) == [.different])
        #expect(try verify(file.rawSHA256, file.rawSHA256).map(\.path) == [path + ".gz"])
        let stored = try #require(disk.bytes(of: "/data/\(path).gz"))
        disk.place("/data/\(path).gz", Array(stored.dropLast(4)))
        #expect(try verify(file.rawSHA256, file.sha256).map(\.code) == [.damaged])
        try disk.unlink("/data/\(path).gz")
        #expect(try StoredBytes.ifThere(path: "/data/" + path, isCompressed: true, files: disk) == nil)
    }

    @Test func `what a failing disk leaves after a segment is told from other bytes`() throws {
        let disk = FaultyFiles()
        try disk.createDirectories("/data")
        let mark = Message.mark(position: 3, milliseconds: 1, checksum: 7).encoded
        func isExplained(_ bytes: [UInt8]) throws -> Bool {
            disk.place("/data/0.journal", [1, 2, 3] + bytes)
            return try JournalLeftover(path: "/data/0.journal", segment: JournalPosition(0), files: disk)
                .isExplained(from: 3, to: 3 + bytes.count)
        }
        for bytes in [[], mark, Array(mark.prefix(6)), [0, 0], mark + [0]] { #expect(try isExplained(bytes)) }
        for bytes in [Array("MARK".utf8), [0x78], mark + mark] { #expect(try !isExplained(bytes)) }
    }
}
