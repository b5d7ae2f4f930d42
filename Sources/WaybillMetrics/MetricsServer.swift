package import NIOCore
internal import NIOHTTP1
internal import NIOPosix
package import WaybillSystem

/// Answers `GET /metrics` with a page that is made when it is asked for.
///
///     scraper ─▶ GET /metrics ─▶ page() on the connection's event loop ─▶ text ─▶ the connection ends
///
/// Each connection is good for one request and ten seconds, and 16 may be open, so that whoever can reach the address
/// holds little of the process. There is no access control: listen on a loopback or a management address.
package final class MetricsServer: Sendable {
    /// Why metrics cannot be served.
    package struct Failure: Error, Hashable, CustomStringConvertible {
        let address: NetworkAddress
        let cause: String

        package var description: String {
            "cannot serve metrics on \(self.address): \(self.cause); choose another address with --metrics"
        }
    }

    /// Makes the page, now or once somebody has answered.
    package typealias Page = @Sendable (_ eventLoop: any EventLoop) -> EventLoopFuture<MetricsPage>

    private let channel: any Channel

    /// Where it listens.
    package let address: String

    private init(channel: any Channel) {
        self.channel = channel
        self.address = channel.localAddress.map { "\($0)" } ?? "unknown"
    }

    package static func start(
        on address: NetworkAddress, group: any EventLoopGroup, page: @escaping Page
    ) async throws(Failure) -> MetricsServer {
        let places = ConnectionPlaces(countMax: 16)
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 16)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                guard places.take(for: channel) else { return channel.close() }
                return channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(MetricsHandler(page: page))
                }
            }
        do {
            return MetricsServer(channel: try await bootstrap.bind(host: address.host, port: address.port).get())
        } catch {
            throw Failure(address: address, cause: "\(error)")
        }
    }

    /// Takes no more connections; those that are open end by themselves.
    package func stop() {
        self.channel.close(promise: nil)
    }
}
