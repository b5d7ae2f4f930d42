import Testing
import WaybillHost

@Suite("A page of metrics")
struct MetricsPageTests {
    private enum Color: String, CaseIterable {
        case red, green, blue
    }

    private static let days = Metric(
        "waybill_days_total", .counter, "Days, by projection.", more: "Not said here.",
        labels: [MetricLabel("projection"), MetricLabel("outcome", any: "something")])

    @Test("says help, kind and samples of each metric, in order")
    func format() {
        var page = MetricsPage()
        page.add(Metric("waybill_lines_total", .counter, "Lines."), 12)
        page.add(Self.days) { family in
            family.sample(1, "archive")
            family.sample(-2, "ga4", "late")
            family.sample(0.5)
        }
        #expect(
            page.text == """
                # HELP waybill_lines_total Lines.
                # TYPE waybill_lines_total counter
                waybill_lines_total 12
                # HELP waybill_days_total Days, by projection.
                # TYPE waybill_days_total counter
                waybill_days_total{projection="archive"} 1
                waybill_days_total{projection="ga4",outcome="late"} -2
                waybill_days_total 0.5

                """)
    }

    @Test("samples each value of a label, and none that the label does not have")
    func closedSet() {
        let some = MetricLabel("color", [Color.red, .blue], [.blue: "as the sky"])
        var page = MetricsPage()
        page.add(Metric("x", .gauge, "Colors.", labels: [some]), by: Color.self) { $0 == .blue ? 7 : 0 }
        #expect(page.text.hasSuffix("gauge\nx{color=\"red\"} 0\nx{color=\"blue\"} 7\n"))
        #expect((some.values, some.text) == (["red", "blue"], "`red`, `blue` (as the sky)"))
    }

    @Test("counts durations in buckets that include those before them")
    func histogram() {
        let times = DurationHistogram()
        for time in [Duration.milliseconds(1), .milliseconds(2), .milliseconds(3), .seconds(90)] { times.add(time) }
        var page = MetricsPage()
        page.add(Metric("waybill_journal_commit_seconds", .histogram, "Times."), times)
        let lines = page.text.split(separator: "\n")
        #expect(lines[1] == "# TYPE waybill_journal_commit_seconds histogram")
        #expect(lines[2] == "waybill_journal_commit_seconds_bucket{le=\"0.0005\"} 0")
        #expect(lines[3] == "waybill_journal_commit_seconds_bucket{le=\"0.001\"} 1")
        #expect(lines[4] == "waybill_journal_commit_seconds_bucket{le=\"0.0025\"} 2")
        #expect(lines[5] == "waybill_journal_commit_seconds_bucket{le=\"0.005\"} 3")
        #expect(
            lines.suffix(4) == [
                "waybill_journal_commit_seconds_bucket{le=\"60\"} 3",
                "waybill_journal_commit_seconds_bucket{le=\"+Inf\"} 4",
                "waybill_journal_commit_seconds_sum 90.006", "waybill_journal_commit_seconds_count 4",
            ])
    }

    @Test("escapes what would end a label, and nothing else")
    func escapes() {
        var page = MetricsPage()
        let metric = Metric("x", .gauge, "Hostile.", labels: [MetricLabel("name")])
        page.add(metric) { $0.sample(1, "a\\b\"c\nd 한\u{7F}") }
        #expect(page.text.hasSuffix("x{name=\"a\\\\b\\\"c\\nd 한\u{7F}\"} 1\n"))
    }

    @Test("leaves a metric without a sample out")
    func empty() {
        var page = MetricsPage()
        page.add(Metric("x", .gauge, "Nothing.")) { _ in }
        page.add(Metric("y", .gauge, "Nothing."), nil as Int?)
        #expect(page.text.isEmpty)
    }

    @Test("knows its own process")
    func process() {
        var page = MetricsPage()
        page.addProcess()
        #expect(page.text.contains("\nprocess_cpu_seconds_total "))
        #if os(Linux)
            #expect(page.text.contains("\nprocess_open_fds "))
            #expect(page.text.contains("\nprocess_resident_memory_bytes "))
        #endif
    }
}
