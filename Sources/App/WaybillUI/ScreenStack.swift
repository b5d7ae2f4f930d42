/// Decides which screen is current, and which events to track.
///
///     appeared(Home)         view Home
///     appeared(Player)       view Player           Player was pushed, or presented over Home
///     disappeared(Home)      wait                  …pushed: Home is gone
///     appeared(Home)         view Home             …popped: a new view of Home
///     disappeared(Player)    wait
///     enteredBackground      end Home after 12 s
///     enteredForeground      view Home
///
/// The current screen is the last one to appear of those that have not disappeared. Frameworks report the two halves of
/// a transition in either order. So a screen that appears is tracked at once (later events in the same turn belong to
/// it), while the screen below one that disappears is tracked only if the turn ends without another: see
/// ``Action/settle``. Containers are not screens: if one screen contains another, it is undefined which one is current.
///
/// Bounded: at most ``visibleCountMax`` screens; above that, the one that appeared first is removed.
package struct ScreenStack: Sendable {
    /// Far more than can be visible; reached only if owners never report that they disappeared.
    package static let visibleCountMax = 64

    /// Identifies a view that shows screens.
    package typealias Key = ObjectIdentifier
    package typealias Instant = ContinuousClock.Instant

    /// What the caller must do next.
    package enum Action: Equatable, Sendable {
        /// Track that this screen is the current one.
        case view(Screen)
        /// Track that no screen is current any more; the previous one was, for this long.
        case end(Screen, after: Duration)
        /// Call ``ScreenStack/settled(at:)`` after everything else in this turn of the main actor.
        case settle
        case wait
    }

    private struct Visible {
        let key: Key
        var screen: Screen
    }

    private struct Current {
        let visible: Visible
        let since: Instant

        func isShown(by other: Visible) -> Bool {
            self.visible.key == other.key && self.visible.screen == other.screen
        }
    }

    private enum State {
        /// In the foreground without a screen. Next: `.open`, `.background`.
        case empty
        /// Next: `.leaving`, `.background`, or `.open` with another screen.
        case open(Current)
        /// The screen disappeared, and another may appear in this turn. Next: `.open`, `.empty`, `.background`.
        case leaving(Current, at: Instant)
        /// Nothing is tracked. Next: `.empty`, `.open`.
        case background
    }

    private var state = State.empty
    /// The visible screens, in the order in which they appeared.
    private var visible: [Visible] = []

    package init() {}

    /// Records that a view shows a screen, for the first time or again.
    package mutating func appeared(_ screen: Screen, _ key: Key, at now: Instant) -> Action {
        self.visible.removeAll { $0.key == key }
        if self.visible.count == Self.visibleCountMax { self.visible.removeFirst() }
        let visible = Visible(key: key, screen: screen)
        self.visible.append(visible)
        return self.show(visible, at: now)
    }

    /// Records that a visible view shows a different screen, for example another product.
    package mutating func changed(_ screen: Screen, _ key: Key, at now: Instant) -> Action {
        guard let index = self.visible.firstIndex(where: { $0.key == key }) else { return .wait }
        self.visible[index].screen = screen
        guard index == self.visible.count - 1 else { return .wait }
        return self.show(self.visible[index], at: now)
    }

    /// Records that a visible view was redrawn: the next view of its screen uses this event.
    ///
    /// This does not count as a view. A different screen is ignored here: ``changed(_:_:at:)`` reports it.
    package mutating func redrawn(_ screen: Screen, _ key: Key) {
        guard let index = self.visible.firstIndex(where: { $0.key == key }) else { return }
        guard self.visible[index].screen == screen else { return }
        self.visible[index].screen = screen
    }

    /// Records that a view is no longer visible.
    package mutating func disappeared(_ key: Key, at now: Instant) -> Action {
        self.visible.removeAll { $0.key == key }
        switch self.state {
        case .open(let current) where current.visible.key == key:
            self.state = .leaving(current, at: now)
            return .settle
        case .empty, .open, .leaving, .background:
            return .wait
        }
    }

    /// Ends the turn in which a screen disappeared.
    package mutating func settled(at now: Instant) -> Action {
        switch self.state {
        case .leaving(let current, let left):
            if let top = self.visible.last { return self.open(top, at: now) }
            self.state = .empty
            return .end(current.visible.screen, after: left - current.since)
        case .empty, .open, .background:
            return .wait
        }
    }

    /// Records that the user no longer sees the app.
    package mutating func enteredBackground(at now: Instant) -> Action {
        let before = self.state
        self.state = .background
        switch before {
        case .open(let current):
            return .end(current.visible.screen, after: now - current.since)
        case .leaving(let current, let left):
            return .end(current.visible.screen, after: left - current.since)
        case .empty, .background:
            return .wait
        }
    }

    /// Records that the user sees the app again.
    package mutating func enteredForeground(at now: Instant) -> Action {
        switch self.state {
        case .background:
            if let top = self.visible.last { return self.open(top, at: now) }
            self.state = .empty
            return .wait
        case .empty, .open, .leaving:
            return .wait
        }
    }

    private mutating func show(_ top: Visible, at now: Instant) -> Action {
        switch self.state {
        case .background:
            return .wait
        case .open(let current) where current.isShown(by: top):
            return .wait
        case .leaving(let current, _) where current.isShown(by: top):
            // Disappearing and reappearing within a turn is a redraw.
            self.state = .open(current)
            return .wait
        case .empty, .open, .leaving:
            return self.open(top, at: now)
        }
    }

    private mutating func open(_ top: Visible, at now: Instant) -> Action {
        self.state = .open(Current(visible: top, since: now))
        return .view(top.screen)
    }
}
