internal import WaybillJournal
internal import WaybillHost
internal import WaybillProtocol
internal import WaybillSystem

/// The receiver's metrics; `Protocol/metrics.md` describes each.
extension ReceiverTelemetry {
    func page(_ shared: ReceiverShared, journalEnd: JournalPosition, _ usage: DiskUsage.Result?) -> MetricsPage {
        var page = MetricsPage()
        page.addBuild(shared.software, protocol: LineProtocol.versions)
        self.addReceived(shared, to: &page)
        self.addTLS(to: &page)
        self.addProxies(to: &page)
        self.journal.addMetrics(journalEnd, self.lineDelays, to: &page)
        self.uploads.addMetrics(journalEnd, self.host.storeRequests, to: &page)
        page.add(
            "waybill_acks_withheld", .gauge, "1 while the disk refuses the journal, so that nothing is acknowledged.",
            shared.conditions.withheld == nil ? 0 : 1)
        self.host.addFiles(shared.conditions, usage, journalEnd, to: &page)
        page.addProcess()
        return page
    }

    private func addReceived(_ shared: ReceiverShared, to page: inout MetricsPage) {
        page.add(
            "waybill_received_batches_total", .counter, "Batches that are durable in the journal.",
            self.journal.batches.load(ordering: .relaxed))
        page.add(
            "waybill_received_lines_total", .counter, "Lines that are durable in the journal.",
            self.journal.lines.load(ordering: .relaxed))
        page.add(
            "waybill_received_bytes_total", .counter, "Bytes of lines that are durable in the journal.",
            self.journal.rawBytes.load(ordering: .relaxed))
        page.add(
            "waybill_refused_batches_total", .counter, "Batches that were damaged or out of order; agents resend them.",
            self.refusedBatches.load(ordering: .relaxed))
        page.add(
            "waybill_skipped_bytes_total", .counter, "Bytes that agents skipped; the journal records each range."
        ) { family in
            for reason in SkipReason.allCases {
                family.sample(self.skippedByteCount(reason), [("reason", reason.rawValue)])
            }
        }
        let refusals = self.refusals.withLock { $0.ofAgents }
        page.add("waybill_refused_agents_total", .counter, "Attempts to be let in that failed.") { family in
            for refusal in AgentRefusal.allCases {
                family.sample(refusals[refusal] ?? 0, [("reason", refusal.rawValue)])
            }
        }
        page.add(
            "waybill_denied_requests_total", .counter, "OPEN, SKIP and SEAL that their agent may not send.",
            self.denials.load(ordering: .relaxed))
        page.add("waybill_agents", .gauge, "Agents that are connected.", shared.agents.count)
        page.add(
            "waybill_agents_silent", .gauge,
            "Agents that were connected since the start, and have not been for ten minutes or longer.",
            shared.agents.silentCount(at: shared.clock.monotonicTime()))
        page.add(
            "waybill_admission_bytes", .gauge, "Bytes of messages that wait for the disk.",
            shared.admissionByteCount - shared.budget.freeByteCount)
        self.addLimits(shared, to: &page)
        self.host.addReloads(to: &page)
    }

    private func addLimits(_ shared: ReceiverShared, to page: inout MetricsPage) {
        page.add("waybill_connections", .gauge, "Open connections.", shared.connections.count)
        page.add(
            "waybill_description_bytes", .gauge, "Bytes of the descriptions of open streams.", shared.streams.byteCount)
        let limits = self.limits.withLock { $0 }
        page.add("waybill_limited_total", .counter, "Times that an agent or an address reached a limit.") { family in
            for limit in Limit.allCases { family.sample(limits[limit] ?? 0, [("limit", limit.rawValue)]) }
        }
        page.add("waybill_admission_waits_total", .counter, "Times that a message waited for room.") { family in
            for room in AdmissionCharge.Room.allCases {
                family.sample(shared.budget.waitCount(room), [("room", room.rawValue)])
            }
        }
        page.add("waybill_archive_backlog_seconds", .gauge, "Work that waits for the archive, as estimated.") {
            $0.sample(Double(shared.budget.archiveBacklogNanoseconds) / 1e9)
        }
        page.add(
            "waybill_suppressed_log_lines_total", .counter, "Lines about connections that were not logged.",
            self.suppressedLines.load(ordering: .relaxed))
    }

    private func addProxies(to page: inout MetricsPage) {
        let refusals = self.refusals.withLock { $0.ofProxies }
        page.add(
            "waybill_proxy_refused_connections_total", .counter,
            "Connections to the proxies' address that ended before their header was taken."
        ) { family in
            for refusal in ProxyRefusal.allCases {
                family.sample(refusals[refusal] ?? 0, [("reason", refusal.rawValue)])
            }
        }
    }

    private func addTLS(to page: inout MetricsPage) {
        let expiry = self.certificateExpiry.load(ordering: .relaxed)
        guard expiry != 0 else { return }
        page.add(
            "waybill_tls_certificate_expiry_seconds", .gauge, "When the receiver's certificate expires, since 1970.",
            expiry)
        let refusals = self.refusals.withLock { $0.ofTLS }
        page.add("waybill_tls_refused_connections_total", .counter, "Connections that ended before TLS was set up.") {
            family in
            for refusal in TLSRefusal.allCases {
                family.sample(refusals[refusal] ?? 0, [("reason", refusal.rawValue)])
            }
        }
    }
}
