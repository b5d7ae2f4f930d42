import Testing
import Waybill
import WaybillAgent
import WaybillDispatch
import WaybillServerTestSupport
import WaybillSystem

/// `nil` for a round that went well.
private func failure(of result: DispatchResult) -> DispatchFailure? {
    switch result {
    case .failed(let failure): failure
    case .delivered, .nothingToSend: nil
    }
}

// MARK: Nothing to send

@Test func `with nothing to send no receiver is looked for`() async throws {
    let place = try Place()
    let silent = SilentReceiver()
    let dispatcher = try place.dispatcher(port: silent.port)
    #expect(await dispatcher.flush() == .nothingToSend)
    // With a client that has stored nothing yet.
    let waybill = try place.waybill()
    #expect(await dispatcher.flush() == .nothingToSend)
    #expect(await dispatcher.drain(until: .now + .seconds(86_400)) == .nothingToSend)
    #expect(!silent.hasCaller)
    #expect(waybill.counters.stored == 0)
}

@Test func `once everything is delivered no receiver is looked for, also after a restart`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    for name in ["e0", "e1"] { waybill.track(name) }
    let dispatcher = try place.dispatcher()
    #expect(try await place.receiving { await dispatcher.flush() } == .delivered(2, remaining: 0))
    let silent = SilentReceiver()
    let next = try place.dispatcher(port: silent.port)
    #expect(await next.flush() == .nothingToSend)
    #expect(await next.drain(until: .now + .seconds(86_400)) == .nothingToSend)
    #expect(!silent.hasCaller)
    waybill.track("e2")
    #expect(try await place.receiving { await dispatcher.flush() } == .delivered(1, remaining: 0))
}

@Test func `a segment that waits to be sealed is something to do`() async throws {
    let place = try Place()
    let dispatcher = try place.dispatcher()
    do {
        let waybill = try place.waybill()
        waybill.track("e0")
        #expect(try await place.receiving { await dispatcher.flush() } == .delivered(1, remaining: 0))
        #expect(try waybill.usage().segmentCount == 1)
    }
    #expect(try await place.receiving { await dispatcher.flush() } == .nothingToSend)
    #expect(try place.files(under: "spool").filter { $0.hasSuffix(".ndjson") } == [])
}

// MARK: The end of a round

@Test func `a round delivers what was there, however fast events come meanwhile`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    for number in 0..<10 { waybill.track("e\(number)") }
    let dispatcher = try place.dispatcher()
    let result = try await place.receiving {
        let tracking = Task {
            while !Task.isCancelled {
                waybill.track("later")
                Worker.sleep(for: .microseconds(200))
                await Task.yield()
            }
        }
        let result = await dispatcher.flush()
        tracking.cancel()
        await tracking.value
        return result
    }
    guard case .delivered(let count, _) = result else {
        Issue.record("\(result)")
        return
    }
    #expect(count >= 10)
    let archived = try place.archivedNames()
    #expect(Array(archived.prefix(10)) == (0..<10).map { "e\($0)" })
    // The rest is as much as was delivered, and nothing twice.
    #expect(archived.count == count)
}

// MARK: Why a round failed

@Test func `a drain that its deadline ends says what went wrong before`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    waybill.track("e0")
    let dispatcher = try place.dispatcher(security: .tls)
    let failed = try await place.receiving {
        try await failure(until: { $0.message.contains("(tls-plaintext)") }) { limit in
            await dispatcher.drain(until: .now + limit)
        }
    }
    #expect(failed.code == .deadline)
    #expect([failed.deliveredCount, failed.remainingCount] == [0, 1])
    #expect(failed.message.hasPrefix("the deadline passed; the rest is sent in the next round. The last failure: "))
    #expect(failed.message.hasSuffix("or make the dispatcher with `security: .plain` (tls-plaintext)"))
}

