internal import WaybillEvent
internal import WaybillSpool
internal import WaybillSystem

/// All state that changes from event to event; protected by the client's lock, with the time as an argument.
struct ClientState<Files: FileSystem>: ~Copyable {
    var spool: SpoolWriter<Files>
    var context: EventContext
    private var line = LineBuffer(capacity: 2048)
    /// Lines waiting for the disk, or to be written together.
    var held = HeldLines()
    /// How long lines are gathered in memory; `nil` if they are written at once.
    let gathering: Duration?
    private var gatheringSince: MonotonicTime?
    private var ids = UniqueIDSequence()
    var generator: SeededGenerator
    var identity: EventIdentity
    private var personHash: UInt64 = 0
    var consent: Consent?
    /// The number of consent changes in this process.
    var consentCount: UInt64 = 0
    /// How many of these were saved to the install file.
    private var savedConsentCount: UInt64 = 0
    /// The time of the last failed attempt to save one.
    var consentTried: MonotonicTime?
    private var consentRetryCount: UInt64 = 0
    /// The number of attempts to save the last change.
    var consentAttemptCount = 0
    /// The consent in the install file when it was last read.
    private var foundConsent: Consent?
    var isAllowed = true
    /// Whether lines wait in memory for the user's answer about consent.
    var isAsking = false
    /// Whether lines are written at once unless writes fail: they are not gathered, and wait for no answer.
    var isDirect = true
    private let start: MonotonicTime
    /// The last event, or the start before the first.
    var activity: Moment
    private var lastStored: MonotonicTime?
    var screenEntered: MonotonicTime
    /// Whether a separate event reported how long the current screen was shown.
    var isScreenEnded = false
    private let zone: @Sendable (WallTime) -> Int
    private var zoneQuarter: Int64 = .min
    /// The minute of the last event, in which nothing is due.
    private var minute: Range<Int64> = 0..<0
    /// The number of minutes with events after that of the start.
    private var activeMinuteCount: UInt64 = 0
    /// The session as last saved.
    private var recorded: SessionRecord
    /// Drops not yet reported by a `wb.dropped` event.
    private var unreported = [UInt64](repeating: 0, count: DropReason.Code.allCases.count)
    private var hasUnreported = false
    /// Waybill's own events.
    let own = EventDraftBox()
    /// The consent event; separate from `own`, which other events of Waybill may need meanwhile.
    let said = EventDraftBox()
    /// What `wb.field` events have reported, so that each is reported once.
    var reportedFaults: Set<String> = []
    /// How often a disk accepted everything again after failed writes.
    private var recoveryCount: UInt64 = 0
    var tokens: [ObserverToken] = []
    var counters = WaybillClient.Counters()

    init(
        spool: consuming SpoolWriter<Files>, writer: UniqueID, origin: EventOrigin, _ start: InstallStart,
        generator: SeededGenerator, at now: Moment, gathering: Duration?, consent: WaybillClient.ConsentDefault,
        zone: @escaping @Sendable (WallTime) -> Int
    ) {
        self.spool = spool
        self.context = EventContext(writer: writer, origin: origin)
        self.generator = generator
        self.identity = EventIdentity(
            session: start.session.id, sessionNumber: start.session.number, user: nil,
            anonymous: start.install.anonymous)
        self.recorded = start.session
        self.start = now.monotonic
        self.activity = now
        self.screenEntered = now.monotonic
        self.gathering = gathering
        self.zone = zone
        self.identityChanged()
        self.foundConsent = start.install.consent
        self.isDirect = gathering == nil
        self.enterMinute(at: now)
        self.decide(start.install.consent, or: consent)
    }

    /// Applies the consent, or what holds without an answer.
    private mutating func decide(_ consent: Consent?, or unanswered: WaybillClient.ConsentDefault) {
        if let consent { return self.remember(consent) }
        switch unanswered {
        case .given: break
        case .ask:
            self.isAsking = true
            self.isDirect = false
        case .denied:
            self.isAllowed = false
            self.identityChanged()
        }
    }

    /// The number of this process's last session.
    var sessionNumber: UInt64 { self.identity.sessionNumber }
    var anonymous: String { self.identity.anonymous }

