internal import NIOCore
internal import NIOTLS
internal import NIOWebSocket
internal import WaybillHost
internal import WaybillIngest
internal import WaybillSystem

/// One tunnel: what an agent sends in frames goes to the receiver, and what the receiver says goes back in frames.
///
///     connecting ── 101 ──▶ waiting ── READY ──▶ open ── the end of either side ──▶ ending ── the rest is sent, within 5 s ──▶ gone
///
/// It is confined to its event loop. One side is read only while the other takes what came: the door holds a write's
/// high-water mark each way. What the receiver said last is sent before Close.
final class Tunnel {
    private enum Phase {
        /// The agent has no answer to its handshake yet.
        case connecting
        /// `READY` is awaited.
        case waiting
        case open
        case ending
    }

    /// How other threads reach a tunnel.
    struct Handle: Sendable {
        fileprivate let tunnel: NIOLoopBound<Tunnel>
        fileprivate let eventLoop: any EventLoop

        func end(_ end: Tunnels.End) {
            self.eventLoop.execute { self.tunnel.value.end(end) }
        }
    }

    private let tunnels: Tunnels
    private let address: AddressGroup
    private var phase = Phase.connecting
    private var agent: ChannelHandlerContext?
    private var receiver: ChannelHandlerContext?
    /// The first bytes that the receiver said, until they show whether it lets the agent in.
    private var answer: [UInt8]? = []
    private var heardAt: NIODeadline
    let eventLoop: any EventLoop
    /// What the receiver said before the agent had its answer.
    private var early: [ByteBuffer] = []

    /// Of one read of the receiver, at most; what a channel has read into stays allocated, and answers are short.
    static let readByteCount = 16 << 10
    /// The longest frame that is taken, in bytes.
    static let frameByteCountMax = 64 << 10
    static var waterMark: ChannelOptions.Types.WriteBufferWaterMark { .init(low: 16 << 10, high: 48 << 10) }
    /// A receiver says something at least each third of `idle_ms`, which is 30 s.
    private static let silence = TimeAmount.minutes(5)
    /// Ten seconds for `HELLO`, as at the receiver, and the way there and back.
    private static let handshake = TimeAmount.seconds(15)
    /// How long the end of one side may take to end the other.
    private static let farewell = TimeAmount.seconds(5)
    /// A receiver says why it ends a connection, but to a proxy that it does not know.
    private static var unlisted: String {
        "it closes the connection without a word: its receiver.proxied.from does not list the door's address, or the "
            + "address is not that of receiver.proxied.listen"
    }
    private static var ready: [UInt8] { Array("READY ".utf8) }

    init(_ tunnels: Tunnels, _ address: AddressGroup, on eventLoop: any EventLoop) {
        self.tunnels = tunnels
        self.address = address
        self.eventLoop = eventLoop
        self.heardAt = eventLoop.now
    }

    var handle: Handle {
        Handle(tunnel: NIOLoopBound(self, eventLoop: self.eventLoop), eventLoop: self.eventLoop)
    }

    // MARK: The two sides

    /// The receiver's side is connected.
    func joined(receiver context: ChannelHandlerContext) { self.receiver = context }

    /// The agent has its answer: both sides are there.
    func joined(agent context: ChannelHandlerContext) {
        self.agent = context
        guard !self.isEnding else { return context.close(promise: nil) }
        self.phase = .waiting
        self.tunnels.opened(self)
        self.watch(Self.handshake)
        for bytes in self.early { self.said(bytes) }
        self.early = []
        context.flush()
        // The agent need not wait for its answer.
        self.receiver?.flush()
        // It was there before, and is gone.
        guard self.receiver != nil else { return self.end(.receiver, .normalClosure) }
        context.read()
        self.receiver?.read()
    }

    /// Ends a tunnel that has heard nothing for too long.
    private func watch(_ pause: TimeAmount) {
        let handle = self.handle
        self.eventLoop.scheduleTask(in: pause) {
            let tunnel = handle.tunnel.value
            switch tunnel.phase {
            case .connecting, .ending: break
            case .waiting: tunnel.end(.handshake)
            case .open where handle.eventLoop.now - tunnel.heardAt >= Self.silence: tunnel.end(.silence)
            case .open: tunnel.watch(Self.silence)
            }
        }
    }

    // MARK: From the agent

