import Testing
import WaybillFleet
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@Suite struct ErasureRequestTests {
    private static let key = [UInt8](repeating: 7, count: 32)
    private static let noon = WallTime(milliseconds: 1_795_165_200_000)

    @Test(arguments: ["u-4711", "장바구니", "a \"quoted\" \\ id", "\u{0}", String(repeating: "x", count: 5000)])
    func `a request is read as it is written`(id: String) {
        for kind in [ErasureRequest.Kind.user, .anon] {
            let request = ErasureRequest(number: 12, kind, .id(id), time: Self.noon, key: Self.key)
            #expect(ErasureRequest(request.encoded, number: 12) == request)
            #expect(ErasureRequest(request.encoded, number: 13) == nil)
        }
    }

    /// The example of `Protocol/formats/fleet.md`.
    @Test func `a request has the bytes of the page`() {
        let request = ErasureRequest(number: 1, .user, .id("u-4711"), time: Self.noon, key: Array(0..<32))
        let text = String(decoding: request.encoded, as: UTF8.self)
        let key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
        #expect(
            text.hasPrefix(
                "{\"erasure\":1,\"kind\":\"user\",\"id\":\"u-4711\",\"time\":1795165200000,\"key\":\"\(key)\",\"crc32\":\""
            ))
        #expect(ErasureRequest.key(of: 1) == "erasures/00000000000000000001.json")
    }

    @Test func `a request may have the digest in place of the id`() {
        let request = ErasureRequest(
            number: 3, .anon, .digest(String(repeating: "a", count: 64), mark: 17), time: Self.noon, key: Self.key)
        #expect(ErasureRequest(request.encoded, number: 3) == request)
        #expect(!String(decoding: request.encoded, as: UTF8.self).contains("\"id\""))
    }

    @Test func `a damaged request is none`() {
        let bytes = ErasureRequest(number: 1, .user, .id("u"), time: Self.noon, key: Self.key).encoded
        for index in bytes.indices {
            var damaged = bytes
            damaged[index] ^= 0x01
            #expect(ErasureRequest(damaged, number: 1) == nil, "byte \(index)")
            #expect(ErasureRequest(Array(bytes.prefix(index)), number: 1) == nil, "cut at \(index)")
        }
    }

    private static func ask(
        _ id: String, _ store: MemoryStore, key: UInt8 = 7
    ) throws(StoreError) -> (request: ErasureRequest, isRepeated: Bool) {
        try ErasureRequest.ask(
            .user, id: id, now: Self.noon, newKey: [UInt8](repeating: key, count: 32), in: store
        ) { $0.kind == .user && $0.person == .id(id) }
    }

    @Test func `numbers count up, the first key stays, and no one is asked for twice`() throws {
        let store = MemoryStore()
        #expect(try Self.ask("a", store, key: 1).request.number == 1)
        let second = try Self.ask("b", store, key: 2)
        #expect(second.request.number == 2)
        #expect(second.request.key == [UInt8](repeating: 1, count: 32))
        let again = try Self.ask("a", store, key: 3)
        #expect(again.request.number == 1)
        #expect(again.isRepeated)
        #expect(store.objects.count == 2)
    }

    @Test func `two who ask at the same time get two numbers and one key`() throws {
        let store = MemoryStore()
        let other = ErasureRequest(number: 1, .user, .id("b"), time: Self.noon, key: [UInt8](repeating: 9, count: 32))
        // The own write arrives when the other one's is there.
        store.setFaults { $0.verb == .create ? .late : nil }
        #expect(throws: StoreError.self) { try Self.ask("a", store) }
        store.place(ErasureRequest.key(of: 1), other.encoded)
        store.setFaults(nil)
        store.deliverLate()
        #expect(store.objects[ErasureRequest.key(of: 1)] == other.encoded)
        let asked = try Self.ask("a", store)
        #expect(asked.request.number == 2)
        #expect(asked.request.key == other.key)
        #expect(!asked.isRepeated)
    }

    @Test func `a lost answer asks for no one twice`() throws {
        let store = MemoryStore()
        store.setFaults { $0.verb == .create ? .unanswered : nil }
        #expect(throws: StoreError.self) { try Self.ask("a", store) }
        store.setFaults(nil)
        let asked = try Self.ask("a", store)
        #expect(asked.request.number == 1)
        #expect(asked.isRepeated)
        #expect(store.objects.count == 1)
    }

    // MARK: Rounds

    private static func merger(
        _ name: String, _ files: FaultyFiles, _ store: MemoryStore
    ) throws -> Merger<FaultyFiles> {
        try files.createDirectories("/\(name)/journal")
        try files.createDirectories("/\(name)/state")
        var setup = Merger<FaultyFiles>.Setup(
            name: name, fleet: Incarnation(1, 2), journalDirectory: "/\(name)/journal",
            statePath: "/\(name)/state/merge.state")
        setup.discoveryInterval = .zero
        return try Merger(setup, files: files, store: store)
    }

    private static func run(_ merger: inout Merger<FaultyFiles>) throws {
        while try merger.step(now: Self.noon, MonotonicTime(nanoseconds: 0)) != .idle {}
    }

    @Test func `a round names the erasures that apply, and every merger has them at one place`() throws {
        let store = MemoryStore()
        let files = FaultyFiles()
        var first = try Self.merger("m1", files, store)
        try Self.run(&first)
        #expect(first.round == 0)
        _ = try Self.ask("a", store)
        _ = try Self.ask("b", store)
        try Self.run(&first)
        #expect(first.round == 1)
        #expect(first.erasures.pending.map(\.number) == [1, 2])
        _ = try Self.ask("c", store)
        var second = try Self.merger("m2", files, store)
        try Self.run(&second)
        try Self.run(&first)
        #expect(second.round == 2)
        #expect(first.erasures == second.erasures)
        #expect(try first.request(of: try #require(first.erasures.pending.last)).person == .id("c"))

        // A restart keeps what is pending, what is not any more, and where that was.
        let applied = try #require(first.erasures.pending.first)
        #expect(first.erasures.appliedPosition == nil)
        try first.erased(applied)
        first = try Self.merger("m1", files, store)
        #expect(first.erasures.pending.map(\.number) == [2, 3])
        #expect(first.erasures.count == 3)
        #expect(first.erasures.appliedPosition == applied.position)
        // One that begins behind them without a record applies them again.
        try first.erased(try #require(first.erasures.pending.first))
        try first.repeatErasures()
        #expect(first.erasures.pending.map(\.number) == [1, 2, 3])
        let repeated = first.erasures
        first = try Self.merger("m1", files, store)
        #expect(first.erasures == repeated)
        var joined = try Self.merger("m3", files, store)
        try Self.run(&joined)
        #expect(joined.erasures == second.erasures)
    }

    @Test func `a request that is gone or damaged is named by no round, and one that is named is waited for`() throws {
        let store = MemoryStore()
        let files = FaultyFiles()
        store.place(ErasureRequest.key(of: 1), Array("{}".utf8))
        var merger = try Self.merger("m1", files, store)
        try Self.run(&merger)
        #expect(merger.round == 0)
        store.place(ErasureRequest.key(of: 1), nil)
        _ = try Self.ask("a", store)
        try Self.run(&merger)
        let pending = try #require(merger.erasures.pending.first)
        store.place(ErasureRequest.key(of: 1), nil)
        do throws(MergeFailure) {
            _ = try merger.request(of: pending)
            Issue.record("it was read")
        } catch {
            if case .erasure(1) = error {} else { Issue.record("\(error)") }
            #expect(error.isPassing)
        }
    }

    @Test func `a request with another key is named by no round`() throws {
        let store = MemoryStore()
        let files = FaultyFiles()
        _ = try Self.ask("a", store)
        let other = ErasureRequest(number: 2, .user, .id("b"), time: Self.noon, key: [UInt8](repeating: 9, count: 32))
        store.place(ErasureRequest.key(of: 2), other.encoded)
        var merger = try Self.merger("m1", files, store)
        try Self.run(&merger)
        #expect(merger.erasures.count == 1)
        try Self.run(&merger)
        #expect(merger.erasures.count == 1)
        store.place(ErasureRequest.key(of: 2), nil)
        _ = try Self.ask("b", store)
        try Self.run(&merger)
        #expect(merger.erasures.count == 2)
    }

    @Test func `a round without erasures reads as before`() throws {
        var round = MergeRound(number: 4, merger: "m", time: Self.noon, through: Self.noon, pieces: [])
        #expect(!String(decoding: round.encoded, as: UTF8.self).contains("erasures"))
        #expect(MergeRound(round.encoded, number: 4) == round)
        round.erasures = 3
        #expect(MergeRound(round.encoded, number: 4)?.erasures == 3)
    }
}
