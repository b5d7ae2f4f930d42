package import Logging
package import WaybillHost
package import WaybillSystem

internal import NIOCore
internal import NIOPosix

/// Runs all deliveries of a configuration in one process.
///
///     setup ─▶ one child task for each delivery: Deliverer ─▶ stopped, failed ─▶ a wait ─▶ Deliverer …
///     reload ─▶ those that are new or changed start, those that changed or went end first; the others continue
///
/// Each delivery has its own connections, state, lock and waits, so that one provider's trouble delays no other. They
/// share what the machine has. Parts are read in turns: at most as many at once as there are processors.
package actor DeliveryService {
    /// A delivery that runs.
    private struct Running {
        let entry: DeliverySetup.Entry
        /// Ends the delivery.
        let stop: AsyncStream<Void>.Continuation
        /// Ends when the delivery has.
        let ended: AsyncStream<Void>
    }

    /// What a child task needs.
    private struct Order: Sendable {
        let entry: DeliverySetup.Entry
        let stop: AsyncStream<Void>
        let end: AsyncStream<Void>.Continuation
        /// The delivery of the same name before it, whose lock it needs.
        let former: AsyncStream<Void>?
    }

    private let setup: DeliverySetup
    private var running: [String: Running] = [:]
    private let logger: Logger
    private let claims: DeliveryClaims?
    private let connect: ProviderConnection.Opening
    private nonisolated let board: DeliveryStates
    private nonisolated let orders: AsyncStream<Order>
    private nonisolated let give: AsyncStream<Order>.Continuation

    /// - Parameters:
    ///   - software: this program with its version, as the status shows it.
    ///   - claims: where it is decided which merger sends what; `nil` outside a fleet.
    ///   - connect: opens the connections to a provider.
    package init(
        _ setup: DeliverySetup, software: String, logger: Logger, claims: DeliveryClaims? = nil,
        connect: @escaping ProviderConnection.Opening
    ) {
        self.claims = claims
        self.connect = connect
        self.board = DeliveryStates(software: software, started: POSIXClock().wallTime())
        self.setup = setup
        self.logger = logger
        (self.orders, self.give) = AsyncStream.makeStream()
    }

    /// Serves metrics and status, if an address or a socket is named.
    package nonisolated func serveMetrics(
        on places: StatusPlaces, token: StatusToken
    ) async throws(MetricsServer.Failure) -> MetricsServer? {
        let board = self.board
        return try await MetricsServer.start(
            on: places, token: token, group: MultiThreadedEventLoopGroup.singleton,
            MetricsAnswers(
                page: { $0.makeSucceededFuture(board.page(at: POSIXClock().wallTime())) },
                liveness: { $0.makeSucceededVoidFuture() },
                readiness: { $0.makeSucceededFuture(board.readiness) },
                status: { $1.eventLoop.makeSucceededFuture(board.status(at: POSIXClock().wallTime())) }))
    }

    /// Runs the deliveries until the task is cancelled; requests in flight are waited for.
    package nonisolated func run() async {
        await self.start()
        await withDiscardingTaskGroup { group in
            for await order in self.orders {
                group.addTask { await self.perform(order) }
            }
            group.cancelAll()
        }
    }

    private func start() {
        for entry in self.setup.entries { self.begin(entry, after: nil) }
    }

    private func begin(_ entry: DeliverySetup.Entry, after former: AsyncStream<Void>?) {
        let (stopping, stop) = AsyncStream<Void>.makeStream()
        let (ended, end) = AsyncStream<Void>.makeStream()
        self.running[entry.name] = Running(entry: entry, stop: stop, ended: ended)
        self.give.yield(Order(entry: entry, stop: stopping, end: end, former: former))
    }

    /// Applies a new configuration and logs what it changes.
    package func reload(_ setup: DeliverySetup, _ changes: [ConfigurationChange]) {
        for change in changes {
            self.logger.notice(
                change.needsRestart ? "a changed key needs a restart" : "a key changed",
                metadata: ["key": "\(change.key)", "old": "\(change.old)", "new": "\(change.new)"])
        }
        if changes.isEmpty { self.logger.notice("reloaded: nothing changed") }
        for (name, running) in self.running where !setup.entries.contains(where: { $0.name == name }) {
            running.stop.finish()
            self.running[name] = nil
        }
        for var entry in setup.entries {
            entry.delivery.dataDirectory = self.setup.data
            guard let former = self.running[entry.name] else {
                self.begin(entry, after: nil)
                continue
            }
            // What waits for an operator is tried again, though nothing changed: files of credentials are not in here.
            if former.entry == entry, !self.waitsForOperator(entry.name) { continue }
            former.stop.finish()
            self.begin(entry, after: former.ended)
        }
    }

    private func waitsForOperator(_ name: String) -> Bool {
        switch self.board.all.first(where: { $0.name == name })?.condition {
        case .refused, .failed, nil: true
        case .up, .backingOff: false
        }
    }

    /// Whether the delivery of this name was not replaced by another meanwhile.
    private func isRunning(_ entry: DeliverySetup.Entry) -> Bool {
        self.running[entry.name] != nil
    }

    // MARK: One delivery

    private nonisolated func perform(_ order: Order) async {
        if let former = order.former { for await _ in former {} }
        let entry = order.entry
        self.board.begin(
            DeliveryProgress(
                entry.name, entry.delivery.provider, retryLongest: entry.retryLongest, seed: SystemRandom.seed()))
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.deliver(entry) }
            group.addTask { for await _ in order.stop {} }
            await group.next()
            group.cancelAll()
        }
        if await !self.isRunning(entry) { self.board.remove(entry.name) }
        order.end.finish()
    }

    /// Delivers, again and again, until the task is cancelled.
    private nonisolated func deliver(_ entry: DeliverySetup.Entry) async {
        var logger = self.logger
        logger[metadataKey: "delivery"] = "\(entry.name)"
        while !Task.isCancelled {
            let wait = await self.attempt(entry, logger)
            do {
                // Without a time the end of the task is waited for, which a reload brings.
                try await Task.sleep(for: wait ?? .seconds(Int64(Int32.max)))
            } catch {
                return
            }
        }
    }

    /// Delivers until delivery ends.
    ///
    /// - Returns: how long to wait before the next attempt.
    private nonisolated func attempt(_ entry: DeliverySetup.Entry, _ logger: Logger) async -> Duration? {
        let files = POSIXFileSystem(.data, dataDirectory: entry.delivery.dataDirectory)
        let transport: ProviderConnection
        let deliverer: Deliverer<POSIXFileSystem, POSIXClock, ProviderConnection>
        let board = self.board
        do {
            let source =
                try entry.credentialsFile.map { try CredentialSource(file: $0, files: files) } ?? CredentialSource()
            let proxy = try ProxyAddress.find(for: try entry.delivery.address(), in: { ProcessEnvironment[$0] })
            transport = self.connect(entry.timeout, proxy)
            do {
                deliverer = try Deliverer(
                    entry.delivery, credentials: source, files: files, clock: POSIXClock(), transport: transport,
                    logger: logger, claims: self.claims,
                    observe: { report in _ = board.update(entry.name) { $0.observed(report) } })
            } catch {
                await self.shutDown(transport, logger)
                throw error
            }
        } catch {
            return self.failed(entry, "\(error)", logger)
        }
        let result: Result<DeliveryReport, DeliveryError>
        do throws(DeliveryError) {
            result = .success(try await deliverer.run())
        } catch {
            result = .failure(error)
        }
        await self.shutDown(transport, logger)
        switch result {
        case .failure(let error): return self.failed(entry, "\(error)", logger)
        case .success(let report):
            guard case .stopped(let reason) = report.outcome else {
                _ = board.update(entry.name) { $0.observed(report) }
                return .zero
            }
            let wait = board.update(entry.name) { $0.stopped(reason, report) } ?? nil
            logger.error(
                .deliveryRefused, "the provider refuses; delivery to it waits",
                metadata: ["detail": "\(reason.description)"])
            return wait
        }
    }

    private nonisolated func failed(_ entry: DeliverySetup.Entry, _ detail: String, _ logger: Logger) -> Duration {
        logger.error(.deliveryFailed, "nothing is delivered; it is tried again", metadata: ["detail": "\(detail)"])
        return self.board.update(entry.name) { $0.failed(detail) } ?? entry.retryLongest
    }

    private nonisolated func shutDown(_ transport: ProviderConnection, _ logger: Logger) async {
        do {
            try await transport.shutDown()
        } catch {
            logger.warning(.connectionsNotClosed, "connections could not be closed", metadata: ["detail": "\(error)"])
        }
    }
}
