import Testing

@testable import WaybillReport

private func report(
    _ columns: [Report.Column], _ rows: [[Report.Cell]], _ chart: Report.Chart, title: String = "Title"
) -> Report {
    Report(name: "name", title: title, definition: "d", columns: columns, rows: rows, chart: chart)
}

private func bars(_ rows: [[Report.Cell]]) -> Report {
    report([.init("screen", .text), .init("views", .count)], rows, .bars(label: 0, value: 1))
}

private func parts(_ text: String?, _ separator: Character) -> [Substring] {
    (text ?? "").split(separator: separator)
}

/// The values of an attribute in the order of the elements that have it.
private func values(of attribute: String, in element: String, _ markup: String?) -> [String] {
    parts(markup, "<").filter { $0.hasPrefix(element) }.compactMap { piece in
        piece.split(separator: ">")[0].split(separator: " \(attribute)=\"").dropFirst().first
            .flatMap { $0.split(separator: "\"", omittingEmptySubsequences: false).first }.map(String.init)
    }
}

@Suite struct SVGChartTests {
    @Test func `bars are as long as their values, and each has its label and value as text`() throws {
        let markup = try #require(
            SVGChart.markup(
                of: bars([[.text("Feed"), .count(8)], [.text("Home"), .count(4)], [.text("None"), .count(0)]])))
        #expect(values(of: "width", in: "rect", markup) == ["408", "204"])
        #expect(values(of: "class", in: "rect", markup) == ["bar", "bar"])
        let start = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 720 80\" role=\"img\">"
        #expect(markup.hasPrefix(start + "<title>Title</title><desc>"))
        #expect(markup.hasSuffix("</svg>"))
        for text in [">Feed</text>", ">8</text>", ">Home</text>", ">4</text>", ">None</text>", ">0</text>"] {
            #expect(markup.split(separator: text).count == 2, "\(text)")
        }
    }

    @Test func `a chart says in words what it shows`() throws {
        let markup = try #require(
            SVGChart.markup(of: bars([[.text("Feed"), .count(8)], [.text("Home"), .count(12)]])))
        let words = try #require(markup.split(separator: "<desc>").last?.split(separator: "</desc>").first)
        #expect(
            words
                == "Bars: views by screen. The largest of 2 is Home, with 12. The table next to the chart has all values."
        )
    }

    @Test func `of many rows a chart draws the first, and says how many the table has besides`() throws {
        let markup = try #require(
            SVGChart.markup(of: bars((0..<1000).map { [.text("Screen \($0)"), .count(1000 - $0)] })))
        #expect(values(of: "class", in: "rect", markup).count == 20)
        #expect(markup.split(separator: ">The table has 980 more.<").count == 2)
    }

    @Test func `a report without values to draw has no chart`() {
        #expect(SVGChart.markup(of: bars([])) == nil)
        #expect(
            SVGChart.markup(of: bars([[.text("a"), .empty], [.text("b"), .number(.nan)], [.text("c"), .count(0)]]))
                == nil)
        #expect(SVGChart.markup(of: report([], [[]], .lines(x: 3, values: [7]))) == nil)
        #expect(SVGChart.markup(of: report([], [[.text("a")]], .steps(label: 0, value: 9))) == nil)
        #expect(SVGChart.markup(of: report([], [[.text("a")]], .cohorts(label: 5, size: 6, first: 7))) == nil)
        #expect(SVGChart.markup(of: report([], [], .none)) == nil)
    }

    @Test func `steps show what is left of the first one, and how many went no further`() throws {
        let markup = try #require(
            SVGChart.markup(
                of: report(
                    [.init("step", .text), .init("people", .count)],
                    [[.text("SignUp"), .count(3)], [.text("tap"), .count(3)], [.text("user"), .count(2)]],
                    .steps(label: 0, value: 1))))
        #expect(values(of: "class", in: "rect", markup) == ["track", "bar", "track", "bar", "track", "bar"])
        #expect(values(of: "width", in: "rect", markup) == ["704", "704", "704", "704", "704", "469.3"])
        #expect(markup.split(separator: ">2 · 66.7 % · 1 went no further</text>").count == 2)
        #expect(markup.split(separator: ">3 · 100 %</text>").count == 3)
    }

    @Test func `a line has gaps where values are missing, a name at its end, and a dash pattern of its own`() throws {
        let markup = try #require(
            SVGChart.markup(
                of: report(
                    [.init("day", .day), .init("events", .count), .init("people", .count)],
                    [
                        [.text("2026-11-02"), .count(20), .count(5)], [.text("2026-11-03"), .count(11), .empty],
                        [.text("2026-11-04"), .count(4), .count(3)],
                    ], .lines(x: 0, values: [1, 2]))))
        #expect(values(of: "class", in: "path", markup).filter { $0.hasPrefix("line") } == ["line s1", "line s2"])
        let lines = values(of: "d", in: "path", markup).suffix(2)
        #expect(lines.map { $0.filter { $0 == "M" }.count } == [1, 2])
        #expect(lines.map { $0.filter { $0 == "L" }.count } == [2, 0])
        for text in [">events 4</text>", ">people 3</text>", ">2026-11-02</text>", ">0</text>", ">20</text>"] {
            #expect(markup.split(separator: text).count == 2, "\(text)")
        }
        let ends = parts(markup, "<").filter { $0.contains(">events 4") || $0.contains(">people 3") }
        #expect(Set(ends.compactMap { $0.split(separator: " y=\"").last?.prefix { $0 != "\"" } }).count == 2)
    }

    @Test func `a grid has a cell for each value, darker for more, with numbers while there is room`() throws {
        func grid(_ dayCount: Int) -> Report {
            report(
                [.init("cohort", .day), .init("people", .count)] + (0..<dayCount).map { .init("\($0)", .count) },
                [
                    [.text("2026-11-02"), .count(4), .count(4), .count(2), .count(0)],
                    [.text("2026-11-03"), .count(1), .count(1), .count(0), .empty],
                ], .cohorts(label: 0, size: 1, first: 2))
        }
        let markup = try #require(SVGChart.markup(of: grid(3)))
        #expect(values(of: "class", in: "path", markup) == ["q0", "q3", "q5"])
        let cells = values(of: "d", in: "path", markup).map { $0.filter { $0 == "z" }.count }
        #expect(cells == [2, 1, 2])
        #expect(values(of: "class", in: "text", markup).filter { $0 == "mid" || $0 == "mid on" }.count == 5)
        let wide = try #require(SVGChart.markup(of: grid(31)))
        #expect(values(of: "class", in: "text", wide).filter { $0 == "mid" || $0 == "mid on" }.isEmpty)
        #expect(values(of: "d", in: "path", wide).joined().filter { $0 == "z" }.count == 5)
    }

    @Test(arguments: ["</svg><script>alert(1)</script>", "\" onload=\"x", "\u{202E}abc", "&amp;"])
    func `text in a chart is text`(_ text: String) throws {
        let charts: [Report.Chart] = [.bars(label: 0, value: 1), .lines(x: 0, values: [1]), .steps(label: 0, value: 1)]
        for chart in charts {
            func made(_ name: String) throws -> String {
                try #require(
                    SVGChart.markup(
                        of: report(
                            [.init(name, .text), .init(name, .count)], [[.text(name), .count(3)]], chart, title: name)))
            }
            let (markup, plain) = (try made(text), try made("plain"))
            #expect(markup.filter { $0 == "<" }.count == plain.filter { $0 == "<" }.count)
            #expect(markup.filter { $0 == "\"" }.count == plain.filter { $0 == "\"" }.count)
            #expect(!markup.contains("\u{202E}") && !markup.contains("style="))
        }
    }

    @Test(
        arguments: [
            (1, 1), (4, 4), (5, 5), (9, 10), (20, 20), (21, 25), (433, 500), (1_234_567, 1_500_000), (0.3, 0.3),
            (0.07, 0.08),
        ] as [(Double, Double)])
    func `a scale ends at a round number`(_ largest: Double, _ end: Double) {
        let scale = ValueScale(largest)
        #expect(abs(scale.end - end) < end / 1000)
        #expect(scale.ticks.first == 0 && scale.ticks.last == scale.end)
        #expect(scale.ticks.count <= 6)
    }

    @Test func `classes are defined, and nothing else styles a chart`() {
        for name in ["bar", "track", "grid", "line", "s1", "s6", "q0", "q5", "on", "soft", "end", "mid"] {
            #expect(SVGChart.stylesheet.contains(".chart .\(name)"), "\(name)")
        }
        #expect(SVGChart.stylesheet.contains("@media (prefers-color-scheme:dark)"))
        #expect(!SVGChart.stylesheet.contains("<"))
    }
}