    /// Increases when the install or the session must be saved: with a new session, in every minute with events, and
    /// when writes succeed again.
    var saveMark: UInt64 {
        self.identity.sessionNumber + self.recoveryCount + self.consentRetryCount + self.activeMinuteCount
    }

    /// Whether the last consent change is not saved yet.
    var isConsentUnsaved: Bool {
        self.savedConsentCount != self.consentCount
    }

    /// A consent change on its way to the install file.
    struct SavedConsent {
        let count: UInt64
        let isUnsaved: Bool
        /// Whether it was tried before.
        let isRetry: Bool
    }

    mutating func beginSavingConsent() -> SavedConsent {
        defer { if self.isConsentUnsaved { self.consentAttemptCount += 1 } }
        return SavedConsent(
            count: self.consentCount, isUnsaved: self.isConsentUnsaved, isRetry: self.consentAttemptCount > 0)
    }

    /// The consent to write to the install file: the one set here, or else the one in the file.
    ///
    /// A change whose first save failed must not re-enable what was denied in another process meanwhile.
    mutating func consent(toSave own: Consent?, _ answer: SavedConsent, found: Consent?) -> Consent? {
        defer { self.foundConsent = found }
        guard answer.isUnsaved, let own else { return found }
        guard answer.isRetry, let found, found != self.foundConsent else { return own }
        return own.restricted(by: found)
    }

    /// Records that the consent was saved.
    mutating func consentSaved(_ answer: SavedConsent) {
        self.savedConsentCount = max(self.savedConsentCount, answer.count)
    }

    /// Requests another attempt to save the consent, at most once per interval; called with each event.
    private mutating func retryConsent(at now: Moment) {
        if let consentTried, now.monotonic - consentTried < Self.consentRetryInterval { return }
        self.consentRetryCount += 1
        self.consentTried = now.monotonic
    }

    private static var consentRetryInterval: Duration { .seconds(10) }

    var segmentCount: Int {
        self.spool.segmentCount
    }

    /// Stores an event of the app.
    mutating func store(_ draft: borrowing EventDraft, at now: Moment) -> TrackOutcome {
        if self.isConsentUnsaved { self.retryConsent(at: now) }
        guard self.isAllowed, draft.isAllowed else { return self.drop(.optedOut) }
        guard !draft.isDropped else { return self.drop(.filtered) }
        return self.write(draft, at: now)
    }

    @inline(__always)
    mutating func write(_ draft: borrowing EventDraft, at now: Moment) -> TrackOutcome {
        self.counters.repairs += draft.repairs
        guard draft.isValid else { return self.drop(.invalid) }
        self.advance(to: now)
        if self.hasUnreported, !self.isAsking, self.release() == nil { self.reportDrops(at: now) }
        if draft.hasFaults, !self.isAsking { self.reportFaults(of: draft, at: now) }
        let id = self.ids.next(at: now.wall.milliseconds, random: self.generator.next())
        if let sampling = draft.sampling, !self.keeps(draft, id, sampling) {
            self.enterScreen(draft, at: now)
            return self.drop(.sampled)
        }
        guard let sequence = self.encode(draft, id, at: now) else { return self.drop(.tooLarge) }
        return self.place(draft, sequence, at: now)
    }

    private func keeps(_ draft: borrowing EventDraft, _ id: UniqueID, _ sampling: Sampling) -> Bool {
        switch sampling.unit {
        case .user: sampling.keeps(draft.personHash ?? self.personHash)
        case .event: sampling.keeps(Sampling.hash(id))
        }
    }

    /// Begins a new session after inactivity, reports a clock jump, and updates the time zone.
    private mutating func advance(to now: Moment) {
        let before = self.activity
        if now.isIdle(since: before) { self.beginSession(at: now) }
        self.activity = now
        if !self.minute.contains(now.wall.milliseconds) {
            self.activeMinuteCount += 1
            self.enterMinute(at: now)
        }
        let jump = now.jump(since: before)
        if jump.magnitude > Self.jumpMillisecondsMax { self.reportJump(jump, at: now) }
    }

