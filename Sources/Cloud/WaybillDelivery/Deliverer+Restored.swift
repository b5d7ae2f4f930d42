internal import Logging
internal import WaybillData
internal import WaybillExport
internal import WaybillHost
internal import WaybillProjection
internal import WaybillSystem

/// Deliveries from a directory that `waybill restore` made: no one knows what the lost one had sent.
///
///     days before --sent-before DAY    what is closed of them when it is said counts as sent
///     from DAY on                      is sent
///     later than the restored lines    was never in doubt
extension Deliverer {
    /// The entry of the state that holds the decision: the restore's id, and the first day that is sent.
    private static var decisionKey: String { "restored" }

    /// Whether a part may have been sent from the lost directory, and no one has decided.
    func isInDoubt(_ part: PendingPart) -> Bool {
        guard let restored, part.manifest.day <= restored.through else { return false }
        guard let first = self.decidedDay(restored) else { return true }
        // A part that is being sent belongs to a day that is; one of an earlier day may have lines from before.
        return part.manifest.day < first
    }

    private func decidedDay(_ restored: RestoredDays) -> CalendarDay? {
        let fields = self.state.entries[Self.decisionKey]?.split(separator: " ") ?? []
        guard fields.count == 2, fields[0] == restored.id else { return nil }
        return CalendarDay(String(fields[1]))
    }

    func noteDoubt(_ part: PendingPart) {
        guard !self.report.doubtfulDays.contains(part.day) else { return }
        self.report.doubtfulDays.append(part.day)
        self.logger.error(
            .dayInDoubt,
            "a day may have been sent before the directory was restored; it is not sent without --sent-before or --force",
            metadata: ["day": "\(part.day)"])
    }

    /// Takes the operator's word for what was sent.
    func decide() throws(FileSystemError) {
        guard let first = self.configuration.sentBefore, let restored, !self.rules.facts.isRepeatableForEver else {
            return
        }
        var count = 0
        for part in try self.parts.pending(only: self.configuration.env).parts
        where part.manifest.day < first && part.manifest.day <= restored.through {
            try self.files.replace(
                self.parts.deliveredPath(part.day, part.name), with: Array("\(part.manifest.sha256)\n".utf8))
            let generation = try self.parts.generation(of: part.day)
            self.parts.setDelivered(part, generation)
            let day = DeliveredDay(generation: generation, partCount: self.parts.deliveredCount(of: part.day))
            try self.state.commit([part.key: String?.none, part.dayKey: day.text])
            count += 1
        }
        try self.state.commit([Self.decisionKey: "\(restored.id) \(first)"])
        self.logger.info(
            "what is closed of earlier days counts as sent", metadata: ["before": "\(first)", "parts": .number(count)])
    }
}
