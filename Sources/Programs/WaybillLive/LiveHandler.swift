internal import CWaybillTexts
internal import NIOCore
internal import NIOHTTP1
internal import WaybillHost
internal import WaybillJSON
internal import WaybillSystem

/// Answers one request and ends the connection; a stream continues until one side ends it.
final class LiveHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private static let bodyByteCountMax = 4096

    private enum Phase {
        case head
        /// The body of `POST /api/session`.
        case body([UInt8])
        case answered
        case streaming
    }

    private let shared: LiveShared
    private let places: ConnectionPlaces
    private let number: Int
    private var phase = Phase.head
    private var deadline: Scheduled<Void>?
    private var beat: RepeatedTask?
    private var context: ChannelHandlerContext?

    init(_ shared: LiveShared, places: ConnectionPlaces) {
        self.shared = shared
        self.places = places
        self.number = shared.nextNumber()
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        self.setDeadline(in: .seconds(10), context)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.context = nil
        self.deadline?.cancel()
        self.beat?.cancel()
        self.shared.inbox.add(.closed(self.number))
        context.fireChannelInactive()
    }

    private func setDeadline(in time: TimeAmount, _ context: ChannelHandlerContext) {
        let channel = context.channel
        self.deadline?.cancel()
        self.deadline = context.eventLoop.scheduleTask(in: time) { channel.close(promise: nil) }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch (self.unwrapInboundIn(data), self.phase) {
        case (.head(let head), .head): self.take(head, context)
        case (.body(let bytes), .body(let body)):
            guard body.count + bytes.readableBytes <= Self.bodyByteCountMax else {
                return self.refuse(Access.Refusal(413, "a token is shorter than that"), context)
            }
            self.phase = .body(body + bytes.readableBytesView)
        case (.end, .body(let body)): self.openSession(body, context)
        // Other bodies are ignored, and whatever follows an answer is not read.
        case (.head, _), (.body, _), (.end, _): break
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The pipeline has answered invalid HTTP with 400.
        context.close(promise: nil)
    }

    // MARK: Requests

    private func take(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        let request = RequestHead(
            method: head.method.rawValue, uri: head.uri, headers: head.headers.map { ($0.name, $0.value) })
        self.phase = .answered
        do throws(Access.Refusal) {
            try self.shared.access.check(request)
            if request.method == "POST" {
                self.phase = .body([])
                return
            }
            if let file = PageFile.all.first(where: { $0.path == request.path }) {
                return self.answer(file, request, context)
            }
            guard self.shared.access.admits(request) else {
                throw Access.Refusal(
                    401,
                    "show the token: open the address that waybill live printed, or send Authorization: Bearer TOKEN")
            }
            self.ask(try LiveQuestion(request), context)
        } catch {
            self.refuse(error, context)
        }
    }

    private func openSession(_ body: [UInt8], _ context: ChannelHandlerContext) {
        guard let token = JSONValue(body)?["token"]?.string, let cookie = self.shared.access.cookie(for: token) else {
            return self.refuse(
                Access.Refusal(401, "this is not the token that this server printed at its start"), context)
        }
        self.phase = .answered
        self.write(200, [("Content-Type", "application/json"), ("Set-Cookie", cookie)], Array("{}".utf8), context)
    }

    /// - Parameter question: of who has shown the token; so only such connections keep their places while they are answered.
    private func ask(_ question: LiveQuestion, _ context: ChannelHandlerContext) {
        self.places.change(context.channel) { $0.asked($1) }
        // The answer may take as long as the receiver's.
        self.setDeadline(in: .seconds(60), context)
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        let reply: @Sendable (LiveAnswer) -> Void = { answer in
            eventLoop.execute {
                guard let context = bound.value.context else { return }
                bound.value.write(
                    answer.status, [("Content-Type", answer.contentType)], answer.body, context)
            }
        }
        switch question {
        case .stream:
            let sink = ChannelSink(handler: bound, eventLoop: eventLoop)
            self.shared.inbox.add(.open(self.number, question, sink, refuse: reply))
        case .report(let parameters):
            self.deadline?.cancel()
            self.shared.report(parameters, reply: reply)
        case .status, .events, .eventAt, .eventNamed, .person, .names, .refusals:
            self.shared.inbox.add(.ask(question, reply: reply))
        }
    }

    // MARK: Answers

    private func answer(_ file: PageFile, _ request: RequestHead, _ context: ChannelHandlerContext) {
        // A browser keeps the file, and asks whether it is still the same.
        let headers = [("Content-Type", file.contentType), ("ETag", file.tag), ("Cache-Control", "no-cache")]
        guard !request.values("if-none-match").contains(file.tag) else { return self.write(304, headers, nil, context) }
        self.write(200, headers, file.bytes, context)
    }

    private func refuse(_ refusal: Access.Refusal, _ context: ChannelHandlerContext) {
        self.phase = .answered
        let answer = LiveAnswer(refusal)
        var headers = [("Content-Type", answer.contentType)]
        if refusal.status == 405 { headers.append(("Allow", "GET")) }
        self.write(answer.status, headers, answer.body, context)
    }

    private func write(
        _ status: Int, _ headers: [(String, String)], _ body: [UInt8]?, _ context: ChannelHandlerContext
    ) {
        guard context.channel.isActive else { return }
        // A peer that does not read is not waited for, and gives its place to the next.
        self.setDeadline(in: .seconds(30), context)
        self.places.change(context.channel) { $0.rested($1) }
        var all = self.headers(headers)
        if let body { all.add(name: "Content-Length", value: String(body.count)) }
        let head = HTTPResponseHead(version: .http1_1, status: .init(statusCode: status), headers: all)
        context.write(self.wrapOutboundOut(.head(head)), promise: nil)
        if let body { context.write(self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: body)))), promise: nil) }
        let channel = context.channel
        context.writeAndFlush(self.wrapOutboundOut(.end(nil))).whenComplete { _ in channel.close(promise: nil) }
    }

    private func headers(_ own: [(String, String)]) -> HTTPHeaders {
        var headers = HTTPHeaders()
        for (name, value) in own { headers.add(name: name, value: value) }
        for (name, value) in Access.headers where !headers.contains(name: name) {
            headers.add(name: name, value: value)
        }
        headers.add(name: "Connection", value: "close")
        return headers
    }

    // MARK: Streams

    fileprivate func begin(_ sink: ChannelSink) {
        guard let context else { return }
        self.deadline?.cancel()
        self.phase = .streaming
        let head = HTTPResponseHead(
            version: .http1_1, status: .ok, headers: self.headers([("Content-Type", "text/event-stream")]))
        context.write(self.wrapOutboundOut(.head(head)), promise: nil)
        context.writeAndFlush(
            self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: "retry: 1000\n\n")))), promise: nil)
        self.beat = context.eventLoop.scheduleRepeatedTask(initialDelay: .seconds(15), delay: .seconds(15)) { _ in
            if sink.pendingByteCount == 0 { sink.send(Array(": beat\n\n".utf8)) }
        }
    }

    fileprivate func send(_ bytes: [UInt8], taken: @escaping @Sendable () -> Void) {
        guard let context, case .streaming = self.phase else { return taken() }
        let body = self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: bytes))))
        context.writeAndFlush(body).whenComplete { _ in taken() }
    }

    fileprivate func end() {
        self.context?.close(promise: nil)
    }
}

