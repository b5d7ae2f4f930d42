import Glibc
import Logging
import ServiceLifecycle
import Synchronization
import Testing
import Waybill
import WaybillAgent
import WaybillDispatch
import WaybillReceiver
import WaybillSystem

/// A folder for one test: a spool, and a receiver's data.
private final class Place: Sendable {
    let path: String
    let port: Int

    init() throws {
        var template = Array("/tmp/waybill-dispatch-XXXXXX".utf8CString)
        let isMade = template.withUnsafeMutableBufferPointer { mkdtemp($0.baseAddress!) != nil }  // Not empty.
        try #require(isMade)
        self.path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        self.port = try Self.freePort()
    }

    deinit { try? POSIXFileSystem().removeTree(self.path) }

    var spool: String { "\(self.path)/spool" }

    /// A port that nobody listens on now.
    private static func freePort() throws -> Int {
        let socket = Self.boundSocket()
        defer { close(socket.file) }
        return socket.port
    }

    /// A bound socket of any port.
    static func boundSocket() -> (file: Int32, port: Int) {
        let file = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                _ = bind(file, generic, length)
                getsockname(file, generic, &length)
            }
        }
        return (file, Int(UInt16(bigEndian: address.sin_port)))
    }

    func waybill() throws -> Waybill {
        try Waybill(
            Waybill.Configuration(
                spool: self.spool, environment: .prod, bundle: "com.example.shop", version: "1.4.2", build: "118"))
    }

    func dispatcher(
        port: Int? = nil, mode: Dispatcher.Mode = .manual, patience: Duration = .seconds(20),
        finished: (@Sendable (DispatchResult) -> Void)? = nil
    ) throws -> Dispatcher {
        var configuration = Dispatcher.Configuration(
            spool: self.spool, receivers: ["127.0.0.1:\(port ?? self.port)"], mode: mode, security: .plain)
        configuration.patience = patience
        configuration.finished = finished
        return try Dispatcher(configuration)
    }

    /// Runs a receiver while `body` runs, and lets it finish.
    func receiving<Result>(_ body: () async throws -> Result) async throws -> Result {
        var configuration = ReceiverConfiguration(dataDirectory: "\(self.path)/data")
        configuration.port = self.port
        var logger = Logger(label: "receiver")
        logger.logLevel = .error
        let group = ServiceGroup(
            services: [Receiver(configuration: configuration, logger: logger)], logger: logger)
        async let end: Void = group.run()
        let result = try await body()
        await group.triggerGracefulShutdown()
        try await end
        return result
    }

    /// The names of all archived events, in the files' order.
    func archivedNames() throws -> [String] {
        try Self.files(under: "\(self.path)/data/archive").filter { $0.hasSuffix(".ndjson") }.flatMap { path in
            let bytes = try POSIXFileSystem().contents(of: path) ?? []
            return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map { line in
                let start = line.firstRange(of: "\"name\":\"")?.upperBound ?? line.endIndex
                return String(line[start...].prefix { $0 != "\"" })
            }
        }
    }

    private static func files(under path: String) throws -> [String] {
        let files = POSIXFileSystem()
        guard let status = try files.status(at: path) else { return [] }
        guard status.kind == .directory else { return [path] }
        return try files.list(path).flatMap { try Self.files(under: Path.join(path, $0)) }
    }
}

private func names(_ range: Range<Int>) -> [String] { range.map { "e\($0)" } }

@Test func `a round by hand delivers what is there, and says how much`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    let dispatcher = try place.dispatcher()
    for name in names(0..<10) { waybill.track(name) }
    let results = try await place.receiving {
        let first = await dispatcher.dispatch()
        let second = await dispatcher.dispatch()
        for name in names(10..<15) { waybill.track(name) }
        return [first, second, await dispatcher.dispatch()]
    }
    #expect(results == [.delivered(10, remaining: 0), .nothingToSend, .delivered(5, remaining: 0)])
    #expect(try place.archivedNames() == names(0..<15))
}

