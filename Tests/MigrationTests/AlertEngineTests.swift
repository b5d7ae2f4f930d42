// An alert for each event, so that testers see what is tracked, as apps write it:
//
//     final class AlertEngine: AnalyticsEngine {
//         func send(_ event: AnalyticsEvent) {
//             // Of a dictionary: another order each time.
//             let text = event.metadata.map { "\($0): \($1)" }.joined(separator: "\n")
//             let alert = UIAlertController(title: event.name, message: text, preferredStyle: .alert)
//             alert.addAction(UIAlertAction(title: "OK", style: .default))
//             DispatchQueue.main.async {
//                 let root = UIApplication.shared.keyWindow?.rootViewController
//                 // One level; over an alert nothing is presented.
//                 (root?.presentedViewController ?? root)?.present(alert, animated: true)
//             }
//         }
//     }
//     enum PlaylistEvent: AnalyticsEvent { case screenViewed, songSelected(index: Int), … }
//
// An observer of stored events keeps what is to be shown; whoever shows it asks for the next when the last is gone.

import Testing
import Waybill
import WaybillExport
import WaybillUI
import WaybillServerTestSupport
import WaybillTesting

private struct PlaylistScreen: ScreenEvent {
    let title: String
    let songCount: Int
    var owner: String?
    var screen: ScreenRef? { ScreenRef("Playlist", type: "PlaylistView", id: "p-7") }

    func encode(into fields: inout Fields) {
        fields.put("title", self.title)
        fields.put("songCount", self.songCount)
        fields.put("owner", self.owner)
        fields.put("isShuffled", false)
    }
}

private struct SongSelected: ActionEvent {
    let index: Int
    var name: String { "song_selected" }

    func encode(into fields: inout Fields) {
        fields.put("index", self.index)
    }
}

/// What is on a screen: controllers over one another, an alert as the last.
private final class Window {
    private final class Controller {
        var presented: Controller?
        let alert: EventAlert?

        init(_ alert: EventAlert? = nil) {
            self.alert = alert
        }
    }

    private let root = Controller()
    private let feed: AlertFeed
    private(set) var shown: [EventAlert] = []

    init(_ feed: AlertFeed) {
        self.feed = feed
    }

    /// A sheet appears over everything.
    func presentSheet() {
        self.top.presented = Controller()
    }

    /// Shows the next alert when there is one, and when something can show it.
    func present() {
        guard let alert = self.feed.next(),
            let host = AlertHost.topmost(
                from: self.root, presented: { $0.presented }, canHost: { $0.alert == nil })
        else { return }
        host.presented = Controller(alert)
        self.shown.append(alert)
        self.feed.presented()
    }

    /// The tester taps OK.
    func tapOK() {
        var below = self.root
        while let next = below.presented, next.alert == nil { below = next }
        below.presented = nil
        self.feed.dismissed()
        self.present()
    }

    /// Controllers over one another, the root among them.
    var height: Int {
        var height = 1
        var controller = self.root
        while let next = controller.presented {
            height += 1
            controller = next
        }
        return height
    }

    private var top: Controller {
        var top = self.root
        while let next = top.presented { top = next }
        return top
    }
}

/// The app, a feed of its playlist's events, and the window that shows them.
private struct Site {
    let recorder: Recorder
    let feed = AlertFeed()
    let window: Window
    private let token: ObserverToken

    init() throws {
        self.recorder = try Recorder.shop()
        self.window = Window(self.feed)
        self.token = self.recorder.waybill.observe(.only(self.feed, PlaylistScreen.self, SongSelected.self))
    }

    /// Tracks, and lets the window show what it can.
    func track(_ body: (WaybillClient) -> Void) {
        body(self.recorder.waybill)
        self.token.drain()
        self.window.present()
    }
}

