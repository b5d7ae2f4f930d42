import ArgumentParser
import Testing
import WaybillEvent
import WaybillExport
import WaybillProjection
import WaybillReplay
import WaybillReport
import WaybillSystem

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
}
