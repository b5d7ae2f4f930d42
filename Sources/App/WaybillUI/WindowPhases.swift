package import Waybill

/// The phase of a window, like SwiftUI's `ScenePhase`.
package enum WindowPhase: Hashable, Sendable {
    /// The window is in use.
    case active
    /// The window is visible, but another one is in use.
    case inactive
    /// The window is not visible.
    case background
}

/// Decides whether an app is in the background: it is when none of its windows is active or inactive.
///
///     changed(A, active)        enter foreground
///     changed(B, active)        wait
///     changed(A, background)    wait                B is still visible
///     closed(B)                 settle
///     settled                   enter background    …and no other window replaced it
///
/// Bounded: at most ``windowCountMax`` windows; above that, the one known longest is removed.
package struct WindowPhases: Sendable {
    /// Far more than are ever open; reached only if windows never report that they closed.
    package static let windowCountMax = 64

    /// Identifies a window.
    package typealias Key = ObjectIdentifier

    /// What the caller must do next.
    package enum Action: Hashable, Sendable {
        /// Report that the app entered the foreground or the background.
        case enter(AppPhase)
        /// Call ``WindowPhases/settled()`` after everything else in this turn of the main actor.
        case settle
        case wait
    }

    private struct Window {
        let key: Key
        var phase: WindowPhase
    }

    /// The windows, in the order of their first report.
    private var windows: [Window] = []
    /// Whether a window was visible at the last decision.
    private var isSeen = false

    package init() {}

    /// Records a window's phase, for the first time or again.
    package mutating func changed(_ phase: WindowPhase, _ key: Key) -> Action {
        if let index = self.windows.firstIndex(where: { $0.key == key }) {
            self.windows[index].phase = phase
        } else {
            if self.windows.count == Self.windowCountMax { self.windows.removeFirst() }
            self.windows.append(Window(key: key, phase: phase))
        }
        return self.decide()
    }

    /// Records that a window was closed; another root of the same window may follow in this turn.
    package mutating func closed(_ key: Key) -> Action {
        self.windows.removeAll { $0.key == key }
        return .settle
    }

    /// Ends the turn in which a window closed.
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
