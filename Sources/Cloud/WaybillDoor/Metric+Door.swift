package import WaybillHost
internal import WaybillIngest

/// What the door counts.
extension Metric {
    package static let door = [
        requests, refusedRequests, events, faults, droppedFaults, deletedQuarantineFolders, unstoredRequests,
        repeatWindow, connections, endedConnections, waitingBytes, spoolBytes, durableTime, answerTime,
    ]

    /// With `ingest.line`.
    package static let tunnels = [
        openTunnels, receiverAway, openedTunnels, refusedTunnels, endedTunnels, tunnelBytes,
    ]

    // MARK: Requests

    static let requests = Metric(
        "waybill_ingest_requests_total", .counter, "Requests whose body was read, by what they were answered.",
        labels: [
            MetricLabel("dialect", Dialect.allCases), MetricLabel("code", any: "the status of the answer"),
        ])
    static let refusedRequests = Metric(
        "waybill_ingest_refused_requests_total", .counter, "Requests of which nothing was stored.",
        labels: [
            MetricLabel(
                "reason", DoorTelemetry.RefusalReason.allCases,
                [
                    .tooLarge: "the body, or more events than its address may send at once",
                    .tooFast: "more events a second than its key or its address may send",
                    .share: "its address holds its share of the memory", .memory: "all is taken",
                    .displaced: "it gave way to a smaller body when all was taken",
                    .disk: """
                    its key's events that no agent has taken away take more than four times what the disk has free
                    """,
                ])
        ])
    static let events = Metric(
        "waybill_ingest_events_total", .counter, "Events of answered requests.",
        more: "A user event that another event's properties make counts with it.",
        labels: [
            MetricLabel(
                "outcome", EventOutcome.allCases,
                [
                    .repeated: "an event with its id was stored before", .quarantined: "faulty, and kept",
                    .dropped: "faulty, and only counted",
                ])
        ])
    static let faults = Metric(
        "waybill_ingest_faults_total", .counter, "Events that could not be lines, by reason.",
        more: """
            Those with `bad-time`, or with operations on traits that a line has no place for (`bad-traits`), are lines \
            nevertheless.
            """,
        labels: [MetricLabel("reason", IngestFault.allCases)])
    static let droppedFaults = Metric(
        "waybill_ingest_dropped_faults_total", .counter,
        "Faulty events that their keys' quarantine had no room for (`quarantine_mib`).",
        more: "It is the room for all, or for those of their address or reason: alert.")
    static let deletedQuarantineFolders = Metric(
        "waybill_ingest_deleted_quarantine_folders_total", .counter,
        "Days of the quarantine that were deleted for their age (`quarantine_days`).")
    static let unstoredRequests = Metric(
        "waybill_ingest_unstored_requests_total", .counter, "Requests answered 503, which their senders repeat.",
        more: "Alert.", labels: [MetricLabel("cause", UnstoredCause.allCases)])
    static let repeatWindow = Metric(
        "waybill_ingest_repeat_window_seconds", .gauge, "How far back repeated events are known.",
        more: """
            It is that of the key of which the least is known; after a start no further than the segments in the spools \
            cover.
            """)
    static let durableTime = Metric(
        "waybill_ingest_durable_seconds", .histogram, "Time of writing and syncing a group of requests.")
    static let answerTime = Metric(
        "waybill_ingest_answer_seconds", .histogram, "Time from a request's last byte to its answer.")

    enum EventOutcome: String, CaseIterable {
        case stored, repeated, quarantined, dropped
    }

    enum UnstoredCause: String, CaseIterable {
        case diskFull = "disk-full"
        case diskError = "disk-error"
    }

    // MARK: Connections and room

    static let connections = Metric(
        "waybill_ingest_connections", .gauge, "Open connections.", more: "The limit is `connections`.")
    static let endedConnections = Metric(
        "waybill_ingest_ended_connections_total", .counter, "Connections that ended for another one, or came too many.",
        labels: [
            MetricLabel(
                "reason", DoorTelemetry.EndedConnection.allCases,
                [
                    .share: "its address had `address_connections`", .full: "there were `connections`",
                    .busy: "it was not taken: none was silent",
                ])
        ])
    static let waitingBytes = Metric(
        "waybill_ingest_waiting_bytes", .gauge, "Bytes of bodies that arrive or wait for the disk.")
    static let spoolBytes = Metric(
        "waybill_ingest_spool_bytes", .gauge,
        "Bytes of segments in the folders of `spool` that no agent has taken away.",
        more: """
            What an agent has shipped and keeps does not count. It is measured when someone asks, at most every ten seconds. \
            More than 1 GB for a quarter of an hour: alert.
            """)

    // MARK: Tunnels

    static let openTunnels = Metric(
        "waybill_ingest_tunnels", .gauge, "Tunnels of agents to the receiver that are open.",
        more: "The limit is `line.connections`.")
    static let receiverAway = Metric(
        "waybill_ingest_receiver_away", .gauge, "1 while the last agent that asked for a tunnel got none.",
        more: "The receiver did not answer.")
    static let openedTunnels = Metric(
        "waybill_ingest_tunnels_opened_total", .counter, "Tunnels that were opened.")
    static let refusedTunnels = Metric(
        "waybill_ingest_tunnels_refused_total", .counter, "Requests for a tunnel that got none.",
        more: "When `unreachable` keeps growing: alert.",
        labels: [
            MetricLabel(
                "reason", Tunnels.Refusal.allCases,
                [
                    .origin: "a browser's page", .handshake: "not a WebSocket's",
                    .full: "there were `line.connections`",
                    .share: "\(Tunnels.waitingCountMax) of its address waited for `READY`",
                    .unreachable: "the receiver did not answer",
                ])
        ])
    static let endedTunnels = Metric(
        "waybill_ingest_tunnels_ended_total", .counter, "Tunnels that ended.",
        labels: [
            MetricLabel(
                "reason", Tunnels.End.allCases,
                [
                    .agent: "it ended it", .receiver: "it ended it",
                    .frames: "the agent broke the rules of WebSocket", .handshake: "no `READY` in time",
                    .silence: "of the receiver",
                ])
        ])
    static let tunnelBytes = Metric(
        "waybill_ingest_tunnel_bytes_total", .counter, "Bytes that went through tunnels.",
        labels: [MetricLabel("to", TunnelSide.allCases)])

    enum TunnelSide: String, CaseIterable {
        case receiver, agent
    }
}
