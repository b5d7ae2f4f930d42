import Testing
import Waybill
import WaybillUI
import WaybillSystem
import WaybillTestSupport

/// Keeps what it sees.
private final class Witness: EventObserver {
    private let seen = Lock<[EventView]>([])

    var events: [EventView] { self.seen.withLock { $0 } }

    func eventStored(_ event: EventView) { self.seen.withLock { $0.append(event) } }
}

/// A screen that the app gave a type.
private struct PlaylistScreen: ScreenEvent {
    let songCount: Int

    var screen: ScreenRef? { ScreenRef("Playlist", id: "p-7") }
    func encode(into fields: inout Fields) { fields.put("songs", self.songCount) }
}

private struct Liked: ActionEvent, FieldlessEvent {
    var name: String { "like" }
}

/// An app on a real disk, whose clock the test moves.
@MainActor
private final class App {
    let waybill: WaybillClient
    let witness = Witness()
    let token: ObserverToken
    private(set) lazy var tracker = ScreenTracker(self.waybill) { [unowned self] in self.now }
    private var now = ContinuousClock.Instant.now
    private let folder: String

    init() throws {
        self.folder = try makeFolder()
        self.waybill = try WaybillClient(
            .init(
                spool: self.folder, environment: .dev, bundle: "com.example.music", version: "1.0", build: "1"))
        self.token = self.waybill.observe(.all(self.witness))
    }

    deinit {
        removeFolder(self.folder)
    }

    func advance(_ seconds: Int) { self.now += .seconds(seconds) }

    /// What was stored so far: each event's name and screen, and its fields.
    var story: [String] {
        self.token.drain()
        return self.witness.events.map { event in
            let fields = event.fields.map { " \($0.name)=\($0.text)" }.joined()
            return "\(event.name) \(event[member: "screen"] ?? "-")\(fields)"
        }
    }
}

@MainActor
@Test
func `screens, taps and leaving the app make one story`() async throws {
    let app = try App()
    let (home, player) = (Witness(), Witness())
    app.tracker.screenAppeared(ScreenViewed(ScreenRef("Home")), on: home)
    app.tracker.track(onAppear: Liked(), .always)
    app.advance(5)
    app.tracker.screenAppeared(PlaylistScreen(songCount: 12), on: player)
    app.tracker.screenChanged(to: PlaylistScreen(songCount: 12), on: player)
    app.advance(7)
    app.tracker.screenDisappeared(on: player)
    await app.tracker.settling?.value
    app.advance(3)
    app.tracker.appEnteredBackground()
    app.advance(600)
    app.tracker.appEnteredForeground()
    #expect(
        app.story == [
            "screen_view Home", "like Home", "screen_view Playlist songs=12", "screen_view Home",
            "screen_end Home duration_ms=3000", "screen_view Home",
        ])
}

@MainActor
@Test
func `a screen whose fields changed is viewed with them when the app is back, and not before`() throws {
    let app = try App()
    let playlist = Witness()
    app.tracker.screenAppeared(PlaylistScreen(songCount: 0), on: playlist)
    app.tracker.screenRedrawn(PlaylistScreen(songCount: 12), on: playlist)
    app.tracker.appEnteredBackground()
    app.tracker.appEnteredForeground()
    #expect(
        app.story == [
            "screen_view Playlist songs=0", "screen_end Playlist duration_ms=0", "screen_view Playlist songs=12",
        ])
}

@MainActor
@Test
func `a window in the background takes nothing from the screens of another`() async throws {
    let app = try App()
    let (home, search, first, second) = (Witness(), Witness(), Witness(), Witness())
    app.tracker.windowChanged(to: .active, first)
    app.tracker.screenAppeared(ScreenViewed(ScreenRef("Home")), on: home)
    app.tracker.windowChanged(to: .active, second)
    app.tracker.windowChanged(to: .background, first)
    app.tracker.screenAppeared(ScreenViewed(ScreenRef("Search")), on: search)
    app.advance(4)
    app.tracker.windowClosed(second)
    await app.tracker.windowSettling?.value
    #expect(app.story == ["screen_view Home", "screen_view Search", "screen_end Search duration_ms=4000"])
}

