import Testing
import WaybillData
import WaybillExport
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

@testable import WaybillProjection

/// Files that get nothing more, without an export that closes them.
@Suite struct ClosedFilesTests {
    private static let folder = "exports/csv/env=prod/date=2026-11-20"
    private static let stem = folder + "/part-00000"
    private static let content = Array("id,name\n1,opened\n".utf8)

    private static func sha256(_ bytes: [UInt8]) -> String {
        var digest = SHA256Digest()
        bytes.withUnsafeBytes { digest.update($0) }
        return digest.finish()
    }

    private static let manifest = "{\"sha256\":\"\(Self.sha256(Self.content))\"}"

    private static func closed(_ disk: FaultyFiles) -> ClosedFiles<FaultyFiles> {
        ClosedFiles(of: .csv, fileExtension: "csv", root: "/data", files: disk)
    }

    /// A checkpoint that records a closed part, whose file is on the disk.
    private static func state(_ disk: FaultyFiles, _ stems: [String] = [stem]) throws -> StateStore<FaultyFiles> {
        try disk.createDirectories("/data/state")
        var state = try StateStore(path: "/data/state/export-csv.state", files: disk)
        try state.settle()
        for stem in stems {
            try disk.createDirectories(Path.parent(of: "/data/" + stem))
            disk.place("/data/\(stem).csv", Self.content)
            try state.commit(["closed:" + stem: Self.manifest])
        }
        return state
    }

    private static func names(_ disk: FaultyFiles) -> [String] {
        disk.tree("/data/" + Self.folder).keys.map { Path.name(of: $0) }.sorted()
    }

    @Test func `a file waits from the checkpoint that records it until it is compressed`() throws {
        let disk = FaultyFiles()
        var state = try Self.state(disk, [])
        var closed = Self.closed(disk)
        disk.place("/data/\(Self.stem).csv", Self.content)
        closed.add(Self.stem, Array(Self.manifest.utf8))
        #expect(closed.entries == ["closed:" + Self.stem: Self.manifest])
        #expect(closed.waitingCount == 0 && !closed.contains(folder: Self.folder))
        try state.commit(closed.entries.mapValues { .some($0) })
        closed.checkpointed()
        #expect(closed.entries == [:])
        #expect(closed.waitingCount == 1 && closed.contains(folder: Self.folder))

        #expect(try closed.step(&state) == Self.folder)
        #expect(closed.waitingCount == 0 && !closed.contains(folder: Self.folder))
        #expect(state.entries == [:])
        #expect(Self.names(disk) == ["part-00000.csv.gz", "part-00000.manifest.json"])
        let compressed = try #require(disk.bytes(of: "/data/\(Self.stem).csv.gz"))
        #expect(ProjectionBench.inflate(compressed) == Self.content)
        let written = try #require(disk.bytes(of: "/data/\(Self.stem).manifest.json"))
        #expect(ManifestLine.isIntact(written) == true)
        let text = String(decoding: written, as: UTF8.self)
        #expect(text.hasPrefix(CompressedManifest.text(Self.manifest, Self.sha256(compressed)).dropLast()))
        #expect(closed.failures == [])
    }

    @Test func `a death in any call leaves a file that the next start compresses to the same bytes`() throws {
        let whole = FaultyFiles()
        var state = try Self.state(whole)
        var closed = Self.closed(whole)
        closed.findWaiting(in: state.entries)
        let before = whole.callCount
        #expect(try closed.step(&state) == Self.folder)
        let callCount = whole.callCount - before
        for call in 1...callCount {
            let disk = FaultyFiles()
            do {
                var state = try Self.state(disk)
                var closed = Self.closed(disk)
                closed.findWaiting(in: state.entries)
                disk.stop(atCall: call)
                var hasDied = false
                do { hasDied = try closed.step(&state) == nil } catch { hasDied = true }
                #expect(hasDied || disk.isStopped)
            }
            disk.kill()
            var state = try StateStore(path: "/data/state/export-csv.state", files: disk)
            try state.settle()
            var closed = Self.closed(disk)
            closed.findWaiting(in: state.entries)
            while closed.waitingCount > 0 { _ = try closed.step(&state) }
            #expect(state.entries == [:] && closed.failures == [])
            #expect(disk.tree("/data/exports") == whole.tree("/data/exports"), "a death in call \(call)")
        }
    }

    @Test func `a file that cannot be read is tried again after a minute, and holds up no other`() throws {
        let disk = FaultyFiles()
        let next = Self.folder + "/part-00001"
        var state = try Self.state(disk, [Self.stem, next])
        var closed = Self.closed(disk)
        closed.findWaiting(in: state.entries)
        disk.fail(.open, of: "/data/\(Self.stem).csv", .error(Errno.inputOutput))
        closed.pass(WallTime(milliseconds: 1_000_000))
        #expect(try closed.step(&state) == nil)
        #expect(closed.waitingCount == 1 && closed.hasPostponed)
        #expect(try closed.step(&state) == Self.folder)
        #expect(closed.contains(folder: Self.folder) == true)
        let failures = closed.takeFailures()
        #expect(failures.map(\.folder) == [Self.folder] && closed.failures == [])
        let remedy = "waybill replay --data /data --provider csv --from 2026-11-20 --to 2026-11-20"
        #expect(failures[0].description.hasSuffix(remedy))

        disk.clearFaults()
        closed.pass(WallTime(milliseconds: 1_059_999))
        closed.checkpointed()
        #expect(closed.waitingCount == 0)
        closed.pass(WallTime(milliseconds: 1_060_000))
        closed.checkpointed()
        #expect(closed.waitingCount == 1 && !closed.hasPostponed)
        #expect(try closed.step(&state) == Self.folder)
        #expect(state.entries == [:] && closed.failures == [])
    }

    @Test func `a file that does not match its manifest is set aside, and its day can be exchanged`() throws {
        let disk = FaultyFiles()
        var state = try Self.state(disk)
        disk.place("/data/\(Self.stem).csv", Self.content.reversed())
        var closed = Self.closed(disk)
        closed.findWaiting(in: state.entries)
        #expect(try closed.step(&state) == Self.folder)
        #expect(Self.names(disk) == [] && state.entries == [:])
        #expect(disk.bytes(of: "/data/set-aside/\(Self.stem).csv.1") == Self.content.reversed())
        #expect(closed.failures.map(\.folder) == [Self.folder])
        #expect(closed.failures[0].description.contains("it does not match its manifest"))
        closed.forgetFailures(in: ExportRange(from: CalendarDay("2026-11-21")))
        #expect(closed.failures.count == 1)
        closed.forgetFailures(in: ExportRange(to: CalendarDay("2026-11-20")))
        #expect(closed.failures == [])
    }

    @Test func `what no checkpoint records is forgotten by a recovery`() throws {
        var closed = Self.closed(FaultyFiles())
        closed.add(Self.stem, Array("{}".utf8))
        closed.reset(fileExtension: "csv")
        #expect(closed.entries == [:])
        closed.checkpointed()
        #expect(closed.waitingCount == 0)
    }
}
