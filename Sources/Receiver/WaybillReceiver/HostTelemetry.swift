package import Logging
internal import WaybillData
package import WaybillFleet
package import WaybillHost
internal import WaybillProjection
package import WaybillSystem

/// What a host of archive and exports tells, a receiver or a merger: each occurrence is logged and counted in one place.
package final class HostTelemetry: Sendable {
    /// The state of one projection.
    package struct ProjectionStanding: Sendable {
        /// At its last checkpoint.
        var position = JournalPosition(0)
        /// Up to which it has read the journal, whether or not its files are durable yet.
        var read = JournalPosition(0)
        var tally = ProjectionTally()
        var failureCount = 0
        /// Why the disk refused it last time, as a code; `nil` while it works.
        var failure: FileSystemError.Code?
        /// Since when the disk refuses it.
        var failingSince: MonotonicTime?
        /// When the last batch before ``position`` was received; `nil` if that is not known.
        var receivedAt: WallTime?
        /// Whether it leaves the disk's space to the journal.
        var isHeld = false
        var sealedDayCount = 0
        var deletedDayCount = 0
        /// Days that retention would delete if they were delivered.
        var keptDayCount = 0
        /// Bytes of the journal that were deleted before it read them.
        var missedByteCount = 0
    }

    let logger: Logger
    /// What started this process, and watches it.
    package let manager: ServiceManager
    package let clock: any SystemClock
    package let projections = Lock<[String: ProjectionStanding]>([:])
    /// Those that stand before a batch that ends the program.
    let stoppedReaders = Lock<Set<String>>([])
    let quarantined = Lock(QuarantineCounts())
    let deletions = Lock<[DeletionKey: DeletionSum]>([:])
    /// Ranges of the journal that could not be read.
    let damages = Atomic(0)
    /// Bytes of the journal past its limit.
    let journalExcess = Atomic(0)
    package let reloads: ReloadTelemetry
    /// What the bucket was asked.
    package let storeRequests = MeteredStore.Counts()

    package init(logger: Logger, clock: any SystemClock = POSIXClock(), manager: ServiceManager = .none) {
        self.logger = logger
        self.reloads = ReloadTelemetry(logger, restartNeeded: .restartNeeded, refused: .reloadRefused)
        self.clock = clock
        self.manager = manager
    }

    /// Metrics include these from now on, even before they have started.
    package func willProject(_ names: Set<String>) {
        for name in names { self.update(name) { _ in } }
    }

    /// The name of a projection that cannot account for every line it read; only a defect causes one.
    package var unaccountable: String? {
        self.projections.withLock { $0.first { $0.value.tally.unaccountedLineCount != 0 }?.key }
    }

    func update(_ name: String, _ change: (inout ProjectionStanding) -> Void) {
        self.projections.withLock { change(&$0[name, default: ProjectionStanding()]) }
    }

    /// The position up to which the archive was durable at its last checkpoint.
    var archivePosition: JournalPosition {
        self.projections.withLock { $0["archive"]?.position } ?? JournalPosition(0)
    }

    /// - Parameters:
    ///   - found: the permissions that the folder had; `nil` if they could not be changed.
    ///   - failure: why not.
    func folderOpenToOthers(_ path: String, _ found: UInt16?, _ failure: FileSystemError?) {
        if let found {
            self.logger.notice(
                "users outside its group could read this folder, and no longer can; share it by its group (chgrp)",
                metadata: ["path": "\(path)", "found": "\(String(found, radix: 8))"])
        } else {
            self.logger.warning(
                .dataOpenToOthers, "users outside its group can read this folder; run chmod o= on it as its owner",
                metadata: ["path": "\(path)", "cause": "\(failure.map(\.description) ?? "unknown")"])
        }
    }

    package func metricsServed(on address: String) {
        self.logger.info("metrics are served", metadata: ["address": "\(address)"])
    }

    // MARK: The journal

    func damaged(_ damage: JournalDamage) {
        self.damages.add(1, ordering: .relaxed)
        self.logger.error(
            .journalDamaged,
            """
            journal: a range cannot be read and is skipped; check the disk, and compare with waybill inspect --verify \
            what archive and exports have
            """,
            metadata: [
                "path": "\(JournalPath.segment(damage.segment, in: "journal"))",
                "first_byte": .number(max(0, damage.start.rawValue - damage.segment.rawValue)),
                "end_byte": .number(damage.end.rawValue - damage.segment.rawValue),
                "bytes": .number(damage.end.rawValue - damage.start.rawValue),
                "reason": "\(damage.reason)",
            ])
    }

    func exportGoesOn(_ name: String, mappingVersion: Int, _ report: String) {
        self.logger.notice(
            "an export continues with other options",
            metadata: ["projection": "\(name)", "mapping": .number(mappingVersion), "report": "\(report)"])
    }

    /// How often the configuration was read again, for the line that a stop writes.
    package var reloadCounts: Logger.Metadata {
        [
            "reloads": .number(self.reloads[.taken]), "partial_reloads": .number(self.reloads[.partial]),
            "refused_reloads": .number(self.reloads[.refused]),
        ]
    }

    // MARK: The clock

    func clockDoubted(_ problem: String) {
        self.logger.warning(
            .clockDoubted,
            "the clock cannot be trusted, and what depends on it waits; set it, or run waybill clock --accept",
            metadata: ["cause": "\(problem)"])
    }

    func clockAccepted(_ time: WallTime) {
        self.logger.notice("an operator accepted the clock", metadata: ["time": "\(time.text)"])
    }

    func clockTrusted(_ time: WallTime) {
        self.logger.notice("the clock is trusted again", metadata: ["time": "\(time.text)"])
    }
}

/// When a failure that repeats is logged.
package enum RepeatedFailure {
    /// The first failure is logged, then one each minute: the disk may stay full for hours.
    package static func isTold(_ attempt: Int) -> Bool {
        // After six attempts they are 30 s apart.
        attempt == 1 || attempt >= 6 && attempt.isMultiple(of: 2)
    }
}

extension UploadFailure {
    /// A short word for logs and status.
    package var code: String {
        switch self {
        case .store(let error): error.code
        case .disk(let error): error.code.rawValue
        }
    }
}
