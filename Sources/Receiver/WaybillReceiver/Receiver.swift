package import Logging
internal import ServiceLifecycle
package import WaybillData
package import WaybillHost
package import WaybillSystem

internal import NIOCore
internal import NIOPosix
internal import WaybillExport
internal import WaybillProjection
internal import WaybillProtocol

/// The receiver as a service: connections, one committer, and threads for projections.
///
///     connection ─▶ ReceiverSession ─▶ AdmissionBudget ─▶ BatchChecker ─▶ Committer ─▶ journal, fdatasync ─▶ ACK
///     (event loops, no blocking call)      (thread pool)     │ (one thread)
///                                                            └─▶ JournalFeed ─▶ ProjectionGroup ─▶ files
///
/// Life of one batch: the session decodes its line and answers it → the budget admits the payload → it is read into one
/// allocation → a pool thread verifies and inflates it → the committer appends the bytes as they came, syncs once for
/// the whole group, answers → projections take the inflated bytes from memory.
///
/// Memory: admission budget, which covers every message until it is answered + feed + one inflate state for each pool
/// thread + a message line for each connection, with TLS 20 KiB more + the descriptions of open streams, which have
/// their own limit. The tables of streams and partitions grow with their number.
package final class Receiver: Service {
    /// Why a receiver cannot start.
    package enum Failure: Error, CustomStringConvertible {
        case host(ProjectionHost.Failure)
        case tls(TLSSetupError)
        case listen(address: String, cause: String, key: String)
        /// The journal cannot go from the own archive to a fleet now.
        case turn(String)
        /// The journal's files were deleted, moved or replaced; the archive had read it up to a position.
        case lost(JournalLoss, archived: JournalPosition)

        package var description: String {
            switch self {
            case .host(let failure): failure.description
            case .tls(let error): error.description
            case .listen(let address, let cause, let key):
                "cannot listen on \(address): \(cause); choose another address with \(key)"
            case .turn(let problem): problem
            case .lost(let loss, let archived): Self.text(loss, archived: archived)
            }
        }

        private static func text(_ loss: JournalLoss, archived: JournalPosition) -> String {
            var text = "\(loss). Nothing was acknowledged after position \(loss.end), and agents keep what was not. "
            if loss.isFolder {
                text +=
                    "What was acknowledged before is in the folder that was there: if it was moved, put it back, and "
                    + "start the receiver again. If it was deleted, restore a backup; then agents send again what they "
                    + "still have of what it lacks."
            } else if archived < loss.end {
                text +=
                    "The archive has read the journal up to position \(archived): acknowledged lines between the two may "
                    + "be lost with the segment. Start the receiver again: agents send what they still have of them."
            } else {
                text +=
                    "The archive has read everything that was acknowledged. Exports may lack lines; start the receiver "
                    + "again, and use waybill replay for the last day if their counts differ."
            }
            return text
        }
    }

    package let reloader: Reloader<ReceiverConfiguration>
    let telemetry: ReceiverTelemetry
    let host: ProjectionHost
    let port = Lock<Int?>(nil)
    /// What accepts connections, and the loss of the journal that closed it.
    let listening = Lock<(servers: [any Channel], loss: JournalLoss?)>(([], nil))
    /// The TLS of new connections; `nil` without TLS, and before ``run()``.
    let tls = Lock<TLSServer?>(nil)
    /// What connections share; `nil` before ``run()``.
    let serving = Lock<ReceiverShared?>(nil)
    /// Reads certificates and agents again, after one of their files has changed.
    let onTrustChange: (@Sendable (Receiver) -> Void)?
    let onListening: (@Sendable (Ports) -> Void)?
    let store: StoreAttachment?
    let announcement: AgentsAnnouncement

    /// The ports that a receiver listens on, also where port 0 was requested.
    package struct Ports: Sendable {
        package let agents: Int
        /// Where proxies bring agents; `nil`: nowhere, or over a socket's file.
        package var proxied: Int?
        package let metrics: Int?
    }

    /// - Parameters:
    ///   - store: the bucket that the journal goes to; `nil`: none.
    ///   - onTrustChange: called on a thread of the receiver's own; it calls ``reloadTrust(_:)``.
    ///   - onListening: called once, when agents can connect.
    package init(
        configuration: ReceiverConfiguration, logger: Logger, manager: ServiceManager = .none,
        store: StoreAttachment? = nil, onTrustChange: (@Sendable (Receiver) -> Void)? = nil,
        onListening: (@Sendable (Ports) -> Void)? = nil
    ) {
        self.onTrustChange = onTrustChange
        self.onListening = onListening
        self.store = store
        self.announcement = AgentsAnnouncement(store.map { _ in configuration.agentsRecord })
        var configuration = configuration
        if let store { configuration.membership = FleetMembership(fleet: store.fleet) }
        self.telemetry = ReceiverTelemetry(
            logger: logger, audit: configuration.audit.map { AuditLog(path: $0, clock: POSIXClock()) },
            manager: manager)
        self.reloader = Reloader(configuration, self.telemetry.host.reloads)
        self.host = ProjectionHost(
            configuration.hosting, self.telemetry.host, readers: Self.readers(configuration, store),
            required: [UploadLoop.name])
    }

    /// What it was started with.
    var configuration: ReceiverConfiguration { self.reloader.started }

    /// The port it listens on, once it does; useful when port 0 was requested.
    package var boundPort: Int? {
        self.port.withLock { $0 }
    }

    package func run() async throws {
        let server = try self.tlsServer()
        self.tls.withLock { $0 = $0 ?? server }
        let files = POSIXFileSystem(.data, dataDirectory: self.configuration.dataDirectory)
        let data = self.host.dataDirectory(on: files)
        let lock = try self.hosted { () throws(ProjectionHost.Failure) in try self.host.openData(data) }
        defer { files.close(lock) }
        var journal = try self.openJournal(data)
        let (recovery, isNew) = (journal.recovery, journal.lastMark == .unknown)
        let clock = POSIXClock()
        let conditions = self.hostConditions(data, journal.lastMark)
        try self.begin(&journal, in: data, conditions, clock)
        try self.takeTurn(in: data, journalEnd: journal.end)
        let identity = journal.identity(name: self.configuration.name)
        let feed = JournalFeed(end: journal.end, byteCountMax: self.configuration.feedByteCount, isNew: isNew)
        self.telemetry.host.willProject(self.host.retirement.names.subtracting([UploadLoop.name]))
        let budget = AdmissionBudget(
            byteCount: self.configuration.admissionByteCount, limits: self.configuration.limits,
            journalEnd: journal.end)
        var workers = try self.hosted { () throws(ProjectionHost.Failure) in
            try self.projects ? self.host.startProjections(data, feed, conditions, budget) : []
        }
        if let store { workers.append(self.startUploading(store, files, feed, conditions, clock)) }
        let committer = Committer()
        let loop = CommitLoop(
            journal: journal, feed: feed, budget: budget, retirement: self.host.retirement, conditions: conditions,
            clock: clock, telemetry: self.telemetry, quotas: self.configuration.quotas,
            membership: self.configuration.membership)
        let committing = self.startCommitting(loop, committer, feed)
        let pool = NIOThreadPool(numberOfThreads: System.coreCount)
        pool.start()
        let shared = ReceiverShared(
            configuration: self.configuration, identity: identity, feed: feed, budget: budget,
            checker: BatchChecker(lineByteCountMax: self.configuration.limits.lineByteCountMax) { check in
                pool.submit { state in if case .active = state { check() } }
            },
            committer: committer, conditions: conditions, clock: clock, telemetry: self.telemetry,
            revocations: self.tls.withLock { $0?.revocations ?? .empty })
        self.serving.withLock { $0 = shared }
        self.telemetry.agentsInForce(self.configuration.agents)
        let isStopping = Monitor(false)
        let watching = Worker(name: "waybill-trust") { self.watch(shared, until: isStopping) }
        let auditing = Worker(name: "waybill-audit") { [telemetry] in
            telemetry.audit?.run(on: files, failed: telemetry.auditFailed)
        }

        let group = MultiThreadedEventLoopGroup(numberOfThreads: System.coreCount)
        let result: Result<Void, any Error>
        do {
            let usage = DiskUsage(of: data.root, on: files, clock: clock)
            defer { usage.stop() }
            let status = ReceiverStatus(shared: shared, feed: feed, telemetry: self.telemetry, usage: usage)
            result = .success(try await self.serve(status, group, recovery))
        } catch {
            result = .failure(error)
        }
        // Stop checks first, then the journal: both answer on the event loops, which stop last.
        isStopping.update { $0 = true }
        watching.join()
        try await pool.shutdownGracefully()
        committer.close()
        committing.join()
        self.finishReading(feed, workers, group)
        try await group.shutdownGracefully()
        self.telemetry.audit?.close()
        auditing.join()
        self.telemetry.stopped()
        try self.checkLoss()
        try result.get()
    }

    private func hosted<Result>(_ body: () throws(ProjectionHost.Failure) -> Result) throws(Failure) -> Result {
        do throws(ProjectionHost.Failure) {
            return try body()
        } catch {
            throw .host(error)
        }
    }

    /// Throws if the journal or the data directory was lost while the receiver ran.
    private func checkLoss() throws {
        guard let loss = self.listening.withLock({ $0.loss }) else { return }
        throw Failure.lost(loss, archived: self.telemetry.host.archivePosition)
    }

    private func startCommitting(
        _ loop: consuming CommitLoop<POSIXFileSystem>, _ committer: Committer, _ feed: JournalFeed
    ) -> Worker {
        let handover = Handover(loop)
        return Worker(name: "waybill-commit") {
            handover.take { loop in
                guard let loss = committer.run(loop, self.telemetry.host.manager) else { return }
                // Projections open files by their paths, where there may be another data directory now.
                if loss.isFolder { feed.abandon() }
                self.close(after: loss)
            }
        }
    }

    /// Lets archive and exports read on for a while; the journal has the rest, and the next start continues there.
    private func finishReading(_ feed: JournalFeed, _ workers: [Worker], _ group: MultiThreadedEventLoopGroup) {
        feed.close()
        let patience = group.next().scheduleTask(in: .nanoseconds(self.configuration.stopPatience.nanoseconds)) {
            feed.abandon()
        }
        for worker in workers { worker.join() }
        patience.cancel()
    }

    /// Accepts no more connections: nothing can be acknowledged any more.
    private func close(after loss: JournalLoss) {
        let servers = self.listening.withLock { listening in
            listening.loss = loss
            return listening.servers
        }
        for server in servers { server.close(promise: nil) }
    }

    private func tlsServer() throws(Failure) -> TLSServer? {
        do throws(TLSSetupError) {
            guard let configuration = self.configuration.tls else { return nil }
            let server = try TLSServer(configuration, isSigned: RevocationSignature.isValid)
            self.telemetry.tlsServed(until: server.expiry, now: POSIXClock().wallTime(), asksAgents: server.asksAgents)
            return server
        } catch {
            throw .tls(error)
        }
    }

    private func hostConditions(_ data: DataDirectory<POSIXFileSystem>, _ lastMark: WallTime) -> HostConditions {
        HostConditions(
            lastMark: lastMark, configuration: self.host.configuration, data: data, telemetry: self.telemetry.host,
            sealInterval: self.store?.sealInterval,
            poison: .watching(data, version: self.configuration.programVersion))
    }

    private func openJournal(_ data: DataDirectory<POSIXFileSystem>) throws(Failure) -> Journal<POSIXFileSystem> {
        do throws(FileSystemError) {
            return try data.openJournal()
        } catch {
            throw .host(.disk(error))
        }
    }

    private func begin(
        _ journal: inout Journal<POSIXFileSystem>, in data: DataDirectory<POSIXFileSystem>,
        _ conditions: HostConditions, _ clock: any SystemClock
    ) throws(Failure) {
        let formerEnd = journal.end
        do throws(FileSystemError) {
            try journal.begin(
                .random(), in: data, name: self.configuration.name, conditions, clock, telemetry: self.telemetry.journal
            )
            self.configuration.membership?.begins(after: formerEnd, at: journal.end)
        } catch {
            throw .host(.disk(error))
        }
    }

    /// Serves agents, and those who ask how the receiver is doing.
    private func serve(
        _ status: ReceiverStatus, _ group: MultiThreadedEventLoopGroup, _ recovery: JournalRecovery
    ) async throws {
        let metrics = try await self.serveMetrics(status, group)
        defer { metrics?.stop() }
        try await self.serve(status.shared, group, recovery, metrics)
    }
}
