import Testing
import WaybillReport
import WaybillSystem
import WaybillTestSupport

/// How lines are found and read: checkpoints, origins, folders that several apps share, repeats.
@Suite struct ArchiveTests {
    private static let day = "archive/env=prod/bundle=com.example.shop/date=2026-11-02"
    /// 2026-11-02T00:00:00Z.
    private static let midnight: Int64 = 1_793_577_600_000
    private static let hour: Int64 = 3_600_000

    private let disk = MemoryDisk()

    /// A line of the app, at a number of hours of the day.
    private static func line(
        _ hour: Int64, _ install: String, id: String? = nil, screen: String = "Home", more: String = ""
    ) -> String {
        let time = WallTime(milliseconds: Self.midnight + hour * Self.hour).text
        return
            "{\(id.map { "\"id\":\"\($0)\"," } ?? "")\"ts\":\"\(time)\",\"kind\":\"screen\",\"name\":\"screen_view\","
            + "\"screen\":\"\(screen)\",\"anon\":\"\(install)\",\"bundle\":\"com.example.shop\",\"env\":\"prod\"\(more)}\n"
    }

    private func place(_ name: String, _ text: String, in folder: String = Self.day) {
        self.disk.place("/data/\(folder)/\(name)", Array(text.utf8))
    }

    /// Writes the archive's checkpoint, with the length of each file.
    private func commit(_ lengths: [String: Int], zone: String = "UTC") throws {
        try self.disk.createDirectories("/data/state")
        var changes: [String: String?] = ["position": "1", "zone": zone]
        for (path, length) in lengths { changes["file:" + path] = "\(length)" }
        var store = try StateStore(path: "/data/state/archive.state", files: self.disk)
        try store.commit(changes)
        try store.settle()
    }

    private func reports(
        _ names: [ReportName] = [.overview], _ change: (inout ReportOptions) -> Void = { _ in }
    ) throws -> ReportSet {
        var options = ReportOptions()
        change(&options)
        let request = try ReportRequest(
            names: names, options, now: WallTime(milliseconds: Self.midnight + 100 * Self.hour),
            files: POSIXFileSystem())
        return try Reporter(dataDirectory: "/data", files: self.disk, request: request).run()
    }

    @Test func `bytes after the checkpoint do not count`() throws {
        let first = Self.line(1, "a")
        self.place("part-00001.ndjson", first + Self.line(2, "b"))
        try self.commit(["\(Self.day)/part-00001.ndjson": first.utf8.count])
        #expect(try self.reports().reports[0].lines == ["2026-11-02 1 1 1 0 1 0"])
    }

    @Test func `a file that is shorter than its checkpoint is damaged`() throws {
        self.place("part-00001.ndjson", Self.line(1, "a"))
        let other = Self.day.dropLast(2) + "03"
        self.place("part-00001.ndjson", Self.line(25, "a"), in: String(other))
        try self.commit([
            "\(Self.day)/part-00001.ndjson": 4096, "\(other)/part-00001.ndjson": Self.line(25, "a").utf8.count,
        ])
        let set = try self.reports()
        #expect(set.damagedDays.map { $0.hasPrefix(Self.day) } == [true])
        #expect(set.reports[0].lines == ["2026-11-03 1 1 1 0 1 0"])
    }

    @Test func `of a repeated id the first file counts, and there the earliest line`() throws {
        self.place(
            "part-00001.ndjson",
            Self.line(3, "a", id: "x", screen: "Late") + Self.line(2, "a", id: "x", screen: "Early")
                + Self.line(4, "a", id: "x", screen: "Latest") + Self.line(5, "a") + Self.line(5, "a"))
        self.place("late-00001.ndjson", Self.line(1, "a", id: "x", screen: "Other") + Self.line(6, "a", id: "y"))
        let lines = try self.reports([.screens]).reports[0].lines
        #expect(lines.map { $0.split(separator: " ").prefix(2).joined(separator: " ") } == ["Home 3", "Early 1"])
        #expect(try self.reports().reports[0].lines == ["2026-11-02 4 1 1 0 4 1"])
    }

    @Test func `a file of lines longer than the buffer is read whole`() throws {
        let long = Self.line(1, "a", more: ",\"data\":{\"x\":\"\(String(repeating: "é", count: 900_000))\"}")
        self.place("part-00001.ndjson", long + Self.line(2, "b") + long)
        #expect(try self.reports().reports[0].lines == ["2026-11-02 3 2 2 0 3 0"])
    }

    // MARK: Origins

    private func sources(_ origins: [(description: String, received: Int64, text: String)]) -> (String, String) {
        var lines = ""
        var sources = ""
        for (number, origin) in origins.enumerated() {
            sources +=
                "OPEN \(number + 1) {\"stream\":\"8f14e45fceea167a-0000000000000000000\(number)\",\"source\":\"/a\","
                + "\"env\":\"prod\",\"bundle\":\"com.example.shop\",\(origin.description)}\n"
            sources +=
                "FROM \(number + 1) 0 \(origin.received) \(lines.utf8.count) \(origin.text.utf8.count) "
                + "\(origin.text.split(separator: "\n").count)\n"
            lines += origin.text
        }
        return (lines, sources)
    }

    @Test func `foreign lines have the time, name and people that their source names`() throws {
        let text =
            "{\"at\":\(Self.midnight / 1000),\"msg\":\"GET /\",\"uid\":\"u1\",\"id\":\"order-1\",\"user\":\"not\"}\n"
            + "{\"at\":\(Self.midnight / 1000 + 60),\"uid\":\"-\",\"id\":\"order-1\",\"name\":\"other\"}\n"
            + "{\"at\":\(Self.midnight / 1000 + 90),\"uid\":7,\"anon\":\"\",\"app\":\"2\"}\n"
        let (lines, sources) = self.sources([
            ("\"format\":\"ndjson\",\"time\":\"at\",\"name\":\"msg\",\"user\":\"uid\"", Self.midnight + 5000, text)
        ])
        self.place("part-00001.ndjson", lines)
        self.place("part-00001.sources", sources)
        let set = try self.reports([.overview, .breakdown, .arrival])
        #expect(set.reports[0].lines == ["2026-11-02 3 2 2 0 0 0"])
        #expect(set.reports[0].notes.contains { $0.hasPrefix("events that name neither") && $0.hasSuffix(": 1") })
        #expect(set.reports[1].lines == ["GET / 1 1 0.333", "log 1 1 0.333", "other 1 0 0.333"])
        #expect(
            set.reports[2].lines == ["2026-11-02 2 1 -85000 -85000 -85000 0", "2026-11-02 - 2 -25000 -1000 4400 0"])
    }

    @Test func `lines whose origin is lost are read as Waybill's own, and that is said`() throws {
        let (lines, sources) = self.sources([
            ("\"format\":\"waybill\"", Self.midnight + Self.hour + 70, Self.line(1, "a"))
        ])
        self.place("part-00001.ndjson", lines + Self.line(2, "b"))
        self.place("part-00001.sources", sources)
        let set = try self.reports([.overview, .arrival])
        #expect(set.reports[0].lines == ["2026-11-02 2 2 2 0 2 0"])
        #expect(set.reports[0].notes.contains { $0.contains("\(Self.line(2, "b").utf8.count) bytes is lost") })
        #expect(set.reports[1].lines == ["2026-11-02 - 2 70 70 70 0"])
    }

    @Test func `in another zone than the archive's the time of receipt decides what is late`() throws {
        // 2026-11-02 in Seoul is closed at 2026-11-02T19:00Z.
        let (lines, sources) = self.sources([
            ("\"format\":\"waybill\"", Self.midnight + 19 * Self.hour - 1, Self.line(1, "a")),
            ("\"format\":\"waybill\"", Self.midnight + 19 * Self.hour, Self.line(2, "b")),
            ("\"format\":\"waybill\"", 0, Self.line(3, "c")),
        ])
        self.place("part-00001.ndjson", lines)
        self.place("part-00001.sources", sources)
        try self.commit([
            "\(Self.day)/part-00001.ndjson": lines.utf8.count, "\(Self.day)/part-00001.sources": sources.utf8.count,
        ])
        #expect(try self.reports { $0.zone = "Asia/Seoul" }.reports[0].lines == ["2026-11-02 3 3 3 0 3 1"])
        let strict = try self.reports {
            $0.zone = "Asia/Seoul"
            $0.strictCutOff = true
        }
        #expect(strict.reports[0].lines == ["2026-11-02 2 2 2 0 2 0"])
        #expect(try self.reports { $0.zone = "UTC" }.reports[0].lines == ["2026-11-02 3 3 3 0 3 0"])
    }

    @Test func `a folder that several apps share gives the lines of the app alone`() throws {
        self.place("part-00001.ndjson", Self.line(1, "a"))
        let other = Self.line(2, "b").replacing("com.example.shop", with: "com.example.other")
        self.place(
            "part-00001.ndjson", other + Self.line(3, "c"), in: "archive/env=prod/bundle=_overflow/date=2026-11-02")
        #expect(try self.reports().reports[0].lines == ["2026-11-02 2 2 2 0 2 0"])
    }

    // MARK: Values

    @Test func `conditions and divisions choose events, while people are made from all`() throws {
        let tier = { (tier: String) in ",\"user\":\"u\",\"traits\":{\"tier\":\"\(tier)\"}" }
        let user = { (hour: Int64, name: String) in
            Self.line(hour, "a", more: tier(name)).replacing("\"kind\":\"screen\"", with: "\"kind\":\"user\"")
        }
        let escaped = Self.line(5, "a", more: ",\"\\u0061pp\":\"1.\\u0032\",\"data\":{\"\\u006b\":\"v\",\"n\":1.50}")
        self.place(
            "part-00001.ndjson",
            Self.line(1, "a") + user(2, "FREE") + Self.line(3, "a") + user(4, "PRO") + escaped
                + Self.line(6, "b", more: ",\"app\":\"1.1\",\"lang\":\"ko\""))
        func rows(_ by: String, _ conditions: [String] = []) throws -> [String] {
            try self.reports([.breakdown]) {
                $0.by = by
                $0.conditions = conditions
            }.reports[0].lines
        }
        #expect(try rows("traits.tier") == ["FREE 2 1 0.333", "PRO 2 1 0.333", "- 2 2 0.333"])
        #expect(try rows("version") == ["- 4 1 0.667", "1.1 1 1 0.167", "1.2 1 1 0.167"])
        #expect(try rows("data.n", ["data.k=v"]) == ["1.50 1 1 1"])
        #expect(try rows("lang", ["lang=*"]) == ["ko 1 1 1"])
        #expect(try rows("new", ["kind!=user & anon=a"]) == ["new 3 1 1"])
        let divided = try self.reports([.overview]) {
            $0.by = "version"
            $0.conditions = ["kind=screen"]
        }
        #expect(
            divided.reports[0].lines == [
                "1.1 2026-11-02 1 1 1 0 1 0", "1.2 2026-11-02 1 1 1 0 1 0", "- 2026-11-02 2 1 1 0 2 0",
            ])
    }

    @Test func `days that come twice by the clock count once`() throws {
        // Clocks in Asuncion went from 2024-03-24 00:00 back to 2024-03-23 23:00.
        let folder = "archive/env=prod/bundle=com.example.shop/date=2024-03-24"
        let texts = ["2024-03-24T02:30:00.000Z", "2024-03-24T03:30:00.000Z", "2024-03-24T04:30:00.000Z"]
        let lines = texts.map { Self.line(0, "a").replacing("2026-11-02T00:00:00.000Z", with: $0) }
        self.place("part-00001.ndjson", lines.joined(), in: folder)
        let rows = try self.reports { $0.zone = "America/Asuncion" }.reports[0].lines
        #expect(rows == ["2024-03-23 2 1 1 0 2 0", "2024-03-24 1 1 0 0 1 0"])
    }

    @Test func `a month counts a person's day once, also where clocks go back over midnight`() throws {
        // Clocks in St John's went from 2010-11-07 00:01 back to 2010-11-06 23:01: the days are 7, 6 and 7.
        let folder = "archive/env=prod/bundle=com.example.shop/date=2010-11-07"
        let texts = ["2010-11-07T02:30:10.000Z", "2010-11-07T02:40:00.000Z", "2010-11-07T03:35:00.000Z"]
        let lines = texts.map { Self.line(0, "a").replacing("2026-11-02T00:00:00.000Z", with: $0) }
        self.place("part-00001.ndjson", lines.joined(), in: folder)
        let set = try self.reports([.overview, .active]) { $0.zone = "America/St_Johns" }
        #expect(set.reports[0].lines == ["2010-11-06 1 1 1 0 1 0", "2010-11-07 2 1 0 0 2 0"])
        #expect(set.reports[1].lines == ["2010-11 1 1 1"])
    }

    @Test func `paths with the same text are one row`() throws {
        func view(_ hour: Int64, _ screen: String, _ session: String) -> String {
            Self.line(hour, "a", screen: screen, more: ",\"session\":\"\(session)\"")
        }
        func login(_ hour: Int64, _ session: String, _ install: String) -> String {
            Self.line(hour, install, screen: "", more: ",\"session\":\"\(session)\"")
                .replacing("\"kind\":\"screen\",\"name\":\"screen_view\",\"screen\":\"\"", with: "\"name\":\"login\"")
        }
        let nameless = view(2, "None", "s1").replacing("\"screen\":\"None\",", with: "")
        self.place(
            "part-00001.ndjson",
            view(1, "Home", "s1") + nameless + view(3, "Feed", "s1") + login(4, "s1", "a") + view(5, "Home", "s2")
                + view(6, "Feed", "s2") + login(7, "s2", "b") + view(8, "Home > Feed", "s3") + login(9, "s3", "b")
                + view(10, "(end)", "s2"))
        let set = try self.reports([.paths, .next]) {
            $0.before = "login"
            $0.screen = "Feed"
        }
        #expect(set.reports[0].lines == ["Home > Feed 3 2"])
        #expect(set.reports[1].lines == ["(end) 2 1"])
    }
}
