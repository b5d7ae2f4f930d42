internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import WaybillMetrics
internal import WaybillProtocol
internal import WaybillReceiver
internal import WaybillSystem
internal import WaybillTLS

/// The door for Waybill's own clients: their streams, over HTTP, to one receiver.
///
///     client ─ HTTP ─▶ DoorHandler ─▶ StreamGateway: who is it, is the frame good? ─▶ StreamPool ─ line protocol ─▶ receiver
///
/// It holds nothing. 200 says what the receiver has acknowledged, and a repeated request is told from the receiver's offset
/// and proof, so the door and the receiver may be killed at any moment. Clients are authenticated by the receiver's own list
/// of agents, and the receiver counts what they bring as theirs.
///
/// - SeeAlso: `Protocol/protocol.md`, sections 11.4 and 21.
final class StreamGateway: Sendable {
    let telemetry: StreamTelemetry
    private let configuration: StreamsConfiguration
    private let register: Lock<AgentRegister>
    private let failures = Lock(FailurePace())
    private let checker: BatchChecker
    private let pool: NIOLoopBound<StreamPool>
    private let eventLoop: any EventLoop
    private let watched: Lock<WatchedAgents>
    private let clock = POSIXClock()

    /// - Parameters:
    ///   - eventLoop: carries all connections to the receiver; the caller is on it.
    ///   - threads: check long batches.
    init(
        _ configuration: StreamsConfiguration, on eventLoop: any EventLoop, threads: NIOThreadPool, logger: Logger
    ) throws(TLSSetupError) {
        let telemetry = StreamTelemetry(logger: logger)
        let tls = try configuration.tls.map { configuration throws(TLSSetupError) in try TLSClient(configuration) }
        self.telemetry = telemetry
        self.configuration = configuration
        self.register = Lock(AgentRegister(configuration.agents))
        self.checker = BatchChecker(lineByteCountMax: ProtocolLimits().lineByteCountMax) { check in
            threads.submit { state in if case .active = state { check() } }
        }
        self.eventLoop = eventLoop
        self.pool = NIOLoopBound(
            StreamPool(
                configuration, tls: tls, eventLoop: eventLoop, telemetry: telemetry, seed: SystemRandom.seed(),
                token: Self.token(configuration.tokenFile)),
            eventLoop: eventLoop)
        self.watched = Lock(WatchedAgents(configuration))
        if let read = configuration.readAgents { self.watch(read, threads) }
    }

    /// Where streams are forwarded to.
    var receiver: NetworkAddress { self.configuration.receiver }

    private static func token(_ path: String?) -> @Sendable () -> Result<Secret?, StreamRefusal> {
        {
            guard let path else { return .success(nil) }
            do throws(TokenFile.Failure) {
                return .success(try TokenFile(path: path).read(on: POSIXFileSystem()))
            } catch {
                return .failure(StreamRefusal(.unavailable, "\(error)"))
            }
        }
    }

    // MARK: Who is let in

    /// A credential that is removed is refused soon afterwards.
    private static let watchPause = TimeAmount.seconds(2)

    /// Reads the clients again at once, since their files may have changed after the configuration was read, and then whenever
    /// one of their files has changed, until the event loop ends.
    private func watch(_ read: @escaping @Sendable () -> StreamsConfiguration.AgentsReading, _ threads: NIOThreadPool) {
        let eventLoop = self.eventLoop
        eventLoop.scheduleRepeatedAsyncTask(initialDelay: .zero, delay: Self.watchPause) { _ in
            threads.runIfActive(eventLoop: eventLoop) { self.readIfChanged(read) }
        }
    }

    private func readIfChanged(_ read: () -> StreamsConfiguration.AgentsReading) {
        // The event loop lets one reading follow another.
        var watched = self.watched.withLock { $0 }
        let news = watched.look(on: POSIXFileSystem(), read)
        self.watched.withLock { $0 = watched }
        switch news {
        case .changed(let principals):
            self.register.withLock { $0 = AgentRegister(principals) }
            self.eventLoop.execute { self.pool.value.use(principals) }
            self.telemetry.agentsRead(count: principals.count)
        case .unusable(let problems): self.telemetry.agentsUnusable(problems)
        case nil: break
        }
    }

