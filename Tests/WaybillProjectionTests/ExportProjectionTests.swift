import Testing
import WaybillData
import WaybillExport
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport
@testable import WaybillProjection

/// Events for Mixpanel, whose parts close at 2000.
private enum Events {
    static func id(_ number: Int) -> String {
        "01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))"
    }

    static func line(_ number: Int, day: Int = 20, env: String = "prod") -> String {
        "{\"v\":1,\"id\":\"\(self.id(number))\",\"ts\":\"2026-11-\(day)T09:00:00.000Z\",\"kind\":\"event\","
            + "\"name\":\"n\",\"env\":\"\(env)\",\"bundle\":\"com.example.shop\",\"anon\":\"a\"}\n"
    }

    static func batch(_ numbers: Range<Int>, day: Int = 20, env: String = "prod") -> [UInt8] {
        numbers.flatMap { Array(self.line($0, day: day, env: env).utf8) }
    }
}

@Suite(.serialized) struct ExportProjectionTests {
    private typealias Export = ExportProjection<FaultyFiles>

    private static func export(_ bench: ProjectionBench) throws(FileSystemError) -> Export {
        try ExportProjection.live(ExportOptions(provider: .mixpanel), data: bench.data)
    }

    private static let partition = "exports/mixpanel/env=prod/date=2026-11-20"

