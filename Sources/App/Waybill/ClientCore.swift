package import WaybillEvent
internal import WaybillSpool
package import WaybillSystem

/// The client for any disk and clock: locks, the pool of drafts, the install file, and the spool's quota.
package final class ClientCore<Files: FileSystem, Clock: SystemClock>: Client {
    private let files: Files
    private let clock: Clock
    private let directory: String
    private let rules: EventRules
    let version: String
    let build: String
    private let environment: DeploymentEnvironment
    let lifecycle: WaybillClient.Lifecycle
    private let registered: KeyValuePairs<String, (any FieldValue & Sendable)?>
    private let writer: String
    private let execute: Execute
    package let installOrigin: InstallOrigin
    let state: Lock<ClientState<Files>>
    private let drafts = DraftPool()
    private let currentSalt: CurrentSalt
    /// The install as last written; `nil` if it could not be read, and is written only by a reset or a consent change.
    ///
    /// Locked before `state`.
    private let written: Lock<Install?>
    private let upkeep: QuotaUpkeep
    private let power: PowerKeeper?
    let phase: Lock<(phase: AppPhase, since: MonotonicTime)>

    /// Runs work on another thread, or at once.
    package typealias Execute = @Sendable (@escaping @Sendable () -> Void) -> Void

    /// - Parameters:
    ///   - protect: called with the spool's folder after it exists and before it has files: a file gets the folder's
    ///     protection when it is created.
    ///   - execute: runs slow work, such as writing the install file and enforcing the quota.
    package init(
        _ configuration: WaybillClient.Configuration, on files: Files, clock: Clock, seed: UInt64,
        zone: @escaping @Sendable (WallTime) -> Int, segmentByteCountMax: Int = SpoolLimits.segmentByteCountMax,
        makeSalt: @escaping @Sendable () -> PrivacySalt = ClientCore.randomSalt,
        protect: (String) -> Void = { _ in }, execute: @escaping Execute = { $0() }
    ) throws(WaybillError) {
        try configuration.check()
        self.files = files
        self.clock = clock
        self.directory = configuration.spool
        self.rules = EventRules(
            subscriptions: configuration.providers, filters: configuration.filters, sampling: configuration.sampling)
        self.version = configuration.version
        self.build = configuration.build
        self.environment = configuration.environment
        self.lifecycle = configuration.lifecycle
        self.registered = configuration.registered
        self.execute = execute
        let now = Moment(wall: clock.wallTime(), monotonic: clock.monotonicTime())
        self.phase = Lock((.foreground, now.monotonic))
        let quota = configuration.quota.spool
        self.upkeep = QuotaUpkeep(quota, segmentByteCountMax: segmentByteCountMax, at: now.monotonic)
        var generator = SeededGenerator(seed: seed)
        let writer = UniqueID.timed(now.wall.milliseconds, &generator)
        self.writer = writer.text
        let start: InstallStart
        let hadSegments: Bool
        do throws(FileSystemError) {
            let spool = try SpoolWriter(
                directory: configuration.spool, writer: writer.text, on: files,
                segmentByteCountMax: segmentByteCountMax, freeByteCountMin: quota.freeByteCountMin,
                settledBy: Install.fileName)
            protect(configuration.spool)
            hadSegments = spool.hadSegments
            start = try InstallStart.begin(configuration, on: files, at: now.wall, makeSalt, &generator)
            self.installOrigin = start.origin
            self.written = Lock(start.written)
            self.currentSalt = CurrentSalt(start.install.salt, makeSalt)
            var state = ClientState(
                spool: spool, writer: writer, origin: configuration.origin, start,
                generator: generator, at: now, gathering: configuration.durability.gathering,
                consent: configuration.consent, zone: zone)
            if start.isUnsaved { state.installFailed() }
            for subscription in configuration.observers { state.observe(ObserverToken(subscription)) }
            self.state = Lock(state)
        } catch {
            throw WaybillError(error)
        }
        self.power = configuration.durability.interval.map { PowerKeeper(every: $0) }
        if !self.registered.isEmpty, !self.register({ $0.put(configuration.registered) }) {
            throw WaybillError(registeredFieldsOf: configuration)
        }
        if let foreign = start.foreignEnvironment { throw WaybillError(environment: foreign, configuration) }
        if hadSegments { self.execute { self.keepUp() } }
        // Weak, so that the thread does not retain the client; used only here, because it slows down every access.
        let isKept = self.power?.start { [weak self] in self?.syncForPower() ?? true }
        if isKept == false { throw WaybillError(noThreadFor: "durability") }
        self.recordStart(after: start.previous, start.origin)
    }

    /// A salt that cannot be guessed.
    @Sendable
    package static func randomSalt() -> PrivacySalt {
        var generator = SystemRandomNumberGenerator()
        return PrivacySalt(&generator)
    }

    deinit {
        // Nothing may be started here that outlives the client, as ``watched(_:)`` would.
        _ = self.saveConsent()
        self.saveSession()
        if let power { if power.stop() { _ = self.synchronize(self.state.withLock { ($0.release(), $0.sync) }) } }
        self.state.withLock { state in
            state.closeSegment()
            state.cancelObservations()
        }
    }

    package func now() -> Moment {
        Moment(wall: self.clock.wallTime(), monotonic: self.clock.monotonicTime())
    }

    /// Encodes without the lock, and stores under it.
    package func track(
        _ take: (inout EventDraft, borrowing EventRules, PrivacySalt?) -> Void
    ) -> TrackOutcome {
        guard let index = self.drafts.claim() else { return self.trackAlone(take) }
        let place = self.drafts.place(index)
        self.currentSalt.refresh(&place.pointee)
        take(&place.pointee.draft, self.rules, place.pointee.salt)
        let due = self.state.withLock { state in
            self.watch(&state) { state in state.store(place.pointee.draft, at: self.now()) }
        }
        self.drafts.giveBack(index)
        self.perform(due)
        self.power?.dirtied()
        return due.outcome
    }

    /// Stores an event when more calls run at once than there are places.
    private func trackAlone(
        _ take: (inout EventDraft, borrowing EventRules, PrivacySalt?) -> Void
    ) -> TrackOutcome {
        let box = EventDraftBox()
        take(&box.draft, self.rules, self.salt)
        return self.store { state, now in state.store(box.draft, at: now) }
    }

    /// Work that a call does after it released the lock.
    struct Due<Outcome> {
        var outcome: Outcome
        var isInstallChanged: Bool
        var segmentCount: Int
    }

    private func perform(_ due: Due<some Any>) {
        self.perform(due, self.execute)
    }

    func perform(_ due: Due<some Any>, _ execute: Execute) {
        if due.isInstallChanged { execute { self.saveInstall() } }
        if due.segmentCount > 0 { self.segmentsBegan(due.segmentCount, execute) }
    }

    /// Runs `body` under the lock, then does the work that became due.
    private func store(_ body: (inout ClientState<Files>, Moment) -> TrackOutcome) -> TrackOutcome {
        let outcome = self.watched { state in body(&state, self.now()) }
        self.power?.dirtied()
        return outcome
    }

    private func watched<Outcome>(_ body: (inout ClientState<Files>) -> Outcome) -> Outcome {
        let due = self.state.withLock { state in self.watch(&state, body) }
        self.perform(due)
        return due.outcome
    }

    @inline(__always)
    func watch<Outcome>(
        _ state: inout ClientState<Files>, _ body: (inout ClientState<Files>) -> Outcome
    ) -> Due<Outcome> {
        let saveMark = state.saveMark
        let segmentCount = state.segmentCount
        let outcome = body(&state)
        return Due(
            outcome: outcome, isInstallChanged: state.saveMark != saveMark,
            segmentCount: state.segmentCount - segmentCount)
    }

    package var salt: PrivacySalt? {
        self.currentSalt.value
    }

    package func setUser(_ id: String?, adding traits: (inout Fields) -> Void) -> TrackOutcome {
        let box = EventDraftBox()
        box.draft.take(.user, "set_user", nil, self.rules, self.salt, adding: traits)
        return self.store { state, now in state.setUser(id, box.draft, at: now) }
    }

    package func observe(_ subscription: ObserverSubscription) -> ObserverToken {
        let token = ObserverToken(subscription)
        self.state.withLock { $0.observe(token) }
        return token
    }

    @discardableResult
    package func setVendorID(_ id: String?, for provider: ProviderID) -> Bool {
        self.state.withLock { $0.setVendorID(id, for: provider) }
    }

    package func register(_ body: (inout Fields) -> Void) -> Bool {
        let added = self.registering(self.salt, body)
        guard !added.draft.isOverflowing, !added.draft.isDropped else { return false }
        return self.state.withLock { $0.register(added) }
    }

    private func registering(_ salt: PrivacySalt?, _ body: (inout Fields) -> Void) -> EventDraftBox {
        let added = EventDraftBox()
        added.draft.take(.event, "common", nil, self.rules, salt, adding: body)
        return added
    }

    package func unregister(_ names: [String]) {
        let removed = EventDraftBox()
        removed.draft.take(own: "removed") { fields in
            for name in names { fields.putNull(name) }
        }
        self.state.withLock { $0.unregister(removed) }
    }

    /// When it returns, the consent is in the install file, unless the write failed: then it is retried.
    package func setConsent(_ consent: Consent) -> TrackOutcome {
        let outcome = self.store { state, now in state.setConsent(consent, at: now) }
        self.saveInstall()
        return outcome
    }

    package func reset() throws(WaybillError) {
        let salt = self.currentSalt.renew()
        let registered = self.registered.isEmpty ? nil : self.registering(salt) { $0.put(self.registered) }
        self.state.withLock { $0.reset(registering: registered, at: self.now()) }
        do throws(FileSystemError) {
            try self.written.withLock { written throws(FileSystemError) in try self.save(&written, .own) }
        } catch {
            throw WaybillError(error)
        }
        self.saveSession()
    }

    package func synchronize() throws(WaybillError) {
        if let failure = self.sync().failure { throw WaybillError(failure) }
    }

    private struct Synchronization {
        var failure: FileSystemError?
        /// Whether another attempt may succeed.
        var isWorthRepeating: Bool
    }

    private func sync() -> Synchronization {
        let unsaved = self.saveConsent()
        var result = self.synchronize(self.watched { state in (state.release(), state.sync) })
        if let unsaved { result = Synchronization(failure: result.failure ?? unsaved, isWorthRepeating: true) }
        return result
    }

    private func synchronize(_ due: (unwritten: FileSystemError?, sync: SpoolSync)) -> Synchronization {
        do throws(SpoolSyncFailure) {
            try due.sync.perform(on: self.files)
            self.state.withLock { $0.syncEnded(due.sync, nil) }
            return Synchronization(failure: due.unwritten, isWorthRepeating: due.unwritten != nil)
        } catch {
            self.state.withLock { $0.syncEnded(due.sync, error) }
            return Synchronization(
                failure: error.error, isWorthRepeating: due.unwritten != nil || !error.isRestDurable)
        }
    }

    /// Returns `true` if nothing is left that another attempt could make durable.
    private func syncForPower() -> Bool {
        !self.sync().isWorthRepeating
    }

    package var counters: WaybillClient.Counters {
        self.state.withLock { state in
            var counters = state.counters
            counters.heldCount = state.held.count
            return counters
        }
    }

    package var identity: EventIdentity {
        self.state.withLock { $0.user.ids }
    }

    package var consent: Consent? {
        self.state.withLock { $0.consent.answer }
    }

    /// Counts an event that cannot be stored.
    package func drop(_ reason: DropReason) -> TrackOutcome {
        self.state.withLock { $0.drop(reason) }
    }

    package func screenEnded() {
        self.state.withLock { $0.times.screenEnded() }
    }
}

