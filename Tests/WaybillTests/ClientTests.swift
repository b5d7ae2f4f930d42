import Testing
import Waybill
import WaybillEvent
import WaybillSystem
import WaybillTestSupport
import WaybillTesting

private struct MomentLiked: ActionEvent {
    let momentID: String
    var name: String { "moment_like" }
    func encode(into fields: inout Fields) { fields.put("momentID", self.momentID) }
    func customize(_ overrides: inout Overrides) {
        overrides[.ga4].name = "select_content"
        overrides[.ga4].replaceAll { $0.put("item_id", self.momentID) }
        overrides[.mixpanel].name = "Moment Liked"
    }
}

private struct MomentsScreen: ScreenEvent, FieldlessEvent {}

@Test func `a session of an app is these lines byte for byte`() throws {
    let client = try Client(providers: [.only(.ga4, MomentLiked.self), .all(.mixpanel)])
    client.track("app_open") { $0.put("cold", true) }
    client.clock.advance(milliseconds: 250)
    client.screen("Splash")
    client.clock.advance(milliseconds: 2150)
    client.core.setVendorID("0a1b2c3d4e5f60718293a4b5c6d7e8f9", for: .ga4)
    client.track(MomentsScreen())
    client.clock.advance(milliseconds: 3077)
    _ = client.core.setUser("u-8812345", traits: ["tier": "PREMIUM", "age": 31, "age_band": nil])
    _ = client.core.register { $0.put("plan", "pro") }
    client.track(MomentLiked(momentID: "m-17 \"토\"\n"))
    _ = client.core.setConsent(analytics: true, ads: false)
    client.track("shared", .action)
    client.clock.advance(milliseconds: 30 * 60 * 1000)
    client.track("back") { fields in
        fields.put("list", [1, 2])
        fields.put("big", Int64.max)
        fields.put("nan", Double.nan)
        fields.put("plan", "free")
        fields.put("items", objects: ["a", "b"]) { $0.put("id", $1) }
    }
    try client.core.reset()
    client.track("anew")
    #expect(client.lines == (try vectorLines("client.ndjson")))
}

@Test func `named categories of consent are these lines byte for byte`() throws {
    let client = try Client()
    let waybill = client.waybill
    waybill.track("before")
    waybill.setConsent(analytics: true, ads: false, categories: ["personalization": true, "maps": false])
    client.clock.advance(milliseconds: 250)
    waybill.track("after", ["id": 3])
    waybill.setConsent(analytics: true, ads: true)
    waybill.track("without categories")
    var visitor = Visitor(user: "u-17", anonymous: "b5372db1-c21e")
    visitor.consent = Consent(analytics: true, ads: false, categories: ["토": true])
    waybill.track("of a visitor", by: visitor)
    let expected = try vectorLines("consent.ndjson")
    #expect(client.lines == expected)
}

@Test func `events of earlier times are these lines byte for byte`() throws {
    let client = try Client()
    let waybill = client.waybill
    client.screen("Home")
    client.clock.advance(milliseconds: 5000)
    waybill.track("call_ended", .action, at: .ago(.seconds(90)))
    waybill.track("installed", at: .milliseconds(since1970: 1_700_000_000_123))
    waybill.track("in the future", at: .ago(.seconds(-60)))
    waybill.track("Old", .screen, at: .ago(.seconds(3600)))
    waybill.track("now")
    let expected = try vectorLines("earlier.ndjson")
    #expect(client.lines == expected)
}

@Test func `sequence numbers are contiguous and outcomes say them`() throws {
    let client = try Client()
    let outcomes = (0..<5).map { client.track("e\($0)") }
    #expect(outcomes == (1...5).map { .stored(seq: $0) })
    #expect(client.members("seq") == ["1", "2", "3", "4", "5"])
    #expect(Set(client.members("id")).count == 5)
}

@Test func `a screen event says the screen before it and how long that was shown`() throws {
    let client = try Client()
    client.screen("A")
    client.clock.advance(milliseconds: 1500)
    client.track("tap", .action)
    client.clock.jump(milliseconds: -2000)
    client.clock.advance(milliseconds: 500)
    client.screen("B")
    client.track("elsewhere", .action, on: ScreenRef("C"))
    client.track("tap", .action)
    #expect(client.members("screen") == ["\"A\"", "\"A\"", "\"B\"", "\"C\"", "\"B\""])
    #expect(client.members("prev") == ["-", "-", "\"A\"", "-", "-"])
    #expect(client.members("prev_ms") == ["-", "-", "2000", "-", "-"])
    #expect(client.members("dt") == ["-", "1500", "500", "0", "0"])
    #expect(client.members("up") == ["0", "1500", "2000", "2000", "2000"])
}

@Test func `a session ends after 30 minutes without an event`() throws {
    let client = try Client()
    client.track("a")
    client.clock.advance(milliseconds: 30 * 60 * 1000 - 1)
    client.track("b")
    client.clock.advance(milliseconds: 30 * 60 * 1000)
    client.track("c")
    #expect(client.members("session_n") == ["1", "1", "2"])
    let sessions = client.members("session")
    #expect(sessions[0] == sessions[1])
    #expect(sessions[1] != sessions[2])
    #expect(
        client.disk.bytes(of: "/spool/session.json").map { String(decoding: $0, as: UTF8.self) }?
            .contains("\"session_n\":2,") == true)
}

