import Testing
import WaybillFleet
import WaybillSystem
import WaybillTestSupport

@Suite struct StoreProbeTests {
    private static func probe(_ store: MemoryStore) -> StoreProbe {
        var probe = StoreProbe(store, clock: POSIXClock(), id: "0123")
        probe.run { count, body in
            for number in 0..<count { body(number) }
        }
        return probe
    }

    @Test func `a store that keeps its word passes, and the probe leaves nothing`() {
        let store = MemoryStore()
        let probe = Self.probe(store)
        #expect(probe.failure == nil)
        #expect(
            probe.findings.map(\.name)
                == ["write", "one after the other", "8 at once", "read", "list", "clock", "delete"])
        #expect(probe.writeTimes.count == StoreProbe.racerCount)
        #expect(store.objects.isEmpty)
    }

    @Test func `a store that overwrites is unsafe, whatever else it cannot do`() {
        let store = MemoryStore()
        store.setFaults { call in
            call.verb == .create ? .overwritten : call.verb == .list ? .refused(.forbidden) : nil
        }
        #expect(Self.probe(store).failure?.kind == .unsafe)
    }

    @Test func `two winners of a race are unsafe, also when one after the other is refused`() {
        let store = MemoryStore()
        // The third racer overwrites.
        store.setFaults { $0.verb == .create && $0.key.hasSuffix("race") && $0.number % 3 == 0 ? .overwritten : nil }
        #expect(Self.probe(store).failure?.kind == .unsafe)
    }

    @Test(arguments: [StoreError.Kind.forbidden, .credentials, .noBucket, .unreachable])
    func `what the first write fails with is the result, and nothing more is tried`(kind: StoreError.Kind) {
        let store = MemoryStore()
        store.setFaults { _ in .refused(kind) }
        let probe = Self.probe(store)
        #expect(probe.failure?.kind == kind)
        #expect(store.callCount == 1)
    }

    @Test func `each right that is missing is named; without delete it is a note`() {
        for (verb, name) in [(MemoryStore.Verb.list, "list"), (.read, "one after the other"), (.status, "clock")] {
            let store = MemoryStore()
            store.setFaults { $0.verb == verb ? .refused(.forbidden) : nil }
            #expect(Self.probe(store).failure?.kind == .forbidden, "\(name)")
        }
        let store = MemoryStore()
        store.setFaults { $0.verb == .delete ? .refused(.forbidden) : nil }
        let probe = Self.probe(store)
        #expect(probe.failure == nil)
        #expect(probe.findings.last?.outcome == .warned)
    }
}

@Suite struct FleetFileTests {
    private static let random = [UInt8](repeating: 0xAB, count: 16)

    @Test func `the first caller names the fleet, and all agree`() throws {
        let store = MemoryStore()
        #expect(try FleetFile.read(from: store) == nil)
        let first = try FleetFile.create(in: store, random: Self.random)
        #expect(first.isNew)
        #expect(first.file.fleet == String(repeating: "ab", count: 16))
        let second = try FleetFile.create(in: store, random: [UInt8](repeating: 1, count: 16))
        #expect(!second.isNew)
        #expect(second.file == first.file)
        #expect(
            store.objects["fleet-00001.json"].map { String(decoding: $0, as: UTF8.self) } == """
                {"fleet":"\(first.file.fleet)","level":"stored","shards":1,"seal_seconds":300}

                """)
    }

    @Test func `the highest number counts, and other names do not`() throws {
        let store = MemoryStore()
        let text = { (digit: String) in
            Array("{\"fleet\":\"\(String(repeating: digit, count: 32))\",\"level\":\"stored\",\"shards\":1}".utf8)
        }
        store.place("fleet-00002.json", text("2"))
        store.place("fleet-00010.json", text("a"))
        store.place("fleet-9.json", text("9"))
        store.place("fleet-000011.json", text("b"))
        let file = try FleetFile.read(from: store)
        #expect(file?.number == 10)
        #expect(file?.fleet == String(repeating: "a", count: 32))
    }

    @Test(arguments: ["", "{}", "{\"fleet\":\"x\"}", "[1]"])
    func `a damaged file is an error`(text: String) {
        let store = MemoryStore()
        store.place("fleet-00001.json", Array(text.utf8))
        #expect { try FleetFile.read(from: store) } throws: { ($0 as? StoreError)?.kind == .damaged }
    }

    @Test func `a level or shards of a later version are refused`() {
        let store = MemoryStore()
        let fleet = String(repeating: "a", count: 32)
        store.place("fleet-00001.json", Array("{\"fleet\":\"\(fleet)\",\"level\":\"durable\",\"shards\":1}".utf8))
        #expect { try FleetFile.read(from: store) } throws: { ($0 as? StoreError)?.kind == .notAllowedHere }
    }
}
