internal import WaybillExport
internal import WaybillJournal
internal import WaybillHost
internal import WaybillProjection
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
        self.addJournal(journalEnd, to: &page)
        self.addStore(journalEnd, to: &page)
        page.add(
            "waybill_acks_withheld", .gauge, "1 while the disk refuses the journal, so that nothing is acknowledged.",
            shared.conditions.withheld == nil ? 0 : 1)
        self.addFiles(shared.conditions, usage, journalEnd, to: &page)
        page.addProcess()
        return page
    }

    /// Adds what archive and exports do, and what they have on the disk.
    func addFiles(
        _ conditions: HostConditions, _ usage: DiskUsage.Result?, _ journalEnd: JournalPosition,
        to page: inout MetricsPage
    ) {
        self.addHost(conditions, usage, to: &page)
        // One copy, so that a projection's lines and its position come from the same checkpoint.
        let projections = self.projections.withLock { $0 }.sorted { $0.key < $1.key }
        Self.addConservation(of: projections, journalEnd, to: &page)
        Self.addOverflow(of: projections, to: &page)
        Self.addWork(of: projections, to: &page)
        self.addRetention(of: projections, to: &page)
    }

    private func addHost(_ conditions: HostConditions, _ usage: DiskUsage.Result?, to page: inout MetricsPage) {
        page.add("waybill_data_bytes", .gauge, "Bytes of the data directory's parts, as counted last.") { family in
            for part in usage?.parts ?? [] { family.sample(part.byteCount, [("part", part.name)]) }
        }
        page.add(
            "waybill_clock_doubted", .gauge, "1 while the clock cannot be trusted; seals and retention wait.",
            conditions.clock.problem(self.clock) == nil ? 0 : 1)
        if let free = conditions.reserve.free {
            page.add("waybill_disk_free_bytes", .gauge, "Free space on the disk of the data directory.", free)
        }
    }

    private func addReceived(_ shared: ReceiverShared, to page: inout MetricsPage) {
        page.add(
            "waybill_received_batches_total", .counter, "Batches that are durable in the journal.",
            self.batches.load(ordering: .relaxed))
        page.add(
            "waybill_received_lines_total", .counter, "Lines that are durable in the journal.",
            self.lines.load(ordering: .relaxed))
        page.add(
            "waybill_received_bytes_total", .counter, "Bytes of lines that are durable in the journal.",
            self.rawBytes.load(ordering: .relaxed))
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
        self.addReloads(to: &page)
    }

    func addReloads(to page: inout MetricsPage) {
        page.add("waybill_reloads_total", .counter, "Configurations reloaded on SIGHUP.") { family in
            family.sample(self.reloads.load(ordering: .relaxed), [("outcome", "taken")])
            family.sample(self.partialReloads.load(ordering: .relaxed), [("outcome", "partial")])
            family.sample(self.refusedReloads.load(ordering: .relaxed), [("outcome", "refused")])
        }
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

    private func addJournal(_ end: JournalPosition, to page: inout MetricsPage) {
        page.add("waybill_journal_end_bytes", .gauge, "Position up to which the journal is durable.", end.rawValue)
        page.add(
            "waybill_journal_commits_total", .counter, "Groups that were written and synced.",
            self.groups.load(ordering: .relaxed))
        page.add(
            "waybill_journal_commit_seconds", "How long writing and syncing a group took.", self.commitTimes)
        page.add(
            "waybill_line_delay_seconds", "How old the first line of a batch was when it became durable.",
            self.lineDelays)
        let last = self.lastCommitMilliseconds.load(ordering: .relaxed)
        if last > 0 {
            page.add("waybill_last_commit_timestamp_seconds", .gauge, "When a group was last durable, since 1970.") {
                $0.sample(Double(last) / 1000)
            }
        }
        page.add(
            "waybill_journal_commit_failures_total", .counter, "Groups that the disk refused; acks are withheld.",
            self.commitFailures.load(ordering: .relaxed))
        page.add(
            "waybill_journal_damages_total", .counter, "Ranges of the journal that could not be read.",
            self.damages.load(ordering: .relaxed))
        page.add(
            "waybill_journal_retired_segments_total", .counter, "Journal segments deleted by retention.",
            self.retiredSegments.load(ordering: .relaxed))
        page.add("waybill_journal_streams", .gauge, "Streams that the journal knows.") { family in
            family.sample(self.awakeStreams.load(ordering: .relaxed), [("state", "awake")])
            family.sample(self.restingStreams.load(ordering: .relaxed), [("state", "resting")])
        }
    }

    private static func addConservation(
        of projections: [(key: String, value: ProjectionStanding)], _ end: JournalPosition, to page: inout MetricsPage
    ) {
        page.add(
            "waybill_projection_read_lines_total", .counter, "Lines a projection has read, as of its last checkpoint.",
            for: projections
        ) { $0.tally.lineCount }
        page.add(
            "waybill_projection_lines_total", .counter, "Lines read, by outcome; held ones have their own metric."
        ) { family in
            for (name, standing) in projections { Self.addOutcomes(standing.tally, of: name, to: &family) }
        }
        page.add(
            "waybill_not_allowed_lines_total", .counter,
            "Lines in the quarantine because their principal may not write their env or bundle."
        ) { family in
            for (_, standing) in projections {
                for (principal, count) in standing.tally.notAllowed.sorted(by: { $0.key < $1.key }) {
                    family.sample(count, [("principal", principal)])
                }
            }
        }
        page.add(
            "waybill_projection_held_lines", .gauge, "Events held since the start, less those that were released.",
            for: projections.filter { $0.key != "archive" }
        ) { $0.tally.held }
        let exports = projections.filter { $0.key != "archive" }
        Self.addFixes(of: exports, to: &page)
        page.add(
            "waybill_projection_open_records", .gauge, "Records in open parts, which wait to be full or old enough.",
            for: exports
        ) { $0.tally.openRecordCount }
        page.add(
            "waybill_projection_oldest_open_seconds", .gauge,
            "When the oldest record of an open part was received, since 1970; 0 if there is none.", for: exports
        ) { Int(($0.tally.oldestOpen?.milliseconds ?? 0) / 1000) }
        page.add(
            "waybill_projection_unaccounted_lines", .gauge, "Lines read without an outcome; not 0 is a defect.",
            for: projections
        ) { $0.tally.unaccountedLineCount }
        page.add(
            "waybill_projection_pending_bytes", .gauge, "Bytes of the journal after a projection's last checkpoint.",
            for: projections
        ) { max(0, end.rawValue - $0.position.rawValue) }
    }

    private static func addOverflow(
        of projections: [(key: String, value: ProjectionStanding)], to page: inout MetricsPage
    ) {
        page.add(
            "waybill_archive_overflowed_lines_total", .counter,
            "Lines archived in _overflow, because of too many new apps or days.",
            projections.first { $0.key == "archive" }?.value.tally.overflowed ?? 0)
    }

    private static func addOutcomes(_ tally: ProjectionTally, of name: String, to family: inout MetricsPage.Family) {
        func add(_ outcome: String, _ count: Int, reason: String? = nil) {
            guard let reason else { return family.sample(count, [("projection", name), ("outcome", outcome)]) }
            family.sample(count, [("projection", name), ("outcome", outcome), ("reason", reason)])
        }
        guard let provider = Destination(recordedName: name) else {
            for reason in QuarantineReason.allCases {
                add("quarantined", tally.outcomes[.quarantined(reason)], reason: reason.rawValue)
            }
            return add("archived", tally.archived)
        }
        add("quarantined", tally.quarantined)
        add("exported", tally.exported)
        for reason in RefusalReason.allCases where reason.isPossible(for: provider) {
            add("refused", tally.outcomes[.refused(reason)], reason: reason.rawValue)
        }
        for reason in NotExported.allCases { add("skipped", tally.skips[reason], reason: reason.rawValue) }
    }

    private static func addFixes(
        of exports: [(key: String, value: ProjectionStanding)], to page: inout MetricsPage
    ) {
        page.add(
            "waybill_projection_fixes_total", .counter, "Changes to values that a provider would not take as they are."
        ) { family in
            for (name, standing) in exports {
                for code in FixCode.allCases {
                    family.sample(
                        standing.tally.outcomes[.fixed(code)], [("projection", name), ("reason", code.rawValue)])
                }
            }
        }
    }

    private static func addWork(
        of projections: [(key: String, value: ProjectionStanding)], to page: inout MetricsPage
    ) {
        page.add(
            "waybill_projection_failures_total", .counter, "Times the disk refused a projection.", for: projections
        ) { $0.failureCount }
        page.add("waybill_seals_total", .counter, "Days sealed, counting each revision.", for: projections) {
            $0.sealedDayCount
        }
        page.add(
            "waybill_projection_waiting", .gauge, "1 while a projection leaves the disk's space to the journal.",
            for: projections
        ) { $0.isHeld ? 1 : 0 }
        page.add("waybill_deletions_total", .counter, "Sealed days deleted by retention.", for: projections) {
            $0.deletedDayCount
        }
    }
}

extension MetricsPage {
    /// Adds a metric with one value for each projection.
    fileprivate mutating func add(
        _ name: StaticString, _ kind: Kind, _ help: StaticString,
        for projections: [(key: String, value: ReceiverTelemetry.ProjectionStanding)],
        _ value: (ReceiverTelemetry.ProjectionStanding) -> Int
    ) {
        self.add(name, kind, help) { family in
            for (name, standing) in projections { family.sample(value(standing), [("projection", name)]) }
        }
    }
}