@Test func `without a receiver a round fails and keeps everything for the next, also after a restart`() async throws {
    let place = try Place()
    do {
        let waybill = try place.waybill()
        for name in names(0..<10) { waybill.track(name) }
        let dispatcher = try place.dispatcher(patience: .milliseconds(50))
        guard case .failed(let failure) = await dispatcher.dispatch() else {
            Issue.record("delivered to nobody")
            return
        }
        #expect([failure.deliveredCount, failure.remainingCount] == [0, 10])
        #expect(failure.code == "unreachable")
    }
    let waybill = try place.waybill()
    waybill.track("e10")
    let dispatcher = try place.dispatcher()
    let result = try await place.receiving { await dispatcher.dispatch() }
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
    let ownRounds = Mutex(0)
    let count = try await place.receiving {
        let dispatcher = try place.dispatcher(mode: mode) { _ in ownRounds.withLock { $0 += 1 } }
        #expect(await dispatcher.dispatch() == .delivered(1, remaining: 0))
        await dispatcher.stop()
        return ownRounds.withLock { $0 }
    }
    #expect(count == 0)
}

@Test func `a drain goes on until nothing is left`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    let dispatcher = try place.dispatcher()
    let result = try await place.receiving {
        let tracking = Task { for name in names(0..<2000) { waybill.track(name) } }
        _ = await dispatcher.drain(until: .now + .seconds(60))
        await tracking.value
        return await dispatcher.drain(until: .now + .seconds(60))
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
    // Takes connections and says nothing.
    let silent = Place.boundSocket()
    listen(silent.file, 16)
    defer { close(silent.file) }
    let dispatcher = try place.dispatcher(port: silent.port)
    guard case .failed(let failure) = await dispatcher.drain(until: .now + .milliseconds(200)) else {
        Issue.record("delivered to nobody")
        return
    }
    #expect(failure.code == "deadline")
    #expect([failure.deliveredCount, failure.remainingCount] == [0, 10])
    let next = try place.dispatcher()
    #expect(try await place.receiving { await next.drain(until: .now + .seconds(60)) } == .delivered(10, remaining: 0))
    #expect(try place.archivedNames() == names(0..<10))
}

@Test func `a drain ends at its deadline, whatever rounds are before it`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    waybill.track("e0")
    let silent = Place.boundSocket()
    listen(silent.file, 16)
    defer { close(silent.file) }
    let dispatcher = try place.dispatcher(port: silent.port, patience: .seconds(3600))
    let before = Task { await dispatcher.dispatch() }
    // The round before is under way once it has the spool's lock.
    while (try? place.dispatcher()) != nil { await Task.yield() }
    guard case .failed(let failure) = await dispatcher.drain(until: .now + .milliseconds(100)) else {
        Issue.record("delivered to nobody")
        return
    }
    #expect(failure.code == "deadline")
    before.cancel()
    guard case .failed(let stopped) = await before.value else {
        Issue.record("delivered to nobody")
        return
    }
    #expect(stopped.code == "stopped")
}

@Test func `rounds asked for at the same time follow each other and repeat nothing`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    let dispatcher = try place.dispatcher()
    for name in names(0..<100) { waybill.track(name) }
    let results = try await place.receiving {
        await withTaskGroup(of: DispatchResult.self) { group in
            for _ in 0..<5 { group.addTask { await dispatcher.dispatch() } }
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
    #expect(error?.code == "in-use")
    #expect(error?.message.hasSuffix("/spool/agent.lock is locked); stop one of them") == true)
    guard case .failed(let failure) = await early.dispatch() else {
        Issue.record("two ship one spool")
        return
    }
    #expect(failure.code == "in-use")
    agent = SpoolClaims([], on: POSIXFileSystem())
    #expect(try await place.receiving { await early.dispatch() } == .delivered(1, remaining: 0))
}

@Test(arguments: [
    ("", ["h:1"], "`spool` is empty; name the app's spool"),
    ("/tmp", [], "`receivers` is empty; name one, as in host:4390"),
    ("/tmp", ["[::1]"], "[::1] is no receiver; name a host and a port, as in host:4390"),
    ("/tmp", ["host"], "host is no receiver; name a host and a port, as in host:4390"),
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