    // MARK: Who asks

    /// Authenticates a client by the headers of its request.
    func admit(_ headers: HTTPHeaders, address: String) throws(StreamRefusal) -> ForwardedClient {
        let key = headers.first(name: "waybill-key")
        guard let agent = headers.first(name: "waybill-agent") ?? key.flatMap({ DeviceKey(text: $0.utf8)?.agentName }),
            AgentCredentials.isAgentName(agent)
        else {
            throw StreamRefusal(
                .syntax, "the header Waybill-Agent names the client: letters, digits, '.', '_', ':' and '-'")
        }
        let hello = Hello(
            versions: LineProtocol.versions, agent: agent, instance: "http", token: Self.token(in: headers), key: key,
            encodings: ["zlib"])
        let credentials = AgentCredentials(hello, certificate: nil)
        let register = self.register.withLock { $0 }
        switch register.authenticate(credentials, at: self.clock.wallTime()) {
        case .success(let admitted):
            guard !admitted.principal.mayForward else {
                throw StreamRefusal(.notAllowed, "these credentials are a door's own; use the client's")
            }
            return ForwardedClient(principal: admitted.principal.name, agent: agent, address: address)
        case .failure(let reason):
            self.telemetry.refusedAgent(reason, agent, address: address)
            var refusal = StreamRefusal(.token, reason.text, headers: ["WWW-Authenticate": "Bearer"])
            let now = self.clock.monotonicTime()
            refusal.delay = self.failures.withLock { $0.failed(from: address, at: now) }
            throw refusal
        }
    }

    private static func token(in headers: HTTPHeaders) -> String? {
        guard let header = headers.first(name: "authorization") else { return nil }
        let parts = header.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return nil }
        return String(parts[1])
    }

    // MARK: Requests

    /// Asks the receiver who it is; calls `done` on any thread.
    func ask(_ done: @escaping @Sendable (Result<Ready, StreamRefusal>) -> Void) {
        self.eventLoop.execute {
            self.pool.value.ask { result in
                if case .success = result { self.telemetry.answeredReceiver() }
                done(result)
            }
        }
    }

    /// Checks a request as a receiver does, and forwards it; calls `done` on any thread.
    func forward(
        _ request: StreamRequest, for client: ForwardedClient, on eventLoop: any EventLoop,
        done: @escaping @Sendable (StreamOutcome) -> Void
    ) {
        guard case .batch(let header, let payload) = request.content else {
            return self.submit(request, client, done)
        }
        guard header.fits(ProtocolLimits()) else {
            return done(
                StreamOutcome(result: .failure(StreamRefusal(.limit, "the batch is larger than any receiver takes"))))
        }
        let id = request.description.id
        self.checker.check(header, of: id, wire: payload, on: eventLoop) { result in
            switch result {
            case .success(let raw):
                var checked = request
                checked.endProof = Self.proof(of: raw, id, at: header.end)
                self.submit(checked, client, done)
            case .failure(let refusal):
                done(StreamOutcome(result: .failure(StreamRefusal(refusal.code, refusal.text, offset: nil))))
            }
        }
    }

    /// The proof at a batch's end; `nil` if bytes before the batch belong to it.
    private static func proof(of raw: SharedBytes, _ id: StreamID, at end: StreamOffset) -> StreamProof? {
        let byteCount = StreamProof.byteCount(at: end)
        guard raw.count >= byteCount else { return nil }
        return StreamProof(of: id, at: end, tail: Array(raw.bytes.suffix(byteCount)))
    }

    private func submit(
        _ request: StreamRequest, _ client: ForwardedClient, _ done: @escaping @Sendable (StreamOutcome) -> Void
    ) {
        self.eventLoop.execute {
            self.pool.value.submit(StreamTask(request: request, client: client, done: done))
        }
    }

    /// Ends the connections to the receiver.
    func stop() {
        self.eventLoop.execute { self.pool.value.stop() }
    }
}
