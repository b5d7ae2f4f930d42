internal import WaybillEvent
internal import WaybillSystem

/// The user's ids and session, as they are in events and in the record of the session.
struct UserIdentity {
    /// The ids, whether consent allows them in events or not.
    private(set) var ids: EventIdentity
    /// The hash by which the user is sampled.
    private(set) var hash: UInt64
    /// The session as last saved.
    private var recorded: SessionRecord

    /// - Parameter session: the session that continues or begins, which is saved.
    init(_ session: SessionRecord) {
        self.ids = EventIdentity(
            session: session.id, sessionNumber: session.number, user: nil, anonymous: session.anonymous)
        self.hash = Sampling.hash(session.anonymous)
        self.recorded = session
    }

    /// The ids for events: without consent no line has the user, not even Waybill's own.
    func ids(isAllowed: Bool) -> EventIdentity {
        var ids = self.ids
        if !isAllowed {
            ids.user = nil
            ids.vendor = []
        }
        return ids
    }

    mutating func setUser(_ id: String?) {
        self.ids.user = id
        self.hash = Sampling.hash(id ?? self.ids.anonymous)
    }

    /// Returns `false`, without any change, if lines would have too little room left for fields.
    mutating func setVendorID(_ id: String?, for provider: ProviderID) -> Bool {
        var vendor = self.ids.vendor.filter { $0.provider != provider }
        if let id { vendor.append(EventIdentity.VendorID(provider: provider, id: id)) }
        let byteCount = vendor.reduce(0) { $0 + $1.provider.description.utf8.count + $1.id.utf8.count }
        guard id == nil || byteCount <= EventLimits.vendorIDsByteCountMax else { return false }
        self.ids.vendor = vendor
        return true
    }

    /// Removes the user and the vendors' ids.
    mutating func forgetUser() {
        self.ids.vendor = []
        self.setUser(nil)
    }

    mutating func beginSession(_ id: UniqueID) {
        self.ids.session = id
        self.ids.sessionNumber += 1
    }

    /// Makes the user another one, with a session of its own.
    mutating func reset(anonymous: UniqueID, session: UniqueID) {
        self.ids.anonymous = anonymous.text
        self.forgetUser()
        self.beginSession(session)
    }

    /// The session to save, with the time of its last event; `nil` if it was saved.
    mutating func sessionToSave(until last: WallTime) -> SessionRecord? {
        let record = SessionRecord(
            anonymous: self.ids.anonymous, id: self.ids.session, number: self.ids.sessionNumber, last: last)
        guard record != self.recorded else { return nil }
        self.recorded = record
        return record
    }
}
