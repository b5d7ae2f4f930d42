import Testing
import WaybillCompression
import WaybillData
import WaybillReport
import WaybillSystem
import WaybillTestSupport

/// Rows of sealed days in a folder: the same reports, without a look at the lines.
@Suite struct CacheTests {
    private let fixture = ShopFixture()

    init() throws {
        for day in ["10-30", "11-02", "11-03", "11-04"] { try self.seal(day) }
    }

    /// Seals a day's files, with a manifest.
    private func seal(_ day: String, revision: Int = 1) throws {
        let path = ShopFixture.folder(day)
        let folder = try #require(DayFolder(path: path.dropFirst("/data/".count)))
        var manifest = DayManifest(
            folder: folder, revision: revision, zone: "Asia/Seoul", sealedAt: WallTime(milliseconds: ShopFixture.now))
        for name in ["part-00001.ndjson", "late-00001.ndjson"] {
            guard let lines = try self.fixture.disk.contents(of: "\(path)/\(name)") else { continue }
            var file = DayManifest.File(name: name + ".gz")
            let compressed = Gzip.member(of: lines)
            file.lineCount = lines.count { $0 == 0x0A }
            file.byteCount = lines.count
            file.gzipByteCount = compressed.count
            file.sha256 = String(repeating: "\(revision)", count: 64)
            file.rawSHA256 = file.sha256
            manifest.files.append(file)
            self.fixture.disk.place("\(path)/\(name).gz", compressed)
            try self.fixture.disk.unlink("\(path)/\(name)")
        }
        self.fixture.disk.place("\(path)/manifest.json", manifest.json)
    }

    private func reports(jobs: Int = 1, cache: String? = "/cache", strict: Bool = false) throws -> [UInt8] {
        ReportText.json(
            try self.fixture.reports(ReportName.allCases, jobs: jobs, cache: cache) {
                $0.by = "data.method"
                $0.strictCutOff = strict
            })
    }

    /// Makes the lines unreadable, so that only the cache can have them.
    private func destroy() throws {
        for day in ["10-30", "11-02", "11-03", "11-04"] {
            self.fixture.disk.place(ShopFixture.folder(day) + "/part-00001.ndjson.gz", [1, 2, 3])
        }
    }

    @Test func `reports from the cache are the same, and need no lines`() throws {
        let plain = try self.reports(cache: nil)
        #expect(try self.reports() == plain)
        #expect(try self.fixture.disk.list("/cache").count == 4)
        try self.destroy()
        #expect(try self.reports() == plain)
        #expect(try self.reports(jobs: 4) == plain)
        #expect(throws: ReportFailure.self) { try self.reports(cache: nil) }
    }

    @Test func `other rules and a new revision are read again`() throws {
        let plain = try self.reports()
        let strict = try self.reports(strict: true)
        #expect(strict != plain)
        #expect(try self.fixture.disk.list("/cache").count == 8)
        let path = ShopFixture.folder("11-04") + "/manifest.json"
        let text = try #require(try self.fixture.disk.contents(of: path))
        var manifest = try #require(DayManifest(json: text))
        manifest.revision = 2
        self.fixture.disk.place(path, manifest.json)
        #expect(try self.reports() == plain)
        #expect(try self.fixture.disk.list("/cache").count == 9)
    }

    @Test func `a damaged file of the cache is read from the day again`() throws {
        let plain = try self.reports()
        for (number, name) in try self.fixture.disk.list("/cache").sorted().enumerated() {
            var bytes = try #require(try self.fixture.disk.contents(of: "/cache/" + name))
            if number % 2 == 0 { bytes[bytes.count / 2] ^= 0x10 } else { bytes.removeLast(bytes.count / 3) }
            self.fixture.disk.place("/cache/" + name, bytes)
        }
        #expect(try self.reports() == plain)
        try self.destroy()
        #expect(try self.reports() == plain)
    }

    @Test(arguments: ["/data", "/data/archive/cache", "/data//x"])
    func `the data directory has no cache`(path: String) throws {
        #expect(throws: ReportFailure.self) { try self.reports(cache: path) }
    }

    @Test func `an open day is not kept`() throws {
        self.fixture.disk.place(ShopFixture.folder("11-05") + "/part-00001.ndjson", Array("{}\n".utf8))
        _ = try self.reports()
        #expect(try self.fixture.disk.list("/cache").count == 4)
    }
}
