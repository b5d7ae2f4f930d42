import Testing
import Waybill
import WaybillEvent
import WaybillTesting

@Test func `the fields of the configuration are in every event from the first on`() throws {
    let store = "kr"
    let recorder = try Recorder { configuration in
        configuration.lifecycle = .recorded
        configuration.registered = ["store": store, "beta": true, "none": nil]
    }
    recorder.waybill.register(["beta": false])
    recorder.waybill.track("a")
    #expect(recorder.names == ["app_installed", "app_opened", "a"])
    #expect(recorder.events.map { $0.fields["store"] } == ["kr", "kr", "kr"])
    #expect(recorder.events.map { $0.fields["beta"] } == [true, true, false])
    #expect(recorder.events.allSatisfy { $0.fields["none"] == nil })
}

@Test func `a reset keeps the fields of the configuration, with the new salt`() throws {
    let recorder = try Recorder { $0.registered = ["phone": Scalar.hashed("555"), "store": "kr"] }
    recorder.waybill.register(["plan": "pro"])
    recorder.waybill.track("before")
    try recorder.waybill.reset()
    recorder.waybill.track("after")
    let (before, after) = (recorder.events[0].fields, recorder.events[1].fields)
    #expect(after.map(\.name) == ["phone", "store"])
    #expect(before["phone"] != nil && before["phone"] != after["phone"])
}

@Test func `a configuration with more fields than lines have room for is refused`() {
    let error = #expect(throws: WaybillError.self) {
        _ = try Recorder { $0.registered = ["text": String(repeating: "x", count: 9000)] }
    }
    #expect(
        error?.description
            == "configuration: the 1 fields in `registered` exceed 8192 bytes, or a filter drops them; register fewer")
}

@Test func `a filter that drops every event does not keep an app without registered fields from starting`() throws {
    let recorder = try Recorder { $0.filters = [EventFilter { $0.drop() }] }
    try recorder.waybill.reset()
    #expect(recorder.waybill.track("a") == .dropped(.filtered))
}

@Test func `the events of the app's life are given to single providers by their types`() throws {
    let recorder = try Recorder { configuration in
        configuration.lifecycle = .recorded
        configuration.providers = [
            .only(.ga4, WaybillClient.AppInstalled.self, WaybillClient.AppBackgrounded.self),
            .only(.amplitude, WaybillClient.AppOpened.self, WaybillClient.AppForegrounded.self),
        ]
    }
    recorder.waybill.enter(.background)
    recorder.advance(by: .seconds(2))
    recorder.waybill.enter(.foreground)
    let events = recorder.events
    #expect(events.filter { $0.delivery(to: .ga4) != nil }.map(\.name) == ["app_installed", "app_backgrounded"])
    #expect(events.filter { $0.delivery(to: .amplitude) != nil }.map(\.name) == ["app_opened", "app_foregrounded"])
    #expect(recorder.last(WaybillClient.AppForegrounded.self)?.fields["background_ms"] == 2000)
    #expect(recorder.last(WaybillClient.AppUpdated.self) == nil)
}
