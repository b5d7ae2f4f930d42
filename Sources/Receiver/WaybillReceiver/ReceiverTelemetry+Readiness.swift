internal import WaybillHost
internal import WaybillSystem

/// Whether the receiver does its job.
extension ReceiverTelemetry {
    /// How long a group may take to become durable.
    private static var commitPatience: Duration { .seconds(5) }

    /// Why nothing is acknowledged; `nil` while groups become durable.
    func commitProblem(_ shared: ReceiverShared) -> String? {
        if let withheld = shared.conditions.withheld { return withheld }
        guard let took = self.journal.commitDuration(at: shared.clock.monotonicTime()), took > Self.commitPatience
        else {
            return nil
        }
        let seconds = took.nanoseconds / 1_000_000_000
        return "the disk has not taken a group of batches for \(seconds) s: nothing is acknowledged meanwhile"
    }

    /// Ready if it commits, no projection fails, and the disk has more free space than its reserve.
    func readiness(_ shared: ReceiverShared) -> Readiness {
        var failures = [self.commitProblem(shared)].compactMap(\.self)
        var problems = [shared.conditions.clock.problem(shared.clock), self.uploads.problem].compactMap(\.self)
        self.host.addDiskProblems(shared.conditions, &failures, &problems)
        return Readiness(isReady: failures.isEmpty, problems: failures + problems)
    }
}
