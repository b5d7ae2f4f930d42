import Testing
import WaybillData
import WaybillExport
import WaybillJSON
import WaybillProjection
import WaybillProtocol
import WaybillReplay
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

@Suite struct DataVerifierTests {
    private static func line(_ number: Int, day: Int) -> String {
        "{\"v\":1,\"id\":\"01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))\","
            + "\"ts\":\"2026-11-\(day)T09:00:00.000Z\",\"kind\":\"event\",\"name\":\"n\",\"env\":\"prod\","
            + "\"bundle\":\"com.example.shop\",\"anon\":\"a\"}\n"
    }

    /// A data directory whose archive and CSV export stand at the journal's end.
    private static func bench() throws -> ProjectionBench {
        let bench = try ProjectionBench()
        var contents: [(description: StreamDescription, raw: [UInt8])] = []
        for round in 0..<20 {
            var raw = (0..<5).map { Self.line(round * 5 + $0, day: 19 + (round + $0) % 2) }.joined()
            if round % 6 == 0 { raw += "no event \(round)\n" }
            contents.append((ProjectionBench.description(round % 3), Array(raw.utf8)))
        }
        try bench.write(contents)
        try Self.project(bench, try ArchiveProjection(data: bench.data, zone: .utc))
        try Self.project(bench, try ExportProjection.live(ExportOptions(provider: .csv), data: bench.data))
        return bench
    }

    private static func project(
        _ bench: ProjectionBench, _ projection: consuming some Projection & ~Copyable, sealing moment: SealMoment? = nil
    ) throws {
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try projection.recover().position
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        try projection.checkpoint(at: position, sealing: moment)
        while projection.isSealing { try projection.continueSealing() }
    }

    private static func verify(_ bench: ProjectionBench, _ providers: ProviderRegistry = .standard) -> VerifyReport {
        var verifier = DataVerifier(data: bench.data, providers: providers)
        return verifier.verify()
    }

    private static func path(_ bench: ProjectionBench, _ prefix: String, _ suffix: String) throws -> String {
        try #require(bench.tree(prefix).keys.sorted().first { $0.hasSuffix(suffix) })
    }

    @Test func `files and bytes that a crash left after the checkpoints are no problem`() throws {
        let bench = try Self.bench()
        try bench.write([
            (ProjectionBench.description(0), Array((Self.line(200, day: 19) + Self.line(201, day: 18)).utf8))
        ])
        let before = bench.tree("archive", "exports")
        try Self.crash(bench, try ArchiveProjection(data: bench.data, zone: .utc))
        try Self.crash(bench, try ExportProjection.live(ExportOptions(provider: .csv), data: bench.data))
        let after = bench.tree("archive", "exports")
        #expect(after.keys.contains { before[$0] == nil && $0.hasPrefix("archive") })
        #expect(after.keys.contains { before[$0] == nil && $0.hasPrefix("exports") })
        let report = Self.verify(bench)
        #expect(report.problems == [])
        #expect(report.notes.contains { $0.contains("archive: files that are newer than the checkpoint") })
        #expect(report.notes.contains { $0.contains("exports/csv: files that are newer than the checkpoint") })
        #expect(report.notes.contains { $0.contains("bytes after the end") })
    }

    @Test func `a torn log whose state was written again is a note, and a problem without the new one`() throws {
        let bench = try Self.bench()
        let path = "/data/state/archive.state"
        let state = try #require(bench.disk.bytes(of: path))
        bench.disk.place(path + ".previous", state + Array("+ position 7\n= 1 0".utf8))
        var report = Self.verify(bench)
        #expect(report.problems == [])
        #expect(report.notes.contains { $0.contains("archive.state.previous has no whole commit from byte") })
        bench.disk.place(path, state + Array("+".utf8))
        report = Self.verify(bench)
        #expect(report.problems.contains { $0.path == "state/archive.state.previous" && $0.code == .damaged })
    }

    @Test func `an export that came to no checkpoint is a note, unless it has closed parts`() throws {
        let bench = try Self.bench()
        try Self.crash(bench, try ExportProjection.live(ExportOptions(provider: .mixpanel), data: bench.data))
        #expect(bench.disk.bytes(of: "/data/state/export-mixpanel.state") == nil)
        #expect(!bench.tree("exports/mixpanel").isEmpty)
        var report = Self.verify(bench)
        #expect(report.problems == [])
        #expect(report.notes.contains { $0.contains("exports/mixpanel has files, but no checkpoint yet") })
        bench.disk.place("/data/exports/mixpanel/env=prod/date=2026-11-19/part-00000.manifest.json", [])
        report = Self.verify(bench)
        #expect(report.problems.contains { $0.path == "state/export-mixpanel.state" && $0.code == .missing })
    }

