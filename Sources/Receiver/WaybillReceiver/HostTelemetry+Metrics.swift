internal import WaybillExport
package import WaybillHost
package import WaybillJournal
internal import WaybillProjection
package import WaybillStore
internal import WaybillSystem

/// The metrics of archive and exports; `Protocol/metrics.md` describes each.
extension HostTelemetry {
    /// Adds what archive and exports do, and what they have on the disk.
    package func addFiles(
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
        for projections: [(key: String, value: HostTelemetry.ProjectionStanding)],
        _ value: (HostTelemetry.ProjectionStanding) -> Int
    ) {
        self.add(name, kind, help) { family in
            for (name, standing) in projections { family.sample(value(standing), [("projection", name)]) }
        }
    }
}

extension MetricsPage {
    /// Adds how often a bucket was asked.
    package mutating func addRequests(_ counts: MeteredStore.Counts) {
        self.add("waybill_store_requests_total", .counter, "Requests to the bucket; what is sent again counts once.") {
            family in
            for method in MeteredStore.Method.allCases {
                family.sample(counts.doneCount(method), [("method", method.rawValue), ("outcome", "answered")])
                family.sample(counts.failureCount(method), [("method", method.rawValue), ("outcome", "failed")])
            }
        }
    }
}