    @inline(never)
    private mutating func enterMinute(at now: Moment) {
        // Rounded down, also before 1970.
        let start = now.wall.milliseconds - (now.wall.milliseconds % 60_000 + 60_000) % 60_000
        self.minute = start..<start + 60_000
        // Zones change their offset only at quarters of an hour.
        let quarter = start / 900_000
        guard quarter != self.zoneQuarter else { return }
        self.zoneQuarter = quarter
        self.context.zoneMinutes = self.zone(now.wall)
    }

    /// The session to save, with the time of its last event; `nil` if it was saved, and if the user did not consent.
    mutating func sessionToSave() -> SessionRecord? {
        let record = SessionRecord(
            anonymous: self.identity.anonymous, id: self.identity.session, number: self.identity.sessionNumber,
            last: self.activity.wall)
        guard self.isAllowed, !self.isAsking, record != self.recorded else { return nil }
        self.recorded = record
        return record
    }

    /// Smaller ones are corrections by network time.
    private static var jumpMillisecondsMax: UInt64 { 2000 }

    mutating func beginSession(at now: Moment) {
        self.identity.session = .timed(now.wall.milliseconds, &self.generator)
        self.identity.sessionNumber += 1
        self.identityChanged()
    }

    /// Without consent no line carries the user, not even Waybill's own.
    mutating func identityChanged() {
        var identity = self.identity
        if !self.isAllowed {
            identity.user = nil
            identity.vendor = []
        }
        self.context.setIdentity(identity)
        self.personHash = Sampling.hash(self.identity.user ?? self.identity.anonymous)
    }

    /// Encodes the event's line; returns its sequence number, or `nil` if it is too long.
    private mutating func encode(_ draft: borrowing EventDraft, _ id: UniqueID, at now: Moment) -> UInt64? {
        let sequence = self.spool.nextSequence + UInt64(self.held.count)
        let stamp = EventStamp(
            id: id, sequence: sequence,
            wallMilliseconds: draft.time.map { min($0, now.wall.milliseconds) } ?? now.wall.milliseconds,
            upMilliseconds: now.milliseconds(since: self.start),
            sincePreviousMilliseconds: draft.time == nil ? self.lastStored.map { now.milliseconds(since: $0) } : nil,
            onScreenMilliseconds: self.isScreenEnded ? nil : now.milliseconds(since: self.screenEntered))
        self.context.encode(draft, stamp, into: &self.line)
        guard !self.line.isOverflowing else { return nil }
        self.enterScreen(draft, at: now)
        return sequence
    }

    private mutating func enterScreen(_ draft: borrowing EventDraft, at now: Moment) {
        guard draft.kind == .screen, !draft.hasVisitor, draft.time == nil else { return }
        self.context.enterScreen(of: draft)
        self.screenEntered = now.monotonic
        self.isScreenEnded = false
    }

    /// Writes the line, or holds it if writes fail or lines are gathered.
    @inline(__always)
    mutating func place(
        _ draft: borrowing EventDraft, _ sequence: UInt64, at now: Moment
    ) -> TrackOutcome {
        if draft.time == nil { self.lastStored = now.monotonic }
        guard self.isDirect, self.release() == nil else { return self.hold(draft, sequence, at: now) }
        if let failure = self.append() {
            self.counters.diskFailed(failure)
            return self.hold(draft, sequence, at: now)
        }
        if !self.tokens.isEmpty {
            self.show(Array(self.line.bytes), sequence, draft.kind, draft.type)
        }
        return .stored(seq: sequence)
    }

    @inline(__always)
    private mutating func append() -> FileSystemError? {
        do throws(FileSystemError) {
            try self.spool.append(UnsafeRawBufferPointer(self.line.bytes))
        } catch {
            return error
        }
        self.counters.count(storedByteCount: self.line.count)
        return nil
    }

    private mutating func hold(_ draft: borrowing EventDraft, _ sequence: UInt64, at now: Moment) -> TrackOutcome {
        self.hold(draft, sequence)
        guard let gathering else { return .held }
        let since = self.gatheringSince ?? now.monotonic
        self.gatheringSince = since
        if self.held.byteCount >= Self.gatheredByteCountMax || now.monotonic - since >= gathering { _ = self.release() }
        return .held
    }

