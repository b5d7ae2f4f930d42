internal import NIOCore
internal import NIOPosix
internal import WaybillData
internal import WaybillFleet
package import WaybillHost
internal import WaybillReceiver
internal import WaybillSystem

/// What a merger answers about itself, and how its configuration is reloaded.
extension MergeService: ReloadableService {
    /// What serves the answers, until it is stopped.
    struct Watching: Sendable {
        let server: MetricsServer?
        let group: MultiThreadedEventLoopGroup?
        let usage: DiskUsage
        /// Why nothing is served, though it should be.
        let failure: ProjectionHost.Failure?

        func stop() async {
            self.server?.stop()
            self.usage.stop()
            do {
                try await self.group?.shutdownGracefully()
            } catch {
                // The process ends, and the group with it.
                return
            }
        }
    }

    /// Serves metrics, probes and status, unless the merger runs once or is asked for nowhere.
    func watched(
        _ data: DataDirectory<POSIXFileSystem>, _ feed: JournalFeed, _ conditions: HostConditions
    ) async -> Watching {
        let configuration = self.host.configuration
        let usage = DiskUsage(of: data.root, on: data.files, clock: POSIXClock())
        guard !self.setup.isOnce, configuration.status.metrics != nil || configuration.status.socket != nil else {
            return Watching(server: nil, group: nil, usage: usage, failure: nil)
        }
        let status = MergeStatus(
            configuration: configuration, fleet: self.setup.fleet, patience: self.setup.sealPatience,
            board: self.board, telemetry: self.telemetry, conditions: conditions, feed: feed, usage: usage,
            started: POSIXClock().wallTime())
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        do throws(MetricsServer.Failure) {
            let server = try await MetricsServer.start(
                on: configuration.status, token: self.reloader.statusToken, group: group, Self.answers(status))
            for place in server?.places ?? [] { self.telemetry.metricsServed(on: place) }
            return Watching(server: server, group: group, usage: usage, failure: nil)
        } catch {
            return Watching(server: nil, group: group, usage: usage, failure: .metrics(error))
        }
    }

    /// The merger's thread hangs.
    private struct Hanging: Error {}

    private static func answers(_ status: MergeStatus) -> MetricsAnswers {
        MetricsAnswers(
            page: { eventLoop in
                // The next scrape has what this one makes it count.
                _ = status.usage.measure(on: eventLoop)
                return eventLoop.makeSucceededFuture(status.page(status.usage.last))
            },
            liveness: { eventLoop in
                status.board.isAlive ? eventLoop.makeSucceededVoidFuture() : eventLoop.makeFailedFuture(Hanging())
            },
            readiness: { $0.makeSucceededFuture(status.readiness) },
            status: { position, channel in
                HostStatus.answer(after: position, on: channel, status.feed, status.usage) { status.json($0) }
            })
    }

    /// The bucket of the merger's thread, which shows with each answer that it continues.
    var countedStore: MeteredStore {
        MeteredStore(self.setup.store, self.telemetry.storeRequests) { self.turned() }
    }

    /// The merger's thread continues; the service's manager hears of it.
    func turned() {
        self.board.turned()
        self.heartbeat.withLock { $0.beat() }
    }

    /// Applies what can change while the merger runs; all or nothing.
    package func apply(_ new: MergerConfiguration, _ changes: inout [ConfigurationChange]) throws {
        changes += self.reloader.taken.status.tokenChanges(to: new.status, in: "merger")
        try self.host.reload(new.host)
    }
}
