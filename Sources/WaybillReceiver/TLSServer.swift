internal import NIOCore
internal import NIOSSL
internal import NIOTLS
internal import WaybillProtocol
package import WaybillSystem
internal import WaybillTLS

/// How a receiver speaks TLS.
///
/// The files are PEM and read once, when the receiver starts; TLS 1.2 is the least.
package struct TLSServerConfiguration: Hashable, Sendable {
    /// What the receiver shows its agents.
    package var identity: CertificateFiles
    /// A file of the authorities of which every agent must show a certificate; `nil`: agents need none.
    package var clientAuthorities: String?

    package init(identity: CertificateFiles, clientAuthorities: String? = nil) {
        self.identity = identity
        self.clientAuthorities = clientAuthorities
    }
}

/// What all connections of a receiver over TLS share.
struct TLSServer: Sendable {
    /// When the receiver's certificate ends.
    let expiry: WallTime
    let asksAgents: Bool
    private let context: NIOSSLContext

    init(_ configuration: TLSServerConfiguration) throws(TLSSetupError) {
        let identity = configuration.identity
        let chain = try CertificateFiles.read(identity.chain, "the receiver's certificate")
        let certificates = try PEM.certificates(chain, identity.chain)
        self.expiry = WallTime(milliseconds: Int64(certificates[0].notValidAfter) * 1000)
        let key = try CertificateFiles.read(identity.key, "the receiver's private key")
        var tls = TLSConfiguration.makeServerConfiguration(
            certificateChain: certificates.map { .certificate($0) },
            privateKey: .privateKey(try PEM.key(key, identity.key)))
        tls.minimumTLSVersion = .tlsv12
        // Whoever does not answer the end of a connection is not waited for.
        tls.shutdownTimeout = .seconds(1)
        self.asksAgents = configuration.clientAuthorities != nil
        if let authorities = configuration.clientAuthorities {
            let bytes = try CertificateFiles.read(authorities, "certificates of the agents' authorities")
            tls.trustRoots = .certificates(try PEM.certificates(bytes, authorities))
            // Agents have no host names; their authority is what lets them in.
            tls.certificateVerification = .noHostnameVerification
        }
        do {
            self.context = try NIOSSLContext(configuration: tls)
        } catch {
            throw TLSSetupError(
                "TLS: \(identity.chain) and \(identity.key) do not belong together "
                    + "(\(BoringSSLReason.list(of: error))); name the key of this certificate")
        }
    }

    /// Puts TLS between a new connection's socket and its handler.
    ///
    ///     socket ── TLSEntrance ── NIOSSLServerHandler ── TLSWatch ── ConnectionHandler
    func addHandlers(to channel: any Channel, _ shared: ReceiverShared) throws {
        let pipeline = channel.pipeline.syncOperations
        let entrance = TLSEntrance(linger: shared.timeouts.linger)
        try pipeline.addHandler(entrance)
        try pipeline.addHandler(NIOSSLServerHandler(context: self.context))
        try pipeline.addHandler(TLSWatch(entrance: entrance, telemetry: shared.telemetry))
    }
}

/// Why a receiver refused a connection before its TLS was set up.
enum TLSRefusal: String, Error, CaseIterable, CustomStringConvertible {
    case plaintext
    case clientCertificateMissing = "client-certificate-missing"
    case clientCertificateExpired = "client-certificate-expired"
    case clientCertificateUntrusted = "client-certificate-untrusted"
    case refusedByPeer = "refused-by-peer"
    case noCommonVersion = "no-common-version"
    case timeout
    case closed
    case malformed

    /// - Parameters:
    ///   - causes: BoringSSL's words; empty when the connection broke.
    ///   - isValidNow: whether now lies in the time of the peer's certificate.
    init(_ causes: String, isValidNow: Bool) {
        func has(_ words: String...) -> Bool { words.contains { causes.contains($0) } }
        self =
            if causes.isEmpty || has("EOF") {
                .closed
            } else if has("PEER_DID_NOT_RETURN_A_CERTIFICATE") {
                .clientCertificateMissing
            } else if has("CERTIFICATE_VERIFY_FAILED") {
                isValidNow ? .clientCertificateUntrusted : .clientCertificateExpired
            } else if has("_ALERT_") {
                .refusedByPeer
            } else if has(
                "UNSUPPORTED_PROTOCOL", "NO_SHARED_CIPHER", "NO_SHARED_GROUP", "NO_COMMON_SIGNATURE_ALGORITHMS")
            {
                .noCommonVersion
            } else {
                .malformed
            }
    }

