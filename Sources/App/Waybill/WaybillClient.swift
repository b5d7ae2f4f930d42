/// The client library: writes an app's events to disk before `track` returns.
///
/// Constraints: `track` makes only two clock readings and one write(2); it never waits for a sync or a network; no heap
/// allocation after the first events; ids, sequence numbers and order follow the calls. A call takes the time of a
/// write(2) and about 0.5 µs (`Tools/Benchmarks/README.md`).
///
///     app ── Event ──▶ EventDraft ──▶ │ lock │ session, screen, sequence, time ──▶ line ──▶ write(2) │ ──▶ outcome
///             app code, no lock       │                                                              │
///
/// Life of an event: its fields are encoded into a reused buffer and pass the app's filters; under the one lock the
/// event gets its place in the order and is written; the outcome is `stored`, or the reason why not. While writes
/// fail, lines wait in memory. Dropped events are counted, and the next event that can be
/// stored is preceded by a `wb.dropped` event with the numbers. Only stored events get sequence numbers, so a gap
/// proves a loss. Each observer gets stored lines through its own queue.
///
/// Occasionally (a start with existing segments, a new segment, a new session) a separate thread maintains the install
/// file and the spool's quota.
///
/// Create it after `fork()`, never before: two processes with the same writer id would use the same sequence numbers.
@_exported public import WaybillEvent
internal import WaybillSystem

/// Records an app's analytics events in its spool, from which the agent ships them.
///
///     let waybill = try WaybillClient(.init(spool: "/var/spool/shop", environment: .prod, bundle: "com.example.shop",
///                                     version: "1.4.2", build: "118"))
///     waybill.track(MomentLiked(momentID: "m-17")) { $0.put("source", "feed") }
///
/// It is safe to use from any thread. Create one instance per process and spool.
public final class WaybillClient: Sendable {
    let core: any Client
    /// `core`, if it has this usual type: calls through the protocol are not specialized and take half as long again.
    private let usualCore: ClientCore<POSIXFileSystem, POSIXClock>?

    /// Opens the spool, and creates its folder if it does not exist.
    ///
    /// It reads and writes small files and waits for the disk before it returns, which on a busy one takes some hundredths
    /// of a second. It may run on any thread: at the start of an app with a user interface, create the client in a task
    /// that is not on the main actor.
    ///
    /// To run without one where that fails: `(try? WaybillClient(configuration)) ?? .disabled`.
    ///
    /// A full disk is not an error here; it is reported by the outcomes of events. On Apple platforms the folder is
    /// excluded from backups, and its files are accessible after the first unlock following a restart.
    ///
    /// - Throws: ``WaybillError`` if the configuration is invalid, the folder cannot be used, the spool belongs to
    ///   another environment, or the system refuses a thread that the configuration needs.
    public init(_ configuration: Configuration) throws(WaybillError) {
        let core = try ClientCore(
            configuration, on: configuration.files(), clock: POSIXClock(), seed: SystemRandom.seed(),
            zone: SystemZone.minutesEast,
            protect: { folder in
                #if canImport(Darwin)
                    FolderProtection.protect(folder)
                #endif
            },
            execute: { work in
                // If no thread is available, the call that found the work does it.
                if Worker.attempt(name: "waybill-upkeep", work) == nil { work() }
            })
        self.core = core
        self.usualCore = core
    }

    package init(core: any Client) {
        self.core = core
        self.usualCore = nil
    }

    func store(_ take: (inout EventDraft, borrowing EventRules, PrivacySalt?) -> Void) -> TrackOutcome {
        if let usualCore { usualCore.track(take) } else { self.core.track(take) }
    }

