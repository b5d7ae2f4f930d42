internal import NIOCore
internal import WaybillHost
package import WaybillSystem

/// Whom a connection is from, and through whom.
package struct ConnectionOrigin: Hashable, Sendable {
    /// `nil`: over a socket of this host.
    let address: SocketAddress?
    /// The kind of proxy that named the address; `nil`: none did.
    var proxy: String?

    /// What is charged before `HELLO`.
    var account: String { self.address?.accountAddress ?? "unix" }
    var host: String { self.address?.ipAddress ?? "unix" }
    /// For people.
    var text: String { NetworkAddress.text(host: self.address?.ipAddress, port: self.address?.port) }
}

/// Where connections of listed proxies arrive, each with a header that names its peer.
///
///     accepted ─▶ ProxyHandler ── header ─▶ ArrivalHandler ─▶ TLS ─▶ ConnectionHandler
///                      └─ none in time, another one, not from a listed address ─▶ closed
///
/// - SeeAlso: ``ProxyHeader``; `Protocol/protocol.md`, section 2.1.
package struct ProxiedListener: Hashable, Sendable {
    package var place: ListeningPlace?
    /// Addresses and networks of proxies; every user that may open a socket's file is one.
    package var proxies: [String] = []
    /// The group that may open a socket's file; `nil`: the user's own.
    package var group: String?
    /// Whether TLS follows the header.
    package var usesTLS = false
    /// Connections that its proxies may have open together.
    package var connectionCountMax = 8192

    package init() {}

    /// What is wrong with it; `nil` if nothing is.
    ///
    /// - Parameter hasCertificate: whether the receiver has a certificate.
    package func problem(hasCertificate: Bool) -> (key: String, text: String)? {
        guard let place = self.place else {
            let isEmpty = self.proxies.isEmpty && self.group == nil && !self.usesTLS
            return isEmpty ? nil : ("listen", "is missing: name the address that proxies connect to")
        }
        if let wrong = self.proxies.first(where: { AddressRange($0) == nil }) {
            return ("from", "\(wrong) is not an address or a network such as 10.0.0.0/8")
        }
        if case .address = place {
            if self.proxies.isEmpty { return ("from", "is missing: list the addresses of the proxies") }
            if self.group != nil { return ("group", "is for a socket; an address has none") }
        }
        if self.usesTLS, !hasCertificate { return ("tls", "needs tls.certificate and tls.key of the receiver") }
        return nil
    }

    /// `nil`: it listens on a socket, or not at all.
    package var address: NetworkAddress? { if case .address(let address) = self.place { address } else { nil } }
}

/// Why a proxy's connection was closed before its header was taken; the raw value is the metric's label.
package enum ProxyRefusal: String, CaseIterable, Error, Sendable {
    /// It is not from a listed proxy.
    case address
    /// The proxies have as many connections as they may.
    case connections
    /// What came is not a header.
    case header
    /// No whole header came in time.
    case timeout

    /// Completes "a connection … is closed: ".
    var text: String {
        switch self {
        case .address: "it is not from an address in receiver.proxied.from"
        case .connections: "proxies have as many connections as they may; see receiver.proxied.connections"
        case .header: "it does not begin with a header of the PROXY protocol, version 2"
        case .timeout: "no whole header came in time"
        }
    }
}

/// Reads the header that a proxy begins a connection with, adds the handlers for the peer that it names, and leaves.
final class ProxyHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer

    private let gate: ProxyGate
    private let timeout: TimeAmount
    /// Adds what follows to the pipeline.
    private let admit: (any Channel, ConnectionOrigin) throws -> Void
    private var buffer = ByteBuffer()
    private var deadline: Scheduled<Void>?

    init(
        _ gate: ProxyGate, timeout: TimeAmount, admit: @escaping (any Channel, ConnectionOrigin) throws -> Void
    ) {
        self.gate = gate
        self.timeout = timeout
        self.admit = admit
    }

    func channelActive(context: ChannelHandlerContext) {
        if let refusal = self.gate.enter(context.channel) { return self.refuse(refusal, context) }
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        self.deadline = context.eventLoop.scheduleTask(in: self.timeout) {
            let (handler, context) = bound.value
            handler.refuse(.timeout, context)
        }
        context.read()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = self.unwrapInboundIn(data)
        self.buffer.writeBuffer(&bytes)
        do throws(ProxyHeader.Failure) {
            guard let header = try ProxyHeader(readingFrom: &self.buffer) else { return }
            self.deadline?.cancel()
            self.pass(header, context)
        } catch {
            self.refuse(.header, context)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        context.read()
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.deadline?.cancel()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    private func pass(_ header: ProxyHeader, _ context: ChannelHandlerContext) {
        let address: SocketAddress?
        switch header.source {
        case .address(let named): address = named
        case .proxy: address = context.remoteAddress
        }
        let isDoor = header.software == ProxyHeader.door
        let origin = ConnectionOrigin(address: address, proxy: isDoor ? ProxyHeader.door : "proxy")
        do {
            try self.admit(context.channel, origin)
        } catch {
            return context.close(promise: nil)
        }
        context.fireChannelActive()
        if self.buffer.readableBytes > 0 { context.fireChannelRead(self.wrapInboundOut(self.buffer)) }
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    typealias InboundOut = ByteBuffer

    private func refuse(_ refusal: ProxyRefusal, _ context: ChannelHandlerContext) {
        self.deadline?.cancel()
        let peer = NetworkAddress.text(host: context.remoteAddress?.ipAddress, port: context.remoteAddress?.port)
        self.gate.telemetry.proxyRefused(refusal, peer: peer, address: context.remoteAddress?.accountAddress ?? "unix")
        context.close(promise: nil)
    }
}

/// Which connections of proxies may stay.
final class ProxyGate: Sendable {
    private let ranges: [AddressRange]
    private let countMax: Int
    private let count = Atomic(0)
    let telemetry: ReceiverTelemetry

    init(_ listener: ProxiedListener, telemetry: ReceiverTelemetry) {
        self.ranges = listener.proxies.compactMap { AddressRange($0) }
        self.countMax = listener.connectionCountMax
        self.telemetry = telemetry
    }

    /// - Returns: why it may not; else it is counted until it closes.
    func enter(_ channel: any Channel) -> ProxyRefusal? {
        if let address = channel.remoteAddress?.ipAddress {
            let plain = AddressText.plain(address) ?? address
            guard self.ranges.contains(where: { $0.contains(plain) }) else { return .address }
        }
        guard self.count.add(1, ordering: .relaxed) <= self.countMax else {
            _ = self.count.add(-1, ordering: .relaxed)
            return .connections
        }
        channel.closeFuture.whenComplete { _ in _ = self.count.add(-1, ordering: .relaxed) }
        return nil
    }
}
