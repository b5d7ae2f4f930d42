package import Logging
internal import WaybillEvent
internal import WaybillHost
package import WaybillSystem

internal import WaybillData
internal import WaybillExport
internal import WaybillProjection

/// Sends requests; the real one is a ``ProviderConnection``.
package protocol DeliveryTransport: Sendable {
    /// Returns when the outcome is known, or when the request times out.
    func send(_ request: DeliveryRequest) async -> Answer
}

/// Sends requests over what the program with an HTTP client gives.
package struct ProviderConnection: DeliveryTransport {
    /// Opens one; no answer takes longer than the timeout.
    package typealias Opening = @Sendable (_ timeout: Duration, _ proxy: ProxyAddress?) -> ProviderConnection

    private let sending: @Sendable (DeliveryRequest) async -> Answer
    private let closing: @Sendable () async throws -> Void

    package init(
        send: @escaping @Sendable (DeliveryRequest) async -> Answer,
        shutDown: @escaping @Sendable () async throws -> Void
    ) {
        (self.sending, self.closing) = (send, shutDown)
    }

    package func send(_ request: DeliveryRequest) async -> Answer { await self.sending(request) }

    /// Closes its connections; nothing can be sent afterwards.
    package func shutDown() async throws { try await self.closing() }
}

/// How long a delivery is tried without a record that is settled, and why none was.
struct DeliveryPatience {
    /// `nil` for ever.
    private let limit: Duration?
    private var lastSettled: MonotonicTime
    private var lastFailure = "nothing was answered"

    init(_ limit: Duration?, from start: MonotonicTime) {
        self.limit = limit
        self.lastSettled = start
    }

    mutating func settled(at now: MonotonicTime) {
        self.lastSettled = now
    }

    mutating func failed(_ detail: String) {
        self.lastFailure = detail
    }

    /// - Returns: why nothing is settled, if an attempt at `time` would come too late; `nil` to wait for it.
    func lateness(at time: MonotonicTime) -> String? {
        guard let limit, self.lastSettled + limit < time else { return nil }
        return self.lastFailure
    }
}

/// Ends delivery before everything was delivered.
struct DeliveryEnded: Error {
    let outcome: DeliveryReport.Outcome
}

