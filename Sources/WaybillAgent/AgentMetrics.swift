internal import NIOCore
internal import WaybillMetrics
internal import WaybillTail

/// The agent's metrics; `Protocol/metrics.md` describes each.
extension Agent {
    /// An agent that has stopped has no metrics.
    private struct Stopped: Error, CustomStringConvertible {
        var description: String { "the agent has stopped" }
    }

    static func page(_ standing: AgentStanding?) -> Result<MetricsPage, any Error> {
        standing.map { .success($0.page) } ?? .failure(Stopped())
    }
}

extension AgentStanding {
    fileprivate var page: MetricsPage {
        var page = MetricsPage()
        page.add(
            "waybill_agent_connected", .gauge, "Whether a receiver has accepted this agent.", self.isConnected ? 1 : 0)
        page.add(
            "waybill_agent_connections_total", .counter, "Connections on which a receiver accepted this agent.",
            self.summary.connectionCount)
        page.add("waybill_agent_streams", .gauge, "Followed files.", self.streamCount)
        page.add(
            "waybill_agent_sealed_streams_total", .counter, "Files that a receiver holds completely.",
            self.summary.sealedStreamCount)
        page.add(
            "waybill_agent_refused_files_total", .counter,
            "Files and folders that are not followed: another user may have put them there, or they have no lines."
        ) { family in
            for refusal in FileRefusal.allCases {
                family.sample(self.refusals[refusal] ?? 0, [("reason", refusal.rawValue)])
            }
        }
        page.add(
            "waybill_agent_unreadable_files", .gauge, "Files and folders that could not be read at the last attempt.",
            self.summary.unreadableFileCount)
        page.add(
            "waybill_agent_unsuitable_files_total", .counter,
            "Files that are shipped although their first bytes show that their lines are probably no events."
        ) { family in
            for format in ForeignFormat.allCases where format != .compressed {
                family.sample(self.formats[format] ?? 0, [("format", format.rawValue)])
            }
        }
        self.addBytes(to: &page)
        self.addReceivers(to: &page)
        page.addProcess()
        return page
    }

    private func addReceivers(to page: inout MetricsPage) {
        page.add(
            "waybill_agent_unknown_receivers_total", .counter, "Receivers that were met for the first time.",
            self.summary.unknownReceiverCount)
        page.add(
            "waybill_agent_older_receivers_total", .counter, "Receivers that came back older than they were.",
            self.summary.olderReceiverCount)
        page.add(
            "waybill_agent_disputed_streams", .gauge,
            "Files that wait because the receiver does not prove to hold their bytes.", self.disputedStreamCount)
        page.add(
            "waybill_agent_differing_streams_total", .counter,
            "Streams of which a receiver held other bytes than the file.", self.summary.differingStreamCount)
        page.add(
            "waybill_agent_forgotten_streams_total", .counter,
            "Streams of which a receiver held less than it had acknowledged.", self.summary.forgottenStreamCount)
        page.add(
            "waybill_agent_shortened_segments_total", .counter,
            "Segments of which the receiver holds more than this machine still has.", self.summary.shortenedStreamCount)
        page.add(
            "waybill_agent_reshipped_segments_total", .counter,
            "Segments that were shipped under another id, because a receiver held other bytes under theirs.",
            self.summary.reshippedSegmentCount)
        page.add(
            "waybill_agent_missing_segments_total", .counter,
            "Segments that were delivered and deleted, and that a receiver at the same address does not hold.",
            self.summary.missingSegmentCount)
    }

    private func addBytes(to page: inout MetricsPage) {
        page.add(
            "waybill_agent_sent_batches_total", .counter, "Batches sent, including retransmissions.",
            self.summary.batchCount)
        page.add(
            "waybill_agent_sent_lines_total", .counter, "Lines sent, including retransmissions.",
            self.summary.lineCount)
        page.add(
            "waybill_agent_sent_bytes_total", .counter, "Bytes of lines sent, including retransmissions.",
            self.summary.rawByteCount)
        page.add(
            "waybill_agent_wire_bytes_total", .counter, "Bytes of compressed payloads.",
            self.summary.wireByteCount)
        page.add(
            "waybill_agent_acked_bytes_total", .counter, "Bytes of files that receivers acknowledged.",
            self.summary.ackedByteCount)
        page.add(
            "waybill_agent_pending_bytes", .gauge, "Bytes seen in files and not acknowledged, in flight or not.",
            self.pendingByteCount)
        page.add(
            "waybill_agent_in_flight_bytes", .gauge, "Bytes sent and not yet acknowledged.",
            self.inFlightByteCount)
        page.add(
            "waybill_agent_skipped_bytes_total", .counter, "Bytes skipped: lines too long, torn ends of segments.",
            self.summary.skippedByteCount)
        page.add(
            "waybill_agent_lost_bytes_total", .counter, "Bytes that were seen, but truncated or deleted unread.",
            self.summary.lostByteCount)
    }
}
