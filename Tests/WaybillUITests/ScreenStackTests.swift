import Testing
import Waybill
import WaybillUI
import WaybillSystem

/// What shows a screen: a view or its controller.
private final class Owner {
    var key: ScreenStack.Key { ObjectIdentifier(self) }
}

private func screen(_ name: String, id: String? = nil) -> Screen {
    Screen(ScreenViewed(ScreenRef(name, id: id)))
}

/// A screen whose fields change while it is shown.
private struct PlaylistScreen: ScreenEvent, Encodable {
    let songCount: Int
    var id = "p-7"
    var screen: ScreenRef? { ScreenRef("Playlist", id: self.id) }
}

extension ScreenStack.Action {
    /// What the playlist is viewed with; `nil` when it is not viewed.
    fileprivate var songCount: Int? {
        if case .view(let screen) = self { (screen.event as? PlaylistScreen)?.songCount } else { nil }
    }
}

/// Any first instant will do: only differences count.
private let start = ContinuousClock.Instant.now

private func at(_ seconds: Int) -> ContinuousClock.Instant { start + .seconds(seconds) }

@Test
func `a screen that appears again after a pop is viewed again`() {
    var stack = ScreenStack()
    let (home, player) = (Owner(), Owner())
    #expect(stack.appeared(screen("Home"), home.key, at: at(0)) == .view(screen("Home")))
    #expect(stack.appeared(screen("Player"), player.key, at: at(5)) == .view(screen("Player")))
    #expect(stack.disappeared(home.key, at: at(6)) == .wait)
    #expect(stack.appeared(screen("Home"), home.key, at: at(9)) == .view(screen("Home")))
    #expect(stack.disappeared(player.key, at: at(10)) == .wait)
    #expect(stack.enteredBackground(at: at(12)) == .end(screen("Home"), after: .seconds(3)))
}

@Test
func `a transition whose halves come in the other order views the same screens`() {
    var stack = ScreenStack()
    let (home, player) = (Owner(), Owner())
    _ = stack.appeared(screen("Home"), home.key, at: at(0))
    #expect(stack.disappeared(home.key, at: at(5)) == .settle)
    #expect(stack.appeared(screen("Player"), player.key, at: at(5)) == .view(screen("Player")))
    #expect(stack.settled(at: at(5)) == .wait)
}

@Test
func `a screen drawn anew is not viewed again`() {
    var stack = ScreenStack()
    let home = Owner()
    _ = stack.appeared(screen("Home"), home.key, at: at(0))
    #expect(stack.appeared(screen("Home"), home.key, at: at(1)) == .wait)
    #expect(stack.changed(screen("Home"), home.key, at: at(1)) == .wait)
    #expect(stack.disappeared(home.key, at: at(2)) == .settle)
    #expect(stack.appeared(screen("Home"), home.key, at: at(2)) == .wait)
    #expect(stack.settled(at: at(2)) == .wait)
    #expect(stack.enteredBackground(at: at(7)) == .end(screen("Home"), after: .seconds(7)))
}

@Test
func `a screen below a sheet is viewed again when the sheet is gone`() {
    var stack = ScreenStack()
    let (home, sheet, picker) = (Owner(), Owner(), Owner())
    _ = stack.appeared(screen("Home"), home.key, at: at(0))
    #expect(stack.appeared(screen("Share"), sheet.key, at: at(1)) == .view(screen("Share")))
    #expect(stack.appeared(screen("Picker"), picker.key, at: at(2)) == .view(screen("Picker")))
    // The sheet takes what it presented with it, from below.
    #expect(stack.disappeared(sheet.key, at: at(3)) == .wait)
    #expect(stack.disappeared(picker.key, at: at(3)) == .settle)
    #expect(stack.settled(at: at(3)) == .view(screen("Home")))
}

@Test
func `another screen of the same view is viewed, and only on top`() {
    var stack = ScreenStack()
    let (product, sheet) = (Owner(), Owner())
    _ = stack.appeared(screen("Product", id: "1"), product.key, at: at(0))
    #expect(
        stack.changed(screen("Product", id: "2"), product.key, at: at(1)) == .view(screen("Product", id: "2")))
    _ = stack.appeared(screen("Share"), sheet.key, at: at(2))
    #expect(stack.changed(screen("Product", id: "3"), product.key, at: at(3)) == .wait)
    #expect(stack.disappeared(sheet.key, at: at(4)) == .settle)
    #expect(stack.settled(at: at(4)) == .view(screen("Product", id: "3")))
    #expect(stack.changed(screen("Other"), sheet.key, at: at(5)) == .wait)
}

@Test
func `a screen is viewed again with the event that it was drawn with last`() {
    var stack = ScreenStack()
    let (playlist, sheet) = (Owner(), Owner())
    let first = Screen(PlaylistScreen(songCount: 0))
    stack.redrawn(first, playlist.key)  // Drawn before it appears.
    #expect(stack.appeared(first, playlist.key, at: at(0)).songCount == 0)
    stack.redrawn(Screen(PlaylistScreen(songCount: 12)), playlist.key)
    #expect(stack.appeared(screen("Share"), sheet.key, at: at(1)) == .view(screen("Share")))
    #expect(stack.disappeared(sheet.key, at: at(2)) == .settle)
    #expect(stack.settled(at: at(2)).songCount == 12)
    stack.redrawn(Screen(PlaylistScreen(songCount: 13)), playlist.key)
    #expect(stack.enteredBackground(at: at(5)) == .end(first, after: .seconds(3)))
    stack.redrawn(Screen(PlaylistScreen(songCount: 14)), playlist.key)
    #expect(stack.enteredForeground(at: at(9)).songCount == 14)
}