// MARK: The install file

extension ClientCore {
    private var install: Install {
        var install = self.state.withLock { state in
            var install = Install(anonymous: state.user.ids.anonymous, sessionNumber: state.user.ids.sessionNumber)
            install.consent = state.consent.answer
            return install
        }
        install.environment = self.environment
        install.version = self.version
        install.build = self.build
        install.salt = self.salt
        return install
    }

    private var isConsentUnsaved: Bool {
        self.state.withLock { $0.saving.isUnsaved }
    }

    /// Retries saving consent that could not be saved; returns the error if it fails again.
    func saveConsent() -> FileSystemError? {
        self.isConsentUnsaved ? self.saveInstall() : nil
    }

    /// Saves the install, if the file differs, and the session.
    @discardableResult
    private func saveInstall() -> FileSystemError? {
        let failure = self.saveIdentity()
        self.saveSession()
        return failure
    }

    /// Saves the session for the next start; without the record, that start begins a session.
    func saveSession() {
        self.written.withLock { written in
            guard written != nil, let record = self.state.withLock({ $0.sessionToSave() }) else { return }
            do throws(FileSystemError) {
                try Install.withLock(in: self.directory, on: self.files) { _ throws(FileSystemError) in
                    try record.write(in: self.directory, on: self.files)
                }
            } catch {
                self.state.withLock { $0.sessionFailed() }
            }
        }
    }

