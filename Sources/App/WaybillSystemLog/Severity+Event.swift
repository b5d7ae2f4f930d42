internal import Waybill
internal import WaybillEvent

extension Severity {
    /// Notice for Waybill's own events; the field `level` for log lines; informational for all others.
    init(of event: EventView) {
        if event.kind == .meta {
            self = .notice
        } else if event.name == "log", let level = event.fields.first(where: { $0.name == "level" }) {
            self.init(level: level.text)
        } else {
            self = .informational
        }
    }
}