@Test
func `another screen of a view that is drawn anew is viewed once, when it changed`() {
    var stack = ScreenStack()
    let playlist = Owner()
    let other = Screen(PlaylistScreen(songCount: 3, id: "p-8"))
    _ = stack.appeared(Screen(PlaylistScreen(songCount: 12)), playlist.key, at: at(0))
    stack.redrawn(other, playlist.key)
    #expect(stack.changed(other, playlist.key, at: at(1)).songCount == 3)
    #expect(stack.changed(Screen(PlaylistScreen(songCount: 4, id: "p-8")), playlist.key, at: at(2)) == .wait)
    _ = stack.enteredBackground(at: at(3))
    #expect(stack.enteredForeground(at: at(4)).songCount == 4)
}

@Test
func `the background ends the current screen with its time, and the foreground views it again`() {
    var stack = ScreenStack()
    let home = Owner()
    _ = stack.appeared(screen("Home"), home.key, at: at(0))
    #expect(stack.enteredBackground(at: at(12)) == .end(screen("Home"), after: .seconds(12)))
    #expect(stack.enteredBackground(at: at(13)) == .wait)
    #expect(stack.enteredForeground(at: at(100)) == .view(screen("Home")))
    #expect(stack.enteredForeground(at: at(101)) == .wait)
    #expect(stack.enteredBackground(at: at(104)) == .end(screen("Home"), after: .seconds(4)))
}

@Test
func `what happens in the background is viewed when the user is back`() {
    var stack = ScreenStack()
    let (home, message) = (Owner(), Owner())
    _ = stack.appeared(screen("Home"), home.key, at: at(0))
    _ = stack.enteredBackground(at: at(1))
    #expect(stack.appeared(screen("Message"), message.key, at: at(2)) == .wait)
    #expect(stack.disappeared(home.key, at: at(2)) == .wait)
    #expect(stack.enteredForeground(at: at(3)) == .view(screen("Message")))
    #expect(stack.disappeared(message.key, at: at(5)) == .settle)
    #expect(stack.enteredBackground(at: at(6)) == .end(screen("Message"), after: .seconds(2)))
    #expect(stack.settled(at: at(6)) == .wait)
    #expect(stack.enteredForeground(at: at(7)) == .wait)
}

@Test
func `a screen that nothing tracked follows ends when it left`() {
    var stack = ScreenStack()
    let home = Owner()
    _ = stack.appeared(screen("Home"), home.key, at: at(0))
    #expect(stack.disappeared(home.key, at: at(8)) == .settle)
    #expect(stack.settled(at: at(9)) == .end(screen("Home"), after: .seconds(8)))
    #expect(stack.enteredBackground(at: at(20)) == .wait)
}

@Test
func `owners that never say they disappeared are forgotten, first come first`() {
    var stack = ScreenStack()
    let owners = (0...ScreenStack.visibleCountMax).map { _ in Owner() }
    for (index, owner) in owners.enumerated() {
        #expect(stack.appeared(screen("\(index)"), owner.key, at: at(index)) == .view(screen("\(index)")))
    }
    for owner in owners.dropFirst().reversed() {
        #expect(stack.disappeared(owner.key, at: at(100)) == .settle)
        _ = stack.settled(at: at(100))
    }
    // The first one would be viewed again, were it known.
    #expect(stack.enteredBackground(at: at(101)) == .wait)
}

/// What a report would make of the events.
private struct Report {
    var current: Screen?
    var since = start
    var onScreen: Duration = .zero

    mutating func take(_ action: ScreenStack.Action, at now: ContinuousClock.Instant) {
        switch action {
        case .view(let screen):
            if self.current != nil { self.onScreen += now - self.since }
            self.current = screen
            self.since = now
        case .end(let screen, let duration):
            #expect(self.current == screen)
            #expect(duration >= .zero && duration <= now - self.since)
            self.onScreen += duration
            self.current = nil
        case .settle, .wait:
            break
        }
    }
}

@Test(arguments: 0..<UInt64(300))
func `after each turn, the screen viewed last is the one that appeared last`(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    let owners = (0..<5).map { _ in Owner() }
    var stack = ScreenStack()
    var report = Report()
    var visible: [(key: ScreenStack.Key, screen: Screen)] = []
    var isForeground = true
    for turn in 0..<200 {
        let now = at(turn)
        for _ in 0..<Int.random(in: 1...3, using: &generator) {
            let owner = owners[Int.random(in: 0..<5, using: &generator)]
            let shown = screen("\(Int.random(in: 0..<3, using: &generator))")
            switch Int.random(in: 0..<8, using: &generator) {
            case 0...2:
                visible.removeAll { $0.key == owner.key }
                visible.append((owner.key, shown))
                report.take(stack.appeared(shown, owner.key, at: now), at: now)
            case 3...5:
                visible.removeAll { $0.key == owner.key }
                report.take(stack.disappeared(owner.key, at: now), at: now)
            case 6:
                if let index = visible.firstIndex(where: { $0.key == owner.key }) { visible[index].screen = shown }
                report.take(stack.changed(shown, owner.key, at: now), at: now)
            default:
                isForeground.toggle()
                let action = isForeground ? stack.enteredForeground(at: now) : stack.enteredBackground(at: now)
                report.take(action, at: now)
            }
        }
        report.take(stack.settled(at: now), at: now)
        #expect(report.current == (isForeground ? visible.last?.screen : nil))
    }
    #expect(report.onScreen <= .seconds(200))
}
