import Testing
import WaybillData
import WaybillSystem
import WaybillTestSupport

/// What a projection does with its files, without a journal: writes to do, in order, and a checkpoint between them.
private struct Writer: ~Copyable {
    struct Write {
        let path: String
        let bytes: [UInt8]
        /// No further write goes to the file.
        var isLast = false
    }

    var set: FileSet<FaultyFiles>
    var state: StateStore<FaultyFiles>

    init(
        _ disk: FaultyFiles, openFileCountMax: Int = 3, togetherCountMin: Int = FileSet<FaultyFiles>.togetherCountMin,
        stop: StopFlag? = nil
    ) throws(FileSystemError) {
        self.set = FileSet(
            root: "/data", files: disk, openFileCountMax: openFileCountMax, togetherCountMin: togetherCountMin,
            stop: stop)
        self.state = try StateStore(path: "/data/writer.state", files: disk)
    }

    /// - Returns: how many writes the checkpoint stands for.
    mutating func recover() throws(FileSystemError) -> (count: Int, recovery: FileSet<FaultyFiles>.Recovery) {
        try self.state.settle()
        let entries = self.state.entries
        let recovery = try self.set.recover(from: entries, roots: ["out"]) { path in entries["done:" + path] != nil }
        return (Int(entries["position"] ?? "0") ?? 0, recovery)
    }

    mutating func perform(_ write: Write) throws(FileSystemError) {
        let index = self.set.index(of: write.path)
        let half = write.bytes.count / 2
        try self.set.append(Array(write.bytes[..<half]), to: index)
        try self.set.append(Array(write.bytes[half...]), to: index)
        if write.isLast { self.set.release(index) }
    }

    mutating func checkpoint(_ writes: ArraySlice<Write>, at count: Int) throws(FileSystemError) {
        var changes = try self.set.synchronize()
        for write in writes where write.isLast { changes["done:" + write.path] = .some("") }
        changes["position"] = .some(String(count))
        try self.state.commit(changes)
        self.set.checkpointCommitted()
    }
}

@Suite struct FileSetTests {
    private static func disk() throws -> FaultyFiles {
        let disk = FaultyFiles()
        try disk.createDirectories("/data")
        return disk
    }

    private static func writes(_ seed: UInt64) -> [Writer.Write] {
        var generator = SeededGenerator(seed: seed)
        var finished: Set<String> = []
        var writes: [Writer.Write] = []
        while writes.count < 50 {
            let day = Int.random(in: 0..<3, using: &generator)
            let path = "out/day=\(day)/bundle=\(Int.random(in: 0..<3, using: &generator))/part-\(writes.count / 30).txt"
            if finished.contains(path) { continue }
            let isLast = Int.random(in: 0..<12, using: &generator) == 0
            if isLast { finished.insert(path) }
            let bytes = Array("write \(writes.count) of \(path)\n".utf8)
            writes.append(Writer.Write(path: path, bytes: bytes, isLast: isLast))
        }
        return writes
    }

    private static func expected(_ writes: some Sequence<Writer.Write>) -> [String: [UInt8]] {
        var files: [String: [UInt8]] = [:]
        for write in writes { files["/data/" + write.path, default: []] += write.bytes }
        return files
    }

