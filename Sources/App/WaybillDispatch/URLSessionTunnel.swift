internal import WaybillAgent
internal import WaybillSystem

#if canImport(Network)
    internal import Foundation

    // The toolchain's own Foundation, against which this branch is type-checked elsewhere, has it apart.
    #if canImport(FoundationNetworking)
        internal import FoundationNetworking
    #endif

    /// Tunnels over `URLSession`, without a cache, cookies or stored credentials.
    ///
    /// No redirect is followed: it would take the token elsewhere.
    final class URLSessionTunnel: NSObject, URLSessionWebSocketDelegate {
        /// An answer to the handshake, and the longest silence: a receiver says something every 40 s.
        private static let timeout = 120.0

        private let carrier: WebSocketCarrier

        private init(_ carrier: WebSocketCarrier) {
            self.carrier = carrier
        }

        static func open(_ url: String, _ events: CarrierEvents) -> any LinkCarrier {
            let carrier = WebSocketCarrier(events)
            guard let url = URL(string: url) else {
                carrier.failed("the door's address is not a URL")
                return carrier
            }
            let configuration = URLSessionConfiguration.ephemeral
            configuration.timeoutIntervalForRequest = Self.timeout
            configuration.urlCache = nil
            configuration.httpCookieStorage = nil
            configuration.httpShouldSetCookies = false
            let session = URLSession(
                configuration: configuration, delegate: URLSessionTunnel(carrier), delegateQueue: nil)
            let task = session.webSocketTask(with: url)
            carrier.use(SystemTask(task: task, session: session))
            task.resume()
            return carrier
        }

        func urlSession(
            _ session: URLSession, webSocketTask: URLSessionWebSocketTask, didOpenWithProtocol protocol: String?
        ) {
            self.carrier.opened()
        }

        func urlSession(
            _ session: URLSession, webSocketTask: URLSessionWebSocketTask,
            didCloseWith closeCode: URLSessionWebSocketTask.CloseCode, reason: Data?
        ) {
            self.carrier.failed("the door closed the tunnel (\(closeCode.rawValue))")
        }

        func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
            let status = (task.response as? HTTPURLResponse)?.statusCode
            if let status, status != 101 { return self.carrier.failed(TunnelAnswer.text(status)) }
            let cause = error.map { "the door cannot be reached: \($0.localizedDescription)" }
            self.carrier.failed(cause ?? "the tunnel ended")
        }

        func urlSession(
            _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
            newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
        ) {
            completionHandler(nil)
        }
    }

    /// One task of a session of its own, which ends with it.
    private struct SystemTask: WebSocketTask {
        let task: URLSessionWebSocketTask
        let session: URLSession

        func send(_ bytes: [UInt8], _ done: @escaping @Sendable ((any Error)?) -> Void) {
            self.task.send(.data(Data(bytes)), completionHandler: done)
        }

        func receive(_ take: @escaping @Sendable (Result<[UInt8]?, any Error>) -> Void) {
            self.task.receive { result in
                take(
                    result.map { message in
                        if case .data(let data) = message { return [UInt8](data) }
                        return nil
                    })
            }
        }

        func end() {
            self.task.cancel(with: .normalClosure, reason: nil)
            self.session.finishTasksAndInvalidate()
        }
    }
#endif
