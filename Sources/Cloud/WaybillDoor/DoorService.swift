package import Logging
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import ServiceLifecycle
package import WaybillIngest
internal import WaybillJSON
package import WaybillHost
internal import WaybillSystem

/// The door as a service: listens, stores, and tells how it is.
package final class DoorService: Service {
    package let reloader: Reloader<DoorConfiguration>
    let door: Door
    let telemetry: DoorTelemetry
    let tls = Lock<TLSServer?>(nil)
    private let logger: Logger

    package init(_ configuration: DoorConfiguration, logger: Logger) {
        self.telemetry = DoorTelemetry(logger: logger)
        self.door = Door(configuration, telemetry: self.telemetry)
        self.reloader = Reloader(configuration, self.telemetry.reloads)
        self.logger = logger
    }

    /// What it was started with.
    private var configuration: DoorConfiguration { self.reloader.started }

    package func run() async throws {
        let (door, telemetry) = (self.door, self.telemetry)
        if let server = try Self.server(self.configuration) {
            self.tls.withLock { $0 = server }
            telemetry.certificateUsed(until: server.expiry)
        }
        let store = try self.store()
        telemetry.known(reach: store.reach)
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        door.tunnels = try TunnelConfiguration(self.configuration.line).map { configuration in
            try Tunnels(configuration, logger: self.logger)
        }
        let manager = self.configuration.manager
        let handover = Handover(store)
        let worker = Worker(name: "waybill-door") {
            handover.take { store in door.committer.run(store, telemetry, manager) }
        }
        let isStopping = Monitor(false)
        let watch = self.configuration.certificate.map { _ in
            Worker(name: "waybill-door-tls") { self.watchCertificate(until: isStopping) }
        }
        let end = {
            isStopping.update { $0 = true }
            door.committer.stop()
            worker.join()
            watch?.join()
        }
        do {
            let channel = try await self.listen(door, group)
            telemetry.limited(door.settings)
            let metrics = try await MetricsServer.start(
                on: self.configuration.status, token: self.reloader.statusToken, group: group, self.answers)
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
            door.tunnels?.stop()
            channel.close(promise: nil)
            metrics?.stop()
        } catch {
            try await door.readers.stop()
            end()
            try await group.shutdownGracefully()
            throw error
        }
        try await door.readers.stop()
        end()
        try await group.shutdownGracefully()
        self.logger.notice("the door is closed")
    }

    private func spoolFiles() throws -> POSIXFileSystem {
        guard let name = self.configuration.group else { return POSIXFileSystem(.spool) }
        guard let group = UserGroup(named: name) else {
            throw DoorFailure(
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
            key: try SystemRandom.secretBytes(count: 16))
        var store = DoorStore(
            root: configuration.spool, quarantine: configuration.quarantine, sources: configuration.keys.map(\.source),
            window: window, freeByteCountMin: configuration.freeByteCountMin, files: files,
            places: ReadingPlaces(path: Path.join(configuration.quarantine, "readers")) ?? ReadingPlaces(),
            SeededGenerator(seed: SystemRandom.seed()))
        store.keepQuarantine(dayCountMax: configuration.quarantineDayCountMax, since: configuration.programDate)
        let since = clock.wallTime().milliseconds * 1_000_000 - configuration.repeatDuration.nanoseconds
        let count = store.fill(since: since, now: now)
        for notice in store.takeWindowNotices() { self.tell(notice) }
        self.logger.info(
            "ids of stored events are known again",
            metadata: ["ids": .number(count), "seconds": .number(Int(store.reach.components.seconds))])
        return store
    }

    private func tell(_ notice: WindowNotice) {
        switch notice {
        case .setAside(let file, let offset, let byteCount, let signal):
            self.logger.error(
                .poisonSetAside, "a line that ended the door twice is not read any more; everything else is known",
                metadata: [
                    "reader": "window", "stream": "\(file)", "offset": .number(offset), "bytes": .number(byteCount),
                    "signal": .number(signal),
                ])
        case .ended(let file, let starts, let offset):
            var metadata: Logger.Metadata = ["reader": "window", "stream": "\(file)", "starts": .number(starts)]
            if let offset { metadata["offset"] = .number(offset) }
            self.logger.error(
                .readerEnded, "several starts in a row ended while the same segment was read; nothing was set aside",
                metadata: metadata)
        }
    }

    private func listen(_ door: Door, _ group: MultiThreadedEventLoopGroup) async throws -> any Channel {
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        AcceptBackoffHandler(shouldForwardIOErrorCaught: false) { door.accepting(failedBy: $0) })
                }
            }
            // What a connection may read before the others of its event loop have their turn.
            .childChannelOption(.maxMessagesPerRead, value: 1)
            .childChannelOption(
                .recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 64, initial: 2048, maximum: 32 << 10)
            )
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            // Who has sent everything may close that side, and gets its answer; in TLS, an alert says so to both.
            .childChannelOption(.allowRemoteHalfClosure, value: self.configuration.certificate == nil)
            .childChannelInitializer { [tls] channel in
                guard door.admits(channel) else { return channel.close() }
                return channel.eventLoop.makeCompletedFuture {
                    try tls.withLock { $0 }?.addHandlers(to: channel, linger: .seconds(1)) { _, _, _ in }
                    let pipeline = channel.pipeline.syncOperations
                    let decoder = ByteToMessageHandler(
                        HTTPRequestDecoder(leftOverBytesStrategy: .forwardBytes, limitConfiguration: Self.headLimits))
                    // Requests on one connection are answered one after the other.
                    let http: [any RemovableChannelHandler] = [
                        HTTPResponseEncoder(), HTTPServerPipelineHandler(), NIOHTTPResponseHeadersValidator(),
                        HTTPServerProtocolErrorHandler(),
                    ]
                    try pipeline.addHandlers([http[0], decoder] + http[1...])
                    try pipeline.addHandler(DoorHandler(door, decoder: decoder, http: http))
                }
            }
        do {
            return try await bootstrap.bind(host: self.configuration.listen.host, port: self.configuration.listen.port)
                .get()
        } catch {
            throw DoorFailure(
                description: "cannot listen on \(self.configuration.listen): \(BindFailure.text(of: error)); choose "
                    + "another address with ingest.listen")
        }
    }

    /// A head is in no room of ``DoorMemory``: an SDK's has some hundred bytes, a browser's some thousand.
    private static let headLimits: NIOHTTPDecoderLimitConfiguration = {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = 16 << 10
        limits.maxHeaderListSize = 32 << 10
        limits.maxHeaderFieldCount = 100
        return limits
    }()

    private var answers: MetricsAnswers {
        let door = self.door
        return MetricsAnswers(
            page: { eventLoop in
                let measured = NIOThreadPool.singleton.runIfActive(eventLoop: eventLoop) {
                    door.telemetry.spools.measure(
                        door.settings.configuration.spool, on: POSIXFileSystem(), now: door.clock.monotonicTime())
                }
                return measured.map { door.telemetry.page(of: door) }
            },
            liveness: { eventLoop in
                door.committer.isAlive
                    ? eventLoop.makeSucceededVoidFuture()
                    : eventLoop.makeFailedFuture(DoorFailure(description: "the disk does not answer"))
            },
            readiness: { $0.makeSucceededFuture(door.telemetry.readiness(of: door)) },
            status: { _, channel in
                channel.eventLoop.makeSucceededFuture(door.telemetry.status(of: door))
            })
    }
}

extension Door {
    /// Whether a new connection may stay.
    fileprivate func admits(_ channel: any Channel) -> Bool {
        let settings = self.settings
        let peer = channel.remoteAddress?.ipAddress
        let isProxy = peer.map { settings.configuration.isProxy($0) } ?? false
        // A proxy's connections are many senders'.
        switch self.places.take(for: channel, of: isProxy ? nil : AddressGroup(peer).text, settings.places) {
        case .admitted: return true
        case .admittedInsteadOf(_, let limit):
            self.telemetry.ended(limit == .group ? .share : .full)
            return true
        case .refused:
            self.telemetry.ended(.busy)
            return false
        }
    }

    /// Makes room for the next connection, if this process may open no more files.
    ///
    /// - Returns: how long nothing is accepted: until the silent one is closed.
    fileprivate func accepting(failedBy error: IOError) -> TimeAmount {
        if FileSystemError.Code(errno: error.errnoCode) == .tooManyFiles {
            self.telemetry.ended(self.places.endSilent() ? .full : .busy)
            self.telemetry.lackedFiles(at: self.clock.monotonicTime())
        }
        return .milliseconds(20)
    }
}
