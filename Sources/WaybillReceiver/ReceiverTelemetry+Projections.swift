internal import Logging
internal import WaybillJournal
internal import WaybillProjection
internal import WaybillSystem

/// What archive and exports do, for the log, the metrics and the status.
extension ReceiverTelemetry {
    /// Everything up to `position` is durable in the projection's files.
    ///
    /// - Parameter receivedAt: when the last batch before it was received.
    func projectionCheckpointed(
        _ name: String, at position: JournalPosition, _ tally: ProjectionTally, receivedAt: WallTime?
    ) {
        self.update(name) { standing in
            standing.position = position
            standing.tally = tally
            standing.receivedAt = receivedAt ?? standing.receivedAt
            standing.failure = nil
        }
    }

    func sealed(_ name: String, _ day: SealedDay) {
        self.update(name) { $0.sealedDayCount += 1 }
        self.logger.info(
            "day sealed",
            metadata: [
                "projection": "\(name)", "day": "\(day.path)", "revision": "\(day.revision)",
                "lines": "\(day.lineCount)", "bytes": "\(day.byteCount)",
            ])
    }

    func projectionFailed(_ name: String, _ error: FileSystemError, attempt: Int, retryingIn pause: Duration) {
        self.update(name) { standing in
            standing.failureCount += 1
            standing.failure = error.code
        }
        guard Self.isTold(attempt) else { return }
        self.logger.error(
            "a projection could not write; it goes back to its checkpoint and tries again",
            metadata: [
                "projection": "\(name)", "cause": "\(error)", "code": "\(error.code)", "attempt": "\(attempt)",
                "retry_in": "\(pause)",
            ])
    }

    func projectionHeld(_ name: String) {
        self.update(name) { $0.isHeld = true }
        self.logger.warning(
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
            "a link among the files could not be set aside; remove it",
            metadata: ["projection": "\(name)", "cause": "\(error)"])
    }

    func linksSetAside(_ name: String, _ paths: [String]) {
        self.logger.warning(
            "links among the files were set aside; nothing was written through them",
            metadata: ["projection": "\(name)", "kept": "\(paths.joined(separator: ", "))"])
    }

    func projectionStopped(_ name: String, _ report: String) {
        self.logger.info("projection stopped", metadata: ["projection": "\(name)", "report": "\(report)"])
    }
}
