/// What the views of an app tell Waybill, as values that need no screen to be tested.
///
/// Constraints: every collection has a limit with a name; no Foundation, no framework of Apple's; the state machines
/// (``ScreenStack``, ``WindowPhases``, ``AppearanceGate``, ``AlertQueue``, ``LiveStream``) have no clock, lock or task
/// in them.
///
///     views ──▶ ScreenTracker ──▶ ScreenStack, AppearanceGate ──▶ WaybillClient.track
///                                                                     │ stored events, on a thread of their own
///     alert ◀── AlertFeed ◀── AlertQueue ◀─────────────────────────── ┤
///     overlay ◀── LiveFeed ◀── LiveStream ◀────────────────────────── ┘
///
/// Times are `ContinuousClock.Instant`s: an instant cannot be mistaken for a duration, and tests make them by adding
/// to any first one.
public import Waybill

/// Tracks which screen the user is on, and what else appears.
///
/// One per app: make it where the `WaybillClient` is made, and give it to the views with `.waybill(_:)`. In several windows,
/// the current screen is the one that appeared last in any of them.
@MainActor
public final class ScreenTracker {
    /// Where the events go.
    public nonisolated let waybill: WaybillClient

    private var stack = ScreenStack()
    private var windows = WindowPhases()
    private var gate = AppearanceGate()
    private let now: () -> ContinuousClock.Instant
    /// Ends when the screens have settled; tests wait for it.
    package private(set) var settling: Task<Void, Never>?
    /// Ends when the windows have settled; tests wait for it.
    package private(set) var windowSettling: Task<Void, Never>?
    /// What tells of background and foreground, kept as long as this.
    package var lifecycle: AnyObject?

    package init(_ waybill: WaybillClient, now: @escaping () -> ContinuousClock.Instant) {
        self.waybill = waybill
        self.now = now
    }

    /// Says that `owner`, a view controller for one, shows a screen.
    ///
    /// Call it when it did appear. The same again without ``screenDisappeared(on:)`` between stores nothing.
    public func screenAppeared(_ event: some ScreenEvent, on owner: AnyObject) {
        self.perform(self.stack.appeared(Screen(event), ObjectIdentifier(owner), at: self.now()))
    }

    /// Says that `owner`, which is visible, shows another screen than before, or the same one with other fields.
    ///
    /// Another screen is viewed. The same one is not; the event is what it is viewed with the next time, as when the
    /// app comes back.
    public func screenChanged(to event: some ScreenEvent, on owner: AnyObject) {
        self.perform(self.stack.changed(Screen(event), ObjectIdentifier(owner), at: self.now()))
    }

    /// Says that `owner` is drawn anew, if it is visible: its screen is viewed with this event the next time.
    ///
    /// Tracks nothing, so that a view's body may call it.
    package func screenRedrawn(_ event: some ScreenEvent, on owner: AnyObject) {
        self.stack.redrawn(Screen(event), ObjectIdentifier(owner))
    }

    /// Says that `owner` is not visible any more; the screen below it, if any, is viewed again.
    public func screenDisappeared(on owner: AnyObject) {
        self.perform(self.stack.disappeared(ObjectIdentifier(owner), at: self.now()))
    }

    /// Says that the user left the app, to Waybill too: closes the current screen with a ``ScreenEnded``.
    public func appEnteredBackground() {
        self.perform(self.stack.enteredBackground(at: self.now()))
        self.waybill.enter(.background)
    }

    /// Says that the user is back: the current screen is viewed again.
    public func appEnteredForeground() {
        self.waybill.enter(.foreground)
        self.perform(self.stack.enteredForeground(at: self.now()))
    }

    /// Says the phase of a window, where no one says that of the app.
    package func windowChanged(to phase: WindowPhase, _ window: AnyObject) {
        self.perform(self.windows.changed(phase, ObjectIdentifier(window)))
    }

    /// Says that a window is gone.
    package func windowClosed(_ window: AnyObject) {
        self.perform(self.windows.closed(ObjectIdentifier(window)))
    }

    /// Stores an event as often as the policy says; `nil` when it is not its turn.
    ///
    /// Events of one type, one name and one `id` count as the same. One that was dropped is not counted.
    @discardableResult
    public func track<E: Event>(onAppear event: E, _ policy: AppearancePolicy, id: String = "") -> TrackOutcome? {
        let key = "\(E.self)\n\(event.name)\n\(id)"
        let now = self.now()
        guard self.gate.admits(key, policy, at: now) else { return nil }
        let outcome = self.waybill.track(event)
        if case .stored = outcome { self.gate.passed(key, policy, at: now) }
        return outcome
    }

    private func perform(_ action: ScreenStack.Action) {
        switch action {
        case .view(let screen):
            self.waybill.track(screen.event)
        case .end(let screen, let duration):
            switch self.waybill.track(ScreenEnded(screen.ref, after: duration)) {
            case .stored, .held: self.waybill.screenEnded()
            case .dropped: break
            }
        case .settle:
            self.settling = Task { self.perform(self.stack.settled(at: self.now())) }
        case .wait:
            break
        }
    }

    private func perform(_ action: WindowPhases.Action) {
        switch action {
        case .enter(.foreground):
            self.appEnteredForeground()
        case .enter(.background):
            self.appEnteredBackground()
        case .settle:
            self.windowSettling = Task { self.perform(self.windows.settled()) }
        case .wait:
            break
        }
    }
}
