package import WaybillHost
internal import WaybillTail

/// What an agent counts.
extension Metric {
    package static let agent = [
        connected, connections, streams, refusedFiles, unreadableFiles, unsuitableFiles, sealedStreams, sentBatches,
        sentLines, sentBytes, wireBytes, ackedBytes, storedBytes, pendingBytes, inFlightBytes, oldestUnacked, clockSkew,
        agentCertificateExpiry, agentReloads, lookLag, hangingMounts, skippedBytes, unknownReceivers, olderReceivers,
        disputedStreams, differingStreams, forgottenStreams, shortenedSegments, reshippedSegments, missingSegments,
        keptSegments, keptBytes, returnedSegments, expiredFiles, quarantineBytes, holeBytes, lostBytes, rereadBytes,
        continuedFiles, unseenEnds,
    ]

    static let connected = Metric(
        "waybill_agent_connected", .gauge, "1 while the agent is connected and accepted by a receiver.")
    static let connections = Metric(
        "waybill_agent_connections_total", .counter, "Connections that a receiver accepted.")
    static let agentCertificateExpiry = Metric(
        "waybill_agent_tls_certificate_expiry_seconds", .gauge,
        "When the agent's certificate expires, in seconds since 1970.",
        more: "Only with a certificate: alert some weeks before.")
    static let agentReloads = Metric(
        "waybill_agent_reloads_total", .counter, "Times that SIGHUP made the agent read its configuration again.",
        labels: [reloadOutcome])
    static let clockSkew = Metric(
        "waybill_agent_clock_skew_seconds", .gauge,
        "How far this machine's clock was ahead of the receiver's when it connected last.",
        more: "The time that the answer took is taken off. Missing before the first connection.")

    // MARK: Files

    static let streams = Metric("waybill_agent_streams", .gauge, "Files that are followed.")
    static let sealedStreams = Metric(
        "waybill_agent_sealed_streams_total", .counter, "Files that a receiver holds completely.")
    static let refusedFiles = Metric(
        "waybill_agent_refused_files_total", .counter,
        "Files and folders not followed: another user may have put them there, or they have no lines.",
        more: "Each path counts once.", labels: [MetricLabel("reason", FileRefusal.allCases)])
    static let unreadableFiles = Metric(
        "waybill_agent_unreadable_files", .gauge, "Files and folders that could not be read at the last attempt.")
    static let unsuitableFiles = Metric(
        "waybill_agent_unsuitable_files_total", .counter,
        "Files that are shipped although their first bytes show that their lines are probably no events.",
        more: "Each path counts once.",
        labels: [MetricLabel("format", ForeignFormat.allCases.filter { $0 != .compressed })])
    static let lookLag = Metric(
        "waybill_agent_look_lag_seconds", .gauge,
        "How long ago every file that was written to within the last five minutes was looked at.",
        more: "0 if there are none.")
    static let hangingMounts = Metric(
        "waybill_agent_hanging_mounts", .gauge, "Mounts that do not answer: what is on them waits.")
    static let continuedFiles = Metric(
        "waybill_agent_continued_files_total", .counter,
        "Logs written again under their name that continue where the ones before them ended.")
    static let unseenEnds = Metric(
        "waybill_agent_unseen_ends_total", .counter,
        "Files that were not found again at a start, and may have had more lines.", more: "Alert.")

    // MARK: Bytes

