internal import NIOCore
internal import NIOSSL
internal import NIOTLS
internal import WaybillSystem

/// The handler between a connection's socket and its TLS: answers peers that do not speak TLS, and gives a refused peer
/// time to read why.
final class TLSEntrance: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum Phase {
        case awaitingFirstByte
        case open
        /// Our side is closed; what arrives is discarded until the peer closes or its time is over.
        case lingering
    }

    private let plaintextAnswer: [UInt8]
    private let linger: TimeAmount
    private var phase = Phase.awaitingFirstByte
    private var context: ChannelHandlerContext?
    /// Whether the connection ends because TLS could not be set up.
    var isRefused = false

    init(plaintextAnswer: [UInt8], linger: TimeAmount) {
        self.plaintextAnswer = plaintextAnswer
        self.linger = linger
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.phase {
        case .awaitingFirstByte:
            let bytes = self.unwrapInboundIn(data)
            self.phase = .open
            if bytes.readableBytesView.first == TLSRecord.handshake { return context.fireChannelRead(data) }
            context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(bytes: self.plaintextAnswer)), promise: nil)
            context.fireErrorCaught(TLSRefusal.plaintext)
        case .open: context.fireChannelRead(data)
        case .lingering: return
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        switch self.phase {
        case .awaitingFirstByte, .open: context.fireChannelReadComplete()
        case .lingering: context.read()
        }
    }

    /// If we closed at once with unread bytes from the peer, the kernel would discard our last message.
    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard self.isRefused, mode == .all else { return context.close(mode: mode, promise: promise) }
        context.channel.closeFuture.cascade(to: promise)
        switch self.phase {
        case .lingering: return
        case .awaitingFirstByte, .open: break
        }
        self.phase = .lingering
        context.close(mode: .output, promise: nil)
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(in: self.linger) {
            bound.value.context?.close(promise: nil)
        }
        context.read()
    }
}

/// The handler after a connection's TLS: reports once, as a ``TLSRefusal``, why TLS could not be set up.
final class TLSWatch: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer

    private enum Phase {
        case handshaking
        case established
        case refused
    }

    private let entrance: TLSEntrance
    /// The peer that a proxy names.
    private let named: String?
    private let refused: @Sendable (TLSRefusal, String, String) -> Void
    private var phase = Phase.handshaking

    init(
        entrance: TLSEntrance, peer: String?, refused: @escaping @Sendable (TLSRefusal, String, String) -> Void
    ) {
        self.entrance = entrance
        self.named = peer
        self.refused = refused
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted = event as? TLSUserEvent { self.phase = .established }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch self.phase {
        case .handshaking: self.refuse(error, context)
        case .established:
            // A peer may leave without TLS's close alert: the line protocol has its own acknowledgements.
            if case NIOSSLError.uncleanShutdown = error { return }
            let causes = BoringSSLReason.list(of: error)
            context.fireErrorCaught(causes.isEmpty ? error : TLSBreach(causes: causes))
        case .refused: return
        }
    }

    /// The next handler has timed out: during the handshake no message can reach the peer.
    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard case .handshaking = self.phase, mode == .output else {
            return context.close(mode: mode, promise: promise)
        }
        self.phase = .refused
        self.refused(.timeout, "", self.peer(context))
        context.close(mode: .all, promise: promise)
    }

    private func refuse(_ error: any Error, _ context: ChannelHandlerContext) {
        self.phase = .refused
        self.entrance.isRefused = true
        let causes = BoringSSLReason.list(of: error)
        let refusal = error as? TLSRefusal ?? TLSRefusal(causes, isValidNow: Self.isPeerValidNow(context))
        self.refused(refusal, causes, self.peer(context))
        context.fireErrorCaught(refusal)
    }

    private func peer(_ context: ChannelHandlerContext) -> String {
        self.named ?? context.remoteAddress.map { NetworkAddress.text(host: $0.ipAddress, port: $0.port) } ?? "unknown"
    }

    /// Whether the peer's certificate is valid now, if it has presented one.
    private static func isPeerValidNow(_ context: ChannelHandlerContext) -> Bool {
        do {
            let handler = try context.pipeline.syncOperations.handler(type: NIOSSLServerHandler.self)
            guard let certificate = handler.peerCertificate else { return true }
            let now = POSIXClock().wallTime().milliseconds / 1000
            return Int64(certificate.notValidBefore) <= now && now <= Int64(certificate.notValidAfter)
        } catch {
            // The TLS handler has left the pipeline, and the certificate with it.
            return true
        }
    }
}

/// Something other than TLS came over an established TLS connection.
private struct TLSBreach: Error, CustomStringConvertible {
    let causes: String

    var description: String { "TLS failed: \(self.causes)" }
}

/// TLS records.
///
/// - SeeAlso: RFC 8446, section 5.1.
package enum TLSRecord {
    /// The type of a connection's first record, which is its first byte; no message of the line protocol begins with
    /// it.
    package static let handshake: UInt8 = 0x16
}
