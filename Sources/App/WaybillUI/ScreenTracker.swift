/// Everything that an app's views report to Waybill, testable without a screen.
///
/// Constraints: every collection has a named limit; no Foundation and no Apple framework; the state machines
/// (``ScreenStack``, ``WindowPhases``, ``AppearanceGate``, ``AlertQueue``, ``LiveStream``) have no clock, lock or task.
///
///     views ──▶ ScreenTracker ──▶ ScreenStack, AppearanceGate ──▶ WaybillClient.track
///                                                                     │ stored events, on a separate thread
///     alert ◀── AlertFeed ◀── AlertQueue ◀─────────────────────────── ┤
///     overlay ◀── LiveFeed ◀── LiveStream ◀────────────────────────── ┘
///
/// Times are `ContinuousClock.Instant`s: an instant cannot be mistaken for a duration, and tests create them relative
/// to any first one.
public import Waybill

/// Tracks the screen the user is on, and other views that appear.
///
/// Create one per app, together with the `WaybillClient`, and pass it to the views with `.waybill(_:)`. With several
/// windows, the current screen is the one that appeared last in any of them.
@MainActor
public final class ScreenTracker {
    /// The client that stores the events.
    public nonisolated let waybill: WaybillClient

    private var stack = ScreenStack()
    private var windows = WindowPhases()
    private var gate = AppearanceGate()
    private let now: () -> ContinuousClock.Instant
    /// Completes when the screens have settled; tests wait for it.
    package private(set) var settling: Task<Void, Never>?
    /// Completes when the windows have settled; tests wait for it.
    package private(set) var windowSettling: Task<Void, Never>?
    /// The observer of background and foreground, retained as long as this tracker.
    package var lifecycle: AnyObject?

    package init(_ waybill: WaybillClient, now: @escaping () -> ContinuousClock.Instant) {
        self.waybill = waybill
        self.now = now
    }

    /// Reports that `owner`, such as a view controller, shows a screen.
    ///
    /// Call it after the owner has appeared. Repeating the call without ``screenDisappeared(on:)`` in between stores
    /// nothing.
    public func screenAppeared(_ event: some ScreenEvent, on owner: AnyObject) {
        self.perform(self.stack.appeared(Screen(event), ObjectIdentifier(owner), at: self.now()))
    }

    /// Reports that `owner`, which is visible, shows a different screen, or the same one with other fields.
    ///
    /// A different screen is tracked at once. The same screen is not; the event is used for its next view, for example
    /// when the app returns to the foreground.
    public func screenChanged(to event: some ScreenEvent, on owner: AnyObject) {
        self.perform(self.stack.changed(Screen(event), ObjectIdentifier(owner), at: self.now()))
    }

    /// Reports that `owner`, if visible, was redrawn: the next view of its screen uses this event.
    ///
    /// It tracks nothing, so a view's body may call it.
    package func screenRedrawn(_ event: some ScreenEvent, on owner: AnyObject) {
        self.stack.redrawn(Screen(event), ObjectIdentifier(owner))
    }

    /// Reports that `owner` is no longer visible; the screen below it, if any, is tracked again.
    public func screenDisappeared(on owner: AnyObject) {
        self.perform(self.stack.disappeared(ObjectIdentifier(owner), at: self.now()))
    }

    /// Reports that the app entered the background, also to the client: closes the current screen with a
    /// ``ScreenEnded``.
    public func appEnteredBackground() {
        self.perform(self.stack.enteredBackground(at: self.now()))
        self.waybill.enter(.background)
    }

    /// Reports that the app entered the foreground: the current screen is tracked again.
    public func appEnteredForeground() {
        self.waybill.enter(.foreground)
        self.perform(self.stack.enteredForeground(at: self.now()))
    }

    /// Reports the phase of a window, on platforms that report no phase of the app.
    package func windowChanged(to phase: WindowPhase, _ window: AnyObject) {
        self.perform(self.windows.changed(phase, ObjectIdentifier(window)))
    }

    /// Reports that a window was closed.
    package func windowClosed(_ window: AnyObject) {
        self.perform(self.windows.closed(ObjectIdentifier(window)))
    }

    /// Stores an event as often as the policy allows; returns `nil` if it is not due.
    ///
    /// Events with the same type, name and `id` count as the same. A dropped event does not count.
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
