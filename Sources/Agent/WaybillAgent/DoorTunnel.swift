internal import NIOCore
internal import NIOHTTP1
internal import NIOWebSocket
internal import WaybillJSON
internal import WaybillSystem

/// Asks the door of a connection for a tunnel; an outbound event.
struct TunnelRequest: Hashable, Sendable {}

/// The door has opened the tunnel; an inbound event.
struct TunnelOpened: Hashable, Sendable {}

/// Why a door opens no tunnel, for people.
struct TunnelFailure: Error, Hashable, CustomStringConvertible {
    let description: String
}

/// The handshake of a tunnel: `GET v1/line`, upgraded to a WebSocket.
///
///     TunnelRequest ─▶ GET ─▶ 101 ─▶ frames in the place of HTTP, TunnelOpened
///                              └─ any other answer, or none in time: closed, with the door's reason
///
/// - SeeAlso: `Protocol/protocol.md`, section 21; RFC 6455, section 4.
final class TunnelHandshake: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = HTTPClientRequestPart

    private enum Phase {
        case idle
        case asked
        /// The answer is 101, and its end is awaited: what follows it are frames.
        case accepted
        /// Another answer than 101, whose body is read as far as it is short.
        case refused(status: Int, body: [UInt8])
        case ended
    }

    private let door: DoorAddress
    private let upgrader: NIOWebSocketClientUpgrader
    private let encoder = HTTPRequestEncoder()
    private let decoder = ByteToMessageHandler(HTTPResponseDecoder(leftOverBytesStrategy: .forwardBytes))
    private var phase = Phase.idle
    private var deadline: Scheduled<Void>?

    private static let timeout = TimeAmount.seconds(15)
    private static let bodyByteCountMax = 4 << 10

    init(_ door: DoorAddress) {
        self.door = door
        self.upgrader = NIOWebSocketClientUpgrader(
            maxFrameSize: TunnelFrames.byteCountMax, automaticErrorHandling: false,
            upgradePipelineHandler: { channel, _ in channel.eventLoop.makeSucceededVoidFuture() })
    }

    /// Adds it and what it needs.
    func add(to pipeline: ChannelPipeline.SynchronousOperations) throws {
        try pipeline.addHandlers(self.encoder, self.decoder, self)
    }

    func triggerUserOutboundEvent(
        context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?
    ) {
        guard event is TunnelRequest else {
            return context.triggerUserOutboundEvent(event, promise: promise)
        }
        promise?.succeed()
        self.phase = .asked
        var headers = HTTPHeaders([
            ("Host", self.door.host), ("Upgrade", "websocket"), ("Connection", "Upgrade"), ("User-Agent", "waybill/1"),
        ])
        self.upgrader.addCustom(upgradeRequestHeaders: &headers)
        let head = HTTPRequestHead(version: .http1_1, method: .GET, uri: self.door.linePath, headers: headers)
        context.write(self.wrapOutboundOut(.head(head)), promise: nil)
        context.writeAndFlush(self.wrapOutboundOut(.end(nil)), promise: nil)
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        self.deadline = context.eventLoop.scheduleTask(in: Self.timeout) {
            let (handler, context) = bound.value
            handler.fail("no answer to the request for a tunnel in time", context)
        }
        context.read()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch (self.unwrapInboundIn(data), self.phase) {
        case (.head(let head), .asked):
            if head.status == .switchingProtocols, self.upgrader.shouldAllowUpgrade(upgradeResponse: head) {
                self.phase = .accepted
                return
            }
            self.phase = .refused(status: Int(head.status.code), body: [])
        case (.body(let bytes), .refused(let status, let body)):
            let more = bytes.readableBytesView.prefix(Self.bodyByteCountMax - body.count)
            self.phase = .refused(status: status, body: body + more)
        case (.end, .accepted): self.open(context)
        case (.end, .refused(let status, let body)): self.fail(TunnelAnswer.text(status, body), context)
        case (.head, _), (.body, _), (.end, _): break
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if case .ended = self.phase { return context.fireChannelReadComplete() }
        context.read()
    }

    func channelInactive(context: ChannelHandlerContext) {
        if case .refused(let status, let body) = self.phase { self.fail(TunnelAnswer.text(status, body), context) }
        self.deadline?.cancel()
        self.phase = .ended
        context.fireChannelInactive()
    }

    private func open(_ context: ChannelHandlerContext) {
        self.phase = .ended
        self.deadline?.cancel()
        let pipeline = context.pipeline.syncOperations
        do {
            try pipeline.addHandlers(
                WebSocketFrameEncoder(),
                ByteToMessageHandler(WebSocketFrameDecoder(maxFrameSize: TunnelFrames.byteCountMax)),
                TunnelFrames(), position: .after(self))
        } catch {
            return self.fail("\(error)", context)
        }
        let channel = context.channel
        pipeline.removeHandler(self, promise: nil)
        pipeline.removeHandler(self.encoder, promise: nil)
        // The last to go: it hands on what came after the answer, and until then it looks at what is written.
        pipeline.removeHandler(self.decoder).whenComplete { _ in
            channel.pipeline.fireUserInboundEventTriggered(TunnelOpened())
        }
    }

    private func fail(_ text: String, _ context: ChannelHandlerContext) {
        self.phase = .ended
        self.deadline?.cancel()
        context.fireErrorCaught(TunnelFailure(description: text))
    }
}

