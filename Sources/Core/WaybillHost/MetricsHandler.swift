internal import NIOCore
internal import NIOHTTP1
internal import WaybillSystem

/// Answers one request and ends the connection; it ends without an answer after five seconds, or ten for `/status`.
final class MetricsHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private enum Path: String {
        case metrics = "/metrics"
        case live = "/livez"
        case ready = "/readyz"
        case status = "/status"
    }

    private static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    private let answers: MetricsAnswers
    /// `nil` where everyone who can connect may ask for everything.
    private let access: StatusAccess?
    private let places: ConnectionPlaces
    private var deadline: Scheduled<Void>?
    private var isAnswered = false

    init(_ answers: MetricsAnswers, access: StatusAccess?, places: ConnectionPlaces) {
        self.answers = answers
        self.access = access
        self.places = places
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.setDeadline(in: .seconds(5), context)
    }

    private func setDeadline(in time: TimeAmount, _ context: ChannelHandlerContext) {
        let channel = context.channel
        self.deadline?.cancel()
        self.deadline = context.eventLoop.scheduleTask(in: time) { channel.close(promise: nil) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.deadline?.cancel()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // A body is ignored, and whatever follows an answer is not read.
        guard case .head(let head) = self.unwrapInboundIn(data), !self.isAnswered else { return }
        self.isAnswered = true
        self.places.change(context.channel) { $0.asked($1) }
        guard let path = Path(rawValue: String(head.uri.prefix { $0 != "?" })) else {
            let text =
                "metrics are at /metrics, problems at /readyz, whether the program works at /livez, all at /status\n"
            return self.answer(.notFound, text, to: head, context)
        }
        guard head.method == .GET || head.method == .HEAD else {
            return self.answer(.methodNotAllowed, "\(path.rawValue) is read with GET\n", to: head, context)
        }
        switch path {
        case .metrics:
            self.answer(self.answers.page(context.eventLoop), to: head, context) { (.ok, $0.text) }
        case .live:
            self.answer(self.answers.liveness(context.eventLoop), to: head, context) { (.ok, "alive\n") }
        case .ready:
            self.answer(self.answers.readiness(context.eventLoop), to: head, context) {
                ($0.isReady ? .ok : .serviceUnavailable, $0.text)
            }
        case .status: self.answerStatus(head, context)
        }
    }

    /// Answers once the future has a value; 503 if it fails.
    private func answer<Value: Sendable>(
        _ future: EventLoopFuture<Value>, to head: HTTPRequestHead, _ context: ChannelHandlerContext,
        _ text: @escaping @Sendable (Value) -> (HTTPResponseStatus, String)
    ) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        future.hop(to: context.eventLoop).whenComplete { result in
            let (handler, context) = bound.value
            switch result {
            case .success(let value):
                let (status, text) = text(value)
                handler.answer(status, text, to: head, context)
            case .failure(let error): handler.answer(.serviceUnavailable, "\(error)\n", to: head, context)
            }
        }
    }

    private func answerStatus(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        do throws(StatusAccess.Refusal) {
            try self.access?.check(
                isLoopback: LocalRequest.isLoopback(context.channel.remoteAddress), hosts: head.headers["Host"],
                authorizations: head.headers["Authorization"])
        } catch {
            return self.answer(error == .token ? .unauthorized : .forbidden, error.text, to: head, context)
        }
        let query = head.uri.drop { $0 != "?" }.dropFirst()
        var position: Int?
        if !query.isEmpty {
            let digits = query.dropFirst(6)
            guard query.hasPrefix("after="), digits.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), let after = Int(digits)
            else {
                return self.answer(.badRequest, "write /status?after=POSITION, a number of bytes\n", to: head, context)
            }
            position = after
        }
        self.setDeadline(in: .seconds(10), context)
        guard let answer = self.answers.status(position, context.channel) else {
            return self.answer(.serviceUnavailable, "too many wait for the status; ask later\n", to: head, context)
        }
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        answer.hop(to: context.eventLoop).whenComplete { result in
            let (handler, context) = bound.value
            switch result {
            case .success(let json):
                handler.answer(
                    .ok, String(decoding: json, as: UTF8.self) + "\n", type: "application/json", to: head, context)
            case .failure(let error): handler.answer(.serviceUnavailable, "\(error)\n", to: head, context)
            }
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The pipeline has answered invalid HTTP with 400.
        context.close(promise: nil)
    }

    private func answer(
        _ status: HTTPResponseStatus, _ text: String, type: String = contentType, to head: HTTPRequestHead,
        _ context: ChannelHandlerContext
    ) {
        guard context.channel.isActive else { return }
        // A peer that does not read keeps no other out.
        self.places.change(context.channel) { $0.rested($1) }
        var headers = HTTPHeaders()
        headers.add(name: "Content-Type", value: type)
        headers.add(name: "Content-Length", value: String(text.utf8.count))
        headers.add(name: "Connection", value: "close")
        if status == .methodNotAllowed { headers.add(name: "Allow", value: "GET, HEAD") }
        if status == .unauthorized { headers.add(name: "WWW-Authenticate", value: "Bearer realm=\"waybill\"") }
        let response = HTTPResponseHead(version: .http1_1, status: status, headers: headers)
        context.write(self.wrapOutboundOut(.head(response)), promise: nil)
        if head.method != .HEAD {
            context.write(self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: text)))), promise: nil)
        }
        let channel = context.channel
        context.writeAndFlush(self.wrapOutboundOut(.end(nil))).whenComplete { _ in channel.close(promise: nil) }
    }
}
