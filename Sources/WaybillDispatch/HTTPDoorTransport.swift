/// Requests to a door: by `URLSession` on Apple's systems, by async-http-client elsewhere.
///
/// Why two: on an iPhone `URLSession` uses the system's proxies, VPNs and certificates that a company installed, and its
/// connections are those that the system knows how to put to sleep.
internal import WaybillAgent
internal import WaybillSystem

#if canImport(Network)
    internal import Foundation

    // The toolchain's own Foundation, against which this branch is type-checked elsewhere, has it apart.
    #if canImport(FoundationNetworking)
        internal import FoundationNetworking
    #endif

    /// `URLSession`, without a cache, cookies or stored credentials.
    ///
    /// No redirect is followed: it would take the token elsewhere.
    final class HTTPDoorTransport: DoorTransport {
        /// The system's authorities decide; an app has no files of its own for them.
        static let takesAuthorities = false

        private let base: String
        private let session: URLSession
        private let isClosed = Lock(false)

        init(_ url: String, authorities: String?) {
            precondition(authorities == nil, "the system's authorities decide")
            self.base = url
            let configuration = URLSessionConfiguration.ephemeral
            configuration.timeoutIntervalForRequest = Double(DoorCall.timeout.components.seconds)
            configuration.timeoutIntervalForResource = Double(DoorCall.timeout.components.seconds)
            configuration.urlCache = nil
            configuration.httpCookieStorage = nil
            configuration.httpShouldSetCookies = false
            self.session = URLSession(configuration: configuration, delegate: StayingDelegate(), delegateQueue: nil)
        }

        func send(_ request: DoorCall, _ done: @escaping @Sendable (Result<DoorAnswer, DoorCallFailure>) -> Void) {
            guard let url = URL(string: self.base + request.path) else {
                return done(.failure(DoorCallFailure(reason: "the door's address is not a URL")))
            }
            var message = URLRequest(url: url)
            message.httpMethod = request.method
            for header in request.headers { message.setValue(header.value, forHTTPHeaderField: header.name) }
            if !request.body.isEmpty { message.httpBody = Data(request.body) }
            let task = self.session.dataTask(with: message) { data, response, error in
                if let error {
                    return done(
                        .failure(DoorCallFailure(reason: "the door cannot be reached: \(error.localizedDescription)")))
                }
                guard let response = response as? HTTPURLResponse else {
                    return done(.failure(DoorCallFailure(reason: "the door's answer is not HTTP")))
                }
                let body = [UInt8](data ?? Data())
                guard body.count <= DoorCall.answerByteCountMax else {
                    return done(.failure(DoorCallFailure(reason: "the door's answer is too long")))
                }
                let receiver = response.value(forHTTPHeaderField: "Waybill-Receiver")
                done(.success(DoorAnswer(status: response.statusCode, receiver: receiver, body: body)))
            }
            task.resume()
        }

        /// Not left to `deinit`, which may run where the session ends one of its tasks: it would wait for itself.
        func close() {
            let wasClosed = self.isClosed.withLock { isClosed in
                defer { isClosed = true }
                return isClosed
            }
            if !wasClosed { self.session.invalidateAndCancel() }
        }
    }

    /// Follows no redirect.
    private final class StayingDelegate: NSObject, URLSessionTaskDelegate {
        func urlSession(
            _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
            newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
        ) {
            completionHandler(nil)
        }
    }
#else
    internal import AsyncHTTPClient
    internal import NIOCore
    internal import NIOHTTP1
    internal import NIOSSL

    /// async-http-client, with HTTP/1.1 over TLS with verified certificates.
    ///
    /// No redirect is followed: it would take the token elsewhere.
    final class HTTPDoorTransport: DoorTransport {
        static let takesAuthorities = true

        /// Servers also close idle connections, and a request that is sent at that moment fails.
        private static let idleTimeout = TimeAmount.seconds(10)
        private static let connectTimeout = TimeAmount.seconds(10)

        private let base: String
        private let client: HTTPClient
        private let isClosed = Lock(false)

        /// - Parameter authorities: a file with the only authorities that are trusted; `nil` for those of the system.
        init(_ url: String, authorities: String?) {
            self.base = url
            var configuration = HTTPClient.Configuration()
            configuration.redirectConfiguration = .disallow
            configuration.timeout = .init(connect: Self.connectTimeout)
            configuration.connectionPool.idleTimeout = Self.idleTimeout
            // The pump repeats, because it knows how long to wait.
            configuration.connectionPool.retryConnectionEstablishment = false
            configuration.httpVersion = .http1Only
            if let authorities {
                var tls = TLSConfiguration.makeClientConfiguration()
                tls.minimumTLSVersion = .tlsv12
                tls.trustRoots = .file(authorities)
                configuration.tlsConfiguration = tls
            }
            self.client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        }

        deinit { self.close() }

        func send(_ request: DoorCall, _ done: @escaping @Sendable (Result<DoorAnswer, DoorCallFailure>) -> Void) {
            do {
                var headers = HTTPHeaders(request.headers.map { ($0.name, $0.value) })
                headers.add(name: "User-Agent", value: "waybill/1")
                let method = HTTPMethod(rawValue: request.method)
                let message = try HTTPClient.Request(
                    url: self.base + request.path, method: method, headers: headers,
                    body: method == .GET ? nil : .byteBuffer(ByteBuffer(bytes: request.body)))
                let accumulator = ResponseAccumulator(
                    request: message, maxBodySize: DoorCall.answerByteCountMax)
                let deadline = NIODeadline.now() + .nanoseconds(DoorCall.timeout.nanoseconds)
                self.client.execute(request: message, delegate: accumulator, deadline: deadline).futureResult
                    .whenComplete { done(Self.answer($0)) }
            } catch {
                done(.failure(DoorCallFailure(reason: "the door cannot be asked: \(error)")))
            }
        }

        private static func answer(
            _ result: Result<HTTPClient.Response, any Error>
        ) -> Result<DoorAnswer, DoorCallFailure> {
            switch result {
            case .success(let response):
                let body = response.body.map { Array($0.readableBytesView) } ?? []
                let receiver = response.headers.first(name: "Waybill-Receiver")
                return .success(DoorAnswer(status: Int(response.status.code), receiver: receiver, body: body))
            case .failure(let error):
                let text = (error as? HTTPClientError)?.shortDescription ?? ConnectionFailure.reason(of: error)
                return .failure(DoorCallFailure(reason: "the door cannot be reached: \(text)"))
            }
        }

        func close() {
            let wasClosed = self.isClosed.withLock { isClosed in
                defer { isClosed = true }
                return isClosed
            }
            guard !wasClosed else { return }
            // It keeps itself until it has ended.
            let client = self.client
            client.shutdown().whenComplete { _ in _ = client }
        }
    }
#endif
