internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
package import WaybillDelivery
internal import WaybillSystem

extension ProxyAddress {
    /// As the HTTP client is told.
    var server: HTTPClient.Configuration.Proxy {
        guard let login = self.login?.revealed, let colon = login.firstIndex(of: ":") else {
            return .server(host: self.host, port: self.port)
        }
        return .server(
            host: self.host, port: self.port,
            authorization: .basic(
                username: String(login[..<colon]), password: String(login[login.index(after: colon)...])))
    }
}

/// A request's body that records whether any of it was requested.
///
/// The client requests the body when it has a connection and has sent the head. A request cannot have been accepted if
/// no byte of its body was sent, because the head states the length of the body.
private struct TracedBody: AsyncSequence, Sendable {
    typealias Element = ByteBuffer

    let bytes: ByteBuffer
    let trace: Trace

    final class Trace: Sendable {
        private let isAsked = Lock(false)

        var wasAsked: Bool { self.isAsked.withLock { $0 } }

        func ask() { self.isAsked.withLock { $0 = true } }
    }

    struct AsyncIterator: AsyncIteratorProtocol {
        var rest: ByteBuffer
        let trace: Trace

        mutating func next() async -> ByteBuffer? {
            self.trace.ask()
            guard self.rest.readableBytes > 0 else { return nil }
            return self.rest.readSlice(length: Swift.min(self.rest.readableBytes, 64 << 10))
        }
    }

    func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(rest: self.bytes, trace: self.trace)
    }
}

/// HTTP/1.1 over TLS with verified certificates, based on async-http-client.
final class HTTPTransport: DeliveryTransport {
    private let client: HTTPClient
    private let timeout: Duration

    /// The maximum length of an answer; more is not read.
    private static let answerByteCountMax = 4 << 20
    private static let connectTimeoutMax = Duration.seconds(10)
    /// Servers also close idle connections, and the outcome of a request sent at that moment is unknown.
    private static let idleTimeout = TimeAmount.seconds(5)

    /// - Parameter timeout: the time from the first byte sent to the last byte received.
    init(timeout: Duration, proxy: ProxyAddress?) {
        self.timeout = timeout
        var configuration = HTTPClient.Configuration()
        configuration.redirectConfiguration = .disallow
        configuration.timeout = .init(
            connect: .nanoseconds(min(Self.connectTimeoutMax, timeout).nanoseconds),
            read: .nanoseconds(timeout.nanoseconds))
        configuration.connectionPool.idleTimeout = Self.idleTimeout
        // The deliverer repeats requests, because it knows how long to wait.
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.httpVersion = .http1Only
        configuration.proxy = proxy?.server
        self.client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    /// Closes its connections; nothing can be sent afterwards.
    func shutDown() async throws {
        try await self.client.shutdown()
    }

    func send(_ request: DeliveryRequest) async -> Answer {
        let trace = TracedBody.Trace()
        var message = HTTPClientRequest(url: request.url)
        message.method = .POST
        message.headers.add(name: "User-Agent", value: "waybill/1")
        for (name, value) in request.headers { message.headers.add(name: name, value: value) }
        message.body = .stream(
            TracedBody(bytes: ByteBuffer(bytes: request.body), trace: trace), length: .known(Int64(request.body.count)))
        let prepared = message
        return await withTaskGroup(of: Answer?.self) { group in
            group.addTask { await self.exchange(prepared, trace) }
            group.addTask {
                // Cancelled when the other task finished first.
                do { try await Task.sleep(for: self.timeout) } catch { return nil }
                return Self.failure("no answer within \(self.timeout.components.seconds) s", trace)
            }
            var answer: Answer?
            while answer == nil, let next = await group.next() { answer = next }
            group.cancelAll()
            return answer ?? .unknown(detail: "the request was lost in this process")
        }
    }

    private func exchange(_ message: HTTPClientRequest, _ trace: TracedBody.Trace) async -> Answer {
        let response: HTTPClientResponse
        do {
            response = try await self.client.execute(message, deadline: .distantFuture)
        } catch {
            return Self.failure(Self.text(of: error), trace)
        }
        let retryAfter = response.headers.first(name: "Retry-After").flatMap {
            RetryAfter.duration($0, now: POSIXClock().wallTime())
        }
        var body: [UInt8]? = []
        do {
            for try await piece in response.body {
                let room = Self.answerByteCountMax - (body?.count ?? 0)
                body?.append(contentsOf: piece.readableBytesView.prefix(room))
                if piece.readableBytes >= room { break }
            }
        } catch {
            body = nil
        }
        return .response(status: Int(response.status.code), retryAfter: retryAfter, body: body)
    }

    private static func failure(_ detail: String, _ trace: TracedBody.Trace) -> Answer {
        trace.wasAsked ? .unknown(detail: detail) : .notSent(detail: "no connection: \(detail)")
    }

    /// What an error of the HTTP client says, without addresses and headers.
    static func text(of error: any Error) -> String {
        switch error {
        case let error as HTTPClientError: error.shortDescription
        case let error as IOError: Errno.message(error.errnoCode)
        case let error as NIOConnectionError:
            error.connectionErrors.first.map { Self.text(of: $0.error) } ?? "the name \(error.host) cannot be resolved"
        default: "\(error)"
        }
    }
}

extension ProviderConnection {
    /// A connection to a provider over HTTPS.
    package init(timeout: Duration, proxy: ProxyAddress?) {
        let transport = HTTPTransport(timeout: timeout, proxy: proxy)
        self.init(send: { await transport.send($0) }, shutDown: { try await transport.shutDown() })
    }
}
