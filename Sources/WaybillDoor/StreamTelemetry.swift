internal import Logging
internal import WaybillMetrics
internal import WaybillNotices
internal import WaybillReceiver
internal import WaybillSystem

/// What the door counts about streams; each method is one occurrence.
final class StreamTelemetry: Sendable {
    private struct Counts {
        var requests: [StreamVerb: [Int: Int]] = [:]
        var refusals: [StreamRefusal.Code: Int] = [:]
        var agentRefusals: [AgentRefusal: Int] = [:]
        var storedByteCount = 0
        var repeatedCount = 0
        var isAway = false
    }

    private let counts = Lock(Counts())
    private let connections = Atomic(0)
    private let logger: Logger

    init(logger: Logger) {
        self.logger = logger
    }

    func answered(_ verb: StreamVerb?, _ result: Result<StreamAnswer, StreamRefusal>, byteCount: Int) {
        self.counts.withLock { counts in
            var status = 200
            switch result {
            case .success(.held(_, let isRepeated)):
                if isRepeated == true { counts.repeatedCount += 1 } else { counts.storedByteCount += byteCount }
            case .success(.sealing): status = 202
            case .failure(let refusal):
                status = refusal.code.status
                counts.refusals[refusal.code, default: 0] += 1
            }
            if let verb { counts.requests[verb, default: [:]][status, default: 0] += 1 }
        }
    }

    func answeredReceiver() {
        self.counts.withLock { $0.requests[.receiver, default: [:]][200, default: 0] += 1 }
    }

    func refusedAgent(_ reason: AgentRefusal) {
        self.counts.withLock { $0.agentRefusals[reason, default: 0] += 1 }
    }

    func agentsRead(count: Int) {
        self.logger.notice("clients were read again", metadata: ["principals": "\(count)"])
    }

    func agentsUnusable(_ problems: [String]) {
        self.logger.warning(
            .doorAgentsUnusable, "the list of clients cannot be used; the one before stays in force",
            metadata: ["problems": "\(problems.joined(separator: "; "))"])
    }

    func connected(_ receiver: String) {
        _ = self.connections.add(1, ordering: .relaxed)
        let wasAway = self.counts.withLock { counts in
            defer { counts.isAway = false }
            return counts.isAway
        }
        if wasAway { self.logger.notice("streams are forwarded again", metadata: ["receiver": "\(receiver)"]) }
    }

    func disconnected() { _ = self.connections.add(-1, ordering: .relaxed) }

    /// No connection to the receiver could be made.
    func away(_ receiver: String, _ reason: String) {
        let isNew = self.counts.withLock { counts in
            defer { counts.isAway = true }
            return !counts.isAway
        }
        guard isNew else { return }
        self.logger.warning(
            .doorReceiverAway, "no streams can be forwarded; requests are answered 503, and clients repeat them",
            metadata: ["receiver": "\(receiver)", "reason": "\(reason)"])
    }

    func write(to page: inout MetricsPage) {
        let counts = self.counts.withLock { $0 }
        page.add(
            "waybill_ingest_stream_requests_total", .counter, "Requests about streams, by their answers."
        ) {
            for verb in StreamVerb.allCases {
                for (code, count) in (counts.requests[verb] ?? [:]).sorted(by: { $0.key < $1.key }) {
                    $0.sample(count, [("verb", verb.rawValue), ("code", "\(code)")])
                }
            }
        }
        page.add("waybill_ingest_stream_refusals_total", .counter, "Requests about streams that were refused.") {
            for code in StreamRefusal.Code.allCases {
                $0.sample(counts.refusals[code] ?? 0, [("reason", code.rawValue)])
            }
        }
        page.add("waybill_ingest_refused_agents_total", .counter, "Clients that were not let in.") {
            for reason in AgentRefusal.allCases {
                $0.sample(counts.agentRefusals[reason] ?? 0, [("reason", reason.rawValue)])
            }
        }
        page.add(
            "waybill_ingest_stream_bytes_total", .counter, "Bytes of files that the receiver made durable.",
            counts.storedByteCount)
        page.add(
            "waybill_ingest_stream_repeats_total", .counter, "Requests whose bytes the receiver held before.",
            counts.repeatedCount)
        page.add(
            "waybill_ingest_receiver_connections", .gauge, "Connections to the receiver.",
            self.connections.load(ordering: .relaxed))
    }
}
