import Testing
import WaybillSystem
import WaybillTestSupport

/// A state in `/state/x.state` on a disk that can be crashed, beside a dictionary that says what must be in it.
private final class Bench {
    let disk = FaultyFiles()
    let path = "/state/x.state"
    /// Every state that was committed, the empty one first.
    var history: [[String: String]] = [[:]]
    /// What the commits that failed since the last that worked would have led to.
    var attempted: [[String: String]] = []

    var model: [String: String] { self.history[self.history.count - 1] }

    init() throws {
        try self.disk.createDirectories("/state")
    }

    func open() throws -> StateStore<FaultyFiles> {
        try StateStore(path: self.path, files: self.disk)
    }

    func commit(_ changes: [String: String?], to store: inout StateStore<FaultyFiles>) throws {
        var next = self.model
        for (key, value) in changes { next[key] = value }
        do throws(FileSystemError) {
            try store.commit(changes)
        } catch {
            self.attempted.append(next)
            throw error
        }
        // A commit of nothing touches nothing, so what failed before it may still be on the disk.
        if changes.isEmpty { return }
        self.attempted = []
        self.history.append(next)
    }

    /// Opens what a crash left, which is the last state committed or one that was being committed, and settles on it.
    ///
    /// - Parameter seed: also cuts the power somewhere in the middle of that.
    func recover(crashing seed: UInt64? = nil) throws -> StateStore<FaultyFiles> {
        if let seed {
            self.disk.stop(atCall: Int(seed % 16) + 1)
            do {
                var store = try self.open()
                self.expectAllowed(store.entries)
                try store.settle()
            } catch {
                #expect(self.disk.isStopped)
            }
            self.disk.crash(seed: seed)
        }
        var store = try self.open()
        self.expectAllowed(store.entries)
        try store.settle()
        if store.entries != self.model { self.history.append(store.entries) }
        self.attempted = []
        return store
    }

    private func expectAllowed(_ entries: [String: String]) {
        #expect(([self.model] + self.attempted).contains(entries))
    }
}