    func sent(_ bytes: ByteBuffer) {
        guard let receiver, !self.isEnding else { return }
        self.tunnels.sentBytes.add(bytes.readableBytes, ordering: .relaxed)
        receiver.write(NIOAny(bytes), promise: nil)
    }

    func sentAll() {
        self.receiver?.flush()
        self.readAgent()
    }

    private func readAgent() {
        guard let agent else { return }
        // While it ends, what comes is read and dropped, up to its Close.
        guard self.isEnding || self.receiver?.channel.isWritable ?? false else { return }
        agent.read()
    }

    // MARK: From the receiver

    func said(_ bytes: ByteBuffer) {
        guard let agent else { return self.early.append(bytes) }
        self.heardAt = self.eventLoop.now
        if let answer = self.answer { self.judge(answer + bytes.readableBytesView.prefix(Self.ready.count)) }
        guard !self.isEnding else { return }
        self.tunnels.receivedBytes.add(bytes.readableBytes, ordering: .relaxed)
        agent.write(NIOAny(WebSocketFrame(fin: true, opcode: .binary, data: bytes)), promise: nil)
    }

    private func judge(_ answer: [UInt8]) {
        guard answer.count >= Self.ready.count else {
            self.answer = answer
            return
        }
        self.answer = nil
        self.tunnels.reached()
        guard answer.starts(with: Self.ready), case .waiting = self.phase else { return }
        self.phase = .open
        self.tunnels.stoppedWaiting(self.address)
    }

    func saidAll() {
        self.agent?.flush()
        self.readReceiver()
    }

    private func readReceiver() {
        guard let agent, agent.channel.isWritable else { return }
        self.receiver?.read()
    }

    /// One side takes bytes again, or does not.
    func writabilityChanged() {
        self.readAgent()
        self.readReceiver()
    }

    // MARK: Ends

    var isEnding: Bool { if case .ending = self.phase { true } else { false } }

    /// Gives its place back.
    private func leave() {
        switch self.phase {
        case .connecting, .waiting: self.tunnels.stoppedWaiting(self.address)
        case .open, .ending: break
        }
        self.phase = .ending
        self.tunnels.leave()
    }

    /// The agent has no answer, and gets none from here: its place is given back.
    func abandon() {
        guard !self.isEnding else { return }
        self.leave()
        self.receiver?.close(promise: nil)
    }

    /// Ends both sides: what was written is sent first, as far as the other end takes it.
    ///
    /// - Parameters:
    ///   - code: what the agent is told.
    ///   - isAnswer: whether the agent has said Close itself.
    func end(_ end: Tunnels.End, _ code: WebSocketErrorCode = .goingAway, isAnswer: Bool = false) {
        guard !self.isEnding else { return }
        guard let agent else { return self.abandon() }
        self.leave()
        self.tunnels.ended(self, end)
        let channel = agent.channel
        let said = agent.eventLoop.makePromise(of: Void.self)
        var data = channel.allocator.buffer(capacity: 2)
        data.write(webSocketErrorCode: code)
        let close = WebSocketFrame(fin: true, opcode: .connectionClose, data: data)
        agent.writeAndFlush(NIOAny(close), promise: said)
        if isAnswer { said.futureResult.whenComplete { _ in channel.close(promise: nil) } }
        let other = self.receiver?.channel
        // Closed once everything that was written to it is sent.
        if let other { other.writeAndFlush(ByteBuffer()).whenComplete { _ in other.close(promise: nil) } }
        self.eventLoop.scheduleTask(in: Self.farewell) {
            channel.close(promise: nil)
            other?.close(promise: nil)
        }
        // Up to the agent's own Close.
        self.readAgent()
    }

    /// The agent has said Close, or answered it.
    func agentClosed() {
        guard self.isEnding else { return self.end(.agent, .normalClosure, isAnswer: true) }
        self.agent?.close(promise: nil)
    }

    func agentLeft() {
        self.end(.agent)
        self.agent = nil
    }

    func receiverLeft() {
        if case .connecting = self.phase, self.early.isEmpty { self.tunnels.away(Self.unlisted) }
        if case .waiting = self.phase, self.answer?.isEmpty ?? false { self.tunnels.away(Self.unlisted) }
        self.receiver = nil
        if self.agent != nil { self.end(.receiver, .normalClosure) }
    }
}