    @Test func `a root that was moved away is not created again`() throws {
        let disk = try Self.disk()
        var writer = try Writer(disk)
        try disk.rename("/data", to: "/moved")
        #expect(throws: FileSystemError.self) {
            try writer.perform(Writer.Write(path: "out/day=1/part-0.txt", bytes: [0x31, 0x0A]))
        }
        #expect(try disk.status(at: "/data") == nil)
    }

    @Test(arguments: 0..<UInt64(200))
    func `every write is in its file exactly once, whatever fails and crashes`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed ^ 0xF11E)
        let disk = try Self.disk()
        let writes = Self.writes(seed)
        // From one file on, several, or never: syncing them together.
        let togetherCountMin = [1, 2, 3, .max][Int(seed % 4)]
        var writer = try Writer(disk, togetherCountMin: togetherCountMin)
        var count = 0
        var checkpointed = 0
        disk.failAtRandom(seed: seed, perMille: 15)
        var attemptCount = 0
        while checkpointed < writes.count {
            attemptCount += 1
            try #require(attemptCount < 1000, "it makes no progress")
            if attemptCount > 200 { disk.clearFaults() }
            if Int.random(in: 0..<15, using: &generator) == 0, attemptCount < 200 {
                disk.stop(atCall: Int.random(in: 1...30, using: &generator))
            }
            do {
                if count < writes.count {
                    try writer.perform(writes[count])
                    count += 1
                }
                if count == writes.count || Int.random(in: 0..<8, using: &generator) == 0 {
                    try writer.checkpoint(writes[checkpointed..<count], at: count)
                    checkpointed = count
                }
            } catch {
                if disk.isStopped {
                    let isKilled = Bool.random(using: &generator) && !disk.memory.hasDroppedPages
                    if isKilled { disk.kill() } else { disk.crash(seed: generator.next()) }
                    writer = try Writer(disk, togetherCountMin: togetherCountMin)
                }
                count = try Self.recover(&writer, disk)
                // A commit that failed may have been one after all.
                #expect(count >= checkpointed)
                checkpointed = count
                #expect(disk.tree("/data/out") == Self.expected(writes[..<count]))
                disk.failAtRandom(seed: generator.next(), perMille: 15)
            }
        }
        #expect(disk.tree("/data/out") == Self.expected(writes))
        disk.crash(seed: seed)
        writer = try Writer(disk)
        #expect(try Self.recover(&writer, disk) == writes.count)
        #expect(disk.tree("/data/out") == Self.expected(writes))
    }

    @Test func `a stop ends between two files, and the next start continues at the checkpoint`() throws {
        let disk = try Self.disk()
        let stop = StopFlag()
        var writer = try Writer(disk, stop: stop)
        let writes = Self.writes(7)
        for write in writes[..<20] { try writer.perform(write) }
        try writer.checkpoint(writes[..<20], at: 20)
        for write in writes[20..<30] { try writer.perform(write) }
        stop.set()
        for attempt in 0..<2 {
            let error = #expect(throws: FileSystemError.self) {
                if attempt == 0 {
                    try writer.perform(writes[30])
                } else {
                    try writer.checkpoint(writes[20..<30], at: 30)
                }
            }
            #expect(error?.isStop == true)
        }
        #expect(disk.tree("/data/out") == Self.expected(writes[..<30]))
        writer = try Writer(disk)
        #expect(try Self.recover(&writer, disk) == 20)
        #expect(disk.tree("/data/out") == Self.expected(writes[..<20]))
    }

    /// Recovers, again after each error.
    private static func recover(_ writer: inout Writer, _ disk: FaultyFiles) throws -> Int {
        for _ in 0..<50 {
            do {
                return try writer.recover().count
            } catch {
                if disk.isStopped {
                    disk.crash(seed: 1)
                    writer = try Writer(disk)
                }
            }
        }
        disk.clearFaults()
        return try writer.recover().count
    }

    @Test func `many files are durable after one call`() throws {
        let disk = try Self.disk()
        var verbs: [FileVerb: Int] = [:]
        disk.setFaults { call in
            verbs[call.verb, default: 0] += 1
            return nil
        }
        var writer = try Writer(disk, openFileCountMax: 64)
        verbs = [:]
        let writes = (0..<40).map { Writer.Write(path: "out/day=\($0)/part", bytes: [0x41, UInt8($0)]) }
        for write in writes { try writer.perform(write) }
        _ = try writer.set.synchronize()
        #expect(verbs[.synchronizeAll] == 1)
        #expect(verbs[.synchronize] == nil && verbs[.synchronizeDirectory] == nil)
        for write in writes { #expect(disk.memory.durableByteCount(of: "/data/" + write.path) == 2) }
        disk.crash(seed: 1)
        #expect(disk.tree("/data/out") == Self.expected(writes))
    }

    @Test func `recovery says what it cut, removed and missed`() throws {
        let disk = try Self.disk()
        do {
            var writer = try Writer(disk)
            try writer.perform(Writer.Write(path: "out/cut", bytes: Array("12345678".utf8)))
            try writer.perform(Writer.Write(path: "out/short", bytes: Array("12345678".utf8)))
            try writer.perform(Writer.Write(path: "out/gone", bytes: Array("12345678".utf8)))
            try writer.checkpoint([], at: 1)
        }
        disk.place("/data/out/cut", Array("12345678901".utf8))
        disk.place("/data/out/short", Array("123".utf8))
        disk.place("/data/out/unknown", [1])
        try disk.unlink("/data/out/gone")
        var writer = try Writer(disk)
        let recovery = try writer.recover().recovery
        #expect(recovery.cutFileCount == 1 && recovery.cutByteCount == 3 && recovery.removedFileCount == 1)
        #expect(recovery.shortFiles == ["out/short": 5, "out/gone": 8])
        let summary = "cut 1 files by 3 bytes, removed 1 files, out/gone lacks 8 bytes, out/short lacks 5 bytes"
        #expect(recovery.summary == summary)
        #expect(
            disk.tree("/data/out") == [
                "/data/out/cut": Array("12345678".utf8), "/data/out/short": Array("123".utf8),
            ])
    }

    @Test func `a file whose folder is gone begins anew`() throws {
        let disk = try Self.disk()
        do {
            var writer = try Writer(disk)
            try writer.perform(Writer.Write(path: "out/a/file", bytes: Array("old".utf8)))
            try writer.checkpoint([], at: 1)
        }
        try disk.unlink("/data/out/a/file")
        try disk.removeDirectory("/data/out/a")
        var writer = try Writer(disk)
        #expect(try writer.recover().recovery.shortFiles == ["out/a/file": 3])
        try writer.perform(Writer.Write(path: "out/a/file", bytes: Array("new".utf8)))
        try writer.checkpoint([], at: 2)
        disk.crash(seed: 5)
        #expect(disk.bytes(of: "/data/out/a/file") == Array("new".utf8))
    }

    @Test func `open files are bounded, and none is left open`() throws {
        let disk = try Self.disk()
        do {
            var writer = try Writer(disk, openFileCountMax: 4)
            for round in 0..<60 {
                let write = Writer.Write(path: "out/\(round % 13)", bytes: [UInt8(round)], isLast: round >= 47)
                try writer.perform(write)
                // The state's own file and the root are two of them.
                #expect(disk.memory.openDescriptorCount <= 6)
                if round % 20 == 19 { try writer.checkpoint([write], at: round) }
            }
            #expect(writer.set.count == 0)
        }
        #expect(disk.memory.openDescriptorCount == 0)
    }

    @Test func `the file that was unused the longest is closed`() throws {
        let disk = try Self.disk()
        var writer = try Writer(disk, openFileCountMax: 3)
        for name in ["a", "b", "c", "a", "d"] { try writer.perform(Writer.Write(path: "out/\(name)", bytes: [1, 2])) }
        var opened: [String] = []
        disk.setFaults { call in
            if call.verb == .open { opened.append(call.path) }
            return nil
        }
        for name in ["a", "c", "d", "b"] { try writer.perform(Writer.Write(path: "out/\(name)", bytes: [3])) }
        #expect(opened == ["/data/out/b"])
    }
}
