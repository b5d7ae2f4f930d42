internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
package import WaybillSystem

extension ListeningPlace {
    /// Reads where a program answers `GET /status`: `HOST:PORT`, `http://HOST:PORT`, or a path with a slash or the ending
    /// `.sock`; `nil` for any other text.
    package init?(ofStatus text: String) {
        if text.hasPrefix("http://") {
            guard let address = StatusClient.address(in: text) else { return nil }
            self = .address(address)
        } else if text.contains("/") || text.hasSuffix(".sock") {
            self = .socket(text)
        } else {
            self.init(text)
        }
    }
}

/// Asks a receiver or an agent for its status, one request a connection.
package final class StatusClient: Sendable {
    /// What came of a request: the answer, or why there is none.
    package typealias Answer = Result<ReceiverReport, StatusFailure>

    private let place: ListeningPlace
    private let token: Secret?
    private let group: any EventLoopGroup

    init(address: NetworkAddress, group: any EventLoopGroup) {
        self.place = .address(address)
        self.token = nil
        self.group = group
    }

    /// Asks on an event loop of the process.
    package init(_ place: ListeningPlace, token: Secret?) {
        self.place = place
        self.token = token
        self.group = MultiThreadedEventLoopGroup.singleton
    }

    /// The address in `http://HOST:PORT`; `nil` for any other text.
    package static func address(in url: String) -> NetworkAddress? {
        guard url.hasPrefix("http://") else { return nil }
        let rest = url.dropFirst(7)
        return NetworkAddress(String(rest.hasSuffix("/") ? rest.dropLast() : rest))
    }

    /// Asks, and calls `done` once, on an event loop.
    ///
    /// - Parameter position: with it, the receiver answers when the journal is durable after it, or after 8 s.
    func ask(after position: Int?, _ done: @escaping @Sendable (Answer) -> Void) {
        self.fetch(after: position) { result in
            done(
                result.flatMap {
                    ReceiverReport($0).map { .success($0) } ?? .failure(.init("its answer is not a status"))
                })
        }
    }

    /// Asks as ``ask(after:_:)`` does, for the answer as it came.
    package func fetch(
        after position: Int? = nil, _ done: @escaping @Sendable (Result<[UInt8], StatusFailure>) -> Void
    ) {
        let promise = self.group.next().makePromise(of: [UInt8].self)
        let host =
            switch self.place {
            case .address(let address): address.description
            case .socket: "localhost"
            }
        let token = self.token
        let bootstrap = ClientBootstrap(group: promise.futureResult.eventLoop).connectTimeout(.seconds(2))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHTTPClientHandlers()
                    try channel.pipeline.syncOperations.addHandler(
                        StatusClientHandler(host: host, token: token, after: position, promise: promise))
                }
            }
        // Once it is connected, the handler ends with an answer or a failure.
        switch self.place {
        case .address(let address):
            bootstrap.connect(host: address.host, port: address.port).whenFailure { promise.fail($0) }
        case .socket(let path): bootstrap.connect(unixDomainSocketPath: path).whenFailure { promise.fail($0) }
        }
        promise.futureResult.whenComplete { result in
            switch result {
            case .success(let bytes): done(.success(bytes))
            case .failure(let error as StatusFailure): done(.failure(error))
            case .failure(let error): done(.failure(.init(error)))
            }
        }
    }
}

/// Why a receiver's status is not known.
package struct StatusFailure: Error, Sendable, CustomStringConvertible {
    package let description: String

    init(_ description: String) {
        self.description = description
    }

    fileprivate init(_ error: any Error) {
        switch error {
        case let error as IOError: self.init("it cannot be reached: \(Errno.message(error.errnoCode))")
        case let error as NIOConnectionError:
            let causes = Set(
                error.connectionErrors.map {
                    ($0.error as? IOError).map { Errno.message($0.errnoCode) } ?? "\($0.error)"
                })
            let cause =
                error.connectionErrors.isEmpty ? "its name is not known" : causes.sorted().joined(separator: "; ")
            self.init("it cannot be reached: \(cause)")
        default: self.init("\(error)")
        }
    }
}

/// Sends one request and collects its answer.
private final class StatusClientHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private static let byteCountMax = 16 << 20

    private let host: String
    private let token: Secret?
    private let position: Int?
    private var promise: EventLoopPromise<[UInt8]>?
    private var status = HTTPResponseStatus.ok
    private var body: [UInt8] = []
    private var deadline: Scheduled<Void>?

    init(host: String, token: Secret?, after position: Int?, promise: EventLoopPromise<[UInt8]>) {
        self.host = host
        self.token = token
        self.position = position
        self.promise = promise
    }

    func channelActive(context: ChannelHandlerContext) {
        let channel = context.channel
        // One that does not wait is answered at once, or a page would wait with it.
        self.deadline = context.eventLoop.scheduleTask(in: .seconds(self.position == nil ? 3 : 11)) {
            channel.close(promise: nil)
        }
        let uri = self.position.map { "/status?after=\($0)" } ?? "/status"
        var head = HTTPRequestHead(
            version: .http1_1, method: .GET, uri: uri, headers: ["Host": self.host, "Connection": "close"])
        if let token { head.headers.add(name: "Authorization", value: "Bearer \(token.revealed)") }
        context.write(self.wrapOutboundOut(.head(head)), promise: nil)
        context.writeAndFlush(self.wrapOutboundOut(.end(nil)), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch self.unwrapInboundIn(data) {
        case .head(let head): self.status = head.status
        case .body(let bytes):
            guard self.body.count + bytes.readableBytes <= Self.byteCountMax else {
                return self.end(.failure(StatusFailure("its answer is too long")), context)
            }
            self.body += bytes.readableBytesView
        case .end where self.status == .ok: self.end(.success(self.body), context)
        case .end:
            let text = String(decoding: self.body.prefix(200), as: UTF8.self).split(separator: "\n").first ?? ""
            self.end(.failure(StatusFailure("it answers \(self.status.code): \(text)")), context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.end(.failure(StatusFailure("\(error)")), context)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.deadline?.cancel()
        self.end(.failure(StatusFailure("it closed the connection without an answer")), context)
    }

    private func end(_ result: Result<[UInt8], any Error>, _ context: ChannelHandlerContext) {
        guard let promise = self.promise else { return }
        self.promise = nil
        promise.completeWith(result)
        context.close(promise: nil)
    }
}