    /// Projects everything, and ends before a checkpoint.
    private static func crash(_ bench: ProjectionBench, _ projection: consuming some Projection & ~Copyable) throws {
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try projection.recover().position
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
    }

    @Test func `a healthy directory is whole, and what it holds is counted`() throws {
        let bench = try Self.bench()
        let report = Self.verify(bench)
        #expect(report.problems == [])
        #expect(report.notes == [])
        var totals: [String: Int] = [:]
        for total in report.totals { totals[total.name] = total.count }
        #expect(totals["journal_lines_compared"] == 104)
        #expect(totals["archive_lines"] == 104)
        #expect(totals["csv_events"] == 100)
    }

    /// A directory with empty lines, and with more apps and days than an account may create.
    private static func crowdedBench() throws -> ProjectionBench {
        let bench = try ProjectionBench()
        var contents: [(description: StreamDescription, raw: [UInt8])] = []
        for round in 0..<12 {
            let lines = (0..<10).map { number in
                Self.line(round * 10 + number, day: 10 + number)
                    .replacing("com.example.shop", with: "app\(round * 7 % 40 + number)")
            }
            contents.append((ProjectionBench.description(round % 3), Array(lines.joined(separator: "\n").utf8)))
        }
        try bench.write(contents)
        var quotas = PartitionQuotas()
        quotas.appCountMax = 1
        quotas.dayCountMax = 1
        try Self.project(bench, try ArchiveProjection(data: bench.data, zone: .utc, quotas: quotas))
        return bench
    }

    @Test func `empty lines and overflowed apps and days are whole`() throws {
        let bench = try Self.crowdedBench()
        let report = Self.verify(bench)
        #expect(report.problems == [])
        #expect(report.totals.first { $0.name == "archive_lines" }?.count == 12 * 19)
        let tree = bench.tree("archive", "quarantine")
        let folders = Set(tree.keys.filter { $0.contains("bundle=_overflow") }.map(Path.parent(of:)))
        #expect(folders.contains("archive/env=prod/bundle=_overflow/date=2026-11-20"))
        #expect(folders.count > 1)
        #expect(tree["quarantine/date=2026-11-20/empty.ndjson"]?.isEmpty == true)
        // A folder of the overflow that is cut is made again from the journal, with the same lines.
        for path in tree.keys.sorted() where path.hasSuffix(".ndjson") && path.contains("bundle=_overflow") {
            let file = try bench.disk.open("/data/\(path)", .append)
            try bench.disk.truncate(file, to: 100)
            bench.disk.close(file)
            var projection = try ArchiveProjection(data: bench.data, zone: .utc)
            _ = try projection.recover()
            #expect(bench.tree("archive")[path] == tree[path])
            #expect(Self.verify(bench).problems == [])
        }
    }

    @Test func `every byte of the archive that changes is found where it is`() throws {
        let bench = try Self.bench()
        for suffix in [".ndjson", ".sources"] {
            let path = try Self.path(bench, "archive", suffix)
            let bytes = try #require(bench.disk.bytes(of: "/data/" + path))
            for index in stride(from: 0, to: bytes.count, by: 7) {
                var damaged = bytes
                damaged[index] ^= 1
                bench.disk.place("/data/" + path, damaged)
                let report = Self.verify(bench)
                #expect(!report.isWhole, "\(path) byte \(index)")
                let stem = path.dropLast(suffix.utf8.count)
                #expect(report.problems.contains { $0.path.hasPrefix(stem) }, "\(path) byte \(index)")
                if suffix == ".ndjson", damaged[index] != 0x0A, bytes[index] != 0x0A {
                    #expect(report.problems.contains { $0.code == .different && $0.offset == index })
                }
            }
            bench.disk.place("/data/" + path, bytes)
        }
        #expect(Self.verify(bench).isWhole)
    }

