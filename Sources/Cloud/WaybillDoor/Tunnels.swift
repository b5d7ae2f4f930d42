internal import Logging
internal import NIOCore
internal import NIOPosix
internal import WaybillHost
internal import WaybillIngest
internal import WaybillJSON
internal import WaybillProtocol
internal import WaybillSystem

/// The door's tunnels: the line protocol over `GET /v1/line`, upgraded to a WebSocket.
///
///     agent ═ frames ═▶ TunnelHandler ═ Tunnel ═ ReceiverHandler ═ a proxy's header, then the same bytes ═▶ receiver
///
/// The door reads no message and shows no credential: the receiver authenticates the agent, by the address that the header
/// names. Both connections of a tunnel belong to one event loop. Memory: 64 KiB each way, while the other side does not take.
///
/// - SeeAlso: `Protocol/protocol.md`, section 21.
final class Tunnels: Sendable {
    /// Why there is no tunnel; the raw value is the metric's label.
    enum Refusal: String, CaseIterable, Error, Sendable {
        /// A page's request: our clients are no browsers.
        case origin
        /// Not a WebSocket handshake.
        case handshake
        /// As many tunnels as there may be.
        case full
        /// As many of one address as may wait for `READY`.
        case share
        case unreachable
        case stopping
    }

    /// Why a tunnel ended; the raw value is the metric's label.
    enum End: String, CaseIterable, Sendable {
        case agent
        case receiver
        /// What the agent sent breaks the rules of WebSocket.
        case frames
        /// No `READY` in time.
        case handshake
        /// The receiver said nothing for longer than it would.
        case silence
        case stopping
    }

    private struct State {
        /// Tunnels that wait for `READY`, by the address that they are from.
        var waiting: [AddressGroup: Int] = [:]
        var open: [ObjectIdentifier: Tunnel.Handle] = [:]
        var count = 0
        var refusals: [Refusal: Int] = [:]
        var ends: [End: Int] = [:]
        var openedCount = 0
        /// Since when no connection to the receiver can be made, and why.
        var failure: (since: WallTime, reason: String)?
        var isStopping = false
    }

    let configuration: TunnelConfiguration
    private let tls: TLSClient?
    private let state = Lock(State())
    let sentBytes = Atomic(0)
    let receivedBytes = Atomic(0)
    private let logger: Logger
    private let clock = POSIXClock()

    /// Tunnels of one address that may wait for `READY` at once.
    static let waitingCountMax = 256
    /// The most characters of a reason at `/status`.
    private static let reasonLengthMax = 200
    private static let connectTimeout = TimeAmount.seconds(5)
    /// From the first try to connect to the end of the TLS handshake.
    private static let handshakeTimeout = TimeAmount.seconds(10)

    init(_ configuration: TunnelConfiguration, logger: Logger) throws(TLSSetupError) {
        self.configuration = configuration
        self.tls = try configuration.tls.map { configuration throws(TLSSetupError) in try TLSClient(configuration) }
        self.logger = logger
    }

    // MARK: Places

    /// Takes a place for a tunnel of an address.
    func enter(_ address: AddressGroup) throws(Refusal) {
        let refusal: Refusal? = self.state.withLock { state in
            if state.isStopping { return .stopping }
            if state.count >= self.configuration.connectionCountMax { return .full }
            if state.waiting[address, default: 0] >= Self.waitingCountMax { return .share }
            state.count += 1
            state.waiting[address, default: 0] += 1
            return nil
        }
        if let refusal { throw refusal }
    }

    func refused(_ refusal: Refusal) {
        self.state.withLock { $0.refusals[refusal, default: 0] += 1 }
    }

    /// The receiver has let the agent of a tunnel in, or the tunnel has ended before.
    func stoppedWaiting(_ address: AddressGroup) {
        self.state.withLock { state in
            let count = state.waiting[address, default: 1] - 1
            state.waiting[address] = count > 0 ? count : nil
        }
    }

    /// Gives a place back.
    func leave() {
        self.state.withLock { $0.count -= 1 }
    }

    func opened(_ tunnel: Tunnel) {
        let isStopping = self.state.withLock { state in
            state.openedCount += 1
            state.open[ObjectIdentifier(tunnel)] = tunnel.handle
            return state.isStopping
        }
        if isStopping { tunnel.end(.stopping) }
    }

    func ended(_ tunnel: Tunnel, _ end: End) {
        self.state.withLock { state in
            state.open[ObjectIdentifier(tunnel)] = nil
            state.ends[end, default: 0] += 1
        }
    }

    /// Ends all tunnels: agents connect again.
    func stop() {
        let open = self.state.withLock { state in
            state.isStopping = true
            return Array(state.open.values)
        }
        for handle in open { handle.end(.stopping) }
    }

    // MARK: The receiver

