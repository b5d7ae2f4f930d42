package import Logging
internal import WaybillHost
internal import WaybillIngest
internal import WaybillJSON
internal import WaybillSystem

/// What the door counts; each method is one occurrence.
package final class DoorTelemetry: Sendable {
    /// Why a request was refused; ``Metric/refusedRequests`` says what each means.
    package enum RefusalReason: String, Hashable, Sendable, CaseIterable {
        case notFound = "not-found"
        case method
        case noKey = "no-key"
        case unknownKey = "unknown-key"
        case dialect
        case origin
        case tooLarge = "too-large"
        case encoding
        case malformed
        case tooFast = "too-fast"
        case share
        case memory
        case displaced
        case disk = "disk-share"
        case stopping
        case slow
    }

    /// Why a connection ended for another one, or was not taken; the set is closed.
    enum EndedConnection: String, Hashable, Sendable, CaseIterable {
        /// Its address had its share.
        case share
        /// All places were taken.
        case full
        /// It was not taken: none of the others was silent.
        case busy
    }

    private struct Counts {
        var requests: [Dialect: [Int: Int]] = [:]
        var refusals: [RefusalReason: Int] = [:]
        var events = DoorCounts()
        var faults: [IngestFault: Int] = [:]
        var fullCount = 0
        var failureCount = 0
        var droppedCount = 0
        var reach: Duration?
        /// Whether the last group was stored.
        var isStoring = true
        var certificateExpiry: WallTime?
        /// When the log last said that no file was left for a connection.
        var fileNotice: MonotonicTime?
        var endedConnections: [EndedConnection: Int] = [:]
    }

    private let counts = Lock(Counts())
    let commits = DurationHistogram(.disk)
    let answers = DurationHistogram(.disk)
    let spools = SpoolUsage()
    /// Days of the quarantine that were deleted.
    let deletedDayCount = Atomic(0)
    let logger: Logger
    let reloads: ReloadTelemetry
    private let started = POSIXClock().wallTime()

    package init(logger: Logger) {
        self.logger = logger
        self.reloads = ReloadTelemetry(logger, restartNeeded: .doorRestartNeeded, refused: .doorReloadRefused)
    }

    func answered(_ dialect: Dialect, status: Int, took: Duration?) {
        self.counts.withLock { $0.requests[dialect, default: [:]][status, default: 0] += 1 }
        if let took { self.answers.add(took) }
    }

    func refused(_ reason: RefusalReason) {
        self.counts.withLock { $0.refusals[reason, default: 0] += 1 }
    }

    func ended(_ reason: EndedConnection) {
        self.counts.withLock { $0.endedConnections[reason, default: 0] += 1 }
    }

    func faulty(_ faults: [IngestedEvents.Fault]) {
        guard !faults.isEmpty else { return }
        self.counts.withLock { counts in
            for fault in faults { counts.faults[fault.reason, default: 0] += 1 }
        }
    }

    /// Takes how far back repeats are known.
    func known(reach: Duration) {
        self.counts.withLock { $0.reach = reach }
    }

    func committed(_ outcomes: [DoorOutcome], took: Duration, reach: Duration, droppedCount: Int) {
        self.commits.add(took)
        let (before, now) = self.counts.withLock { counts -> (Bool, Bool) in
            let before = counts.isStoring
            counts.isStoring = true
            for outcome in outcomes {
                switch outcome {
                case .stored(let found): counts.events += found
                case .full:
                    counts.fullCount += 1
                    counts.isStoring = false
                case .failed:
                    counts.failureCount += 1
                    counts.isStoring = false
                case .share: break
                }
            }
            counts.reach = reach
            counts.droppedCount = droppedCount
            return (before, counts.isStoring)
        }
        if before && !now {
            if outcomes.contains(.full) {
                self.logger.error(
                    .doorFull, "the disk of the spools is full; requests are answered 503, and senders repeat them")
            } else {
                self.logger.error(
                    .doorFailed, "the spools cannot be written; requests are answered 503, and senders repeat them")
            }
        } else if !before && now {
            self.logger.notice("requests are stored again")
        }
    }

    /// The disk takes bytes again, and no one has sent any.
    func recovered() {
        self.counts.withLock { $0.isStoring = true }
        self.logger.notice("requests are stored again")
    }

    // MARK: Files

    /// Says whether fewer connections may be open than the configuration has.
    func limited(_ settings: DoorSettings) {
        let wanted = settings.configuration.limits.connectionCountMax
        guard settings.places.countMax < wanted else { return }
        self.logger.notice(
            "fewer connections are taken than ingest.connections: raise the limit of open files (LimitNOFILE, ulimit -n)",
            metadata: ["connections": .number(settings.places.countMax), "configured": .number(wanted)])
    }

    /// Takes that no file was left for another connection; the log says so once a minute at most.
    func lackedFiles(at now: MonotonicTime) {
        let isSaid = self.counts.withLock { counts -> Bool in
            if let last = counts.fileNotice, now - last < .seconds(60) { return true }
            counts.fileNotice = now
            return false
        }
        guard !isSaid else { return }
        self.logger.notice(
            "no file is left for another connection; the one that was silent longest ends: raise the limit of open files"
        )
    }

    func certificateRenewed(_ changes: [ConfigurationChange]) {
        self.logger.notice(
            "the certificate was renewed",
            metadata: ["changes": "\(changes.map(\.description).joined(separator: "; "))"])
    }

    func certificateUsed(until expiry: WallTime) {
        self.counts.withLock { $0.certificateExpiry = expiry }
    }

    // MARK: Answers

    /// Whether the last group was stored, or the disk takes bytes again.
    var isStoring: Bool { self.counts.withLock { $0.isStoring } }

    var readiness: Readiness {
        guard !self.isStoring else { return .ready }
        return Readiness(
            isReady: false, problems: ["the spool cannot be written: the disk is full, or fails; senders repeat"])
    }

    /// Everything, as JSON.
    func status(of door: Door) -> [UInt8] {
        let counts = self.counts.withLock { $0 }
        let readiness = self.readiness(of: door)
        let settings = door.settings
        return JSONWriter.object { json in
            json.member("part", "ingest")
            json.member("name", settings.configuration.listen.description)
            json.member("software", settings.configuration.software)
            json.member("time", door.clock.wallTime().milliseconds)
            json.member("started", self.started.milliseconds)
            json.member("health", readiness.health.rawValue)
            json.member("problems", array: readiness.problems) { $0.string($1) }
            json.member("lines", counts.events.storedCount)
            json.member("repeated", counts.events.repeatedCount)
            json.member("quarantined", counts.events.quarantinedCount)
            json.member("connections", door.places.count)
            json.member("waiting_bytes", door.room.byteCount)
            json.member("refused", counts.refusals)
            json.member("faults", counts.faults)
            json.member("certificate_expiry", counts.certificateExpiry.map { Int($0.milliseconds) })
            if let tunnels = door.tunnels { json.member("line") { tunnels.write(to: &$0) } }
            json.member("keys", objects: settings.all) { json, standing in
                standing.key.write(standing.tally.counts, to: &json)
            }
        }
    }

    func page(of door: Door) -> MetricsPage {
        let counts = self.counts.withLock { $0 }
        var page = MetricsPage()
        page.add(.requests) {
            for (dialect, codes) in counts.requests.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                for (code, count) in codes.sorted(by: { $0.key < $1.key }) {
                    $0.sample(count, dialect.rawValue, "\(code)")
                }
            }
        }
        page.add(.refusedRequests, by: RefusalReason.self) { counts.refusals[$0] ?? 0 }
        page.add(.events, by: Metric.EventOutcome.self) { outcome in
            switch outcome {
            case .stored: counts.events.storedCount
            case .repeated: counts.events.repeatedCount
            case .quarantined: counts.events.quarantinedCount
            case .dropped: counts.events.droppedCount
            }
        }
        page.add(.faults, by: IngestFault.self) { counts.faults[$0] ?? 0 }
        page.add(.droppedFaults, counts.droppedCount)
        page.add(.deletedQuarantineFolders, self.deletedDayCount.load(ordering: .relaxed))
        page.add(.unstoredRequests, by: Metric.UnstoredCause.self) { cause in
            switch cause {
            case .diskFull: counts.fullCount
            case .diskError: counts.failureCount
            }
        }
        page.add(.repeatWindow, counts.reach.map { $0 / .seconds(1) })
        page.add(.connections, door.places.count)
        page.add(.endedConnections, by: EndedConnection.self) { counts.endedConnections[$0] ?? 0 }
        page.add(.waitingBytes, door.room.byteCount)
        page.add(.spoolBytes, self.spools.byteCount)
        page.add(.durableTime, self.commits)
        page.add(.answerTime, self.answers)
        self.reloads.add(to: &page)
        page.add(.certificateExpiry, counts.certificateExpiry.map { Int($0.milliseconds / 1000) })
        page.addBuild(door.settings.configuration.software, protocol: [])
        door.tunnels?.write(to: &page)
        page.addProcess()
        return page
    }
}

extension DoorTelemetry {
    /// Counts a day of the quarantine that was deleted, and says why others stay.
    func retired(_ retirement: QuarantineRetirement) {
        switch retirement {
        case .done: return
        case .deleted(let day):
            _ = self.deletedDayCount.add(1, ordering: .relaxed)
            self.logger.notice("a day of the quarantine was deleted", metadata: ["day": "\(day)"])
        case .failed(let error, let dayCount):
            self.logger.warning(
                .doorQuarantineKept, "old days of the quarantine cannot be deleted; they are tried again tomorrow",
                metadata: ["days": .number(dayCount), "reason": "\(error)"])
        case .clockDoubted(let now, let youngest):
            self.logger.warning(
                .doorQuarantineKept, "the clock is wrong, and no day of the quarantine is deleted; set the clock",
                metadata: [
                    "reason": "the clock shows \(now.text), before date=\(youngest) or the date of the program"
                ])
        }
    }
}