    /// Stores an event with its own fields and those added by `body`.
    ///
    /// When it returns ``TrackOutcome/stored(seq:)``, the event survives the death of the process.
    @discardableResult
    public func track<E: Event>(_ event: E, adding body: (inout Fields) -> Void = { _ in }) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(event, rules, salt, adding: body) }
    }

    /// Stores an event of one of a server's visitors, with its own fields and those added by `body`.
    ///
    /// An event with an invalid ``Visitor`` is dropped with ``DropReason/invalid``.
    @discardableResult
    public func track<E: Event>(
        _ event: E, by visitor: Visitor, adding body: (inout Fields) -> Void = { _ in }
    ) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(event, rules, salt, by: visitor, adding: body) }
    }

    /// Stores an event without a type of its own; `only` subscriptions do not include it.
    @discardableResult
    public func track(
        _ name: String, _ kind: EventKind = .event, adding body: (inout Fields) -> Void = { _ in }
    ) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(kind, name, nil, rules, salt, adding: body) }
    }

    /// Stores an event of one of a server's visitors without a type of its own.
    @discardableResult
    public func track(
        _ name: String, _ kind: EventKind = .event, by visitor: Visitor,
        adding body: (inout Fields) -> Void = { _ in }
    ) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(kind, name, nil, rules, salt, by: visitor, adding: body) }
    }

    /// Records that a screen appeared; later events carry it as their screen.
    ///
    /// - Parameters:
    ///   - name: the screen's name in reports.
    ///   - type: the type that draws the screen.
    ///   - id: distinguishes screens with the same name.
    ///   - body: adds fields.
    @discardableResult
    public func screen(
        _ name: String, type: String? = nil, id: String? = nil, adding body: (inout Fields) -> Void = { _ in }
    ) -> TrackOutcome {
        let screen = ScreenRef(name, type: type, id: id)
        return self.store { draft, rules, salt in
            draft.take(.screen, "screen_view", screen, rules, salt, adding: body)
        }
    }

    /// Records that a page or screen was shown to one of a server's visitors.
    @discardableResult
    public func screen(
        _ name: String, type: String? = nil, id: String? = nil, by visitor: Visitor,
        adding body: (inout Fields) -> Void = { _ in }
    ) -> TrackOutcome {
        let screen = ScreenRef(name, type: type, id: id)
        return self.store { draft, rules, salt in
            draft.take(.screen, "screen_view", screen, rules, salt, by: visitor, adding: body)
        }
    }

    /// Sets the user for this and all later events, with changed traits.
    ///
    /// An `id` of more than 256 bytes is ignored and the event is `dropped(.invalid)`. Without consent nothing is
    /// stored, but events after consent is given carry the user.
    ///
    /// - Parameters:
    ///   - id: the app's id of the user; `nil` if no user is signed in.
    ///   - traits: traits to set; `nil` removes a trait.
    @discardableResult
    public func setUser(_ id: String?, traits: KeyValuePairs<String, Scalar?> = [:]) -> TrackOutcome {
        self.core.setUser(id, traits: traits)
    }

    /// Sets the user for this and all later events, with the traits added by `body`.
    ///
    /// Like `setUser(_:traits:)`, but for traits whose names or types are known only at run time.
    /// ``Fields/putNull(_:)`` removes a trait.
    @discardableResult
    public func setUser(_ id: String?, adding body: (inout Fields) -> Void) -> TrackOutcome {
        self.core.setUser(id, adding: body)
    }

    /// Sets traits of the current user; ``Fields/putNull(_:)`` removes a trait.
    @discardableResult
    public func setTraits(_ body: (inout Fields) -> Void) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(.user, "set_user", nil, rules, salt, adding: body) }
    }

    /// Sets traits of one of a server's visitors; `nil` removes a trait.
    @discardableResult
    public func setTraits(_ traits: KeyValuePairs<String, Scalar?>, of visitor: Visitor) -> TrackOutcome {
        self.store { draft, rules, salt in
            draft.take(.user, "set_user", nil, rules, salt, by: visitor) { $0.put(traits: traits) }
        }
    }

    /// Starts passing stored events to an observer, until the returned token is cancelled.
    @discardableResult
    public func observe(_ subscription: ObserverSubscription) -> ObserverToken {
        self.core.observe(subscription)
    }

    /// Adds an id issued by a vendor's SDK, such as GA4's app instance id, to later events; `nil` removes it.
    ///
    /// - Returns: `false`, without any change, if all such ids with their providers' names would exceed 1 KiB.
    @discardableResult
    public func setVendorID(_ id: String?, for provider: ProviderID) -> Bool {
        self.core.setVendorID(id, for: provider)
    }

    /// Adds fields to every later screen, action and event, next to those registered before.
    ///
    /// A field replaces the one that was registered under the same name. An event's own fields take precedence. All
    /// are gone after a restart and after ``reset()``.
    ///
    /// - Returns: `false`, without any change, if all registered fields would exceed 8 KiB or a filter drops them.
    @discardableResult
    public func register(_ body: (inout Fields) -> Void) -> Bool {
        self.core.register(body)
    }

    /// Removes registered fields from later events; names that are not registered are ignored.
    public func unregister(_ names: String...) {
        self.core.unregister(names)
    }

    /// Sets the user's consent; without `analytics`, events are dropped until it is given, also after a restart.
    ///
    /// Without `ads`, later events have no ids of clicks (``setCampaign(from:)``). One `wb.consent` event is stored in any
    /// case. Events that were held until the answer
    /// (``Configuration/consent``) are stored before it, or dropped.
    ///
    /// - Parameters:
    ///   - analytics: whether events may be stored.
    ///   - ads: whether events may be used for advertising.
    ///   - categories: further categories of the app's own, at most 32 with names of 1 to 64 bytes; others are counted
    ///     in ``Counters/omittedCategories`` and left out. Each call sets all of them.
    @discardableResult
    public func setConsent(analytics: Bool, ads: Bool, categories: [String: Bool] = [:]) -> TrackOutcome {
        if !ads { self.core.unregister(Campaign.clickNames) }
        return self.core.setConsent(Consent(analytics: analytics, ads: ads, categories: categories))
    }

    /// Deletes all events in the spool, except those of other processes that are currently writing.
    ///
    /// Use it when users withdraw consent; events already delivered are not affected. Later events carry no user;
    /// `wb.evicted` events report the number of deleted events, and `wb.consent` is stored again.
    ///
    /// - Throws: ``WaybillError`` if a segment could not be deleted; the others are deleted nevertheless.
    public func purge() throws(WaybillError) {
        try self.core.purge()
    }

    /// Reports that the app entered the foreground or the background.
    ///
    /// In the background the client holds no file lock, which systems that suspend processes require for files shared
    /// with app extensions; the next event begins a new segment. If events were tracked in the background, call it
    /// again when that work ends.
    public func enter(_ phase: AppPhase) {
        self.core.enter(phase)
    }

    /// Forgets the user, and continues with a new anonymous id, session and hash salt.
    ///
    /// The user, the current screen and the registered fields are removed. In this process this always takes effect.
    ///
    /// - Throws: ``WaybillError`` if the new id could not be saved: the old one would return after a restart.
    public func reset() throws(WaybillError) {
        try self.core.reset()
    }

    /// Returns once all events stored so far survive a power failure; it does not block `track`.
    ///
    /// It also retries saving a consent change that could not be saved.
    ///
    /// - Throws: ``WaybillError`` if the events or the consent cannot be made durable. After a failed sync of a segment
    ///   it throws until that segment is delivered, because a power failure may still lose its lines.
    public func synchronize() throws(WaybillError) {
        try self.core.synchronize()
    }

    /// Does not exist: in other SDKs it delivers, which a dispatcher or an agent does here.
    @available(*, unavailable, message: "call synchronize() for durability; a dispatcher's flush() delivers")
    public func flush() throws(WaybillError) {
        try self.synchronize()
    }

    /// Records that an event reported how long the current screen was shown, so that the next one does not repeat it.
    package func screenEnded() {
        self.core.screenEnded()
    }

    /// The resettable id of the install, `anon` in its events.
    public var anonymousID: String {
        self.core.identity.anonymous
    }

    /// The user set with `setUser(_:traits:)`; `nil` if there is none.
    public var userID: String? {
        self.core.identity.user
    }

    /// The session of the last event, `session` in it.
    public var sessionID: String {
        self.core.identity.session.text
    }

    /// The consent set in this process or an earlier one; `nil` if it was never set.
    public var consent: Consent? {
        self.core.consent
    }

    /// The numbers of events stored, dropped and repaired so far.
    public var counters: WaybillClient.Counters {
        self.core.counters
    }

    /// Returns the current contents of the spool; reads a part of it.
    public func usage() throws(WaybillError) -> SpoolUsage {
        try self.core.usage()
    }

    /// The origin of the anonymous id.
    public var installOrigin: InstallOrigin {
        self.core.installOrigin
    }
}