    /// Cause and remedy for the operator.
    var description: String {
        switch self {
        case .plaintext: "the peer does not speak TLS; start the agent with --tls or --tls-ca"
        case .clientCertificateMissing:
            "the agent shows no certificate; give it --tls-certificate and --tls-key of an authority in --tls-client-ca"
        case .clientCertificateExpired: "the agent's certificate is not valid at this time; renew it"
        case .clientCertificateUntrusted:
            "the agent's certificate leads to no authority in --tls-client-ca; give it one that does"
        case .refusedByPeer:
            "the peer does not take this receiver's certificate, or its TLS; give the agent its authority by --tls-ca"
        case .noCommonVersion: "the peer has no version or cipher of TLS in common; TLS 1.2 is the least"
        case .timeout: "the TLS handshake was not over in time"
        case .closed: "the peer closed before the TLS handshake was over"
        case .malformed: "the peer sent what is no TLS handshake"
        }
    }
}

/// Stands between a connection's socket and its TLS: answers whoever speaks none, and lets a peer that is refused read
/// why.
final class TLSEntrance: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum Phase {
        case awaitingFirstByte
        case open
        /// Our side is closed; what comes is thrown away until the peer closes or its time is over.
        case lingering
    }

    private let linger: TimeAmount
    private var phase = Phase.awaitingFirstByte
    private var context: ChannelHandlerContext?
    /// Whether the connection ends because TLS could not be set up.
    var isRefused = false

    init(linger: TimeAmount) {
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
            let text = "this port takes TLS alone; start the agent with --tls or --tls-ca"
            let message = Message.err(.syntax, text: text)
            context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(bytes: message.encoded)), promise: nil)
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

    /// Closing at once, with bytes of the peer's unread, would make the kernel throw our last message away.
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

/// Stands behind a connection's TLS: says once, in words of a closed set, why it could not be set up.
final class TLSWatch: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer

    private enum Phase {
        case handshaking
        case established
        case refused
    }

    private let entrance: TLSEntrance
    private let telemetry: ReceiverTelemetry
    private var phase = Phase.handshaking

    init(entrance: TLSEntrance, telemetry: ReceiverTelemetry) {
        self.entrance = entrance
        self.telemetry = telemetry
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted = event as? TLSUserEvent { self.phase = .established }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch self.phase {
        case .handshaking: self.refuse(error, context)
        case .established:
            // A peer that goes without TLS's goodbye has gone; everything that counts is acknowledged by itself.
            if case NIOSSLError.uncleanShutdown = error { return }
            let causes = BoringSSLReason.list(of: error)
            context.fireErrorCaught(causes.isEmpty ? error : TLSBreach(causes: causes))
        case .refused: return
        }
    }

    /// The handler behind has run out of patience: while the handshake is under way no message reaches the peer.
    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard case .handshaking = self.phase, mode == .output else {
            return context.close(mode: mode, promise: promise)
        }
        self.phase = .refused
        self.telemetry.tlsRefused(.timeout, detail: "", peer: Self.peer(context))
        context.close(mode: .all, promise: promise)
    }

    private func refuse(_ error: any Error, _ context: ChannelHandlerContext) {
        self.phase = .refused
        self.entrance.isRefused = true
        let causes = BoringSSLReason.list(of: error)
        let refusal = error as? TLSRefusal ?? TLSRefusal(causes, isValidNow: Self.isPeerValidNow(context))
        self.telemetry.tlsRefused(refusal, detail: causes, peer: Self.peer(context))
        context.fireErrorCaught(refusal)
    }

    private static func peer(_ context: ChannelHandlerContext) -> String {
        context.remoteAddress?.description ?? "unknown"
    }

    /// Whether now lies in the time of the peer's certificate, if it has shown one.
    private static func isPeerValidNow(_ context: ChannelHandlerContext) -> Bool {
        do {
            let handler = try context.pipeline.syncOperations.handler(type: NIOSSLServerHandler.self)
            guard let certificate = handler.peerCertificate else { return true }
            let now = POSIXClock().wallTime().milliseconds / 1000
            return Int64(certificate.notValidBefore) <= now && now <= Int64(certificate.notValidAfter)
        } catch {
            // The handler has left the pipeline, and what it knew went with it.
            return true
        }
    }
}

/// What came over an established TLS connection is no TLS.
private struct TLSBreach: Error, CustomStringConvertible {
    let causes: String

    var description: String { "TLS failed: \(self.causes)" }
}

/// Records of TLS.
///
/// - SeeAlso: RFC 8446, section 5.1.
enum TLSRecord {
    /// The type of the record that begins a connection, its first byte; no message of the line protocol begins so.
    static let handshake: UInt8 = 0x16
}
