import Testing
import Waybill
import WaybillUI

/// What stands for a window.
private final class Window {
    var key: WindowPhases.Key { ObjectIdentifier(self) }
}

@Test
func `an app is in the background only when no window is active or inactive`() {
    var phases = WindowPhases()
    let (first, second) = (Window(), Window())
    #expect(phases.changed(.active, first.key) == .enter(.foreground))
    #expect(phases.changed(.inactive, first.key) == .wait)
    #expect(phases.changed(.active, second.key) == .wait)
    #expect(phases.changed(.background, first.key) == .wait)
    #expect(phases.changed(.inactive, second.key) == .wait)
    #expect(phases.changed(.background, second.key) == .enter(.background))
    #expect(phases.changed(.inactive, first.key) == .enter(.foreground))
    #expect(phases.changed(.active, first.key) == .wait)
}

@Test
func `a window that was never seen puts no app into the background`() {
    var phases = WindowPhases()
    let (first, second) = (Window(), Window())
    #expect(phases.changed(.background, first.key) == .wait)
    #expect(phases.changed(.active, first.key) == .enter(.foreground))
    #expect(phases.changed(.background, second.key) == .wait)
}

@Test
func `the last window that is seen takes the app to the background when it closes`() {
    var phases = WindowPhases()
    let (first, second, hidden) = (Window(), Window(), Window())
    _ = phases.changed(.active, first.key)
    _ = phases.changed(.inactive, second.key)
    _ = phases.changed(.background, hidden.key)
    #expect(phases.closed(first.key) == .settle)
    #expect(phases.settled() == .wait)
    #expect(phases.closed(second.key) == .settle)
    #expect(phases.settled() == .enter(.background))
    #expect(phases.changed(.active, hidden.key) == .enter(.foreground))
}

@Test
func `another root of a window in the same turn is no background`() {
    var phases = WindowPhases()
    let (login, home) = (Window(), Window())
    _ = phases.changed(.active, login.key)
    #expect(phases.closed(login.key) == .settle)
    #expect(phases.changed(.active, home.key) == .wait)
    #expect(phases.settled() == .wait)
}

@Test
func `windows that never say they closed are forgotten, first come first`() {
    var phases = WindowPhases()
    let windows = (0...WindowPhases.windowCountMax).map { _ in Window() }
    #expect(phases.changed(.active, windows[0].key) == .enter(.foreground))
    let actions = windows.dropFirst().map { phases.changed(.background, $0.key) }
    #expect(actions.dropLast().allSatisfy { $0 == .wait })
    #expect(actions.last == .enter(.background))
}
