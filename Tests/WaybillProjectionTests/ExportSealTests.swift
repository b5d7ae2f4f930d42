import Testing
import WaybillData
import WaybillExport
import WaybillProjection
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

/// Sealed days of an export: each event once, in a part whose manifest the day's manifest repeats.
@Suite struct ExportSealTests {
    private typealias Export = ExportProjection<FaultyFiles>

    private static func line(_ number: Int, day: Int) -> String {
        // Some are refused: Mixpanel takes no event without an id.
        let id =
            number % 7 == 3
            ? "" : "\"id\":\"01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))\","
        // Some of the last day come hours before their time, and are held until the seal.
        let hour = day == 20 && number % 5 == 4 ? 23 : 9
        return
            "{\"v\":1,\(id)\"ts\":\"2026-11-\(day)T\(hour < 10 ? "0" : "")\(hour):00:00.000Z\",\"kind\":\"event\",\"name\":\"n\",\"env\":\"prod\","
            + "\"bundle\":\"b\",\"anon\":\"a\"}\n"
    }

    private static func bench() throws -> ProjectionBench {
        let bench = try ProjectionBench()
        try bench.write(
            (0..<30).map { batch in
                let lines = (0..<5).map { Self.line(batch * 5 + $0, day: 18 + (batch + $0) % 3) }
                return (ProjectionBench.description(batch % 3), Array(lines.joined().utf8))
            })
        return bench
    }

    private static func now(_ second: Int64) -> WallTime {
        WallTime(milliseconds: ProjectionBench.noon + second * 1000)
    }

    private static func make(_ bench: ProjectionBench) throws(FileSystemError) -> Export {
        try ExportProjection.live(ExportOptions(provider: .mixpanel), data: bench.data)
    }

    private static func settle(_ bench: ProjectionBench, sealing moment: SealMoment? = nil) throws {
        var export = try Self.make(bench)
        var position = try export.recover().position
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        while position < bench.end { position = try run.advance(&export, from: position, upTo: bench.end) }
        try export.checkpoint(at: position, sealing: moment)
        try export.finishSealing()
    }

    private static func sha256(_ text: String) -> String {
        Self.sha256(Array(text.utf8))
    }

    private static func sha256(_ bytes: [UInt8]) -> String {
        var digest = SHA256Digest()
        bytes.withUnsafeBytes { digest.update($0) }
        return digest.finish()
    }

