import Testing
import Waybill
import WaybillEvent
import WaybillSpool
import WaybillSystem
import WaybillTestSupport
import WaybillTesting

@Test func `consent may be said while drops are to be told of, and after a jump of the clock`() throws {
    let client = try Client()
    client.track("")
    #expect(client.core.setConsent(analytics: true, ads: true) == .stored(seq: 2))
    client.clock.jump(milliseconds: 5000)
    #expect(client.core.setConsent(analytics: true, ads: false) == .stored(seq: 4))
    #expect(client.members("name") == ["\"wb.dropped\"", "\"wb.consent\"", "\"wb.clock\"", "\"wb.consent\""])
}

@Test(arguments: [
    FaultyFiles.Fault.short, .error(Errno.noSpace), .short(thenError: Errno.noSpace),
    .short(thenError: Errno.inputOutput), .half(Errno.inputOutput),
])
func `lines of any lengths that waited together survive a fault at any call`(fault: FaultyFiles.Fault) throws {
    func run(_ faulty: Int?) throws -> (lines: [String], callCount: Int) {
        let client = try Client(segmentByteCountMax: 3000)
        client.track("first")
        client.disk.setFaults { _ in .error(Errno.noSpace) }
        // Long ones before short ones, and the other way round.
        for (index, byteCount) in [600, 6, 1500, 1, 1, 900, 30, 2000, 2].enumerated() {
            client.track("e\(index)") { $0.put("x", String(repeating: "x", count: byteCount)) }
        }
        let before = client.disk.callCount
        client.disk.setFaults { call in faulty.map { call.number == before + $0 } ?? false ? fault : nil }
        client.track("last")
        let callCount = client.disk.callCount - before
        client.disk.clearFaults()
        #expect(client.track("end") == .stored(seq: 12))
        return (client.lines, callCount)
    }
    let sound = try run(nil)
    for faulty in 0..<sound.callCount {
        let lines = try run(faulty).lines
        let names = ["first"] + (0..<9).map { "e\($0)" } + ["last", "end"]
        #expect(lines.map { member("name", of: $0) } == names.map { "\"\($0)\"" }, "\(fault) at call \(faulty)")
        #expect(lines.map { member("seq", of: $0) } == (1...12).map { "\($0)" }, "\(fault) at call \(faulty)")
    }
}

@Test func `a segment without a whole line keeps its name to itself, also in the background`() throws {
    let client = try Client()
    // The first line tears, and the disk refuses from then on.
    let opened = client.disk.callCount
    client.disk.setFaults { call in
        if call.number < opened + 3 { return nil }
        return call.number == opened + 3
            ? .short(thenError: Errno.inputOutput) : .error(Errno.inputOutput)
    }
    #expect(client.track("torn") == .held)
    let torn = client.disk.names(in: "/spool").filter { $0.hasSuffix(".ndjson") }
    if let name = torn.first {
        client.core.enter(.background)
        #expect(
            client.disk.isLocked("/spool/\(name)") == (client.disk.bytes(of: "/spool/\(name)")?.contains(10) == false))
    }
    client.disk.clearFaults()
    client.core.enter(.foreground)
    #expect(client.track("next") == .stored(seq: 2))
    #expect(client.members("name") == ["\"torn\"", "\"next\""])
}

@Test func `a reset stands, whatever other processes of the spool save`() throws {
    let disk = FaultyFiles()
    let first = try Client(on: disk)
    let second = try Client(on: disk, seed: 2)
    try first.core.reset()
    second.clock.advance(milliseconds: 31 * 60_000)
    second.track("in a new session")
    first.track("after the reset")
    let third = try Client(on: disk, seed: 3)
    third.track("third")
    let anonymous = Dictionary(zip(third.members("name"), third.members("anon"))) { $1 }
    #expect(anonymous["\"third\""] == anonymous["\"after the reset\""])
    #expect(anonymous["\"third\""] != anonymous["\"in a new session\""])
    // The third start continues the session of the reset.
    #expect(third.members("session_n").max() == "2")
}