    @Test func `a group that a failing disk left after a segment is a note, and other bytes are a problem`() throws {
        let bench = try Self.bench()
        let names = try bench.disk.list(bench.data.journal).filter { $0.hasSuffix(".journal") }.sorted()
        let path = Path.join(bench.data.journal, names[0])
        let whole = try #require(bench.disk.bytes(of: path))
        let end = try #require(JournalPath.position(ofSegment: names[1])).rawValue
        #expect(whole.count == end)
        let nuls: [UInt8] = [0, 0]
        let mark = Message.mark(position: UInt64(end), milliseconds: 1, checksum: 7).encoded
        let open = Message.open(StreamNumber(9), ProjectionBench.description(9), .none).encoded
        for torn in [mark, open, mark + open, mark + open.dropLast(3), Array(open.prefix(9)), nuls, mark + nuls] {
            bench.disk.place(path, whole + torn)
            let report = Self.verify(bench)
            #expect(report.problems == [])
            #expect(report.notes.contains { $0.contains("the last \(torn.count) bytes are not part of the journal") })
        }
        for foreign in [Array("x".utf8), Array("MARK".utf8), open + mark, mark + Array("no entry\n".utf8), [0, 1]] {
            bench.disk.place(path, whole + foreign)
            #expect(Self.verify(bench).problems.map(\.code) == [.unexplained])
        }
    }

    @Test func `every byte of the journal that changes is found`() throws {
        let bench = try Self.bench()
        for name in try bench.disk.list(bench.data.journal) {
            let path = Path.join(bench.data.journal, name)
            let bytes = try #require(bench.disk.bytes(of: path))
            for index in stride(from: 0, to: bytes.count, by: 11) {
                var damaged = bytes
                damaged[index] ^= 1
                bench.disk.place(path, damaged)
                #expect(!Self.verify(bench).isWhole, "\(path) byte \(index)")
            }
            bench.disk.place(path, bytes)
        }
    }

    @Test func `whatever a sealed export's manifests say that files can confirm is compared`() throws {
        let bench = try ProjectionBench()
        try bench.write(
            (0..<6).map { round in
                let lines = (0..<5).map { Self.line(round * 5 + $0, day: 19) }
                return (ProjectionBench.description(0), Array(lines.joined().utf8))
            })
        try Self.project(bench, try ArchiveProjection(data: bench.data, zone: .utc))
        let moment = SealMoment.everything(now: WallTime(milliseconds: ProjectionBench.noon + 86_400_000))
        try Self.project(
            bench, try ExportProjection.live(ExportOptions(provider: .csv), data: bench.data), sealing: moment)
        #expect(Self.verify(bench).isWhole)
        let folder = "/data/exports/csv/env=prod/date=2026-11-19/"
        let part = try #require(bench.disk.bytes(of: folder + "part-00000.manifest.json"))
        let day = try #require(bench.disk.bytes(of: folder + "manifest.json"))
        let parts = try #require(JSONValue(day)?["parts"]?.elements)
        #expect(parts.count == 1)
        let compared = ["provider", "env", "day", "records", "events", "first_id", "last_id", "sha256", "gz_sha256"]
        let members = try #require(JSONValue(part)?.members).filter { compared.contains($0.name) }
        #expect(members.count == compared.count && parts[0].members?.count == 5)
        for (name, bytes, values) in [
            ("part-00000.manifest.json", part, members), ("manifest.json", day, parts[0].members ?? []),
        ] {
            for (member, value) in values {
                var damaged = bytes
                damaged[value.range.upperBound - 1] ^= 1
                bench.disk.place(folder + name, damaged)
                #expect(!Self.verify(bench).isWhole, "\(name): \(member)")
                // Without the member it is no manifest.
                let text = String(decoding: bytes, as: UTF8.self).replacing("\"\(member)\":", with: "\"x\":")
                bench.disk.place(folder + name, Array(text.utf8))
                let codes = Set(Self.verify(bench).problems.map(\.code))
                #expect(codes.contains(.damaged) || codes.contains(.disagreement), "\(name): \(member)")
            }
            bench.disk.place(folder + name, bytes)
        }
        #expect(Self.verify(bench).isWhole)
    }