/// What a tunnel's end sends in one frame.
package enum TunnelMessage {
    /// The most bytes; a door takes no frame above 64 KiB.
    package static let byteCountMax = 32 << 10
}

/// Answers of a door that opens no tunnel.
package enum TunnelAnswer {
    /// What an answer other than 101 means, for people.
    ///
    /// - Parameter body: empty if it is not known.
    package static func text(_ status: Int, _ body: [UInt8] = []) -> String {
        if let cause = JSONValue(body)?["cause"]?.string { return "the door answers \(status): \(cause)" }
        return
            "the answer to the request for a tunnel is \(status): the door is busy, something else is at this address, "
            + "or a proxy in front of the door does not pass Upgrade"
    }
}

/// Bytes as frames, and frames as bytes.
final class TunnelFrames: ChannelDuplexHandler {
    typealias InboundIn = WebSocketFrame
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = WebSocketFrame

    /// The longest frame, in bytes; a door takes no longer ones.
    static let byteCountMax = 64 << 10

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        var bytes = self.unwrapOutboundIn(data)
        while let piece = bytes.readSlice(length: min(bytes.readableBytes, TunnelMessage.byteCountMax)) {
            let frame = WebSocketFrame(fin: true, opcode: .binary, maskKey: .random(), data: piece)
            let isLast = bytes.readableBytes == 0
            context.write(self.wrapOutboundOut(frame), promise: isLast ? promise : nil)
            if isLast { return }
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = self.unwrapInboundIn(data)
        switch frame.opcode {
        case .binary, .continuation: context.fireChannelRead(self.wrapInboundOut(frame.data))
        case .ping:
            let pong = WebSocketFrame(fin: true, opcode: .pong, maskKey: .random(), data: frame.data)
            context.writeAndFlush(self.wrapOutboundOut(pong), promise: nil)
        case .pong: break
        case .connectionClose:
            var data = frame.data
            let code = data.readWebSocketErrorCode()
            let answer = WebSocketFrame(fin: true, opcode: .connectionClose, maskKey: .random(), data: frame.data)
            let channel = context.channel
            let sent = context.eventLoop.makePromise(of: Void.self)
            sent.futureResult.whenComplete { _ in channel.close(promise: nil) }
            context.writeAndFlush(self.wrapOutboundOut(answer), promise: sent)
            if let code, code != .normalClosure, code != .goingAway {
                let number = UInt16(webSocketErrorCode: code)
                context.fireErrorCaught(TunnelFailure(description: "the door closed the tunnel (\(number))"))
            }
        default: context.fireErrorCaught(TunnelFailure(description: "the door sent a frame that no tunnel has"))
        }
    }
}
