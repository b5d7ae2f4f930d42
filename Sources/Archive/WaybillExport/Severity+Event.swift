internal import WaybillEvent
internal import WaybillJSON

extension Severity {
    /// Notice for Waybill's own events, the field `level` for a log line, informational for all others.
    init(of event: borrowing MappedEvent) {
        if event.kind == .meta {
            self = .notice
        } else if event.name.equals("log"), let level = Self.level(of: event) {
            self.init(level: level)
        } else {
            self = .informational
        }
    }

    private static func level(of event: borrowing MappedEvent) -> String? {
        var fields = event.fields()
        while let (key, value) = fields.next(in: event) {
            let isEscaped = event.tape[key].traits.contains(.hasEscapes)
            guard JSONText.equals(event.tape.bytes(of: key), isEscaped: isEscaped, "level") else { continue }
            guard let text = event.text(at: value), text.body.count <= 8 else { return nil }
            return JSONText.string(text.body)
        }
        return nil
    }
}
