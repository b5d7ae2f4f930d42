internal import WaybillData
internal import WaybillExport
internal import WaybillProtocol

/// What an export tells about the lines that it has read.
struct LineCounts {
    private struct Lines {
        var read = 0
        /// Those that are not events, which are in the archive's quarantine.
        var quarantined = 0
    }

    private var lines = Lines()
    /// ``lines`` at the last checkpoint, which recovery restores.
    private var checkpointedLines = Lines()
    /// Up to the last checkpoint, since it was taken.
    private var outcomes = OutcomeCensus()
    /// Of batches whose agent is known, since it was taken.
    private var refused = QuarantineCounts()

    /// The lines since the start, with what happened to their events.
    func tally(_ events: PartSink.Counts) -> ProjectionTally {
        var tally = ProjectionTally()
        tally.lineCount = self.lines.read
        tally.quarantined = self.lines.quarantined
        tally.exported = events.exported
        tally.refused = events.refused
        tally.held = events.held
        tally.skips = events.skips
        tally.outcomes = events.outcomes
        return tally
    }

    mutating func addRead(_ count: Int) {
        self.lines.read += count
    }

    mutating func addQuarantined(_ count: Int) {
        self.lines.quarantined += count
    }

    /// Counts the events of a batch that an export refused, for the agent that brought them.
    mutating func addRefused(
        of batch: ProjectedBatch, by export: String, from before: OutcomeCounts, to after: OutcomeCounts
    ) {
        guard let account = batch.account else { return }
        for (outcome, count) in after.outcomes {
            guard case .refused(let reason) = outcome, count > before[outcome] else { continue }
            self.refused.add(
                count - before[outcome],
                for: QuarantineKey(
                    account: account, stream: batch.description.id, export: export, reason: reason.rawValue))
        }
    }

    /// Saves the counts that recovery restores, and adds what happened to events since the last checkpoint.
    mutating func checkpointed(_ census: OutcomeCensus) {
        self.checkpointedLines = self.lines
        self.outcomes.add(census)
    }

    /// Returns to the last checkpoint.
    mutating func recover() {
        self.lines = self.checkpointedLines
    }

    mutating func takeQuarantined() -> QuarantineCounts {
        defer { self.refused = QuarantineCounts() }
        return self.refused
    }

    mutating func takeOutcomes() -> OutcomeCensus {
        self.outcomes.take()
    }
}