@Test func `the next process continues with the install and numbers its own lines`() throws {
    let disk = FaultyFiles()
    let first = try Client(on: disk)
    first.track("a")
    _ = first.core.setUser("u", traits: [:])
    let second = try Client(on: disk, seed: 2)
    second.track("b")
    #expect(first.core.installOrigin == .created)
    #expect(second.core.installOrigin == .continued)
    #expect(Set(second.members("anon")).count == 1)
    #expect(Set(second.members("writer")).count == 2)
    #expect(second.members("session_n") == ["1", "1", "1"])
    #expect(second.members("user").sorted() == ["\"u\"", "-", "-"])
}

@Test(arguments: ["", "{}", "{\"v\":1,\"anon\":\"b5372db0-c21e-41e4-8dfc-aa07a5b093db\",\"session_n\":-1}\n", "\u{0}"])
func `a damaged install file is set aside and the start continues`(text: String) throws {
    let disk = FaultyFiles()
    try disk.createDirectory("/spool")
    disk.place("/spool/install.json", Array(text.utf8))
    let client = try Client(on: disk)
    #expect(client.core.installOrigin == .setAside(path: "/spool/install.json.bad"))
    #expect(disk.bytes(of: "/spool/install.json.bad") == Array(text.utf8))
    #expect(client.track("a") == .stored(seq: 1))
    #expect(try Client(on: disk).core.installOrigin == .continued)
}

@Test func `a reset forgets the user in this process and the next`() throws {
    let client = try Client()
    _ = client.core.setUser("u", traits: [:])
    client.screen("A")
    try client.core.reset()
    client.track("after")
    let next = try Client(on: client.disk, seed: 2)
    next.track("next")
    let anonymous = Dictionary(zip(next.members("name"), next.members("anon"))) { $1 }
    #expect(anonymous["\"after\""] != anonymous["\"set_user\""])
    #expect(anonymous["\"next\""] == anonymous["\"after\""])
    let after = try #require(client.lines.first { $0.contains("\"after\"") })
    #expect([member("user", of: after), member("screen", of: after)] == ["-", "-"])
}

@Test func `without consent nothing but the consent itself is stored`() throws {
    let client = try Client()
    #expect(client.core.setConsent(analytics: false, ads: false) == .stored(seq: 1))
    #expect(client.track("a") == .dropped(.optedOut))
    #expect(client.core.setUser("u", traits: [:]) == .dropped(.optedOut))
    #expect(client.core.setConsent(analytics: true, ads: false) == .stored(seq: 2))
    #expect(client.track("b") == .stored(seq: 3))
    #expect(client.members("name") == ["\"wb.consent\"", "\"wb.consent\"", "\"b\""])
    // Who the user is was said meanwhile, and holds.
    #expect(client.members("user") == ["-", "\"u\"", "\"u\""])
    #expect(client.core.counters.dropped(.optedOut) == 2)
}

@Test func `events that cannot be written are dropped, counted and told of`() throws {
    let client = try Client()
    #expect(client.track("") == .dropped(.invalid))
    #expect(client.track("big") { $0.put("x", String(repeating: "x", count: 33_000)) } == .dropped(.tooLarge))
    #expect(client.core.setUser(String(repeating: "u", count: 257), traits: [:]) == .dropped(.invalid))
    #expect(client.track("a") == .stored(seq: 3))
    #expect(client.members("name") == ["\"wb.dropped\"", "\"wb.dropped\"", "\"a\""])
    #expect(client.lines[0].contains(#""data":{"count":1,"invalid":1}"#))
    #expect(client.lines[1].contains(#""data":{"count":2,"invalid":1,"too_large":1}"#))
    #expect(client.core.counters.droppedCount == 3)
}

