/// How urgent an event is for a system log, as RFC 5424 counts.
package enum Severity: Int, Sendable {
    case critical = 2
    case error = 3
    case warning = 4
    case notice = 5
    case informational = 6
    case debug = 7

    /// The severity of a log line by its field `level`; informational for a level that swift-log does not have.
    package init(level: String) {
        self =
            switch level.lowercased() {
            case "critical": .critical
            case "error": .error
            case "warning": .warning
            case "notice": .notice
            case "debug", "trace": .debug
            default: .informational
            }
    }
}
