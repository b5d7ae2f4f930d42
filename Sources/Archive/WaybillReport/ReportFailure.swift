package import WaybillSystem

/// Why there is no report.
package enum ReportFailure: DiskFailure, Sendable, CustomStringConvertible {
    case disk(FileSystemError)
    case zone(TimeZoneError)
    case noArchive(String)
    /// There are no days of this environment and app.
    case noDays(environment: String, app: String?, others: [String])
    case severalApps([String])
    /// The range has no lines; the days that are kept are from `first` to `last`.
    case emptyRange(from: CalendarDay, to: CalendarDay, first: CalendarDay, last: CalendarDay)
    case badOption(name: String, text: String, remedy: String)
    /// A name that no event of the archive has.
    case unknown(what: String, name: String, nearest: String?)
    case unknownReport(String, nearest: String?)
    case missingOption(report: String, option: String)
    case interrupted

    package var description: String {
        switch self {
        case .disk(let error): "the archive cannot be read: \(error)"
        case .zone(let error): error.description
        case .noArchive(let path): "\(path) has no archive; name a receiver's data directory with --data"
        case .noDays(let environment, let app, let others):
            "the archive has no days of \(app.map { "the app \($0) in " } ?? "")\(environment)"
                + (others.isEmpty ? "" : "; it has \(others.joined(separator: ", "))")
        case .severalApps(let names):
            "the archive has several apps; name one with --app: \(names.joined(separator: ", "))"
        case .emptyRange(let from, let to, let first, let last):
            "there are no lines from \(from) to \(to); the archive has days from \(first) to \(last)"
        case .badOption(let name, let text, let remedy): "--\(name) \"\(text)\": \(remedy)"
        case .unknown(let what, let name, let nearest):
            "no event has the \(what) \"\(name)\"" + (nearest.map { "; did you mean \"\($0)\"?" } ?? "")
        case .unknownReport(let name, let nearest):
            "there is no report \"\(name)\""
                + (nearest.map { "; did you mean \($0)?" }
                    ?? "; the reports are \(ReportName.allCases.map(\.rawValue).joined(separator: ", "))")
        case .missingOption(let report, let option): "the report \(report) needs --\(option)"
        case .interrupted: "interrupted; nothing was written"
        }
    }
}
