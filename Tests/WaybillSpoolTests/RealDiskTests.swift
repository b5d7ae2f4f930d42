import Glibc
import Testing
import WaybillSpool
import WaybillSystem

private let writerID = "0195505e-aaaa-7000-8000-0000000000aa"

/// Runs `body` with a new folder, and clears it away.
private func withFolder(_ body: (String) throws -> Void) throws {
    var template = Array("/tmp/waybill-spool-XXXXXX".utf8CString)
    let isMade = template.withUnsafeMutableBufferPointer { mkdtemp($0.baseAddress!) != nil }  // Not empty.
    try #require(isMade)
    let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    defer {
        let files = POSIXFileSystem()
        for name in (try? files.list("\(path)/spool")) ?? [] { try? files.unlink("\(path)/spool/\(name)") }
        try? files.removeDirectory("\(path)/spool")
        try? files.removeDirectory(path)
    }
    try body("\(path)/spool")
}

@Test func `on a real disk a segment is complete when its lock is free and not before`() throws {
    try withFolder { folder in
        let files = POSIXFileSystem()
        let path = "\(folder)/\(writerID)-00000000000000000001.ndjson"
        do {
            var spool = try SpoolWriter(directory: folder, writer: writerID, on: files)
            try Array("one\n".utf8).withUnsafeBytes { bytes in try spool.append(bytes) }
            let agent = try files.open(path, .read)
            defer { files.close(agent) }
            #expect(try !files.lock(agent, .exclusive))
            let flush = spool.flush
            try flush.perform(on: files)
            spool.flushed(flush)
        }
        let agent = try files.open(path, .read)
        defer { files.close(agent) }
        #expect(try files.lock(agent, .exclusive))
        #expect(try files.contents(of: path) == Array("one\n".utf8))
        #expect(try files.list(folder) == ["\(writerID)-00000000000000000001.ndjson"])
    }
}
