import Testing
import Waybill
import WaybillEvent
import WaybillSystem
import WaybillTestSupport
import WaybillTesting

private struct Scrolled: ActionEvent, FieldlessEvent { var name: String { "list_scrolled" } }
private struct Bought: ActionEvent, FieldlessEvent { var name: String { "bought" } }

@Test func `sampled events say their rate, the others are counted and leave no gap`() throws {
    let client = try Client(adjusting: { $0.sampling = [.events(0.25, Scrolled.self)] })
    for _ in 0..<400 {
        client.track(Scrolled())
        client.track(Bought())
    }
    let scrolled = client.lines.filter { $0.contains("list_scrolled") }
    #expect(scrolled.count > 50 && scrolled.count < 150)
    #expect(scrolled.allSatisfy { $0.hasSuffix(",\"sample_rate\":0.25}\n") })
    #expect(client.lines.count { $0.contains("bought") && !$0.contains("sample_rate") } == 400)
    #expect(client.core.counters.dropped(.sampled) == UInt64(400 - scrolled.count))
    #expect(client.members("seq") == client.lines.indices.map { "\($0 + 1)" })
    #expect(!client.lines.contains { $0.contains("wb.dropped") })
}

@Test func `users are sampled whole, what is said about them is not`() throws {
    let client = try Client(adjusting: { $0.sampling = [.users(0.5)] })
    var kept = 0
    for user in 0..<100 {
        #expect(client.core.setUser("u-\(user)", traits: [:]) != .dropped(.sampled))
        let outcomes = (0..<3).map { _ in client.track(Bought()) }
        let storedCount = outcomes.count { $0 != .dropped(.sampled) }
        #expect(storedCount == 0 || storedCount == 3)
        kept += storedCount / 3
    }
    #expect(kept > 25 && kept < 75)
    #expect(client.lines.count { $0.contains("set_user") } == 100)
}

@Test func `filters see every event, registered fields and traits, and nothing of Waybill's own`() throws {
    let client = try Client(adjusting: { configuration in
        configuration.filters = [
            .removing("email"), .hashing("phone"),
            EventFilter { if $0.name == "noise" || $0.isOf(Scrolled.self) { $0.drop() } },
        ]
    })
    _ = client.core.register { fields in
        fields.put("email", "a@example.com")
        fields.put("plan", "pro")
    }
    _ = client.core.setUser("u", traits: ["email": "a@example.com", "phone": "1"])
    #expect(client.track("noise") == .dropped(.filtered))
    #expect(client.track(Scrolled()) == .dropped(.filtered))
    #expect(client.track("kept") { $0.put("email", "a@example.com") } == .stored(seq: 2))
    #expect(client.core.counters.dropped(.filtered) == 2)
    #expect(!client.lines.joined().contains("example.com"))
    #expect(client.members("plan") == ["-", "\"pro\""])
    #expect(member("phone", of: client.lines[0]).count == 34)
}

@Test func `hashes of one install are equal until a reset`() throws {
    let disk = FaultyFiles()
    let client = try Client(on: disk)
    client.track("a") { $0.put("email", private: "a@example.com") }
    client.core.enter(.background)
    let next = try Client(on: disk, seed: 2)
    next.track("b") { $0.put("email", private: "a@example.com") }
    try next.core.reset()
    next.track("c") { $0.put("email", private: "a@example.com") }
    let hashes = next.members("email")
    #expect(hashes[0] == hashes[1])
    #expect(hashes[1] != hashes[2])
    #expect(!next.lines.joined().contains("example.com"))
}

