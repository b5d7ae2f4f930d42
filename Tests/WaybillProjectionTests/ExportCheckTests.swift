import Testing
import WaybillCompression
import WaybillData
import WaybillExport
import WaybillProjection
import WaybillSystem
import WaybillTestSupport

/// What each format of an export finds wrong with its own files.
@Suite struct ExportCheckTests {
    private static let folder = "exports/mixpanel/env=prod/date=2026-11-19"
    private static let stem = folder + "/part-00000"
    private static let records = Array("{\"a\":1}\n{\"a\":2}\n".utf8)

    private static func flipped(_ bytes: [UInt8], at index: Int) -> [UInt8] {
        var bytes = bytes
        bytes[index] ^= 1
        return bytes
    }

    /// A closed part of two records, and dead letters of one.
    private static func disk() throws -> FaultyFiles {
        let disk = FaultyFiles()
        try disk.createDirectories("/data/\(Self.folder)/dead")
        for (stem, raw, ends) in [
            (Self.stem, Self.records, #","mapping":1,"held":0,"first_id":"x","last_id":"y","zone":"UTC""#),
            (Self.folder + "/dead/part-00000", Array("{\"reason\":\"r\"}\n".utf8), ""),
        ] {
            let path = "/data/\(stem).ndjson"
            disk.place(path, raw)
            disk.place(path + ".gz", Gzip.member(of: raw))
            let (sha256, gzip) = (try SHA256Digest.ofFile(path, disk), try SHA256Digest.ofFile(path + ".gz", disk))
            let count = raw.count { $0 == 0x0A }
            disk.place(
                "/data/\(stem).manifest.json",
                ManifestLine.sealed(
                    Array(
                        (#"{"provider":"mixpanel","env":"prod","day":"2026-11-19","records":\#(count),"events":\#(count)"#
                            + #","fix":{},"dead":{}\#(ends),"sha256":"\#(sha256)","gz_sha256":"\#(gzip)"}"#).utf8)))
            try disk.unlink(path)
        }
        disk.place("/data/\(Self.stem).ids", Array("x\ny\n".utf8))
        return disk
    }

    private static func manifest(_ disk: FaultyFiles) throws -> PartManifest {
        let bytes = try #require(disk.bytes(of: "/data/\(Self.stem).manifest.json"))
        return try #require(PartManifest(json: bytes))
    }

    private static func verify(
        _ disk: FaultyFiles, _ standing: PartCheck<FaultyFiles>.Standing = .closed
    ) throws -> (ids: [String], problems: [Problem]) {
        let description = Exporter(ExportOptions(provider: .mixpanel)).description
        let check = PartCheck(Self.stem, standing, description, root: "/data", files: disk)
        let (manifest, problems) = try check.verifyManifest()
        var ids: [String] = []
        let contents = try check.verifyContents(manifest, header: nil) { _, id in
            ids.append(String(decoding: id, as: UTF8.self))
        }
        return (ids, problems + contents.problems)
    }

    @Test func `a closed part, its ids and its manifest agree, whatever byte of them changes`() throws {
        let disk = try Self.disk()
        let whole = try Self.verify(disk)
        #expect(whole.ids == ["x", "y"] && whole.problems == [])
        for suffix in [".ndjson.gz", ".ids", ".manifest.json"] {
            let path = "/data/\(Self.stem)\(suffix)"
            let bytes = try #require(disk.bytes(of: path))
            for index in bytes.indices {
                disk.place(path, Self.flipped(bytes, at: index))
                #expect(try Self.verify(disk).problems != [], "\(suffix) \(index)")
            }
            try disk.unlink(path)
            let missing = try Self.verify(disk).problems.filter { $0.code == .missing }
            #expect(missing.map(\.path) == [Self.stem + suffix])
            disk.place(path, bytes)
        }
    }

    @Test func `an open part is read as far as its checkpoint says, and a closing one has its manifest there`() throws {
        let disk = try Self.disk()
        let manifest = try #require(disk.bytes(of: "/data/\(Self.stem).manifest.json"))
        try disk.unlink("/data/\(Self.stem).manifest.json")
        #expect(try Self.verify(disk, .closing(manifest: manifest)).problems == [])
        #expect(try Self.verify(disk).problems.map(\.code) == [.missing])
        disk.place("/data/\(Self.stem).ndjson", Self.records + Array("{\"a\"".utf8))
        let open = try Self.verify(disk, .open(byteCount: Self.records.count, idsByteCount: 4))
        #expect(open.ids == ["x", "y"] && open.problems == [])
        let cut = try Self.verify(disk, .open(byteCount: Self.records.count, idsByteCount: 3))
        #expect(cut.problems.map(\.text) == ["the last line is cut off"])
        let fewer = try Self.verify(disk, .open(byteCount: Self.records.count, idsByteCount: 2))
        #expect(fewer.problems.map(\.text) == ["it has 2 records, but its .ids list 1"])
    }

    @Test func `dead letters and their manifest agree, whatever byte of them changes`() throws {
        let disk = try Self.disk()
        let stem = Self.folder + "/dead/part-00000"
        func verify() throws -> (letters: [String], problems: [Problem]) {
            var letters: [String] = []
            let bytes = try #require(disk.bytes(of: "/data/\(stem).manifest.json"))
            let read = try DeadLetterManifest.verify(
                stem + ".ndjson", upTo: nil, manifest: (bytes, isWritten: true), root: "/data", files: disk
            ) { letter, path, range in
                letters.append("\(path) \(range) \(String(decoding: letter, as: UTF8.self))")
            }
            return (letters, read.problems)
        }
        let whole = try verify()
        #expect(whole.letters == ["\(stem).ndjson.gz 0..<15 {\"reason\":\"r\"}"] && whole.problems == [])
        for path in ["/data/\(stem).manifest.json", "/data/\(stem).ndjson.gz"] {
            let bytes = try #require(disk.bytes(of: path))
            for index in bytes.indices {
                disk.place(path, Self.flipped(bytes, at: index))
                #expect(try verify().problems != [], "\(path) \(index)")
            }
            disk.place(path, bytes)
        }
        try disk.unlink("/data/\(stem).ndjson.gz")
        #expect(try verify().problems.map(\.code) == [.missing])
    }

    @Test func `the manifest of an export's day agrees with those of its parts`() throws {
        let disk = try Self.disk()
        let part = try Self.manifest(disk)
        func json(_ name: String, records: Int = 2, late: Bool = false) -> [UInt8] {
            ManifestLine.sealed(
                Array(
                    (#"{"revision":1,"provider":"mixpanel","env":"prod","day":"2026-11-19","zone":"UTC","mapping":1,"#
                        + #""sealed_at":"2026-11-20T00:00:00.000Z","records":\#(records),"events":2,"fix":{},"dead":{},"#
                        + #""parts":[{"name":"\#(name)","records":2,"events":2,"sha256":"\#(part.sha256)","late":\#(late)}]}"#)
                        .utf8))
        }
        func verify(_ bytes: [UInt8], in folder: String = Self.folder) throws -> [String] {
            try ExportDayManifest.verify(bytes, in: folder, root: "/data", files: disk).map(\.text)
        }
        let entry = "its entry for part-00000.ndjson.gz differs from the part's own manifest"
        #expect(try verify(json("part-00000.ndjson.gz")) == [])
        #expect(try verify(json("part-00000.ndjson.gz", late: true)) == [entry])
        #expect(try verify(json("part-00001.ndjson.gz")).count == 1)
        #expect(try verify(json("part-00000.ndjson.gz", records: 3)).first?.contains("sums over its parts") == true)
        #expect(try verify(json("part-00000.ndjson.gz"), in: Self.folder + "0").first == "it is of another folder")
        #expect(try verify(Array("{}".utf8)) == ["it is not a readable manifest"])
        let whole = json("part-00000.ndjson.gz")
        for index in whole.indices { #expect(try verify(Self.flipped(whole, at: index)) != [], "\(index)") }
    }

    @Test func `the mark of a delivery names its part, and in a fleet who delivered it`() throws {
        let manifest = try Self.manifest(try Self.disk())
        func isGood(_ text: String) -> Bool { manifest.verify(mark: Array(text.utf8), at: "m.delivered") == nil }
        #expect(isGood("\(manifest.sha256)\n") && isGood("\(manifest.sha256)\nmerger=m1 sent=2 dead=0\n"))
        for text in ["", "\n", manifest.sha256, "0\n", "\(manifest.sha256)\nmerger=m1 sent=2\n"] {
            #expect(!isGood(text), "\(text)")
        }
    }

    @Test func `the standing of an open part states the lengths of its files`() throws {
        func texts(_ text: String, lines: Int = 2) throws -> [String] {
            try PartStanding.verify(text, of: Self.folder, fileExtension: "ndjson", at: "state/export-mixpanel.state") {
                $0 == Self.stem + ".ndjson" ? 16 : 0
            } lineCount: { path throws(FileSystemError) in
                path == Self.stem + ".ids" ? lines : 0
            }.map(\.text)
        }
        #expect(try texts("number=0 records=2 bytes=16") == [])
        #expect(try texts("number=0 records=2 bytes=16", lines: 1) == ["it lists 1 records, but the checkpoint 2"])
        #expect(try texts("number=0 records=2 bytes=17") == ["\(Self.stem).ndjson has 16 bytes, part: states 17"])
        #expect(try texts("records=2 bytes=16") == ["part:\(Self.folder) cannot be read"])
        #expect(PartStanding.isLate("number=0 revision=1") && !PartStanding.isLate("number=0"))
    }
}