/// Delivers the closed parts of an export to the provider, one after the other.
///
/// It has one owner and one task. Cancelling the task ends a pause at once, but never a request in flight.
package final class Deliverer<Files: FileSystem, Clock: SystemClock, Transport: DeliveryTransport> {
    let configuration: DeliveryConfiguration
    let rules: DeliveryRules
    let files: Files
    let clock: Clock
    let transport: Transport
    let logger: Logger
    /// Waits; throws when the task is cancelled.
    let pause: @Sendable (Duration) async throws -> Void
    /// Gets the report whenever it changes; `nil` if no one watches, and then nothing is counted in between.
    let observe: (@Sendable (DeliveryReport) -> Void)?
    var parts: ClosedParts<Files>
    var state: StateStore<Files>
    var report = DeliveryReport()
    var patience: DeliveryPatience
    /// `nil` outside a fleet: then every part is this process's.
    let claims: DeliveryClaims?
    var memory = ClaimMemory()
    /// What may have been sent from the directory that this one replaces.
    let restored: RestoredDays?
    /// `nil` while an erasure has the files.
    private var lock: FileID?
    private let credentials: [DeploymentEnvironment: Credentials]
    private var pace: RequestRate
    /// When open parts were last logged.
    private var lastOpenLog: MonotonicTime?
    /// When what waits was last counted.
    private var lastSurvey: MonotonicTime?

    /// How often a delivery with `--follow` looks for parts.
    private static var scanPause: Duration { .seconds(5) }
    /// How often a watched delivery counts what waits, while it is busy or waits for the provider.
    private static var surveyPause: Duration { .seconds(10) }

    /// Locks the provider's delivery and reads its state.
    package init(
        _ configuration: DeliveryConfiguration, credentials source: CredentialSource, files: Files, clock: Clock,
        transport: Transport, logger: Logger, claims: DeliveryClaims? = nil,
        observe: (@Sendable (DeliveryReport) -> Void)? = nil,
        pause: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) throws(DeliveryError) {
        self.configuration = configuration
        self.rules = DeliveryRules(configuration.provider)
        self.files = files
        self.clock = clock
        self.transport = transport
        self.logger = logger
        self.pause = pause
        self.observe = observe
        self.claims = claims
        let name = configuration.provider.rawValue
        let data = DataDirectory(root: configuration.dataDirectory, files: files)
        self.parts = ClosedParts(root: Path.join(data.exports, name), files: files)
        self.pace = RequestRate(eventsPerSecond: configuration.eventsPerSecond ?? self.rules.facts.eventsPerSecondMax)
        self.patience = DeliveryPatience(
            configuration.isFollowing ? nil : configuration.patience, from: clock.monotonicTime())
        // A wrong address is found before anything is locked or sent.
        _ = try Self.template(configuration, isHistorical: false)
        self.credentials = try Self.credentials(configuration, source)
        let path = data.statePath("deliver-\(name)")
        let isErasing: Bool
        do throws(FileSystemError) {
            self.restored = try RestoredDays.read(in: data)
        } catch {
            throw .disk(error)
        }
        if configuration.sentBefore != nil, self.restored == nil {
            throw .notRestored(dataDirectory: configuration.dataDirectory)
        }
        let lock = try Self.lock(path + ".lock", export: self.parts.root, data.state, configuration.provider, files)
        self.lock = lock
        do throws(FileSystemError) {
            // An erasure takes this lock, so that none begins from here on.
            isErasing = try ErasureLog.isUnderWay(in: data)
            self.state = try StateStore(path: path, files: files)
        } catch {
            files.close(lock)
            throw .disk(error)
        }
        guard !isErasing else {
            files.close(lock)
            throw .erasing(dataDirectory: configuration.dataDirectory)
        }
        let recovery = self.state.recovery
        // An earlier state is safe: the commit after it never returned, so nothing was sent after it.
        if self.rules.facts.repetition != .harmless, configuration.ambiguity == .skip, !recovery.damagedPaths.isEmpty {
            throw .damagedState(path: path, notes: recovery.notes)
        }
        for note in recovery.notes {
            logger.warning(
                .deliveryStateRecovered, "the state of the delivery was repaired", metadata: ["found": "\(note)"])
        }
    }

    deinit {
        if let lock { self.files.close(lock) }
    }

    /// Lets an erasure have the files.
    func releaseLock() {
        if let lock { self.files.close(lock) }
        self.lock = nil
    }

    /// Continues after ``releaseLock()``, with what is on the disk now.
    func retakeLock() throws(DeliveryError) {
        let data = DataDirectory(root: self.configuration.dataDirectory, files: self.files)
        let path = data.statePath("deliver-\(self.configuration.provider.rawValue)")
        self.lock = try Self.lock(
            path + ".lock", export: self.parts.root, data.state, self.configuration.provider, self.files)
        let isErasing: Bool
        do throws(FileSystemError) {
            isErasing = try ErasureLog.isUnderWay(in: data)
            self.state = try StateStore(path: path, files: self.files)
            try self.state.settle()
        } catch {
            throw .disk(error)
        }
        guard !isErasing else { throw .erasing(dataDirectory: self.configuration.dataDirectory) }
        self.parts = ClosedParts(root: self.parts.root, files: self.files)
    }

    private static func credentials(
        _ configuration: DeliveryConfiguration, _ source: CredentialSource
    ) throws(DeliveryError) -> [DeploymentEnvironment: Credentials] {
        let envs = configuration.env.map { [$0] } ?? DeploymentEnvironment.allCases
        var credentials: [DeploymentEnvironment: Credentials] = [:]
        do throws(CredentialError) {
            for env in envs { credentials[env] = try source.credentials(for: configuration.provider, env) }
        } catch {
            throw .credentials(error)
        }
        guard !credentials.isEmpty else {
            throw .missingCredentials(
                source.missingVariables(for: configuration.provider, configuration.env ?? .prod))
        }
        return credentials
    }

    private static func lock(
        _ path: String, export: String, _ stateDirectory: String, _ provider: DeliverableProvider, _ files: Files
    ) throws(DeliveryError) -> FileID {
        let lock: FileID
        let isFree: Bool
        let hasExport: Bool
        do throws(FileSystemError) {
            hasExport = try files.status(at: export)?.kind == .directory
        } catch {
            throw .disk(error)
        }
        guard hasExport else { throw .noExport(path: export) }
        do throws(FileSystemError) {
            try files.createDirectories(stateDirectory)
            lock = try files.open(path, .append)
            do throws(FileSystemError) {
                isFree = try files.lock(lock, .exclusive)
            } catch {
                files.close(lock)
                throw error
            }
        } catch {
            throw .disk(error)
        }
        guard isFree else {
            files.close(lock)
            throw .locked(path: path, provider: provider)
        }
        return lock
    }

    static func template(
        _ configuration: DeliveryConfiguration, isHistorical: Bool, isValidation: Bool = false
    ) throws(DeliveryError) -> RequestTemplate {
        do throws(EndpointError) {
            return try RequestTemplate(
                configuration.provider, region: configuration.region, endpoint: configuration.endpoint,
                isValidation: isValidation, isHistorical: isHistorical)
        } catch {
            throw .endpoint(error)
        }
    }

    // MARK: All parts

    /// Delivers closed parts; returns when nothing more can be sent now, or when it cannot continue.
    package func run() async throws(DeliveryError) -> DeliveryReport {
        do {
            // The state must be on disk before it is used: a process that died may have left it only in the kernel's
            // cache.
            try self.state.settle()
            try self.prepareClaims()
            try self.decide()
            var isChanged = false
            repeat {
                try await self.deliverPending()
                isChanged = try await self.makeWay()
                if isChanged { continue }
                try self.countOpen(isLast: false)
                try self.survey()
                if self.configuration.isFollowing { try await self.rest(Self.scanPause) }
            } while self.configuration.isFollowing || isChanged
        } catch let ended as DeliveryEnded {
            self.report.outcome = ended.outcome
        } catch {
            throw Self.deliveryError(error)
        }
        do {
            try self.countRemaining()
            try self.countOpen(isLast: true)
        } catch {
            throw .disk(error)
        }
        return self.report
    }

    static func deliveryError(_ error: any Error) -> DeliveryError {
        switch error {
        case let error as DeliveryError: error
        case let error as FileSystemError: .disk(error)
        case PartError.disk(let error): .disk(error)
        case PartError.damaged(let detail): .notValidated(detail)
        default: preconditionFailure("only files and parts can fail here, got \(error)")
        }
    }

    private func deliverPending() async throws {
        let pending = try self.parts.pending(only: self.configuration.env, now: self.clock.wallTime())
        if self.observe != nil, !pending.parts.isEmpty { try self.survey() }
        for name in pending.damaged { self.partIsDamaged(name, "its manifest is unreadable") }
        try self.forgetDelivered()
        self.beginScan(of: pending.parts)
        for part in pending.parts {
            guard self.hasCredentials(part.env) else {
                if !self.report.envsWithoutCredentials.contains(part.env) {
                    self.report.envsWithoutCredentials.append(part.env)
                }
                continue
            }
            if self.standing(of: part) == nil, try self.erasureWaits() { continue }
            do {
                guard try await self.mayOpen(part) else { continue }
                try await self.deliver(part)
            } catch PartError.damaged(let detail) {
                self.partIsDamaged("\(part.day)/\(part.name)", detail)
            } catch let error as FileSystemError where error.isDamage {
                self.partIsDamaged("\(part.day)/\(part.name)", "\(error.path) is damaged")
            }
        }
    }

    /// Removes delivered parts from the state: a process may have died before it could do so.
    private func forgetDelivered() throws(FileSystemError) {
        var changes: [String: String?] = [:]
        for key in self.state.entries.keys where key.hasPrefix(PendingPart.keyPrefix) {
            if self.parts.isKnownDelivered(String(key.dropFirst(PendingPart.keyPrefix.utf8.count))) {
                changes.updateValue(nil, forKey: key)
            }
        }
        try self.state.commit(changes)
    }

    func partIsDamaged(_ name: String, _ detail: String) {
        guard !self.report.damagedParts.contains(name) else { return }
        self.report.damagedParts.append(name)
        let day = name.split(separator: "/").first { $0.hasPrefix("date=") }?.dropFirst("date=".utf8.count) ?? ""
        self.logger.error(
            .partDamaged, "a part is damaged and not delivered; a replay makes its day again",
            metadata: [
                "part": "\(name)", "detail": "\(detail)",
                "replay": """
                waybill replay --data \(self.configuration.dataDirectory) --provider \(self.configuration.provider.rawValue) \
                --from \(day) --to \(day)
                """,
            ])
    }

    private func countRemaining() throws(FileSystemError) {
        self.report.remainingCount = 0
        self.report.heldCount = 0
        var oldest: WallTime?
        let pending = try self.parts.pending(only: self.configuration.env, now: self.clock.wallTime()).parts
        self.countClaims(of: pending)
        for part in pending where !self.isElsewhere(part) {
            if let time = part.manifest.oldest { oldest = min(oldest ?? time, time) }
            let standing = self.standing(of: part)
            let held = standing?.held.count ?? 0
            self.report.heldCount += held
            self.report.remainingCount +=
                part.manifest.eventCount - (standing?.sentEventCount ?? 0) - (standing?.deadEventCount ?? 0) - held
        }
        self.report.oldestClosed = oldest
    }

    /// Counts what waits and shows the report to who watches.
    private func survey() throws(FileSystemError) {
        guard let observe else { return }
        self.lastSurvey = self.clock.monotonicTime()
        try self.countRemaining()
        observe(self.report)
    }

    /// Shows the report to who watches, and counts what waits from time to time.
    func show() throws(FileSystemError) {
        guard let observe else { return }
        guard let lastSurvey, self.clock.monotonicTime() - lastSurvey < Self.surveyPause else {
            return try self.survey()
        }
        observe(self.report)
    }

    /// Counts the records that wait in open parts, and logs them: at the end, and once a minute until then.
    private func countOpen(isLast: Bool) throws(FileSystemError) {
        let now = self.clock.monotonicTime()
        if !isLast {
            guard self.configuration.isFollowing, self.lastOpenLog.map({ now - $0 >= .seconds(60) }) ?? true else {
                return
            }
        }
        self.lastOpenLog = now
        let data = DataDirectory(root: self.configuration.dataDirectory, files: self.files)
        let open = try OpenParts(
            of: self.configuration.provider, only: self.configuration.env, in: data, at: self.clock.wallTime())
        self.report.open = open
        if open.closingRecordCount > 0 {
            self.logger.info(
                "records wait in closed parts that the receiver has yet to compress",
                metadata: ["records": .number(open.closingRecordCount)])
        }
        guard open.recordCount > 0 else { return }
        self.logger.info(
            "records wait in open parts; a part is sent once it is full or as old as close_after",
            metadata: [
                "records": .number(open.recordCount),
                "oldest_s": open.oldestSeconds.map { .number($0) } ?? "unknown",
            ])
    }

    /// The state of a part with exactly these bytes.
    func standing(of part: PendingPart) -> DeliveryStanding? {
        self.state.entries[part.key]
            .flatMap { DeliveryStanding(text: $0, recordCount: part.manifest.recordCount) }
            .flatMap { $0.sha256 == part.manifest.sha256 ? $0 : nil }
    }

    func hasCredentials(_ env: DeploymentEnvironment) -> Bool {
        self.credentials[env] != nil
    }

    // MARK: Sending

    /// Sends requests with these records, all at the same time.
    func answers(to requests: [[PartRecord]], _ template: RequestTemplate, _ env: DeploymentEnvironment) async
        -> [Answer]
    {
        guard let credentials = self.credentials[env] else {
            preconditionFailure("parts of an environment without credentials are not opened")
        }
        let transport = self.transport
        let messages = requests.map { template.request($0.map(\.content), credentials) }
        self.report.requestCount += messages.count
        self.report.byteCount += messages.reduce(0) { $0 + $1.body.count }
        // A separate task, so that cancelling this one waits for requests in flight.
        let answers = await Task {
            await withTaskGroup(of: (Int, Answer).self) { group in
                for (index, message) in messages.enumerated() {
                    group.addTask { (index, await transport.send(message)) }
                }
                var answers = [Answer?](repeating: nil, count: messages.count)
                for await (index, answer) in group { answers[index] = answer }
                return answers.map { $0 ?? .unknown(detail: "the request was lost in this process") }
            }
        }.value
        return answers.map { $0.redacted(by: credentials) }
    }

    /// Waits until this many events may be sent.
    func keepPace(eventCount: Int) async throws {
        let now = self.clock.monotonicTime()
        let start = self.pace.reserve(eventCount: eventCount, at: now)
        if now < start { try await self.rest(start - now) }
        if Task.isCancelled { throw DeliveryEnded(outcome: .interrupted) }
    }

    /// Waits for another attempt, unless nothing was settled for too long.
    func wait(until time: MonotonicTime) async throws {
        if let detail = self.patience.lateness(at: time) { throw DeliveryEnded(outcome: .unreachable(detail: detail)) }
        guard self.observe != nil else { return try await self.rest(time - self.clock.monotonicTime()) }
        while case let left = time - self.clock.monotonicTime(), left > .zero {
            try self.show()
            try await self.rest(min(left, Self.surveyPause))
        }
    }

    func rest(_ duration: Duration) async throws {
        guard duration > .zero else { return }
        do {
            try await self.pause(duration)
        } catch {
            throw DeliveryEnded(outcome: .interrupted)
        }
    }
}

extension Answer {
    /// The answer without credentials that the provider repeats in it, so that they reach no log and no file.
    func redacted(by credentials: Credentials) -> Answer {
        switch self {
        case .response(let status, let retryAfter, let body):
            .response(
                status: status, retryAfter: retryAfter,
                body: body.map { Array(credentials.redacted(String(decoding: $0, as: UTF8.self)).utf8) })
        case .notSent(let detail): .notSent(detail: credentials.redacted(detail))
        case .unknown(let detail): .unknown(detail: credentials.redacted(detail))
        }
    }
}