    @Test func `the mark of a part's delivery has its digest, and in a fleet who delivered it`() throws {
        let bench = try Self.mixedBench(.csv)
        let moment = SealMoment.everything(now: WallTime(milliseconds: ProjectionBench.noon + 2 * 86_400_000))
        try Self.project(
            bench, try ExportProjection.live(ExportOptions(provider: .csv), data: bench.data), sealing: moment)
        let part = "/data/" + (try Self.path(bench, "exports", "part-00000.manifest.json"))
        let manifest = try #require(bench.disk.bytes(of: part).flatMap { PartManifest(json: $0) })
        let (mark, digest) = (part.replacing(".manifest.json", with: ".delivered"), manifest.sha256)
        let other = String(digest.reversed())
        // No delivery has a state here.
        func problems() -> [Problem.Code] {
            Self.verify(bench).problems.filter { $0.path.hasSuffix(".delivered") }.map(\.code)
        }
        for text in ["\(digest)\n", "\(digest)\nmerger=m1 sent=19 dead=1\n"] {
            bench.disk.place(mark, Array(text.utf8))
            #expect(problems() == [], "\(text)")
        }
        for text in [
            "", "\n", digest, "\(other)\n", "\(other)\nmerger=m1 sent=19 dead=1\n", "\(digest)\n\n",
            "\(digest)\nmerger=m1 sent=19 dead=1", "\(digest)\nmerger=m1 sent=19\n",
            "\(digest)\nmerger=m1 sent=x dead=1\n", "\(digest)\nmerger=m1 sent=19 dead=1\n\n",
        ] {
            bench.disk.place(mark, Array(text.utf8))
            #expect(problems() == [.disagreement], "\(text)")
        }
    }

    @Test func `every bit of every manifest that changes is found`() throws {
        let bench = try Self.bench()
        let moment = SealMoment.everything(now: WallTime(milliseconds: ProjectionBench.noon + 2 * 86_400_000))
        try Self.project(bench, try ArchiveProjection(data: bench.data, zone: .utc), sealing: moment)
        try Self.project(
            bench, try ExportProjection.live(ExportOptions(provider: .csv), data: bench.data), sealing: moment)
        #expect(Self.verify(bench).problems == [])
        let manifests = bench.disk.tree("/data").filter { $0.key.hasSuffix("manifest.json") }
        #expect(manifests.count >= 6)
        for (path, bytes) in manifests.sorted(by: { $0.key < $1.key }) {
            for index in bytes.indices {
                var damaged = bytes
                damaged[index] ^= 1 << UInt8(index % 8)
                bench.disk.place(path, damaged)
                let problems = Self.verify(bench).problems
                #expect(problems.contains { $0.path == path.dropFirst("/data/".utf8.count) }, "\(path) \(index)")
            }
            bench.disk.place(path, bytes)
        }
    }

    @Test func `events that an export lacks, repeats or invents are named`() throws {
        let bench = try Self.mixedBench(.mixpanel)
        let path = try Self.path(bench, "exports", ".ids")
        let part = path.dropLast(4) + ".ndjson"
        let text = try #require(bench.tree("exports")[path])
        let rows = try #require(bench.tree("exports")[String(part)])
        var ids = text.split(separator: "\n").map(String.init)
        let (first, second) = (ids[0], ids[1])
        // An id alone: the record is of another event.
        ids[1] = first
        bench.disk.place("/data/" + path, Array(ids.map { $0 + "\n" }.joined().utf8))
        let wrong = try #require(Self.verify(bench).problems.first)
        #expect(wrong.code == .different && wrong.path == path && wrong.offset == first.utf8.count + 1)
        #expect(wrong.text.contains(first) && wrong.text.contains(second))
        // The record, too: it is there twice, and the other one is lost.
        var lines = rows.utf8.split(separator: 0x0A, omittingEmptySubsequences: false).map(Array.init)
        #expect(lines[0].count == lines[1].count)
        lines[1] = lines[0]
        bench.disk.place("/data/" + part, Array(lines.joined(separator: [0x0A])))
        let report = Self.verify(bench)
        #expect(report.problems.contains { $0.code == .repeated && $0.path == part && $0.text.contains(first) })
        #expect(report.problems.contains { $0.code == .lost && $0.text.contains(second) })
    }

    @Test func `the files of a provider are compared if the registry has it`() throws {
        let bench = try Self.mixedBench(Destination(Example.self))
        let report = Self.verify(bench, .withExample)
        #expect(report.problems == [])
        #expect(report.totals.contains { $0.name == "example_events" && $0.count > 0 })
        #expect(Self.verify(bench).notes.contains { $0.contains("a provider that this version does not know") })
        let path = try Self.path(bench, "exports", ".ndjson")
        var bytes = try #require(bench.disk.bytes(of: "/data/" + path))
        bytes[bytes.count - 5] ^= 1
        bench.disk.place("/data/" + path, bytes)
        #expect(Self.verify(bench, .withExample).problems.contains { $0.path == path })
    }