    /// Records and refusals of each day: what the journal says, once, and the manifests agree.
    private static func expect(_ bench: ProjectionBench, isSealed: Bool) throws {
        let tree = bench.tree("exports")
        for day in 18...20 {
            let folder = "exports/mixpanel/env=prod/date=2026-11-\(day)"
            let numbers = (0..<150).filter { 18 + ($0 / 5 + $0 % 5) % 3 == day }
            let expected = numbers.filter { $0 % 7 != 3 }
            let ids = tree.filter { $0.key.hasPrefix(folder + "/part-") && $0.key.hasSuffix(".ids") }
            var found = ids.values.flatMap { $0.split(separator: "\n") }.map { Int($0.suffix(12), radix: 16) }
            let state = try StateStore(path: bench.data.statePath("export-mixpanel"), files: bench.disk).entries
            let held = (tree[folder + "/held"] ?? "").utf8.dropFirst(
                HeldRecord.releasedByteCount(of: folder, in: state))
            for line in held.split(separator: 0x0A) {
                found.append(Int(String(decoding: line.prefix { $0 != 0x20 }, as: UTF8.self).suffix(12), radix: 16))
            }
            if isSealed { #expect(held.isEmpty) }
            let isSame = found.compactMap { $0 }.sorted() == expected
            #expect(isSame, "\(folder) has \(found.count) of \(expected.count)")
            let letters = tree.filter { $0.key.hasPrefix(folder + "/dead/") && $0.key.hasSuffix(".ndjson") }
            let dead = letters.values.reduce(0) { $0 + $1.split(separator: "\n").count }
            #expect(dead == numbers.count - expected.count)
            guard isSealed else { continue }
            let json = try #require(tree[folder + "/manifest.json"])
            #expect(tree[folder + "/_SUCCESS"] == "")
            #expect(json.contains("\"records\":\(expected.count),\"events\":\(expected.count),"))
            #expect(json.contains("\"dead\":{\"mixpanel.no_insert_id\":\(dead)}"), "\(json)")
            for letter in letters.keys {
                #expect(bench.disk.bytes(of: "/data/\(letter).gz") != nil)
                let own = try #require(tree[letter.dropLast(7) + ".manifest.json"])
                #expect(own.contains(Self.sha256(try #require(tree[letter]))))
            }
            let parts = tree.keys.filter { $0.hasPrefix(folder + "/part-") && $0.hasSuffix(".ndjson") }.sorted()
            for (index, part) in parts.enumerated() {
                let own = try #require(tree[part.dropLast(7) + ".manifest.json"], "\(part)")
                let digest = Self.sha256(try #require(tree[part]))
                #expect(own.contains(digest))
                let compressed = try #require(bench.disk.bytes(of: "/data/\(part).gz"))
                #expect(own.contains(",\"gz_sha256\":\"\(Self.sha256(compressed))\",\"crc32\":\""))
                #expect(ManifestLine.isIntact(Array(own.utf8)) == true)
                let isLate = own.contains("\"late\":true")
                #expect(
                    json.contains("\"name\":\"\(Path.name(of: part)).gz\"")
                        && json.contains("\"sha256\":\"\(digest)\",\"late\":\(isLate)"))
                if index == 0 { #expect(!isLate) }
            }
        }
    }

    @Test func `a sealed day's manifest adds up its parts, and late events get parts of their own`() throws {
        let bench = try Self.bench()
        var export = try Self.make(bench)
        var position = try export.recover().position
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        for second in 0..<3 {
            position = try run.advance(&export, from: position, upTo: bench.end, batchCountMax: 10)
            try export.checkpoint(at: position, sealing: .everything(now: Self.now(Int64(second))))
            try export.finishSealing()
            #expect(export.takeSealed().map(\.revision) == [second + 1, second + 1, second + 1])
            #expect(export.nextDue == nil)
            // What a seal wrote is not something that came after it.
            try export.finishBatch()
            #expect(export.nextDue == nil)
        }
        try Self.expect(bench, isSealed: true)
        let tree = bench.tree("exports/mixpanel/env=prod/date=2026-11-19")
        let manifest = try #require(tree["exports/mixpanel/env=prod/date=2026-11-19/manifest.json"])
        #expect(
            manifest.hasPrefix(
                "{\"revision\":3,\"provider\":\"mixpanel\",\"env\":\"prod\",\"day\":\"2026-11-19\",\"zone\":\"UTC\","))
        #expect(tree.keys.filter { $0.hasSuffix("date=2026-11-19/part-00002.manifest.json") }.count == 1)
    }

    @Test(arguments: 0..<UInt64(40))
    func `errors and crashes anywhere lose no event of a sealed day, and repeat none`(seed: UInt64) throws {
        let bench = try Self.bench()
        var driver = ProjectionDriver(bench: bench)
        driver.failuresPerMille = seed % 4 == 0 ? 0 : 12
        driver.stepsPerCrash = seed % 4 == 1 ? 0 : 4
        driver.stepsPerCheckpoint = Int(seed % 3) + 1
        driver.checkpointsPerSeal = Int(seed % 3) + 1
        try driver.run(seed: seed) { () throws(FileSystemError) in try Self.make(bench) }
        try Self.settle(bench)
        try Self.expect(bench, isSealed: false)
        bench.disk.crash(seed: seed)
        try Self.settle(bench, sealing: .everything(now: Self.now(9)))
        try Self.expect(bench, isSealed: true)
    }

    @Test(arguments: [false, true])
    func `a crash at any call of a seal is made good by the next start`(isPowerCut: Bool) throws {
        let source = try Self.bench()
        try Self.settle(source)
        var call = 1
        while true {
            let bench = try source.copy()
            bench.disk.stop(atCall: call)
            do { try Self.settle(bench, sealing: .everything(now: Self.now(1))) } catch {
                #expect(bench.disk.isStopped)
            }
            if !bench.disk.isStopped { break }
            if isPowerCut { bench.disk.crash(seed: UInt64(call)) } else { bench.disk.kill() }
            try Self.settle(bench, sealing: .everything(now: Self.now(2)))
            try Self.expect(bench, isSealed: true)
            call += 1
        }
        #expect(call > 60)
    }

    @Test func `a checkpoint from before a seal leads to no event twice`() throws {
        let bench = try Self.bench()
        var export = try Self.make(bench)
        var position = try export.recover().position
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        position = try run.advance(&export, from: position, upTo: bench.end, batchCountMax: 8)
        try export.checkpoint(at: position)
        let state = bench.data.statePath("export-mixpanel")
        let old = try #require(bench.disk.bytes(of: state))
        for second in 0..<2 {
            position = try run.advance(&export, from: position, upTo: bench.end, batchCountMax: 9)
            try export.checkpoint(at: position, sealing: .everything(now: Self.now(Int64(second))))
        }
        bench.disk.kill()
        bench.disk.place(state, old)
        try Self.settle(bench)
        try Self.expect(bench, isSealed: false)
        #expect(!bench.tree("exports").keys.contains { $0.hasSuffix("_SUCCESS") })
        try Self.settle(bench, sealing: .everything(now: Self.now(9)))
        try Self.expect(bench, isSealed: true)
    }
}
