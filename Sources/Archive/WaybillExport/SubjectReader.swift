internal import WaybillJSON

/// Finds whose properties a line sets for a provider, by the rules of the exports.
///
/// One owner: its buffers are reused from line to line.
package struct SubjectReader: ~Copyable {
    private var event = MappedEvent()
    private var repair = LineRepair()
    private var draft = Draft()

    package init() {}

    /// The user after a `u`, or the device after an `a`; empty if the line has neither.
    package mutating func subject(
        of line: UnsafeRawBufferPointer, _ facts: EventFacts, _ source: SourceDescription, for provider: Destination
    ) -> [UInt8] {
        do throws(JSONError) {
            try self.event.load(line, facts, source, at: 0)
            if self.event.needsRepair(isStrict: true) {
                self.repair.write(self.event, isStrict: true)
                try self.event.take(self.repair)
            }
        } catch {
            return []
        }
        let user = provider.type.user(of: self.event, in: &self.draft)
        guard let subject = user ?? self.event.text(.anon) else { return [] }
        self.draft.unescape(subject)
        return Array((user == nil ? "a" : "u").utf8) + Array(self.draft.text.bytes)
    }
}
