import ArgumentParser
import Testing
import WaybillAgent
import WaybillEvent
import WaybillExport
import WaybillProjection
import WaybillReplay
import WaybillReport
import WaybillSystem
import WaybillTail

@testable import WaybillCommands

/// Groups of options, parsed without the command that has them.
struct OptionGroupTests {
    @Test func `each option of a report is in the request's options`() throws {
        let usual = try ReportQuestion.parse([]).options
        #expect(usual.env == "prod" && usual.from == nil && usual.conditions == [] && !usual.strict)
        let texts = [
            "from": "2026-11-01", "to": "2026-11-07", "env": "dev", "app": "com.example.shop", "zone": "Asia/Seoul",
            "by": "os", "where": "a=b", "step": "screen=A", "within": "10m", "screen": "Feed", "before": "login",
            "event": "buy", "days": "0..7", "rolling": "30", "rule": "screen=Feed>=5",
        ]
        let flags = ["strict-cut-off", "strict", "previous"]
        let options = try ReportQuestion.parse(
            texts.flatMap { ["--\($0.key)", $0.value] } + flags.map { "--\($0)" }
        ).options
        // The same by name, as a page has them.
        var named = ReportOptions()
        for (name, text) in texts { #expect(named.set(name, text) == true) }
        for name in flags { #expect(named.set(name, "1") == true) }
        #expect("\(options)" == "\(named)")
    }

    @Test func `a replay takes the events that are selected`() throws {
        let selection = try ReplaySelection.parse([
            "--from", "2026-11-01", "--to", "2026-11-20", "--env", "prod", "--env", "dev",
            "--bundle", "com.example.shop", "--name", "buy", "--kind", "event", "--zone", "UTC",
        ])
        try selection.check()
        var request = Replay.Request(providers: [.csv], now: WallTime(milliseconds: 0))
        try selection.apply(to: &request)
        #expect(
            request.range
                == ExportRange(
                    from: CalendarDay("2026-11-01"), to: CalendarDay("2026-11-20"), environments: [.prod, .dev]))
        #expect(request.bundles == ["com.example.shop"] && request.names == ["buy"] && request.kinds == [.event])
        #expect(request.zone?.name == "UTC")
        let backwards = try ReplaySelection.parse(["--from", "2026-11-02", "--to", "2026-11-01"])
        #expect(throws: ValidationError.self) { try backwards.check() }
    }

    @Test func `spools and files of other programs are sources of an agent`() throws {
        let options = try AgentSourceOptions.parse([
            "--spool", "/a", "--spool", "/b", "--group", "shop", "--glob", "/log/*.json", "--exclude", "/log/x.json",
            "--env", "dev", "--bundle", "com.example.web", "--time-member", "time", "--follow-links",
        ])
        try options.check()
        let sources = try options.sources()
        #expect(
            sources.map(\.files) == [
                .spool(directory: "/a"), .spool(directory: "/b"), .files(patterns: ["/log/*.json"]),
            ])
        #expect(sources.map(\.group) == ["shop", "shop", nil])
        #expect(sources.map(\.followsLinks) == [false, false, true])
        #expect(sources[2].excludes == ["/log/x.json"] && sources[2].timeMember == "time")
        #expect(try AgentSourceOptions.parse([]).sources().isEmpty)
    }

    private static let wrongSources = [
        ["--exclude", "/x"], ["--spool", "/a/*", "--group", "shop"], ["--glob", "/log/*.json", "--env", "dev"],
        ["--spool", "/a", "--bundle", "a\u{7}"],
    ]

    @Test(arguments: Self.wrongSources)
    func `options that fit no source are refused`(_ arguments: [String]) throws {
        let options = try AgentSourceOptions.parse(arguments)
        #expect(throws: ValidationError.self) {
            try options.check()
            _ = try options.sources()
        }
    }
}
