internal import Waybill

/// An event's members as a limited number of text lines for people, in order.
enum EventText {
    /// More do not fit on a phone's screen.
    static let lineCountMax = 12
    /// The maximum number of characters of a value.
    static let valueCountMax = 200

    /// Returns `screen: Playlist`, `songs: 12`, …; a last line counts the fields above the limit.
    static func lines(of event: EventView) -> [String] {
        var lines: [String] = []
        for member in ["screen", "screen_class", "screen_id", "user"] {
            // Every event has a user, but only in events of this kind is it of interest.
            if member == "user", event.kind != .user { continue }
            if let text = event[member: member] { lines.append("\(member): \(self.cut(text))") }
        }
        lines += event.fields.map { "\($0.name): \(self.cut($0.text))" }
        lines += event.traits(.setOnce).map { "\($0.name), once: \(self.cut($0.text))" }
        lines += event.traits(.add).map { "\($0.name), added: \(self.cut($0.text))" }
        return self.cut(lines)
    }

    /// The event's name, followed by the screen's name for screens.
    static func label(of event: EventView) -> String {
        guard event.kind == .screen, let screen = event[member: "screen"] else { return event.name }
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
