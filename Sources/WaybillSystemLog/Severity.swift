internal import Waybill

/// How urgent an event is for a system log, as RFC 5424 counts; the same as in the receiver's exports.
enum Severity: Int {
    case critical = 2
    case error = 3
    case warning = 4
    case notice = 5
    case informational = 6
    case debug = 7

    /// Notice for Waybill's own events; what the field `level` says of a log line; informational for all others.
    init(of event: EventView) {
        if event.kind == .meta {
            self = .notice
        } else if event.name == "log", let level = event.fields.first(where: { $0.name == "level" }) {
            self = Self.level(level.text)
        } else {
            self = .informational
        }
    }

    private static func level(_ text: String) -> Severity {
        switch text.lowercased() {
        case "critical": .critical
        case "error": .error
        case "warning": .warning
        case "notice": .notice
        case "debug", "trace": .debug
        default: .informational
        }
    }
}