extension Visitor {
    /// Creates the id of a session that begins now; keep it with the visitor, for example in a cookie.
    public static func newSession() -> String {
        var generator = SystemRandomNumberGenerator()
        return UniqueID.timed(POSIXClock().wallTime().milliseconds, &generator).text
    }
}

/// Where later events belong: a group of users, and the campaign that brought the user.
extension WaybillClient {
    /// Sets the group that the user acts for, such as a company, for this and all later events.
    ///
    ///     waybill.setGroup("company", "c-17", traits: ["plan": "enterprise"])
    ///
    /// Later events have the fields `group_type` and `group_id`; exports map the id to the providers' groups. There is one
    /// group at a time. An event `set_group` with these fields, and the traits in an object `traits`, is stored: no export
    /// writes a group's profile from it. A type has 1 to 64 bytes and an id 1 to 256: otherwise nothing changes, and the
    /// outcome is `dropped(.invalid)`.
    ///
    /// - Parameters:
    ///   - type: the kind of group.
    ///   - id: the app's id of the group; `nil` if the user acts for none any more.
    ///   - traits: properties of the group; `nil` removes one.
    @discardableResult
    public func setGroup(
        _ type: String, _ id: String?, traits: KeyValuePairs<String, (any FieldValue)?> = [:]
    ) -> TrackOutcome {
        guard (1...64).contains(type.utf8.count), id.map({ (1...256).contains($0.utf8.count) }) != false else {
            return self.core.drop(.invalid)
        }
        if let id {
            guard self.register(["group_type": type, "group_id": id]) else { return self.core.drop(.tooLarge) }
        } else {
            self.unregister("group_type", "group_id")
        }
        return self.track("set_group") { fields in
            fields.put("group_type", type)
            fields.put("group_id", id)
            if !traits.isEmpty { fields.put("traits", object: { $0.put(traits: traits) }) }
        }
    }

