import Testing
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

struct JournalPositionTests {
    @Test func `a journal whose files are gone continues where the checkpoints stand`() throws {
        let files = FaultyFiles()
        let data = DataDirectory(root: "/data", files: files)
        try data.create()
        for (name, position) in [("archive", 5_000), ("export-csv", 700)] {
            var state = try StateStore(path: data.statePath(name), files: files)
            try state.commit(["position": String(position)])
        }
        #expect(try data.openJournal().end == JournalPosition(5_000))
    }

    @Test func `a journal continues behind a checkpoint that a dying process left under another name`() throws {
        for suffix in StateImage.suffixes {
            let files = FaultyFiles()
            let data = DataDirectory(root: "/data", files: files)
            try data.create()
            var state = try StateStore(path: data.statePath("archive"), files: files)
            try state.commit(["position": "5000", "file:archive/part-00001.ndjson": "7"])
            if !suffix.isEmpty { try files.rename(data.statePath("archive"), to: data.statePath("archive") + suffix) }
            #expect(try data.openJournal().end == JournalPosition(5_000))
            #expect(try data.stateNames() == ["archive"])
            #expect(try data.hasState("archive"))
            #expect(try !data.hasState("archive2"))
            #expect(try ArchiveIndex(data: data).lengths == ["archive/part-00001.ndjson": 7])
        }
    }

    @Test(arguments: [nil, 238, 6_000] as [Int?])
    func `a journal continues behind the manifests of sealed days, whatever checkpoint is left`(position: Int?) throws {
        let files = FaultyFiles()
        let data = DataDirectory(root: "/data", files: files)
        try data.create()
        if let position {
            var state = try StateStore(path: data.statePath("archive"), files: files)
            try state.commit(["position": String(position)])
        }
        for (day, sealed) in [(19, 5_000), (20, 4_000)] {
            let folder = try #require(DayFolder(path: "archive/env=prod/bundle=b/date=2026-11-\(day)"))
            var manifest = DayManifest(
                folder: folder, revision: 1, zone: "UTC", sealedAt: WallTime(milliseconds: 1_795_165_200_005))
            var file = DayManifest.File(name: "part-00001.ndjson.gz")
            file.position = JournalPosition(sealed)
            manifest.files = [file]
            try files.createDirectories("/data/" + folder.path)
            files.place("/data/\(folder.path)/manifest.json", manifest.json)
            files.place("/data/\(folder.path)/part-00001.sources", [])
        }
        let journal = try data.openJournal()
        #expect(journal.end == JournalPosition(max(position ?? 0, 5_000)))
        #expect(journal.recovery.isLossy)
    }

    @Test func `a journal without checkpoints begins at its own end`() throws {
        let data = DataDirectory(root: "/data", files: FaultyFiles())
        try data.create()
        #expect(try data.openJournal().end == JournalPosition(0))
    }
}
