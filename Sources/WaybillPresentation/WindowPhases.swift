package import Waybill

/// What a window says of itself, as SwiftUI's `ScenePhase`.
package enum WindowPhase: Hashable, Sendable {
    /// The user works in it.
    case active
    /// It is seen, and another one has the user's attention.
    case inactive
    /// It is not seen.
    case background
}

/// Decides from its windows whether an app is in the background: when none of them is active or inactive.
///
///     changed(A, active)        enter foreground
///     changed(B, active)        wait
///     changed(A, background)    wait                B is seen still
///     closed(B)                 settle
///     settled                   enter background    …and no other window took its place
///
/// Bounded: at most ``windowCountMax`` windows; beyond that, the one that was heard of first is forgotten.
package struct WindowPhases: Sendable {
    /// Far more than anybody has open; reached only by windows that never say that they closed.
    package static let windowCountMax = 64

    /// Tells windows apart.
    package typealias Key = ObjectIdentifier

    /// What the caller must do now.
    package enum Action: Hashable, Sendable {
        /// The user sees the app now, or does not.
        case enter(AppPhase)
        /// Call ``WindowPhases/settled()`` after everything that happens in this turn of the main actor.
        case settle
        case wait
    }

    private struct Window {
        let key: Key
        var phase: WindowPhase
    }

    /// In the order in which they were heard of.
    private var windows: [Window] = []
    /// Whether a window was seen when that was decided last.
    private var isSeen = false

    package init() {}

    /// A window says its phase, for the first time or again.
    package mutating func changed(_ phase: WindowPhase, _ key: Key) -> Action {
        if let index = self.windows.firstIndex(where: { $0.key == key }) {
            self.windows[index].phase = phase
        } else {
            if self.windows.count == Self.windowCountMax { self.windows.removeFirst() }
            self.windows.append(Window(key: key, phase: phase))
        }
        return self.decide()
    }

    /// A window is gone; another root of the same window may follow in this turn.
    package mutating func closed(_ key: Key) -> Action {
        self.windows.removeAll { $0.key == key }
        return .settle
    }

    /// Nothing more happens in the turn in which a window closed.
    package mutating func settled() -> Action {
        self.decide()
    }

    private mutating func decide() -> Action {
        let wasSeen = self.isSeen
        self.isSeen = self.windows.contains { $0.phase != .background }
        guard self.isSeen != wasSeen else { return .wait }
        return .enter(self.isSeen ? .foreground : .background)
    }
}
