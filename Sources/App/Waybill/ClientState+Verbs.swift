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
        self.user.setUser(id)
        self.identityChanged()
        guard self.consent.isAllowed else { return self.drop(.optedOut) }
        return self.write(draft, at: now)
    }

    /// Returns `false`, without any change, if lines would have too little room left for fields.
    mutating func setVendorID(_ id: String?, for provider: ProviderID) -> Bool {
        defer { self.identityChanged() }
        return self.user.setVendorID(id, for: provider)
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
        // Lines that waited for the answer are written before the consent event, or dropped.
        if self.consent.answered(consent) { self.dropHeldLines(.optedOut) }
        self.counters.omittedCategories += UInt64(consent.categories.count - consent.writtenCategories.count)
        self.context.setConsent(consent)
        self.identityChanged()
        self.saving.changed(at: now.monotonic)
        return self.sayConsent(consent, at: now)
    }

    private mutating func dropHeldLines(_ reason: DropReason) {
        for _ in 0..<self.held.removeAll() { self.counters.count(reason) }
    }

    /// Stores the consent event again: a purge deleted it, and it still applies.
    mutating func repeatConsent(at now: Moment) -> TrackOutcome? {
        self.consent.answer.map { self.sayConsent($0, at: now) }
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

    /// - Parameter registered: the configuration's fields.
    mutating func reset(registering registered: EventDraftBox?, at now: Moment) {
        self.user.reset(anonymous: self.ids.anonymous(), session: self.ids.timed(at: now))
        self.identityChanged()
        self.context.leaveScreen()
        self.context.common = registered
        self.activity.sessionBegan(at: now)
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
        self.user.forgetUser()
        self.identityChanged()
        self.context.leaveScreen()
        self.dropHeldLines(.purged)
        self.spool.closeSegment()
    }

    mutating func closeSegment() {
        _ = self.release()
        self.spool.closeSegment()
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
