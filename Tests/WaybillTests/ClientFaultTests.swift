import Glibc
import Testing
import WaybillEvent
import WaybillSystem
import WaybillTestSupport
import WaybillTesting

@testable import Waybill

private typealias Fault = FaultyFiles.Fault

/// What a run on a faulty disk promised.
private struct Run {
    /// Names of the events that are on disk, or to be there as soon as it works.
    var promised: [String] = []
    var droppedCount: UInt64 = 0
    var lines: [String] = []
}

/// 30 events with long silences between, a reset and a synchronization; then, on a sound disk, one more.
private func run(on disk: FaultyFiles) throws -> Run {
    var run = Run()
    let client: Client
    do {
        client = try Client(on: disk)
    } catch {
        #expect(Bool(false), "a start failed on a disk that may recover: \(error)")
        return run
    }
    for index in 0..<30 {
        client.clock.advance(milliseconds: index % 10 == 9 ? 1_900_000 : 100)
        let outcome = client.track("e\(index)") { $0.put("x", String(repeating: "x", count: 100 * index)) }
        if case .dropped = outcome {} else { run.promised.append("\"e\(index)\"") }
        do throws(WaybillError) {
            if index == 12 { try client.core.synchronize() }
            if index == 20 { try client.core.reset() }
        } catch {
            #expect([.diskFull, .diskError].contains(error.code))
        }
    }
    disk.clearFaults()
    guard case .stored = client.track("last") else {
        #expect(Bool(false), "a sound disk stores")
        return run
    }
    run.promised.append("\"last\"")
    run.droppedCount = client.core.counters.droppedCount
    run.lines = client.lines
    return run
}

/// Stored or held is stored at last, once, in order; sequence numbers have no gap; what is missing is told of.
private func check(_ run: Run, _ comment: Comment) {
    let found = run.lines.map { member("name", of: $0) }
    #expect(found.filter { $0 != "\"wb.dropped\"" } == run.promised, comment)
    #expect(run.lines.map { member("seq", of: $0) } == run.lines.indices.map { "\($0 + 1)" }, comment)
    let told = run.lines.filter { $0.contains("\"wb.dropped\"") }.compactMap { UInt64(member("count", of: $0)) }
    #expect(told.reduce(0, +) == run.droppedCount, comment)
    #expect(run.lines.allSatisfy { $0.hasPrefix("{\"v\":1,\"id\":\"") && $0.hasSuffix("}\n") }, comment)
}

@Test(arguments: [
    Fault.short, .error(Errno.noSpace), .error(Errno.inputOutput),
    .short(thenError: Errno.noSpace), .half(Errno.inputOutput),
])
private func `a fault at any one call of a client is survived and told of`(fault: Fault) throws {
    let sound = FaultyFiles()
    check(try run(on: sound), "no fault")
    for faulty in 0..<sound.callCount {
        let disk = FaultyFiles()
        disk.setFaults { $0.number == faulty ? fault : nil }
        check(try run(on: disk), "\(fault) at call \(faulty)")
    }
}

@Test(arguments: 0..<UInt64(100))
func `a client on a disk that fails at random tells of every drop`(seed: UInt64) throws {
    let disk = FaultyFiles()
    var generator = SeededGenerator(seed: seed)
    disk.setFaults { _ in
        guard generator.next() % [2, 5, 20][Int(seed % 3)] == 0 else { return nil }
        let faults: [Fault] = [
            .short, .error(Errno.noSpace), .short(thenError: Errno.noSpace),
            .short(thenError: Errno.inputOutput), .half(Errno.inputOutput),
        ]
        return faults[Int(generator.next() % 5)]
    }
    check(try run(on: disk), "seed \(seed)")
}

/// Runs `body` on its own thread for each of `indices` and waits for all.
private func onThreads(_ indices: Range<Int>, _ body: @escaping @Sendable (Int) -> Void) {
    final class Work: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }
    let threads = indices.map { index in
        var thread = pthread_t()
        let work = Unmanaged.passRetained(Work { body(index) })
        let code = pthread_create(
            &thread, nil,
            { argument in
                Unmanaged<Work>.fromOpaque(argument!).takeRetainedValue().run()
                return nil
            }, work.toOpaque())
        precondition(code == 0, "pthread_create: \(code)")
        return thread
    }
    for thread in threads { pthread_join(thread, nil) }
}

@Test func `four threads of 10 000 events store each once, whole and in sequence`() throws {
    let client = try Client()
    onThreads(0..<4) { thread in
        for index in 0..<10_000 {
            let outcome = client.track("e\(thread)-\(index)") { $0.put("i", index) }
            if case .dropped(let drop) = outcome { Issue.record("\(drop)") }
            if index % 2500 == 0 { try? client.core.synchronize() }
        }
    }
    let lines = client.lines
    #expect(lines.map { member("seq", of: $0) } == (1...40_000).map { "\($0)" })
    #expect(lines.allSatisfy { $0.hasPrefix("{\"v\":1,") && $0.hasSuffix("}\n") })
    let names = lines.map { member("name", of: $0) }
    for thread in 0..<4 {
        // Of one thread, events are in the order of its calls.
        #expect(names.filter { $0.hasPrefix("\"e\(thread)-") } == (0..<10_000).map { "\"e\(thread)-\($0)\"" })
    }
    #expect(Set(lines.map { member("id", of: $0) }).count == 40_000)
}

@Test func `drops that the app did not request are reported by reason, once`() {
    var drops = UnreportedDrops()
    for reason in [.optedOut, .sampled, .filtered, .purged, .disabled] as [DropReason] { drops.count(reason) }
    #expect(drops.isEmpty)
    for reason in [.unanswered, .invalid, .tooLarge, .invalid] as [DropReason] { drops.count(reason) }
    #expect(!drops.isEmpty)
    var fields = Fields()
    drops.put(to: &fields)
    #expect(text(fields) == #""count":4,"invalid":2,"too_large":1,"unanswered":1"#)
    drops.removeAll()
    #expect(drops.isEmpty)
    drops.count(.diskFull)
    var later = Fields()
    drops.put(to: &later)
    #expect(text(later) == #""count":1,"disk_full":1"#)
}

private func text(_ fields: borrowing Fields) -> String {
    String(decoding: fields.buffer.bytes, as: UTF8.self)
}