/// Sends a stream's frames, from the worker's thread, and knows how much of them waits.
final class ChannelSink: StreamSink {
    private let handler: NIOLoopBound<LiveHandler>
    private let eventLoop: any EventLoop
    private let pending = Atomic(0)

    init(handler: NIOLoopBound<LiveHandler>, eventLoop: any EventLoop) {
        self.handler = handler
        self.eventLoop = eventLoop
    }

    var pendingByteCount: Int { self.pending.load(ordering: .relaxed) }

    func begin() {
        self.eventLoop.execute { self.handler.value.begin(self) }
    }

    func send(_ bytes: [UInt8]) {
        self.pending.add(bytes.count, ordering: .relaxed)
        self.eventLoop.execute {
            self.handler.value.send(bytes) { self.pending.add(-bytes.count, ordering: .relaxed) }
        }
    }

    func end() {
        self.eventLoop.execute { self.handler.value.end() }
    }
}

/// One file of the page, as it was when the program was built.
///
/// The files are in `Page/`; `CWaybillTexts` takes them into the program.
package struct PageFile: Sendable {
    package let path: String
    package let contentType: String
    package let bytes: [UInt8]
    /// Changes with the content.
    package let tag: String

    private init(_ path: String, _ contentType: String, _ file: waybill_text) {
        self.path = path
        self.contentType = contentType
        self.bytes = Array(UnsafeBufferPointer(start: file.bytes, count: file.count))
        self.tag = "\"" + SHA256.digest(self.bytes).prefix(8).map { Self.hexadecimal($0) }.joined() + "\""
    }

    private static func hexadecimal(_ byte: UInt8) -> String {
        (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }

    package static let all = [
        PageFile("/", "text/html; charset=utf-8", waybill_page_html()),
        PageFile("/live.js", "text/javascript; charset=utf-8", waybill_page_script()),
        PageFile("/live.css", "text/css; charset=utf-8", waybill_page_style()),
    ]
}