/// The first failure that came far enough, each attempt with more time.
///
/// On a busy machine a short one ends before anything was done. The last one is returned as it is.
func failure(
    until isWanted: (DispatchFailure) -> Bool, _ attempt: (Duration) async throws -> DispatchResult
) async throws -> DispatchFailure {
    for limit in [1, 4, 16] {
        let failed = try #require(failure(of: try await attempt(.seconds(limit))))
        if isWanted(failed) { return failed }
    }
    return try #require(failure(of: try await attempt(.seconds(64))))
}

@Test func `a receiver that cannot be reached is named with the system's reason`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    waybill.track("e0")
    let failed = try await failure(until: { !$0.message.contains("no receiver answered") }) { patience in
        try await place.dispatcher(patience: patience).flush()
    }
    #expect(
        failed.description == "unreachable: no receiver accepted events: cannot connect to 127.0.0.1:\(place.port): "
            + "Connection refused; the next round tries again")
}

@Test func `attempts to connect are over when the last one ends`() {
    let attempts = ConnectionAttempts()
    let isOver = Lock(false)
    attempts.begin()
    attempts.begin()
    attempts.end()
    #expect(!attempts.areOver)
    attempts.whenOver { isOver.withLock { $0 = true } }
    #expect(!isOver.withLock { $0 })
    attempts.end()
    #expect(isOver.withLock { $0 })
    #expect(attempts.areOver)
}

// MARK: Suspension

@Test func `suspending ends the round under way and frees its locks`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    waybill.track("e0")
    let silent = SilentReceiver()
    let dispatcher = try place.dispatcher(port: silent.port, patience: .seconds(3600))
    async let first = dispatcher.flush()
    // It connects once it has the spool's lock.
    while !silent.hasCaller { await Task.yield() }
    async let second = dispatcher.flush()
    await dispatcher.suspend()
    // Refused if a lock were held.
    let next = try place.dispatcher()
    let (firstResult, secondResult) = await (first, second)
    #expect(failure(of: firstResult)?.code == .stopped)
    // It waited for its turn and lost it, or was asked for too late.
    #expect(failure(of: secondResult)?.code == .suspended)
    #expect(try await place.receiving { await next.flush() } == .delivered(1, remaining: 0))
}

@Test func `a suspended dispatcher drains when it is told to, and nothing else`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    let (results, continuation) = AsyncStream.makeStream(of: DispatchResult.self)
    let ownRoundCount = Lock(0)
    try await place.receiving {
        let dispatcher = try place.dispatcher(mode: .every(.milliseconds(5))) { result in
            ownRoundCount.withLock { $0 += 1 }
            continuation.yield(result)
        }
        await dispatcher.suspend()
        await dispatcher.suspend()
        let before = ownRoundCount.withLock { $0 }
        for number in 0..<10 {
            waybill.track("e\(number)")
            let refused = await dispatcher.flush()
            #expect(failure(of: refused)?.code == .suspended)
            #expect(await dispatcher.drain(until: .now + .seconds(86_400)) == .delivered(1, remaining: 0))
        }
        // The one that was cancelled may have been told of late.
        #expect(ownRoundCount.withLock { $0 } <= before + 1)
        waybill.track("e10")
        dispatcher.resume()
        for await result in results where result == .delivered(1, remaining: 0) { break }
        #expect(await dispatcher.flush() == .nothingToSend)
        await dispatcher.stop()
    }
    #expect(try place.archivedNames() == (0...10).map { "e\($0)" })
}

@Test func `suspending ends a drain, and one that is asked for then works`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    waybill.track("e0")
    let silent = SilentReceiver()
    let dispatcher = try place.dispatcher(port: silent.port)
    async let drain = dispatcher.drain(until: .now + .seconds(3600))
    while !silent.hasCaller { await Task.yield() }
    await dispatcher.suspend()
    let ended = await drain
    #expect(failure(of: ended)?.code == .stopped)
    let next = await dispatcher.drain(until: .now + .milliseconds(50))
    #expect(failure(of: next)?.code == .deadline)
}
