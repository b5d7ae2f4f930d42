import Testing
import WaybillSpool
import WaybillSystem
import WaybillTestSupport

private let writerID = "0195505e-aaaa-7000-8000-0000000000aa"

@Test func `on a real disk a segment is complete when its lock is free and not before`() throws {
    try withFolder { parent in
        let folder = Path.join(parent, "spool")
        let files = POSIXFileSystem()
        let path = "\(folder)/\(writerID)-00000000000000000001.ndjson"
        do {
            var spool = try SpoolWriter(directory: folder, writer: writerID, on: files)
            try Array("one\n".utf8).withUnsafeBytes { bytes in try spool.append(bytes) }
            let agent = try files.open(path, .read)
            defer { files.close(agent) }
            #expect(try !files.lock(agent, .exclusive))
            let sync = spool.sync
            try sync.perform(on: files)
            spool.synced(sync)
        }
        let agent = try files.open(path, .read)
        defer { files.close(agent) }
        #expect(try files.lock(agent, .exclusive))
        #expect(try files.contents(of: path) == Array("one\n".utf8))
        #expect(try files.list(folder) == ["\(writerID)-00000000000000000001.ndjson"])
    }
}
