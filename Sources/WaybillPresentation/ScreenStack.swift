/// Decides which screen is the current one, and which events that gives.
///
///     appeared(Home)         view Home
///     appeared(Player)       view Player           Player was pushed, or presented over Home
///     disappeared(Home)      wait                  …pushed: Home is gone
///     appeared(Home)         view Home             …popped: it is a new view of Home
///     disappeared(Player)    wait
///     enteredBackground      end Home after 12 s
///     enteredForeground      view Home
///
/// The current screen is the one that appeared last of those that have not disappeared. Frameworks report the two
/// halves of a transition in either order, so a screen that appears is viewed at once (events that follow in the same
/// turn are its own), while the screen below one that disappears is viewed only when the turn ended without another:
/// see ``Action/settle``. Containers are not screens: of two screens in one another, chance decides.
///
/// Bounded: at most ``visibleCountMax`` screens; beyond that, the one that appeared first is forgotten.
package struct ScreenStack: Sendable {
    /// Far more than can be visible; reached only by owners that never say that they disappeared.
    package static let visibleCountMax = 64

    /// Tells apart the views that show screens.
    package typealias Key = ObjectIdentifier
    package typealias Instant = ContinuousClock.Instant

    /// What the caller must do now.
    package enum Action: Equatable, Sendable {
        /// Track that this screen is the current one.
        case view(Screen)
        /// Track that no screen is current; this one was, for so long.
        case end(Screen, after: Duration)
        /// Call ``ScreenStack/settled(at:)`` after everything that happens in this turn of the main actor.
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
        /// In the foreground without a screen. Leaves to `.open` and `.background`.
        case empty
        /// Leaves to `.leaving`, `.background`, and `.open` with another screen.
        case open(Current)
        /// It disappeared, and this turn may bring another. Leaves to `.open`, `.empty` and `.background`.
        case leaving(Current, at: Instant)
        /// Nothing is tracked. Leaves to `.empty` and `.open`.
        case background
    }

    private var state = State.empty
    /// In the order in which they appeared.
    private var visible: [Visible] = []

    package init() {}

    /// A view shows a screen, for the first time or again.
    package mutating func appeared(_ screen: Screen, _ key: Key, at now: Instant) -> Action {
        self.visible.removeAll { $0.key == key }
        if self.visible.count == Self.visibleCountMax { self.visible.removeFirst() }
        let visible = Visible(key: key, screen: screen)
        self.visible.append(visible)
        return self.show(visible, at: now)
    }

    /// A visible view shows another screen than before, as when its product changes.
    package mutating func changed(_ screen: Screen, _ key: Key, at now: Instant) -> Action {
        guard let index = self.visible.firstIndex(where: { $0.key == key }) else { return .wait }
        self.visible[index].screen = screen
        guard index == self.visible.count - 1 else { return .wait }
        return self.show(self.visible[index], at: now)
    }

    /// A visible view is drawn anew: its screen is viewed with this event the next time.
    ///
    /// It is no view of it. Another screen than before changes nothing here: ``changed(_:_:at:)`` tells of it.
    package mutating func redrawn(_ screen: Screen, _ key: Key) {
        guard let index = self.visible.firstIndex(where: { $0.key == key }) else { return }
        guard self.visible[index].screen == screen else { return }
        self.visible[index].screen = screen
    }

    /// A view is not visible any more.
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

    /// Nothing more happens in the turn in which a screen disappeared.
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

    /// The user cannot see the app any more.
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

    /// The user sees the app again.
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
            // Away and back within a turn is a view drawn anew.
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
