import WaybillLive
import WaybillReport
import WaybillSystem

/// Makes the reports that the live page asks for, with the code and the options of `waybill report`.
struct PageReports: Sendable {
    let data: String
    /// Whether the page hides members of events.
    let isMasked: Bool

    func json(_ parameters: [(name: String, value: String)]) throws(Access.Refusal) -> [UInt8] {
        guard !self.isMasked else {
            throw Access.Refusal(
                403, "this page hides members of events (--mask), and reports could show them; use: waybill report")
        }
        var options = ReportOptions()
        var names: [ReportName]?
        let files = POSIXFileSystem(.data, dataDirectory: self.data)
        do throws(ReportFailure) {
            for (name, value) in parameters where !value.isEmpty {
                if name == "names" {
                    names = value == "all" ? ReportName.allCases : try ReportName.list(value)
                } else if !options.set(name, value) {
                    throw .badOption(name: name, text: value, remedy: "a report has no such option")
                }
            }
            var request = try ReportRequest(
                names: names ?? ReportName.allCases, options, now: POSIXClock().wallTime(), files: files)
            request.isEverything = names == nil || names == ReportName.allCases
            let set = try Reporter(dataDirectory: self.data, files: files, request: request).run()
            return ReportText.json(set, drawing: SVGChart.markup)
        } catch {
            throw Access.Refusal(error.isOfRequest ? 400 : 500, error.description)
        }
    }
}

extension ReportFailure {
    /// Whether another request can have an answer.
    fileprivate var isOfRequest: Bool {
        switch self {
        case .disk, .interrupted: false
        case .zone, .noArchive, .noDays, .severalApps, .emptyRange, .badOption, .unknown, .unknownReport,
            .missingOption:
            true
        }
    }
}
