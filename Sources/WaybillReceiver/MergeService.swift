package import Logging
internal import ServiceLifecycle
internal import WaybillArchive
package import WaybillFleet
internal import WaybillJournal
internal import WaybillNotices
internal import WaybillProjection
package import WaybillProtocol
package import WaybillStore
package import WaybillSystem

/// A merger as a service: a receiver whose input is the bucket.
///
///     bucket ─▶ Merger ─▶ merged journal ─▶ JournalFeed ─▶ archive, exports ─▶ sealed days ─▶ Publisher ─▶ bucket
///               (one thread)                 up to the next barrier    (receiver's threads)   (one thread)
///
/// Everything behind the merged journal is a receiver's: archive, exports, seals, `deliver`, `replay`, `inspect`, live page.
///
/// Memory: the merger's, and a receiver's projections; these read the merged journal from the disk.
package final class MergeService: Service {
    package struct Setup: Sendable {
        /// A receiver's, of which its connections are not used.
        package let receiver: ReceiverConfiguration
        package let store: any ObjectStore
        package let fleet: Incarnation
        /// How long to wait before the bucket is asked again when it had nothing.
        package var pollInterval = Duration.seconds(1)
        /// How long a silent receiver holds up seals.
        package var sealPatience = Duration.seconds(1800)
        /// Ends when everything that the bucket has is merged and projected.
        package var isOnce = false

        package init(receiver: ReceiverConfiguration, store: any ObjectStore, fleet: Incarnation) {
            self.receiver = receiver
            self.store = store
            self.fleet = fleet
        }
    }

    /// What a merger did, for `--once`.
    package struct Report: Hashable, Sendable {
        package var roundCount = 0
        package var tally = MergeTally()
        package var publishedCount = 0
        package var missing: [String] = []
    }

    private let setup: Setup
    private let projections: Receiver
    private let telemetry: ReceiverTelemetry
    private let logger: Logger
    private let stopping = Monitor(false)
    private let result = Lock<(report: Report, failure: MergeFailure?)>((Report(), nil))

    package init(_ setup: Setup, logger: Logger, manager: ServiceManager = .none) {
        self.setup = setup
        self.projections = Receiver(configuration: setup.receiver, logger: logger, manager: manager)
        self.telemetry = self.projections.telemetry
        self.logger = logger
    }

    package var report: Report { self.result.withLock { $0.report } }

    package func run() async throws {
        let files = POSIXFileSystem(.data, dataDirectory: self.setup.receiver.dataDirectory)
        let data = self.projections.dataDirectory(on: files)
        let lock = try self.projections.openData(data)
        defer { files.close(lock) }
        let barriers = SealBarriers(names: self.projections.retirement.names)
        let conditions = HostConditions(
            lastMark: .unknown, configuration: self.setup.receiver, data: data, telemetry: self.telemetry,
            barriers: barriers)
        let merger = try self.merger(in: data)
        let feed = JournalFeed(end: merger.barriers.first?.position ?? merger.end, byteCountMax: 0)
        self.telemetry.willProject(self.projections.retirement.names)
        let budget = AdmissionBudget(
            byteCount: self.setup.receiver.admissionByteCount, limits: self.setup.receiver.limits,
            journalEnd: merger.end)
        let workers = try self.projections.startProjections(data, feed, conditions, budget)
        let handover = Handover(merger)
        let merging = Worker(name: "waybill-merge") {
            handover.take { merger in
                self.merge(merger, feed, barriers, data)
                feed.close()
            }
        }
        let publishing = Worker(name: "waybill-publish") { self.publish(data, feed) }
        self.telemetry.manager.tell(.ready, .status("merging"))
        await withGracefulShutdownHandler {
            await Self.join(merging)
        } onGracefulShutdown: {
            self.stopping.update { $0 = true }
        }
        for worker in workers { await Self.join(worker) }
        self.stopping.update { $0 = true }
        await Self.join(publishing)
        self.telemetry.stopped()
        if let failure = self.result.withLock({ $0.failure }) { throw failure }
    }

    /// Joins a thread without holding one of the executor's.
    private static func join(_ worker: Worker) async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            _ = Worker(name: "waybill-join") {
                worker.join()
                continuation.resume()
            }
        }
    }

    private func merger(in data: DataDirectory<POSIXFileSystem>) throws(MergeFailure) -> Merger<POSIXFileSystem> {
        var setup = Merger<POSIXFileSystem>.Setup(
            name: self.setup.receiver.name, fleet: self.setup.fleet, journalDirectory: data.journal,
            statePath: data.statePath("merge"))
        setup.patience = self.setup.sealPatience
        if self.setup.isOnce { setup.discoveryInterval = .zero }
        return try Merger(setup, files: data.files, store: self.setup.store)
    }

    // MARK: Merging

    /// The merger's thread.
    private func merge(
        _ merger: consuming Merger<POSIXFileSystem>, _ feed: JournalFeed, _ barriers: SealBarriers,
        _ data: DataDirectory<POSIXFileSystem>
    ) {
        var merger = merger
        var backoff = Backoff(from: .milliseconds(200), to: .seconds(30), SeededGenerator(seed: SystemRandom.seed()))
        let clock = POSIXClock()
        var failureCount = 0
        while !self.isStopping {
            do throws(MergeFailure) {
                let step = try merger.step(now: clock.wallTime(), clock.monotonicTime())
                if failureCount > 0 {
                    failureCount = 0
                    backoff.succeed()
                    self.logger.info("the merger goes on")
                }
                try self.handOut(&merger, feed, barriers)
                switch step {
                case .applied(let round, let tally): self.applied(round, tally)
                case .idle:
                    if self.setup.isOnce, merger.barriers.isEmpty { break }
                    self.wait(self.setup.pollInterval)
                    continue
                }
                try self.retire(&merger)
                if case .idle = step { return self.finish(merger) }
            } catch {
                failureCount += 1
                let pause = backoff.fail()
                self.failed(error, attempt: failureCount, retryingIn: pause)
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

    private func finish(_ merger: borrowing Merger<POSIXFileSystem>) {
        let missing = merger.missingText
        self.result.withLock { $0.report.missing = missing }
    }

    /// Hands out the merged journal up to the next barrier.
    private func handOut(
        _ merger: inout Merger<POSIXFileSystem>, _ feed: JournalFeed, _ barriers: SealBarriers
    ) throws(MergeFailure) {
        while let barrier = merger.barriers.first {
            barriers.set(barrier)
            guard barriers.isPassed else { return feed.extend(to: barrier.position) }
            try merger.passed(barrier.position)
        }
        feed.extend(to: merger.end)
    }

    private func retire(_ merger: inout Merger<POSIXFileSystem>) throws(MergeFailure) {
        guard let passed = self.projections.retirement.passedPosition else { return }
        try merger.retire(before: passed)
    }

    private var isStopping: Bool { self.stopping.update { $0 } }

    private func wait(_ duration: Duration) {
        _ = self.stopping.wait(until: POSIXClock().monotonicTime() + duration) { $0 ? true : nil }
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

    private func failed(_ failure: MergeFailure, attempt: Int, retryingIn pause: Duration) {
        guard ReceiverTelemetry.isTold(attempt) else { return }
        self.logger.error(
            .mergeFailed, "the merger cannot go on; nothing is lost, the bucket keeps it, and it tries again",
            metadata: ["cause": "\(failure)", "attempt": .number(attempt), "retry_in_s": .seconds(pause)])
    }

    // MARK: Publishing

    /// The publisher's thread: each sealed day goes into the bucket, once for each revision.
    private func publish(_ data: DataDirectory<POSIXFileSystem>, _ feed: JournalFeed) {
        let publisher = Publisher(root: data.root, files: data.files, store: self.setup.store)
        var failureCount = 0
        while true {
            let isLast = self.isStopping
            let failure = self.publishAll(publisher, data)
            failureCount = failure == nil ? 0 : failureCount + 1
            if let failure, ReceiverTelemetry.isTold(failureCount) {
                self.logger.error(
                    .publishFailed, "a sealed day could not be put into the bucket; it is tried again",
                    metadata: ["cause": "\(failure)", "attempt": .number(failureCount)])
            }
            if isLast { return }
            self.wait(.seconds(failure == nil ? 1 : min(30, failureCount)))
        }
    }

    private func publishAll(
        _ publisher: borrowing Publisher<POSIXFileSystem>, _ data: DataDirectory<POSIXFileSystem>
    ) -> UploadFailure? {
        var failure: UploadFailure?
        do throws(FileSystemError) {
            var sealed = try SealedFeed(data: data.root, cursor: data.statePath("published"), files: data.files)
            if try sealed.rest(nil) != nil { try sealed.confirm() }
            _ = try sealed.pass { (feed, found) throws(FileSystemError) in
                do throws(UploadFailure) {
                    let outcome = try publisher.publish(found.day.path, revision: found.day.revision)
                    self.published(found.day, outcome)
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

    private func published(_ day: DayRevision, _ outcome: Publisher<POSIXFileSystem>.Outcome) {
        self.result.withLock { $0.report.publishedCount += outcome.createdCount }
        self.logger.info(
            "a sealed day is in the bucket",
            metadata: [
                "day": "\(day.path)", "revision": .number(day.revision), "created": .number(outcome.createdCount),
                "present": .number(outcome.presentCount),
            ])
        guard !outcome.different.isEmpty else { return }
        self.logger.error(
            .publishDiffers,
            "the bucket has other bytes for a sealed day than this merger; they stay as they are",
            metadata: ["objects": "\(outcome.different.joined(separator: " "))"])
    }
}