    /// Without consent no record of the session stays; one that cannot be deleted has an id and a time.
    private func deleteSession() {
        self.written.withLock { _ in
            do throws(FileSystemError) {
                try self.files.unlink(Path.join(self.directory, SessionRecord.fileName))
            } catch {
                if error.errno != Errno.noEntry { self.state.withLock { $0.sessionFailed() } }
            }
        }
    }

    /// A failure is counted, and the next session tries again.
    private func saveIdentity() -> FileSystemError? {
        do throws(FileSystemError) {
            try self.written.withLock { written throws(FileSystemError) in
                guard written != nil || self.isConsentUnsaved else { return }
                try self.save(&written, .file)
            }
            return nil
        } catch {
            self.state.withLock { $0.installFailed() }
            return error
        }
    }

    /// Writes this process's state of the install.
    private func save(_ written: inout Install?, _ precedence: Precedence) throws(FileSystemError) {
        let attempt = self.state.withLock { $0.saving.beginAttempt() }
        let own = self.install
        guard !own.isSameIdentity(as: written) || precedence == .own || attempt.isUnsaved else { return }
        var isLocked = false
        written = try Install.withLock(in: self.directory, on: self.files) { hasLock throws(FileSystemError) in
            isLocked = hasLock
            var install = own
            if let found = try Install.read(in: self.directory, on: self.files).install {
                if found.environment(otherThan: self.environment) != nil {
                    let path = Path.join(self.directory, Install.fileName)
                    throw FileSystemError("replace", path: path, errno: Errno.exists)
                }
                install.sessionNumber = max(install.sessionNumber, found.sessionNumber)
                if precedence == .file {
                    install.anonymous = found.anonymous
                    install.salt = found.salt ?? own.salt
                }
                install.consent = self.state.withLock {
                    $0.saving.consent(toSave: own.consent, attempt, found: found.consent)
                }
            }
            try install.write(in: self.directory, on: self.files)
            return own
        }
        // Without the lock, another process may have written at the same time: retry then.
        if isLocked { self.state.withLock { $0.saving.saved(attempt) } }
    }

