import Testing
import Waybill
import WaybillEvent
import WaybillTesting

private struct Profile {
    var tier = "PREMIUM"
    var age = 34
    var referrer: String?
}

@Test func `fields are given as a literal, in its order`() throws {
    let recorder = try Recorder()
    let profile = Profile()
    recorder.waybill.track("tap", ["id": 3])
    recorder.waybill.track("tap", .action, ["z": profile.tier, "a": profile.age, "none": profile.referrer, "t": true])
    recorder.waybill.track("tap", [:])
    let events = recorder.events
    #expect(events.map(\.kind) == [.event, .action, .event])
    #expect(
        events.map { $0.fields.map { "\($0.name)=\($0.json)" } } == [
            ["id=3"], ["z=\"PREMIUM\"", "a=34", "t=true"], [],
        ])
}

@Test func `fields of a dictionary are sorted, so that equal events have equal lines`() throws {
    let recorder = try Recorder()
    let counts = ["b": 2, "c": 3, "a": 1]
    let texts: [String: String?] = ["y": nil, "x": "1"]
    recorder.waybill.track("counted", counts)
    recorder.waybill.track("counted", texts)
    #expect(recorder.events.map { $0.fields.map(\.name) } == [["a", "b", "c"], ["x"]])
}

@Test func `traits are given as a literal or a dictionary, and nil removes one`() throws {
    let recorder = try Recorder()
    let profile = Profile()
    let fromServer = ["plan": "pro", "age": nil, "country": "kr"]
    recorder.waybill.setUser("u-1", traits: ["tier": "PREMIUM", "phone": .hashed("1"), "trial": nil])
    recorder.waybill.setUser("u-1", traits: ["tier": profile.tier, "age": profile.age, "referrer": profile.referrer])
    recorder.waybill.setUser("u-1", traits: fromServer)
    recorder.waybill.setTraits(["age": profile.age, "trial": nil])
    recorder.waybill.setTraits(fromServer)
    let traits = recorder.events.map { $0.fields.map { "\($0.name)=\($0.json)" } }
    #expect(traits[0][0] == "tier=\"PREMIUM\"" && traits[0][2] == "trial=null" && !traits[0][1].contains("\"1\""))
    #expect(traits[1] == ["tier=\"PREMIUM\"", "age=34", "referrer=null"])
    #expect(traits[2] == ["age=null", "country=\"kr\"", "plan=\"pro\""])
    #expect(traits[3] == ["age=34", "trial=null"])
    #expect(traits[4] == traits[2])
}

@Test func `registered fields add up, and one that is registered again has the new value`() throws {
    let recorder = try Recorder()
    let waybill = recorder.waybill
    #expect(waybill.register { $0.put("plan", "free") })
    #expect(waybill.register(["store": "kr", "items": 2]))
    #expect(waybill.register(["plan": "pro"]))
    waybill.track("a", ["store": "own"])
    #expect(recorder.events[0].fields.map { "\($0.name)=\($0.text)" } == ["store=own", "items=2", "plan=pro"])
    waybill.unregister("items", "unknown")
    waybill.track("b")
    #expect(recorder.events[1].fields.map(\.name) == ["store", "plan"])
    waybill.unregister("store", "plan")
    waybill.track("c")
    #expect(recorder.events[2].fields.isEmpty)
}

@Test func `a field is unregistered by its whole name, and objects keep theirs`() throws {
    let recorder = try Recorder()
    recorder.waybill.register { fields in
        fields.put("experiment", object: { $0.put("id", 7) })
        fields.put("id", "x")
        fields.put("id_long", "y")
    }
    recorder.waybill.unregister("id")
    recorder.waybill.track("a")
    #expect(recorder.events[0].fields.map { "\($0.name)=\($0.json)" } == ["experiment={\"id\":7}", "id_long=\"y\""])
}

@Test func `registered fields that would be too many together leave the earlier ones as they are`() throws {
    let recorder = try Recorder()
    let text = String(repeating: "x", count: 5000)
    #expect(recorder.waybill.register(["first": text]))
    #expect(!recorder.waybill.register(["second": text]))
    #expect(recorder.waybill.register(["first": "short"]) && recorder.waybill.register(["second": text]))
    recorder.waybill.track("a")
    #expect(recorder.events[0].fields["first"] == "short" && recorder.events[0].fields["second"]?.text == text)
}

@Test func `a server tracks events and pages of visitors by name`() throws {
    let recorder = try Recorder()
    let visitor = Visitor(user: "u-7", anonymous: "cookie-1")
    recorder.waybill.screen("Home")
    recorder.waybill.track("http_request", by: visitor) { $0.put("status", 200) }
    recorder.waybill.track("http_request", ["status": 404], by: visitor)
    recorder.waybill.track("tapped", .action, by: visitor)
    recorder.waybill.screen("Product", type: "product.html", id: "p-1", by: visitor)
    let events = recorder.events.dropFirst()
    #expect(events.map { $0[member: "user"] } == ["u-7", "u-7", "u-7", "u-7"])
    #expect(events.map { $0[member: "screen"] } == [nil, nil, nil, "Product"])
    #expect(events.map { $0.fields["status"] } == [200, 404, nil, nil])
    #expect(events.map(\.kind) == [.event, .event, .action, .screen])
    #expect(events.last?[member: "screen_class"] == "product.html" && events.last?[member: "screen_id"] == "p-1")
    recorder.waybill.track("later")
    #expect(recorder.events.last?[member: "screen"] == "Home")
}
