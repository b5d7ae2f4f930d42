internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import NIOSSL
internal import WaybillDelivery
internal import WaybillFleet
internal import WaybillSystem

/// HTTP/1.1 for a store: one exchange each call, without retries and redirects; the caller's thread waits.
///
/// A body of at most 16 MiB is in memory while it is sent; of a longer one, one piece of 1 MiB is.
final class StoreTransport: Sendable {
    struct Limits: Sendable {
        var connectionCountMax = 4
        var connectTimeout = Duration.seconds(10)
        /// Without a byte in either direction, and for a whole small exchange.
        var timeout = Duration.seconds(30)
    }

    enum Failure: Error {
        /// No answer, or a part of one.
        case broken(String)
        /// The answer has more bytes than the caller takes.
        case tooLarge
        /// The body could not be read.
        case body(StoreError)
    }

    private let client: HTTPClient
    private let limits: Limits

    private static let pieceByteCount = 1 << 20
    private static let memoryByteCountMax = 16 << 20
    /// A body may be sent at this rate or faster.
    private static let bytesPerSecondMin = 1 << 20
    /// Servers also close idle connections; each new connection resolves the name again.
    private static let idleTimeout = TimeAmount.seconds(5)

    init(_ limits: Limits, proxy: ProxyAddress?, authorities: String?) throws(StoreError) {
        self.limits = limits
        var configuration = HTTPClient.Configuration()
        configuration.redirectConfiguration = .disallow
        configuration.timeout = .init(
            connect: .nanoseconds(limits.connectTimeout.nanoseconds), read: .nanoseconds(limits.timeout.nanoseconds),
            write: .nanoseconds(limits.timeout.nanoseconds))
        configuration.connectionPool.idleTimeout = Self.idleTimeout
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = limits.connectionCountMax
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.httpVersion = .http1Only
        configuration.proxy = proxy?.server
        if let authorities {
            do {
                let roots = try NIOSSLCertificate.fromPEMFile(authorities)
                var tls = TLSConfiguration.makeClientConfiguration()
                tls.trustRoots = .certificates(roots)
                configuration.tlsConfiguration = tls
            } catch {
                throw StoreError(
                    .configuration, code: "ca", detail: "the authorities in \(authorities) cannot be used",
                    remedy: "name a PEM file with store.ca")
            }
        }
        self.client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    /// Ends what is under way, and closes the connections.
    func shutDown() throws {
        try self.client.syncShutdown()
    }

    /// - Parameter answerByteCountMax: more is a failure, not a cut.
    func send(
        _ method: StoreRequest.Method, _ url: String, _ headers: [StoreRequest.Field], _ body: ObjectBody?,
        answerByteCountMax: Int
    ) -> Result<StoreAnswer, Failure> {
        var fields = HTTPHeaders()
        for field in headers { fields.add(name: field.name, value: field.value) }
        fields.add(name: "User-Agent", value: "waybill/1")
        let byteCount = body?.byteCount ?? 0
        let transfer = Duration.seconds((byteCount + answerByteCountMax) / Self.bytesPerSecondMin)
        let deadline = NIODeadline.now() + .nanoseconds((self.limits.timeout + transfer).nanoseconds)
        let bodyError = Lock<StoreError?>(nil)
        do {
            let request = try HTTPClient.Request(
                url: url, method: HTTPMethod(rawValue: method.rawValue), headers: fields,
                body: try body.map { try Self.body($0, bodyError) })
            let accumulator = ResponseAccumulator(request: request, maxBodySize: answerByteCountMax)
            let response = try self.client.execute(request: request, delegate: accumulator, deadline: deadline).wait()
            return .success(
                StoreAnswer(
                    status: Int(response.status.code),
                    headers: response.headers.map { StoreRequest.Field($0.name, $0.value) },
                    body: response.body.map { Array($0.readableBytesView) } ?? []))
        } catch let error as StoreError {
            return .failure(.body(error))
        } catch is ResponseAccumulator.ResponseTooBigError {
            return .failure(.tooLarge)
        } catch {
            if let error = bodyError.withLock({ $0 }) { return .failure(.body(error)) }
            return .failure(.broken(HTTPTransport.text(of: error)))
        }
    }

    private static func body(
        _ body: ObjectBody, _ failure: Lock<StoreError?>
    ) throws(StoreError) -> HTTPClient.Body {
        guard body.byteCount > Self.memoryByteCountMax else {
            return .byteBuffer(ByteBuffer(bytes: try body.piece(0, body.byteCount)))
        }
        return .stream(contentLength: Int64(body.byteCount)) { writer in
            let loop = NIOSingletons.posixEventLoopGroup.any()
            let promise = loop.makePromise(of: Void.self)
            Self.feed(body, from: 0, to: writer, on: loop, promise, failure)
            return promise.futureResult
        }
    }

    /// Reads one piece on a thread that may block, sends it, and continues when it has been written.
    private static func feed(
        _ body: ObjectBody, from offset: Int, to writer: HTTPClient.Body.StreamWriter, on loop: any EventLoop,
        _ promise: EventLoopPromise<Void>, _ failure: Lock<StoreError?>
    ) {
        guard offset < body.byteCount else { return promise.succeed() }
        let count = min(Self.pieceByteCount, body.byteCount - offset)
        let piece = NIOThreadPool.singleton.runIfActive(eventLoop: loop) {
            do throws(StoreError) {
                return ByteBuffer(bytes: try body.piece(offset, count))
            } catch {
                failure.withLock { $0 = error }
                throw error
            }
        }
        piece.flatMap { writer.write(.byteBuffer($0)).hop(to: loop) }.whenComplete { result in
            switch result {
            case .success: Self.feed(body, from: offset + count, to: writer, on: loop, promise, failure)
            case .failure(let error): promise.fail(error)
            }
        }
    }
}
