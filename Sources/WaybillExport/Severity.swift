internal import WaybillJSON

/// How urgent an event is for a system log, as RFC 5424 counts.
enum Severity: Int {
    case critical = 2
    case error = 3
    case warning = 4
    case notice = 5
    case informational = 6
    case debug = 7

    /// Notice for Waybill's own events; what the field `level` says of a log line; informational for all others.
    init(of event: borrowing EventView) {
        self = .informational
        if event.kind == .meta {
            self = .notice
        } else if event.name.equals("log"), let level = Self.level(of: event) {
            self = level
        }
    }

    private static func level(of event: borrowing EventView) -> Severity? {
        var fields = event.fields()
        while let (key, value) = fields.next(in: event) {
            let isEscaped = event.tape[key].traits.contains(.hasEscapes)
            guard JSONText.equals(event.tape.bytes(of: key), isEscaped: isEscaped, "level") else { continue }
            guard let text = event.text(at: value), text.body.count <= 8 else { return nil }
            switch JSONText.string(text.body).lowercased() {
            case "critical": return .critical
            case "error": return .error
            case "warning": return .warning
            case "notice": return .notice
            case "info": return .informational
            case "debug", "trace": return .debug
            default: return nil
            }
        }
        return nil
    }
}
