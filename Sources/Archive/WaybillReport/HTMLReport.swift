internal import WaybillProtocol
internal import WaybillSystem

/// Reports as one file of HTML: charts in the text, no script, no request, fewer than 200,000 bytes.
///
/// The same reports give the same bytes. Where there are more rows than fit, each report has as many as its share of the
/// room allows, and says how many are left out.
package struct HTMLReport {
    package static let byteCountMax = 200_000
    /// Reports in one file; the head of each takes room.
    static let reportCountMax = 40

    /// One page; `title` and `range` are text that is not escaped yet.
    package static func document(title: String, range: String, reports: [Report]) -> [UInt8] {
        let shared = reports.count > 1 ? ReportText.sharedNotes(reports) : []
        var sections = reports.prefix(Self.reportCountMax).enumerated().map {
            HTMLSection($1, number: $0 + 1, shared: shared)
        }
        let end = "</main>\n</body>\n</html>\n"
        // Links to all sections are in it; a page with fewer of them is shorter.
        let whole = Self.start(title, range, sections, leftOut: reports.count, shared)
        HTMLSection.fit(&sections, into: Self.byteCountMax - whole.utf8.count - end.utf8.count)
        let left = reports.count - sections.count
        var bytes = Array(Self.start(title, range, sections, leftOut: left, shared).utf8)
        for section in sections { bytes += section.markup.utf8 }
        bytes += end.utf8
        return bytes
    }

    private static func start(
        _ title: String, _ range: String, _ sections: [HTMLSection], leftOut: Int, _ notes: [String]
    ) -> String {
        let title = MarkupText.escaped(title, scalarCountMax: 200)
        let style = HTMLStyle.text
        let hash = Base64.text(SHA256.digest(style.utf8))
        let policy = "default-src 'none'; style-src 'sha256-\(hash)'; base-uri 'none'; form-action 'none'"
        var text = """
            <!doctype html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta http-equiv="Content-Security-Policy" content="\(policy)">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <title>\(title)</title>
            <style>\(style)</style>
            </head>
            <body>
            <header>
            <h1>\(title)</h1>
            <p>\(MarkupText.escaped(range, scalarCountMax: 300))</p>

            """
        if leftOut > 0 {
            text +=
                "<p>\(ReportNumber.grouped(leftOut)) more reports are left out: the page has room for \(sections.count).</p>\n"
        }
        if sections.count > 1 {
            text += "<nav aria-label=\"Reports\">\n<ul>\n"
            for section in sections { text += "<li><a href=\"#\(section.anchor)\">\(section.title)</a></li>\n" }
            text += "</ul>\n</nav>\n"
        }
        return text + "</header>\n<main>\n" + HTMLSection.list(notes)
    }
}

/// The looks of the page: light, dark, narrow and on paper.
enum HTMLStyle {
    static let text = """
        :root{color-scheme:light dark;--back:#fff;--ink:#1a1d21;--muted:#5b6470;--line:#d9dde2;--note:#fff6df;--link:#1f5fbf}
        @media (prefers-color-scheme:dark){:root{--back:#14171b;--ink:#e8eaed;--muted:#a3abb5;--line:#343a42;--note:#2b2617;\
        --link:#7fb0ff}}
        *{box-sizing:border-box}
        body{margin:0 auto;max-width:64rem;padding:1.5rem;background:var(--back);color:var(--ink);\
        font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
        h1{font-size:1.6rem;margin:0}
        h2{font-size:1.2rem;margin:0 0 .25rem}
        header p{margin:.25rem 0;color:var(--muted)}
        nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1rem;padding:0;margin:1rem 0;list-style:none}
        a{color:var(--link)}
        section{border-top:1px solid var(--line);padding:1.25rem 0;margin-top:1.25rem}
        .definition{margin:0 0 .75rem;color:var(--muted);max-width:48rem}
        .notes{margin:0 0 .75rem;padding:.5rem .75rem .5rem 1.75rem;background:var(--note);border-radius:4px}
        .left,.unit{color:var(--muted)}
        .unit{font-weight:400}
        figure{margin:0 0 1rem;overflow-x:auto}
        .wide{overflow-x:auto}
        table{border-collapse:collapse;font-variant-numeric:tabular-nums}
        th,td{padding:.3rem .75rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
        thead th{color:var(--muted);border-bottom-width:2px}
        tbody th{font-weight:500}
        th,td{overflow-wrap:anywhere;min-width:4rem}
        .n{text-align:right;white-space:nowrap}
        .day{white-space:nowrap}
        :focus-visible{outline:2px solid var(--link);outline-offset:2px}
        @media (max-width:40rem){body{padding:.75rem;font-size:14px}th,td{padding:.25rem .4rem}}
        @media print{:root{color-scheme:light;--back:#fff;--ink:#000;--muted:#444;--line:#bbb;--note:#f4f4f4;--link:#000}\
        body{max-width:none;padding:0}nav{display:none}figure,tr{break-inside:avoid}h2{break-after:avoid}\
        .wide,figure{overflow:visible}thead{display:table-header-group}}

        """ + SVGChart.stylesheet
}
