import Testing
import Waybill
import WaybillEvent
import WaybillTesting

@Test func `events name the group that the user acts for`() throws {
    let recorder = try Recorder()
    let waybill = recorder.waybill
    #expect(waybill.setGroup("company", "c-17", traits: ["plan": "enterprise", "old": nil]) == .stored(seq: 1))
    waybill.track("a")
    waybill.setGroup("team", "t-1")
    waybill.track("b")
    waybill.setGroup("team", nil)
    waybill.track("c")
    let events = recorder.events
    #expect(events.map(\.name) == ["set_group", "a", "set_group", "b", "set_group", "c"])
    #expect(events.map { $0.fields["group_type"] } == ["company", "company", "team", "team", "team", nil])
    #expect(events.map { $0.fields["group_id"] } == ["c-17", "c-17", "t-1", "t-1", nil, nil])
    #expect(events[0].fields["traits"]?.json == #"{"plan":"enterprise","old":null}"#)
    #expect(events[2].fields["traits"] == nil)
}

@Test(arguments: [
    ("", "c-1"), ("company", ""), ("company", String(repeating: "x", count: 257)),
    (String(repeating: "t", count: 65), "c-1"),
])
func `a group that cannot be exported changes nothing`(type: String, id: String) throws {
    let recorder = try Recorder()
    recorder.waybill.setGroup("company", "c-17")
    #expect(recorder.waybill.setGroup(type, id) == .dropped(.invalid))
    recorder.waybill.track("a")
    #expect(recorder.events.last?.fields["group_id"] == "c-17")
    #expect(recorder.waybill.counters.dropped(.invalid) == 1)
}

@Test(arguments: [
    (
        "https://shop.example/p?utm_source=mail&utm_campaign=spring%20sale&x=1&gclid=Cj0K#top",
        "utm_source=mail utm_campaign=spring sale gclid=Cj0K"
    ),
    ("shop://p?utm_term=a+b&utm_medium=%ED%86%A0&utm_medium=second", "utm_medium=토 utm_term=a b"),
    ("?utm_source=100%&utm_content=%4", "utm_source=100% utm_content=%4"),
    ("?utm_source=%zz%41&fbclid=1=2", "utm_source=%zzA fbclid=1=2"),
    ("?utm_source=&utm_id", ""), ("https://shop.example/#?utm_source=x", ""), ("utm_source=x", ""), ("", ""),
    ("https://shop.example/?UTM_SOURCE=x&utm_sources=y", ""),
])
func `a campaign is read from a URL`(url: String, expected: String) throws {
    let recorder = try Recorder()
    #expect(recorder.waybill.setCampaign(from: url) == !expected.isEmpty)
    recorder.waybill.track("a")
    #expect(recorder.events[0].fields.map { "\($0.name)=\($0.text)" }.joined(separator: " ") == expected)
}

@Test func `a campaign replaces the one before, and a link without one leaves it`() throws {
    let recorder = try Recorder()
    let waybill = recorder.waybill
    waybill.register(["plan": "pro"])
    waybill.setCampaign(from: "?utm_source=mail&utm_term=shoes&gclid=1")
    #expect(!waybill.setCampaign(from: "https://shop.example/p/17?ref=home"))
    waybill.track("a")
    #expect(waybill.setCampaign(from: "?utm_source=ad"))
    waybill.track("b")
    try waybill.reset()
    waybill.track("c")
    #expect(
        recorder.events.map { $0.fields.map(\.name) } == [
            ["plan", "utm_source", "utm_term", "gclid"], ["plan", "utm_source"], [],
        ])
    #expect(recorder.events[1].fields["utm_source"] == "ad")
}

@Test func `what is beyond the limits of a URL is left out`() throws {
    let recorder = try Recorder()
    let long = String(repeating: "x", count: 256)
    #expect(!recorder.waybill.setCampaign(from: "?utm_source=\(long)"))
    #expect(!recorder.waybill.setCampaign(from: "?x=\(String(repeating: "y", count: 8 << 10))&utm_source=a"))
    #expect(recorder.waybill.setCampaign(from: "?utm_source=\(long.dropLast())"))
}

@Test func `a user who denies ads has no ids of clicks in later events`() throws {
    let recorder = try Recorder()
    let waybill = recorder.waybill
    waybill.setCampaign(from: "?utm_source=mail&gclid=1")
    waybill.setConsent(analytics: true, ads: false)
    waybill.track("a")
    waybill.setCampaign(from: "?utm_source=ad&fbclid=2")
    waybill.track("b")
    #expect(!waybill.setCampaign(from: "?fbclid=3"))
    #expect(recorder.events.dropFirst().map { $0.fields.map(\.name) } == [["utm_source"], ["utm_source"]])
}
