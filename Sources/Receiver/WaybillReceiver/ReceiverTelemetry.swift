package import Logging
package import WaybillData
internal import WaybillHost
internal import WaybillProtocol
package import WaybillSystem

/// Everything noteworthy that a receiver does: each occurrence is logged and counted in one place, at most once per
/// batch.
package final class ReceiverTelemetry: Sendable {
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

    package let host: HostTelemetry
    package let journal: JournalTelemetry
    let uploads: UploadTelemetry
    let audit: AuditLog?
    private let limiter = Lock(LogLimiter<Cause>())
    let limits = Lock<[Limit: Int]>([:])
    let suppressedLines = Atomic(0)
    let refusals = Lock(Refusals())
    /// Messages that an agent may not send.
    let denials = Atomic(0)
    let lineDelays = DurationHistogram(.delivery)
    let refusedBatches = Atomic(0)
    private let skippedBytes = Lock<[SkipReason: Int]>([:])
    /// When the receiver's certificate expires, in seconds since 1970; 0 without TLS.
    let certificateExpiry = Atomic(0)
    var logger: Logger { self.host.logger }
    var clock: any SystemClock { self.host.clock }

    package init(
        logger: Logger, audit: AuditLog? = nil, clock: any SystemClock = POSIXClock(), manager: ServiceManager = .none
    ) {
        self.host = HostTelemetry(logger: logger, clock: clock, manager: manager)
        self.journal = JournalTelemetry(self.host)
        self.uploads = UploadTelemetry(self.host)
        self.audit = audit
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

    package func started(
        _ recovery: JournalRecovery, data: String, listening address: String, proxied: String? = nil
    ) {
        var metadata: Logger.Metadata = [
            "data": "\(data)", "listen": "\(address)", "journal_end": .number(recovery.end.rawValue),
            "streams": .number(recovery.streamCount),
        ]
        if let proxied { metadata["proxied"] = "\(proxied)" }
        self.logger.info("receiver started", metadata: metadata)
        self.journal.began("listening on \(address)")
        self.journal.recovered(recovery)
    }

    func stopped() {
        let suppressed = self.limiter.withLock { $0.takeSuppressed() }.values.reduce(0, +)
        if suppressed > 0 {
            self.logger.notice(
                "lines about connections were left out, because there were more than one a second",
                metadata: ["lines": .number(suppressed)])
        }
        let own: Logger.Metadata = [
            "refused_batches": .number(self.refusedBatches.load(ordering: .relaxed)),
            "skipped_bytes": .number(self.givenUpByteCount),
        ]
        let counts = [self.journal.counts, own, self.host.reloadCounts].flatMap { $0 }
        self.logger.info("receiver stopped", metadata: Logger.Metadata(uniqueKeysWithValues: counts))
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
}
