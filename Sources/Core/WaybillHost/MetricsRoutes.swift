internal import NIOCore
internal import NIOHTTP1
internal import WaybillSystem

/// Answers what a program tells about itself.
final class MetricsRoutes: HTTPRoutes {
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
    private var isAnswered = false

    init(_ answers: MetricsAnswers, access: StatusAccess?) {
        self.answers = answers
        self.access = access
    }

    func closed() {}

    func take(_ part: HTTPServerRequestPart, _ exchange: HTTPExchange) {
        // A body is ignored, and whatever follows an answer is not read.
        guard case .head(let head) = part, !self.isAnswered else { return }
        self.isAnswered = true
        exchange.keep()
        guard let path = Path(rawValue: String(head.uri.prefix { $0 != "?" })) else {
            let text =
                "metrics are at /metrics, problems at /readyz, whether the program works at /livez, all at /status\n"
            return self.answer(.notFound, text, to: head, exchange)
        }
        guard head.method == .GET || head.method == .HEAD else {
            return self.answer(.methodNotAllowed, "\(path.rawValue) is read with GET\n", to: head, exchange)
        }
        switch path {
        case .metrics:
            self.answer(self.answers.page(exchange.channel.eventLoop), to: head, exchange) { (.ok, $0.text) }
        case .live:
            self.answer(self.answers.liveness(exchange.channel.eventLoop), to: head, exchange) { (.ok, "alive\n") }
        case .ready:
            self.answer(self.answers.readiness(exchange.channel.eventLoop), to: head, exchange) {
                ($0.isReady ? .ok : .serviceUnavailable, $0.text)
            }
        case .status: self.answerStatus(head, exchange)
        }
    }

    /// Answers once the future has a value; 503 if it fails.
    private func answer<Value: Sendable>(
        _ future: EventLoopFuture<Value>, type: String = contentType, to head: HTTPRequestHead,
        _ exchange: HTTPExchange, _ text: @escaping @Sendable (Value) -> (HTTPResponseStatus, String)
    ) {
        let eventLoop = exchange.channel.eventLoop
        let bound = NIOLoopBound((self, exchange), eventLoop: eventLoop)
        future.hop(to: eventLoop).whenComplete { result in
            let (routes, exchange) = bound.value
            switch result {
            case .success(let value):
                let (status, text) = text(value)
                routes.answer(status, text, type: type, to: head, exchange)
            case .failure(let error): routes.answer(.serviceUnavailable, "\(error)\n", to: head, exchange)
            }
        }
    }

    private func answerStatus(_ head: HTTPRequestHead, _ exchange: HTTPExchange) {
        do throws(StatusAccess.Refusal) {
            try self.access?.check(
                isLoopback: LocalRequest.isLoopback(exchange.channel.remoteAddress), hosts: head.headers["Host"],
                authorizations: head.headers["Authorization"])
        } catch {
            return self.answer(error == .token ? .unauthorized : .forbidden, error.text, to: head, exchange)
        }
        let query = head.uri.drop { $0 != "?" }.dropFirst()
        var position: Int?
        if !query.isEmpty {
            let digits = query.dropFirst(6)
            guard query.hasPrefix("after="), digits.utf8.allSatisfy({ 0x30...0x39 ~= $0 }), let after = Int(digits)
            else {
                return self.answer(.badRequest, "write /status?after=POSITION, a number of bytes\n", to: head, exchange)
            }
            position = after
        }
        exchange.end(in: .seconds(10))
        guard let answer = self.answers.status(position, exchange.channel) else {
            return self.answer(.serviceUnavailable, "too many wait for the status; ask later\n", to: head, exchange)
        }
        self.answer(answer, type: "application/json", to: head, exchange) {
            (.ok, String(decoding: $0, as: UTF8.self) + "\n")
        }
    }

    private func answer(
        _ status: HTTPResponseStatus, _ text: String, type: String = contentType, to head: HTTPRequestHead,
        _ exchange: HTTPExchange
    ) {
        var headers: HTTPHeaders = [
            "Content-Type": type, "Content-Length": String(text.utf8.count), "Connection": "close",
        ]
        if status == .methodNotAllowed { headers.add(name: "Allow", value: "GET, HEAD") }
        if status == .unauthorized { headers.add(name: "WWW-Authenticate", value: "Bearer realm=\"waybill\"") }
        exchange.answer(status, headers, head.method == .HEAD ? nil : Array(text.utf8))
    }
}
