import Testing
import WaybillMetrics

@Suite("A page of metrics")
struct MetricsPageTests {
    @Test("says help, kind and samples of each metric, in order")
    func format() {
        var page = MetricsPage()
        page.add("waybill_lines_total", .counter, "Lines.", 12)
        page.add("waybill_days_total", .counter, "Days, by projection.") { family in
            family.sample(1, [("projection", "archive")])
            family.sample(-2, [("projection", "ga4"), ("outcome", "late")])
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

    @Test("escapes what would end a label, and nothing else")
    func escapes() {
        var page = MetricsPage()
        page.add("x", .gauge, "Hostile.") { $0.sample(1, [("name", "a\\b\"c\nd 한\u{7F}")]) }
        #expect(page.text.hasSuffix("x{name=\"a\\\\b\\\"c\\nd 한\u{7F}\"} 1\n"))
    }

    @Test("leaves a metric without a sample out")
    func empty() {
        var page = MetricsPage()
        page.add("x", .gauge, "Nothing.") { _ in }
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
