package import WaybillHost
internal import WaybillProtocol

/// What a receiver counts of its connections, its journal and its bucket; ``Metric/files`` has the rest.
extension Metric {
    package static let receiver = [
        receivedBatches, receivedLines, receivedBytes, refusedBatches, skippedBytes, refusedAgents, deniedRequests,
        agents, silentAgents, admissionBytes, connections, descriptionBytes, limited, admissionWaits, archiveBacklog,
        suppressedLines, refusedTLS, refusedProxies, commits, commitTime, lastCommit, lineDelay, commitFailures,
        acksWithheld, damages, retiredSegments, streams, storedJournal, unstoredJournal, unstoredTime, puts, putBytes,
        putTime,
    ]

    // MARK: Connections

    static let receivedBatches = Metric(
        "waybill_received_batches_total", .counter, "Batches that are durable in the journal.")
    static let receivedLines = Metric(
        "waybill_received_lines_total", .counter, "Lines that are durable in the journal.")
    static let receivedBytes = Metric(
        "waybill_received_bytes_total", .counter, "Bytes of lines that are durable in the journal.")
    static let refusedBatches = Metric(
        "waybill_refused_batches_total", .counter, "Batches that were damaged or out of order; agents send them again.")
    static let skippedBytes = Metric(
        "waybill_skipped_bytes_total", .counter, "Bytes that agents skipped; the journal records each range.",
        more: """
            These are lines too long, and torn ends of segments. With `held`, `elsewhere` and `before` nothing is missing: \
            another stream, another receiver of the fleet, or its archive from before the fleet has the bytes, and with \
            `hole` no one wrote them.
            """,
        labels: [MetricLabel("reason", SkipReason.allCases)])
    static let refusedAgents = Metric(
        "waybill_refused_agents_total", .counter,
        "Attempts to be let in that failed, and connections that ended because they would fail now.",
        more: "Alert when `token` grows.", labels: [MetricLabel("reason", AgentRefusal.allCases)])
    static let deniedRequests = Metric(
        "waybill_denied_requests_total", .counter, "OPEN, SKIP and SEAL that their agent may not send.",
        more: "The audit log has each.")
    static let agents = Metric("waybill_agents", .gauge, "Agents that are connected.")
    static let silentAgents = Metric(
        "waybill_agents_silent", .gauge,
        "Agents that were connected since the start, and have not been for ten minutes or longer.",
        more: "At most 10,000 are counted. `/status` and the log have their names.")
    static let admissionBytes = Metric(
        "waybill_admission_bytes", .gauge, "Bytes of messages that wait for the disk.",
        more: "The limit is `memory.admission_mib`.")
    static let connections = Metric(
        "waybill_connections", .gauge, "Open connections.", more: "The limit is `connections`.")
    static let descriptionBytes = Metric(
        "waybill_description_bytes", .gauge, "Bytes of the descriptions of open streams.",
        more: "The limit is `memory.descriptions_mib`.")
    static let limited = Metric(
        "waybill_limited_total", .counter, "Times that an agent or an address reached a limit.",
        more: "[Limits](../Documentation/secure.md#limits-for-each-agent) describes them.",
        labels: [MetricLabel("limit", ReceiverTelemetry.Limit.allCases)])
    static let admissionWaits = Metric(
        "waybill_admission_waits_total", .counter, "Times that a message waited for its turn.",
        labels: [
            MetricLabel(
                "room", AdmissionCharge.Room.allCases,
                [
                    .short: "memory for short messages", .wire: "for long ones, as they arrive",
                    .raw: "for long ones, inflated", .shortTurn: "the archive's time for short batches",
                    .turn: "for long ones",
                ])
        ])
    static let archiveBacklog = Metric(
        "waybill_archive_backlog_seconds", .gauge, "Work that waits for the archive, as estimated.")
    static let suppressedLines = Metric(
        "waybill_suppressed_log_lines_total", .counter, "Lines about connections that were not logged.",
        more: "There was more than one a second of a cause and address.")
    static let refusedTLS = Metric(
        "waybill_tls_refused_connections_total", .counter, "Connections that ended before TLS was set up.",
        more: "Only with TLS. `closed` includes port probes.",
        labels: [MetricLabel("reason", TLSRefusal.allCases)])
    static let refusedProxies = Metric(
        "waybill_proxy_refused_connections_total", .counter,
        "Connections to `proxied.listen` that were closed before their header was taken.",
        labels: [
            MetricLabel(
                "reason", ProxyRefusal.allCases,
                [
                    .address: "not in `proxied.from`", .connections: "there were `proxied.connections`",
                    .header: "none of the PROXY protocol, version 2",
                ])
        ])

    // MARK: Journal

    static let commits = Metric("waybill_journal_commits_total", .counter, "Groups that were written and synced.")
    static let commitTime = Metric(
        "waybill_journal_commit_seconds", .histogram,
        "How long writing and syncing a group took, for which agents wait.")
    static let lastCommit = Metric(
        "waybill_last_commit_timestamp_seconds", .gauge, "When a group was last durable, in seconds since 1970.",
        more: "Missing before the first one.")
    static let lineDelay = Metric(
        "waybill_line_delay_seconds", .histogram, "How old the first line of a batch was when it became durable.",
        more: "[Below](#a-lines-delay) is what that includes.")
    static let commitFailures = Metric(
        "waybill_journal_commit_failures_total", .counter, "Groups that the disk refused; their acks are withheld.",
        more: "Alert.")
    static let acksWithheld = Metric(
        "waybill_acks_withheld", .gauge,
        "1 while the disk refuses the journal for more than a few seconds, so that nothing is acknowledged.",
        more: "Alert.")
    static let damages = Metric(
        "waybill_journal_damages_total", .counter, "Ranges of the journal that could not be read.",
        more: "Alert; `waybill inspect` lists them.")
    static let retiredSegments = Metric(
        "waybill_journal_retired_segments_total", .counter, "Segments of the journal that retention deleted.")
    static let streams = Metric(
        "waybill_journal_streams", .gauge, "Streams that the journal knows.",
        more: "[The journal](formats/journal.md#8-streams-at-rest) says when a stream rests.",
        labels: [
            MetricLabel(
                "state", StreamState.allCases,
                [.awake: "in memory and in every segment's head", .resting: "in `resting.table`"])
        ])

    enum StreamState: String, CaseIterable {
        case awake, resting
    }

    // MARK: Bucket

    static let storedJournal = Metric(
        "waybill_journal_stored_bytes", .gauge, "With a bucket: position up to which the bucket has the journal.")
    static let unstoredJournal = Metric(
        "waybill_journal_unstored_bytes", .gauge, "With a bucket: bytes of the journal that it does not have yet.",
        more: "Alert if this only grows.")
    static let unstoredTime = Metric(
        "waybill_journal_unstored_seconds", .gauge,
        "With a bucket: how long the oldest byte that it lacks has been durable here, at most.",
        more: "After a start what it lacks counts from the start. 0 if it lacks none: alert.")
    static let puts = Metric(
        "waybill_store_puts_total", .counter, "Pieces of the journal that were given to the bucket.",
        labels: [
            MetricLabel(
                "outcome", UploadTelemetry.Outcome.allCases,
                [
                    .present: "the bucket had the same bytes",
                    .foreign: "it had others: another chain was begun",
                ])
        ])
    static let putBytes = Metric(
        "waybill_store_put_bytes_total", .counter, "Bytes of the pieces that the bucket took.")
    static let putTime = Metric(
        "waybill_store_put_seconds", .histogram, "Time from cutting a piece to the bucket's answer.")
}
