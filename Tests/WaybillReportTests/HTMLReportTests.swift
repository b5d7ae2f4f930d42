import Testing

@testable import WaybillReport

/// A report of `rowCount` screens.
private func screens(_ rowCount: Int, name: (Int) -> String = { "Screen \($0)" }) -> Report {
    Report(
        name: "screens", title: "Screens", definition: "Views of each screen.",
        columns: [.init("screen", .text), .init("views", .count), .init("mean", .seconds)],
        rows: (0..<rowCount).map { [.text(name($0)), .count(rowCount - $0), $0 == 0 ? .number(16.84) : .empty] },
        chart: .bars(label: 0, value: 1))
}

private func page(_ reports: [Report], title: String = "Shop", range: String = "2026-11-02") -> String {
    String(decoding: HTMLReport.document(title: title, range: range, reports: reports), as: UTF8.self)
}

/// How often `part` occurs in `text`.
private func count(_ part: String, in text: String) -> Int {
    var found = 0
    let (text, part) = (Array(text.utf8), Array(part.utf8))
    guard text.count >= part.count else { return 0 }
    for start in 0...(text.count - part.count) where text[start] == part[0] {
        if text[start..<(start + part.count)].elementsEqual(part) { found += 1 }
    }
    return found
}

private func contains(_ part: String, in text: String) -> Bool { count(part, in: text) > 0 }

/// The names of the elements in `text` that are opened and closed, without those that have no end.
private func tags(_ text: String) -> (opened: [String: Int], closed: [String: Int]) {
    var opened: [String: Int] = [:]
    var closed: [String: Int] = [:]
    for piece in text.split(separator: "<").dropFirst() {
        let name = piece.prefix { $0 != ">" && $0 != " " && $0 != "\n" }
        if name.hasPrefix("/") {
            closed[String(name.dropFirst()), default: 0] += 1
        } else if !["!doctype", "meta"].contains(name), piece.split(separator: ">")[0].last != "/" {
            opened[String(name), default: 0] += 1
        }
    }
    return (opened, closed)
}

private let hostile = [
    "</style><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\" onload=\"alert(1)",
    "'><svg onload=alert(1)>",
    "</title><script>", "&lt;b&gt;", "\u{202E}evil\u{2066}", "\u{0}\u{1B}[31m\u{7F}\u{85}", "]]>", "<!--",
    "\u{FEFF}\u{200B}",
]

@Suite struct HTMLReportTests {
    @Test func `a page has each report's title, definition, notes, chart and table`() {
        var report = screens(2)
        report.notes = ["2026-11-02 is open."]
        let text = page([report])
        #expect(contains("<h2 id=\"r1t\">Screens</h2>", in: text))
        #expect(contains("<p class=\"definition\">Views of each screen.</p>", in: text))
        #expect(contains("<li>2026-11-02 is open.</li>", in: text))
        #expect(contains("<svg class=\"chart\"", in: text))
        #expect(contains("<th scope=\"col\">screen</th><th scope=\"col\" class=\"n\">views</th>", in: text))
        #expect(contains("mean <span class=\"unit\">s</span>", in: text))
        let row = "<tr><th scope=\"row\"><bdi>Screen 0</bdi></th><td class=\"n\">2</td><td class=\"n\">16.8</td></tr>"
        #expect(contains(row, in: text))
        #expect(contains("<td class=\"n\">–</td>", in: text))
        #expect(!contains("left out", in: text))
    }

