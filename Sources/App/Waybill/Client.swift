package import WaybillEvent

/// The interface of the core that ``WaybillClient`` uses, independent of its disk and clock.
package protocol Client: Sendable {
    var installOrigin: InstallOrigin { get }
    var counters: WaybillClient.Counters { get }
    var identity: EventIdentity { get }
    var consent: Consent? { get }
    func now() -> Moment
    func track(_ take: (inout EventDraft, borrowing EventRules, PrivacySalt?) -> Void) -> TrackOutcome
    func setUser(_ id: String?, adding traits: (inout Fields) -> Void) -> TrackOutcome
    @discardableResult
    func setVendorID(_ id: String?, for provider: ProviderID) -> Bool
    func register(_ body: (inout Fields) -> Void) -> Bool
    func unregister(_ names: [String])
    func setConsent(_ consent: Consent) -> TrackOutcome
    func observe(_ subscription: ObserverSubscription) -> ObserverToken
    func enter(_ phase: AppPhase)
    func drop(_ reason: DropReason) -> TrackOutcome
    func screenEnded()
    func reset() throws(WaybillError)
    func purge() throws(WaybillError)
    func synchronize() throws(WaybillError)
    func usage() throws(WaybillError) -> SpoolUsage
}

extension Client {
    @discardableResult
    package func setConsent(analytics: Bool, ads: Bool) -> TrackOutcome {
        self.setConsent(Consent(analytics: analytics, ads: ads))
    }

    @discardableResult
    package func setUser(_ id: String?, traits: KeyValuePairs<String, Scalar?>) -> TrackOutcome {
        self.setUser(id) { $0.put(traits: traits) }
    }
}
