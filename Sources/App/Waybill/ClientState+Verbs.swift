internal import WaybillEvent
internal import WaybillSpool
internal import WaybillSystem

/// What the app asks for besides tracking.
extension ClientState {
    mutating func observe(_ token: ObserverToken) {
        self.tokens.append(token)
    }

    mutating func cancelObservations() {
        for token in self.tokens { token.cancel() }
    }

    mutating func setUser(_ id: String?, _ draft: borrowing EventDraft, at now: Moment) -> TrackOutcome {
        if let id, id.isEmpty || id.utf8.count > EventLimits.userByteCountMax { return self.drop(.invalid) }
        guard !draft.isDropped else { return self.drop(.filtered) }
        self.identity.user = id
        self.identityChanged()
        guard self.isAllowed else { return self.drop(.optedOut) }
        return self.write(draft, at: now)
    }

    /// Returns `false`, without any change, if lines would have too little room left for fields.
    mutating func setVendorID(_ id: String?, for provider: ProviderID) -> Bool {
        var vendor = self.identity.vendor.filter { $0.provider != provider }
        if let id { vendor.append(EventIdentity.VendorID(provider: provider, id: id)) }
        let byteCount = vendor.reduce(0) { $0 + $1.provider.description.utf8.count + $1.id.utf8.count }
        guard id == nil || byteCount <= EventLimits.vendorIDsByteCountMax else { return false }
        self.identity.vendor = vendor
        self.identityChanged()
        return true
    }

    /// Adds fields to those registered before; returns `false`, without any change, if there would be too many.
    mutating func register(_ added: EventDraftBox) -> Bool {
        if let earlier = self.context.common { added.draft.inherit(earlier.draft) }
        // Of fields that are too long together, the draft has those that fitted.
        guard !added.draft.isOverflowing, added.draft.fieldsByteCount <= EventLimits.commonFieldsByteCountMax else {
            return false
        }
        self.context.common = added
        self.counters.repairs += added.draft.repairs
        return true
    }

    /// Removes the registered fields that have the names of the draft's.
    mutating func unregister(_ removed: EventDraftBox) {
        guard let earlier = self.context.common else { return }
        let rest = EventDraftBox()
        rest.draft.fields.add(earlier.draft.fields, without: removed.draft.fields)
        self.context.common = rest
    }

    mutating func setConsent(_ consent: Consent, at now: Moment) -> TrackOutcome {
        if self.isAsking { self.answered(consent) }
        self.counters.omittedCategories += UInt64(consent.categories.count - consent.writtenCategories.count)
        self.remember(consent)
        self.consentCount += 1
        self.consentAttemptCount = 0
        self.consentTried = now.monotonic
        return self.sayConsent(consent, at: now)
    }

    /// Lets the lines that waited for the answer be written, before the consent event, or drops them.
    private mutating func answered(_ consent: Consent) {
        self.isAsking = false
        self.isDirect = self.gathering == nil
        guard !consent.analytics else { return }
        for _ in 0..<self.held.count { self.counters.count(.optedOut) }
        self.held = HeldLines()
        self.counters.heldCount = 0
    }

    /// Stores the consent event again: a purge deleted it, and it still applies.
    mutating func repeatConsent(at now: Moment) -> TrackOutcome? {
        self.consent.map { self.sayConsent($0, at: now) }
    }

    private mutating func sayConsent(_ consent: Consent, at now: Moment) -> TrackOutcome {
        self.said.draft.take(own: "wb.consent") { fields in
            fields.put("analytics", consent.analytics)
            fields.put("ads", consent.ads)
            for category in consent.writtenCategories { fields.put(category.name, category.isAllowed) }
        }
        let said = self.said
        return self.write(said.draft, at: now)
    }

    /// Adopts the consent set before this process started.
    mutating func remember(_ consent: Consent) {
        self.consent = consent
        self.isAllowed = consent.analytics
        self.context.setConsent(consent)
        self.identityChanged()
    }

    /// - Parameter registered: the configuration's fields.
    mutating func reset(registering registered: EventDraftBox?, at now: Moment) {
        self.identity.user = nil
        self.identity.vendor = []
        self.identity.anonymous = UniqueID.random(&self.generator).text
        self.context.leaveScreen()
        self.context.common = registered
        self.beginSession(at: now)
        self.activity = now
    }

    /// Reports an eviction from the spool.
    mutating func evicted(_ eviction: Eviction, at now: Moment) {
        self.counters.count(eviction)
        let sequence = self.encodeOwn("wb.evicted", at: now) { fields in
            fields.put("count", eviction.evictedCount)
            fields.put("reason", eviction.reason.rawValue)
            fields.put("kept", eviction.keptCount)
            if let last = eviction.lastSequence {
                fields.put("writer", eviction.segment.writer)
                fields.put("first_seq", eviction.segment.firstSequence)
                fields.put("last_seq", last)
            }
        }
        let own = self.own
        if let sequence { _ = self.place(own.draft, sequence, at: now) }
    }

    /// Forgets the user and the lines held in memory, and closes the open segment.
    mutating func purge() {
        self.identity.user = nil
        self.identity.vendor = []
        self.identityChanged()
        self.context.leaveScreen()
        for _ in 0..<self.held.count { self.counters.count(.purged) }
        self.held = HeldLines()
        self.counters.heldCount = 0
        self.spool.closeSegment()
    }

    /// Records that an event reported how long the current screen was shown: the next screen does not repeat it.
    mutating func screenEnded() {
        self.isScreenEnded = true
    }

    /// Excludes time in the background from the time spent on the current screen.
    mutating func wasUnseen(from start: MonotonicTime, to end: MonotonicTime) {
        self.screenEntered = self.screenEntered + (end - max(start, self.screenEntered))
    }

    mutating func closeSegment() {
        _ = self.release()
        self.spool.closeSegment()
    }

    mutating func newSegmentName(at now: Moment) -> String {
        UniqueID.timed(now.wall.milliseconds, &self.generator).text
    }

    mutating func newSalt() -> PrivacySalt {
        PrivacySalt(&self.generator)
    }

    mutating func installFailed() {
        self.counters.installFailures += 1
    }

    mutating func sessionFailed() {
        self.counters.sessionFailures += 1
    }

    mutating func upkeepFailed() {
        self.counters.upkeepFailures += 1
    }

    var sync: SpoolSync {
        self.spool.sync
    }

    mutating func syncEnded(_ sync: SpoolSync, _ failure: SpoolSyncFailure?) {
        if let failure {
            self.counters.syncFailures += 1
            self.spool.syncFailed(sync, failure)
        } else {
            self.spool.synced(sync)
        }
    }
}
