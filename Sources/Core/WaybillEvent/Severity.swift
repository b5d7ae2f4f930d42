/// The severity of an event in a system log (RFC 5424).
package enum Severity: Int, Sendable {
    case critical = 2
    case error = 3
    case warning = 4
    case notice = 5
    case informational = 6
    case debug = 7

    /// The severity for a log line's field `level`; informational for levels that swift-log does not have.
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