@Test func `a full disk holds events in memory and takes them as soon as there is room`() throws {
    let client = try Client()
    client.track("a")
    client.disk.setFaults { _ in .error(Errno.noSpace) }
    for index in 0..<12 { #expect(client.track("held\(index)") == .held) }
    client.disk.setFaults { _ in .error(Errno.inputOutput) }
    #expect(client.track("held12") == .held)
    #expect(client.core.counters.heldCount == 13)
    client.disk.clearFaults()
    #expect(client.track("b") == .stored(seq: 15))
    #expect(client.members("name") == ["\"a\""] + (0..<13).map { "\"held\($0)\"" } + ["\"b\""])
    #expect(client.members("seq") == (1...15).map { "\($0)" })
    #expect(client.core.counters.heldCount == 0)
    #expect(client.core.counters.stored == 15)
    #expect(client.core.counters.droppedCount == 0)
}

@Test func `a disk that stays full costs the oldest events, which are counted and told of`() throws {
    let client = try Client()
    client.track("a")
    client.disk.setFaults { _ in .error(Errno.noSpace) }
    let filler = String(repeating: "x", count: 10_000)
    for index in 0..<100 { #expect(client.track("e\(index)") { $0.put("x", filler) } == .held) }
    let droppedCount = client.core.counters.dropped(.diskFull)
    #expect(droppedCount > 70 && droppedCount < 85)
    #expect(client.core.counters.heldCount == 100 - Int(droppedCount))
    client.disk.clearFaults()
    #expect(client.track("b") == .stored(seq: UInt64(client.lines.count)))
    let kept = (Int(droppedCount)..<100).map { "\"e\($0)\"" }
    #expect(client.members("name") == ["\"a\""] + kept + ["\"wb.dropped\"", "\"b\""])
    #expect(client.members("seq") == client.lines.indices.map { "\($0 + 1)" })
    #expect(client.lines[kept.count + 1].contains("\"data\":{\"count\":\(droppedCount),\"disk_full\":\(droppedCount)}"))
}

@Test func `an install that began on a full disk is saved as soon as there is room`() throws {
    let disk = FaultyFiles()
    // The folder is made, locked, and found without an install and a session in thirteen calls.
    disk.setFaults { $0.number >= 13 ? .error(Errno.noSpace) : nil }
    let client = try Client(on: disk)
    #expect(client.track("held") == .held)
    #expect(client.core.counters.installFailures == 1)
    disk.clearFaults()
    client.track("a")
    let next = try Client(on: disk, seed: 2)
    next.track("b")
    #expect(next.core.installOrigin == .continued)
    #expect(Set(next.members("anon")).count == 1)
}

@Test func `the zone is asked again when a quarter of an hour has passed`() throws {
    let client = try Client(zone: { $0.milliseconds < 1_740_820_500_000 ? 60 : -150 })
    client.track("a")
    client.clock.advance(milliseconds: 900_000)
    client.track("b")
    #expect(client.members("tz") == ["60", "-150"])
}

@Test func `fields registered beyond a line change nothing`() throws {
    let client = try Client()
    #expect(client.core.register { $0.put("plan", "pro") })
    #expect(!client.core.register { $0.put("x", String(repeating: "x", count: 33_000)) })
    client.track("a")
    #expect(client.members("plan") == ["\"pro\""])
}

@Test func `fields registered one after the other that are longer than a line change nothing`() throws {
    let client = try Client()
    #expect(client.core.register { $0.put("plan", "pro") })
    // Each fits into a line of its own, with its name, quotes and colon; not all of them behind the first.
    for byteCount in EventLimits.lineByteCountMax - 40...EventLimits.lineByteCountMax - 6 {
        #expect(!client.core.register { $0.put("x", String(repeating: "x", count: byteCount)) })
        client.track("a")
    }
    #expect(Set(client.members("plan")) == ["\"pro\""] && client.members("plan").count == 35)
}

@Test func `an event whose fields just fill a line, or do not, leaves later ones alone`() throws {
    let client = try Client()
    #expect(client.core.register { $0.put("id", "registered") })
    for byteCount in EventLimits.lineByteCountMax - 300...EventLimits.lineByteCountMax + 2 {
        client.track("long") { $0.put("x", String(repeating: "x", count: byteCount)) }
        client.track("name") { fields in
            fields.put(String(repeating: "k", count: byteCount), 1)
            fields.put("id", "own")
        }
        client.track("short")
    }
    #expect(client.members("name").count { $0 == "\"short\"" } == 303)
    #expect(client.lines.allSatisfy { $0.utf8.count <= EventLimits.lineByteCountMax })
}

@Test func `an event that a filter makes too long is not stored`() throws {
    let client = try Client(adjusting: { $0.filters = [.hashing("a", "b")] })
    #expect(client.core.register { $0.put("id", "registered") })
    for byteCount in EventLimits.lineByteCountMax - 80...EventLimits.lineByteCountMax - 20 {
        client.track("grows") { fields in
            fields.put("a", 1)
            fields.put("x", String(repeating: "x", count: byteCount - 40))
            fields.put("b", 2)
            fields.put("id", "own")
        }
        client.track("short")
    }
    let names = client.members("name")
    #expect(names.count { $0 == "\"short\"" } == 61)
    #expect(!names.contains("\"grows\""))
}

@Test func `an event may be tracked while another is being encoded`() throws {
    let client = try Client()
    client.track("outer") { fields in
        client.track("inner") { $0.put("a", 1) }
        fields.put("b", 2)
    }
    #expect(client.members("name") == ["\"inner\"", "\"outer\""])
}

@Test func `an unusable configuration is refused with what to do`() {
    var configuration = Client.configuration()
    configuration.bundle = ""
    let unnamed = #expect(throws: WaybillError.self) { _ = try WaybillClient(configuration) }
    #expect(unnamed?.description == "configuration: `bundle` is empty; name the app, as in com.example.shop")
    configuration = Client.configuration()
    configuration.spool = "/dev/null"
    let file = #expect(throws: WaybillError.self) { _ = try WaybillClient(configuration) }
    #expect(
        file?.description
            == "not-a-directory: createDirectory /dev/null: Not a directory (not-a-directory); name a directory")
}
