internal import WaybillEvent
internal import WaybillSpool
internal import WaybillSystem

/// All state that changes from event to event; protected by the client's lock, with the time as an argument.
struct ClientState<Files: FileSystem>: ~Copyable {
    var spool: SpoolWriter<Files>
    var context: EventContext
    private var line = LineBuffer(capacity: 2048)
    /// Lines waiting for the disk, for an answer about consent, or to be written together.
    var held: HeldLines
    var ids: WriterIDs
    var user: UserIdentity
    var consent: ConsentState
    var saving: ConsentSaving
    var times: EventTimes
    var activity: ActivityClock
    private var drops = UnreportedDrops()
    /// Waybill's own events.
    let own = EventDraftBox()
    /// The consent event; separate from `own`, which other events of Waybill may need meanwhile.
    let said = EventDraftBox()
    var reportedFaults = ReportedFaults()
    var tokens: [ObserverToken] = []
    var counters = WaybillClient.Counters()

    init(
        spool: consuming SpoolWriter<Files>, writer: UniqueID, origin: EventOrigin, _ start: InstallStart,
        generator: SeededGenerator, at now: Moment, gathering: Duration?, consent: WaybillClient.ConsentDefault,
        zone: @escaping @Sendable (WallTime) -> Int
    ) {
        self.spool = spool
        self.context = EventContext(writer: writer, origin: origin)
        self.held = HeldLines(gathering: gathering)
        self.ids = WriterIDs(generator)
        self.user = UserIdentity(start.session)
        self.consent = ConsentState(start.install.consent, or: consent)
        self.saving = ConsentSaving(found: start.install.consent)
        self.times = EventTimes(start: now.monotonic)
        self.activity = ActivityClock(at: now, zone: zone)
        self.context.zoneMinutes = self.activity.zoneMinutes
        if let consent = start.install.consent { self.context.setConsent(consent) }
        self.identityChanged()
    }

    /// Increases when the install or the session must be saved: with a new session, in every minute with events, and
    /// when writes succeed again.
    var saveMark: UInt64 {
        self.user.ids.sessionNumber + self.held.recoveryCount + self.saving.retryCount + self.activity.minuteCount
    }

    var segmentCount: Int {
        self.spool.segmentCount
    }

    /// Stores an event of the app.
    mutating func store(_ draft: borrowing EventDraft, at now: Moment) -> TrackOutcome {
        if self.saving.isUnsaved { self.saving.retry(at: now.monotonic) }
        guard self.consent.isAllowed, draft.isAllowed else { return self.drop(.optedOut) }
        guard !draft.isDropped else { return self.drop(.filtered) }
        return self.write(draft, at: now)
    }

    @inline(__always)
    mutating func write(_ draft: borrowing EventDraft, at now: Moment) -> TrackOutcome {
        self.counters.repairs += draft.repairs
        guard draft.isValid else { return self.drop(.invalid) }
        self.advance(to: now)
        if !self.drops.isEmpty, !self.consent.isAsking, self.release() == nil { self.reportDrops(at: now) }
        if draft.hasFaults, !self.consent.isAsking { self.reportFaults(of: draft, at: now) }
        let id = self.ids.next(at: now)
        if let sampling = draft.sampling, !self.keeps(draft, id, sampling) {
            self.enterScreen(draft, at: now)
            return self.drop(.sampled)
        }
        guard let sequence = self.encode(draft, id, at: now) else { return self.drop(.tooLarge) }
        return self.place(draft, sequence, at: now)
    }

    private func keeps(_ draft: borrowing EventDraft, _ id: UniqueID, _ sampling: Sampling) -> Bool {
        switch sampling.unit {
        case .user: sampling.keeps(draft.personHash ?? self.user.hash)
        case .event: sampling.keeps(Sampling.hash(id))
        }
    }

    /// Begins a new session after inactivity, reports a clock jump, and updates the time zone.
    private mutating func advance(to now: Moment) {
        let due = self.activity.advance(to: now)
        if due.isSessionOver { self.beginSession(at: now) }
        if due.isMinuteNew { self.context.zoneMinutes = self.activity.zoneMinutes }
        if let jump = due.jump { self.reportJump(jump, at: now) }
    }

    /// The session to save, with the time of its last event; `nil` if it was saved, and if the user did not consent.
    mutating func sessionToSave() -> SessionRecord? {
        guard self.consent.isAllowed, !self.consent.isAsking else { return nil }
        return self.user.sessionToSave(until: self.activity.last.wall)
    }

    private mutating func beginSession(at now: Moment) {
        self.user.beginSession(self.ids.timed(at: now))
        self.identityChanged()
    }

    mutating func identityChanged() {
        self.context.setIdentity(self.user.ids(isAllowed: self.consent.isAllowed))
    }

