import Testing
import Waybill
import WaybillUI
import WaybillSystem

private func event(_ id: UInt64, _ label: String = "tap", _ lines: [String] = []) -> LiveEvent {
    LiveEvent(id: id, kind: .action, label: label, time: "09:14:19.003", lines: lines)
}

@Test
func `the newest events are kept, newest first`() {
    var stream = LiveStream()
    let count = UInt64(LiveStream.eventCountMax)
    for id in 1...count + 5 { stream.add(event(id)) }
    #expect(stream.rows.map(\.id) == (6...count + 5).reversed())
}

@Test
func `a paused stream stands still and loses nothing`() {
    var stream = LiveStream()
    stream.add(event(1))
    stream.pause()
    for id in 2...4 as ClosedRange<UInt64> { stream.add(event(id)) }
    stream.pause()  // Again: it stands where it stood.
    #expect(stream.rows.map(\.id) == [1])
    #expect(stream.isPaused && stream.hiddenCount == 3)
    stream.resume()
    #expect(stream.rows.map(\.id) == [4, 3, 2, 1])
    #expect(!stream.isPaused && stream.hiddenCount == 0)
}

@Test
func `a cleared stream starts anew, paused or not`() {
    var stream = LiveStream()
    stream.add(event(1))
    stream.pause()
    stream.clear()
    stream.add(event(2))
    #expect(stream.rows.isEmpty && stream.hiddenCount == 1)
    stream.resume()
    #expect(stream.rows.map(\.id) == [2])
}

@Test(arguments: [
    ("", [3, 2, 1]), ("PLAY", [3, 1]), ("토스터", [2]), ("price: 3", [2]), ("action", [3, 2, 1]), ("nothing", []),
])
func `a filter finds text in names, kinds and fields, in either case`(text: String, ids: [UInt64]) {
    var stream = LiveStream()
    stream.add(event(1, "screen_view Playlist"))
    stream.add(event(2, "product_tap", ["product: 토스터", "Price: 39900"]))
    stream.add(event(3, "tap", ["source: player"]))
    stream.setFilter(text)
    #expect(stream.rows.map(\.id) == ids)
    #expect(stream.filter == text)
}

@Test
func `a list that is shown again finds the filter that the last one set`() {
    let feed = LiveFeed()
    #expect(feed.filter.isEmpty)
    feed.setFilter("Play")
    feed.clear()
    #expect(feed.filter == "Play")
}

@Test
func `an event of the list is read from its line`() {
    let stored = storedEvent(
        .screen, #""name":"screen_view","screen":"Playlist","screen_id":"7","data":{"songs":12}"#, sequence: 42)
    let expected = LiveEvent(
        id: 42, kind: .screen, label: "screen_view Playlist", time: "09:14:19.003",
        lines: ["screen: Playlist", "screen_id: 7", "songs: 12"])
    #expect(LiveEvent(stored) == expected)
}

@Test(arguments: 0..<UInt64(20))
func `a stream shows what a list without a limit would show last`(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    var stream = LiveStream()
    var all: [LiveEvent] = []
    var shown: [LiveEvent]?
    for id in 1...500 as ClosedRange<UInt64> {
        let event = event(id, "e\(Int.random(in: 0..<4, using: &generator))")
        all = (all + [event]).suffix(LiveStream.eventCountMax)
        stream.add(event)
        switch Int.random(in: 0..<100, using: &generator) {
        case 0:
            stream.pause()
            shown = shown ?? all
        case 1:
            stream.resume()
            shown = nil
        case 2:
            stream.clear()
            all = []
            if shown != nil { shown = [] }
        case 3:
            stream.setFilter("E\(Int.random(in: 0..<4, using: &generator))")
            let label = stream.rows.first?.label
            #expect(stream.rows == (shown ?? all).reversed().filter { $0.label == label })
            stream.setFilter("")
        default:
            break
        }
        #expect(stream.rows == (shown ?? all).reversed())
    }
}
