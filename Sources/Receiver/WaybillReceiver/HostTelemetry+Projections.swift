internal import Logging
internal import WaybillData
internal import WaybillHost
internal import WaybillProjection
internal import WaybillSystem

/// What archive and exports do, for the log, the metrics and the status.
extension HostTelemetry {
    /// Everything up to `position` is durable in the projection's files.
    ///
    /// - Parameter receivedAt: when the last batch before it was received.
    func projectionCheckpointed(
        _ name: String, at position: JournalPosition, _ tally: ProjectionTally, receivedAt: WallTime?
    ) {
        self.resumed(name)
        self.update(name) { standing in
            standing.position = position
            standing.tally = tally
            standing.receivedAt = receivedAt ?? standing.receivedAt
        }
    }

    /// What it could not write before is written.
    func resumed(_ name: String) {
        let since = self.projections.withLock { projections -> MonotonicTime? in
            let since = projections[name]?.failingSince
            projections[name]?.failure = nil
            projections[name]?.failingSince = nil
            return since
        }
        guard let since else { return }
        self.logger.notice(
            "a projection writes again",
            metadata: ["projection": "\(name)", "failed_for_s": .seconds(self.clock.monotonicTime() - since)])
    }

    func sealed(_ name: String, _ day: SealedDay) {
        self.update(name) { $0.sealedDayCount += 1 }
        self.logger.info(
            "day sealed",
            metadata: [
                "projection": "\(name)", "day": "\(day.path)", "revision": .number(day.revision),
                "lines": .number(day.lineCount), "bytes": .number(day.byteCount),
            ])
    }

    func projectionFailed(_ name: String, _ error: FileSystemError, attempt: Int, retryingIn pause: Duration) {
        let now = self.clock.monotonicTime()
        let since = self.projections.withLock { projections in
            projections[name, default: ProjectionStanding()].failureCount += 1
            projections[name]?.failure = error.code
            let since = projections[name]?.failingSince ?? now
            projections[name]?.failingSince = since
            return since
        }
        guard RepeatedFailure.isTold(attempt) else { return }
        self.logger.error(
            .projectionFailed,
            "a projection could not write; nothing is lost, its lines wait in the journal, and it tries again",
            metadata: [
                "projection": "\(name)", "cause": "\(error)", "code": "\(error.code)", "attempt": .number(attempt),
                "retry_in_s": .seconds(pause), "failing_for_s": .seconds(now - since),
            ])
    }

    func projectionHeld(_ name: String) {
        self.update(name) { $0.isHeld = true }
        self.logger.warning(
            .projectionHeld,
            "the disk is nearly full: a projection waits, so that the journal has space; free some, or set retention",
            metadata: ["projection": "\(name)"])
    }

    func projectionResumed(_ name: String) {
        self.update(name) { $0.isHeld = false }
        self.logger.notice("a projection that waited for disk space continues", metadata: ["projection": "\(name)"])
    }

    /// A stop did not wait for it.
    func projectionAbandoned(_ name: String) {
        self.logger.notice(
            "projection stopped at its last checkpoint; the next start continues there",
            metadata: ["projection": "\(name)"])
    }

    func linksNotSetAside(_ name: String, _ error: FileSystemError) {
        self.logger.error(
            .linksNotSetAside, "a link among the files could not be set aside; remove it",
            metadata: ["projection": "\(name)", "cause": "\(error)"])
    }

    func linksSetAside(_ name: String, _ paths: [String]) {
        self.logger.warning(
            .linksSetAside, "links among the files were set aside; nothing was written through them",
            metadata: ["projection": "\(name)", "kept": "\(paths.joined(separator: ", "))"])
    }

    func projectionStopped(_ name: String, _ report: String) {
        self.logger.info("projection stopped", metadata: ["projection": "\(name)", "report": "\(report)"])
    }

    /// Closed parts could not be compressed; each is tried again once a minute.
    func closingFailed(_ name: String, _ failures: [ClosingFailure]) {
        guard let first = failures.first else { return }
        self.logger.error(
            .partsNotClosed, "parts are closed but damaged or unreadable; the others continue",
            metadata: ["projection": "\(name)", "first": "\(first)", "count": .number(failures.count)])
    }

    func projectionStarted(_ name: String, at position: JournalPosition, _ report: String) {
        // While the disk refuses, each attempt begins with repairs; the failure has a line of its own.
        let isRetry = self.projections.withLock { projections in
            projections[name, default: ProjectionStanding()].position = position
            return projections[name]?.failingSince != nil
        }
        self.logger.log(
            .projectionRecovered, level: report.isEmpty || isRetry ? .info : .warning, "projection started",
            metadata: ["projection": "\(name)", "position": .number(position.rawValue), "recovery": "\(report)"])
    }

    // MARK: Readiness

    /// Adds what keeps archive and exports from being written, and what makes them wait.
    package func addDiskProblems(_ conditions: HostConditions, _ failures: inout [String], _ problems: inout [String]) {
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
