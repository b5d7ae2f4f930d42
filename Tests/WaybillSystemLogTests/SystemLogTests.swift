import Glibc
import Testing
import Waybill
import WaybillSystem
import WaybillSystemLog
import WaybillTestSupport

/// Keeps what it sees.
private final class Witness: EventObserver {
    private let seen = Lock<[EventView]>([])

    var events: [EventView] { self.seen.withLock { $0 } }

    func eventStored(_ event: EventView) { self.seen.withLock { $0.append(event) } }
}

/// A folder with a spool and with the paths of the sockets.
private struct Site {
    let folder: String
    let waybill: WaybillClient

    var sockets: SystemLogSockets {
        var sockets = SystemLogSockets()
        sockets.journal = "\(self.folder)/journal"
        sockets.syslog = "\(self.folder)/log"
        return sockets
    }

    init(_ folder: String) throws {
        self.folder = folder
        var configuration = WaybillClient.Configuration(
            spool: "\(folder)/spool", environment: .prod, bundle: "com.example.shop", version: "1.4.2", build: "118")
        configuration.device = .init(os: "Linux", osVersion: "6.1")
        self.waybill = try WaybillClient(configuration)
    }

    /// The views of what `body` stores.
    func events(_ body: (WaybillClient) -> Void) -> [EventView] {
        let witness = Witness()
        let token = self.waybill.observe(.all(witness))
        body(self.waybill)
        token.drain()
        token.cancel()
        return witness.events
    }

    func events(_ count: Int) -> [EventView] {
        self.events { waybill in
            for index in 0..<count { waybill.track("e\(index)") }
        }
    }
}

private func at(_ milliseconds: Int64) -> MonotonicTime {
    MonotonicTime(nanoseconds: milliseconds * 1_000_000)
}

/// A secret in every place that an app can put one.
private func tellSecrets(_ waybill: WaybillClient) {
    waybill.setUser("secret-user", traits: ["secret-trait-name": "secret-trait"])
    waybill.screen("Shopping", id: "secret-screen-id") { $0.put("secret-name", "secret-value") }
    waybill.track("Product Tapped", .action) { $0.put("note", "secret\nline") }
    waybill.setConsent(analytics: true, ads: false)
}

@Test
func `journald gets an event with the names of the export`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let journal = try LocalSocket(site.sockets.journal, .datagram)
        let log = SystemLogObserver(privacy: .fields, sockets: site.sockets)
        let events = site.events { waybill in
            waybill.setUser("u-1", traits: ["tier": "PREMIUM", "age": nil])
            waybill.screen("Shopping", type: "ShoppingView")
            waybill.track("Product Tapped", .action) { fields in
                fields.put("productName", "=cmd \"토스터\", 2구")
                fields.put("price-₩", 39_900)
                fields.put("토스터", true)
                fields.put("tags", ["a", "b"])
                fields.putNull("gone")
            }
        }
        for event in events { log.eventStored(event, at: at(0)) }
        let datagrams = try journal.receiveAll()
        #expect(datagrams.allSatisfy { $0.memory == nil })
        let entries = try datagrams.map { try journalFields($0.bytes) }
        #expect(entries.count == 3)
        let tapped = events[2]
        #expect(
            entries.last == [
                JournalField(name: "MESSAGE", value: "Product Tapped"),
                JournalField(name: "PRIORITY", value: "6"),
                JournalField(name: "SYSLOG_FACILITY", value: "16"),
                JournalField(name: "SYSLOG_IDENTIFIER", value: "com.example.shop"),
                JournalField(name: "SYSLOG_TIMESTAMP", value: tapped[member: "ts"] ?? ""),
                JournalField(name: "WB_ID", value: tapped[member: "id"] ?? ""),
                JournalField(name: "WB_WRITER", value: tapped[member: "writer"] ?? ""),
                JournalField(name: "WB_SEQ", value: "3"),
                JournalField(name: "WB_KIND", value: "action"),
                JournalField(name: "WB_SCREEN", value: "Shopping"),
                JournalField(name: "WB_APP", value: "1.4.2"),
                JournalField(name: "WB_BUILD", value: "118"),
                JournalField(name: "WB_ENV", value: "prod"),
                JournalField(name: "WB_SCREEN_CLASS", value: "ShoppingView"),
                JournalField(name: "WB_SESSION", value: tapped[member: "session"] ?? ""),
                JournalField(name: "WB_USER", value: "u-1"),
                JournalField(name: "WB_ANON", value: tapped[member: "anon"] ?? ""),
                JournalField(name: "WB_OS", value: "Linux"),
                JournalField(name: "WB_OS_VERSION", value: "6.1"),
                JournalField(name: "WB_D_PRODUCTNAME", value: "=cmd \"토스터\", 2구"),
                JournalField(name: "WB_D_PRICE__", value: "39900"),
                JournalField(name: "WB_D_X92E27D89", value: "true"),
                JournalField(name: "WB_D_TAGS", value: "[\"a\",\"b\"]"),
            ])
        #expect(entries[0].suffix(1) == [JournalField(name: "WB_D_TIER", value: "PREMIUM")])
        #expect(log.counters == SystemLogCounters(sent: 3))
    }
}