@Test func `what the user allowed is remembered`() throws {
    let disk = FaultyFiles()
    let first = try Client(on: disk)
    _ = first.core.setConsent(analytics: false, ads: false)
    let silent = try Client(on: disk, seed: 2, adjusting: { $0.lifecycle = .recorded })
    #expect(silent.track("a") == .dropped(.optedOut))
    #expect(silent.members("name") == ["\"wb.consent\""])
    _ = silent.core.setConsent(analytics: true, ads: false)
    let allowed = try Client(on: disk, seed: 3)
    #expect(allowed.track("b") == .stored(seq: 1))
    #expect(allowed.lines.last?.contains("\"consent\":{\"analytics\":true,\"ads\":false}") == true)
}

@Test func `a start that cannot lock or write the install reads it nevertheless`() throws {
    let disk = FaultyFiles()
    let first = try Client(on: disk)
    first.track("a")
    let calls = disk.callCount
    // Looking at the folder and at the install works; the lock file cannot be opened.
    disk.setFaults { $0.number == calls + 3 ? .error(Errno.noSpace) : nil }
    let second = try Client(on: disk, seed: 2)
    second.track("b")
    #expect(Set(second.members("anon")).count == 1)
}

@Test func `the last interval before the end survives a power cut too`() throws {
    let disk = FaultyFiles()
    do {
        let client = try Client(on: disk, adjusting: { $0.durability = .power(every: .seconds(3600)) })
        client.track("a")
    }
    let name = try #require(disk.names(in: "/spool").first { $0.hasSuffix(".ndjson") })
    #expect(disk.durableByteCount(of: "/spool/\(name)") == disk.bytes(of: "/spool/\(name)")?.count)
}

@Test func `filters that drop hold for users and registered fields, and objects hide nothing from them`() throws {
    let client = try Client(adjusting: { configuration in
        configuration.filters = [
            EventFilter { if $0.fieldNames.contains("secret") { $0.drop() } }, .removing("email"), .hashing("phone"),
        ]
    })
    #expect(client.core.setUser("u", traits: ["secret": "x"]) == .dropped(.filtered))
    #expect(!client.core.register { $0.put("secret", "x") })
    client.track("a") { fields in
        fields.put(
            "customer",
            object: { customer in
                customer.put("email", "a@example.com")
                customer.put("name", "Kim")
                customer.put("phone", "1")
            })
        fields.put("email", "a@example.com")
        fields.put("items", objects: [1, 2]) { item, number in
            item.put("n", number)
            item.put("email", "b@example.com")
        }
        fields.put("last", [1])
    }
    let line = try #require(client.lines.first)
    #expect(!line.contains("example.com") && !line.contains("\"user\"") && !line.contains("secret"))
    #expect(line.contains(#""data":{"customer":{"name":"Kim","phone":""#))
    #expect(line.contains(#""},"items":[{"n":1},{"n":2}],"last":[1]}"#))
}

@Test(arguments: [32_700, 32_740, 32_756, 32_758, 32_760, 32_767])
func `a field of any length meets filters`(byteCount: Int) throws {
    let client = try Client(adjusting: { $0.filters = [.hashing("k"), .removing("k"), .hashing("a")] })
    let outcome = client.track("e") { fields in
        fields.put("a", String(repeating: "x", count: byteCount))
        fields.put("k", "value")
    }
    #expect([.stored(seq: 1), .dropped(.tooLarge)].contains(outcome))
}

@Test func `after a reset registered fields are gone, and hashes are others`() throws {
    let client = try Client()
    _ = client.core.register { $0.put("phone", private: "555-1234") }
    client.track("a")
    try client.core.reset()
    client.track("b")
    #expect(client.members("phone")[1] == "-")
}

@Test func `the records of a purge name no user`() throws {
    let client = try Client()
    _ = client.core.setUser("u-secret", traits: [:])
    client.screen("Secret")
    try client.core.purge()
    #expect(client.lines.count == 1)
    #expect(client.lines.allSatisfy { !$0.contains("ecret") })
}

