import ArgumentParser
import WaybillExport
import WaybillHost

struct ExplainCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Explain identifiers of warnings and errors (cause, effect, remedy), or the metrics.",
        discussion: """
            Examples:
              waybill explain                              lists every identifier
              waybill explain WB1203
              waybill explain --page > Documentation/messages.md
              waybill explain --metrics > Protocol/metrics.md
            """)

    @Flag(help: "Print the page with all of them (Markdown) instead.")
    var page = false

    @Flag(help: "Print the page about metrics, probes and status (Markdown) instead.")
    var metrics = false

    @Argument(help: "Identifiers, as log lines have them. (default: list all)")
    var id: [String] = []

    func validate() throws {
        guard [self.page, self.metrics, !self.id.isEmpty].filter(\.self).count <= 1 else {
            throw ValidationError("give --page, --metrics or identifiers")
        }
        for id in self.id { _ = try Self.notice(id) }
    }

    func run() throws {
        if self.page { return print(MessagesPage.text, terminator: "") }
        if self.metrics {
            let door = try DoorProgram.own.require()
            return print(MetricsReference.text(door: door.metrics, tunnels: door.tunnelMetrics), terminator: "")
        }
        if self.id.isEmpty {
            for notice in Notice.allCases { print("\(notice.id)  \(notice.text.title)") }
            return
        }
        print(try self.id.map { Self.explanation(of: try Self.notice($0)) }.joined(separator: "\n\n"))
    }

    private static func explanation(of notice: Notice) -> String {
        let text = notice.text
        return """
            \(notice.id): \(text.title)
            Cause:  \(text.cause)
            Effect: \(text.effect)
            Remedy: \(text.remedy)
            """
    }

    private static func notice(_ id: String) throws -> Notice {
        if let notice = Notice(id: id) { return notice }
        let nearest = NearestName.find(id, in: Notice.allCases.map(\.id)).map { "; did you mean \($0)?" } ?? ""
        throw ValidationError("\(id) is not an identifier of this version\(nearest) (waybill explain lists all)")
    }
}

/// The page `Documentation/messages.md`.
enum MessagesPage {
    static var text: String {
        var text = """
            # Messages

            After this page you know what a warning or an error in a log means, and what to do.

            Each has an identifier: `id` in a line of JSON, the word before the program's part in a line of text.
            `waybill explain WB1203` prints its entry here; `waybill explain` lists all. An identifier keeps its meaning for
            ever. The page is made by `waybill explain --page`.

            Lines of one identifier about one object are one cause: the first is written at once, later ones once a minute,
            with their number as `repeated`. The last column names the members of a line that identify the object; *line* means that
            all are written.


            """
        for (title, range) in [
            ("Receiver", 1000..<2000), ("Agent", 2000..<3000), ("Deliveries", 3000..<4000),
            ("Any program", 4000..<5000),
        ] {
            text +=
                "## \(title)\n\n| Id | Means | Cause | Effect | Remedy | Once for each |\n| --- | --- | --- | --- | --- | --- |\n"
            for notice in Notice.allCases where range.contains(notice.rawValue) {
                let entry = notice.text
                let object =
                    entry.object.map {
                        $0.isEmpty ? "program" : $0.map { "`\($0)`" }.joined(separator: ", ")
                    } ?? "line"
                text +=
                    "| \(notice.id) | \(entry.title) | \(entry.cause) | \(entry.effect) | \(entry.remedy) | \(object) |\n"
            }
            text += "\n"
        }
        return String(text.dropLast())
    }
}