    /// Connects a tunnel to the receiver, and says whose connection it is.
    func connect(for header: ProxyHeader, _ tunnel: Tunnel) -> EventLoopFuture<Void> {
        let eventLoop = tunnel.eventLoop
        let established = eventLoop.makePromise(of: Void.self)
        let (tls, receiver) = (self.tls, self.configuration.receiver)
        let bound = NIOLoopBound(tunnel, eventLoop: eventLoop)
        let bootstrap = ClientBootstrap(group: eventLoop)
            .connectTimeout(Self.connectTimeout)
            .channelOption(.autoRead, value: false)
            .channelOption(.maxMessagesPerRead, value: 1)
            .channelOption(
                .recvAllocator,
                value: AdaptiveRecvByteBufferAllocator(minimum: 256, initial: 1024, maximum: Tunnel.readByteCount)
            )
            .channelOption(.writeBufferWaterMark, value: Tunnel.waterMark)
            .channelOption(.socketOption(.so_keepalive), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(HeaderHandler(header))
                    var peer: TLSPeer?
                    if let tls, case .address(let address) = receiver {
                        try pipeline.addHandler(tls.handler(for: address))
                        peer = TLSPeer(client: tls, address: address)
                    }
                    try pipeline.addHandler(ReceiverHandler(bound.value, peer: peer, established: established))
                }
            }
        let connected: EventLoopFuture<any Channel> =
            switch receiver {
            case .address(let address):
                bootstrap.channelOption(.tcpOption(.tcp_nodelay), value: 1)
                    .connect(host: address.host, port: address.port)
            case .socket(let path): bootstrap.connect(unixDomainSocketPath: path)
            }
        connected.whenFailure { established.fail($0) }
        let deadline = eventLoop.scheduleTask(in: Self.handshakeTimeout) {
            established.fail(DoorFailure(description: "its TLS is not there within 10 s"))
        }
        established.futureResult.whenComplete { result in
            deadline.cancel()
            guard case .failure(let error) = result else { return }
            self.away(Self.text(of: error))
            connected.whenSuccess { $0.close(promise: nil) }
        }
        return established.futureResult
    }

    private static func text(of error: any Error) -> String {
        (error as? DoorFailure)?.description ?? ConnectionFailure.reasons(of: error)
    }

    /// An agent got through.
    func reached() {
        let wasAway = self.state.withLock { state in
            defer { state.failure = nil }
            return state.failure != nil
        }
        guard wasAway else { return }
        self.logger.notice("tunnels reach the receiver again", metadata: ["receiver": "\(self.configuration.receiver)"])
    }

    /// No agent gets through to the receiver.
    func away(_ reason: String) {
        let now = self.clock.wallTime()
        let isNew = self.state.withLock { state in
            let before = state.failure
            state.failure = (before?.since ?? now, reason)
            return before == nil
        }
        guard isNew else { return }
        self.logger.warning(
            .doorReceiverAway, "no tunnel reaches the receiver; agents are answered 503, and try again",
            metadata: ["receiver": "\(self.configuration.receiver)", "reason": "\(reason)"])
    }

    // MARK: What is told

    /// What an operator must look at; it names no address.
    var problems: [String] {
        let isAway = self.state.withLock { $0.failure != nil }
        return isAway ? ["no tunnel reaches the receiver; agents try again"] : []
    }

    /// The members of `line` at `GET /status`.
    func write(to json: inout JSONWriter) {
        let (count, failure) = self.state.withLock { ($0.open.count, $0.failure) }
        json.member("receiver", "\(self.configuration.receiver)")
        json.member("tunnels", count)
        json.member("away_since", failure.map { Int($0.since.milliseconds) })
        json.member("away_reason", failure.map { String($0.reason.prefix(Self.reasonLengthMax)) })
    }

    func write(to page: inout MetricsPage) {
        let (count, opened, refusals, ends, isAway) = self.state.withLock {
            ($0.open.count, $0.openedCount, $0.refusals, $0.ends, $0.failure != nil)
        }
        page.add(.receiverAway, isAway ? 1 : 0)
        page.add(.openTunnels, count)
        page.add(.openedTunnels, opened)
        page.add(.refusedTunnels, by: Refusal.self) { refusals[$0] ?? 0 }
        page.add(.endedTunnels, by: End.self) { ends[$0] ?? 0 }
        page.add(.tunnelBytes, by: Metric.TunnelSide.self) { side in
            switch side {
            case .receiver: self.sentBytes.load(ordering: .relaxed)
            case .agent: self.receivedBytes.load(ordering: .relaxed)
            }
        }
    }
}

/// Says at the start of a connection whose it is, and leaves.
private final class HeaderHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let header: ProxyHeader

    init(_ header: ProxyHeader) {
        self.header = header
    }

    func channelActive(context: ChannelHandlerContext) {
        context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(bytes: self.header.encoded)), promise: nil)
        context.fireChannelActive()
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }
}