@Test func `a server says with each event whose it is`() throws {
    let client = try Client()
    let waybill = client.waybill
    let session = "0195505e-aaaa-7000-8000-0000000000aa"
    var visitor = Visitor(user: "u-1", anonymous: "cookie-1", session: session)
    visitor.vendorIDs = [.ga4: "7B2F1E0C9D8A4B5C6D7E8F9012345678"]
    waybill.track(Bought(), by: visitor)
    waybill.track(Bought(), by: Visitor(user: "u-2"))
    waybill.track(Bought(), by: Visitor(user: "u-2"))
    waybill.setTraits(["tier": "PREMIUM", "old": nil], of: visitor)
    waybill.track(Bought())
    #expect(client.members("user") == ["\"u-1\"", "\"u-2\"", "\"u-2\"", "\"u-1\"", "-"])
    let anonymous = client.members("anon")
    #expect(anonymous[0] == "\"cookie-1\"" && anonymous[3] == "\"cookie-1\"")
    #expect(anonymous[1] == anonymous[2] && anonymous[1] != anonymous[4] && anonymous[1].count == 34)
    #expect(client.members("session")[0] == "\"\(session)\"")
    #expect(client.members("session")[1] == "-" && client.members("session")[4].count == 38)
    #expect(client.members("session_n") == ["-", "-", "-", "-", "1"])
    #expect(client.lines[0].contains(#""ids":{"ga4":"7B2F1E0C9D8A4B5C6D7E8F9012345678"}"#))
    #expect(client.lines[3].contains(#""traits":{"tier":"PREMIUM","old":null}"#))
}

@Test func `a visitor's event says nothing of the process`() throws {
    let client = try Client()
    let waybill = client.waybill
    _ = client.core.setUser("operator", traits: [:])
    _ = client.core.setConsent(analytics: true, ads: true)
    client.screen("Console")
    var visitor = Visitor(user: "u-1", anonymous: "cookie-1")
    waybill.track(Bought(), by: visitor)
    waybill.track(Home(), by: visitor)
    client.track("tap", .action)
    visitor.consent = Consent(analytics: true, ads: false)
    waybill.track(Bought(), by: visitor)
    visitor.consent?.analytics = false
    #expect(waybill.track(Bought(), by: visitor) == .dropped(.optedOut))
    let lines = client.lines.suffix(4)
    #expect(lines.map { member("screen", of: $0) } == ["-", "\"Home\"", "\"Console\"", "-"])
    #expect(lines.map { member("prev", of: $0) } == ["-", "-", "-", "-"])
    #expect(lines.map { member("dt", of: $0) } == ["-", "-", "0", "-"])
    for key in ["session", "os", "tz"] {
        #expect(lines.map { member(key, of: $0) == "-" } == [true, true, false, true], "\(key)")
    }
    #expect(lines.map { $0.contains("\"consent\":{\"analytics\":true,\"ads\":true}") } == [false, false, true, false])
    #expect(lines.last?.contains("\"consent\":{\"analytics\":true,\"ads\":false}") == true)
}

private struct Home: ScreenEvent, FieldlessEvent {}

@Test func `time in the background is not spent on a screen`() throws {
    let client = try Client()
    client.screen("A")
    client.clock.advance(milliseconds: 1000)
    client.core.enter(.background)
    client.clock.advance(milliseconds: 60_000)
    client.core.enter(.foreground)
    client.clock.advance(milliseconds: 500)
    client.screen("B")
    #expect(client.members("prev_ms") == ["-", "1500"])
}

private struct Shared: ActionEvent {
    var name: String { "shared" }
    func encode(into fields: inout Fields) { fields.put("id", 1) }
    func customize(_ overrides: inout Overrides) {
        overrides[.ga4].name = "share"
        overrides[.ga4].rename("id", to: "item_id")
        overrides[.ga4].set("method", "own")
        overrides[.mixpanel].name = "Shared"
    }
}

private struct Guarded: ActionEvent {
    let coupon: String?
    var name: String { "guarded" }
    func encode(into fields: inout Fields) { fields.put("secret", 1) }
    func customize(_ overrides: inout Overrides) {
        overrides[.ga4].replaceAll { $0.put("coupon", self.coupon) }
    }
}

