package import Logging
internal import ServiceLifecycle
package import WaybillArchive
package import WaybillSystem
package import WaybillHost

internal import NIOCore
internal import NIOPosix
internal import WaybillExport
package import WaybillJournal
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
        case data(DataDirectoryError)
        case disk(FileSystemError)
        case tls(TLSSetupError)
        case listen(address: String, cause: String, key: String)
        case metrics(MetricsServer.Failure)
        /// Exports that cannot continue with their options.
        case exports([String])
        /// The journal cannot go from the own archive to a fleet now.
        case turn(String)
        /// The journal's files were deleted, moved or replaced; the archive had read it up to a position.
        case lost(JournalLoss, archived: JournalPosition)

        package var description: String {
            switch self {
            case .data(let error): error.description
            case .disk(let error): "the receiver's files cannot be used: \(error)"
            case .tls(let error): error.description
            case .listen(let address, let cause, let key):
                "cannot listen on \(address): \(cause); choose another address with \(key)"
            case .metrics(let failure): failure.description
            case .exports(let conflicts): conflicts.joined(separator: "\n")
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

    let configuration: ReceiverConfiguration
    let telemetry: ReceiverTelemetry
    let port = Lock<Int?>(nil)
    let exports: RunningExports
    let settings: LiveSettings
    let retirement: JournalRetirement
    /// What accepts connections, and the loss of the journal that closed it.
    let listening = Lock<(servers: [any Channel], loss: JournalLoss?)>(([], nil))
    /// The TLS of new connections; `nil` without TLS, and before ``run()``.
    let tls = Lock<TLSServer?>(nil)
    /// The configuration that was applied last.
    let taken: Lock<ReceiverConfiguration>
    let statusToken: StatusToken
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
        self.configuration = configuration
        self.taken = Lock(configuration)
        self.statusToken = StatusToken(configuration.status.token)
        self.settings = LiveSettings(configuration)
        self.retirement = JournalRetirement(
            names: Self.readers(configuration, store),
            retention: configuration.journalRetention, unread: configuration.unreadJournal)
        self.retirement.required = Self.required(self.settings.required, among: self.retirement.names)
        self.exports = RunningExports(names: Set(configuration.exports.map(\.provider.rawValue)))
        self.telemetry = ReceiverTelemetry(
            logger: logger, audit: configuration.audit.map { AuditLog(path: $0, clock: POSIXClock()) },
            manager: manager)
    }

    /// The port it listens on, once it does; useful when port 0 was requested.
    package var boundPort: Int? {
        self.port.withLock { $0 }
    }

    package func run() async throws {
        let server = try self.tlsServer()
        self.tls.withLock { $0 = $0 ?? server }
        let files = POSIXFileSystem(.data, dataDirectory: self.configuration.dataDirectory)
        let data = self.dataDirectory(on: files)
        let lock = try self.openData(data)
        defer { files.close(lock) }
        var journal = try self.openJournal(data)
        let recovery = journal.recovery
        let isNew = journal.lastMark == .unknown
        let clock = POSIXClock()
        let conditions = self.hostConditions(data, journal.lastMark)
        try self.begin(&journal, in: data, conditions, clock)
        try self.takeTurn(in: data, journalEnd: journal.end)
        let identity = journal.identity(name: self.configuration.name)
        let feed = JournalFeed(end: journal.end, byteCountMax: self.configuration.feedByteCount, isNew: isNew)
        self.telemetry.willProject(self.retirement.names.subtracting([UploadLoop.name]))
        let budget = AdmissionBudget(
            byteCount: self.configuration.admissionByteCount, limits: self.configuration.limits,
            journalEnd: journal.end)
        var workers = try self.projects ? self.startProjections(data, feed, conditions, budget) : []
        if let store { workers.append(self.startUploading(store, files, feed, conditions, clock)) }
        let committer = Committer()
        let loop = CommitLoop(
            journal: journal, feed: feed, budget: budget, retirement: self.retirement, conditions: conditions,
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

    /// Throws if the journal or the data directory was lost while the receiver ran.
    private func checkLoss() throws {
        guard let loss = self.listening.withLock({ $0.loss }) else { return }
        throw Failure.lost(loss, archived: self.telemetry.archivePosition)
    }

    private func startCommitting(
        _ loop: consuming CommitLoop<POSIXFileSystem>, _ committer: Committer, _ feed: JournalFeed
    ) -> Worker {
        let handover = Handover(loop)
        return Worker(name: "waybill-commit") {
            handover.take { loop in
                guard let loss = committer.run(loop, self.telemetry.manager) else { return }
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

    func dataDirectory(on files: POSIXFileSystem) -> DataDirectory<POSIXFileSystem> {
        DataDirectory(
            root: self.configuration.dataDirectory, files: files,
            openFileCountMax: ProcessLimits.projectionFileCount(
                ofOpenFiles: Self.openFileCount, needed: Self.neededFileCount))
    }

    func openData(_ data: DataDirectory<POSIXFileSystem>) throws(Failure) -> FileID {
        do throws(FileSystemError) {
            try data.create()
        } catch {
            throw .disk(error)
        }
        do throws(DataDirectoryError) {
            let lock = try data.lock(processID: ProcessID.current)
            for folder in data.closeToOthers() {
                self.telemetry.folderOpenToOthers(folder.path, folder.permissions, folder.failure)
            }
            try self.finishErasure(in: data)
            return lock
        } catch {
            throw .data(error)
        }
    }

    /// Exchanges the files of an erasure that was interrupted.
    private func finishErasure(in data: DataDirectory<POSIXFileSystem>) throws(DataDirectoryError) {
        do throws(FileSystemError) {
            try ErasureLog.finishExchange(in: data)
        } catch {
            throw .unusable(error)
        }
    }

    private func hostConditions(_ data: DataDirectory<POSIXFileSystem>, _ lastMark: WallTime) -> HostConditions {
        HostConditions(
            lastMark: lastMark, configuration: self.configuration, data: data, telemetry: self.telemetry,
            sealInterval: self.store?.sealInterval,
            poison: .watching(data, version: self.configuration.programVersion))
    }

    private func openJournal(_ data: DataDirectory<POSIXFileSystem>) throws(Failure) -> Journal<POSIXFileSystem> {
        do throws(FileSystemError) {
            return try data.openJournal()
        } catch {
            throw .disk(error)
        }
    }

    private func begin(
        _ journal: inout Journal<POSIXFileSystem>, in data: DataDirectory<POSIXFileSystem>,
        _ conditions: HostConditions, _ clock: any SystemClock
    ) throws(Failure) {
        let formerEnd = journal.end
        do throws(FileSystemError) {
            try journal.begin(
                .random(), in: data, name: self.configuration.name, conditions, clock, telemetry: self.telemetry)
            self.configuration.membership?.begins(after: formerEnd, at: journal.end)
        } catch {
            throw .disk(error)
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

    // MARK: Projections

    private static let openFileCount = 65_536
    /// Connections, and the files of twelve projections.
    private static let neededFileCount = 16_384

    func startProjections(
        _ data: DataDirectory<POSIXFileSystem>, _ feed: JournalFeed, _ conditions: HostConditions,
        _ budget: AdmissionBudget
    ) throws(Failure) -> [Worker] {
        let histories = try self.exportHistories(data)
        var workers: [Worker] = []
        do throws(FileSystemError) {
            let archived = DataDirectory(
                root: data.root, files: data.files,
                openFileCountMax: ProcessLimits.archiveFileCount(
                    ofOpenFiles: Self.openFileCount, needed: Self.neededFileCount), stop: feed.abandonment)
            let exported = DataDirectory(
                root: data.root, files: data.files, openFileCountMax: data.openFileCountMax, stop: feed.abandonment)
            let archive = try ArchiveProjection(
                data: archived, zone: self.configuration.archiveZone,
                cutOffSecond: self.configuration.archiveCutOffSecond, quotas: self.configuration.archiveQuotas)
            var archives = self.group(of: ArchiveProjection<POSIXFileSystem>.self, data, conditions, budget)
            archives.add(archive)
            workers.append(Self.follow("waybill-archive", archives, feed))
            let exports = Array(zip(self.configuration.exports, histories))
            // The exports on one thread read and parse each batch once; receiving has priority over them.
            let threadCount = min(exports.count, max(1, System.coreCount / 4))
            for thread in 0..<threadCount {
                var group = self.group(
                    of: ExportProjection<POSIXFileSystem>.self, data, conditions, followsArchive: true)
                for index in stride(from: thread, to: exports.count, by: threadCount) {
                    group.add(try self.export(exports[index].0, exports[index].1, exported))
                }
                workers.append(Self.follow("wb-exports-\(thread)", group, feed, givesWay: true))
            }
        } catch {
            feed.close()
            for worker in workers { worker.join() }
            throw .disk(error)
        }
        return workers
    }

    /// The options each export was written with so far; an export that cannot continue with its options stops the
    /// start.
    private func exportHistories(_ data: DataDirectory<POSIXFileSystem>) throws(Failure) -> [ExportHistory] {
        var histories: [ExportHistory] = []
        var conflicts: [String] = []
        for options in self.configuration.exports {
            do throws(FileSystemError) {
                let history = try ExportHistory(ofExport: options.provider.rawValue, in: data)
                if let conflict = history.conflict(with: options) { conflicts.append(conflict) }
                histories.append(history)
            } catch {
                throw .disk(error)
            }
        }
        guard conflicts.isEmpty else { throw .exports(conflicts) }
        return histories
    }

    private func export(
        _ options: ExportOptions, _ history: ExportHistory, _ data: DataDirectory<POSIXFileSystem>
    ) throws(FileSystemError) -> ExportProjection<POSIXFileSystem> {
        let pending = PendingOptions { [telemetry] options, report in
            telemetry.exportGoesOn(options.provider.rawValue, mappingVersion: options.mappingVersion, report)
        }
        if let conflict = self.exports.add(options, history, pending) { self.telemetry.reloadRefused([conflict]) }
        return try ExportProjection.live(options, data: data, pending: pending)
    }

    private func group<Output: Projection & ~Copyable>(
        of output: Output.Type, _ data: DataDirectory<POSIXFileSystem>, _ conditions: HostConditions,
        _ budget: AdmissionBudget? = nil, followsArchive: Bool = false
    ) -> ProjectionGroup<POSIXFileSystem, Output> {
        ProjectionGroup(
            journalDirectory: data.journal, files: data.files, retirement: self.retirement,
            configuration: self.configuration, settings: self.settings, conditions: conditions, clock: POSIXClock(),
            telemetry: self.telemetry, budget: budget, followsArchive: followsArchive)
    }

    private static func follow<Output: Projection & ~Copyable>(
        _ thread: String, _ group: consuming ProjectionGroup<POSIXFileSystem, Output>, _ feed: JournalFeed,
        givesWay: Bool = false
    ) -> Worker {
        let handover = Handover(group)
        return Worker(name: thread) {
            if givesWay { Worker.giveWay() }
            handover.take { group in
                var group = group
                group.run(on: feed)
            }
        }
    }
}
