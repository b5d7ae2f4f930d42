import Testing
import WaybillCompression
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@Suite struct PartReaderTests {
    private static let folder = "archive/env=prod/bundle=com.example.shop/date=2026-11-20"
    private static let open = #"OPEN 1 {"stream":"s-1","source":"/a","env":"prod","bundle":"b","format":"waybill"}"#
    private static let runs: [[UInt8]] = [
        Array("{\"n\":1}\n{\"n\":2}\n".utf8), Array(String(repeating: "{\"n\":3}\n", count: 50_000).utf8),
        Array("{\"n\":4}\n".utf8),
    ]

    private static func gzip(_ raw: [UInt8]) -> [UInt8] {
        var deflater = GzipDeflater(level: 6)
        var output = [UInt8](repeating: 0, count: deflater.byteCountMax(of: raw.count))
        let count = raw.withUnsafeBytes { raw in output.withUnsafeMutableBytes { deflater.deflate(raw, into: $0) } }
        return Array(output[..<count])
    }

    private static func manifest() throws -> DayManifest {
        let folder = try #require(DayFolder(path: Self.folder))
        var manifest = DayManifest(
            folder: folder, revision: 1, zone: "Asia/Seoul", sealedAt: WallTime(milliseconds: 1_795_165_200_005))
        var file = DayManifest.File(name: "part-00001.ndjson.gz")
        file.lineCount = 50_003
        file.byteCount = Self.runs.reduce(0) { $0 + $1.count }
        file.gzipByteCount = 100
        file.sha256 = String(repeating: "0a", count: 32)
        file.rawSHA256 = String(repeating: "b1", count: 32)
        file.first = WallTime(milliseconds: 1_795_165_200_000)
        file.last = WallTime(milliseconds: 1_795_165_200_999)
        file.position = JournalPosition(4711)
        manifest.files = [file]
        manifest.sources = [
            .init(principal: "shop", stream: "s-1", source: "/a \"quoted\"\n", from: 0, to: 400_020, lineCount: 50_003)
        ]
        manifest.otherLineCount = 7
        return manifest
    }

    /// A day with three runs: lines of part-00001 in two members, or as they were.
    private static func data(isSealed: Bool) throws -> DataDirectory<FaultyFiles> {
        let disk = FaultyFiles()
        let data = DataDirectory(root: "/data", files: disk)
        try data.create()
        try disk.createDirectories("/data/" + Self.folder)
        var sources = Self.open + "\n"
        var start = 0
        for (index, run) in Self.runs.enumerated() {
            sources += "FROM 1 \(start) \(1000 + index) \(start) \(run.count) \(run.count { $0 == 0x0A })\n"
            start += run.count
        }
        disk.place("/data/\(Self.folder)/part-00001.sources", Array(sources.utf8))
        let raw = Self.runs.flatMap { $0 }
        if isSealed {
            disk.place(
                "/data/\(Self.folder)/part-00001.ndjson.gz",
                Self.gzip(Array(raw[..<10_000])) + Self.gzip(Array(raw[10_000...])))
            var manifest = try self.manifest()
            manifest.files[0].sourcesByteCount = sources.utf8.count
            disk.place("/data/\(Self.folder)/manifest.json", manifest.json)
        } else {
            disk.place("/data/\(Self.folder)/part-00001.ndjson", raw)
            var state = try StateStore(path: data.statePath("archive"), files: disk)
            try state.commit([
                "file:\(Self.folder)/part-00001.ndjson": String(raw.count),
                "file:\(Self.folder)/part-00001.sources": String(sources.utf8.count),
            ])
        }
        return data
    }

    private static func read(
        _ part: ArchiveIndex<FaultyFiles>.Part, _ data: DataDirectory<FaultyFiles>, from start: Int = 0
    ) throws -> [[UInt8]] {
        var reader = try PartReader(part, data: data, from: start)
        var found: [[UInt8]] = []
        while let (run, bytes) = try reader.next() {
            #expect(run.lineCount == bytes.count { $0 == 0x0A })
            found.append(Array(bytes))
        }
        return found
    }

    @Test(arguments: [false, true])
    func `a part's runs are read, open or sealed`(isSealed: Bool) throws {
        let data = try Self.data(isSealed: isSealed)
        let index = try ArchiveIndex(data: data)
        let part = try #require(index.parts.first)
        #expect(index.parts.count == 1)
        #expect(part.path == "\(Self.folder)/part-00001.ndjson")
        #expect(part.bundle == "com.example.shop")
        #expect((part.sealed != nil) == isSealed)
        #expect(try Self.read(part, data) == Self.runs)
        #expect(try Self.read(part, data, from: 16) == Array(Self.runs[1...]))
        #expect(try Self.read(part, data, from: 17) == Array(Self.runs[2...]))
        let standing = try #require(try index.standings(ofJournalFrom: JournalPosition(0)).first)
        #expect(standing.durable.rawValue == UInt64(Self.runs.reduce(0) { $0 + $1.count }))
    }

    @Test func `a part that is sealed between the look at the index and the reading is read all the same`() throws {
        let open = try Self.data(isSealed: false)
        let part = try #require(try ArchiveIndex(data: open).parts.first)
        #expect(try Self.read(part, try Self.data(isSealed: true)) == Self.runs)
    }

    @Test func `damage in a sealed file is named`() throws {
        let data = try Self.data(isSealed: true)
        let part = try #require(try ArchiveIndex(data: data).parts.first)
        let path = "/data/\(part.path).gz"
        let bytes = try #require(data.files.bytes(of: path))
        data.files.place(path, Array(bytes.dropLast(3)))
        #expect(throws: PartReadError.damaged(path: path, offset: bytes.count - 3, .truncated)) {
            // The last bytes of a member are its checksum, which is looked at behind the last run.
            var whole = try PartBytes(path: "/data/" + part.path, isSealed: true, files: data.files)
            try whole.skip(to: part.byteCount + 1)
        }
        data.files.place(path, Array(bytes[..<200]) + [UInt8](repeating: 0xFF, count: bytes.count - 200))
        #expect(throws: PartReadError.self) { try Self.read(part, data) }
    }

    @Test func `a manifest is read as it was written`() throws {
        let manifest = try Self.manifest()
        let json = manifest.json
        #expect(DayManifest(json: json) == manifest)
        for count in 0..<(json.count - 2) {
            #expect(DayManifest(json: Array(json[..<count])) == nil)
        }
    }

    @Test(arguments: [0, 951_782_399_999, -1, 1_795_165_200_005, 253_402_300_799_999])
    func `a time is read as it was written`(milliseconds: Int64) {
        let time = WallTime(milliseconds: milliseconds)
        #expect(WallTime(text: time.text) == time)
        #expect(WallTime(milliseconds: 1_795_165_200_005).text == "2026-11-20T09:00:00.005Z")
        for text in ["", "2026-11-20T09:00:00Z", "2026-11-31T09:00:00.005Z", "2026-11-20T24:00:00.005Z"] {
            #expect(WallTime(text: text) == nil, "\(text)")
        }
    }
}
