internal import WaybillHost
internal import WaybillSystem

/// Whether the receiver does its job.
extension ReceiverTelemetry {
    /// How long a group may take to become durable.
    private static var commitPatience: Duration { .seconds(5) }

    /// Why nothing is acknowledged; `nil` while groups become durable.
    func commitProblem(_ shared: ReceiverShared) -> String? {
        if let withheld = shared.conditions.withheld { return withheld }
        let since = self.committingSince.load(ordering: .relaxed)
        guard since != 0 else { return nil }
        let took = shared.clock.monotonicTime() - MonotonicTime(nanoseconds: since)
        guard took > Self.commitPatience else { return nil }
        let seconds = took.nanoseconds / 1_000_000_000
        return "the disk has not taken a group of batches for \(seconds) s: nothing is acknowledged meanwhile"
    }

    /// Ready if it commits, no projection fails, and the disk has more free space than its reserve.
    func readiness(_ shared: ReceiverShared) -> Readiness {
        var failures = [self.commitProblem(shared)].compactMap(\.self)
        var problems = [shared.conditions.clock.problem(shared.clock), self.storeProblem].compactMap(\.self)
        self.addDiskProblems(shared.conditions, &failures, &problems)
        return Readiness(isReady: failures.isEmpty, problems: failures + problems)
    }

    /// Adds what keeps archive and exports from being written, and what makes them wait.
    func addDiskProblems(_ conditions: HostConditions, _ failures: inout [String], _ problems: inout [String]) {
        let projections = self.projections.withLock { $0 }.sorted { $0.key < $1.key }
        for (name, standing) in projections {
            guard let failure = standing.failure else { continue }
            failures.append(
                "the disk refuses \(name) (\(failure)): it tries again, and the journal keeps what it lacks")
        }
        let stopped = self.stoppedReaders.withLock { $0.sorted() }
        if !stopped.isEmpty {
            failures.append("a line ends the program; these stand still before it: \(stopped.joined(separator: ", "))")
        }
        if !conditions.reserve.hasRoom(for: "archive") {
            failures.append("less space is free on the disk than its reserve: free some, or set retention")
        }
        let held = projections.filter(\.value.isHeld).map(\.key)
        if !held.isEmpty { problems.append("the disk is nearly full; these wait: \(held.joined(separator: ", "))") }
    }
}
