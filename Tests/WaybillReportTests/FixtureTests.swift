import Testing
import WaybillReport
import WaybillSystem
import WaybillTestSupport

/// The numbers of the fixture, each worked out by hand.
@Suite struct FixtureTests {
    private static let fixture = ShopFixture()

    private static func lines(
        _ name: ReportName, from: String? = "2026-11-02", to: String? = "2026-11-04",
        _ change: (inout ReportOptions) -> Void = { _ in }
    ) throws -> [String] {
        try #require(self.fixture.reports([name], from: from, to: to, change).reports.first).lines
    }

    private static func signUp(_ options: inout ReportOptions) {
        options.steps = ["screen=SignUp", "Sign Up Tapped", "kind=user & user=*"]
    }

    @Test func `the overview counts events, people, new people, sessions, views and late lines`() throws {
        #expect(
            try Self.lines(.overview) == [
                "2026-11-02 20 5 4 5 13 1", "2026-11-03 11 4 1 3 5 0", "2026-11-04 4 3 0 3 3 0",
            ])
    }

    @Test func `with a strict cut-off late lines do not count`() throws {
        #expect(try Self.lines(.overview) { $0.strictCutOff = true }[0] == "2026-11-02 19 5 4 4 12 0")
    }

    @Test func `in another zone the days have other events`() throws {
        let days = try Self.lines(.overview) { $0.zone = "UTC" }.map { $0.split(separator: " ") }
        #expect(days.map { $0[1] } == ["23", "8", "4"])
        #expect(days.map { $0[2] } == ["5", "3", "3"])
    }

    @Test func `the time on a screen is measured by the next one or by its end`() throws {
        #expect(
            try Self.lines(.screens) == [
                "Feed 8 5 2 1260 630 630", "Home 6 4 5 84 16.8 19", "SignUp 4 3 2 332 166 166", "Login 2 2 2 32 16 16",
                "Welcome 1 1 1 60 60 60",
            ])
    }

    @Test func `the next screen is of the same session, whoever is signed in`() throws {
        let lines = try Self.lines(.next) { $0.screen = "Home" }
        #expect(
            lines.map { $0.split(separator: " ").dropLast().joined(separator: " ") } == [
                "Feed 2", "SignUp 2", "(end) 1", "Login 1",
            ])
        let before = try Self.lines(.next) {
            $0.screen = "Home"
            $0.previous = true
        }
        #expect(
            before.map { $0.split(separator: " ").dropLast().joined(separator: " ") } == [
                "(start) 3", "Feed 2", "SignUp 1",
            ])
    }

    @Test func `ways to an event are the last three screens of its session`() throws {
        #expect(
            try Self.lines(.paths) { $0.before = "login" } == [
                "Feed > Home > Login 1 1", "Home > SignUp 1 1", "Login 1 1",
            ])
    }

    @Test(arguments: [
        ("10m", "2026-11-04", [3, 3, 2]), ("10m", "2026-11-03", [3, 2, 2]), ("1d", "2026-11-04", [3, 3, 2]),
    ])
    func `a funnel counts each person's best attempt`(within: String, to: String, people: [Int]) throws {
        let report = try #require(
            Self.fixture.reports([.funnel], to: to) {
                Self.signUp(&$0)
                $0.within = within
            }.reports.first)
        #expect(report.rows.map { $0[2] } == people.map { .count($0) })
    }

    @Test func `a strict funnel allows no other step in between`() throws {
        let steps = { (options: inout ReportOptions) in
            options.steps = ["screen=Home", "screen=Feed", "screen=Login"]
            options.within = "1h"
        }
        // The second person on the shared install views Login and Feed; u5 goes from Home to Feed, and no one on to Login.
        let loose = try #require(Self.fixture.reports([.funnel], steps).reports.first).rows.map { $0[2] }
        let strict = try #require(
            Self.fixture.reports([.funnel]) {
                steps(&$0)
                $0.strict = true
            }.reports.first
        ).rows.map { $0[2] }
        #expect(loose == [.count(4), .count(2), .count(0)])
        #expect(strict == [.count(4), .count(2), .count(0)])
    }

    @Test func `retention leaves days empty that are after the range`() throws {
        let reports = try Self.fixture.reports([.retention]).reports
        #expect(reports.map(\.name) == ["retention", "retention-unbounded"])
        #expect(reports[0].lines == ["2026-11-02 4 4 2 2", "2026-11-03 1 1 0 -"])
        #expect(reports[1].lines == ["2026-11-02 4 4 3 2", "2026-11-03 1 1 0 -"])
    }

    @Test func `retention shows the days that were asked for, and says if the range has none of them`() throws {
        #expect(try Self.lines(.retention) { $0.days = "2..9" } == ["2026-11-02 4 2", "2026-11-03 1 -"])
        let failure = try #require(throws: ReportFailure.self) { try Self.lines(.retention) { $0.days = "3..10" } }
        #expect(failure.description == "--days \"3..10\": the range has 3 days, so the last day after the first is 2")
    }

    @Test func `a day that is not over is empty and not zero`() throws {
        // 2026-11-04T12:00 in Seoul: the third day is open, and so is the second until 04:00 is past.
        let noon = try #require(WallTime(text: "2026-11-04T03:00:00.000Z")).milliseconds
        let set = try Self.fixture.reports([.retention], now: noon)
        #expect(set.reports[0].lines == ["2026-11-02 4 4 2 -", "2026-11-03 1 1 - -"])
        #expect(set.reports[0].notes.contains { $0.contains("open") && $0.contains("2026-11-04") })
        let night = try #require(WallTime(text: "2026-11-03T18:59:59.999Z")).milliseconds
        #expect(try Self.fixture.reports([.retention], now: night).reports[0].lines[0] == "2026-11-02 4 4 - -")
    }

    @Test func `months count people, and those who fulfil a rule in the month`() throws {
        let lines = try Self.lines(.active, from: "2026-10-01") { $0.rules = ["screen=Feed>=2", "screen=Feed>=3"] }
        #expect(
            lines.map { $0.split(separator: " ").prefix(4).joined(separator: " ") } == [
                "2026-10 1 0 0", "2026-11 6 2 1",
            ])
    }

    @Test func `rolling windows count different people of the last days`() throws {
        let lines = try Self.lines(.active) { $0.rolling = "30" }
        #expect(lines == ["2026-11-02 5 5 5 1", "2026-11-03 4 6 6 0.667", "2026-11-04 3 6 6 0.5"])
    }

    @Test func `a breakdown divides events and people by a value`() throws {
        let lines = try Self.lines(.breakdown) {
            $0.event = "login"
            $0.by = "data.method"
        }
        #expect(lines == ["kakao 2 2 0.667", "email 1 1 0.333"])
    }

    @Test func `new people are those who were never active before`() throws {
        #expect(try Self.lines(.newReturning) == ["2026-11-02 4 1", "2026-11-03 1 3", "2026-11-04 0 3"])
    }

    @Test func `each person counts under the version of the day's last event`() throws {
        let lines = try Self.lines(.versions).map { $0.split(separator: " ").prefix(3).joined(separator: " ") }
        #expect(
            lines == [
                "2026-11-02 1.3.0 3", "2026-11-02 1.4.0 2", "2026-11-03 1.3.0 1", "2026-11-03 1.4.0 3",
                "2026-11-04 1.4.0 3",
            ])
        #expect(try Self.lines(.os) == ["17 3 0.5", "18 3 0.5"])
    }

    @Test func `a number that never came is a gap`() throws {
        #expect(try Self.lines(.gaps) == ["\(ShopFixture.uuid(1, 3)) 1 1 10"])
    }

    @Test func `the numbers of a writer may be any`() throws {
        let fixture = ShopFixture()
        let writer = ShopFixture.uuid(1, 99)
        let lines = [0, Int64.max, 7, 7].enumerated().map { index, sequence in
            "{\"v\":1,\"id\":\"\(ShopFixture.uuid(2, index))\",\"writer\":\"\(writer)\",\"seq\":\(sequence),"
                + "\"ts\":\"2026-11-02T03:00:00.000Z\",\"kind\":\"event\",\"name\":\"tap\",\"anon\":\"a9\","
                + "\"bundle\":\"\(ShopFixture.app)\",\"env\":\"prod\"}\n"
        }
        fixture.disk.place(ShopFixture.folder("11-02") + "/part-00002.ndjson", Array(lines.joined().utf8))
        let report = try fixture.reports([.gaps]).reports[0]
        #expect(report.lines.contains("\(writer) \(Int64.max - 2) 0 \(Int64.max)"))
    }

    @Test func `a session belongs to the day of its start, also across midnight`() throws {
        #expect(try Self.lines(.sessions) == ["2026-11-02 5 102 3 1", "2026-11-03 3 5 1 1", "2026-11-04 3 0 1 3"])
    }

    @Test func `names have their fields, types and versions`() throws {
        let lines = try Self.lines(.names)
        #expect(lines.contains { $0.hasPrefix("login event - 3 3 ") })
        #expect(lines.contains { $0.hasPrefix("login event method 3 - ") && $0.contains("string 3 1.3.0 1.4.0") })
        #expect(!lines.contains { $0.hasPrefix("wb.dropped") })
    }

    @Test func `delays are unknown without a time of receipt`() throws {
        let lines = try Self.lines(.arrival)
        #expect(lines.contains("2026-11-02 1.4.0 12 - - - 0.083"))
    }

    @Test func `the number of workers changes nothing`() throws {
        let all = ReportName.allCases
        func change(_ options: inout ReportOptions) {
            Self.signUp(&options)
            options.before = "login"
        }
        let one = try Self.fixture.reports(all, change)
        let four = try Self.fixture.reports(all, jobs: 4, change)
        #expect(one.reports.count == 18)
        #expect(ReportText.json(one) == ReportText.json(four))
        #expect(ReportText.table(one) == ReportText.table(four))
    }
}
