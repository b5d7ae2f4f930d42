import Testing
import Waybill
import WaybillEvent
import WaybillSystem
import WaybillTestSupport

/// Runs `body` on so many threads and waits for all.
private func onThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
    let workers = (0..<count).map { thread in Worker(name: "tracker") { body(thread) } }
    for worker in workers { worker.join() }
}

/// What each event's caller was told, by the event's name.
private final class Outcomes: Sendable {
    private let all = Lock<[String: TrackOutcome]>([:])

    var byName: [String: TrackOutcome] { self.all.withLock { $0 } }

    func add(_ name: String, _ outcome: TrackOutcome) {
        self.all.withLock { $0[name] = outcome }
    }

    /// Events that were told to be stored, and were not there.
    let missing = Lock<[String]>([])
}

private func names(_ lines: [String]) -> [String] {
    lines.map { member("name", of: $0).filter { $0 != "\"" } }
}

@Test(arguments: [1 << 20, 4096])
func `calls on several threads are each told their own number`(segmentByteCountMax: Int) throws {
    let client = try Client(segmentByteCountMax: segmentByteCountMax)
    let outcomes = Outcomes()
    onThreads(6) { thread in
        for index in 0..<300 {
            let name = "e\(thread)-\(index)"
            outcomes.add(name, client.track(name) { $0.put("text", String(repeating: "x", count: index)) })
        }
    }
    let lines = client.lines
    #expect(lines.map { member("seq", of: $0) } == (1...1800).map { "\($0)" })
    #expect(lines.allSatisfy { $0.hasPrefix("{\"v\":1,") && $0.hasSuffix("}\n") })
    let expected = names(lines).enumerated().map { ($1, TrackOutcome.stored(seq: UInt64($0 + 1))) }
    #expect(outcomes.byName == Dictionary(uniqueKeysWithValues: expected))
    for thread in 0..<6 {
        let own = names(lines).filter { $0.hasPrefix("e\(thread)-") }
        #expect(own == (0..<300).map { "e\(thread)-\($0)" })
    }
}

@Test(arguments: 0..<UInt64(10))
func `on a failing disk, calls on several threads are each told the outcome of their own line`(seed: UInt64) throws {
    let client = try Client(seed: seed, segmentByteCountMax: 8192)
    let outcomes = Outcomes()
    var generator = SeededGenerator(seed: seed)
    client.disk.setFaults { _ in
        guard generator.next() % 4 == 0 else { return nil }
        let faults: [FaultyFiles.Fault] = [
            .short, .error(Errno.noSpace), .short(thenError: Errno.noSpace),
            .short(thenError: Errno.inputOutput), .error(Errno.inputOutput),
        ]
        return faults[Int(generator.next() % 5)]
    }
    onThreads(6) { thread in
        for index in 0..<40 {
            let name = "e\(thread)-\(index)"
            let outcome = client.track(name)
            outcomes.add(name, outcome)
            guard case .stored(let sequence) = outcome else { continue }
            // It is there when the call has returned.
            let line = client.lines.first { member("name", of: $0) == "\"\(name)\"" }
            if line.map({ member("seq", of: $0) }) != "\(sequence)" { outcomes.missing.withLock { $0.append(name) } }
        }
    }
    client.disk.clearFaults()
    try client.core.synchronize()
    #expect(outcomes.missing.withLock { $0 } == [])
    let lines = client.lines
    #expect(lines.map { member("seq", of: $0) } == (1...240).map { "\($0)" })
    #expect(names(lines).sorted() == outcomes.byName.keys.sorted())
    #expect(outcomes.byName.values.allSatisfy { if case .dropped = $0 { false } else { true } })
    #expect(client.core.counters.stored == 240)
}

@Test func `of calls on several threads, one that is dropped leaves the others alone`() throws {
    let client = try Client()
    let outcomes = Outcomes()
    onThreads(6) { thread in
        for index in 0..<50 {
            let name = "e\(thread)-\(index)"
            let outcome = client.track(thread == 0 ? "" : name) { fields in
                if thread == 1 { fields.put("text", String(repeating: "x", count: 40_000)) }
                if thread == 2 { fields.put("text", String(repeating: "x", count: 30_000)) }
            }
            outcomes.add(name, outcome)
        }
    }
    client.track("last")
    let lines = client.lines
    #expect(lines.map { member("seq", of: $0) } == (1...UInt64(lines.count)).map { "\($0)" })
    for (name, outcome) in outcomes.byName {
        switch name.dropFirst().first {
        case "0": #expect(outcome == .dropped(.invalid))
        case "1": #expect(outcome == .dropped(.tooLarge))
        default:
            let index = lines.firstIndex { member("name", of: $0) == "\"\(name)\"" } ?? -1
            #expect(outcome == .stored(seq: UInt64(index + 1)))
        }
    }
    let told = lines.filter { member("name", of: $0) == "\"wb.dropped\"" }.compactMap { Int(member("count", of: $0)) }
    #expect(told.reduce(0, +) == 100)
}

@Test func `more calls at the same time than have a place are stored too`() throws {
    let client = try Client()
    onThreads(40) { thread in
        for index in 0..<20 { client.track("e\(thread)-\(index)") }
    }
    #expect(client.lines.map { member("seq", of: $0) } == (1...800).map { "\($0)" })
    #expect(Set(names(client.lines)).count == 800)
}

@Test func `a reset reaches every place of a call`() throws {
    let client = try Client()
    let hash = { (client: Client) in
        onThreads(8) { _ in client.track("e") { $0.put("mail", private: "a@example.com") } }
        return Set(client.members("mail"))
    }
    let before = hash(client)
    #expect(before.count == 1)
    try client.core.reset()
    #expect(hash(client).count == 2)
}
