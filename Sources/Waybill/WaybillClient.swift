/// The client library: an app's events, onto the disk before `track` returns.
///
/// Constraints: `track` makes no call to the system but two clock readings and one write(2), which calls that come at
/// the same time share; it never waits for a sync or a network; no heap allocation after the first events; ids, sequence
/// and order are those of the calls. What a call takes is in `Tools/Benchmarks/README.md`: a write(2) and some 0.5 µs.
///
///     app ── Event ──▶ EventDraft ──▶ │ lock │ session, screen, sequence, time ──▶ line ──▶ write(2) │ ──▶ outcome
///             app code, no lock       │                                                              │
///
/// One event's life: its fields are encoded into memory from a desk, and pass the app's filters; under the one lock it
/// gets its place in the order and is written; the outcome says `stored`, or why not. A call that finds the lock taken
/// leaves its draft to the one that has it, which stores all that was left with one write, and answers. While the disk
/// refuses, lines wait in memory; what had to be dropped is counted, and the next event that can be stored is preceded
/// by a `wb.dropped` event with the numbers. Sequence numbers are given to stored events alone, so a gap in them proves
/// a loss. Observers get the stored line in a queue of their own.
///
/// Now and then (a start on segments of earlier ones, a new segment, a new session) a thread of its own looks after the
/// rest: the install file, and the spool's quota.
///
/// Make it after `fork()`, never before: two processes with one writer id would number their events alike.
@_exported public import WaybillEvent
internal import WaybillSystem

/// Records an app's analytics events in its spool, from which the agent ships them.
///
///     let waybill = try WaybillClient(.init(spool: "/var/spool/shop", environment: .prod, bundle: "com.example.shop",
///                                     version: "1.4.2", build: "118"))
///     waybill.track(MomentLiked(momentID: "m-17")) { $0.put("source", "feed") }
///
/// Safe to use from any thread. One instance per process and spool is enough.
public final class WaybillClient: Sendable {
    private let core: any Client
    /// `core`, where it is the usual one: calls through a protocol to a generic type are not specialised, and take
    /// half as long again.
    private let usualCore: ClientCore<POSIXFileSystem, POSIXClock>?

    /// Opens the spool, making the folder when it is missing.
    ///
    /// A full disk is no error here: it is met, and counted, by the events. On Apple's systems the folder is left out of
    /// backups, and its files can be read from the first unlock after a start on.
    public init(_ configuration: Configuration) throws(WaybillError) {
        let core = try ClientCore(
            configuration, on: POSIXFileSystem(), clock: POSIXClock(), seed: SystemRandom.seed(),
            zone: SystemZone.minutesEast,
            protect: { folder in
                #if canImport(Darwin)
                    FolderProtection.protect(folder)
                #endif
            },
            execute: { work in
                // Where no thread is to be had, the call that found something to do does it.
                if Worker.attempt(name: "waybill-upkeep", work) == nil { work() }
            })
        self.core = core
        self.usualCore = core
    }

    package init(core: any Client) {
        self.core = core
        self.usualCore = nil
    }

    private func store(_ take: (inout EventDraft, borrowing EventRules, PrivacySalt?) -> Void) -> TrackOutcome {
        if let usualCore { usualCore.track(take) } else { self.core.track(take) }
    }

