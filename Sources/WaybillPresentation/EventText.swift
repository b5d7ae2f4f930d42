internal import Waybill

/// An event's members as lines of text for people, in their order, with bounds.
enum EventText {
    /// More do not fit on a telephone's screen.
    static let lineCountMax = 12
    /// Characters of one value.
    static let valueCountMax = 200

    /// `screen: Playlist`, `songs: 12`, …; what is beyond the limit is counted in a last line.
    static func lines(of event: EventView) -> [String] {
        var lines: [String] = []
        for member in ["screen", "screen_class", "screen_id", "user"] {
            // Every event has a user; who they are is the point of one kind alone.
            if member == "user", event.kind != .user { continue }
            if let text = event[member] { lines.append("\(member): \(self.cut(text))") }
        }
        lines += event.fields.map { "\($0.name): \(self.cut($0.text))" }
        return self.cut(lines)
    }

    /// The name, and for screens which one.
    static func label(of event: EventView) -> String {
        guard event.kind == .screen, let screen = event["screen"] else { return event.name }
        return "\(event.name) \(self.cut(screen))"
    }

    private static func cut(_ lines: [String]) -> [String] {
        if lines.count <= self.lineCountMax { return lines }
        return lines.prefix(self.lineCountMax) + ["and \(lines.count - self.lineCountMax) more"]
    }

    private static func cut(_ text: String) -> String {
        text.count <= self.valueCountMax ? text : text.prefix(self.valueCountMax) + "…"
    }
}
