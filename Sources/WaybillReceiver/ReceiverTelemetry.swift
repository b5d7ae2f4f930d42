package import Logging
internal import Synchronization
package import WaybillJournal
internal import WaybillProjection
internal import WaybillProtocol
package import WaybillSystem
internal import WaybillTLS

/// Everything noteworthy that a receiver does: each occurrence is logged and counted in one place, at most once per
/// batch.
package final class ReceiverTelemetry: Sendable {
    /// The state of one projection.
    struct ProjectionStanding: Sendable {
        /// At its last checkpoint.
        var position = JournalPosition(0)
        var tally = ProjectionTally()
        var failureCount = 0
        var sealedDayCount = 0
        var deletedDayCount = 0
    }

    /// A limit that an account or an address has reached.
    enum Limit: String, CaseIterable, Sendable {
        case connections
        case silentConnections = "silent-connections"
        case silentConnectionsOfAddress = "silent-connections-of-address"
        case descriptions
        case streams
        case slowPayload = "slow-payload"
    }

    /// What an address can cause often: lines that say so are limited.
    private enum Cause: Hashable {
        case connected
        case disconnected(String)
        case tlsRefused(TLSRefusal)
        case batchRefused(ErrorCode)
    }

    private let logger: Logger
    private let clock: any SystemClock
    private let limiter = Mutex(LogLimiter<Cause>())
    let limits = Mutex<[Limit: Int]>([:])
    let suppressedLines = Atomic(0)
    let batches = Atomic(0)
    let lines = Atomic(0)
    let rawBytes = Atomic(0)
    let groups = Atomic(0)
    let commitFailures = Atomic(0)
    let refusedBatches = Atomic(0)
    let skippedBytes = Atomic(0)
    let damages = Atomic(0)
    let retiredSegments = Atomic(0)
    let reloads = Atomic(0)
    /// Reloads in which some changes need a restart.
    let partialReloads = Atomic(0)
    let refusedReloads = Atomic(0)
    let tlsRefusals = Mutex<[TLSRefusal: Int]>([:])
    /// When the receiver's certificate expires, in seconds since 1970; 0 without TLS.
    let certificateExpiry = Atomic(0)
    let projections = Mutex<[String: ProjectionStanding]>([:])

    package init(logger: Logger, clock: any SystemClock = POSIXClock()) {
        self.logger = logger
        self.clock = clock
    }

    /// Logs what an address caused, at most once a second for each cause and address.
    private func log(
        _ level: Logger.Level, _ message: Logger.Message, _ cause: Cause, of address: String,
        _ metadata: @autoclosure () -> Logger.Metadata
    ) {
        guard self.logger.logLevel <= level else { return }
        let now = self.clock.monotonicTime()
        guard let count = self.limiter.withLock({ $0.take(cause, address, now) }) else {
            self.suppressedLines.wrappingAdd(1, ordering: .relaxed)
            return
        }
        var metadata = metadata()
        if count > 0 { metadata["suppressed"] = "\(count)" }
        self.logger.log(level: level, message, metadata: metadata)
    }

    /// Somebody has reached a limit.
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

    private func update(_ name: String, _ change: (inout ProjectionStanding) -> Void) {
        self.projections.withLock { change(&$0[name, default: ProjectionStanding()]) }
    }

    package func started(_ recovery: JournalRecovery, data: String, listening address: String) {
        self.logger.info(
            "receiver started",
            metadata: [
                "data": "\(data)", "listen": "\(address)", "journal_end": "\(recovery.end)",
                "streams": "\(recovery.streamCount)",
            ])
        if recovery.tornByteCount > 0 {
            self.logger.notice(
                "journal: an incomplete group at the end, as a crash leaves it, is left out",
                metadata: [
                    "bytes": "\(recovery.tornByteCount)",
                    "kept": "\(recovery.tornPath ?? "nowhere: the disk has no room for a copy")",
                ])
        }
        if recovery.rewrittenByteCount > 0 {
            self.logger.info(
                "journal: the last group was written to disk again before the first answer",
                metadata: ["bytes": "\(recovery.rewrittenByteCount)"])
        }
        for damage in recovery.damages { self.damaged(damage) }
        for path in recovery.setAsidePaths {
            self.logger.warning("journal: a segment without a whole head was set aside", metadata: ["path": "\(path)"])
        }
    }

    func damaged(_ damage: JournalDamage) {
        self.damages.wrappingAdd(1, ordering: .relaxed)
        self.logger.error(
            "journal: a range cannot be read and is skipped; check the disk",
            metadata: [
                "segment": "\(damage.segment)", "from": "\(damage.start)", "to": "\(damage.end)",
                "reason": "\(damage.reason)",
            ])
    }

    func stopped() {
        let suppressed = self.limiter.withLock { $0.takeSuppressed() }.values.reduce(0, +)
        if suppressed > 0 {
            self.logger.notice(
                "lines about connections were left out, because there were more than one a second",
                metadata: ["lines": "\(suppressed)"])
        }
        self.logger.info(
            "receiver stopped",
            metadata: [
                "batches": "\(self.batches.load(ordering: .relaxed))",
                "raw_bytes": "\(self.rawBytes.load(ordering: .relaxed))",
                "groups": "\(self.groups.load(ordering: .relaxed))",
                "refused_batches": "\(self.refusedBatches.load(ordering: .relaxed))",
                "skipped_bytes": "\(self.skippedBytes.load(ordering: .relaxed))",
                "reloads": "\(self.reloads.load(ordering: .relaxed))",
                "partial_reloads": "\(self.partialReloads.load(ordering: .relaxed))",
                "refused_reloads": "\(self.refusedReloads.load(ordering: .relaxed))",
            ])
    }

    func reloaded(_ changes: [ConfigurationChange]) {
        let applied = changes.filter { !$0.needsRestart }.map(\.description)
        let waiting = changes.filter(\.needsRestart).map(\.description)
        self.reloads.wrappingAdd(waiting.isEmpty ? 1 : 0, ordering: .relaxed)
        self.partialReloads.wrappingAdd(waiting.isEmpty ? 0 : 1, ordering: .relaxed)
        self.logger.notice(
            "configuration reloaded",
            metadata: ["changes": "\(applied.isEmpty ? "none" : applied.joined(separator: "; "))"])
        if !waiting.isEmpty {
            self.logger.warning(
                "these changes of the configuration need a restart",
                metadata: ["changes": "\(waiting.joined(separator: "; "))"])
        }
    }

    func reloadRefused(_ problems: [String]) {
        self.refusedReloads.wrappingAdd(1, ordering: .relaxed)
        for problem in problems {
            self.logger.error(
                "the new configuration is refused, the old one stays", metadata: ["problem": "\(problem)"])
        }
    }

    func exportGoesOn(_ name: String, mappingVersion: Int, _ report: String) {
        self.logger.notice(
            "an export continues with other options",
            metadata: ["projection": "\(name)", "mapping": "\(mappingVersion)", "report": "\(report)"])
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
            level: expiry <= now ? .error : .info,
            expiry <= now
                ? "the certificate has expired and agents will refuse it; renew it and send SIGHUP to the receiver"
                : "TLS enabled",
            metadata: ["valid_until": "\(expiry.text)", "client_certificates": "\(asksAgents ? "required" : "none")"])
    }

    /// - Parameter detail: the TLS library's message.
    func tlsRefused(_ refusal: TLSRefusal, detail: String, peer: String) {
        self.tlsRefusals.withLock { $0[refusal, default: 0] += 1 }
        // Port checks do this all day.
        self.log(
            refusal == .closed ? .debug : .warning, "a connection without valid TLS is closed", .tlsRefused(refusal),
            of: String(peer[..<(peer.lastIndex(of: ":") ?? peer.endIndex)]),
            [
                "peer": "\(peer)", "code": "\(refusal.rawValue)", "cause": "\(refusal.description)",
                "detail": "\(detail)",
            ])
    }

    func groupCommitted(batchCount: Int, lineCount: Int, rawByteCount: Int, took: Duration) {
        self.groups.wrappingAdd(1, ordering: .relaxed)
        self.lines.wrappingAdd(lineCount, ordering: .relaxed)
        self.batches.wrappingAdd(batchCount, ordering: .relaxed)
        self.rawBytes.wrappingAdd(rawByteCount, ordering: .relaxed)
        if took > .seconds(1) {
            self.logger.warning("journal: a commit was slow", metadata: ["took": "\(took)"])
        }
    }

    func commitFailed(_ error: FileSystemError, attempt: Int) {
        self.commitFailures.wrappingAdd(1, ordering: .relaxed)
        // Logged once, then every minute: the disk may stay full for hours.
        guard attempt == 1 || attempt % 60 == 0 else { return }
        self.logger.error(
            "journal: a group could not be written; acks are withheld, and writing is retried every second",
            metadata: ["cause": "\(error)", "code": "\(error.code)", "attempt": "\(attempt)"])
    }

    func commitRecovered(afterAttempts attempts: Int) {
        self.logger.notice("journal: writing resumed", metadata: ["failed_attempts": "\(attempts)"])
    }

    func segmentsRetired(_ count: Int) {
        self.retiredSegments.wrappingAdd(count, ordering: .relaxed)
        self.logger.info("journal: segments retired", metadata: ["count": "\(count)"])
    }

    func retirementFailed(_ error: FileSystemError) {
        self.logger.warning("journal: a segment could not be deleted", metadata: ["cause": "\(error)"])
    }

    func skipped(_ description: StreamDescription, _ offset: StreamOffset, byteCount: UInt64, _ reason: SkipReason) {
        self.skippedBytes.wrappingAdd(Int(truncatingIfNeeded: byteCount), ordering: .relaxed)
        self.logger.notice(
            "an agent skipped bytes",
            metadata: [
                "stream": "\(description.id)", "source": "\(description.source)", "offset": "\(offset.rawValue)",
                "bytes": "\(byteCount)", "reason": "\(reason.rawValue)",
            ])
    }

    /// An agent whose connection has ended skipped more ranges than were logged one by one.
    func skippedMore(agent: String, count: Int, byteCount: UInt64) {
        self.skippedBytes.wrappingAdd(Int(truncatingIfNeeded: byteCount), ordering: .relaxed)
        self.logger.notice(
            "an agent skipped more bytes; the journal records each range",
            metadata: ["agent": "\(agent)", "skips": "\(count)", "bytes": "\(byteCount)"])
    }

    func batchRefused(
        _ id: StreamID, _ header: BatchHeader, _ refusal: BatchRefusal, peer: String, address: String
    ) {
        self.refusedBatches.wrappingAdd(1, ordering: .relaxed)
        self.log(
            .warning, "a batch was refused; its agent will send it again", .batchRefused(refusal.code), of: address,
            [
                "stream": "\(id)", "offset": "\(header.offset.rawValue)", "code": "\(refusal.code.rawValue)",
                "reason": "\(refusal.text)", "peer": "\(peer)",
            ])
    }

    func connected(agent: String, peer: String, address: String) {
        self.log(.info, "agent connected", .connected, of: address, ["agent": "\(agent)", "peer": "\(peer)"])
    }

    func disconnected(agent: String?, peer: String, address: String, reason: String) {
        // The code, without the text behind it.
        let code = String(reason.prefix { $0 != ":" }.prefix(64))
        self.log(
            .info, "connection closed", .disconnected(code), of: address,
            ["agent": "\(agent ?? "none")", "peer": "\(peer)", "reason": "\(reason)"])
    }

    func projectionStarted(_ name: String, at position: JournalPosition, _ report: String) {
        self.update(name) { $0.position = position }
        self.logger.log(
            level: report.isEmpty ? .info : .warning, "projection started",
            metadata: ["projection": "\(name)", "position": "\(position)", "recovery": "\(report)"])
    }

    /// Everything up to `position` is durable in the projection's files.
    func projectionCheckpointed(_ name: String, at position: JournalPosition, _ tally: ProjectionTally) {
        self.update(name) { standing in
            standing.position = position
            standing.tally = tally
        }
    }

    func sealed(_ name: String, _ day: SealedDay) {
        self.update(name) { $0.sealedDayCount += 1 }
        self.logger.info(
            "day sealed",
            metadata: [
                "projection": "\(name)", "day": "\(day.path)", "revision": "\(day.revision)",
                "lines": "\(day.lineCount)", "bytes": "\(day.byteCount)",
            ])
    }

    func deleted(_ name: String, _ day: DeletedDay) {
        self.update(name) { $0.deletedDayCount += 1 }
        self.logger.notice(
            "day deleted",
            metadata: [
                "projection": "\(name)", "day": "\(day.path)", "why": "\(day.reason.rawValue)",
                "lines": "\(day.lineCount)", "bytes": "\(day.byteCount)",
            ])
    }

    func projectionFailed(_ name: String, _ error: FileSystemError, attempt: Int) {
        self.update(name) { $0.failureCount += 1 }
        guard attempt == 1 || attempt % 60 == 0 else { return }
        self.logger.error(
            "a projection could not write; it goes back to its checkpoint and tries again every second",
            metadata: ["projection": "\(name)", "cause": "\(error)", "code": "\(error.code)", "attempt": "\(attempt)"])
    }

    /// A stop did not wait for it.
    func projectionAbandoned(_ name: String) {
        self.logger.notice(
            "projection stopped at its last checkpoint; the next start continues there",
            metadata: ["projection": "\(name)"])
    }

    func projectionStopped(_ name: String, _ report: String) {
        self.logger.info("projection stopped", metadata: ["projection": "\(name)", "report": "\(report)"])
    }
}