    @Test func `a page has no script, no address, no style attribute, and a policy that allows its one style`() {
        let text = page([screens(5), screens(3)])
        for part in ["<script", "http:", "https:", "//", "url(", "@import", "style=", "src=", "onload", "javascript:"] {
            #expect(!contains(part, in: text), "\(part)")
        }
        #expect(count("<style>", in: text) == 1)
        #expect(
            count(
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-",
                in: text) == 1)
    }

    @Test func `what all reports say stands once, at the head`() {
        var reports = [screens(2), screens(3)]
        reports[0].notes = ["2026-11-02 is open.", "one line repeats an id"]
        reports[1].notes = ["2026-11-02 is open."]
        let text = page(reports)
        #expect(count("<li>2026-11-02 is open.</li>", in: text) == 1)
        #expect(contains("<main>\n<ul class=\"notes\">\n<li>2026-11-02 is open.</li>\n</ul>\n<section", in: text))
        #expect(count("<li>one line repeats an id</li>", in: text) == 1)
    }

    @Test func `every element is closed`() {
        let (opened, closed) = tags(page([screens(40), screens(0)], title: "<b>"))
        #expect(opened == closed)
        #expect(opened["section"] == 2)
        #expect(opened["svg"] == 1)
    }

    @Test(arguments: hostile)
    func `text from events is text, wherever it stands`(_ text: String) {
        var report = screens(3) { _ in text }
        report.title = text
        report.definition = text
        report.notes = [text]
        report.columns[0].name = text
        let plain = page([screens(3), screens(3)])
        var benign = screens(3)
        benign.notes = ["note"]
        let made = page([report, benign], title: text, range: text)
        // The same elements as in a page without it, but for the list of notes.
        var expected = tags(plain).opened
        expected["ul", default: 0] += 2
        expected["li", default: 0] += 2
        #expect(tags(made).opened == expected)
        #expect(tags(made).closed == expected)
        for scalar in made.unicodeScalars {
            #expect(scalar == "\n" || scalar.value >= 0x20 && !(0x7F...0x9F).contains(scalar.value))
            #expect(!(0x202A...0x202E).contains(scalar.value) && !(0x2066...0x2069).contains(scalar.value))
        }
    }

    @Test func `a name of a megabyte is cut, and its length is told`() {
        let text = page([screens(1) { _ in String(repeating: "x", count: 1_000_000) }])
        #expect(contains(String(repeating: "x", count: 96) + "… (1,000,000 bytes)", in: text))
        #expect(text.utf8.count < 20_000)
        // One character of half a million scalars.
        let marks = page([screens(1) { _ in "a" + String(repeating: "\u{301}", count: 500_000) }])
        #expect(contains("… (1,000,001 bytes)", in: marks))
        #expect(marks.utf8.count < 20_000)
    }

    @Test func `a page is smaller than its limit, and says what is left out`() {
        let small = screens(3)
        let text = page([small, screens(100_000), screens(50_000)])
        #expect(text.utf8.count < HTMLReport.byteCountMax)
        #expect(text.utf8.count > HTMLReport.byteCountMax * 9 / 10)
        #expect(count(" rows are left out. <code>--format csv</code> prints all of them.", in: text) == 2)
        #expect(contains(" of 100,000 rows are left out.", in: text))
        #expect(contains("<bdi>Screen 2</bdi>", in: text))
        // The two that do not fit have the same number of rows, more or less.
        let shown = text.split(separator: "<section").dropFirst().map { count("<tr>", in: String($0)) }
        #expect(abs(shown[1] - shown[2]) < 100)
        #expect(shown[0] == 4)
    }

    @Test func `a page of many reports with everything too long is smaller than its limit`() {
        let long = String(repeating: "\u{202E}", count: 5000)
        let report = Report(
            name: "x", title: long, definition: long, notes: [String](repeating: long, count: 30),
            columns: [Report.Column](repeating: .init(long, .text), count: 100),
            rows: [[Report.Cell]](repeating: [Report.Cell](repeating: .text(long), count: 100), count: 100))
        for reportCount in [1, 3, 100] {
            let text = page([Report](repeating: report, count: reportCount), title: long, range: long)
            #expect(text.utf8.count < HTMLReport.byteCountMax)
            let (opened, closed) = tags(text)
            #expect(opened == closed)
            #expect(contains("36 columns are left out.", in: text))
            #expect(contains("10 more notes are left out.", in: text))
            #expect(contains("more reports are left out", in: text) == (reportCount > 1))
        }
    }

    @Test func `charts go before reports where a page is full`() {
        let wide = Report(
            name: "retention", title: "Retention", definition: "d",
            columns: [.init("cohort", .day), .init("people", .count)]
                + (0..<40).map { .init("\($0)", .count) },
            rows: (0..<40).map { row in [.text("2026-11-01"), .count(10)] + (0..<40).map { .count(($0 + row) % 10) } },
            chart: .cohorts(label: 0, size: 1, first: 2))
        let text = page([Report](repeating: wide, count: 12))
        #expect(text.utf8.count < HTMLReport.byteCountMax)
        let left = count("The chart is left out: the page has no room for it.", in: text)
        #expect(left > 0 && left + count("<svg ", in: text) == 12)
        #expect(count("<section ", in: text) == 12)
    }

    @Test func `the same reports give the same bytes`() {
        let reports = [screens(500), screens(7)]
        #expect(
            HTMLReport.document(title: "a", range: "b", reports: reports)
                == HTMLReport.document(title: "a", range: "b", reports: reports))
    }

    @Test func `a report without rows says so, and rows that are too short have empty cells`() {
        #expect(contains("<p class=\"left\">Nothing to show.</p>", in: page([screens(0)])))
        var report = screens(1)
        report.rows = [[.text("Home")]]
        #expect(contains("<td class=\"n\">–</td><td class=\"n\">–</td></tr>", in: page([report])))
    }
}

@Suite struct ReportNumberTests {
    @Test(
        arguments: [
            (0, "0"), (999, "999"), (1000, "1,000"), (-1_234_567, "−1,234,567"), (.max, "9,223,372,036,854,775,807"),
            (.min, "−9,223,372,036,854,775,808"),
        ] as [(Int, String)])
    func `digits stand in groups of three`(_ number: Int, _ text: String) {
        #expect(ReportNumber.grouped(number) == text)
    }

    @Test(
        arguments: [
            (0, 2, "0"), (1.005, 2, "1"), (16.84, 1, "16.8"), (0.05, 1, "0.1"), (-0.04, 1, "0"), (-2.5, 1, "−2.5"),
            (1260, 1, "1,260"), (99.999, 2, "100"), (3.07, 2, "3.07"), (.infinity, 1, "–"), (.nan, 1, "–"),
            (1e300, 1, "1e+300"),
        ] as [(Double, Int, String)])
    func `numbers are rounded, without zeros at their ends`(_ number: Double, _ decimals: Int, _ text: String) {
        #expect(ReportNumber.rounded(number, decimals: decimals) == text)
    }

    @Test func `a unit decides how a number is printed`() {
        #expect(ReportNumber.text(of: .number(2.0 / 3), unit: .share) == "66.7 %")
        #expect(ReportNumber.text(of: .count(1), unit: .share) == "100 %")
        #expect(ReportNumber.text(of: .number(16.84), unit: .seconds) == "16.8")
        #expect(ReportNumber.text(of: .number(16.84), unit: .milliseconds) == "17")
        #expect(ReportNumber.text(of: .number(2.345), unit: .count) == "2.35")
        #expect(ReportNumber.text(of: .empty, unit: .count) == nil)
    }
}
