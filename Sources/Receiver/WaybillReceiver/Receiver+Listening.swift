internal import NIOCore
internal import NIOPosix
internal import ServiceLifecycle
internal import WaybillData
internal import WaybillHost
internal import WaybillProtocol
internal import WaybillSystem

/// Where agents connect: at an address of its own, and where proxies bring them.
extension Receiver {
    /// Accepts connections until the service is asked to stop, then closes them; agents resend what was not
    /// acknowledged.
    func serve(
        _ shared: ReceiverShared, _ group: MultiThreadedEventLoopGroup, _ recovery: JournalRecovery,
        _ metrics: MetricsServer?
    ) async throws {
        let server = try await self.listen(shared, group)
        let proxied: ProxiedServer?
        do {
            proxied = try await self.listenToProxies(shared, group)
        } catch {
            server.close(promise: nil)
            throw error
        }
        let servers = [server] + (proxied.map { [$0.channel] } ?? [])
        self.port.withLock { $0 = server.localAddress?.port }
        self.listening.withLock { $0.servers = servers }
        let places = servers.map { NetworkAddress.text(host: $0.localAddress?.ipAddress, port: $0.localAddress?.port) }
        self.telemetry.started(
            recovery, data: self.configuration.dataDirectory, listening: places[0],
            proxied: proxied.map { $0.file?.path ?? places[1] })
        self.onListening?(
            Ports(
                agents: server.localAddress?.port ?? self.configuration.listen.port,
                proxied: proxied?.channel.localAddress?.port, metrics: metrics?.port))
        try await withGracefulShutdownHandler {
            try await server.closeFuture.get()
        } onGracefulShutdown: {
            for server in servers { server.close(promise: nil) }
        }
        proxied?.file?.remove(proxied?.identity)
        let isLost = self.listening.withLock { $0.loss != nil }
        let text = "the journal of this receiver was deleted or moved while it ran; it stops"
        await shared.connections.closeAll(saying: isLost ? .err(.unavailable, text: text) : .bye)
    }

    private func listen(_ shared: ReceiverShared, _ group: MultiThreadedEventLoopGroup) async throws -> any Channel {
        let address = self.configuration.listen
        do {
            return try await Self.bootstrap(group)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
                .childChannelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let origin = ConnectionOrigin(address: channel.remoteAddress)
                        try self.admit(channel, from: origin, self.tls.withLock { $0 }, shared)
                    }
                }
                .bind(host: address.host, port: address.port).get()
        } catch {
            throw Failure.listen(address: "\(address)", cause: BindFailure.text(of: error), key: "--listen")
        }
    }

    /// What accepts connections of proxies.
    private struct ProxiedServer {
        let channel: any Channel
        var file: SocketFile?
        var identity: FileIdentity?
    }

    private func listenToProxies(
        _ shared: ReceiverShared, _ group: MultiThreadedEventLoopGroup
    ) async throws -> ProxiedServer? {
        let listener = self.configuration.proxied
        guard let place = listener.place else { return nil }
        let gate = ProxyGate(listener, telemetry: self.telemetry)
        let bootstrap = Self.bootstrap(group).childChannelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                let handler = ProxyHandler(gate, timeout: shared.timeouts.handshake) { channel, origin in
                    let tls = listener.usesTLS ? self.tls.withLock { $0 } : nil
                    try self.admit(channel, from: origin, tls, shared)
                }
                try channel.pipeline.syncOperations.addHandler(handler)
            }
        }
        switch place {
        case .address(let address):
            do {
                let channel = try await bootstrap.serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                    .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
                    .bind(host: address.host, port: address.port).get()
                return ProxiedServer(channel: channel)
            } catch {
                throw Failure.listen(address: "\(address)", cause: BindFailure.text(of: error), key: Self.proxiedKey)
            }
        case .socket(let path): return try await Self.listen(bootstrap, path, ownedBy: listener.group, group)
        }
    }

    private static let proxiedKey = "receiver.proxied.listen"

    private static func listen(
        _ bootstrap: ServerBootstrap, _ path: String, ownedBy name: String?, _ group: MultiThreadedEventLoopGroup
    ) async throws -> ProxiedServer {
        let owner = name.flatMap { UserGroup(named: $0) }
        if let name, owner == nil {
            throw Failure.listen(
                address: path, cause: "this machine has no group \(name)", key: "receiver.proxied.group")
        }
        let file = SocketFile(path: path, group: owner)
        do throws(SocketFile.Failure) {
            let (channel, identity) = try await file.listen(bootstrap, group)
            return ProxiedServer(channel: channel, file: file, identity: identity)
        } catch {
            throw Failure.listen(address: path, cause: error.cause, key: Self.proxiedKey)
        }
    }

    private static func bootstrap(_ group: MultiThreadedEventLoopGroup) -> ServerBootstrap {
        ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1024)
            .childChannelOption(.autoRead, value: false)
            .childChannelOption(
                .recvAllocator,
                value: AdaptiveRecvByteBufferAllocator(
                    minimum: 1024, initial: 4096, maximum: AdmissionBudget.pieceByteCount))
    }

    private func admit(
        _ channel: any Channel, from origin: ConnectionOrigin, _ tls: TLSServer?, _ shared: ReceiverShared
    ) throws {
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(ArrivalHandler(shared.connections, from: origin, hasTLS: tls != nil))
        let named = origin.proxy == nil ? nil : origin.text
        try tls?.addHandlers(to: channel, linger: shared.timeouts.linger, proxied: named) { refusal, causes, peer in
            shared.telemetry.tlsRefused(refusal, detail: causes, peer: peer)
        }
        try pipeline.addHandler(ConnectionHandler(shared: shared, from: origin))
    }
}