@MainActor
@Test
func `an end of a screen says for how long it was the current one`() async throws {
    let app = try App()
    let home = Witness()
    app.tracker.screenAppeared(ScreenViewed(ScreenRef("Home", type: "HomeView", id: "h")), on: home)
    app.advance(5)
    app.tracker.screenDisappeared(on: home)
    app.advance(2)
    await app.tracker.settling?.value
    #expect(app.story == ["screen_view Home", "screen_end Home duration_ms=5000"])
    let end = try #require(app.witness.events.last)
    #expect(end.kind == .event)
    #expect([end[member: "screen_class"], end[member: "screen_id"]] == ["HomeView", "h"])
}

@MainActor
@Test
func `an event that may be tracked once is tracked until it was stored`() throws {
    let app = try App()
    app.waybill.setConsent(analytics: false, ads: false)
    #expect(app.tracker.track(onAppear: Liked(), .once) == .dropped(.optedOut))
    app.waybill.setConsent(analytics: true, ads: false)
    #expect(app.tracker.track(onAppear: Liked(), .once) != nil)
    #expect(app.tracker.track(onAppear: Liked(), .once) == nil)
    #expect(app.tracker.track(onAppear: Liked(), .once, id: "other") != nil)
    #expect(app.tracker.track(onAppear: Liked(), .every(.seconds(10))) == nil)
    app.advance(10)
    #expect(app.tracker.track(onAppear: Liked(), .every(.seconds(10))) != nil)
}

@MainActor
@Test
func `a screen that was tracked is shown by the alerts and by the live list`() async throws {
    let alerts = AlertFeed()
    let live = LiveFeed()
    let app = try App()
    let tokens = [
        app.waybill.observe(.only(alerts, PlaylistScreen.self)), app.waybill.observe(.all(live)),
    ]
    app.waybill.track("unrelated")
    app.tracker.screenAppeared(PlaylistScreen(songCount: 12), on: alerts)
    for token in tokens { token.drain() }
    #expect(alerts.next() == EventAlert(title: "screen_view", message: "screen: Playlist\nscreen_id: p-7\nsongs: 12"))
    alerts.presented()
    alerts.dismissed()
    #expect(alerts.next() == nil)
    #expect(live.snapshot.events.map(\.label) == ["screen_view Playlist", "unrelated"])
    #expect(live.snapshot.motion == .running)
    live.pause()
    app.waybill.track("later")
    for token in tokens { token.drain() }
    #expect(live.snapshot.motion == .paused(hiddenCount: 1))
}

@Test
func `a feed wakes each of its readers, once for all that came`() async throws {
    let feed = AlertFeed()
    var first = feed.arrivals().makeAsyncIterator()
    #expect(await first.next() != nil)
    for _ in 0..<3 { feed.eventStored(storedEvent(.event, #""name":"tap""#)) }
    #expect(await first.next() != nil)
    var second = feed.arrivals().makeAsyncIterator()
    #expect(await second.next() != nil)
    feed.eventStored(storedEvent(.event, #""name":"tap""#))
    #expect(await first.next() != nil)
    #expect(await second.next() != nil)
    #expect(feed.next() == EventAlert(title: "4 events", message: "tap × 4"))
}

@Test
func `a reader that was cancelled is followed by another`() async {
    let feed = LiveFeed()
    let reader = Task { for await _ in feed.arrivals() {} }
    reader.cancel()
    await reader.value
    var next = feed.arrivals().makeAsyncIterator()
    #expect(await next.next() != nil)
}

@Test
func `a feed that is gone ends the waiting of its readers`() async {
    var feed: AlertFeed? = AlertFeed()
    var rings = feed?.arrivals().makeAsyncIterator()
    #expect(await rings?.next() != nil)
    feed = nil
    #expect(await rings?.next() == nil)
}
