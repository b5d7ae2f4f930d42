import Testing
import WaybillSystem
import WaybillTail
import WaybillTestSupport

struct TailRegistryTests {
    let files = FaultyFiles()

    /// A registry as it is after some work, and what the receiver holds then.
    private func worked() throws -> (registry: [UInt8], bench: TailBench<FaultyFiles>) {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        files.append("/log/b b%.log", "uno\n")
        bench.run()
        try bench.checkpoint()
        files.append("/log/a.log", "two\n")
        files.rewrite("/log/b b%.log", "")
        bench.run()
        files.append("/log/b b%.log", "dos dos\n")
        bench.run()
        try bench.checkpoint()
        bench.kill()
        return (try #require(files.bytes(of: "/state/registry")), bench)
    }

    @Test
    func `a registry cut at any byte repeats and loses nothing`() throws {
        let (registry, bench) = try worked()
        let texts = bench.texts
        #expect(texts == ["one\ntwo\n", "uno\n", "dos dos\n"])
        for count in 0...registry.count {
            files.remove("/state/registry.previous")
            files.remove("/state/registry")
            files.append("/state/registry", registry.prefix(count))
            try bench.start()
            bench.run()
            #expect(bench.texts == texts, "cut to \(count)")
            bench.kill()
        }
    }

    @Test
    func `a registry with any byte spoilt repeats and loses nothing`() throws {
        let (registry, bench) = try worked()
        let texts = bench.texts
        for index in registry.indices {
            var bytes = registry
            bytes[index] ^= 1 << UInt8(index % 8)
            files.remove("/state/registry.previous")
            files.remove("/state/registry")
            files.append("/state/registry", bytes)
            try bench.start()
            bench.run()
            #expect(bench.texts == texts, "spoilt at \(index)")
            bench.kill()
        }
    }

    @Test
    func `entries that make no sense are named and dropped`() throws {
        let good =
            "v=1 kind=foreign source=app device=fe01 inode=99 birth=5 head=4 fingerprint=00000000000000aa incarnation=0"
            + " size=4 modified=7 state=open held=1:0:4:- path=/log/x%20y.log"
        let bad = [
            "", "v=2", good + " size=4", good.replacing("size=4", with: "size=-4"),
            good.replacing("held=1:0:4:-", with: "held=1:0:4"), good.replacing("held=1:0:4:-", with: "held=0:0:4:-"),
            good.replacing("held=1:0:4:-", with: "held=1:0:4:0"), good.replacing("4:-", with: "4:-,1:0:4:-"),
            good.replacing("head=4", with: "head=4097"), good.replacing("path=", with: "way="),
            good.replacing("%20", with: "%2"), good.replacing("size=4", with: "size=9007199254740992"),
        ]
        try files.createDirectory("/state")
        var registry = try StateStore(path: "/state/registry", files: files)
        var changes: [String: String?] = ["good": good]
        for (index, text) in bad.enumerated() { changes["bad-\(index)"] = text }
        try registry.commit(changes)
        let bench = try TailBench(files)
        let recovery = bench.withTail { $0.recovery }
        #expect(recovery == TailRecovery(entryCount: 1, unreadableKeys: bad.indices.map { "bad-\($0)" }.sorted()))
        try bench.checkpoint()
        bench.kill()
        // Not as a temporary inside the macro: Swift 6.3.1 then destroys the store before its entries are compared.
        registry = try StateStore(path: "/state/registry", files: files)
        #expect(registry.entries == ["good": good])
    }

    @Test
    func `the registry is never ahead of the acknowledgement`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\ntwo\nthree\n")
        bench.scan()
        bench.ship(readCountMax: 2, byteCountMax: 4)
        try bench.checkpoint()
        let written = try StateStore(path: "/state/registry", files: files)
        let entries = written.entries
        #expect(entries.count == 2)
        #expect(entries["@1"]?.contains(" end=4 ") == true)
        #expect(entries[bench.order[0]]?.contains(" held=1:0:4:") == true)
    }

    @Test
    func `a registry that could not be written is written anew with what changed meanwhile`() throws {
        var failedCount = 0
        for call in 1...8 {
            let files = FaultyFiles()
            let bench = try TailBench(files)
            files.append("/log/a.log", "one\n")
            bench.run()
            try bench.checkpoint()
            // So much that the log is written anew.
            files.append("/log/b.log", "uno\n")
            for number in 0..<400 {
                files.append("/log/a.log", "line \(number)\n")
                bench.run()
                if number < 399 { try bench.checkpoint() }
            }
            files.fail(call: call, .error(Errno.inputOutput))
            do { try bench.checkpoint() } catch { failedCount += 1 }
            files.append("/log/b.log", "dos\n")
            bench.run()
            try bench.checkpoint()
            bench.kill()
            let written = try StateStore(path: bench.registryPath, files: files)
            let entries = written.entries.values.sorted()
            let byteCount = try #require(files.bytes(of: "/log/a.log")).count
            #expect(entries.count == 3)
            #expect(entries.contains { $0.contains(" held=1:0:\(byteCount):") && $0.hasSuffix("/log/a.log") })
            #expect(entries.contains { $0.contains(" held=1:0:8:") && $0.hasSuffix("/log/b.log") })
        }
        #expect(failedCount > 0)
    }

    @Test
    func `what is registered as it stands is not written again`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        try bench.checkpoint()
        let written = files.bytes(of: "/state/registry")
        bench.files.append("/log/a.log", "")
        bench.run()
        try bench.checkpoint()
        #expect(files.bytes(of: "/state/registry") == written)
    }

    @Test
    func `a hundred thousand short-lived files leave nothing behind`() throws {
        let bench = try TailBench(files)
        for round in 0..<1000 {
            for number in 0..<100 { files.append("/log/\(number).log", "round \(round)\n") }
            bench.scan()
            bench.ship()
            for number in 0..<100 { files.remove("/log/\(number).log") }
            bench.scan()
            bench.advance(11_000)
            bench.scan()
            bench.ship()
            if round % 100 == 0 { try bench.checkpoint() }
        }
        try bench.checkpoint()
        #expect(bench.received.count == 100_000)
        #expect(bench.sealed.count == 100_000)
        #expect(bench.withTail { $0.fileCount } == 0)
        bench.kill()
        let left = try StateStore(path: "/state/registry", files: files)
        #expect(Set(left.entries.keys) == ["@1"])
    }

    @Test
    func `a source taken out of the configuration keeps its position`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        try bench.checkpoint()
        bench.kill()
        let other = SourceConfiguration(name: "other", kind: .files(patterns: ["/other/*"]))
        let without = try TailBench(files, sources: [other])
        without.receiver = bench.receiver
        without.settle()
        try without.checkpoint()
        #expect(without.order == [])
        without.kill()
        try bench.start()
        bench.scan()
        #expect(bench.ship() == 0)
    }
}
