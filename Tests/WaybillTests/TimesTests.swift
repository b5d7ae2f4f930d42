import Testing
import Waybill
import WaybillEvent
import WaybillTesting

private struct CallEnded: ActionEvent {
    var name: String { "call_ended" }
    func encode(into fields: inout Fields) { fields.put("missed", false) }
}

@Test func `an event of an earlier time has that time, and its place among the others`() throws {
    let recorder = try Recorder()
    let waybill = recorder.waybill
    waybill.screen("Home")
    recorder.advance(by: .seconds(60))
    waybill.track(CallEnded(), at: .ago(.seconds(90))) { $0.put("line", 2) }
    recorder.advance(by: .seconds(5))
    waybill.track("later")
    let events = recorder.events
    #expect(events.map(\.sequence) == [1, 2, 3])
    #expect(events.map { $0[member: "up"] } == ["0", "60000", "65000"])
    #expect(
        events.map { $0[member: "ts"] } == [
            "2025-03-01T09:14:15.926Z", "2025-03-01T09:13:45.926Z", "2025-03-01T09:15:20.926Z",
        ])
    // The time since the last event counts from the one that happened when it was tracked.
    #expect(events.map { $0[member: "dt"] } == [nil, nil, "65000"])
    #expect(events.map { $0[member: "screen"] } == ["Home", nil, "Home"])
    #expect(Set(events.map { $0[member: "session"] }).count == 1)
    #expect(events[1].fields["missed"] == false && events[1].fields["line"] == 2)
}

@Test func `a screen of an earlier time is not the current one`() throws {
    let recorder = try Recorder()
    recorder.waybill.screen("Home")
    recorder.advance(by: .seconds(10))
    recorder.waybill.track("Old", .screen, at: .ago(.seconds(3600)))
    recorder.advance(by: .seconds(10))
    recorder.waybill.screen("Next")
    #expect(recorder.events.map { $0[member: "screen"] } == ["Home", "Old", "Next"])
    #expect(recorder.events.map { $0[member: "prev"] } == [nil, nil, "Home"])
    #expect(recorder.events.map { $0[member: "prev_ms"] } == [nil, nil, "20000"])
}

@Test(arguments: [
    (EventTime.milliseconds(since1970: 1_740_820_000_000), "2025-03-01T09:06:40.000Z"),
    (.milliseconds(since1970: 4_000_000_000_000), "2025-03-01T09:14:15.926Z"),
    (.milliseconds(since1970: -1), "1970-01-01T00:00:00.000Z"),
    (.milliseconds(since1970: .min), "1970-01-01T00:00:00.000Z"),
    (.ago(.seconds(Int64.max)), "1970-01-01T00:00:00.000Z"), (.ago(.milliseconds(926)), "2025-03-01T09:14:15.000Z"),
    (.ago(.seconds(-5)), "2025-03-01T09:14:15.926Z"), (.ago(.seconds(100 * 366 * 86_400)), "1970-01-01T00:00:00.000Z"),
])
func `a time that an event cannot have becomes the nearest`(time: EventTime, text: String) throws {
    let recorder = try Recorder()
    recorder.waybill.track("a", at: time)
    recorder.waybill.track("b")
    #expect(recorder.events.map { $0[member: "ts"] } == [text, "2025-03-01T09:14:15.926Z"])
}

@Test func `a timer says how long something took, by the monotonic clock`() throws {
    let recorder = try Recorder()
    let timer = recorder.waybill.startTimer()
    recorder.advance(by: .milliseconds(1500))
    timer.track(CallEnded())
    recorder.advance(by: .milliseconds(500))
    timer.track("checkout") { $0.put("method", "card") }
    timer.track("own") { $0.put("duration_ms", 7) }
    #expect(timer.elapsed == .milliseconds(2000))
    #expect(recorder.events.map { $0.fields["duration_ms"] } == [1500, 2000, 7])
    #expect(recorder.events[1].fields.map(\.name) == ["method", "duration_ms"])
    #expect(recorder.events[0][member: "ts"] == "2025-03-01T09:14:17.426Z")
}
