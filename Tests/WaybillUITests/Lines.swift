@testable import Waybill

/// A stored event, from what its line says besides the members that every line has.
func storedEvent(_ kind: EventKind, _ members: String, sequence: UInt64 = 1) -> EventView {
    let line = #"{"v":1,"seq":\#(sequence),"ts":"2025-03-01T09:14:19.003Z","kind":"\#(kind.rawValue)",\#(members)}"#
    return EventView(sequence: sequence, kind: kind, line: Array((line + "\n").utf8))
}