@Test func `replacing all fields replaces those of the call and registered ones, also by none`() throws {
    let client = try Client()
    client.waybill.register { $0.put("plan", "pro") }
    client.waybill.track(Guarded(coupon: nil)) { $0.put("source", "feed") }
    client.waybill.track(Guarded(coupon: "c-1"))
    #expect(
        client.lines[0].contains(
            #""data":{"secret":1,"source":"feed","plan":"pro"},"overrides":{"ga4":{"data":{}}}"#))
    #expect(client.lines[1].contains(#""overrides":{"ga4":{"data":{"coupon":"c-1"}}}"#))
}

@Test func `what a call site adds reaches providers whose fields are edited`() throws {
    let client = try Client()
    client.waybill.track(Shared()) { fields in
        fields.put("method", "mail")
        fields.put("tags", ["a", "b"])
        fields.put("place", object: { $0.put("row", 2) })
    }
    #expect(client.lines[0].contains(#""data":{"id":1,"method":"mail","tags":["a","b"],"place":{"row":2}}"#))
    #expect(
        client.lines[0].contains(
            #""ga4":{"name":"share","data":{"item_id":1,"method":"own","tags":["a","b"],"place":{"row":2}}}"#))
    #expect(client.lines[0].contains(#""mixpanel":{"name":"Shared"}"#))
}

@Test func `a new session is one that events can say`() throws {
    let client = try Client()
    let sessions = [Visitor.newSession(), Visitor.newSession()]
    for session in sessions { client.waybill.track(Bought(), by: Visitor(user: "u", session: session)) }
    #expect(client.members("session") == sessions.map { "\"\($0)\"" })
    #expect(sessions[0] != sessions[1])
}

@Test(arguments: [
    Visitor(), Visitor(user: ""), Visitor(user: String(repeating: "u", count: 257)), Visitor(anonymous: "abcd"),
    Visitor(user: "u", session: "not-a-session"), Visitor(user: "u", session: "0195505E-AAAA-7000-8000-0000000000AA"),
])
func `a visitor that cannot be said is refused`(visitor: Visitor) throws {
    let client = try Client()
    #expect(client.waybill.track(Bought(), by: visitor) == .dropped(.invalid))
}

@Test func `visitors are sampled by what they are, not by whose process it is`() throws {
    let client = try Client(adjusting: { $0.sampling = [.users(0.5)] })
    let waybill = client.waybill
    let outcomes = (0..<100).map { waybill.track(Bought(), by: Visitor(user: "u-\($0)")) != .dropped(.sampled) }
    #expect(outcomes == (0..<100).map { waybill.track(Bought(), by: Visitor(user: "u-\($0)")) != .dropped(.sampled) })
    #expect(Set(outcomes).count == 2)
}

@Test func `the app's life is recorded when it wants that`() throws {
    let disk = FaultyFiles()
    let first = try Client(on: disk, adjusting: { $0.lifecycle = .recorded })
    first.clock.advance(milliseconds: 5000)
    first.core.enter(.background)
    first.core.enter(.background)
    first.clock.advance(milliseconds: 2000)
    first.core.enter(.foreground)
    #expect(
        first.members("name")
            == ["\"app_installed\"", "\"app_opened\"", "\"app_backgrounded\"", "\"app_foregrounded\""])
    #expect(first.members("foreground_ms")[2] == "5000")
    #expect(first.members("background_ms")[3] == "2000")
    first.core.enter(.background)
    let updated = try Client(
        on: disk, seed: 2,
        adjusting: { configuration in
            configuration.lifecycle = .recorded
            configuration.version = "1.5.0"
        })
    let line = try #require(updated.lines.first { $0.contains("app_updated") })
    #expect(line.contains(#""data":{"previous_app":"1.4.2","previous_build":"118"}"#))
    updated.core.enter(.background)
    let silent = try Client(on: disk, seed: 3)
    let count = silent.lines.count
    silent.core.enter(.background)
    #expect(silent.lines.count == count)
}

@Test(arguments: [(2000, false), (2001, true), (-2000, false), (-2001, true), (-40_000_000, true)])
func `a wall clock that jumps by more than two seconds is told of`(milliseconds: Int64, isTold: Bool) throws {
    let client = try Client()
    client.track("a")
    client.clock.jump(milliseconds: milliseconds)
    client.clock.advance(milliseconds: 60_000)
    client.track("b")
    client.track("c")
    let told = isTold ? ["\"wb.clock\""] : []
    #expect(client.members("name") == ["\"a\""] + told + ["\"b\"", "\"c\""])
    if isTold { #expect(client.members("jump_ms")[1] == "\(milliseconds)") }
    #expect(client.members("seq") == client.lines.indices.map { "\($0 + 1)" })
}

@Test func `a filter reaches objects that a call site adds to fields of a provider's own`() throws {
    let client = try Client(adjusting: { $0.filters = [.removing("email"), .hashing("phone")] })
    client.waybill.track(Shared()) { fields in
        fields.put(
            "customer",
            object: { customer in
                customer.put("email", "a@example.com")
                customer.put("phone", "555-0101")
            })
    }
    #expect(!client.lines[0].contains("a@example.com"))
    #expect(!client.lines[0].contains("555-0101"))
}

@Test func `a removed trait is removed, not hashed`() throws {
    let client = try Client(adjusting: { $0.filters = [.hashing("phone")] })
    client.core.setUser("u", traits: ["phone": nil])
    #expect(client.lines[0].contains(#""traits":{"phone":null}"#))
}

@Test func `what every event says leaves room for an event's own`() throws {
    let client = try Client()
    let waybill = client.waybill
    #expect(!waybill.register { $0.put("x", String(repeating: "x", count: 9000)) })
    #expect(waybill.register { $0.put("x", String(repeating: "\u{1}", count: 1300)) })
    #expect(!waybill.setVendorID(String(repeating: "v", count: 1100), for: .ga4))
    #expect(waybill.setVendorID(String(repeating: "\u{1}", count: 1000), for: .ga4))
    #expect(!waybill.setVendorID("more than there is room for", for: .flurry))
    #expect(waybill.setVendorID(nil, for: .flurry))
    #expect(client.track("a") { $0.put("own", String(repeating: "o", count: 10_000)) } == .stored(seq: 1))
}

@Test func `a rate beyond a share is the nearest share`() throws {
    for (rate, isStored) in [(0, false), (-1, false), (2, true), (Double.nan, true)] {
        let client = try Client(adjusting: { $0.sampling = [.events(rate), .users(rate)] })
        #expect((client.track("a") == .stored(seq: 1)) == isStored)
    }
}

@Test func `time before a screen that was entered in the background is not taken from it`() throws {
    let client = try Client()
    client.core.enter(.background)
    client.clock.advance(milliseconds: 3_600_000)
    client.screen("FromPush")
    client.clock.advance(milliseconds: 100)
    client.core.enter(.foreground)
    client.clock.advance(milliseconds: 600_000)
    client.screen("Next")
    #expect(client.members("prev_ms") == ["-", "600000"])
}

@Test func `time on a screen is told once`() throws {
    let client = try Client()
    client.screen("A")
    client.clock.advance(milliseconds: 1000)
    client.track("screen_end")
    client.core.screenEnded()
    client.screen("B")
    client.clock.advance(milliseconds: 1000)
    client.screen("C")
    #expect(client.members("prev") == ["-", "-", "\"A\"", "\"B\""])
    #expect(client.members("prev_ms") == ["-", "-", "-", "1000"])
}

@Test func `events of the client's own go to system logs alone`() throws {
    let client = try Client(providers: [.all(.ga4), .only(.mixpanel, Shared.self)])
    _ = client.core.setConsent(analytics: true, ads: true)
    client.track("a")
    let events = client.lines.compactMap { EventView(line: Array($0.utf8)) }
    #expect(events.map { $0.delivery(to: .ga4)?.name } == [nil, "a"])
    #expect(events.map { $0.delivery(to: .mixpanel)?.name } == [nil, nil])
}

@Test func `counters and events print what they are`() throws {
    let client = try Client(adjusting: { $0.sampling = [.events(0, Rarely.self)] })
    client.track("a")
    client.track(Rarely())
    client.track("")
    #expect(
        client.core.counters.description == "1 stored, 2 dropped (sampled 1, invalid 1), 0 held, 0 evicted")
    let line = client.lines[0]
    #expect(EventView(line: Array(line.utf8)).map { "\($0)\n" } == line)
}

private struct Rarely: ActionEvent, FieldlessEvent {
    var name: String { "rarely" }
}