    @Test func `every byte of an open part, its ids and its dead letters that changes is found`() throws {
        for provider in [Destination.csv, .ga4, .mixpanel, .mixpanelProfiles, .journald] {
            let bench = try Self.mixedBench(provider)
            #expect(Self.verify(bench).problems == [], "\(provider)")
            let tree = bench.disk.tree("/data/exports").filter { !$0.value.isEmpty }
            #expect(tree.keys.contains { $0.hasSuffix(".ids") })
            for (path, bytes) in tree.sorted(by: { $0.key < $1.key }) {
                for index in stride(from: 0, to: bytes.count, by: 5) {
                    for bit: UInt8 in [1, 0x20] {
                        var damaged = bytes
                        damaged[index] ^= bit
                        bench.disk.place(path, damaged)
                        let problems = Self.verify(bench).problems
                        let own = path.dropFirst("/data/".utf8.count).prefix { $0 != "." }
                        #expect(problems.contains { $0.path.hasPrefix(own) }, "\(path) byte \(index), \(problems)")
                    }
                }
                bench.disk.place(path, bytes)
            }
        }
    }

    @Test(arguments: [Destination.csv, .ga4, .mixpanel, .mixpanelProfiles, .journald])
    func `the closed parts of an export are whole, whatever their files end in`(provider: Destination) throws {
        let bench = try Self.mixedBench(provider)
        let moment = SealMoment.everything(now: WallTime(milliseconds: ProjectionBench.noon + 2 * 86_400_000))
        try Self.project(
            bench, try ExportProjection.live(ExportOptions(provider: provider), data: bench.data), sealing: moment)
        #expect(bench.tree("exports").keys.contains { $0.hasSuffix("part-00000.manifest.json") })
        #expect(Self.verify(bench).problems == [])
    }

    /// An export with grouped events, refused ones, and a stream that is described anew.
    private static func mixedBench(_ provider: Destination) throws -> ProjectionBench {
        let bench = try ProjectionBench()
        var contents: [(description: StreamDescription, raw: [UInt8])] = []
        for round in 0..<4 {
            let lines = (0..<4).map { number in
                let line = Self.line(round * 4 + number, day: 20).replacing(
                    "\"anon\":\"a\"", with: "\"anon\":\"a\",\"ids\":{\"ga4\":\"0a1b2c3d4e5f60718293a4b5c6d7e8f9\"}")
                // Without any id of a person or device it is refused by most.
                return number == 3
                    ? Self.line(round * 4 + number, day: 20).replacing(",\"anon\":\"a\"", with: "") : line
            }
            let user = Self.line(100 + round, day: 20).replacing("\"kind\":\"event\"", with: "\"kind\":\"user\"")
                .replacing("}\n", with: ",\"user\":\"u\",\"traits\":{\"plan\":\"p\(round)\"}}\n")
            contents.append((ProjectionBench.description(round % 2), Array((lines.joined() + user).utf8)))
        }
        try bench.write(contents)
        try Self.project(bench, try ArchiveProjection(data: bench.data, zone: .utc))
        try Self.project(bench, try ExportProjection.live(ExportOptions(provider: provider), data: bench.data))
        return bench
    }

    @Test func `each problem has a meaning and a step that repairs it`() throws {
        let bench = try Self.bench()
        let path = try Self.path(bench, "exports", ".csv")
        var bytes = try #require(bench.disk.bytes(of: "/data/" + path))
        bytes[bytes.count / 2] ^= 1
        bench.disk.place("/data/" + path, bytes)
        let problem = try #require(Self.verify(bench).problems.first { $0.path == path })
        #expect(problem.repair.step.contains("waybill replay --data /data --provider csv --env prod --from 2026-11-"))
        #expect(problem.line.contains(problem.repair.meaning) && problem.line.contains(problem.repair.step))
    }

