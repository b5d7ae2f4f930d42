import SwiftUI
import WaybillUI

struct PlaylistScreen: ScreenEvent {
    let songCount: Int

    var screen: ScreenRef? { ScreenRef("Playlist") }
    func encode(into fields: inout Fields) { fields.put("songs", self.songCount) }
}

struct SongShown: Event {
    let songID: String

    var name: String { "song_shown" }
    func encode(into fields: inout Fields) { fields.put("songID", self.songID) }
}

struct SongPlayed: ActionEvent, FieldlessEvent {
    var name: String { "song_play" }
}

@MainActor
struct Music {
    let waybill: WaybillClient
    let tracker: ScreenTracker
    let live = LiveFeed()

    init() throws {
        self.waybill = try WaybillClient(
            .init(spool: "/spool", environment: .dev, bundle: "com.example.music", version: "1.0", build: "1"))
        self.tracker = ScreenTracker(self.waybill)
        self.waybill.observe(.all(self.live))
    }

    var root: some View {
        PlaylistView(userID: "u-1")
            .waybillOverlay(self.live)
            .waybill(self.tracker)
    }
}

struct PlaylistView: View {
    let userID: String?
    @State private var songID = "s-1"
    @Environment(\.waybill) private var waybill
    @Environment(\.screenTracker) private var tracker

    var body: some View {
        VStack {
            Text(verbatim: self.songID)
                .track(onAppear: SongShown(songID: self.songID), .once, id: self.songID)
                .track(onAppear: SongShown(songID: self.songID), .every(.seconds(60)))
                .track(onAppear: SongShown(songID: self.songID))
                .track(onTap: SongPlayed())
            Button("Next") {
                self.songID += "1"
                self.waybill?.track("song_next")
            }
        }
        .trackScreen("Playlist")
        .trackScreen("Playlist", type: "PlaylistView", id: "p-7")
        .trackScreen(PlaylistScreen(songCount: 12))
        .identify(self.userID, traits: ["tier": "PREMIUM", "trial": nil])
    }
}
