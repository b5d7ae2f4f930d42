internal import NIOCore
internal import NIOHTTP1
internal import WaybillSystem

/// Answers one request and ends the connection; it ends without an answer after five seconds.
final class MetricsHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    private let page: MetricsServer.Page
    private let readiness: @Sendable () -> Readiness
    private let places: ConnectionPlaces
    private var deadline: Scheduled<Void>?
    private var isAnswered = false

    init(
        page: @escaping MetricsServer.Page, readiness: @escaping @Sendable () -> Readiness, places: ConnectionPlaces
    ) {
        self.page = page
        self.readiness = readiness
        self.places = places
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let channel = context.channel
        self.deadline = context.eventLoop.scheduleTask(in: .seconds(5)) { channel.close(promise: nil) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.deadline?.cancel()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // A body is ignored, and whatever follows an answer is not read.
        guard case .head(let head) = self.unwrapInboundIn(data), !self.isAnswered else { return }
        self.isAnswered = true
        self.places.asked(context.channel)
        let path = head.uri.prefix { $0 != "?" }
        guard path == "/metrics" || path == "/readyz" else {
            return self.answer(.notFound, "metrics are at /metrics, problems at /readyz\n", to: head, context)
        }
        guard head.method == .GET || head.method == .HEAD else {
            return self.answer(.methodNotAllowed, "\(path) is read with GET\n", to: head, context)
        }
        if path == "/readyz" {
            let readiness = self.readiness()
            return self.answer(readiness.isReady ? .ok : .serviceUnavailable, readiness.text, to: head, context)
        }
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        self.page(context.eventLoop).whenComplete { result in
            let (handler, context) = bound.value
            switch result {
            case .success(let page): handler.answer(.ok, page.text, to: head, context)
            case .failure(let error): handler.answer(.serviceUnavailable, "\(error)\n", to: head, context)
            }
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The pipeline has answered invalid HTTP with 400.
        context.close(promise: nil)
    }

    private func answer(
        _ status: HTTPResponseStatus, _ text: String, to head: HTTPRequestHead, _ context: ChannelHandlerContext
    ) {
        guard context.channel.isActive else { return }
        var headers = HTTPHeaders()
        headers.add(name: "Content-Type", value: Self.contentType)
        headers.add(name: "Content-Length", value: String(text.utf8.count))
        headers.add(name: "Connection", value: "close")
        if status == .methodNotAllowed { headers.add(name: "Allow", value: "GET, HEAD") }
        let response = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
        context.write(self.wrapOutboundOut(.head(response)), promise: nil)
        if head.method != .HEAD {
            context.write(self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: text)))), promise: nil)
        }
        let channel = context.channel
        context.writeAndFlush(self.wrapOutboundOut(.end(nil))).whenComplete { _ in channel.close(promise: nil) }
    }
}