@Suite struct StateStoreTests {
    @Test func `commits are read back, removed entries are gone`() throws {
        let bench = try Bench()
        do {
            var store = try bench.open()
            try store.commit(["b": "2 and more", "a": "1", "c": ""])
            try store.commit(["b": nil, "a": "3"])
            try store.commit([:])
            #expect(store.entries == ["a": "3", "c": ""])
        }
        let again = try bench.open()
        #expect(again.entries == ["a": "3", "c": ""])
        let recovery = again.recovery
        #expect(
            recovery.entryCount == 2 && recovery.tornByteCount == 0 && recovery.damagedPaths.isEmpty
                && !recovery.isPrevious)
    }

    @Test func `the file is the text that its format says`() throws {
        let bench = try Bench()
        var store = try bench.open()
        try store.commit(["b": "2", "a": "x y"])
        try store.commit(["b": nil])
        let first = "+ a x y\n+ b 2\n"
        let second = "- b\n"
        let expected =
            "waybill-state 1\n" + first + "= 2 \(Hexadecimal.text(CRC32.checksum(of: first.utf8), digitCount: 8))\n"
            + second + "= 1 \(Hexadecimal.text(CRC32.checksum(of: second.utf8), digitCount: 8))\n"
        #expect(bench.disk.bytes(of: bench.path) == Array(expected.utf8))
    }

    @Test func `a file cut at any byte gives a state that once was`() throws {
        let (bytes, history) = try Self.history()
        var reached: Set<Int> = []
        for count in 0...bytes.count {
            let state = try Self.state(of: Array(bytes[..<count]))
            let index = try #require(history.firstIndex(of: state))
            reached.insert(index)
        }
        #expect(reached == Set(history.indices))
    }

    @Test func `a flipped bit in any byte gives a state that once was`() throws {
        let (bytes, history) = try Self.history()
        for index in bytes.indices {
            for bit in [0, 4, 7] {
                var damaged = bytes
                damaged[index] ^= 1 << bit
                let state = try Self.state(of: damaged)
                #expect(history.contains(state), "bit \(bit) of byte \(index)")
            }
        }
    }

    /// A log of six commits and the states between them.
    private static func history() throws -> (bytes: [UInt8], states: [[String: String]]) {
        let bench = try Bench()
        var store = try bench.open()
        for round in 0..<6 {
            try bench.commit(["k\(round)": "value \(round)", "k\(round - 2)": nil, "last": "\(round)"], to: &store)
        }
        return (try #require(bench.disk.bytes(of: bench.path)), bench.history)
    }

    private static func state(of bytes: [UInt8]) throws -> [String: String] {
        let bench = try Bench()
        bench.disk.place(bench.path, bytes)
        return try bench.open().entries
    }

    @Test func `a log that has grown is written anew, and the one before it serves when that is damaged`() throws {
        let bench = try Bench()
        var store = try bench.open()
        let value = String(repeating: "v", count: 1000)
        var rewriteCount = 0
        var last = 0
        for round in 0..<200 {
            try bench.commit(["key": value + "\(round)"], to: &store)
            let count = try #require(bench.disk.bytes(of: bench.path)).count
            if count < last { rewriteCount += 1 }
            last = count
            #expect(count <= (64 << 10) + 2000)
        }
        #expect(rewriteCount == 3)
        bench.disk.place(bench.path, Array("waybill-state 2\n".utf8))
        let again = try bench.open()
        #expect(bench.history.contains(again.entries) && !again.entries.isEmpty)
        #expect(again.recovery.isPrevious)
        #expect(again.recovery.damagedPaths == ["/state/x.state.damaged-1"])
        #expect(bench.disk.bytes(of: "/state/x.state.damaged-1") == Array("waybill-state 2\n".utf8))
    }

    @Test func `a commit that fails anywhere leaves the entries, and the next one holds`() throws {
        let faults: [FaultyFiles.Fault] = [
            .error(Errno.inputOutput), .half(Errno.noSpace), .half(Errno.inputOutput),
        ]
        // 0 begins a file, 1 appends, 2 rewrites a log that has grown too long for what it holds.
        for scenario in 0..<3 {
            for fault in faults {
                var callCount = 0
                while try self.failCommit(scenario: scenario, call: callCount + 1, fault) { callCount += 1 }
                #expect(callCount > 1)
            }
        }
    }

    /// - Returns: whether the fault struck.
    private func failCommit(scenario: Int, call: Int, _ fault: FaultyFiles.Fault) throws -> Bool {
        var hasFailed = false
        for seed in 0..<UInt64(8) {
            hasFailed = try self.failCommit(scenario: scenario, call: call, fault, crash: seed)
        }
        return hasFailed
    }

    private func failCommit(
        scenario: Int, call: Int, _ fault: FaultyFiles.Fault, crash seed: UInt64
    ) throws -> Bool {
        let bench = try Bench()
        var store = try bench.open()
        if scenario > 0 { try bench.commit(["a": "1", "b": "2"], to: &store) }
        if scenario == 2 {
            for letter in ["v", "w"] {
                try bench.commit(["long": String(repeating: letter, count: 40_000)], to: &store)
            }
        }
        let changes: [String: String?] =
            scenario == 2 ? ["long": nil, "a": nil] : ["c": "3", "a": nil]
        bench.disk.fail(call: call, fault)
        do {
            try bench.commit(changes, to: &store)
        } catch {
            #expect(store.entries == bench.model)
        }
        let hasFailed = bench.disk.faultCount > 0
        bench.disk.clearFaults()
        try bench.commit(["d": "4"], to: &store)
        try bench.commit(["e": "5"], to: &store)
        #expect(store.entries == bench.model)
        bench.disk.crash(seed: seed)
        store = try bench.recover()
        return hasFailed
    }

    @Test func `a death in the first commit is no damage`() throws {
        for call in 1...8 {
            let bench = try Bench()
            var store = try bench.open()
            bench.disk.stop(atCall: call)
            do { try bench.commit(["a": "1"], to: &store) } catch { #expect(bench.disk.isStopped) }
            bench.disk.kill()
            store = try bench.recover()
            let damagedPaths = store.recovery.damagedPaths
            #expect(damagedPaths == [])
            try bench.commit(["b": "2"], to: &store)
            #expect(bench.disk.tree("/state").keys.allSatisfy { !$0.hasSuffix(".tmp") })
        }
    }

    @Test func `after a failed commit, settling makes the disk hold what memory holds`() throws {
        for call in 1...6 {
            for seed in 0..<8 {
                let bench = try Bench()
                var store = try bench.open()
                try bench.commit(["a": "1"], to: &store)
                bench.disk.fail(call: call, .half(Errno.inputOutput))
                do { try bench.commit(["a": "2"], to: &store) } catch { #expect(store.entries == ["a": "1"]) }
                bench.disk.clearFaults()
                try store.settle()
                // Not even the state that was being committed may be found now.
                bench.attempted = []
                bench.disk.crash(seed: UInt64(seed))
                store = try bench.recover()
            }
        }
    }

    @Test func `what was read after the process died survives a power cut once it is settled`() throws {
        for seed in 0..<20 {
            for call in 1...10 {
                let bench = try Bench()
                var store = try bench.open()
                try bench.commit(["a": "1"], to: &store)
                store = try bench.open()
                bench.disk.stop(atCall: call)
                do { try bench.commit(["a": "2"], to: &store) } catch { #expect(bench.disk.isStopped) }
                bench.disk.kill()
                store = try bench.recover()
                bench.disk.crash(seed: UInt64(seed))
                store = try bench.recover()
            }
        }
    }

    @Test(arguments: 0..<UInt64(120))
    func `it is a dictionary that survives errors and crashes`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let bench = try Bench()
        var store = try bench.open()
        bench.disk.failAtRandom(seed: seed, perMille: seed % 3 == 0 ? 0 : 60)
        for step in 0..<60 {
            var changes: [String: String?] = [:]
            for _ in 0..<Int.random(in: 0...4, using: &generator) {
                let key = "k\(Int.random(in: 0..<12, using: &generator))"
                let byteCount = Int.random(in: 0..<20, using: &generator) == 0 ? 30_000 : 8
                let value = String(repeating: "x", count: byteCount) + "\(step)"
                changes[key] = .some(Bool.random(using: &generator) ? value : nil)
            }
            if Int.random(in: 0..<6, using: &generator) == 0 {
                bench.disk.stop(atCall: Int.random(in: 1...12, using: &generator))
            }
            do { try bench.commit(changes, to: &store) } catch { #expect(store.entries == bench.model) }
            #expect(store.entries == bench.model)
            if bench.disk.isStopped || Int.random(in: 0..<10, using: &generator) == 0 {
                let isKilled = Bool.random(using: &generator)
                if isKilled { bench.disk.kill() } else { bench.disk.crash(seed: generator.next()) }
                store = try bench.recover(crashing: Bool.random(using: &generator) ? generator.next() : nil)
                bench.disk.failAtRandom(seed: generator.next(), perMille: 60)
            }
        }
    }

    @Test func `no descriptor is left behind`() throws {
        let bench = try Bench()
        do {
            var store = try bench.open()
            for round in 0..<20 {
                if round % 3 == 1 { bench.disk.fail(call: 1 + round % 4, .error(Errno.inputOutput)) }
                do { try bench.commit(["a": "\(round)"], to: &store) } catch { #expect(store.entries == bench.model) }
            }
        }
        #expect(bench.disk.memory.openDescriptorCount == 0)
    }
}
