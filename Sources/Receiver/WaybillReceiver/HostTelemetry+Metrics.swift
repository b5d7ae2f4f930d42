package import WaybillData
internal import WaybillExport
package import WaybillFleet
package import WaybillHost
internal import WaybillProjection
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
        Self.addWork(of: projections, to: &page)
        self.addRetention(of: projections, to: &page)
    }

    private func addHost(_ conditions: HostConditions, _ usage: DiskUsage.Result?, to page: inout MetricsPage) {
        page.add(.dataBytes) { family in
            for part in usage?.parts ?? [] { family.sample(part.byteCount, part.name) }
        }
        page.add(.clockDoubted, conditions.clock.problem(self.clock) == nil ? 0 : 1)
        page.add(.freeBytes, conditions.reserve.free)
    }

    private static func addConservation(
        of projections: [(key: String, value: ProjectionStanding)], _ end: JournalPosition, to page: inout MetricsPage
    ) {
        page.add(.readLines, for: projections) { $0.tally.lineCount }
        page.add(.lines) { family in
            for (name, standing) in projections { Self.addOutcomes(standing.tally, of: name, to: &family) }
        }
        page.add(.notAllowedLines) { family in
            for (_, standing) in projections {
                for (principal, count) in standing.tally.notAllowed.sorted(by: { $0.key < $1.key }) {
                    family.sample(count, principal)
                }
            }
        }
        let exports = projections.filter { $0.key != "archive" }
        page.add(.heldLines, for: exports) { $0.tally.held }
        page.add(.fixes) { family in
            for (name, standing) in exports {
                for code in FixCode.allCases {
                    family.sample(standing.tally.outcomes[.fixed(code)], name, code.rawValue)
                }
            }
        }
        page.add(.openRecords, for: exports) { $0.tally.openRecordCount }
        page.add(.oldestOpen, for: exports) { Int(($0.tally.oldestOpen?.milliseconds ?? 0) / 1000) }
        page.add(.unaccountedLines, for: projections) { $0.tally.unaccountedLineCount }
        page.add(.pendingBytes, for: projections) { max(0, end.rawValue - $0.position.rawValue) }
        page.add(.overflowedLines, projections.first { $0.key == "archive" }?.value.tally.overflowed ?? 0)
    }

    private static func addOutcomes(_ tally: ProjectionTally, of name: String, to family: inout MetricsPage.Family) {
        func add(_ outcome: Metric.LineOutcome, _ count: Int, reason: String? = nil) {
            guard let reason else { return family.sample(count, name, outcome.rawValue) }
            family.sample(count, name, outcome.rawValue, reason)
        }
        guard let provider = Destination(recordedName: name) else {
            for reason in QuarantineReason.allCases {
                add(.quarantined, tally.outcomes[.quarantined(reason)], reason: reason.rawValue)
            }
            return add(.archived, tally.archived)
        }
        add(.quarantined, tally.quarantined)
        add(.exported, tally.exported)
        for reason in provider.refusals {
            add(.refused, tally.outcomes[.refused(reason)], reason: reason.rawValue)
        }
        for reason in NotExported.allCases { add(.skipped, tally.skips[reason], reason: reason.rawValue) }
    }

    private static func addWork(
        of projections: [(key: String, value: ProjectionStanding)], to page: inout MetricsPage
    ) {
        page.add(.failures, for: projections) { $0.failureCount }
        page.add(.seals, for: projections) { $0.sealedDayCount }
        page.add(.waiting, for: projections) { $0.isHeld ? 1 : 0 }
        page.add(.deletions, for: projections) { $0.deletedDayCount }
    }
}

extension MetricsPage {
    /// Adds a metric with one value for each projection.
    mutating func add(
        _ metric: Metric, for projections: [(key: String, value: HostTelemetry.ProjectionStanding)],
        _ value: (HostTelemetry.ProjectionStanding) -> Int
    ) {
        self.add(metric) { family in
            for (name, standing) in projections { family.sample(value(standing), name) }
        }
    }

    /// Adds how often a bucket was asked.
    package mutating func addRequests(_ counts: MeteredStore.Counts) {
        self.add(.storeRequests) { family in
            for method in MeteredStore.Method.allCases {
                for outcome in MeteredStore.Outcome.allCases {
                    family.sample(counts.count(method, outcome), method.rawValue, outcome.rawValue)
                }
            }
        }
    }
}