    static let sentBatches = Metric(
        "waybill_agent_sent_batches_total", .counter, "Batches sent, including retransmissions.")
    static let sentLines = Metric(
        "waybill_agent_sent_lines_total", .counter, "Lines sent, including retransmissions.")
    static let sentBytes = Metric(
        "waybill_agent_sent_bytes_total", .counter, "Bytes of lines sent, including retransmissions.")
    static let wireBytes = Metric(
        "waybill_agent_wire_bytes_total", .counter, "The same bytes as compressed on the wire.")
    static let ackedBytes = Metric(
        "waybill_agent_acked_bytes_total", .counter, "Bytes of files that a receiver acknowledged.")
    static let storedBytes = Metric(
        "waybill_agent_stored_bytes_total", .counter,
        "Bytes of files that a fleet's receivers said to be in the bucket.")
    static let pendingBytes = Metric(
        "waybill_agent_pending_bytes", .gauge, "Bytes seen in files and not yet acknowledged, in flight or not.")
    static let inFlightBytes = Metric(
        "waybill_agent_in_flight_bytes", .gauge, "Bytes sent and not yet acknowledged.")
    static let oldestUnacked = Metric(
        "waybill_agent_oldest_unacked_seconds", .gauge,
        "How long the oldest whole line that is not acknowledged has waited, at most; 0 if none waits.")
    static let skippedBytes = Metric(
        "waybill_agent_skipped_bytes_total", .counter, "Bytes skipped: lines too long, torn ends of segments.",
        more: """
            `quarantine/` in the state directory has the lines that were too long, of each at most the first 128 MiB.
            """)
    static let holeBytes = Metric(
        "waybill_agent_hole_bytes_total", .counter,
        "NULs skipped before lines, which programs leave that write without O_APPEND to a log that is cut.",
        more: "They wrote at their old offset. No one wrote the NULs, and they are no lost bytes.")
    static let lostBytes = Metric(
        "waybill_agent_lost_bytes_total", .counter,
        "Bytes that were seen, and truncated or deleted by another process before they were read.", more: "Alert.")
    static let rereadBytes = Metric(
        "waybill_agent_reread_bytes_total", .counter,
        "Bytes shipped again because a log became shorter than what was shipped of it.")

    // MARK: Receivers

    static let unknownReceivers = Metric(
        "waybill_agent_unknown_receivers_total", .counter, "Receivers that were met for the first time.")
    static let olderReceivers = Metric(
        "waybill_agent_older_receivers_total", .counter, "Receivers that came back older than they were.")
    static let disputedStreams = Metric(
        "waybill_agent_disputed_streams", .gauge,
        "Files that wait because no receiver that answers proves to hold all their bytes.",
        more: "Their first bytes may be in the archive of a receiver that is away. Alert when it stays.")
    static let differingStreams = Metric(
        "waybill_agent_differing_streams_total", .counter,
        "Streams of which a receiver held other bytes than the file.")
    static let forgottenStreams = Metric(
        "waybill_agent_forgotten_streams_total", .counter,
        "Streams of which a receiver held less than it had acknowledged.")
    static let shortenedSegments = Metric(
        "waybill_agent_shortened_segments_total", .counter,
        "Segments of which the receiver holds more than this machine still has.")
    static let reshippedSegments = Metric(
        "waybill_agent_reshipped_segments_total", .counter,
        "Segments that the agent shipped under another id by itself.",
        more: "Every receiver held other bytes under theirs.")
    static let missingSegments = Metric(
        "waybill_agent_missing_segments_total", .counter,
        "Segments that were delivered and deleted, and that a receiver at the same address does not hold.",
        more: "It came back older, or is another one: alert.")

    // MARK: Kept files

    static let keptSegments = Metric(
        "waybill_agent_kept_segments", .gauge,
        "Segments that were shipped and are kept (`keep`), as of the last minute.")
    static let keptBytes = Metric(
        "waybill_agent_kept_bytes", .gauge, "Bytes of those segments, as of the last minute.")
    static let returnedSegments = Metric(
        "waybill_agent_returned_segments_total", .counter,
        "Kept segments that were shipped again, because their receiver had lost them.",
        more: "The receiver at their address came back older or is another one.")
    static let expiredFiles = Metric(
        "waybill_agent_expired_files_total", .counter, "Files deleted for their age or size.",
        labels: [
            MetricLabel(
                "part", ExpiredPart.allCases,
                [.kept: "shipped segments", .quarantine: "lines that were too long"])
        ])
    static let quarantineBytes = Metric(
        "waybill_agent_quarantine_bytes", .gauge,
        "Bytes of lines in the quarantine that were too long, as of the last minute.")

    enum ExpiredPart: String, CaseIterable {
        case kept, quarantine
    }
}
