internal import WaybillEvent
internal import WaybillSystem

extension WaybillClient {
    /// A client that stores nothing, for previews, unit tests, and an app whose client could not be created.
    ///
    ///     let waybill = (try? WaybillClient(configuration)) ?? .disabled
    ///
    /// It has no folder, no thread and no ids, and runs no code of events. Every outcome is
    /// ``TrackOutcome/dropped(_:)`` with ``DropReason/disabled``, and ``counters`` count them. It remembers user and
    /// consent, so that views which show them work. Each call returns another client.
    public static var disabled: WaybillClient {
        WaybillClient(core: DisabledClient())
    }
}

/// The core of a client that is switched off.
private final class DisabledClient: Client {
    private struct State {
        var counters = WaybillClient.Counters()
        var identity = EventIdentity(
            session: UniqueID(high: 0, low: 0), sessionNumber: 0, user: nil, anonymous: UniqueID(high: 0, low: 0).text)
        var consent: Consent?
    }

    private let state = Lock(State())

    var installOrigin: InstallOrigin { .created }
    var counters: WaybillClient.Counters { self.state.withLock { $0.counters } }
    var identity: EventIdentity { self.state.withLock { $0.identity } }
    var consent: Consent? { self.state.withLock { $0.consent } }

    func now() -> Moment {
        Moment(wall: WallTime(milliseconds: 0), monotonic: MonotonicTime(nanoseconds: 0))
    }

    func drop(_ reason: DropReason) -> TrackOutcome {
        self.state.withLock { $0.counters.count(.disabled) }
        return .dropped(.disabled)
    }

    func track(_ take: (inout EventDraft, borrowing EventRules, PrivacySalt?) -> Void) -> TrackOutcome {
        self.drop(.disabled)
    }

    func setUser(_ id: String?, adding traits: (inout Fields) -> Void) -> TrackOutcome {
        self.state.withLock { $0.identity.user = id }
        return self.drop(.disabled)
    }

    func setVendorID(_ id: String?, for provider: ProviderID) -> Bool { true }

    func register(_ body: (inout Fields) -> Void) -> Bool { true }

    func unregister(_ names: [String]) {}

    func setConsent(_ consent: Consent) -> TrackOutcome {
        self.state.withLock { $0.consent = consent }
        return self.drop(.disabled)
    }

    func observe(_ subscription: ObserverSubscription) -> ObserverToken {
        let token = ObserverToken(subscription)
        token.cancel()
        return token
    }

    func enter(_ phase: AppPhase) {}

    func screenEnded() {}

    func reset() throws(WaybillError) { self.state.withLock { $0.identity.user = nil } }

    func purge() throws(WaybillError) {}

    func synchronize() throws(WaybillError) {}

    func usage() throws(WaybillError) -> SpoolUsage {
        SpoolUsage(byteCount: 0, segmentCount: 0, unacknowledgedCount: 0)
    }
}