    /// Encodes the event's line; returns its sequence number, or `nil` if it is too long.
    private mutating func encode(_ draft: borrowing EventDraft, _ id: UniqueID, at now: Moment) -> UInt64? {
        let sequence = self.spool.nextSequence + UInt64(self.held.count)
        let stamp = self.times.stamp(id, sequence: sequence, time: draft.time, at: now)
        self.context.encode(draft, stamp, into: &self.line)
        guard !self.line.isOverflowing else { return nil }
        self.enterScreen(draft, at: now)
        return sequence
    }

    private mutating func enterScreen(_ draft: borrowing EventDraft, at now: Moment) {
        guard draft.kind == .screen, !draft.hasVisitor, draft.time == nil else { return }
        self.context.enterScreen(of: draft)
        self.times.screenEntered(at: now.monotonic)
    }

    /// Whether lines are written at once unless writes fail: they are not gathered, and wait for no answer.
    private var isDirect: Bool {
        self.held.gathering == nil && !self.consent.isAsking
    }

    /// Writes the line, or holds it if writes fail or lines are gathered.
    @inline(__always)
    mutating func place(
        _ draft: borrowing EventDraft, _ sequence: UInt64, at now: Moment
    ) -> TrackOutcome {
        if draft.time == nil { self.times.stored(at: now.monotonic) }
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
        let lostCount = self.held.append(self.line.bytes, number: self.context.sequenceDigits, sequence, draft)
        let reason = self.consent.isAsking ? DropReason.unanswered : self.counters.isDiskFull ? .diskFull : .diskError
        for _ in 0..<lostCount { _ = self.drop(reason) }
        if self.held.isDue(at: now.monotonic) { _ = self.release() }
        return .held
    }

    /// Writes held lines; returns the error if not all could be written.
    mutating func release() -> FileSystemError? {
        guard !self.held.isEmpty, !self.consent.isAsking else { return nil }
        var shown: [(line: [UInt8], sequence: UInt64, kind: EventKind, type: ObjectIdentifier)] = []
        let isWatched = !self.tokens.isEmpty
        let failure = self.held.release(from: self.spool.nextSequence) { lines, byteCounts in
            self.spool.append(lines: lines, byteCounts: byteCounts)
        } stored: { line, sequence, kind, type in
            self.counters.count(storedByteCount: line.count)
            if isWatched { shown.append((Array(line), sequence, kind, type)) }
        }
        for event in shown { self.show(event.line, event.sequence, event.kind, event.type) }
        if let failure { self.counters.diskFailed(failure) }
        return failure
    }

    /// Passes a stored line to the observers.
    private mutating func show(_ line: [UInt8], _ sequence: UInt64, _ kind: EventKind, _ type: ObjectIdentifier) {
        self.tokens.removeAll(where: \.isCancelled)
        let event = EventView(sequence: sequence, kind: kind, line: line, type: type)
        for token in self.tokens where token.includes(type, kind) { token.take(event) }
    }

    mutating func drop(_ reason: DropReason) -> TrackOutcome {
        self.counters.count(reason)
        self.drops.count(reason)
        return .dropped(reason)
    }

    /// Encodes one of Waybill's own events into ``line``; returns its sequence number.
    mutating func encodeOwn(
        _ name: StaticString, at now: Moment, adding body: (inout Fields) -> Void
    ) -> UInt64? {
        self.own.draft.take(own: name, adding: body)
        let own = self.own
        return self.encode(own.draft, self.ids.next(at: now), at: now)
    }

    /// Stores `wb.dropped` with the numbers, or keeps them for the next attempt.
    private mutating func reportDrops(at now: Moment) {
        let drops = self.drops
        let sequence = self.encodeOwn("wb.dropped", at: now) { drops.put(to: &$0) }
        guard let sequence, self.append() == nil else { return }
        self.times.stored(at: now.monotonic)
        let own = self.own
        if !self.tokens.isEmpty { self.show(Array(self.line.bytes), sequence, .meta, own.draft.type) }
        self.drops.removeAll()
    }

    private mutating func reportJump(_ milliseconds: Int64, at now: Moment) {
        let sequence = self.encodeOwn("wb.clock", at: now) { fields in
            fields.put("jump_ms", milliseconds)
        }
        let own = self.own
        if let sequence { _ = self.place(own.draft, sequence, at: now) }
    }
}

/// Draws all ids of a writer from one generator.
struct WriterIDs {
    private var generator: SeededGenerator
    private var sequence = UniqueIDSequence()

    init(_ generator: SeededGenerator) {
        self.generator = generator
    }

    /// The id of the next event; it increases strictly.
    mutating func next(at now: Moment) -> UniqueID {
        self.sequence.next(at: now.wall.milliseconds, random: self.generator.next())
    }

    /// The id of a session or a segment, in the order of time.
    mutating func timed(at now: Moment) -> UniqueID {
        .timed(now.wall.milliseconds, &self.generator)
    }

    /// The id of an install.
    mutating func anonymous() -> UniqueID {
        .random(&self.generator)
    }
}