    /// Which ids to write to the install file.
    private enum Precedence {
        /// The ids of this process, which was reset.
        case own
        /// The ids in the file: another process may have been reset.
        case file
    }
}

// MARK: The quota

extension ClientCore {
    /// Each evicted segment is reported before it is deleted.
    private var keeper: SpoolKeeper<Files> {
        SpoolKeeper(directory: self.directory, on: self.files) {
            self.state.withLock { $0.ids.timed(at: self.now()).text }
        } tell: { eviction in
            self.state.withLock { $0.evicted(eviction, at: self.now()) }
        }
    }

    /// Starts a quota check if the spool may exceed its quota.
    private func segmentsBegan(_ count: Int, _ execute: Execute) {
        if self.upkeep.isDue(afterSegments: count, at: self.clock.monotonicTime()) { execute { self.keepUp() } }
    }

    /// Brings the spool within its quota; returns at once if another thread is doing so.
    private func keepUp() {
        let upkeep = self.upkeep.check(at: self.clock.monotonicTime()) { quota in
            self.keeper.evict(beyond: quota, now: self.now().wall, writer: self.writer)
        }
        if upkeep?.failure != nil { self.state.withLock { $0.upkeepFailed() } }
    }

    package func purge() throws(WaybillError) {
        self.state.withLock { $0.purge() }
        let failure: FileSystemError? = self.upkeep.exclusively {
            do throws(FileSystemError) {
                try self.keeper.purge()
                return nil
            } catch {
                return error
            }
        }
        _ = self.watched { state in state.repeatConsent(at: self.now()) }
        self.power?.dirtied()
        if self.consent?.analytics == false { self.deleteSession() }
        _ = self.saveConsent()
        if let failure { throw WaybillError(failure) }
    }

    package func usage() throws(WaybillError) -> SpoolUsage {
        do throws(FileSystemError) {
            let usage = try self.keeper.usage()
            return SpoolUsage(
                byteCount: usage.byteCount, segmentCount: usage.segmentCount, unacknowledgedCount: usage.lineCount)
        } catch {
            throw WaybillError(error)
        }
    }
}
