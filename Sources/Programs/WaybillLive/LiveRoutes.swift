internal import CWaybillTexts
internal import NIOCore
internal import NIOHTTP1
internal import WaybillHost
internal import WaybillJSON
internal import WaybillSystem

/// Answers a page's request; a stream continues until one side ends it.
final class LiveRoutes: HTTPRoutes {
    private static let bodyByteCountMax = 4096

    private enum Phase {
        case head
        /// The body of `POST /api/session`.
        case body([UInt8])
        case answered
        case streaming
    }

    private let shared: LiveShared
    private let number: Int
    private var phase = Phase.head
    private var beat: RepeatedTask?

    init(_ shared: LiveShared) {
        self.shared = shared
        self.number = shared.nextNumber()
    }

    func closed() {
        self.beat?.cancel()
        self.shared.inbox.add(.closed(self.number))
    }

    func take(_ part: HTTPServerRequestPart, _ exchange: HTTPExchange) {
        switch (part, self.phase) {
        case (.head(let head), .head): self.take(head, exchange)
        case (.body(let bytes), .body(let body)):
            guard body.count + bytes.readableBytes <= Self.bodyByteCountMax else {
                return self.refuse(Access.Refusal(413, "a token is shorter than that"), exchange)
            }
            self.phase = .body(body + bytes.readableBytesView)
        case (.end, .body(let body)): self.openSession(body, exchange)
        // Other bodies are ignored, and whatever follows an answer is not read.
        case (.head, _), (.body, _), (.end, _): break
        }
    }

    // MARK: Requests

    private func take(_ head: HTTPRequestHead, _ exchange: HTTPExchange) {
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
                return self.answer(file, request, exchange)
            }
            guard self.shared.access.admits(request) else {
                throw Access.Refusal(
                    401,
                    "show the token: open the address that waybill live printed, or send Authorization: Bearer TOKEN")
            }
            self.ask(try LiveQuestion(request), exchange)
        } catch {
            self.refuse(error, exchange)
        }
    }

    private func openSession(_ body: [UInt8], _ exchange: HTTPExchange) {
        guard let token = JSONValue(body)?["token"]?.string, let cookie = self.shared.access.cookie(for: token) else {
            return self.refuse(
                Access.Refusal(401, "this is not the token that this server printed at its start"), exchange)
        }
        self.phase = .answered
        self.write(200, [("Content-Type", "application/json"), ("Set-Cookie", cookie)], Array("{}".utf8), exchange)
    }

    /// - Parameter question: of who has shown the token; so only such connections keep their places while they are answered.
    private func ask(_ question: LiveQuestion, _ exchange: HTTPExchange) {
        exchange.keep()
        // The answer may take as long as the receiver's.
        exchange.end(in: .seconds(60))
        let eventLoop = exchange.channel.eventLoop
        let bound = NIOLoopBound((routes: self, exchange: exchange), eventLoop: eventLoop)
        let reply: @Sendable (LiveAnswer) -> Void = { answer in
            eventLoop.execute {
                let (routes, exchange) = bound.value
                routes.write(answer.status, [("Content-Type", answer.contentType)], answer.body, exchange)
            }
        }
        switch question {
        case .stream:
            let sink = ChannelSink(bound, eventLoop: eventLoop)
            self.shared.inbox.add(.open(self.number, question, sink, refuse: reply))
        case .report(let parameters):
            exchange.end(in: nil)
            self.shared.report(parameters, reply: reply)
        case .status, .events, .eventAt, .eventNamed, .person, .names, .refusals:
            self.shared.inbox.add(.ask(question, reply: reply))
        }
    }

    // MARK: Answers

    private func answer(_ file: PageFile, _ request: RequestHead, _ exchange: HTTPExchange) {
        // A browser keeps the file, and asks whether it is still the same.
        let headers = [("Content-Type", file.contentType), ("ETag", file.tag), ("Cache-Control", "no-cache")]
        guard !request.values("if-none-match").contains(file.tag) else {
            return self.write(304, headers, nil, exchange)
        }
        self.write(200, headers, file.bytes, exchange)
    }

    private func refuse(_ refusal: Access.Refusal, _ exchange: HTTPExchange) {
        self.phase = .answered
        let answer = LiveAnswer(refusal)
        var headers = [("Content-Type", answer.contentType)]
        if refusal.status == 405 { headers.append(("Allow", "GET")) }
        self.write(answer.status, headers, answer.body, exchange)
    }

    private func write(_ status: Int, _ own: [(String, String)], _ body: [UInt8]?, _ exchange: HTTPExchange) {
        var headers = self.headers(own)
        if let body { headers.add(name: "Content-Length", value: String(body.count)) }
        // A peer that does not read is not waited for.
        exchange.answer(.init(statusCode: status), headers, body, in: .seconds(30))
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

    fileprivate func begin(_ sink: ChannelSink, _ exchange: HTTPExchange) {
        let channel = exchange.channel
        guard channel.isActive else { return }
        exchange.end(in: nil)
        self.phase = .streaming
        let head = HTTPResponseHead(
            version: .http1_1, status: .ok, headers: self.headers([("Content-Type", "text/event-stream")]))
        channel.write(HTTPServerResponsePart.head(head), promise: nil)
        channel.writeAndFlush(
            HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(string: "retry: 1000\n\n"))), promise: nil)
        self.beat = channel.eventLoop.scheduleRepeatedTask(initialDelay: .seconds(15), delay: .seconds(15)) { _ in
            if sink.pendingByteCount == 0 { sink.send(Array(": beat\n\n".utf8)) }
        }
    }

    fileprivate func send(_ bytes: [UInt8], _ exchange: HTTPExchange, taken: @escaping @Sendable () -> Void) {
        guard case .streaming = self.phase else { return taken() }
        exchange.channel.writeAndFlush(HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(bytes: bytes))))
            .whenComplete { _ in taken() }
    }
}

/// Sends a stream's frames, from the worker's thread, and knows how much of them waits.
final class ChannelSink: StreamSink {
    private let connection: NIOLoopBound<(routes: LiveRoutes, exchange: HTTPExchange)>
    private let eventLoop: any EventLoop
    private let pending = Atomic(0)

    init(_ connection: NIOLoopBound<(routes: LiveRoutes, exchange: HTTPExchange)>, eventLoop: any EventLoop) {
        self.connection = connection
        self.eventLoop = eventLoop
    }

    var pendingByteCount: Int { self.pending.load(ordering: .relaxed) }

    func begin() {
        self.eventLoop.execute {
            let (routes, exchange) = self.connection.value
            routes.begin(self, exchange)
        }
    }

    func send(_ bytes: [UInt8]) {
        self.pending.add(bytes.count, ordering: .relaxed)
        self.eventLoop.execute {
            let (routes, exchange) = self.connection.value
            routes.send(bytes, exchange) { self.pending.add(-bytes.count, ordering: .relaxed) }
        }
    }

    func end() {
        self.eventLoop.execute { self.connection.value.exchange.channel.close(promise: nil) }
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
        self.tag = "\"" + Hexadecimal.text(SHA256.digest(self.bytes).prefix(8)) + "\""
    }

    package static let all = [
        PageFile("/", "text/html; charset=utf-8", waybill_page_html()),
        PageFile("/live.js", "text/javascript; charset=utf-8", waybill_page_script()),
        PageFile("/live.css", "text/css; charset=utf-8", waybill_page_style()),
    ]
}
