import Testing
import WaybillData
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

@testable import WaybillProjection

/// The manifests of sealed days, without an export that seals them.
@Suite struct OwedSealsTests {
    private static let folder = "exports/csv/env=prod/date=2026-11-20"
    private static let manifest = "{\"day\":\"2026-11-20\",\"revision\":2}"

    private static func state(_ disk: FaultyFiles) throws -> StateStore<FaultyFiles> {
        try disk.createDirectories("/data/state")
        var state = try StateStore(path: "/data/state/export-csv.state", files: disk)
        try state.settle()
        return state
    }

    @Test func `a day's manifest and its mark are written once, and then no checkpoint has them`() throws {
        let disk = FaultyFiles()
        var state = try Self.state(disk)
        try state.commit(["seal:" + Self.folder: Self.manifest, "unmarked:" + Self.folder: "1", "position": "7"])
        var seals = OwedSeals(root: "/data", files: disk)
        seals.find(in: state.entries)
        #expect(seals.folders == [Self.folder])

        try seals.finish(Self.folder, &state)
        #expect(seals.folders == [] && !seals.contains(Self.folder))
        #expect(state.entries == ["position": "7"])
        let folder = "/data/" + Self.folder
        #expect(disk.names(in: folder).sorted() == ["_SUCCESS", "manifest.json"])
        #expect(disk.bytes(of: folder + "/manifest.json") == ManifestLine.sealed(Array(Self.manifest.utf8)))
        #expect(seals.takeSealed().map(\.path) == [Self.folder])
        #expect(seals.takeSealed() == [])

        disk.place(folder + "/manifest.json", [])
        try seals.finish(Self.folder, &state)
        #expect(disk.bytes(of: folder + "/manifest.json") == [] && seals.takeSealed() == [])
    }

    @Test func `a day is owed until its manifest is durable, whichever call fails`() throws {
        for call in 1... {
            let disk = FaultyFiles()
            var state = try Self.state(disk)
            try state.commit(["seal:" + Self.folder: Self.manifest])
            var seals = OwedSeals(root: "/data", files: disk)
            seals.add([Self.folder])
            disk.fail(call: call, .error(Errno.inputOutput))
            do {
                try seals.finish(Self.folder, &state)
                if disk.faultCount == 0 { break }
            } catch {
                #expect(seals.folders == [Self.folder] && seals.takeSealed() == [])
                disk.clearFaults()
                try state.settle()
                seals.find(in: state.entries)
                if seals.contains(Self.folder) { try seals.finish(Self.folder, &state) }
            }
            #expect(seals.folders == [] && state.entries == [:], "call \(call)")
            #expect(disk.names(in: "/data/" + Self.folder).sorted() == ["_SUCCESS", "manifest.json"])
        }
    }
}
