import Testing
import WaybillProtocol
import WaybillSpool
import WaybillSystem
import WaybillTail
import WaybillTestSupport

/// Segments that are shipped under another id.
struct TailReshipTests {
    private static let id = "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001"
    private let files = FaultyFiles()
    private let path = "/spool/\(Self.id).ndjson"
    /// Its digits are what `printf 'one\n' | sha256sum` begins with.
    private let newID = "\(Self.id):2c8b08da5ce60398"
    private var newPath: String { "/spool/\(self.newID).ndjson" }

    @Test(arguments: [true, false])
    func `a disputed segment arrives under its new id, and nothing is called lost`(isRunning: Bool) throws {
        let bench = try TailBench(files)
        bench.received[Self.id] = Array("uno\ndos\n".utf8)
        files.append(path, "one\n")
        bench.settle()
        try bench.checkpoint()
        if !isRunning { bench.kill() }
        #expect(try Reshipment.reship(path, on: files) == .renamed(to: newPath))
        if !isRunning { try bench.start() }
        bench.settle()
        #expect(bench.received == [Self.id: Array("uno\ndos\n".utf8), newID: Array("one\n".utf8)])
        #expect(bench.sealed == [newID])
        #expect(bench.losses == [])
        #expect(!files.exists(newPath))
        try bench.checkpoint()
        bench.kill()
        #expect(try StateStore(path: "/state/registry", files: files).entries.keys.filter { !$0.hasPrefix("@") } == [])
    }

    @Test func `a hint that the old name is gone does not make a loss of it`() throws {
        let bench = try TailBench(files)
        bench.liesAbout = [Self.id]
        files.append(path, "one\n")
        bench.settle()
        _ = try Reshipment.reship(path, on: files)
        bench.hint(path)
        bench.settle()
        #expect(bench.losses == [])
        #expect(bench.received == [newID: Array("one\n".utf8)])
    }

    @Test func `a second call changes nothing`() throws {
        let bench = try TailBench(files)
        files.append(path, "one\n")
        #expect(try Reshipment.reship(path, on: files) == .renamed(to: newPath))
        #expect(try Reshipment.reship(newPath, on: files) == .renamedBefore)
        #expect(throws: Reshipment.Failure.missing(path: path)) { try Reshipment.reship(path, on: files) }
        // A crash of the machine left the old name, or someone put the file back.
        files.append(path, "one\n")
        #expect(throws: Reshipment.Failure.taken(path: newPath)) { try Reshipment.reship(path, on: files) }
        bench.settle()
        #expect(bench.received[newID] == Array("one\n".utf8))
    }

    @Test func `only a complete segment is renamed`() throws {
        let bench = try TailBench(files)
        files.append(path, "one\n")
        files.append("/log/a.log", "one\n")
        let writer = try files.open(path, .append)
        #expect(try files.lock(writer, .shared))
        #expect(throws: Reshipment.Failure.beingWritten(path: path)) { try Reshipment.reship(path, on: files) }
        #expect(throws: Reshipment.Failure.notSegment(path: "/log/a.log")) {
            try Reshipment.reship("/log/a.log", on: files)
        }
        files.close(writer)
        bench.settle()
        #expect(bench.received[Self.id] == Array("one\n".utf8))
    }

    @Test func `a failure at any call leaves the segment under one of the two names`() throws {
        var call = 0
        while true {
            call += 1
            let files = FaultyFiles()
            try files.createDirectory("/spool")
            files.append(path, "one\n")
            files.fail(call: call, .error(Errno.inputOutput))
            do throws(Reshipment.Failure) {
                #expect(try Reshipment.reship(path, on: files) == .renamed(to: newPath))
                break
            } catch {
                guard case .system = error else { throw error }
            }
            #expect(files.exists(path) != files.exists(newPath), "call \(call)")
            let present = files.exists(path) ? path : newPath
            _ = try Reshipment.reship(present, on: files)
            #expect(files.bytes(of: newPath) == Array("one\n".utf8))
        }
        #expect(call > 5)
    }

    @Test func `a quota evicts a reshipped segment as any other`() throws {
        try files.createDirectory("/spool")
        files.append(path, "one\n")
        _ = try Reshipment.reship(path, on: files)
        let keeper = SpoolKeeper(directory: "/spool", on: files)
        let usage = try keeper.usage()
        #expect([usage.byteCount, usage.segmentCount, usage.lineCount] == [4, 1, 1])
        try keeper.purge()
        #expect(!files.exists(newPath))
    }
}
