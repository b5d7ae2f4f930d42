import Testing
import Waybill
import WaybillAgent
import WaybillDispatch
import WaybillServerTestSupport
import WaybillSystem

private func names(_ range: Range<Int>) -> [String] { range.map { "e\($0)" } }

@Test func `a round by hand delivers what is there, and says how much`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    let dispatcher = try place.dispatcher()
    for name in names(0..<10) { waybill.track(name) }
    let results = try await place.receiving {
        let first = await dispatcher.flush()
        let second = await dispatcher.flush()
        for name in names(10..<15) { waybill.track(name) }
        return [first, second, await dispatcher.flush()]
    }
    #expect(results == [.delivered(10, remaining: 0), .nothingToSend, .delivered(5, remaining: 0)])
    #expect(try place.archivedNames() == names(0..<15))
}

@Test func `a spool's path may have characters that mean something in patterns`() async throws {
    let place = try Place()
    let spool = "\(place.path)/sp[o]ol*/x?"
    let waybill = try WaybillClient(
        WaybillClient.Configuration(
            spool: spool, environment: .prod, bundle: "com.example.shop", version: "1", build: "1"))
    waybill.track("e0")
    let dispatcher = try Dispatcher(
        Dispatcher.Configuration(
            spool: spool, receivers: ["127.0.0.1:\(place.port)"], mode: .manual, security: .plain))
    #expect(
        try await place.receiving { await dispatcher.drain(until: .now + .seconds(86_400)) }
            == .delivered(1, remaining: 0)
    )
}

@Test func `without a receiver a round fails and keeps everything for the next, also after a restart`() async throws {
    let place = try Place()
    do {
        let waybill = try place.waybill()
        for name in names(0..<10) { waybill.track(name) }
        let dispatcher = try place.dispatcher(patience: .milliseconds(50))
        guard case .failed(let failure) = await dispatcher.flush() else {
            Issue.record("delivered to no one")
            return
        }
        #expect([failure.deliveredCount, failure.remainingCount] == [0, 10])
        #expect(failure.code == .unreachable)
    }
    let waybill = try place.waybill()
    waybill.track("e10")
    let dispatcher = try place.dispatcher()
    let result = try await place.receiving { await dispatcher.flush() }
    #expect(result == .delivered(11, remaining: 0))
    #expect(try place.archivedNames().sorted() == names(0..<11).sorted())
    // Segments of processes that have ended are gone from the spool.
    #expect(try waybill.usage().unacknowledgedCount == 1)
}

@Test func `a dispatcher works by itself once in an interval`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    for name in names(0..<3) { waybill.track(name) }
    let (results, continuation) = AsyncStream.makeStream(of: DispatchResult.self)
    let seen = try await place.receiving {
        let dispatcher = try place.dispatcher(mode: .every(.milliseconds(5))) { continuation.yield($0) }
        var seen: [DispatchResult] = []
        var deliveredCount = 0
        for await result in results {
            seen.append(result)
            if case .delivered(let count, _) = result { deliveredCount += count }
            if deliveredCount == 3, seen.last == .nothingToSend { waybill.track("e3") }
            if deliveredCount == 4 { break }
        }
        await dispatcher.stop()
        return seen
    }
    #expect(seen.first == .delivered(3, remaining: 0))
    #expect(seen.contains(.nothingToSend))
    #expect(try place.archivedNames() == names(0..<4))
}

@Test(arguments: [Dispatcher.Mode.manual, .every(.zero), .every(.seconds(-1))])
func `a dispatcher that is told to wait waits`(mode: Dispatcher.Mode) async throws {
    let place = try Place()
    let waybill = try place.waybill()
    waybill.track("e0")
    let ownRounds = Lock(0)
    let count = try await place.receiving {
        let dispatcher = try place.dispatcher(mode: mode) { _ in ownRounds.withLock { $0 += 1 } }
        #expect(await dispatcher.flush() == .delivered(1, remaining: 0))
        await dispatcher.stop()
        return ownRounds.withLock { $0 }
    }
    #expect(count == 0)
}

