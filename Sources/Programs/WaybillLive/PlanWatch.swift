package import WaybillData
package import WaybillExport
internal import WaybillProjection
package import WaybillSystem

/// Why a plan is not followed any longer.
package enum PlanEnd: String, Sendable {
    /// Everything that must come has come.
    case everything = "all-came"
    case time
    /// A signal.
    case stopped
}

/// Compares what comes to a journal with a plan: the page's follower and the page's outcomes, without a page.
package struct PlanWatch<Files: FileSystem>: ~Copyable {
    private var follower: Follower<Files>
    private var line = ShownLine(mask: .none)
    private let outcomes: Outcomes
    private var progress: PlanProgress

    /// - Parameter position: what was there before does not count.
    package init(
        data: DataDirectory<Files>, exports: [ExportOptions], plan: EventPlan, from position: JournalPosition
    ) throws(FileSystemError) {
        self.follower = Follower(
            journal: data.journal, from: position, files: data.files, erased: try ErasedPeople.read(in: data),
            poison: try PoisonedLines.read(in: data))
        self.outcomes = Outcomes(exports)
        self.progress = PlanProgress(plan)
    }

    /// Whether everything that must come has come.
    package var hasEverything: Bool { self.progress.hasEverything }

    /// Reads on, to the end of what is durable.
    package mutating func advance(upTo end: JournalPosition) throws(FileSystemError) {
        while let followed = try self.follower.next(upTo: end) {
            for row in followed.batch.rows {
                self.line.load(row)
                self.progress.take(self.line, at: row.id) { self.outcomes.outcomes(of: row, shown: self.line) }
            }
            for line in followed.quarantined { self.progress.take(line) }
        }
        self.progress.take(self.follower.takeGaps())
    }

    package func answer(_ end: PlanEnd) -> PlanAnswer {
        PlanAnswer(self.progress, end)
    }
}