    private mutating func hold(_ draft: borrowing EventDraft, _ sequence: UInt64) {
        let lostCount = self.held.append(
            self.line.bytes, number: self.context.sequenceDigits, sequence, draft)
        self.counters.heldCount = self.held.count
        let reason = self.isAsking ? DropReason.unanswered : self.counters.isDiskFull ? .diskFull : .diskError
        for _ in 0..<lostCount { _ = self.drop(reason) }
    }

    /// The number of gathered bytes that are written together.
    private static var gatheredByteCountMax: Int { 64 << 10 }

    /// Writes held lines; returns the error if not all could be written.
    mutating func release() -> FileSystemError? {
        guard !self.held.isEmpty, !self.isAsking else { return nil }
        self.held.renumber(from: self.spool.nextSequence)
        var stored: [(line: [UInt8], sequence: UInt64, kind: EventKind, type: ObjectIdentifier)] = []
        var failure: FileSystemError?
        let isWatched = !self.tokens.isEmpty
        var byteCount = 0
        var storedCount = 0
        self.held.release { lines, byteCounts in
            let result = self.spool.append(lines: lines, byteCounts: byteCounts)
            failure = result.failure
            return result.storedCount
        } stored: { line, sequence, kind, type in
            byteCount += line.count
            storedCount += 1
            if isWatched { stored.append((Array(line), sequence, kind, type)) }
        }
        self.counters.count(storedByteCount: byteCount, count: storedCount)
        self.counters.heldCount = self.held.count
        self.gatheringSince = nil
        for event in stored { self.show(event.line, event.sequence, event.kind, event.type) }
        if let failure {
            self.counters.diskFailed(failure)
            return failure
        }
        if self.gathering == nil { self.recoveryCount += 1 }
        return nil
    }

    /// Passes a stored line to the observers.
    private mutating func show(_ line: [UInt8], _ sequence: UInt64, _ kind: EventKind, _ type: ObjectIdentifier) {
        self.tokens.removeAll(where: \.isCancelled)
        let event = EventView(sequence: sequence, kind: kind, line: line, type: type)
        for token in self.tokens where token.includes(type, kind) { token.take(event) }
    }

    mutating func drop(_ reason: DropReason) -> TrackOutcome {
        self.counters.count(reason)
        if reason.isReported {
            self.unreported[reason.code.rawValue] += 1
            self.hasUnreported = true
        }
        return .dropped(reason)
    }

    /// Encodes one of Waybill's own events into ``line``; returns its sequence number.
    mutating func encodeOwn(
        _ name: StaticString, at now: Moment, adding body: (inout Fields) -> Void
    ) -> UInt64? {
        self.own.draft.take(own: name, adding: body)
        let own = self.own
        return self.encode(
            own.draft, self.ids.next(at: now.wall.milliseconds, random: self.generator.next()), at: now)
    }

    /// Stores `wb.dropped` with the numbers, or keeps them for the next attempt.
    private mutating func reportDrops(at now: Moment) {
        let counts = self.unreported
        let sequence = self.encodeOwn("wb.dropped", at: now) { fields in
            fields.put("count", counts.reduce(0, +))
            for code in DropReason.Code.allCases where counts[code.rawValue] > 0 {
                fields.put(DropReason(code).description, counts[code.rawValue])
            }
        }
        guard let sequence, self.append() == nil else { return }
        self.lastStored = now.monotonic
        let own = self.own
        if !self.tokens.isEmpty { self.show(Array(self.line.bytes), sequence, .meta, own.draft.type) }
        for index in self.unreported.indices { self.unreported[index] = 0 }
        self.hasUnreported = false
    }

    private mutating func reportJump(_ milliseconds: Int64, at now: Moment) {
        let sequence = self.encodeOwn("wb.clock", at: now) { fields in
            fields.put("jump_ms", milliseconds)
        }
        let own = self.own
        if let sequence { _ = self.place(own.draft, sequence, at: now) }
    }
}
