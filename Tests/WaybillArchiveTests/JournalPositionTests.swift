import Testing
import WaybillArchive
import WaybillJournal
import WaybillSystem

struct JournalPositionTests {
    @Test func `a journal whose files are gone goes on where the checkpoints stand`() throws {
        let files = CrashFileSystem()
        let data = DataDirectory(root: "/data", files: files)
        try data.create()
        for (name, position) in [("archive", 5_000), ("export-csv", 700)] {
            var state = try StateStore(path: data.statePath(name), files: files)
            try state.commit(["position": String(position)])
        }
        #expect(try data.openJournal().end == JournalPosition(5_000))
    }

    @Test func `a journal without checkpoints begins at its own end`() throws {
        let data = DataDirectory(root: "/data", files: CrashFileSystem())
        try data.create()
        #expect(try data.openJournal().end == JournalPosition(0))
    }
}