@Test
func `a value with a line break has its length in front and forges no field`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let journal = try LocalSocket(site.sockets.journal, .datagram)
        let log = SystemLogObserver(privacy: .fields, sockets: site.sockets)
        let events = site.events { waybill in
            waybill.track("two\nlines") { fields in
                fields.put("forged", "a\nPRIORITY=0\n")
                fields.put("tab", "a\tb\u{0}c")
                fields.put("empty", "")
                fields.put("break", "\n")
            }
        }
        for event in events { log.eventStored(event, at: at(0)) }
        let fields = try journalFields(try #require(try journal.receiveAll().first).bytes)
        #expect(fields.first == JournalField(name: "MESSAGE", value: "two\nlines", hasLength: true))
        #expect(
            fields.suffix(4) == [
                JournalField(name: "WB_D_FORGED", value: "a\nPRIORITY=0\n", hasLength: true),
                JournalField(name: "WB_D_TAB", value: "a\tb\u{0}c"),
                JournalField(name: "WB_D_EMPTY", value: ""),
                JournalField(name: "WB_D_BREAK", value: "\n", hasLength: true),
            ])
        #expect(fields.filter { $0.name == "PRIORITY" }.map(\.value) == ["6"])
    }
}

@Test
func `a datagram that is too large becomes sealed memory`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let journal = try LocalSocket(site.sockets.journal, .datagram)
        var sockets = site.sockets
        sockets.sendBufferByteCount = 4096
        let log = SystemLogObserver(privacy: .fields, sockets: sockets)
        let text = String(repeating: "토\n", count: 6000)
        let events = site.events { waybill in
            waybill.track("small")
            waybill.track("large") { $0.put("text", text) }
            waybill.track("small again")
        }
        for event in events { log.eventStored(event, at: at(0)) }
        let datagrams = try journal.receiveAll()
        #expect(datagrams.map { $0.memory != nil } == [false, true, false])
        let large = try #require(datagrams.count == 3 ? datagrams[1] : nil)
        #expect(large.bytes.isEmpty)
        let memory = try #require(large.memory)
        // F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_WRITE; 32 is F_SEAL_EXEC, which a system may add.
        #expect(memory.seals & ~32 == 15)
        let fields = try journalFields(memory.bytes)
        #expect(fields.first == JournalField(name: "MESSAGE", value: "large"))
        #expect(fields.last == JournalField(name: "WB_D_TEXT", value: text, hasLength: true))
        #expect(log.counters == SystemLogCounters(sent: 3))
    }
}

@Test(arguments: [true, false])
func `by default no value of a field and nothing about the user is shown`(hasJournal: Bool) throws {
    try withFolder { folder in
        let site = try Site(folder)
        let daemon = try LocalSocket(hasJournal ? site.sockets.journal : site.sockets.syslog, .datagram)
        let silent = SystemLogObserver(sockets: site.sockets)
        let events = site.events(tellSecrets)
        for event in events { silent.eventStored(event, at: at(0)) }
        let shown = try daemon.receiveAll().map { String(decoding: $0.bytes, as: UTF8.self) }
        #expect(shown.count == 4)
        let anonymous = try #require(events.first?[member: "anon"])
        let session = try #require(events.first?[member: "session"])
        for text in shown {
            #expect(!text.lowercased().contains("secret"))
            #expect(!text.contains(anonymous) && !text.contains(session))
        }
        #expect(shown[2].contains("Product Tapped") && shown[2].contains("Shopping") && shown[2].contains("action"))

        let open = SystemLogObserver(privacy: .fields, sockets: site.sockets)
        for event in events { open.eventStored(event, at: at(0)) }
        let all = try daemon.receiveAll().map { String(decoding: $0.bytes, as: UTF8.self) }
        #expect(all.allSatisfy { $0.contains("secret-user") })
        #expect(all[0].contains("secret-trait") && all[1].contains("secret-value"))
    }
}

