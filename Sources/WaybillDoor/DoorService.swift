package import Logging
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import ServiceLifecycle
internal import WaybillIngest
internal import WaybillJSON
internal import WaybillMetrics
internal import WaybillNotices
internal import WaybillSystem
internal import WaybillTLS

/// The door as a service: listens, stores, and tells how it is.
package final class DoorService: Service {
    /// Why it cannot listen.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    private let configuration: DoorConfiguration
    private let logger: Logger

    package init(_ configuration: DoorConfiguration, logger: Logger) {
        self.configuration = configuration
        self.logger = logger
    }

    package func run() async throws {
        let telemetry = DoorTelemetry(logger: self.logger)
        let door = Door(self.configuration, telemetry: telemetry)
        // The authority of senders' certificates is not asked for.
        let tls = try self.configuration.tls.map { try TLSServer($0, isSigned: { _, _ in false }) }
        let store = try self.store()
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let manager = self.configuration.manager
        let handover = Handover(store)
        let worker = Worker(name: "waybill-door") {
            handover.take { store in door.committer.run(store, telemetry, manager) }
        }
        do {
            let channel = try await self.listen(door, tls, group)
            let metrics = try await MetricsServer.start(
                on: self.configuration.metrics, group: group, Self.answers(of: door))
            self.logger.notice(
                "the door is open",
                metadata: [
                    "address":
                        "\(channel.localAddress.map { NetworkAddress.text(host: $0.ipAddress, port: $0.port) } ?? "")",
                    "keys": .number(self.configuration.keys.count),
                    "metrics": "\(metrics?.places.joined(separator: ", ") ?? "none")",
                ])
            manager.tell(.ready, .status("open"))
            try await gracefulShutdown()
            manager.tell(.stopping)
            // Answers that wait are given; then nothing waits.
            door.stop()
            channel.close(promise: nil)
            metrics?.stop()
        } catch {
            door.committer.stop()
            worker.join()
            try await group.shutdownGracefully()
            throw error
        }
        door.committer.stop()
        worker.join()
        try await group.shutdownGracefully()
        self.logger.notice("the door is closed")
    }

    private func spoolFiles() throws -> POSIXFileSystem {
        guard let name = self.configuration.group else { return POSIXFileSystem(.spool) }
        guard let group = UserGroup(named: name) else {
            throw Failure(
                description: "this machine has no group \(name), which ingest.group names; create it: groupadd \(name)")
        }
        return POSIXFileSystem(.spool(sharedBy: group))
    }

    private func store() throws -> DoorStore<POSIXFileSystem> {
        let files = try self.spoolFiles()
        let clock = POSIXClock()
        let now = clock.monotonicTime()
        let configuration = self.configuration
        let window = RepeatWindow(
            configuration.repeatDuration, byteCountMax: configuration.repeatByteCountMax,
            key: try SystemRandom.secretBytes(count: 16), now: now)
        var store = DoorStore(
            root: configuration.spool, quarantine: configuration.quarantine, sources: configuration.keys.map(\.source),
            window: window, freeByteCountMin: configuration.freeByteCountMin, files: files,
            SeededGenerator(seed: SystemRandom.seed()))
        let since = clock.wallTime().milliseconds * 1_000_000 - configuration.repeatDuration.nanoseconds
        let count = store.fill(since: since, now: now)
        self.logger.info("ids of stored events are known again", metadata: ["ids": .number(count)])
        return store
    }

    private func listen(
        _ door: Door, _ tls: TLSServer?, _ group: MultiThreadedEventLoopGroup
    ) async throws -> any Channel {
        let places = ConnectionPlaces(countMax: self.configuration.connectionCountMax)
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.maxMessagesPerRead, value: 4)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                guard places.take(for: channel) else { return channel.close() }
                return channel.eventLoop.makeCompletedFuture {
                    try tls?.addHandlers(to: channel, linger: .seconds(1)) { _, _, _ in }
                    // Requests on one connection are answered one after the other.
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline(withPipeliningAssistance: true)
                    try channel.pipeline.syncOperations.addHandler(DoorHandler(door, places: places))
                }
            }
        do {
            return try await bootstrap.bind(host: self.configuration.listen.host, port: self.configuration.listen.port)
                .get()
        } catch {
            throw Failure(
                description: "cannot listen on \(self.configuration.listen): \(BindFailure.text(of: error)); choose "
                    + "another address with ingest.listen")
        }
    }

    private static func answers(of door: Door) -> MetricsAnswers {
        MetricsAnswers(
            page: { eventLoop in
                eventLoop.makeSucceededFuture(
                    door.telemetry.page(connectionCountMax: door.configuration.connectionCountMax))
            },
            liveness: { eventLoop in
                door.committer.isAlive
                    ? eventLoop.makeSucceededVoidFuture()
                    : eventLoop.makeFailedFuture(Failure(description: "the disk does not answer"))
            },
            readiness: { eventLoop in
                let isStoring = door.telemetry.isStoring
                return eventLoop.makeSucceededFuture(
                    Readiness(
                        isReady: isStoring,
                        problems: isStoring ? [] : ["the spool cannot be written: the disk is full, or fails"]))
            },
            status: { _, channel in
                channel.eventLoop.makeSucceededFuture(door.telemetry.status)
            })
    }
}
