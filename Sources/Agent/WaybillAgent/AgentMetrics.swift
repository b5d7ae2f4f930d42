internal import NIOCore
internal import WaybillHost
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail

/// The agent's metrics; `Protocol/metrics.md` describes each.
extension Agent {
    /// An agent that has stopped has no metrics.
    private struct Stopped: Error, CustomStringConvertible {
        var description: String { "the agent has stopped" }
    }

    /// Serves what the agent says about itself.
    ///
    /// - Returns: `nil` if it is asked for nowhere.
    func serveMetrics(
        _ inbox: PumpInbox, _ group: any EventLoopGroup
    ) async throws(MetricsServer.Failure) -> MetricsServer? {
        let configuration = self.configuration
        let listening = MetricsListening(
            address: configuration.status.metrics, socket: configuration.status.socket, token: self.live.statusToken)
        let answers = MetricsAnswers(
            page: { eventLoop in
                Self.ask(inbox, eventLoop) { .standing($0) }.map { standing in
                    var page = standing.page
                    self.addOwn(to: &page)
                    return page
                }
            },
            liveness: { eventLoop in
                Self.ask(inbox, eventLoop) { reply in .life { reply($0 ? () : nil) } }
            },
            readiness: { Self.ask(inbox, $0) { .standing($0) }.map(\.readiness) },
            status: { _, channel in
                Self.ask(inbox, channel.eventLoop) { .report($0) }.map { $0.json(configuration) }
            })
        guard let server = try await MetricsServer.start(on: listening, group: group, answers) else { return nil }
        for place in server.places { self.telemetry.metricsServed(on: place) }
        return server
    }

    /// Adds what the pump does not know.
    private func addOwn(to page: inout MetricsPage) {
        page.addBuild(self.configuration.software, protocol: LineProtocol.versions)
        if let expiry = self.live.tls.withLock({ $0?.expiry }) {
            page.add(
                "waybill_agent_tls_certificate_expiry_seconds", .gauge,
                "When the agent's certificate expires, since 1970.", Int(expiry.milliseconds / 1000))
        }
        let reloads = self.live.reloads.withLock { $0 }
        page.add("waybill_agent_reloads_total", .counter, "Configurations reloaded on SIGHUP.") { family in
            family.sample(reloads.taken, [("outcome", "taken")])
            family.sample(reloads.partial, [("outcome", "partial")])
            family.sample(reloads.refused, [("outcome", "refused")])
        }
    }

    /// Asks the pump; fails once it has ended.
    private static func ask<Value: Sendable>(
        _ inbox: PumpInbox, _ eventLoop: any EventLoop,
        _ question: (@escaping @Sendable (Value?) -> Void) -> AgentQuestion
    ) -> EventLoopFuture<Value> {
        let promise = eventLoop.makePromise(of: Value.self)
        let reply: @Sendable (Value?) -> Void = { value in
            promise.completeWith(value.map { .success($0) } ?? .failure(Stopped()))
        }
        inbox.post(.asked(question(reply)), generation: 0)
        return promise.futureResult
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
        self.addKept(to: &page)
        page.addProcess()
        return page
    }

    private func addKept(to page: inout MetricsPage) {
        page.add(
            "waybill_agent_kept_segments", .gauge, "Segments that were shipped and are kept (`keep`).",
            self.kept.segmentCount)
        page.add(
            "waybill_agent_kept_bytes", .gauge, "Bytes of segments that were shipped and are kept (`keep`).",
            self.kept.segmentByteCount)
        page.add(
            "waybill_agent_returned_segments_total", .counter,
            "Kept segments that were shipped again, because their receiver had lost them.",
            self.summary.returnedSegmentCount)
        page.add("waybill_agent_expired_files_total", .counter, "Files deleted because of `keep` and `quarantine`.") {
            family in
            family.sample(self.summary.expiredSegmentCount, [("part", "kept")])
            family.sample(self.summary.expiredQuarantineCount, [("part", "quarantine")])
        }
        page.add(
            "waybill_agent_quarantine_bytes", .gauge, "Bytes of lines in the quarantine that were too long.",
            self.kept.quarantineByteCount)
    }

    private func addReceivers(to page: inout MetricsPage) {
        page.add(
            "waybill_agent_clock_skew_seconds", .gauge,
            "How far this machine's clock was ahead of the receiver's when it connected last."
        ) { family in
            if let skew = self.clockSkew { family.sample(skew / .seconds(1)) }
        }
        page.add(
            "waybill_agent_unknown_receivers_total", .counter, "Receivers that were met for the first time.",
            self.summary.unknownReceiverCount)
        page.add(
            "waybill_agent_older_receivers_total", .counter, "Receivers that came back older than they were.",
            self.summary.olderReceiverCount)
        page.add(
            "waybill_agent_disputed_streams", .gauge,
            "Files that wait because no receiver that answers proves to hold all their bytes.", self.disputedStreamCount
        )
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
            "waybill_agent_stored_bytes_total", .counter, "Bytes of files that a fleet's receivers said to be stored.",
            self.summary.storedByteCount)
        page.add(
            "waybill_agent_pending_bytes", .gauge, "Bytes seen in files and not acknowledged, in flight or not.",
            self.pendingByteCount)
        page.add(
            "waybill_agent_in_flight_bytes", .gauge, "Bytes sent and not yet acknowledged.",
            self.inFlightByteCount)
        page.add(
            "waybill_agent_oldest_unacked_seconds", .gauge,
            "How long the oldest whole line that is not acknowledged has waited, at most."
        ) { $0.sample(self.oldestUnacked / .seconds(1)) }
        page.add(
            "waybill_agent_look_lag_seconds", .gauge,
            "How long ago every file that was written to within the last minutes was looked at."
        ) { $0.sample(self.lookLag / .seconds(1)) }
        page.add(
            "waybill_agent_hanging_mounts", .gauge, "Mounts that do not answer: what is on them waits.",
            self.hanging.count)
        page.add(
            "waybill_agent_skipped_bytes_total", .counter, "Bytes skipped: lines too long, torn ends of segments.",
            self.summary.skippedByteCount)
        page.add(
            "waybill_agent_lost_bytes_total", .counter, "Bytes that were seen, but truncated or deleted unread.",
            self.summary.lostByteCount)
        page.add(
            "waybill_agent_unseen_ends_total", .counter,
            "Files that were not found again at a start, and may have had more lines.", self.summary.unseenEndCount)
        page.add(
            "waybill_agent_hole_bytes_total", .counter,
            "NULs skipped before lines, which programs leave that write without O_APPEND to a log that is cut.",
            self.summary.holeByteCount)
        page.add(
            "waybill_agent_reread_bytes_total", .counter,
            "Bytes shipped again because a file became shorter than what was shipped of it.",
            self.summary.successions.rereadByteCount)
        page.add(
            "waybill_agent_continued_files_total", .counter,
            "Files written again under their name that continue where the ones before them ended.",
            self.summary.successions.continuedCount)
    }
}