@Test(arguments: [
    ("critical", "2"), ("ERROR", "3"), ("warning", "4"), ("notice", "5"), ("info", "6"), ("debug", "7"),
    ("trace", "7"), ("loud", "6"),
])
func `an event named log is as urgent as its level says`(level: String, priority: String) throws {
    try withFolder { folder in
        let site = try Site(folder)
        let journal = try LocalSocket(site.sockets.journal, .datagram)
        let log = SystemLogObserver(sockets: site.sockets)
        let events = site.events { waybill in
            waybill.track("log") { $0.put("level", level) }
            waybill.track("other") { $0.put("level", level) }
            waybill.setConsent(analytics: true, ads: true)
        }
        for event in events { log.eventStored(event, at: at(0)) }
        let priorities = try journal.receiveAll().map { datagram in
            try journalFields(datagram.bytes).first { $0.name == "PRIORITY" }?.value
        }
        #expect(priorities == [priority, "6", "5"])
    }
}

@Test
func `without journald an event is a line of syslog in local time`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let syslog = try LocalSocket(site.sockets.syslog, .datagram)
        let log = SystemLogObserver(privacy: .fields, sockets: site.sockets)
        let events = site.events { waybill in
            waybill.track("Product\nTapped", .action) { fields in
                fields.put("note", "a\"b\\c]\td\n")
                fields.put("a=b c", 1)
            }
        }
        for event in events { log.eventStored(event, at: at(0)) }
        let event = try #require(events.first)
        func text(_ member: String) -> String { event[member: member] ?? "?" }
        let time = try #require(event[member: "ts"].flatMap { WallTime(text: $0) })
        var seconds = time_t(time.milliseconds / 1000)
        var parts = tm()
        localtime_r(&seconds, &parts)
        var buffer = [CChar](repeating: 0, count: 32)
        let count = strftime(&buffer, buffer.count, "%b %e %H:%M:%S", &parts)
        let local = String(decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let line = String(decoding: try #require(try syslog.receiveAll().first).bytes, as: UTF8.self)
        #expect(
            line == "<134>\(local) com.example.shop[\(getpid())]: Product Tapped id=\"\(text("id"))\""
                + " writer=\"\(text("writer"))\" seq=\"1\" kind=\"action\" app=\"1.4.2\" build=\"118\" env=\"prod\""
                + " session=\"\(text("session"))\" anon=\"\(text("anon"))\""
                + " d.note=\"a\\\"b\\\\c\\] d \" d.a_b_c=\"1\"")
        #expect(log.counters == SystemLogCounters(sent: 1))
    }
}

@Test
func `a long line of syslog loses fields from its end and says how many`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let syslog = try LocalSocket(site.sockets.syslog, .datagram)
        let log = SystemLogObserver(privacy: .fields, sockets: site.sockets)
        let events = site.events { waybill in
            waybill.track(String(repeating: "n", count: 300)) { fields in
                for index in 0..<100 { fields.put("f\(index)", String(repeating: "\"", count: 20)) }
            }
        }
        for event in events { log.eventStored(event, at: at(0)) }
        let bytes = try #require(try syslog.receiveAll().first).bytes
        #expect(bytes.count <= 2048 && bytes.count > 1950)
        let line = String(decoding: bytes, as: UTF8.self)
        let keptCount = line.split(separator: " d.f").count - 1
        #expect(line.hasSuffix(" more=\"\(100 - keptCount)\""))
    }
}

@Test
func `a syslog that takes streams gets each line with a NUL behind it`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let log = SystemLogObserver(sockets: site.sockets)
        let events = site.events(4)
        do {
            let syslog = try LocalSocket(site.sockets.syslog, .stream)
            log.eventStored(events[0], at: at(0))
            log.eventStored(events[1], at: at(500))
            let bytes = try syslog.acceptAndRead()
            #expect(bytes.last == 0)
            let lines = bytes.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
            #expect(lines.map { $0.contains("]: e0 id=") } == [true, false])
            #expect(lines.map { $0.contains("]: e1 id=") } == [false, true])
        }
        // The daemon is gone, and back under the same name.
        unlink(site.sockets.syslog)
        let syslog = try LocalSocket(site.sockets.syslog, .stream)
        log.eventStored(events[2], at: at(2000))
        log.eventStored(events[3], at: at(4000))
        let text = String(decoding: try syslog.acceptAndRead(), as: UTF8.self)
        #expect(text.contains("]: e3 id="))
        // The event that met the dead connection has no other place to go.
        #expect(log.counters == SystemLogCounters(sent: 3, unreachable: 1))
    }
}