    /// Adds the campaign in a URL with which the app was opened to later events.
    ///
    ///     waybill.setCampaign(from: "https://shop.example/p/17?utm_source=mail&utm_campaign=spring&gclid=Cj0K")
    ///
    /// They get the parameters as fields: `utm_source`, `utm_medium`, `utm_campaign`, `utm_id`, `utm_term`,
    /// `utm_content`, `utm_source_platform`, `utm_creative_format`, `utm_marketing_tactic`, and the ids of clicks
    /// `gclid`, `gbraid`, `wbraid`, `dclid`, `fbclid`, `msclkid`, `ttclid`, `twclid`, `li_fat_id`, `rdt_cid` and `ScCid`.
    /// A user who denies ads has no ids of clicks in later events. The parameters replace those of an earlier campaign.
    /// They are gone after ``reset()`` and after a restart. Only the first 8 KiB of the URL are read; values of more than
    /// 255 bytes are left out.
    ///
    /// - Parameter url: a URL of any scheme.
    /// - Returns: `false`, without any change, if the URL names no campaign or there are too many registered fields.
    @discardableResult
    public func setCampaign(from url: String) -> Bool {
        let names = self.consent?.ads == false ? Campaign.campaignNames : Campaign.names
        let parameters = Campaign(of: url, names: names).parameters
        guard !parameters.isEmpty else { return false }
        let isRegistered = self.register { fields in
            for parameter in parameters { fields.put(parameter.name, parameter.value) }
        }
        guard isRegistered else { return false }
        let found = Set(parameters.map(\.name))
        self.core.unregister(Campaign.names.filter { !found.contains($0) })
        return true
    }
}