    @Test func `a stream that is described anew is read as each of its batches was described`() throws {
        let bench = try ProjectionBench()
        guard let id = StreamID("stream-7") else { return }
        let contents = ["prod", "internal", "dev", "prod"].enumerated().map { round, env in
            let lines = (0..<3).map { "{\"ts\":\"2026-11-20T09:00:0\(round).00\($0)Z\",\"name\":\"n\"}\n" }
            return (
                description: StreamDescription(
                    id: id, source: "/var/log/7.ndjson", environment: env, bundle: "com.example.log\(round % 2)",
                    format: .ndjson), raw: Array(lines.joined().utf8)
            )
        }
        try bench.write(contents, perGroup: 1)
        try Self.project(bench, try ArchiveProjection(data: bench.data, zone: .utc))
        for provider in [Destination.csv, .journald] {
            try Self.project(bench, try ExportProjection.live(ExportOptions(provider: provider), data: bench.data))
        }
        let report = Self.verify(bench)
        #expect(report.problems == [])
        #expect(report.totals.first { $0.name == "journald_events" }?.count == 12)
        #expect(bench.tree("archive").keys.count { $0.hasSuffix(".ndjson") } == 4)
    }

    @Test func `beside a journal that has let go of its beginning the rest is still compared`() throws {
        let bench = try Self.bench()
        let names = try bench.disk.list(bench.data.journal)
        try bench.disk.unlink(Path.join(bench.data.journal, names[0]))
        #expect(Self.verify(bench).problems == [])
        let path = try Self.path(bench, "archive", ".ndjson")
        var bytes = try #require(bench.disk.bytes(of: "/data/" + path))
        bytes[bytes.count - 5] ^= 1
        bench.disk.place("/data/" + path, bytes)
        #expect(Self.verify(bench).problems.contains { $0.path == path && $0.offset == bytes.count - 5 })
    }

    /// The first two fields of what an inspection reports as records, and its damages.
    private static func inspect(_ name: String, _ text: String) -> (records: [[Int]], damages: [[Int]]) {
        let disk = MemoryDisk()
        let path = "/data/exports/csv/env=prod/date=2026-11-19/\(name)"
        disk.place(path, Array(text.utf8))
        var items: [InspectItem] = []
        var inspector = Inspector(files: disk, limits: .none) { items.append($0) }
        inspector.inspect(path)
        func numbers(_ kind: String) -> [[Int]] {
            items.filter { $0.kind == kind }.map { item in
                item.fields.compactMap { if case .number(let number) = $0.value { number } else { nil } }
            }
        }
        return (numbers("record"), numbers("damage"))
    }

    @Test func `an inspection shows a row whole that has line feeds, and an entry up to the first that is damaged`() {
        let rows = Self.inspect("part-00000.csv", "a,b\r\n1,\"x\ny\"\r\n2,3\r\n4")
        #expect(rows.records == [[0, 5], [5, 9], [14, 5]] && rows.damages == [[19, 1]])
        let length = "\u{2}\0\0\0\0\0\0\0"
        let entries = Self.inspect("part-00000.export", "A=1\n\nA=2\nB\n\(length)xyz\n\nA=3\n\n")
        #expect(entries.records == [[0, 5]] && entries.damages == [[5, 24]])
        let cut = Self.inspect("part-00000.export", "A=1\n\n\nA=2\n")
        #expect(cut.records == [[0, 5]] && cut.damages == [[6, 4]])
        #expect(Self.inspect("part-00000.export", "A=1\n\n\n").damages == [])
    }

    @Test func `an inspection says something of any bytes, and reads nothing twice as long`() throws {
        let bench = try Self.bench()
        var generator = SeededGenerator(seed: 5)
        let tree = bench.disk.tree("/data")
        for (path, bytes) in tree.sorted(by: { $0.key < $1.key }) {
            for round in 0..<12 {
                var damaged = bytes
                for _ in 0..<round where !damaged.isEmpty {
                    damaged[Int.random(in: 0..<damaged.count, using: &generator)] = UInt8.random(
                        in: 0...255, using: &generator)
                }
                bench.disk.place(path, round % 3 == 2 ? Array(damaged.prefix(damaged.count / 2)) : damaged)
                var items: [InspectItem] = []
                var inspector = Inspector(files: bench.disk, limits: .none) { items.append($0) }
                inspector.inspect(path)
                #expect(!items.isEmpty)
                if round == 0 { #expect(!inspector.isDamaged && !inspector.isUnreadable, "\(path): \(items)") }
            }
            bench.disk.place(path, bytes)
        }
        var inspector = Inspector(files: bench.disk) { _ in }
        inspector.inspect("/data")
        #expect(!inspector.isDamaged && !inspector.isUnreadable)
        inspector.inspect("/data/nothing")
        #expect(inspector.isUnreadable)
        #expect(bench.disk.memory.openDescriptorCount == 0)
    }
}