/// The agent's side of a tunnel: judges frames.
final class TunnelHandler: ChannelInboundHandler {
    typealias InboundIn = WebSocketFrame
    typealias OutboundOut = WebSocketFrame

    private let tunnel: Tunnel
    private var context: ChannelHandlerContext?
    /// Whether a message continues in the next frame.
    private var isInFragments = false
    /// Control frames of the present second.
    private var controls = (count: 0, since: NIODeadline.uptimeNanoseconds(0))
    private static let controlCountMax = 16

    init(_ tunnel: Tunnel) {
        self.tunnel = tunnel
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
    }

    /// The other handlers are there, too.
    func begin() {
        if let context { self.tunnel.joined(agent: context) }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = self.unwrapInboundIn(data)
        // After Close nothing is said, and the agent's own is awaited.
        guard !self.tunnel.isEnding || frame.opcode == .connectionClose else { return }
        guard frame.maskKey != nil, !frame.rsv1, !frame.rsv2, !frame.rsv3 else {
            return self.tunnel.end(.frames, .protocolError)
        }
        switch frame.opcode {
        case .binary where !self.isInFragments, .continuation where self.isInFragments:
            self.isInFragments = !frame.fin
            self.tunnel.sent(frame.unmaskedData)
        case .binary, .continuation: self.tunnel.end(.frames, .protocolError)
        case .text: self.tunnel.end(.frames, .unacceptableData)
        case .connectionClose: self.tunnel.agentClosed()
        case .ping, .pong: self.control(frame, context)
        default: self.tunnel.end(.frames, .protocolError)
        }
    }

    private func control(_ frame: WebSocketFrame, _ context: ChannelHandlerContext) {
        let now = context.eventLoop.now
        if now - self.controls.since >= .seconds(1) { self.controls = (0, now) }
        self.controls.count += 1
        guard self.controls.count <= Self.controlCountMax else { return self.tunnel.end(.frames, .policyViolation) }
        guard frame.opcode == .ping else { return }
        let pong = WebSocketFrame(fin: true, opcode: .pong, data: frame.unmaskedData)
        context.writeAndFlush(self.wrapOutboundOut(pong), promise: nil)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        self.tunnel.sentAll()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.tunnel.writabilityChanged()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        // The agent has closed its side without Close.
        if case .some(.inputClosed) = event as? ChannelEvent { context.close(promise: nil) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error as? NIOWebSocketError {
        case .invalidFrameLength: self.tunnel.end(.frames, .messageTooLarge)
        case .some: self.tunnel.end(.frames, .protocolError)
        case nil: context.close(promise: nil)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.tunnel.agentLeft()
        self.context = nil
        context.fireChannelInactive()
    }
}

/// The receiver's side of a tunnel.
final class ReceiverHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let tunnel: Tunnel
    /// The identity that the receiver must prove; `nil` without TLS.
    private let peer: TLSPeer?
    /// Succeeds once the receiver has proven its name, or need not.
    private let established: EventLoopPromise<Void>
    private var isEstablished = false

    init(_ tunnel: Tunnel, peer: TLSPeer?, established: EventLoopPromise<Void>) {
        self.tunnel = tunnel
        self.peer = peer
        self.established = established
    }

    func channelActive(context: ChannelHandlerContext) {
        if self.peer == nil { self.establish(context) } else { context.read() }
        context.fireChannelActive()
    }

    private func establish(_ context: ChannelHandlerContext) {
        self.isEstablished = true
        self.tunnel.joined(receiver: context)
        self.established.succeed()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let peer, case .handshakeCompleted = event as? TLSUserEvent {
            if peer.isNamed(on: context.pipeline.syncOperations) {
                self.establish(context)
            } else {
                self.established.fail(DoorFailure(description: peer.wrongHost))
                context.close(promise: nil)
            }
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.tunnel.said(self.unwrapInboundIn(data))
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if self.isEstablished { self.tunnel.saidAll() } else { context.read() }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.tunnel.writabilityChanged()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        let reason = self.peer.flatMap {
            $0.reason(
                of: error, on: context.pipeline.syncOperations, isEstablished: self.isEstablished,
                otherwise: "\(error)")
        }
        self.established.fail(DoorFailure(description: reason ?? "\(error)"))
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.established.fail(DoorFailure(description: "the receiver closed the connection"))
        if self.isEstablished { self.tunnel.receiverLeft() }
        context.fireChannelInactive()
    }
}