private let screenLines = ["screen: Playlist", "screen_class: PlaylistView", "screen_id: p-7"]
private let playlist = PlaylistScreen(title: "출근길, 아침", songCount: 12)
private let playlistAlert = text("title: 출근길, 아침", "songCount: 12", "isShuffled: false")

/// What an alert says of an event with these fields on the playlist's screen.
private func text(_ fields: String...) -> String {
    (screenLines + fields).joined(separator: "\n")
}

@Test(arguments: 0..<20)
private func `an alert about a playlist says its fields in their order, each time the same`(run: Int) throws {
    let site = try Site()
    site.track { $0.track(playlist) }
    #expect(site.window.shown.map(\.title) == ["screen_view"])
    #expect(site.window.shown.map(\.message) == [playlistAlert])
}

@Test func `what is shown is what is stored and exported`() throws {
    let site = try Site()
    site.recorder.waybill.setVendorID(appInstanceID, for: .ga4)
    site.track { $0.track(playlist) { $0.put("openedFrom", "library") } }
    #expect(site.window.shown.map(\.message) == [playlistAlert + "\nopenedFrom: library"])
    let event = try #require(site.recorder.events.first)
    #expect(
        event.contents == #"""
            "data":{"title":"출근길, 아침","songCount":12,"isShuffled":false,"openedFrom":"library"}
            """#)
    #expect(
        site.recorder.exported(ExportOptions(provider: .ga4)).output
            == ga4Request(
                "screen_view",
                #""screen_name":"Playlist","screen_class":"PlaylistView","screen_id":"p-7","title":"출근길, 아침","#
                    + #""song_count":12,"is_shuffled":"false","opened_from":"library""#))
}

@Test func `one alert is shown at a time, over whatever is presented, in the order of the events`() throws {
    let site = try Site()
    site.window.presentSheet()
    site.window.presentSheet()
    site.track {
        $0.track(playlist)
        $0.track(SongSelected(index: 3))
        $0.track("not subscribed")
        $0.track(SongSelected(index: 1))
    }
    #expect(site.window.shown.map(\.title) == ["screen_view"])
    #expect(site.window.height == 4)
    #expect(site.feed.next() == nil)
    site.window.tapOK()
    #expect(site.window.shown.map(\.message) == [playlistAlert, text("index: 3")])
    #expect(site.window.height == 4)
    site.window.tapOK()
    site.window.tapOK()
    #expect(site.window.shown.map(\.message).last == text("index: 1"))
    #expect(site.window.shown.count == 3)
    #expect(site.window.height == 3)
}

@Test func `a burst behind a shown alert is one alert, which counts each event once`() throws {
    let site = try Site()
    site.track { $0.track(playlist) }
    for index in 0..<40 { site.track { $0.track(SongSelected(index: index)) } }
    site.track {
        $0.track(playlist)
        $0.track(playlist)
    }
    #expect(site.window.shown.count == 1)
    site.window.tapOK()
    #expect(site.window.shown.map(\.title) == ["screen_view", "42 events"])
    #expect(site.window.shown.last?.message == "song_selected × 40\nscreen_view Playlist × 2")
    site.track { $0.track(SongSelected(index: 40)) }
    site.window.tapOK()
    #expect(site.window.shown.map(\.title) == ["screen_view", "42 events", "song_selected"])
    site.window.tapOK()
    #expect(site.feed.next() == nil)
    #expect(site.window.height == 1)
}

@Test func `whoever shows alerts is woken by an event and asks for all there are`() async throws {
    let recorder = try Recorder.shop()
    let feed = AlertFeed()
    recorder.waybill.observe(.only(feed, PlaylistScreen.self))
    var titles: [String] = []
    for await _ in feed.arrivals() {
        while let alert = feed.next() {
            feed.presented()
            titles.append(alert.title)
            feed.dismissed()
        }
        if titles.count == 3 { break }
        recorder.waybill.track(playlist)
    }
    #expect(titles == ["screen_view", "screen_view", "screen_view"])
}
