package import Logging
internal import WaybillIngest
internal import WaybillJSON
internal import WaybillMetrics
internal import WaybillNotices
internal import WaybillSystem

/// What the door counts; each method is one occurrence.
package final class DoorTelemetry: Sendable {
    /// Why a request was refused; the set is closed.
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
        case memory
        case stopping
        case slow
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
    }

    private let counts = Lock(Counts())
    private let connections = Atomic(0)
    private let waiting = Atomic(0)
    let commits = DurationHistogram(.disk)
    let answers = DurationHistogram(.disk)
    let logger: Logger

    package init(logger: Logger) {
        self.logger = logger
    }

    func connected() { _ = self.connections.add(1, ordering: .relaxed) }
    func disconnected() { _ = self.connections.add(-1, ordering: .relaxed) }

    /// Takes room for bytes of a body, if there is some.
    func reserve(_ byteCount: Int, of byteCountMax: Int) -> Bool {
        if self.waiting.add(byteCount, ordering: .relaxed) <= byteCountMax { return true }
        _ = self.waiting.add(-byteCount, ordering: .relaxed)
        return false
    }

    func release(_ byteCount: Int) { _ = self.waiting.add(-byteCount, ordering: .relaxed) }

    func answered(_ dialect: Dialect, status: Int, took: Duration?) {
        self.counts.withLock { $0.requests[dialect, default: [:]][status, default: 0] += 1 }
        if let took { self.answers.add(took) }
    }

    func refused(_ reason: RefusalReason) {
        self.counts.withLock { $0.refusals[reason, default: 0] += 1 }
    }

    func faulty(_ faults: [IngestedEvents.Fault]) {
        guard !faults.isEmpty else { return }
        self.counts.withLock { counts in
            for fault in faults { counts.faults[fault.reason, default: 0] += 1 }
        }
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

    /// Whether the last group was stored.
    var isStoring: Bool { self.counts.withLock { $0.isStoring } }

    /// Everything, as JSON; no key is named.
    var status: [UInt8] {
        let counts = self.counts.withLock { $0 }
        return JSONWriter.object { json in
            json.member("program", "ingest")
            json.member("health", counts.isStoring ? "ok" : "down")
            json.member("stored_events", counts.events.storedCount)
            json.member("repeated_events", counts.events.repeatedCount)
            json.member("quarantined_events", counts.events.quarantinedCount)
            json.member("connections", self.connections.load(ordering: .relaxed))
            json.member("waiting_bytes", self.waiting.load(ordering: .relaxed))
            json.member(
                "refused", Dictionary(uniqueKeysWithValues: counts.refusals.map { ($0.key.rawValue, $0.value) }))
            json.member("faults", Dictionary(uniqueKeysWithValues: counts.faults.map { ($0.key.rawValue, $0.value) }))
        }
    }

    func page(connectionCountMax: Int) -> MetricsPage {
        let counts = self.counts.withLock { $0 }
        var page = MetricsPage()
        page.add("waybill_ingest_requests_total", .counter, "Requests with events, by what they were answered.") {
            for (dialect, codes) in counts.requests.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                for (code, count) in codes.sorted(by: { $0.key < $1.key }) {
                    $0.sample(count, [("dialect", dialect.rawValue), ("code", "\(code)")])
                }
            }
        }
        page.add("waybill_ingest_refused_requests_total", .counter, "Requests of which nothing was read.") {
            for reason in RefusalReason.allCases {
                $0.sample(counts.refusals[reason] ?? 0, [("reason", reason.rawValue)])
            }
        }
        page.add("waybill_ingest_events_total", .counter, "Events of answered requests.") {
            $0.sample(counts.events.storedCount, [("outcome", "stored")])
            $0.sample(counts.events.repeatedCount, [("outcome", "repeated")])
            $0.sample(counts.events.quarantinedCount, [("outcome", "quarantined")])
        }
        page.add("waybill_ingest_faults_total", .counter, "Events that could not be lines, by reason.") {
            for reason in IngestFault.allCases {
                $0.sample(counts.faults[reason] ?? 0, [("reason", reason.rawValue)])
            }
        }
        page.add(
            "waybill_ingest_dropped_faults_total", .counter, "Faulty events that the quarantine had no room for.",
            counts.droppedCount)
        page.add("waybill_ingest_unstored_requests_total", .counter, "Requests answered 503, by cause.") {
            $0.sample(counts.fullCount, [("cause", "disk-full")])
            $0.sample(counts.failureCount, [("cause", "disk-error")])
        }
        page.add("waybill_ingest_repeat_window_seconds", .gauge, "How far back repeated events are known.") {
            if let reach = counts.reach { $0.sample(reach / .seconds(1)) }
        }
        page.add(
            "waybill_ingest_connections", .gauge, "Open connections.", self.connections.load(ordering: .relaxed))
        page.add(
            "waybill_ingest_waiting_bytes", .gauge, "Bytes of bodies that arrive or wait.",
            self.waiting.load(ordering: .relaxed))
        page.add("waybill_ingest_durable_seconds", "Time of writing and syncing a group of requests.", self.commits)
        page.add("waybill_ingest_answer_seconds", "Time from a request's last byte to its answer.", self.answers)
        page.addProcess()
        return page
    }
}
