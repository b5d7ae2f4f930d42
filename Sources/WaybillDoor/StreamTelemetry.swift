internal import Logging
internal import WaybillJSON
internal import WaybillMetrics
internal import WaybillNotices
internal import WaybillReceiver
internal import WaybillSystem

/// What the door counts about streams; each method is one occurrence.
final class StreamTelemetry: Sendable {
    /// The last connection that could not be made; a later one that could be made ends it.
    private struct Failure {
        var reason: String
        /// Since when there is no connection at all; `nil`: others carry the requests.
        var since: WallTime?
    }

    private struct Counts {
        var requests: [StreamVerb: [Int: Int]] = [:]
        var refusals: [StreamRefusal.Code: Int] = [:]
        var agentRefusals: [AgentRefusal: Int] = [:]
        var storedByteCount = 0
        var repeatedCount = 0
        var failure: Failure?
    }

    private let counts = Lock(Counts())
    private let connections = Atomic(0)
    private let logger: Logger
    private let clock = POSIXClock()
    /// The most characters of a reason, which the receiver may have written, at `/status`.
    private static let reasonLengthMax = 200

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

    /// - Parameters:
    ///   - agent: what the client says that its name is.
    ///   - address: the client's.
    func refusedAgent(_ reason: AgentRefusal, _ agent: String, address: String) {
        self.counts.withLock { $0.agentRefusals[reason, default: 0] += 1 }
        self.logger.warning(
            .doorAgentRefused, "a client is not let in",
            metadata: ["claims": "\(agent)", "address": "\(address)", "reason": "\(reason.text)"])
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
        self.reached(receiver)
    }

    /// The receiver has answered.
    func reached(_ receiver: String) {
        let wasAway = self.counts.withLock { counts in
            defer { counts.failure = nil }
            return counts.failure != nil
        }
        if wasAway { self.logger.notice("streams are forwarded again", metadata: ["receiver": "\(receiver)"]) }
    }

    func disconnected() { _ = self.connections.add(-1, ordering: .relaxed) }

    /// No connection to the receiver could be made.
    func away(_ receiver: String, _ reason: String) {
        let isAlone = self.connections.load(ordering: .relaxed) == 0
        let now = self.clock.wallTime()
        let isNew = self.counts.withLock { counts in
            let before = counts.failure
            counts.failure = Failure(reason: reason, since: before?.since ?? (isAlone ? now : nil))
            return before == nil
        }
        guard isNew else { return }
        self.logger.warning(
            .doorReceiverAway, "no streams can be forwarded; requests are answered 503, and clients repeat them",
            metadata: ["receiver": "\(receiver)", "reason": "\(reason)"])
    }

    /// What an operator must look at; it names no address.
    var problems: [String] {
        let isAway = self.counts.withLock { $0.failure?.since != nil }
        return isAway ? ["streams cannot be forwarded: the receiver is away; clients repeat"] : []
    }

    /// The members of `streams` at `GET /status`.
    func write(_ receiver: NetworkAddress, to json: inout JSONWriter) {
        let counts = self.counts.withLock { $0 }
        let failure = counts.failure.flatMap { $0.since == nil ? nil : $0 }
        json.member("receiver", receiver.description)
        json.member("connections", self.connections.load(ordering: .relaxed))
        json.member("away_since", failure?.since.map { Int($0.milliseconds) })
        json.member("away_reason", failure.map { String($0.reason.prefix(Self.reasonLengthMax)) })
        json.member(
            "refused_agents",
            Dictionary(uniqueKeysWithValues: counts.agentRefusals.map { ($0.key.rawValue, $0.value) }))
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
