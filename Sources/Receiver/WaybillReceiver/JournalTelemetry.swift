internal import Logging
internal import WaybillData
internal import WaybillHost
internal import WaybillProtocol
internal import WaybillSystem

/// What a receiver's journal does: how it was found, its commits, their failures, and its length.
package final class JournalTelemetry: Sendable {
    let batches = Atomic(0)
    let lines = Atomic(0)
    let rawBytes = Atomic(0)
    private let groups = Atomic(0)
    /// From a group's first write to the end of its sync.
    private let commitTimes = DurationHistogram()
    /// Since when the committer writes a group, in nanoseconds of the monotonic clock; 0 while it does not.
    private let committingSince = Atomic<Int64>(0)
    /// When the journal was last durable, in milliseconds since 1970; 0 before the first commit.
    private let lastCommitMilliseconds = Atomic<Int64>(0)
    private let commitFailures = Atomic(0)
    private let retiredSegments = Atomic(0)
    private let awakeStreams = Atomic(0)
    private let restingStreams = Atomic(0)
    /// The status that the service's manager is told while all is well.
    private let status = Lock("")
    private let host: HostTelemetry
    private var logger: Logger { self.host.logger }

    init(_ host: HostTelemetry) {
        self.host = host
    }

    /// The receiver takes batches from now on.
    func began(_ status: String) {
        self.status.withLock { $0 = status }
        self.host.manager.tell(.ready, .status(status))
    }

    /// How the journal was found by a start.
    func recovered(_ recovery: JournalRecovery) {
        if recovery.tornByteCount > 0 {
            self.logger.notice(
                "journal: an incomplete group at the end, as a crash leaves it, is left out",
                metadata: [
                    "bytes": .number(recovery.tornByteCount),
                    "kept": "\(recovery.tornPath ?? "nowhere: the disk has no room for a copy")",
                ])
        }
        if recovery.rewrittenByteCount > 0 {
            self.logger.info(
                "journal: the last group was written to disk again before the first answer",
                metadata: ["bytes": .number(recovery.rewrittenByteCount)])
        }
        for damage in recovery.damages { self.host.damaged(damage) }
        for path in recovery.setAsidePaths {
            self.logger.warning(
                .segmentSetAside, "journal: a segment without a whole head was set aside", metadata: ["path": "\(path)"]
            )
        }
    }

    /// Another incarnation of the receiver has begun, because records were lost.
    func incarnationBegan(_ identity: ReceiverIdentity) {
        self.logger.warning(
            .recordsLost,
            "records of the journal or the archive were lost; agents are asked to compare their files with what is left",
            metadata: ["incarnation": "\(identity.incarnation.text)", "journal_end": .number(identity.end)])
    }

    /// The disk refused the segment with which a start begins; the first group writes it.
    func startDelayed(_ error: FileSystemError) {
        self.logger.error(
            .startDelayed, "journal: the start could not be recorded; it is written with the first group",
            metadata: ["cause": "\(error)", "code": "\(error.code)"])
    }

    // MARK: Commits

    /// A group is being written from now on, or not any more.
    func commits(since start: MonotonicTime?) {
        self.committingSince.store(start?.nanoseconds ?? 0, ordering: .relaxed)
    }

    /// How long the group that is being written has taken so far; `nil` while none is.
    func commitDuration(at now: MonotonicTime) -> Duration? {
        let since = self.committingSince.load(ordering: .relaxed)
        return since == 0 ? nil : now - MonotonicTime(nanoseconds: since)
    }

    func groupCommitted(batchCount: Int, lineCount: Int, rawByteCount: Int, at time: WallTime, took: Duration) {
        self.lastCommitMilliseconds.store(time.milliseconds, ordering: .relaxed)
        self.groups.add(1, ordering: .relaxed)
        self.commitTimes.add(took)
        self.lines.add(lineCount, ordering: .relaxed)
        self.batches.add(batchCount, ordering: .relaxed)
        self.rawBytes.add(rawByteCount, ordering: .relaxed)
        if took > .seconds(1) {
            self.logger.warning(.commitSlow, "journal: a commit was slow", metadata: ["took_s": .seconds(took)])
        }
    }

    func commitFailed(_ error: FileSystemError, attempt: Int, retryingIn pause: Duration) {
        self.commitFailures.add(1, ordering: .relaxed)
        guard RepeatedFailure.isTold(attempt) else { return }
        self.logger.error(
            .commitFailed, "journal: a group could not be written; acks are withheld until it can be",
            metadata: [
                "cause": "\(error)", "code": "\(error.code)", "attempt": .number(attempt),
                "retry_in_s": .seconds(pause),
            ])
        self.host.manager.tell(.status("nothing is acknowledged, because the disk refuses writes: \(error)"))
    }

    func commitRecovered(afterAttempts attempts: Int) {
        self.logger.notice("journal: writing resumed", metadata: ["failed_attempts": .number(attempts)])
        self.host.manager.tell(.status(self.status.withLock { $0 }))
    }

    func journalLost(_ loss: JournalLoss) {
        self.logger.critical(
            .journalLost, "journal: its files are gone; nothing is acknowledged any more, and the receiver stops",
            metadata: ["cause": "\(loss)", "journal_end": .number(loss.end.rawValue)])
    }

    /// How many streams the journal knows, in memory and in `resting.table`.
    func streamsKnown(awake: Int, resting: Int) {
        self.awakeStreams.store(awake, ordering: .relaxed)
        self.restingStreams.store(resting, ordering: .relaxed)
    }

    func segmentsRetired(_ count: Int) {
        self.retiredSegments.add(count, ordering: .relaxed)
        self.logger.info("journal: segments retired", metadata: ["count": .number(count)])
    }

    func retirementFailed(_ error: FileSystemError) {
        self.logger.warning(
            .retirementFailed, "journal: a segment could not be deleted", metadata: ["cause": "\(error)"])
    }

    // MARK: What it counted

    /// Sums, for the line that a stop writes.
    var counts: Logger.Metadata {
        [
            "batches": .number(self.batches.load(ordering: .relaxed)),
            "raw_bytes": .number(self.rawBytes.load(ordering: .relaxed)),
            "groups": .number(self.groups.load(ordering: .relaxed)),
        ]
    }

    func addMetrics(
        _ end: JournalPosition, _ lineDelays: DurationHistogram, to page: inout MetricsPage
    ) {
        page.add(.journalEnd, end.rawValue)
        page.add(.commits, self.groups.load(ordering: .relaxed))
        page.add(.commitTime, self.commitTimes)
        page.add(.lineDelay, lineDelays)
        let last = self.lastCommitMilliseconds.load(ordering: .relaxed)
        page.add(.lastCommit, last > 0 ? Double(last) / 1000 : nil)
        page.add(.commitFailures, self.commitFailures.load(ordering: .relaxed))
        page.add(.damages, self.host.damages.load(ordering: .relaxed))
        page.add(.retiredSegments, self.retiredSegments.load(ordering: .relaxed))
        page.add(.streams, by: Metric.StreamState.self) { state in
            switch state {
            case .awake: self.awakeStreams.load(ordering: .relaxed)
            case .resting: self.restingStreams.load(ordering: .relaxed)
            }
        }
    }
}
