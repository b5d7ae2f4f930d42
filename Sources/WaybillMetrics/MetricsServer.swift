package import NIOCore
internal import NIOHTTP1
internal import NIOPosix
package import WaybillSystem

/// Answers `GET /metrics` with a page that is built for each request, and `GET /readyz` with what is wrong.
///
///     scraper ─▶ GET /metrics ─▶ page() on the connection's event loop ─▶ text ─▶ the connection ends
///
/// Each connection serves one request within five seconds, and at most 16 are open; for one more, the one that has been
/// silent longest ends. So clients can tie up neither the process nor each other. There is no access control: listen on a loopback or a management address.
package final class MetricsServer: Sendable {
    /// Why metrics cannot be served.
    package struct Failure: Error, Hashable, CustomStringConvertible {
        let address: NetworkAddress
        let cause: String

        package var description: String {
            "cannot serve metrics on \(self.address): \(self.cause); choose another address with --metrics"
        }
    }

    /// Builds the page, now or later on.
    package typealias Page = @Sendable (_ eventLoop: any EventLoop) -> EventLoopFuture<MetricsPage>

    private let channel: any Channel

    /// The address it listens on.
    package let address: String

    private init(channel: any Channel) {
        self.channel = channel
        self.address = channel.localAddress.map { "\($0)" } ?? "unknown"
    }

    package static func start(
        on address: NetworkAddress, group: any EventLoopGroup, readiness: @escaping @Sendable () -> Readiness,
        page: @escaping Page
    ) async throws(Failure) -> MetricsServer {
        let places = ConnectionPlaces(countMax: 16)
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 16)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                guard places.take(for: channel) else { return channel.close() }
                return channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(
                        MetricsHandler(page: page, readiness: readiness, places: places))
                }
            }
        do {
            return MetricsServer(channel: try await bootstrap.bind(host: address.host, port: address.port).get())
        } catch {
            throw Failure(address: address, cause: "\(error)")
        }
    }

    /// Accepts no more connections; open ones end on their own.
    package func stop() {
        self.channel.close(promise: nil)
    }
}
