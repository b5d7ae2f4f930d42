import Testing
import WaybillFleet
import WaybillMerger
import WaybillProtocol
import WaybillReceiver
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

@Suite struct MergeCheckpointTests {
    private static let start: Int64 = 1_795_305_600_000
    private static let step: Int64 = 600_000

    @Test func `a merger that loses its disk behind each checkpoint has the same files as one that stays`() async throws
    {
        let site = try FleetSite()
        var (checkpointCount, deletedCount) = (0, 0)
        for number in 0..<6 {
            let numbers = number * 10..<number * 10 + 10
            // Their days are sealed at the first barrier: what comes later is late.
            _ = try site.receive("a", stream: "s\(number)", numbers, at: Self.start + Int64(number) * Self.step)
            let stays = try await site.merge("m2", checkpoints: false)
            let lost = try await site.merge("m1", checkpoints: true)
            #expect(stays.tally.lineCount == 10)
            #expect(lost.tally.lineCount == 10, "only what is behind the checkpoint is merged")
            checkpointCount += lost.checkpointCount
            deletedCount += lost.deletedPieceCount
            removeFolder("\(site.root)/m1")
        }
        #expect(checkpointCount == 6)
        #expect(deletedCount > 0)
        _ = try await site.merge("m1", checkpoints: false)
        let (restored, stayed) = (try site.tree("m1/archive"), try site.tree("m2/archive"))
        #expect(restored.keys.sorted() == stayed.keys.sorted())
        // A restart introduces streams again in `.sources`, whose digest the manifest has.
        for (path, bytes) in stayed where path.contains(".ndjson") { #expect(restored[path] == bytes, "\(path)") }
        let exports = (try site.tree("m1/exports"), try site.tree("m2/exports"))
        #expect(exports.0.keys.sorted() == exports.1.keys.sorted())
        for (path, bytes) in exports.1 where path.contains(".csv") { #expect(exports.0[path] == bytes, "\(path)") }
        let lines = try stayed.filter { $0.key.hasSuffix(".ndjson.gz") }.values.flatMap { bytes in
            String(decoding: try #require(ProjectionBench.inflate(bytes)), as: UTF8.self).split(separator: "\n")
        }
        let open = stayed.filter { $0.key.hasSuffix(".ndjson") }.values.flatMap {
            String(decoding: $0, as: UTF8.self).split(separator: "\n")
        }
        #expect((lines + open).map(String.init).sorted() == (0..<60).map(FleetSite.line).sorted())
    }

    @Test func `a merger that was away while its rounds were deleted begins again from a checkpoint`() async throws {
        let site = try FleetSite()
        _ = try site.receive("a", stream: "s", 0..<10, at: Self.start)
        _ = try await site.merge("away", checkpoints: true)
        for number in 1..<5 {
            let numbers = number * 10..<number * 10 + 10
            _ = try site.receive("a", stream: "s\(number)", numbers, at: Self.start + Int64(number) * Self.step)
            _ = try await site.merge("m1", checkpoints: true)
        }
        #expect(site.store.objects[MergeRound.key(of: 1)] == nil)
        let report = try await site.merge("away", checkpoints: false)
        #expect(report.tally.lineCount == 0)
        let files = POSIXFileSystem()
        #expect(try files.status(at: "\(site.root)/away/set-aside/merger-1/state/merge.state") != nil)
        let (restored, stayed) = (try site.tree("away/journal"), try site.tree("m1/journal"))
        #expect(restored == stayed)
    }

    @Test func `a merger of a fleet whose first rounds are gone says so if no checkpoint is whole`() async throws {
        let site = try FleetSite()
        for number in 0..<4 {
            let numbers = number * 10..<number * 10 + 10
            _ = try site.receive("a", stream: "s\(number)", numbers, at: Self.start + Int64(number) * Self.step)
            _ = try await site.merge("m1", checkpoints: true)
        }
        for key in site.store.objects.keys where key.hasPrefix("merge/s00/checkpoint/") && !key.hasSuffix(".wbc") {
            site.store.place(key, nil)
        }
        await #expect(throws: MergeFailure.self) { _ = try await site.merge("m2") }
    }
}
