import Testing
import WaybillReport
import WaybillSystem
import WaybillTestSupport

@Suite struct BadInputTests {
    private let fixture = ShopFixture()

    private func failure(
        _ names: [ReportName], from: String? = "2026-11-02", to: String? = "2026-11-04",
        _ change: (inout ReportOptions) -> Void = { _ in }
    ) throws -> String {
        do {
            let set = try self.fixture.reports(names, from: from, to: to, change)
            return "no failure, \(set.reports.count) reports"
        } catch let error as ReportFailure {
            return error.description
        }
    }

    @Test func `a range without lines says which days are kept`() throws {
        let text = try self.failure([.overview], from: "2026-12-01", to: "2026-12-31")
        #expect(text.contains("2026-10-30 to 2026-11-04"))
    }

    @Test func `an environment or an app without days names those that have some`() throws {
        #expect(try self.failure([.overview]) { $0.env = "internal" }.contains("dev, prod"))
        #expect(try self.failure([.overview]) { $0.app = "com.example.shp" }.contains(ShopFixture.app))
    }

    @Test func `several apps want one to be named`() throws {
        self.fixture.disk.place(
            "/data/archive/env=prod/bundle=com.example.other/date=2026-11-02/part-00001.ndjson", Array("{}\n".utf8))
        #expect(try self.failure([.overview]).contains("com.example.other, com.example.shop"))
        #expect(try self.fixture.reports([.overview]) { $0.app = ShopFixture.app }.reports.count == 1)
    }

    @Test func `unknown screens and names offer the nearest`() throws {
        #expect(try self.failure([.next]) { $0.screen = "Hone" }.contains("did you mean \"Home\"?"))
        #expect(try self.failure([.paths]) { $0.before = "logn" }.contains("did you mean \"login\"?"))
        #expect(
            try self.failure([.funnel]) { $0.steps = ["screen=signup", "login"] }.contains("did you mean \"SignUp\"?"))
        #expect(try self.failure([.breakdown]) { $0.event = "zzzzzzzzzzzz" }.hasSuffix("\"zzzzzzzzzzzz\""))
        #expect(throws: ReportFailure.self) { try ReportName.list("overveiw") }
    }

    @Test(arguments: [
        ["screen=SignUp"], ["screen=SignUp", "screen=Feed & screen=Home"],
        ["screen=SignUp", "name=login & name!=login"],
        ["screen=SignUp", ""], ["kind=tap", "login"], ["colour=red", "login"],
    ])
    func `an impossible funnel is refused`(steps: [String]) throws {
        #expect(try self.failure([.funnel]) { $0.steps = steps }.hasPrefix("--step"))
    }

    @Test func `a report without its option names the option`() throws {
        #expect(try self.failure([.funnel]).hasSuffix("--step"))
        #expect(try self.failure([.paths]).hasSuffix("--before"))
        #expect(try self.failure([.next]).hasSuffix("--screen"))
        let all = try self.fixture.reports(ReportName.allCases)
        #expect(all.leftOut.count == 2)
        #expect(all.reports.contains { $0.title == "Screens after Feed" })
    }

    @Test(arguments: [
        ("from", "2026-13-01"), ("to", "2026-02-30"), ("within", "10"), ("within", "0m"), ("days", "5..1"),
        ("days", "a"), ("rolling", "0"), ("rule", "screen=Feed"), ("rule", "screen=Feed>=x"), ("env", "test"),
        ("by", "nothing"), ("where", "nothing=1"), ("zone", "Asia/Seul"),
    ])
    func `a wrong option is named`(name: String, value: String) throws {
        var options = ReportOptions()
        let isKnown = options.set(name, value)
        #expect(isKnown)
        #expect {
            _ = try ReportRequest(
                names: [.overview], options, now: WallTime(milliseconds: 0), files: POSIXFileSystem())
        } throws: { error in
            "\(error)".contains(value)
        }
    }

    @Test func `a damaged day is left out and named, and the others count`() throws {
        let path = ShopFixture.folder("11-03") + "/part-00001.ndjson"
        self.fixture.disk.place(path + ".gz", [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3])
        try self.fixture.disk.unlink(path)
        let set = try self.fixture.reports([.overview])
        #expect(set.damagedDays.count == 1)
        #expect(set.damagedDays[0].contains("date=2026-11-03"))
        #expect(set.reports[0].lines.count == 2)
        #expect(set.reports[0].notes.contains { $0.contains("left out because of damage") })
        #expect(set.reports[0].notes.contains { $0.contains("without any line: 2026-11-03") })
        #expect(try self.fixture.reports([.overview], jobs: 3).damagedDays == set.damagedDays)
    }

    @Test func `lines that are not events are counted and said`() throws {
        let path = ShopFixture.folder("11-04") + "/part-00002.ndjson"
        self.fixture.disk.place(
            path, Array("not json\n{\"ts\":\"2026-11-04T09:00:00Z\"}\n{\"name\":\"x\"}\nno end".utf8))
        let report = try self.fixture.reports([.overview]).reports[0]
        #expect(report.notes.contains { $0.hasPrefix("lines that are not events") && $0.hasSuffix(": 3") })
        #expect(report.lines[2] == "2026-11-04 4 3 0 3 3 0")
    }

    @Test func `lines without people, repeats and late days are said`() throws {
        let notes = try self.fixture.reports([.overview]).reports[0].notes
        #expect(
            notes.contains { $0.hasPrefix("events that name neither a user nor an install") && $0.hasSuffix(": 1") })
        #expect(notes.contains { $0.hasPrefix("lines that repeat the id") && $0.hasSuffix(": 1") })
        #expect(notes.contains { $0.contains("2026-11-02 (+1)") })
    }

    @Test func `hostile names move no cursor and break no table`() throws {
        let line =
            "{\"ts\":\"2026-11-04T02:00:00.000Z\",\"kind\":\"screen\",\"name\":\"v\",\"anon\":\"h\","
            + "\"screen\":\"a,\\\"b\\u001b[2J\\u202e\\r\\n<script>\"}\n"
        self.fixture.disk.place(ShopFixture.folder("11-04") + "/part-00002.ndjson", Array(line.utf8))
        let set = try self.fixture.reports([.screens])
        let table = ReportText.table(set)
        #expect(!table.unicodeScalars.contains { $0.value < 0x20 && $0 != "\n" || $0.value == 0x202E })
        #expect(ReportText.csv(set).contains("\"a,\"\"b\u{1B}[2J\u{202E}\r\n<script>\""))
        #expect(
            String(decoding: ReportText.json(set), as: UTF8.self).contains("a,\\\"b\\u001b[2J\u{202E}\\r\\n<script>"))
    }
}
