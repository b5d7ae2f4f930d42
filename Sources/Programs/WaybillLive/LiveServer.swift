internal import NIOCore
internal import NIOPosix
internal import WaybillData
package import WaybillExport
package import WaybillHost
internal import WaybillProjection
package import WaybillSystem

/// How `waybill live` runs.
package struct LiveConfiguration: Sendable {
    /// The receiver's data directory.
    package var data: String
    package var listen: NetworkAddress
    /// Where the receiver answers `/status`; `nil`: the journal is followed as far as it is whole.
    package var receiver: NetworkAddress?
    package var exports: [ExportOptions]
    package var mask = Mask.none
    package var token: Secret
    /// Further names of this server.
    package var hosts: [String] = []
    package var tls: TLSServerConfiguration?
    /// What started this process, and watches it.
    package var manager = ServiceManager.none
    /// The build.
    package var version = ""
    /// Hears what an operator should know.
    package var tell: @Sendable (String) -> Void = { _ in }

    package init(data: String, listen: NetworkAddress, exports: [ExportOptions], token: Secret) {
        self.data = data
        self.listen = listen
        self.exports = exports
        self.token = token
    }
}

/// Answers a page's requests: the page's files, questions about events, and streams of what comes.
///
///     browser ─▶ LiveRoutes (event loop) ─▶ LiveInbox ─▶ LiveWorker (its thread) ─▶ answer, frames ─▶ event loop
///
/// Each connection serves one request. At most 64 are open; for one more, the one that has been silent longest ends. A
/// connection has ten seconds for its request, and a stream at most 256 KiB that wait to be sent.
package final class LiveServer: Sendable {
    /// Why the page cannot be served.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    /// Makes the answer of `/api/report`.
    package typealias Reporter =
        @Sendable (_ parameters: [(name: String, value: String)]) throws(Access.Refusal) -> [UInt8]

    private let group: MultiThreadedEventLoopGroup
    private let channel: any Channel
    private let inbox: LiveInbox
    private let worker: Worker
    /// The port it listens on.
    package let port: Int

    private init(group: MultiThreadedEventLoopGroup, channel: any Channel, port: Int, inbox: LiveInbox, worker: Worker)
    {
        self.group = group
        self.channel = channel
        self.port = port
        self.inbox = inbox
        self.worker = worker
    }

    /// - Parameter reporter: `nil` if this program has no reports.
    package static func start(
        _ configuration: LiveConfiguration, reporter: Reporter? = nil
    ) async throws -> LiveServer {
        // An agent's certificate is not asked for, so no list of revoked ones is read.
        let tls = try configuration.tls.map { try TLSServer($0, isSigned: { _, _ in false }) }
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let shared = Lock<LiveShared?>(nil)
        let channel: any Channel
        do {
            channel = try await HTTPExchange.bootstrap(
                group, ConnectionPlaces(), countMax: 64, tls: tls, in: .seconds(10)
            ) { shared.withLock { $0 }.map { LiveRoutes($0) } }
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .bind(host: configuration.listen.host, port: configuration.listen.port).get()
        } catch {
            try await group.shutdownGracefully()
            throw Failure(
                description: "cannot listen on \(configuration.listen): \(BindFailure.text(of: error)); "
                    + "choose another address with --listen")
        }
        let port = channel.localAddress?.port ?? configuration.listen.port
        let access = Access(
            token: configuration.token, port: port, hosts: configuration.hosts, isSecure: configuration.tls != nil)
        let inbox = LiveInbox()
        shared.withLock { $0 = LiveShared(access: access, inbox: inbox, reporter: reporter) }
        let client = configuration.receiver.map { StatusClient(address: $0, group: group) }
        let worker = Worker(name: "waybill-live") {
            // A receiver on this machine comes first.
            Worker.giveWay()
            let files = POSIXFileSystem(.data, dataDirectory: configuration.data)
            let data = DataDirectory(root: configuration.data, files: files)
            let lone = LoneReader(
                of: "live", in: data, memory: LoneReader.Memory(of: "live", in: data, for: "live"),
                places: LoneReader.places(of: "live", in: data), version: configuration.version,
                tell: configuration.tell)
            let state = LiveState(data: data, exports: configuration.exports, mask: configuration.mask, lone: lone)
            var worker = LiveWorker(state: state, inbox: inbox, client: client, clock: POSIXClock())
            worker.run(configuration.manager)
        }
        return LiveServer(group: group, channel: channel, port: port, inbox: inbox, worker: worker)
    }

    /// Accepts no more connections, and ends those that are open.
    package func stop() async throws {
        self.channel.close(promise: nil)
        self.inbox.stop()
        self.worker.join()
        try await self.group.shutdownGracefully()
    }
}

/// What all connections share.
final class LiveShared: Sendable {
    let access: Access
    let inbox: LiveInbox
    let reporter: LiveServer.Reporter?
    private let connections = Atomic(0)
    private let isReporting = Lock(false)

    init(access: Access, inbox: LiveInbox, reporter: LiveServer.Reporter?) {
        self.access = access
        self.inbox = inbox
        self.reporter = reporter
    }

    /// A number for a connection.
    func nextNumber() -> Int {
        self.connections.add(1, ordering: .relaxed)
    }

    /// Makes a report on a thread of its own; one at a time, for each reads many files.
    func report(_ parameters: [(name: String, value: String)], reply: @escaping @Sendable (LiveAnswer) -> Void) {
        guard let reporter else {
            return reply(
                LiveAnswer(Access.Refusal(501, "this program makes no reports for the page; use: waybill report")))
        }
        let isFree = self.isReporting.withLock { isReporting in
            defer { isReporting = true }
            return !isReporting
        }
        let worker =
            !isFree
            ? nil
            : Worker.attempt(name: "waybill-report") {
                let answer: LiveAnswer
                do throws(Access.Refusal) {
                    answer = LiveAnswer(json: try reporter(parameters))
                } catch {
                    answer = LiveAnswer(error)
                }
                // A page that has its answer may ask for the next report.
                self.isReporting.withLock { $0 = false }
                reply(answer)
            }
        guard worker == nil else { return }
        if isFree { self.isReporting.withLock { $0 = false } }
        reply(LiveAnswer(Access.Refusal(503, "another report is being made; ask again when it is done")))
    }
}
