import ArgumentParser
import WaybillConsole
import WaybillExport
import WaybillNotices

struct ExplainCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Explain identifiers of warnings and errors: cause, effect, remedy.",
        discussion: """
            Examples:
              waybill explain                              lists every identifier
              waybill explain WB1203
              waybill explain --page > Documentation/messages.md
            """)

    @Flag(help: "Print the page with all of them (Markdown) instead.")
    var page = false

    @Argument(help: "Identifiers, as log lines have them. (default: list all)")
    var id: [String] = []

    func validate() throws {
        if self.page, !self.id.isEmpty { throw ValidationError("--page takes no identifiers") }
        for id in self.id { _ = try Self.notice(id) }
    }

    func run() throws {
        if self.page { return print(MessagesPage.text, terminator: "") }
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
