package import Logging
internal import ServiceLifecycle
internal import WaybillData
package import WaybillFleet
package import WaybillHost
internal import WaybillProjection
package import WaybillProtocol
internal import WaybillReceiver
internal import WaybillReplay
package import WaybillSystem

/// A merger as a service: archive and exports whose input is the bucket.
///
///     bucket ─▶ Merger ─▶ merged journal ─▶ JournalFeed ─▶ archive, exports ─▶ sealed days ─▶ Publisher ─▶ bucket
///               (one thread)                 up to the next barrier    (``ProjectionHost``)   (one thread)
///
/// What follows the merged journal is a receiver's, too: archive, exports, seals, `deliver`, `replay`, `inspect`, live page.
///
/// Memory: the merger's, and that of the projections; these read the merged journal from the disk.
package final class MergeService: Service {
    package struct Setup: Sendable {
        package let configuration: MergerConfiguration
        package let store: any ObjectStore
        package let fleet: Incarnation
        /// The fleet's: how often days may be sealed.
        package var sealInterval = Duration.seconds(300)
        /// How long to wait before the bucket is asked again when it had nothing.
        package var pollInterval = Duration.seconds(1)
        /// How long a silent receiver holds up seals.
        package var sealPatience = Duration.seconds(1800)
        /// Ends when everything that the bucket has is merged and projected.
        package var isOnce = false

        package init(_ configuration: MergerConfiguration, store: any ObjectStore, fleet: Incarnation) {
            self.configuration = configuration
            self.store = store
            self.fleet = fleet
        }
    }

    /// What a merger did, for `--once`.
    package struct Report: Hashable, Sendable {
        package var roundCount = 0
        package var tally = MergeTally()
        package var publishedCount = 0
        package var missing: [MissingBytes] = []
        package var checkpointCount = 0
        /// Pieces of receivers' journals that were deleted.
        package var deletedPieceCount = 0
        /// Objects of erased days that were put in place of older ones, or deleted.
        package var replacedCount = 0
        /// Erasures that were applied, and the lines and records that they took.
        package var erasureCount = 0
        package var erasedLineCount = 0
        package var erasedRecordCount = 0

        mutating func add(_ erasures: [Eraser<POSIXFileSystem>.Report]) {
            self.erasureCount += erasures.count
            self.erasedLineCount += erasures.reduce(0) { $0 + $1.lineCount }
            self.erasedRecordCount += erasures.reduce(0) { $0 + $1.recordCount }
        }
    }

    let setup: Setup
    let host: ProjectionHost
    let telemetry: HostTelemetry
    package let reloader: Reloader<MergerConfiguration>
    let board = MergeProgress(clock: POSIXClock())
    let heartbeat: Lock<Heartbeat>
    let logger: Logger
    let stopping = Monitor(false)
    let result = Lock<(report: Report, failure: MergeFailure?)>((Report(), nil))

    package init(_ setup: Setup, logger: Logger, manager: ServiceManager = .none) {
        self.setup = setup
        self.telemetry = HostTelemetry(logger: logger, manager: manager)
        self.host = ProjectionHost(
            setup.configuration.host, self.telemetry,
            readers: ProjectionHost.projections(setup.configuration.host))
        self.reloader = Reloader(setup.configuration, self.telemetry.reloads)
        self.heartbeat = Lock(Heartbeat(manager, clock: POSIXClock()))
        self.logger = logger
    }

    package var report: Report { self.result.withLock { $0.report } }

    package func run() async throws {
        let files = POSIXFileSystem(.data, dataDirectory: self.host.configuration.dataDirectory)
        let data = self.host.dataDirectory(on: files)
        let lock = try self.host.openData(data)
        defer { files.close(lock) }
        try await self.restore(data)
        let checkpoints = self.checkpoints(data)
        let barriers = SealBarriers(names: self.host.retirement.names)
        let conditions = HostConditions(
            lastMark: .unknown, configuration: self.host.configuration, data: data, telemetry: self.telemetry,
            barriers: barriers, finishesSeals: self.setup.isOnce,
            poison: .watching(data, version: self.host.configuration.programVersion, decides: false))
        var merger = try self.merger(in: data)
        try self.completeRecord(of: &merger, in: data)
        let feed = JournalFeed(end: Self.firstEnd(&merger), byteCountMax: 0)
        self.telemetry.willProject(self.host.retirement.names)
        let turns = try ErasureTurns(data, feed, self.host.retirement, self.logger) {
            [host] () throws(ProjectionHost.Failure) in
            try host.startProjections(data, feed, conditions)
        }
        try turns.announce(!merger.erasures.pending.isEmpty)
        let handover = Handover(merger)
        let merging = Worker(name: "waybill-merge") {
            handover.take { merger in
                self.merge(merger, feed, barriers, checkpoints, turns, data)
                feed.close()
            }
        }
        let backing = Worker(name: "waybill-checkpoint") { checkpoints.run() }
        let publishing = Worker(name: "waybill-publish") { self.publish(data, turns) }
        let watching = await self.watched(data, feed, conditions)
        self.telemetry.manager.tell(.ready, .status("merging"))
        await withGracefulShutdownHandler {
            if watching.failure != nil { self.stopping.update { $0 = true } }
            await Self.join(merging)
        } onGracefulShutdown: {
            self.stopping.update { $0 = true }
        }
        for worker in turns.workers { await Self.join(worker) }
        checkpoints.end()
        await Self.join(backing)
        self.result.withLock { result in
            result.report.checkpointCount = checkpoints.counts.checkpointCount
            result.report.deletedPieceCount = checkpoints.counts.pieceCount
        }
        self.stopping.update { $0 = true }
        await Self.join(publishing)
        await watching.stop()
        self.logger.info("merger stopped", metadata: self.telemetry.reloadCounts)
        if let failure = watching.failure { throw failure }
        if let failure = self.result.withLock({ $0.failure }) { throw failure }
    }

    /// Joins a thread without holding one of the executor's.
    static func join(_ worker: Worker) async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            _ = Worker(name: "waybill-join") {
                worker.join()
                continuation.resume()
            }
        }
    }

    private func merger(in data: DataDirectory<POSIXFileSystem>) throws(MergeFailure) -> Merger<POSIXFileSystem> {
        var setup = Merger<POSIXFileSystem>.Setup(
            name: self.host.configuration.name, fleet: self.setup.fleet, journalDirectory: data.journal,
            statePath: data.statePath("merge"))
        setup.patience = self.setup.sealPatience
        setup.sealInterval = self.setup.sealInterval
        if self.setup.isOnce { setup.discoveryInterval = .zero }
        setup.standing = { [retirement = self.host.retirement] in retirement.standing(of: $0) }
        return try Merger(setup, files: data.files, store: self.countedStore)
    }

    // MARK: Merging

    /// The merger's thread.
    private func merge(
        _ merger: consuming Merger<POSIXFileSystem>, _ feed: JournalFeed, _ barriers: SealBarriers,
        _ checkpoints: MergeCheckpoints, _ turns: ErasureTurns, _ data: DataDirectory<POSIXFileSystem>
    ) {
        var merger = merger
        var backoff = Backoff(from: .milliseconds(200), to: .seconds(30), SeededGenerator(seed: SystemRandom.seed()))
        let clock = POSIXClock()
        var failureCount = 0
        var unreadable: Set<String> = []
        var areClocksApart = false
        self.board.stepped(nil, merger)
        while !self.isStopping {
            self.turned()
            do throws(MergeFailure) {
                let step = try merger.step(now: clock.wallTime(), clock.monotonicTime())
                self.board.stepped(step, merger)
                self.report(merger.unreadable.keys, &unreadable)
                self.compareClocks(&areClocksApart)
                if failureCount > 0 {
                    failureCount = 0
                    backoff.succeed()
                    self.logger.info("the merger continues")
                }
                try self.handOut(&merger, feed, barriers, checkpoints, turns)
                switch step {
                case .applied(let round, let tally): self.applied(round, tally)
                case .idle:
                    let isPending =
                        !merger.erasures.pending.isEmpty || !merger.setAsides.pending.isEmpty || merger.waitsForReader
                    if self.setup.isOnce, merger.barriers.isEmpty, !isPending { break }
                    self.wait(self.setup.pollInterval)
                    continue
                }
                if !checkpoints.isBusy { try self.retire(&merger) }
                if case .idle = step { return self.finish(merger) }
            } catch {
                failureCount += 1
                let pause = backoff.fail()
                self.failed(error, attempt: failureCount, retryingIn: pause)
                if error.isForCheckpoint { self.requestRestore(data) }
                guard error.isPassing else { return self.result.withLock { $0.failure = error } }
                self.wait(pause)
                guard case .disk = error else { continue }
                // What the disk has is known only after it was read again.
                do throws(MergeFailure) {
                    merger = try self.merger(in: data)
                } catch {
                    return self.result.withLock { $0.failure = error }
                }
            }
        }
        self.finish(merger)
    }

    /// Names pieces that cannot be read, each once.
    private func report(_ keys: some Sequence<String>, _ reported: inout Set<String>) {
        for key in keys where reported.insert(key).inserted {
            self.logger.error(
                .pieceDamaged, "a piece of a receiver's journal has no readable beginning; what follows it waits",
                metadata: ["piece": "\(key)"])
        }
    }

    /// Says that the clocks are apart, once until they are not.
    private func compareClocks(_ areApart: inout Bool) {
        guard let offset = self.setup.store.clockOffset else { return }
        let wereApart = areApart
        areApart = !(Duration.seconds(-60)...Duration.seconds(60)).contains(offset)
        guard areApart, !wereApart else { return }
        self.logger.warning(
            .clocksApart, "this host's clock and the store's differ; the earlier one decides when days are sealed",
            metadata: ["ahead_of_store_s": .seconds(.zero - offset)])
    }

    private func finish(_ merger: borrowing Merger<POSIXFileSystem>) {
        let missing = merger.missing
        self.result.withLock { $0.report.missing = missing }
    }

    /// Hands out the merged journal up to the next barrier or erasure.
    private func handOut(
        _ merger: inout Merger<POSIXFileSystem>, _ feed: JournalFeed, _ barriers: SealBarriers,
        _ checkpoints: MergeCheckpoints, _ turns: ErasureTurns
    ) throws(MergeFailure) {
        guard try turns.setAside(&merger) else { return }
        while true {
            let erasure = merger.erasures.pending.first
            // In the order of rounds; behind one round days are sealed first.
            if let barrier = merger.barriers.first, erasure.map({ barrier.round <= $0.round }) ?? true {
                barriers.set(barrier)
                guard barriers.isPassed else { return feed.extend(to: barrier.position) }
                guard checkpoints.pass(barrier, merger) else { return }
                try merger.passed(barrier)
            } else if let erasure {
                // A checkpoint reads files by the names that an erasure gives to others.
                guard !checkpoints.isBusy else { return feed.extend(to: erasure.position) }
                let reports = try turns.apply(&merger, now: POSIXClock().monotonicTime())
                guard !reports.isEmpty else { return }
                self.result.withLock { $0.report.add(reports) }
            } else {
                return feed.extend(to: merger.end)
            }
        }
    }

    private func retire(_ merger: inout Merger<POSIXFileSystem>) throws(MergeFailure) {
        guard let passed = self.host.retirement.passedPosition else { return }
        try merger.retire(before: passed)
    }

    var isStopping: Bool { self.stopping.update { $0 } }

    func wait(_ duration: Duration) {
        _ = self.stopping.wait(until: POSIXClock().monotonicTime() + duration) { $0 ? true : nil }
        self.turned()
    }

    private func applied(_ round: MergeRound, _ tally: MergeTally) {
        self.result.withLock { result in
            result.report.roundCount += 1
            result.report.tally = result.report.tally + tally
        }
        if tally.conflictLineCount + tally.unprovenLineCount > 0 {
            self.logger.warning(
                .mergeConflict, "receivers have different bytes at the same place of a stream; all of them are kept",
                metadata: [
                    "round": .number(round.number), "lines": .number(tally.conflictLineCount),
                    "unproven": .number(tally.unprovenLineCount),
                ])
        }
        if tally.damagedByteCount > 0 {
            self.logger.error(
                .pieceDamaged, "pieces of the journal have damaged bytes, which are stepped over",
                metadata: ["round": .number(round.number), "bytes": .number(tally.damagedByteCount)])
        }
    }

    func failed(_ failure: MergeFailure, attempt: Int, retryingIn pause: Duration) {
        self.board.failed(failure)
        guard RepeatedFailure.isTold(attempt) else { return }
        self.logger.error(
            .mergeFailed, "the merger cannot continue; nothing is lost, the bucket keeps it, and it tries again",
            metadata: ["cause": "\(failure)", "attempt": .number(attempt), "retry_in_s": .seconds(pause)])
    }

    // MARK: Publishing

    /// The publisher's thread: each sealed day goes into the bucket, once for each revision.
    private func publish(_ data: DataDirectory<POSIXFileSystem>, _ turns: ErasureTurns) {
        let store = MeteredStore(self.setup.store, self.telemetry.storeRequests)
        let publisher = Publisher(root: data.root, files: data.files, store: store)
        var erased = ErasedDays(data)
        var failureCount = 0
        while true {
            let isLast = self.isStopping
            var failure = self.publishAll(publisher, data, turns, &erased)
            if failure == nil { failure = self.lookAgain(publisher, data, turns, &erased) }
            failureCount = failure == nil ? 0 : failureCount + 1
            self.board.publishEnded(failure)
            if let failure, RepeatedFailure.isTold(failureCount) {
                self.logger.error(
                    .publishFailed, "a sealed day could not be put into the bucket; it is tried again",
                    metadata: ["cause": "\(failure)", "attempt": .number(failureCount)])
            }
            if isLast { return }
            self.wait(.seconds(failure == nil ? 1 : min(30, failureCount)))
        }
    }

    private func publishAll(
        _ publisher: borrowing Publisher<POSIXFileSystem>, _ data: DataDirectory<POSIXFileSystem>,
        _ turns: ErasureTurns, _ erased: inout ErasedDays<POSIXFileSystem>
    ) -> UploadFailure? {
        var failure: UploadFailure?
        do throws(FileSystemError) {
            var sealed = try SealedFeed(data: data.root, cursor: data.statePath("published"), files: data.files)
            if try sealed.rest(nil) != nil { try sealed.confirm() }
            _ = try sealed.pass { (feed, found) throws(FileSystemError) in
                do throws(UploadFailure) {
                    let outcome = try turns.exchange.withLock { (_) throws(UploadFailure) in
                        try publisher.publish(found.day.path)
                    }
                    self.published(found.day.path, outcome)
                    if outcome.isErased { try erased.published(found.day.path, now: POSIXClock().wallTime()) }
                } catch {
                    failure = error
                    return false
                }
                try feed.announce(found, nil)
                return true
            }
        } catch {
            failure = .disk(error)
        }
        return failure
    }

    func published(_ path: String, _ outcome: Publisher<POSIXFileSystem>.Outcome) {
        self.result.withLock { result in
            result.report.publishedCount += outcome.createdCount
            result.report.replacedCount += outcome.replacedCount + outcome.deletedCount
        }
        self.board.published(
            created: outcome.createdCount, present: outcome.presentCount, different: outcome.different.count,
            byteCount: outcome.byteCount)
        guard outcome.different.isEmpty else {
            return self.logger.error(
                .publishDiffers,
                "the bucket has other bytes for a sealed day than this merger; they stay as they are",
                metadata: ["objects": "\(outcome.different.joined(separator: " "))"])
        }
        self.logger.info(
            "a sealed day is in the bucket",
            metadata: [
                "day": "\(path)", "revision": .number(outcome.revision), "created": .number(outcome.createdCount),
                "present": .number(outcome.presentCount), "replaced": .number(outcome.replacedCount),
                "deleted": .number(outcome.deletedCount),
            ])
    }
}