@Test func `a purge takes what an earlier one or an eviction left`() throws {
    let disk = FaultyFiles()
    let first = try Client(on: disk)
    _ = first.core.setUser("u-1", traits: ["email": "a@example.com"])
    let name = try #require(disk.names(in: "/spool").first { $0.hasSuffix(".ndjson") })
    first.core.enter(.background)
    for suffix in [".evicted", ".purged", ".new"] {
        try disk.rename("/spool/\(name)", to: "/spool/\(name)\(suffix)")
        try first.core.purge()
        #expect(!disk.names(in: "/spool").contains { $0.hasSuffix(suffix) })
        let left = disk.names(in: "/spool").flatMap { disk.bytes(of: "/spool/\($0)") ?? [] }
        #expect(!String(decoding: left, as: UTF8.self).contains("example.com"))
        disk.place("/spool/\(name)", Array(#"{"v":1,"seq":1,"kind":"user","email":"a@example.com"}"#.utf8) + [10])
    }
}

@Test(arguments: 0..<12)
func `an interrupted purge is finished as one`(dead: Int) throws {
    let disk = FaultyFiles()
    let first = try Client(on: disk)
    _ = first.core.setUser("u-1", traits: ["email": "a@example.com"])
    let calls = disk.callCount
    disk.setFaults { $0.number >= calls + dead ? .error(Errno.inputOutput) : nil }
    // A purge that failed says so.
    let isDone = (try? first.core.purge()) != nil
    disk.clearFaults()
    let isAside = disk.names(in: "/spool").contains { $0.hasSuffix(".purged") }
    let next = try Client(on: disk, seed: 2)
    let isLeft = disk.names(in: "/spool").contains { disk.bytes(of: "/spool/\($0)").map(holdsUser) ?? false }
    #expect(!isLeft || !isDone && !isAside)
    try next.core.purge()
    #expect(!disk.names(in: "/spool").contains { disk.bytes(of: "/spool/\($0)").map(holdsUser) ?? false })
}

private func holdsUser(_ bytes: [UInt8]) -> Bool {
    String(decoding: bytes, as: UTF8.self).contains("example.com")
}

@Test func `one segment that fails keeps neither the others nor their records`() throws {
    let filler = String(repeating: "x", count: 500)
    for faulty in 0..<80 {
        let disk = FaultyFiles()
        let first = try Client(on: disk, segmentByteCountMax: 5000)
        for index in 0..<60 { first.track("e\(index)") { $0.put("filler", filler) } }
        first.core.enter(.background)
        let calls = disk.callCount
        disk.setFaults { $0.number == calls + faulty ? .error(Errno.inputOutput) : nil }
        guard
            let next = try? Client(
                on: disk, seed: 2, adjusting: { $0.quota = WaybillClient.Quota(byteCountMax: 10_000) })
        else { continue }
        disk.clearFaults()
        next.track("now")
        next.core.enter(.background)
        // Finishes what the fault interrupted.
        let last = try Client(on: disk, seed: 3)
        let left = next.members("name").count { $0.hasPrefix("\"e") }
        let told = next.lines.filter { $0.contains("wb.evicted") }.compactMap { Int(member("count", of: $0)) }
        // What failed after it was told of may be told of again.
        #expect(left + told.reduce(0, +) >= 60, "a fault at call \(faulty)")
        let counted = next.core.counters.evicted + last.core.counters.evicted
        #expect(Int(counted) == told.reduce(0, +), "a fault at call \(faulty)")
    }
}

@Test func `two processes that evict at the same time take nothing twice`() throws {
    let disk = FaultyFiles()
    let filler = String(repeating: "x", count: 500)
    let first = try Client(on: disk, segmentByteCountMax: 5000)
    _ = first.core.setUser("u-1", traits: [:])
    for index in 0..<100 { first.track("e\(index)") { $0.put("filler", filler) } }
    first.core.enter(.background)
    let spoken = try #require(first.lines.first)
    let clients = Lock<[Client]>([])
    let workers = (0..<4).map { index in
        Worker(name: "evictor") {
            guard
                let client = try? Client(
                    on: disk, seed: UInt64(2 + index),
                    adjusting: { $0.quota = WaybillClient.Quota(byteCountMax: 20_000) })
            else { return }
            client.track("now")
            clients.withLock { $0.append(client) }
        }
    }
    for worker in workers { worker.join() }
    let all = clients.withLock { $0 }
    #expect(all.count == 4)
    #expect(first.lines.count { $0 == spoken } == 1)
    #expect(all.allSatisfy { $0.core.counters.upkeepFailures == 0 })
    let evicted = all.reduce(0) { $0 + Int($1.core.counters.evicted) }
    #expect(first.lines.count { member("name", of: $0).hasPrefix("\"e") } + evicted == 100)
}

@Test func `kept segments bear no clock out`() throws {
    let disk = FaultyFiles()
    let filler = String(repeating: "x", count: 500)
    let client = try Client(
        on: disk, segmentByteCountMax: 5000,
        adjusting: { $0.quota = WaybillClient.Quota(byteCountMax: 30_000, ageMax: .seconds(86_400)) })
    _ = client.core.setUser("u", traits: [:])
    for index in 0..<60 { client.track("e\(index)") { $0.put("filler", filler) } }
    client.clock.jump(milliseconds: 365 * 86_400_000)
    disk.memory.now = client.clock.wallTime().milliseconds * 1_000_000
    for index in 60..<120 { client.track("e\(index)") { $0.put("filler", filler) } }
    #expect(!client.lines.contains { $0.contains("\"reason\":\"age\"") })
    #expect(try Client(on: disk, seed: 2, adjusting: { $0.quota.ageMax = .seconds(Int64.max) }).track("a") != .held)
}

@Test func `a synchronization fails when gathered lines cannot be written`() throws {
    let client = try Client(adjusting: { $0.durability = .memory })
    client.track("a")
    client.disk.setFaults { _ in .error(Errno.noSpace) }
    #expect(throws: WaybillError.self) { try client.core.synchronize() }
    client.disk.clearFaults()
    try client.core.synchronize()
    #expect(client.members("name") == ["\"a\""])
}

@Test func `a screen that no line tells of is still where the next events happen`() throws {
    let client = try Client(adjusting: { $0.sampling = [.events(0.000_001, Rare.self)] })
    client.screen("Home")
    #expect(client.track(Rare()) == .dropped(.sampled))
    client.track("tap", .action)
    #expect(client.track("big", .screen, on: ScreenRef(String(repeating: "s", count: 33_000))) == .dropped(.tooLarge))
    client.track("tap", .action)
    #expect(client.members("screen").filter { $0 != "-" } == ["\"Home\"", "\"Rare\"", "\"Rare\"", "\"Rare\""])
}

private struct Rare: ScreenEvent, FieldlessEvent {}

private struct Nothing: ScalarFieldValue { func append(to fields: inout Fields) {} }
private struct Meddling: FieldValue { func append(to fields: inout Fields) { fields.put("inner", 1) } }
private struct Twofold: ScalarFieldValue {
    func append(to fields: inout Fields) {
        "a".append(to: &fields)
        5.append(to: &fields)
    }
}
private struct Infinite: FieldValue {
    func append(to fields: inout Fields) { Double.infinity.append(to: &fields) }
}

@Test func `a value of the app's own that writes none, two, or a field, makes no broken line`() throws {
    let client = try Client()
    client.track("a") { fields in
        "raw".append(to: &fields)
        fields.put("nothing", Nothing())
        fields.put("x", 1)
        fields.put("meddling", Meddling())
        fields.put("infinite", Infinite())
        fields.put("y", object: { $0.put("nothing", Nothing()) })
        fields.put("z", Twofold())
        fields.put("list", [Nothing(), Nothing()])
        fields.put("lists", objects: [1]) { inner, _ in
            7.append(to: &inner)
            inner.put("q", [Twofold(), Twofold()])
        }
        fields.put("end", 2)
    }
    #expect(client.lines[0].contains(#""data":{"x":1,"y":{},"z":"a","list":[],"lists":[{"q":["a","a"]}],"end":2}"#))
    #expect(client.core.counters.repairs.nonFinite == 6)
    #expect(client.core.counters.repairs.nested == 6)
}

@Test func `values of smaller types are fields, too`() throws {
    let client = try Client()
    client.track("a") { fields in
        fields.put("a", Float(0.1))
        fields.put("b", UInt32.max)
        fields.put("c", Int32.min)
        fields.put("d", "xyz".dropFirst())
        fields.put("e", [UInt(7)])
        fields.put("f", Float.nan)
    }
    #expect(client.lines[0].contains(#""data":{"a":0.1,"b":4294967295,"c":-2147483648,"d":"yz","e":[7]}"#))
}

@Test func `names and kinds of Waybill's own are not the app's`() throws {
    let client = try Client()
    #expect(client.track("wb.dropped") == .dropped(.invalid))
    #expect(client.track("a", .meta) == .dropped(.invalid))
}

@Test func `hashed text never prints`() {
    let value = Scalar.hashed("555-1234")
    var text = "\(value) \(String(reflecting: value))"
    dump(value, to: &text)
    #expect(!text.contains("555"))
}