@Test
func `without any log events are counted, and it is looked for once a second`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let log = SystemLogObserver(sockets: site.sockets)
        let events = site.events(8)
        log.eventStored(events[0], at: at(0))
        log.eventStored(events[1], at: at(10))
        #expect(log.counters == SystemLogCounters(unreachable: 2))
        let journal = try LocalSocket(site.sockets.journal, .datagram)
        log.eventStored(events[2], at: at(999))
        #expect(log.counters == SystemLogCounters(unreachable: 3))
        log.eventStored(events[3], at: at(1000))
        log.eventStored(events[4], at: at(1001))
        #expect(log.counters == SystemLogCounters(sent: 2, unreachable: 3))
        let sequences = try journal.receiveAll().map { datagram in
            try journalFields(datagram.bytes).first { $0.name == "WB_SEQ" }?.value
        }
        #expect(sequences == ["4", "5"])
    }
}

@Test
func `a journald that dies gives way to syslog and gets the events back`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let log = SystemLogObserver(sockets: site.sockets)
        let events = site.events(6)
        let syslog = try LocalSocket(site.sockets.syslog, .datagram)
        do {
            let journal = try LocalSocket(site.sockets.journal, .datagram)
            log.eventStored(events[0], at: at(0))
            #expect(try journal.receiveAll().count == 1)
        }
        // Its name is still there, and no one listens.
        log.eventStored(events[1], at: at(2000))
        log.eventStored(events[2], at: at(2500))
        #expect(try syslog.receiveAll().count == 2)
        unlink(site.sockets.journal)
        let journal = try LocalSocket(site.sockets.journal, .datagram)
        log.eventStored(events[3], at: at(2999))
        #expect(try syslog.receiveAll().count == 1)
        log.eventStored(events[4], at: at(3000))
        log.eventStored(events[5], at: at(3000))
        #expect(try journal.receiveAll().count == 2)
        #expect(log.counters == SystemLogCounters(sent: 6))
    }
}

@Test
func `a journald that reads nothing holds no one up, and what it misses is counted`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let journal = try LocalSocket(site.sockets.journal, .datagram)
        // Syslog is there, and gets nothing: the journal is behind and not gone.
        let syslog = try LocalSocket(site.sockets.syslog, .datagram)
        let log = SystemLogObserver(sockets: site.sockets)
        // More than 512, the longest queue of datagrams in use (net.unix.max_dgram_qlen, set by systemd).
        let count = 1000
        for event in site.events(count) { log.eventStored(event, at: at(0)) }
        let counters = log.counters
        #expect(counters.sent > 0 && counters.full > 0)
        #expect(counters.sent + counters.full == UInt64(count))
        #expect(counters.leftOutCount == counters.full)
        #expect(try journal.receiveAll().count == Int(counters.sent))
        #expect(try syslog.receiveAll().isEmpty)
        for event in site.events(1) { log.eventStored(event, at: at(0)) }
        let last = try #require(try journal.receiveAll().first)
        #expect(try journalFields(last.bytes).contains(JournalField(name: "WB_SEQ", value: "\(count + 1)")))
    }
}

@Test
func `a syslog that reads nothing from its stream gets whole lines only`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let syslog = try LocalSocket(site.sockets.syslog, .stream)
        let log = SystemLogObserver(privacy: .fields, sockets: site.sockets)
        let count = 500
        let events = site.events { waybill in
            for _ in 0..<count { waybill.track("long") { $0.put("text", String(repeating: "x", count: 1500)) } }
        }
        for event in events { log.eventStored(event, at: at(0)) }
        let counters = log.counters
        #expect(counters.sent > 0 && counters.full > 0)
        #expect(counters.sent + counters.full == UInt64(count))
        let lines = try syslog.acceptAndRead().split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
        #expect(lines.count == Int(counters.sent))
        #expect(lines.allSatisfy { $0.hasPrefix("<134>") && $0.hasSuffix("xxx\"") })
    }
}

@Test
func `a client shows its events to the system's log by itself`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        let journal = try LocalSocket(site.sockets.journal, .datagram)
        let log = SystemLogObserver(sockets: site.sockets)
        let token = site.waybill.observe(.all(log))
        let other = site.waybill.observe(.all(log))
        site.waybill.track("one")
        site.waybill.track("two")
        token.drain()
        other.drain()
        let names = try journal.receiveAll().map { try journalFields($0.bytes).first?.value }
        #expect(names.sorted { $0 ?? "" < $1 ?? "" } == ["one", "one", "two", "two"])
    }
}

@Test
func `a path that no socket address can hold is a log that is not there`() throws {
    try withFolder { folder in
        let site = try Site(folder)
        var sockets = SystemLogSockets()
        sockets.journal = "/" + String(repeating: "x", count: 107)
        sockets.syslog = folder
        let log = SystemLogObserver(sockets: sockets)
        for event in site.events(2) { log.eventStored(event, at: at(0)) }
        #expect(log.counters == SystemLogCounters(unreachable: 2))
    }
}
