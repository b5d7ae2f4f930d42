internal import WaybillEvent
internal import WaybillSystem

extension ClientState {
    /// Stores a `wb.field` event for each value that the event's type could not store, once per process.
    ///
    /// It names event, field, type and remedy, and never the value: an app's developers see it in the system's log, in
    /// the overlay, or in the archive.
    mutating func reportFaults(of draft: borrowing EventDraft, at now: Moment) {
        let event = draft.name
        for fault in draft.faults where self.reportedFaults.insert(fault, of: event) {
            let sequence = self.encodeOwn("wb.field", at: now) { fields in
                fields.put("event", event)
                fields.put("field", fault.field.isEmpty ? nil : fault.field)
                fields.put("type", fault.type)
                fields.put("remedy", fault.remedy)
            }
            let own = self.own
            if let sequence { _ = self.place(own.draft, sequence, at: now) }
        }
    }
}

/// The faults that `wb.field` events have reported.
struct ReportedFaults {
    private var keys: Set<String> = []

    /// Returns whether the fault must be reported: it is one of the first, and was not reported before.
    mutating func insert(_ fault: FieldFault, of event: String) -> Bool {
        self.keys.count < Self.countMax && self.keys.insert("\(event) \(fault.field) \(fault.type)").inserted
    }

    /// More are counted only: an app has few types, and a process that names events at random must not fill its spool.
    private static var countMax: Int { 32 }
}