@Test func `a drain continues until nothing is left`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    let dispatcher = try place.dispatcher()
    let result = try await place.receiving {
        let tracking = Task { for name in names(0..<2000) { waybill.track(name) } }
        _ = await dispatcher.drain(until: .now + .seconds(86_400))
        await tracking.value
        return await dispatcher.drain(until: .now + .seconds(86_400))
    }
    switch result {
    case .delivered(_, remaining: 0), .nothingToSend: break
    case .delivered, .failed: Issue.record("\(result)")
    }
    #expect(try place.archivedNames() == names(0..<2000))
}

@Test func `a drain ends at its deadline, whatever the receiver does`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    for name in names(0..<10) { waybill.track(name) }
    let silent = SilentReceiver()
    let dispatcher = try place.dispatcher(port: silent.port)
    let failed = try await failure(until: { $0.remainingCount > 0 }) { limit in
        await dispatcher.drain(until: .now + limit)
    }
    #expect(failed.code == .deadline)
    #expect([failed.deliveredCount, failed.remainingCount] == [0, 10])
    let next = try place.dispatcher()
    #expect(
        try await place.receiving { await next.drain(until: .now + .seconds(86_400)) } == .delivered(10, remaining: 0))
    #expect(try place.archivedNames() == names(0..<10))
}

@Test func `a drain ends at its deadline, whatever rounds are before it`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    waybill.track("e0")
    let silent = SilentReceiver()
    let dispatcher = try place.dispatcher(port: silent.port, patience: .seconds(3600))
    let before = Task { await dispatcher.flush() }
    // The round before connects once it has the spool's lock.
    while !silent.hasCaller { await Task.yield() }
    guard case .failed(let failure) = await dispatcher.drain(until: .now + .milliseconds(100)) else {
        Issue.record("delivered to no one")
        return
    }
    #expect(failure.code == .deadline)
    before.cancel()
    guard case .failed(let stopped) = await before.value else {
        Issue.record("delivered to no one")
        return
    }
    #expect(stopped.code == .stopped)
}

@Test func `rounds asked for at the same time follow each other and repeat nothing`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    let dispatcher = try place.dispatcher()
    for name in names(0..<100) { waybill.track(name) }
    let results = try await place.receiving {
        await withTaskGroup(of: DispatchResult.self) { group in
            for _ in 0..<5 { group.addTask { await dispatcher.flush() } }
            return await group.reduce(into: []) { $0.append($1) }
        }
    }
    #expect(results.count { $0 == .delivered(100, remaining: 0) } == 1)
    #expect(results.count { $0 == .nothingToSend } == 4)
    #expect(try place.archivedNames() == names(0..<100))
}

@Test func `an agent and a dispatcher do not share a spool`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    waybill.track("e0")
    let early = try place.dispatcher()
    var agent = SpoolClaims([place.spool], on: POSIXFileSystem())
    try agent.claim()
    let error = #expect(throws: DispatchFailure.self) { try place.dispatcher() }
    #expect(error?.code == .inUse)
    #expect(error?.message.hasSuffix("/spool is locked); stop one of them") == true)
    guard case .failed(let failure) = await early.flush() else {
        Issue.record("two ship one spool")
        return
    }
    #expect(failure.code == .inUse)
    agent = SpoolClaims([], on: POSIXFileSystem())
    #expect(try await place.receiving { await early.flush() } == .delivered(1, remaining: 0))
}

@Test(arguments: [
    ("", ["h:1"], "`spool` is empty; name the app's spool"),
    ("/tmp", [], "`receivers` is empty; name one, as in host:4390"),
    ("/tmp", ["[::1]"], "[::1] is not a receiver; name a host and a port, as in host:4390, or https://host/"),
    ("/tmp", ["host"], "host is not a receiver; name a host and a port, as in host:4390, or https://host/"),
])
func `a configuration that cannot work is refused with what to do`(
    spool: String, receivers: [String], message: String
) {
    let error = #expect(throws: DispatchFailure.self) {
        try Dispatcher(Dispatcher.Configuration(spool: spool, receivers: receivers, token: "t0k3n"))
    }
    #expect(error?.description == "configuration: " + message)
}

@Test func `a token never prints`() {
    let configuration = Dispatcher.Configuration(spool: "/tmp", receivers: [], token: "t0k3n")
    var text = "\(configuration)"
    dump(configuration, to: &text)
    #expect(!text.contains("t0k3n"))
}
