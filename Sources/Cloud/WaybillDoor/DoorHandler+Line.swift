internal import NIOCore
internal import NIOHTTP1
internal import NIOWebSocket
internal import WaybillHost
internal import WaybillJSON
internal import WaybillProtocol
internal import WaybillSystem

/// Requests of agents for a tunnel to the receiver: `GET /v1/line`, upgraded to a WebSocket.
extension DoorHandler {
    private static let linePath = "/v1/line"

    /// - Returns: whether the request is for a tunnel, and was taken or refused.
    func takeLine(_ head: HTTPRequestHead, path: Substring, _ context: ChannelHandlerContext) -> Bool {
        guard path == Self.linePath, let tunnels = self.door.tunnels else { return false }
        guard head.method == .GET else {
            self.refuse(.method, head, context, [("Allow", "GET")])
            return true
        }
        guard !head.headers.contains(name: "origin") else {
            self.refuse(.origin, tunnels, head, context)
            return true
        }
        // Frames and their handlers are added here; of the upgrader, the handshake alone is used.
        let handshake = NIOWebSocketServerUpgrader(
            shouldUpgrade: { channel, _ in channel.eventLoop.makeSucceededFuture(HTTPHeaders()) },
            upgradePipelineHandler: { channel, _ in channel.eventLoop.makeSucceededVoidFuture() })
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        handshake.buildUpgradeResponse(
            channel: context.channel, upgradeRequest: head, initialResponseHeaders: HTTPHeaders()
        ).whenComplete { result in
            let handler = bound.value
            guard let context = handler.context else { return }
            switch result {
            case .success(let headers) where Self.asksForUpgrade(head): handler.await(tunnels, head, headers)
            case .success, .failure: handler.refuse(.handshake, tunnels, head, context)
            }
        }
        return true
    }

    private static func asksForUpgrade(_ head: HTTPRequestHead) -> Bool {
        let tokens = { (name: String) in head.headers[canonicalForm: name].map { $0.lowercased() } }
        // Sixteen bytes in base64 (RFC 6455, 4.1).
        let key = head.headers["sec-websocket-key"]
        let hasBody = head.headers.contains { name, value in
            let name = name.lowercased()
            return name == "transfer-encoding" || name == "content-length" && value != "0"
        }
        return head.version == .http1_1 && !hasBody && tokens("upgrade").contains("websocket")
            && tokens("connection").contains("upgrade") && key.count == 1 && key[0].utf8.count == 24
    }

    func open(
        _ tunnels: Tunnels, _ head: HTTPRequestHead, _ headers: HTTPHeaders, _ context: ChannelHandlerContext
    ) {
        let address = self.door.address(of: self.peer, head.headers, self.door.settings)
        let group = AddressGroup(address)
        do throws(Tunnels.Refusal) {
            try tunnels.enter(group)
        } catch {
            return self.refuse(error, tunnels, head, context)
        }
        let eventLoop = context.eventLoop
        let tunnel = Tunnel(tunnels, group, on: eventLoop)
        let bound = NIOLoopBound((self, tunnel), eventLoop: eventLoop)
        tunnels.connect(for: self.header(address, context), tunnel).whenComplete { result in
            // A socket connects at once: the request is still being read then.
            eventLoop.execute {
                let (handler, tunnel) = bound.value
                handler.connected(result, tunnel, tunnels, head, headers)
            }
        }
    }

    private func connected(
        _ result: Result<Void, any Error>, _ tunnel: Tunnel, _ tunnels: Tunnels, _ head: HTTPRequestHead,
        _ headers: HTTPHeaders
    ) {
        guard let context else { return tunnel.abandon() }
        switch result {
        case .success: self.upgrade(tunnel, head, headers, context)
        case .failure:
            tunnel.abandon()
            self.refuse(.unreachable, tunnels, head, context)
        }
    }

    /// What the receiver is told about an agent's address; `nil`: a proxy named none.
    private func header(_ address: String?, _ context: ChannelHandlerContext) -> ProxyHeader {
        // A proxy names no port.
        let port = address == self.peer ? context.channel.remoteAddress?.port ?? 0 : 0
        do {
            let source = try address.map { try SocketAddress(ipAddress: $0, port: port) }
            return ProxyHeader(source: source.map { .address($0) } ?? .proxy, software: ProxyHeader.door)
        } catch {
            return ProxyHeader(source: .proxy, software: ProxyHeader.door)
        }
    }

    /// Answers the handshake, and puts frames in the place of requests.
    private func upgrade(
        _ tunnel: Tunnel, _ head: HTTPRequestHead, _ headers: HTTPHeaders, _ context: ChannelHandlerContext
    ) {
        let handler = TunnelHandler(tunnel)
        let pipeline = context.pipeline.syncOperations
        do {
            try context.channel.syncOptions?.setOption(.autoRead, value: false)
            try context.channel.syncOptions?.setOption(.writeBufferWaterMark, value: Tunnel.waterMark)
            let answer = HTTPResponseHead(version: head.version, status: .switchingProtocols, headers: headers)
            context.writeAndFlush(self.wrapOutboundOut(.head(answer)), promise: nil)
            try pipeline.addHandlers(
                WebSocketFrameEncoder(),
                ByteToMessageHandler(WebSocketFrameDecoder(maxFrameSize: Tunnel.frameByteCountMax)), handler)
        } catch {
            tunnel.abandon()
            return context.close(promise: nil)
        }
        // The decoder is the last to go: it hands on what came after the request.
        for http in self.http.reversed() { pipeline.removeHandler(http, promise: nil) }
        pipeline.removeHandler(self, promise: nil)
        let bound = NIOLoopBound(handler, eventLoop: context.eventLoop)
        pipeline.removeHandler(self.decoder).whenComplete { _ in bound.value.begin() }
    }

    func refuse(
        _ refusal: Tunnels.Refusal, _ tunnels: Tunnels, _ head: HTTPRequestHead, _ context: ChannelHandlerContext
    ) {
        tunnels.refused(refusal)
        self.discard()
        let body = JSONWriter.object { json in
            json.member("code", refusal.code)
            json.member("cause", refusal.text)
        }
        self.write(refusal.status, body, head, context, refusal.headers, isAllRead: false)
    }
}

extension Tunnels.Refusal {
    fileprivate var status: Int {
        switch self {
        case .origin: 403
        case .handshake: 426
        case .share: 429
        case .full, .unreachable, .stopping: 503
        }
    }

    fileprivate var code: String {
        switch self {
        case .origin: ErrorCode.notAllowed.rawValue
        case .handshake: ErrorCode.syntax.rawValue
        case .full, .share, .unreachable, .stopping: ErrorCode.unavailable.rawValue
        }
    }

    /// For people, with what to do.
    fileprivate var text: String {
        switch self {
        case .origin: "pages of browsers get no tunnel; they use a write key and the paths of SDKs"
        case .handshake: "this path takes WebSocket connections alone; a proxy in front of the door must pass Upgrade"
        case .full: "the door has as many tunnels as it may; connect again later"
        case .share: "this address has as many tunnels without READY as it may; connect again later"
        case .unreachable: "the receiver cannot be reached; connect again later"
        case .stopping: "the door stops; connect again"
        }
    }

    fileprivate var headers: [(String, String)] {
        switch self {
        case .origin: []
        case .handshake: [("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")]
        case .full, .share, .unreachable, .stopping: [("Retry-After", "5")]
        }
    }
}
