package import Logging
package import WaybillJournal
internal import WaybillHost
internal import WaybillProjection
package import WaybillProtocol
internal import WaybillStore
package import WaybillSystem

/// Everything noteworthy that a receiver does: each occurrence is logged and counted in one place, at most once per
/// batch.
package final class ReceiverTelemetry: Sendable {
    /// The state of one projection.
    struct ProjectionStanding: Sendable {
        /// At its last checkpoint.
        var position = JournalPosition(0)
        /// Up to which it has read the journal, whether or not its files are durable yet.
        var read = JournalPosition(0)
        var tally = ProjectionTally()
        var failureCount = 0
        /// Why the disk refused it last time, as a code; `nil` while it works.
        var failure: FileSystemError.Code?
        /// Since when the disk refuses it.
        var failingSince: MonotonicTime?
        /// When the last batch before ``position`` was received; `nil` if that is not known.
        var receivedAt: WallTime?
        /// Whether it leaves the disk's space to the journal.
        var isHeld = false
        var sealedDayCount = 0
        var deletedDayCount = 0
        /// Days that retention would delete if they were delivered.
        var keptDayCount = 0
        /// Bytes of the journal that were deleted before it read them.
        var missedByteCount = 0
    }

    /// Connections that ended before their agent was let in, by reason.
    struct Refusals: Sendable {
        var ofProxies: [ProxyRefusal: Int] = [:]
        var ofTLS: [TLSRefusal: Int] = [:]
        var ofAgents: [AgentRefusal: Int] = [:]
    }

    /// A limit that an account or an address has reached.
    enum Limit: String, CaseIterable, Sendable {
        case connections
        case silentConnections = "silent-connections"
        case silentConnectionsOfAddress = "silent-connections-of-address"
        case descriptions
        case streams
        case slowPayload = "slow-payload"
        case connectionsOfPrincipal = "connections-of-principal"
        case byteRate = "bytes-a-second"
        case dayBytes = "bytes-a-day"
    }

    /// What an address can cause often: lines that say so are limited.
    enum Cause: Hashable {
        case connected
        case disconnected(String)
        case tlsRefused(TLSRefusal)
        case proxyRefused(ProxyRefusal)
        case batchRefused(ErrorCode)
    }

    let logger: Logger
    let audit: AuditLog?
    /// What started this process, and watches it.
    let manager: ServiceManager
    /// The status that it is told while all is well.
    private let listening = Lock("")
    let clock: any SystemClock
    private let limiter = Lock(LogLimiter<Cause>())
    let limits = Lock<[Limit: Int]>([:])
    let quarantined = Lock(QuarantineCounts())
    let awakeStreams = Atomic(0)
    let restingStreams = Atomic(0)
    let suppressedLines = Atomic(0)
    let refusals = Lock(Refusals())
    /// Messages that an agent may not send.
    let denials = Atomic(0)
    let batches = Atomic(0)
    let lines = Atomic(0)
    let rawBytes = Atomic(0)
    let groups = Atomic(0)
    /// From a group's first write to the end of its sync.
    let commitTimes = DurationHistogram()
    /// Since when the committer writes a group, in nanoseconds of the monotonic clock; 0 while it does not.
    let committingSince = Atomic<Int64>(0)
    /// When the journal was last durable, in milliseconds since 1970; 0 before the first commit.
    let lastCommitMilliseconds = Atomic<Int64>(0)
    let lineDelays = DurationHistogram(.delivery)
    let commitFailures = Atomic(0)
    let refusedBatches = Atomic(0)
    private let skippedBytes = Lock<[SkipReason: Int]>([:])
    let damages = Atomic(0)
    let retiredSegments = Atomic(0)
    /// Bytes of the journal beyond its limit.
    let journalExcess = Atomic(0)
    let reloads = Atomic(0)
    /// Reloads in which some changes need a restart.
    let partialReloads = Atomic(0)
    let refusedReloads = Atomic(0)
    /// When the receiver's certificate expires, in seconds since 1970; 0 without TLS.
    let certificateExpiry = Atomic(0)
    let projections = Lock<[String: ProjectionStanding]>([:])
    /// Those that stand before a batch that ends the program.
    let stoppedReaders = Lock<Set<String>>([])
    let upload = Lock<UploadStanding?>(nil)
    let uploadTimes = DurationHistogram(.delivery)
    /// What the bucket was asked, by a receiver or a merger.
    let storeRequests = MeteredStore.Counts()
    let deletions = Lock<[DeletionKey: DeletionSum]>([:])

    package init(
        logger: Logger, audit: AuditLog? = nil, clock: any SystemClock = POSIXClock(), manager: ServiceManager = .none
    ) {
        self.logger = logger
        self.audit = audit
        self.clock = clock
        self.manager = manager
    }

    /// Logs what an address caused, at most once a second for each cause and address.
    func log(
        _ level: Logger.Level, _ notice: Notice?, _ message: Logger.Message, _ cause: Cause, of address: String,
        _ metadata: @autoclosure () -> Logger.Metadata
    ) {
        guard self.logger.logLevel <= level else { return }
        let now = self.clock.monotonicTime()
        guard let count = self.limiter.withLock({ $0.take(cause, address, now) }) else {
            self.suppressedLines.add(1, ordering: .relaxed)
            return
        }
        var metadata = metadata()
        if count > 0 { metadata["suppressed"] = .number(count) }
        if notice != nil { metadata["address"] = "\(address)" }
        self.logger.log(notice, level: level, message, metadata: metadata)
    }

    /// Someone has reached a limit.
    func limited(_ limit: Limit, count: Int = 1) {
        self.limits.withLock { $0[limit, default: 0] += count }
    }

    /// Metrics include these from now on, even before they have started.
    func willProject(_ names: Set<String>) {
        for name in names { self.update(name) { _ in } }
    }

    /// The name of a projection that cannot account for every line it read; only a defect causes one.
    package var unaccountable: String? {
        self.projections.withLock { $0.first { $0.value.tally.unaccountedLineCount != 0 }?.key }
    }

    func update(_ name: String, _ change: (inout ProjectionStanding) -> Void) {
        self.projections.withLock { change(&$0[name, default: ProjectionStanding()]) }
    }

    package func started(
        _ recovery: JournalRecovery, data: String, listening address: String, proxied: String? = nil
    ) {
        var metadata: Logger.Metadata = [
            "data": "\(data)", "listen": "\(address)", "journal_end": .number(recovery.end.rawValue),
            "streams": .number(recovery.streamCount),
        ]
        if let proxied { metadata["proxied"] = "\(proxied)" }
        self.logger.info("receiver started", metadata: metadata)
        self.listening.withLock { $0 = "listening on \(address)" }
        self.manager.tell(.ready, .status(self.listening.withLock { $0 }))
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
        for damage in recovery.damages { self.damaged(damage) }
        for path in recovery.setAsidePaths {
            self.logger.warning(
                .segmentSetAside, "journal: a segment without a whole head was set aside", metadata: ["path": "\(path)"]
            )
        }
    }

    /// Another incarnation of the receiver has begun, because records were lost.
    package func incarnationBegan(_ identity: ReceiverIdentity) {
        self.logger.warning(
            .recordsLost,
            "records of the journal or the archive were lost; agents are asked to compare their files with what is left",
            metadata: ["incarnation": "\(identity.incarnation.text)", "journal_end": .number(identity.end)])
    }

    /// The disk refused the segment with which a start begins; the first group writes it.
    package func startDelayed(_ error: FileSystemError) {
        self.logger.error(
            .startDelayed, "journal: the start could not be recorded; it is written with the first group",
            metadata: ["cause": "\(error)", "code": "\(error.code)"])
    }

    func damaged(_ damage: JournalDamage) {
        self.damages.add(1, ordering: .relaxed)
        self.logger.error(
            .journalDamaged,
            """
            journal: a range cannot be read and is skipped; check the disk, and compare with waybill inspect --verify \
            what archive and exports have
            """,
            metadata: [
                "path": "\(JournalPath.segment(damage.segment, in: "journal"))",
                "first_byte": .number(max(0, damage.start.rawValue - damage.segment.rawValue)),
                "end_byte": .number(damage.end.rawValue - damage.segment.rawValue),
                "bytes": .number(damage.end.rawValue - damage.start.rawValue),
                "reason": "\(damage.reason)",
            ])
    }

    func stopped() {
        let suppressed = self.limiter.withLock { $0.takeSuppressed() }.values.reduce(0, +)
        if suppressed > 0 {
            self.logger.notice(
                "lines about connections were left out, because there were more than one a second",
                metadata: ["lines": .number(suppressed)])
        }
        self.logger.info(
            "receiver stopped",
            metadata: [
                "batches": .number(self.batches.load(ordering: .relaxed)),
                "raw_bytes": .number(self.rawBytes.load(ordering: .relaxed)),
                "groups": .number(self.groups.load(ordering: .relaxed)),
                "refused_batches": .number(self.refusedBatches.load(ordering: .relaxed)),
                "skipped_bytes": .number(self.givenUpByteCount),
                "reloads": .number(self.reloads.load(ordering: .relaxed)),
                "partial_reloads": .number(self.partialReloads.load(ordering: .relaxed)),
                "refused_reloads": .number(self.refusedReloads.load(ordering: .relaxed)),
            ])
    }

    func reloaded(_ changes: [ConfigurationChange]) {
        let applied = changes.filter { !$0.needsRestart }.map(\.description)
        let waiting = changes.filter(\.needsRestart).map(\.description)
        self.reloads.add(waiting.isEmpty ? 1 : 0, ordering: .relaxed)
        self.partialReloads.add(waiting.isEmpty ? 0 : 1, ordering: .relaxed)
        self.logger.notice(
            changes.isEmpty ? "configuration reloaded: nothing changed" : "configuration reloaded",
            metadata: ["changes": "\(applied.isEmpty ? "none" : applied.joined(separator: "; "))"])
        if !waiting.isEmpty {
            self.logger.warning(
                .restartNeeded, "these changes of the configuration need a restart",
                metadata: ["changes": "\(waiting.joined(separator: "; "))"])
        }
    }

    func reloadRefused(_ problems: [String]) {
        self.refusedReloads.add(1, ordering: .relaxed)
        for problem in problems {
            self.logger.error(
                .reloadRefused, "the new configuration is refused, the old one stays",
                metadata: ["problem": "\(problem)"])
        }
    }

    func exportGoesOn(_ name: String, mappingVersion: Int, _ report: String) {
        self.logger.notice(
            "an export continues with other options",
            metadata: ["projection": "\(name)", "mapping": .number(mappingVersion), "report": "\(report)"])
    }

    /// - Parameters:
    ///   - found: the permissions that the folder had; `nil` if they could not be changed.
    ///   - failure: why not.
    func folderOpenToOthers(_ path: String, _ found: UInt16?, _ failure: FileSystemError?) {
        if let found {
            self.logger.notice(
                "users outside its group could read this folder, and no longer can; share it by its group (chgrp)",
                metadata: ["path": "\(path)", "found": "\(String(found, radix: 8))"])
        } else {
            self.logger.warning(
                .dataOpenToOthers, "users outside its group can read this folder; run chmod o= on it as its owner",
                metadata: ["path": "\(path)", "cause": "\(failure.map(\.description) ?? "unknown")"])
        }
    }

    func metricsServed(on address: String) {
        self.logger.info("metrics are served", metadata: ["address": "\(address)"])
    }

    func certificateUsed(until expiry: WallTime) {
        self.certificateExpiry.store(Int(expiry.milliseconds / 1000), ordering: .relaxed)
    }

    /// - Parameter asksAgents: whether agents must present a certificate.
    func tlsServed(until expiry: WallTime, now: WallTime, asksAgents: Bool) {
        self.certificateUsed(until: expiry)
        self.logger.log(
            .certificateExpired, level: expiry <= now ? .error : .info,
            expiry <= now
                ? "the certificate has expired and agents will refuse it; renew it and send SIGHUP to the receiver"
                : "TLS enabled",
            metadata: ["valid_until": "\(expiry.text)", "client_certificates": "\(asksAgents ? "required" : "none")"])
    }

    /// - Parameter detail: the TLS library's message.
    func tlsRefused(_ refusal: TLSRefusal, detail: String, peer: String) {
        self.refusals.withLock { $0.ofTLS[refusal, default: 0] += 1 }
        // Port checks do this all day.
        self.log(
            refusal == .closed ? .debug : .warning, .tlsRefused, "a connection without valid TLS is closed",
            .tlsRefused(refusal),
            of: String(peer[..<(peer.lastIndex(of: ":") ?? peer.endIndex)]),
            [
                "peer": "\(peer)", "code": "\(refusal.rawValue)", "cause": "\(refusal.description)",
                "detail": "\(detail)",
            ])
    }

    func proxyRefused(_ refusal: ProxyRefusal, peer: String, address: String) {
        self.refusals.withLock { $0.ofProxies[refusal, default: 0] += 1 }
        self.log(
            .warning, .proxyRefused, "a connection to the proxies' address is closed: \(refusal.text)",
            .proxyRefused(refusal), of: address, ["peer": "\(peer)", "reason": "\(refusal.rawValue)"])
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
        guard Self.isTold(attempt) else { return }
        self.logger.error(
            .commitFailed, "journal: a group could not be written; acks are withheld until it can be",
            metadata: [
                "cause": "\(error)", "code": "\(error.code)", "attempt": .number(attempt),
                "retry_in_s": .seconds(pause),
            ])
        self.manager.tell(.status("nothing is acknowledged, because the disk refuses writes: \(error)"))
    }

    /// The first failure is logged, then one each minute: the disk may stay full for hours.
    static func isTold(_ attempt: Int) -> Bool {
        // After six attempts they are 30 s apart.
        attempt == 1 || attempt >= 6 && attempt.isMultiple(of: 2)
    }

    /// How many streams the journal knows, in memory and in `resting.table`.
    func streamsKnown(awake: Int, resting: Int) {
        self.awakeStreams.store(awake, ordering: .relaxed)
        self.restingStreams.store(resting, ordering: .relaxed)
    }

    func journalLost(_ loss: JournalLoss) {
        self.logger.critical(
            .journalLost, "journal: its files are gone; nothing is acknowledged any more, and the receiver stops",
            metadata: ["cause": "\(loss)", "journal_end": .number(loss.end.rawValue)])
    }

    /// The position up to which the archive was durable at its last checkpoint.
    var archivePosition: JournalPosition {
        self.projections.withLock { $0["archive"]?.position } ?? JournalPosition(0)
    }

    func commitRecovered(afterAttempts attempts: Int) {
        self.logger.notice("journal: writing resumed", metadata: ["failed_attempts": .number(attempts)])
        self.manager.tell(.status(self.listening.withLock { $0 }))
    }

    func segmentsRetired(_ count: Int) {
        self.retiredSegments.add(count, ordering: .relaxed)
        self.logger.info("journal: segments retired", metadata: ["count": .number(count)])
    }

    func retirementFailed(_ error: FileSystemError) {
        self.logger.warning(
            .retirementFailed, "journal: a segment could not be deleted", metadata: ["cause": "\(error)"])
    }

    /// - Parameter isLogged: whether this skip is logged by itself, not in a sum when the connection ends.
    func skipped(
        _ description: StreamDescription, _ range: SkippedRange, by connection: ConnectionHandle, isLogged: Bool
    ) {
        self.audit?.add(
            .skipped,
            connection.auditMembers(of: description) + [
                ("offset", "\(range.offset.rawValue)"), ("bytes", "\(range.byteCount)"),
                ("reason", range.reason.rawValue),
            ])
        self.skippedBytes.withLock { $0[range.reason, default: 0] &+= Int(truncatingIfNeeded: range.byteCount) }
        guard isLogged else { return }
        self.logger.notice(
            "an agent skipped bytes",
            metadata: [
                "agent": "\(connection.admitted.fullName)", "stream": "\(description.name)",
                "source": "\(description.source)", "offset": .number(range.offset.rawValue),
                "bytes": .number(range.byteCount), "reason": "\(range.reason.rawValue)",
            ])
    }

    /// Bytes that agents skipped, by reason.
    func skippedByteCount(_ reason: SkipReason) -> Int { self.skippedBytes.withLock { $0[reason] ?? 0 } }

    /// Bytes that agents skipped and that no receiver of the fleet has; not those that no one wrote.
    private var givenUpByteCount: Int {
        self.skippedBytes.withLock { $0.reduce(0) { $1.key.isOfFleet || $1.key == .hole ? $0 : $0 &+ $1.value } }
    }

    /// An agent opened a known stream with another description, which applies to all further lines.
    ///
    /// - Parameter untoldCount: such openings that were not logged, for the rate limit; `nil` if this one is not.
    func redescribed(
        _ old: StreamDescription, _ new: StreamDescription, by connection: ConnectionHandle, untoldCount: Int?
    ) {
        self.audit?.add(.described, connection.auditMembers(of: new) + [("old", old.json), ("new", new.json)])
        guard let untoldCount else { return }
        self.logger.notice(
            "an agent describes a stream differently; further lines are read accordingly",
            metadata: [
                "agent": "\(connection.admitted.fullName)", "stream": "\(new.name)", "old": .object(old.json),
                "new": .object(new.json), "more_unlogged": .number(untoldCount),
            ])
    }

    /// An agent whose connection has ended skipped more ranges than were logged one by one.
    func skippedMore(agent: String, count: Int, byteCount: UInt64) {
        self.logger.notice(
            "an agent skipped more bytes; the journal records each range",
            metadata: ["agent": "\(agent)", "skips": .number(count), "bytes": .number(byteCount)])
    }

    func batchRefused(
        _ id: StreamID, _ header: BatchHeader, _ refusal: BatchRefusal, peer: String, address: String
    ) {
        self.refusedBatches.add(1, ordering: .relaxed)
        self.log(
            .warning, .batchRefused, "a batch was refused; its agent will send it again", .batchRefused(refusal.code),
            of: address,
            [
                "stream": "\(id)", "offset": .number(header.offset.rawValue), "code": "\(refusal.code.rawValue)",
                "reason": "\(refusal.text)", "peer": "\(peer)",
            ])
    }

    func projectionStarted(_ name: String, at position: JournalPosition, _ report: String) {
        // While the disk refuses, each attempt begins with repairs; the failure has a line of its own.
        let isRetry = self.projections.withLock { projections in
            projections[name, default: ProjectionStanding()].position = position
            return projections[name]?.failingSince != nil
        }
        self.logger.log(
            .projectionRecovered, level: report.isEmpty || isRetry ? .info : .warning, "projection started",
            metadata: ["projection": "\(name)", "position": .number(position.rawValue), "recovery": "\(report)"])
    }

    func clockDoubted(_ problem: String) {
        self.logger.warning(
            .clockDoubted,
            "the clock cannot be trusted, and what depends on it waits; set it, or run waybill clock --accept",
            metadata: ["cause": "\(problem)"])
    }

    func clockAccepted(_ time: WallTime) {
        self.logger.notice("an operator accepted the clock", metadata: ["time": "\(time.text)"])
    }

    func clockTrusted(_ time: WallTime) {
        self.logger.notice("the clock is trusted again", metadata: ["time": "\(time.text)"])
    }
}
