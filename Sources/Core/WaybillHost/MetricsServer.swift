package import NIOCore
internal import NIOPosix
package import WaybillSystem

/// Answers what a program tells about itself, made for each request; `Protocol/metrics.md` describes the answers.
///
///     scraper, probe, waybill status ─▶ address or UNIX socket ─▶ MetricsAnswers ─▶ text ─▶ the connection ends
///
///     GET /metrics   for Prometheus          GET /livez    whether the program still works
///     GET /readyz    whether it does its job, and what an operator must look at
///     GET /status    everything, with names: ``StatusAccess``
///
/// Each connection serves one request within five seconds, and at most 16 are open; for one more, the one that has been
/// silent longest ends. So clients can tie up neither the process nor each other. But for `/status` there is no access
/// control: listen on a loopback or a management address. `/status` may wait for ten seconds.
package final class MetricsServer: Sendable {
    /// Why metrics cannot be served.
    package struct Failure: Error, Hashable, CustomStringConvertible {
        let what: String
        let cause: String
        /// The option that changes it.
        let remedy: String

        package var description: String {
            "cannot serve \(self.what): \(self.cause); choose another one with \(self.remedy)"
        }
    }

    private let channel: (any Channel)?
    private let socket: (file: SocketFile, channel: any Channel, identity: FileIdentity?)?

    /// The places where it listens.
    package var places: [String] {
        [
            self.channel?.localAddress.map { NetworkAddress.text(host: $0.ipAddress, port: $0.port) },
            self.socket?.file.path,
        ].compactMap(\.self)
    }

    /// The port of its address.
    package var port: Int? { self.channel?.localAddress?.port }

    private init(
        _ channel: (any Channel)?, _ socket: (file: SocketFile, channel: any Channel, identity: FileIdentity?)?
    ) {
        self.channel = channel
        self.socket = socket
    }

    /// - Parameter token: what other machines must show for `GET /status`.
    /// - Returns: `nil` if it is to listen nowhere.
    package static func start(
        on listening: StatusPlaces, token: StatusToken, group: any EventLoopGroup, _ answers: MetricsAnswers
    ) async throws(Failure) -> MetricsServer? {
        guard listening.metrics != nil || listening.socket != nil else { return nil }
        let places = ConnectionPlaces()
        var channel: (any Channel)?
        if let address = listening.metrics {
            let access = StatusAccess(token: token)
            let bootstrap = Self.bootstrap(group, places, answers, access)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            do {
                channel = try await bootstrap.bind(host: address.host, port: address.port).get()
            } catch {
                throw Failure(what: "metrics on \(address)", cause: BindFailure.text(of: error), remedy: "--metrics")
            }
        }
        guard let path = listening.socket else { return MetricsServer(channel, nil) }
        let file = SocketFile(path: path)
        do throws(SocketFile.Failure) {
            let socket = try await file.listen(Self.bootstrap(group, places, answers, nil), group)
            return MetricsServer(channel, (file, socket.channel, socket.identity))
        } catch {
            channel?.close(promise: nil)
            throw Failure(what: "the status on \(path)", cause: error.cause, remedy: "--status-socket")
        }
    }

    /// - Parameter access: `nil` for a socket, whose permissions decide.
    private static func bootstrap(
        _ group: any EventLoopGroup, _ places: ConnectionPlaces, _ answers: MetricsAnswers, _ access: StatusAccess?
    ) -> ServerBootstrap {
        HTTPExchange.bootstrap(group, places, countMax: 16, in: .seconds(5)) { MetricsRoutes(answers, access: access) }
    }

    /// Accepts no more connections; open ones end on their own.
    package func stop() {
        self.channel?.close(promise: nil)
        guard let socket else { return }
        socket.file.remove(socket.identity)
        socket.channel.close(promise: nil)
    }
}
