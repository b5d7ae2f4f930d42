internal import WaybillDigest
internal import WaybillProtocol

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
        let shared = Self.sharedNotes(reports)
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

    /// What every one of several reports says, once for all of them.
    private static func sharedNotes(_ reports: [Report]) -> [String] {
        guard let first = reports.first, reports.count > 1 else { return [] }
        return first.notes.filter { note in reports.allSatisfy { $0.notes.contains(note) } }
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