    /// Sees that the partition's parts hold these events once, in order, with ids and manifests that are right.
    private static func expect(
        _ bench: ProjectionBench, _ partition: String, holds numbers: Range<Int>, perPart: Int = 2000
    ) throws {
        let tree = bench.tree(partition)
        var expectedPaths: Set<String> = []
        for (part, start) in stride(from: numbers.lowerBound, to: numbers.upperBound, by: perPart).enumerated() {
            let ids = (start..<min(start + perPart, numbers.upperBound)).map(Events.id)
            let path = "\(partition)/\(PartitionPath.part(part))"
            expectedPaths.formUnion([path + ".ndjson", path + ".ids"])
            #expect(tree[path + ".ids"] == ids.map { $0 + "\n" }.joined())
            let records = try #require(tree[path + ".ndjson"])
            #expect(Self.insertIDs(of: records) == ids)
            guard ids.count == perPart, start + perPart < numbers.upperBound else { continue }
            expectedPaths.insert(path + ".manifest.json")
            var digest = SHA256Digest()
            Array(records.utf8).withUnsafeBytes { digest.update($0) }
            let compressed = try #require(bench.disk.bytes(of: "/data/\(path).ndjson.gz"))
            var other = SHA256Digest()
            compressed.withUnsafeBytes { other.update($0) }
            let day = partition.suffix(10)
            let manifest = try #require(tree[path + ".manifest.json"])
            #expect(ManifestLine.isIntact(Array(manifest.utf8)) == true)
            #expect(
                manifest.hasPrefix(
                    "{\"provider\":\"mixpanel\",\"env\":\"prod\",\"day\":\"\(day)\",\"zone\":\"UTC\",\"mapping\":0,"
                        + "\"records\":2000,\"events\":2000,\"fix\":{},\"dead\":{},\"held\":0,\"first_id\":\"\(ids[0])\","
                        + "\"last_id\":\"\(ids[1999])\",\"sha256\":\"\(digest.finish())\","
                        + "\"oldest_ts\":\"\(day)T09:00:00.000Z\",\"gz_sha256\":\"\(other.finish())\",\"crc32\":\""))
        }
        #expect(Set(tree.keys) == expectedPaths)
    }

    /// The ids in a part whose records differ in nothing else.
    private static func insertIDs(of records: String) -> [String] {
        let bytes = Array(records.utf8)
        let lines = bytes.split(separator: 0x0A)
        let key = Array("\"$insert_id\":\"".utf8)
        guard let first = lines.first,
            let found = (0..<first.count).first(where: { first.dropFirst($0).starts(with: key) })
        else { return [] }
        return lines.map { String(decoding: $0.dropFirst(found + key.count).prefix(36), as: UTF8.self) }
    }

    @Test func `the digest is SHA-256`() {
        // FIPS 180-2, appendix B.1.
        var digest = SHA256Digest()
        Array("abc".utf8).withUnsafeBytes { digest.update($0) }
        #expect(digest.finish() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    }

    /// A disk on which 1960 events are exported and checkpointed, and the batches behind them close the part.
    private static func benchBeforeClosing() throws -> ProjectionBench {
        let bench = try ProjectionBench()
        var contents = [(ProjectionBench.description(0), Events.batch(0..<1960))]
        for round in 0..<6 {
            let next = (1960 + round * 15)..<(1975 + round * 15)
            contents.append((ProjectionBench.description(round % 2), Events.batch(next)))
            let other = (10_000 + round * 5)..<(10_005 + round * 5)
            contents.append((ProjectionBench.description(2), Events.batch(other, day: 19)))
        }
        try bench.write(contents, perGroup: 1)
        var export = try Self.export(bench)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try export.recover().position
        position = try run.advance(&export, from: position, upTo: bench.end, batchCountMax: 1)
        try export.checkpoint(at: position)
        return bench
    }

    /// Made once, since it takes long; tests work on copies.
    private static let source = Result { try benchBeforeClosing() }

    /// The same bench on a copy of its disk.
    @Test func `a crash at any call around closing leaves parts, ids and manifests right`() throws {
        let source = try Self.source.get()
        var call = 1
        var isDone = false
        while !isDone {
            for isKilled in [false, true] {
                let bench = try source.copy()
                bench.disk.stop(atCall: call)
                do {
                    try Self.finish(bench)
                } catch {
                    #expect(bench.disk.isStopped)
                }
                isDone = !bench.disk.isStopped
                if isKilled { bench.disk.kill() } else { bench.disk.crash(seed: UInt64(call)) }
                // Recovery finds the manifests that are owed.
                var export = try Self.export(bench)
                _ = try export.recover()
                try export.finishSealing()
                let state = try StateStore(path: bench.data.statePath("export-mixpanel"), files: bench.disk)
                #expect(state.entries.keys.filter { $0.hasPrefix("closed:") } == [])
                try Self.finish(bench)
                try Self.expectAll(bench)
            }
            call += 1
        }
        #expect(call > 40)
    }

    @Test func `an error at any call around closing leaves parts, ids and manifests right`() throws {
        let source = try Self.source.get()
        for fault in [FaultyFiles.Fault.error(Errno.inputOutput), .half(Errno.noSpace)] {
            var call = 1
            while true {
                let bench = try source.copy()
                bench.disk.fail(call: call, fault)
                do {
                    var export = try Self.export(bench)
                    for attempt in 0..<2 {
                        do {
                            try Self.finish(bench, &export)
                            break
                        } catch {
                            #expect(attempt == 0)
                        }
                    }
                } catch {
                    // Not even the checkpoint could be read; a process would be started again.
                    try Self.finish(bench)
                }
                try Self.expectAll(bench)
                bench.disk.crash(seed: UInt64(call))
                try Self.finish(bench)
                try Self.expectAll(bench)
                if bench.disk.faultCount == 0 { break }
                call += 3
            }
            #expect(call > 40)
        }
    }

    private static func finish(_ bench: ProjectionBench) throws {
        var export = try self.export(bench)
        try self.finish(bench, &export)
    }

    private static func finish(_ bench: ProjectionBench, _ export: inout Export) throws {
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try export.recover().position
        while position < bench.end {
            position = try run.advance(&export, from: position, upTo: bench.end, batchCountMax: 1)
            try export.checkpoint(at: position)
        }
        try export.finishSealing()
    }

    @Test(arguments: 0..<UInt64(40))
    func `errors and crashes change no byte of an export`(seed: UInt64) throws {
        let bench = try Self.source.get().copy()
        var driver = ProjectionDriver(bench: bench)
        driver.failuresPerMille = seed % 4 == 0 ? 0 : 12
        driver.stepsPerCrash = seed % 4 == 1 ? 0 : 6
        driver.batchCountMax = 6
        try driver.run(seed: seed) { () throws(FileSystemError) in try Self.export(bench) }
        try Self.expectAll(bench)
        bench.disk.crash(seed: seed)
        try Self.finish(bench)
        try Self.expectAll(bench)
    }

    private static func expectAll(_ bench: ProjectionBench) throws {
        try self.expect(bench, self.partition, holds: 0..<2050)
        try self.expect(bench, "exports/mixpanel/env=prod/date=2026-11-19", holds: 10_000..<10_030)
    }

    @Test func `a checkpoint that is lost makes the same export again`() throws {
        let bench = try Self.source.get().copy()
        try Self.finish(bench)
        let before = bench.tree("exports")
        for name in try bench.disk.list(bench.data.state) { try bench.disk.unlink(Path.join(bench.data.state, name)) }
        try Self.finish(bench)
        #expect(bench.tree("exports") == before)
    }

    @Test func `an older checkpoint makes the same export again, closed parts included`() throws {
        let bench = try Self.source.get().copy()
        let state = bench.data.statePath("export-mixpanel")
        let older = try #require(bench.disk.bytes(of: state))
        try Self.finish(bench)
        let before = bench.tree("exports")
        bench.disk.place(state, older)
        try Self.finish(bench)
        #expect(bench.tree("exports") == before)
    }

    @Test func `every event is counted once, however often it was projected`() throws {
        let bench = try Self.source.get().copy()
        var export = try Self.export(bench)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        let position = try export.recover().position
        _ = try run.advance(&export, from: position, upTo: bench.end, batchCountMax: 1)
        try Self.finish(bench, &export)
        #expect(export.counts == ExportCounts(exported: 120, refused: 0, held: 0, skipped: 0))
    }

    @Test func `refused and held events go to files of their own, and to the part's counts`() throws {
        let bench = try ProjectionBench()
        let refused = Events.line(1).replacing(Events.id(1), with: "none at all, and far too long for Mixpanel")
        let held = Events.line(2).replacing("2026-11-20T09:00:00.000Z", with: "2026-11-20T23:00:00.000Z")
        let lines = Events.line(0) + refused + held + "no event\n" + Events.line(3)
        try bench.write([(ProjectionBench.description(0), Array(lines.utf8))])
        try ProjectionDriver(bench: bench, stepsPerCrash: 2).run(seed: 4) { () throws(FileSystemError) in
            try Self.export(bench)
        }
        let tree = bench.tree(Self.partition)
        #expect(tree[Self.partition + "/part-00000.ids"] == Events.id(0) + "\n" + Events.id(3) + "\n")
        // From one hour before its time on.
        let heldLine = try #require(tree[Self.partition + "/held"])
        let time = ProjectionBench.noon + 11 * 3_600_000
        #expect(heldLine.hasPrefix("\(Events.id(2)) \(time - 3_600_000) \(time) {\"event\":"))
        let dead = try #require(tree[Self.partition + "/dead/part-00000.ndjson"])
        #expect(dead.contains("mixpanel.no_insert_id") && dead.hasSuffix("\n") && dead.utf8.count { $0 == 0x0A } == 1)
        #expect(tree.count == 4)
        let state = try StateStore(path: bench.data.statePath("export-mixpanel"), files: bench.disk).entries
        let standing = try #require(state["part:" + Self.partition])
        #expect(standing.contains(" held=1 ") && standing.contains(" dead.mixpanel.no_insert_id=1 "))
    }

    @Test func `an open part that was cut or taken away is set aside, and the next one begins`() throws {
        for (suffix, isGone) in [(".ndjson", false), (".ids", false), (".ids", true), (".ndjson", true)] {
            let bench = try Self.source.get().copy()
            try Self.finish(bench)
            let path = "\(Self.partition)/part-00001"
            let before = bench.tree(Self.partition)
            let text = try #require(before[path + suffix])
            if isGone {
                try bench.disk.unlink("/data/" + path + suffix)
            } else {
                bench.disk.place("/data/" + path + suffix, Array(text.utf8.dropLast(10)))
            }
            var export = try Self.export(bench)
            let recovery = try export.recover()
            #expect(recovery.position == bench.end)
            #expect(
                recovery.report.contains(
                    "waybill replay --data /data --provider mixpanel --from 2026-11-20 --to 2026-11-20"))
            // The closed part stays, and so does what is left of the open one.
            let after = bench.tree(Self.partition)
            #expect(after == before.filter { !$0.key.hasPrefix(path) })
            let aside = bench.tree("set-aside")
            for other in [".ndjson", ".ids"] where other != suffix {
                #expect(aside["set-aside/\(path)\(other).1"] == before[path + other])
            }
            #expect(try export.recover() == ProjectionRecovery(position: bench.end))
        }
    }

    @Test func `an export without a checkpoint is set aside when the journal cannot make it again`() throws {
        let bench = try Self.source.get().copy()
        try Self.finish(bench)
        let before = bench.tree("exports")
        for name in try bench.disk.list(bench.data.state) { try bench.disk.unlink(Path.join(bench.data.state, name)) }
        let first = try #require(try bench.disk.list(bench.data.journal).first)
        try bench.disk.unlink(Path.join(bench.data.journal, first))
        var export = try Self.export(bench)
        let recovery = try export.recover()
        #expect(recovery.report.hasPrefix("the export's checkpoint is lost"))
        var kept: [String: String] = [:]
        for (path, text) in bench.tree("set-aside") {
            kept[path.replacing("set-aside/exports/mixpanel.1", with: "exports/mixpanel")] = text
        }
        #expect(kept == before)
        #expect(bench.tree("exports").isEmpty)
    }
}
