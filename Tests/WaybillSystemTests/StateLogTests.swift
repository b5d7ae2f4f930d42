import Testing
import WaybillSystem
import WaybillTestSupport

/// A log in `/state/x.state`, on a disk that can be crashed.
@Suite struct StateLogTests {
    private let disk = FaultyFiles()
    private let path = "/state/x.state"

    init() throws {
        try self.disk.createDirectories("/state")
    }

    private func lines(_ entries: KeyValuePairs<String, String>) -> StateLines {
        var lines = StateLines()
        for (key, value) in entries { lines.set(key, value) }
        return lines
    }

    private func rewrite(
        _ log: inout StateLog<FaultyFiles>, _ parts: [StateLines]
    ) throws(FileSystemError) {
        var rewrite = try log.beginRewrite()
        for part in parts { try log.write(part, to: &rewrite) }
        try log.finish(rewrite)
    }

    @Test func `a state that was written in parts is one commit, and is handed out once`() throws {
        var log = try StateLog(path: self.path, files: self.disk)
        try self.rewrite(&log, [self.lines(["b": "1"]), self.lines(["a": "2", "c": "3"]), StateLines()])
        var removal = StateLines()
        removal.remove("b")
        let isTaken = log.takes(removal, liveByteCount: 10)
        #expect(isTaken)
        try log.append(removal)
        let first = "+ b 1\n+ a 2\n+ c 3\n"
        let expected =
            "waybill-state 1\n" + first + "= 3 \(Hexadecimal.text(CRC32.checksum(of: first.utf8), digitCount: 8))\n"
            + "- b\n= 1 \(Hexadecimal.text(CRC32.checksum(of: "- b\n".utf8), digitCount: 8))\n"
        #expect(self.disk.bytes(of: self.path) == Array(expected.utf8))
        log = try StateLog(path: self.path, files: self.disk)
        let entries = log.takeEntries()
        let again = log.takeEntries()
        #expect(entries == ["a": "2", "c": "3"] && again == [:])
    }

    @Test(arguments: 0..<UInt64(24))
    func `changes without a sync survive the process, and a power cut once they are synced`(seed: UInt64) throws {
        let isSynced = seed % 2 == 0
        try self.disk.synchronizeDirectory("/")
        var log = try StateLog(path: self.path, files: self.disk)
        try self.rewrite(&log, [self.lines(["a": "1"])])
        try log.appendUnsynchronized(self.lines(["b": "2"]))
        if isSynced { try log.synchronize() }
        log = try StateLog(path: self.path, files: self.disk)
        #expect(log.recovery.entryCount == 2, "the process died")
        self.disk.crash(seed: seed)
        log = try StateLog(path: self.path, files: self.disk)
        let entries = log.takeEntries()
        #expect(entries == ["a": "1", "b": "2"] || !isSynced && entries == ["a": "1"])
    }

    @Test func `a rewrite that ends anywhere leaves the state before it or the one after it`() throws {
        var failedCount = 0
        for call in 1...12 {
            for seed in 0..<UInt64(8) {
                let disk = FaultyFiles()
                try disk.createDirectories("/state")
                var log = try StateLog(path: self.path, files: disk)
                try self.rewrite(&log, [self.lines(["a": "old"])])
                let code = Errno.inputOutput
                disk.fail(call: call, seed % 2 == 0 ? .half(code) : .error(code))
                do {
                    try self.rewrite(&log, ["a", "b", "c"].map { self.lines([$0: "new"]) })
                } catch {
                    failedCount += 1
                    let isAppended = log.isAppended
                    #expect(!isAppended)
                }
                disk.clearFaults()
                disk.crash(seed: seed)
                log = try StateLog(path: self.path, files: disk)
                let entries = log.takeEntries()
                #expect([["a": "old"], ["a": "new", "b": "new", "c": "new"]].contains(entries))
            }
        }
        #expect(failedCount > 0)
    }
}