    /// Stores an event, with the fields that `body` adds to its own.
    ///
    /// When it returns `stored`, the event survives the death of the process.
    @discardableResult
    public func track<E: Event>(_ event: E, adding body: (inout Fields) -> Void = { _ in }) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(event, rules, salt, adding: body) }
    }

    /// Stores an event of one of a server's many visitors, with the fields that `body` adds to its own.
    ///
    /// A visitor that cannot be said (``Visitor``) is ``DropReason/invalid``.
    @discardableResult
    public func track<E: Event>(
        _ event: E, by visitor: Visitor, adding body: (inout Fields) -> Void = { _ in }
    ) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(event, rules, salt, by: visitor, adding: body) }
    }

    /// Stores an event that has no type of its own; `only` subscriptions leave it out.
    @discardableResult
    public func track(
        _ name: String, _ kind: EventKind = .event, adding body: (inout Fields) -> Void = { _ in }
    ) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(kind, name, nil, rules, salt, adding: body) }
    }

    /// Stores that a screen appeared; the following events happen on it.
    @discardableResult
    public func screen(
        _ name: String, type: String? = nil, id: String? = nil, adding body: (inout Fields) -> Void = { _ in }
    ) -> TrackOutcome {
        let screen = ScreenRef(name, type: type, id: id)
        return self.store { draft, rules, salt in
            draft.take(.screen, "screen_view", screen, rules, salt, adding: body)
        }
    }

    /// Says who the user is, from this event on, and what changed about them; `nil` removes a trait.
    ///
    /// An `id` beyond 256 bytes changes nothing and is `dropped(.invalid)`. Without consent nothing is stored, and later
    /// events, once it is given, name the user nevertheless.
    @discardableResult
    public func setUser(_ id: String?, traits: KeyValuePairs<String, Scalar?> = [:]) -> TrackOutcome {
        self.core.setUser(id, traits: traits)
    }

    /// Says who the user is, from this event on, with the traits that `body` puts; ``Fields/putNull(_:)`` removes one.
    ///
    /// For traits whose names or types are known at run time; otherwise as ``setUser(_:traits:)``.
    @discardableResult
    public func setUser(_ id: String?, adding body: (inout Fields) -> Void) -> TrackOutcome {
        self.core.setUser(id, adding: body)
    }

    /// Says what changed about the user, whoever that is; ``Fields/putNull(_:)`` removes a trait.
    @discardableResult
    public func setTraits(_ body: (inout Fields) -> Void) -> TrackOutcome {
        self.store { draft, rules, salt in draft.take(.user, "set_user", nil, rules, salt, adding: body) }
    }

    /// Says what changed about one of a server's many visitors; `nil` removes a trait.
    @discardableResult
    public func setTraits(_ traits: KeyValuePairs<String, Scalar?>, of visitor: Visitor) -> TrackOutcome {
        self.store { draft, rules, salt in
            draft.take(.user, "set_user", nil, rules, salt, by: visitor) { $0.put(traits) }
        }
    }

    /// Shows an observer the events that are stored from now on.
    @discardableResult
    public func observe(_ subscription: ObserverSubscription) -> ObserverToken {
        self.core.observe(subscription)
    }

    /// Gives events an id that only a vendor's SDK can issue, as GA4's app instance id; `nil` removes it.
    ///
    /// Returns `false`, and changes nothing, when all such ids and their providers' names would be beyond 1 KiB.
    @discardableResult
    public func setVendorID(_ id: String?, for provider: ProviderID) -> Bool {
        self.core.setVendorID(id, for: provider)
    }

    /// Adds fields to every screen, action and event from now on, in place of those registered before.
    ///
    /// An event's own fields win over these. Returns `false`, and changes nothing, when they are beyond 8 KiB or a filter
    /// drops them.
    @discardableResult
    public func register(_ body: (inout Fields) -> Void) -> Bool {
        self.core.register(body)
    }

    /// Says what the user allowed; without `analytics`, events are dropped until it is given again, also by later starts.
    ///
    /// Stores one `wb.consent` event, which says so in either case.
    @discardableResult
    public func setConsent(analytics: Bool, ads: Bool) -> TrackOutcome {
        self.core.setConsent(analytics: analytics, ads: ads)
    }

    /// Deletes every event that waits in the spool, but those of other processes that are writing now.
    ///
    /// For users who take their consent back: what was delivered before is not undone. From here on events say no
    /// user; `wb.evicted` events say how many went, and `wb.consent` is said again.
    public func purge() throws(WaybillError) {
        try self.core.purge()
    }

    /// Says that the app comes to the foreground, or leaves it.
    ///
    /// In the background it holds no file locked, as systems that suspend processes demand of files that an app
    /// shares with its extensions; the next event begins a new segment. Say it again when work in the background ends
    /// that tracked events.
    public func enter(_ phase: AppPhase) {
        self.core.enter(phase)
    }

    /// Forgets the user: a new anonymous id, a new session, no user, no current screen, no registered fields, other hashes.
    ///
    /// It holds for this process in any case; the error says that the old id would come back after a restart.
    public func reset() throws(WaybillError) {
        try self.core.reset()
    }

    /// Returns once every event stored so far survives a power cut; `track` goes on meanwhile.
    ///
    /// An answer about consent that could not be saved is tried again, and an error as long as it cannot. Lines of a
    /// segment whose sync failed may be lost by a power cut until they are delivered; so long it is an error, too.
    public func flush() throws(WaybillError) {
        try self.core.flush()
    }

    /// Says that an event told how long the current screen was shown, so that the next one does not.
    package func screenEnded() {
        self.core.screenEnded()
    }

    /// The resettable id of the install, `anon` in its events.
    public var anonymousID: String {
        self.core.identity.anonymous
    }

    /// The user, as ``setUser(_:traits:)`` said.
    public var userID: String? {
        self.core.identity.user
    }

    /// The session as of the last event, `session` in it.
    public var sessionID: String {
        self.core.identity.session.text
    }

    /// What the user allowed, in this process or an earlier one; `nil` as long as nobody asked.
    public var consent: Consent? {
        self.core.consent
    }

    /// What was stored, dropped and repaired so far.
    public var counters: WaybillClient.Counters {
        self.core.counters
    }

    /// What waits in the spool; reads a part of it.
    public func usage() throws(WaybillError) -> SpoolUsage {
        try self.core.usage()
    }

    /// Where the anonymous id came from.
    public var installOrigin: InstallOrigin {
        self.core.installOrigin
    }
}

extension Visitor {
    /// The id of a session that begins now, to be kept with the visitor, in a cookie for one.
    public static func newSession() -> String {
        var generator = SystemRandomNumberGenerator()
        return UniqueID.timed(POSIXClock().wallTime().milliseconds, &generator).text
    }
}
