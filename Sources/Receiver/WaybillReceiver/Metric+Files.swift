internal import WaybillExport
internal import WaybillFleet
package import WaybillHost
internal import WaybillProjection

/// What a receiver and a merger count of archive and exports, and of the bucket's requests.
extension Metric {
    package static let files = [
        journalEnd, dataBytes, freeBytes, clockDoubted, readLines, lines, fixes, notAllowedLines, heldLines,
        overflowedLines, openRecords, oldestOpen, unaccountedLines, pendingBytes, failures, waiting, seals, deletions,
        retentionDeletions, retentionLines, retentionBytes, keptFolders, journalExcess, missedBytes, storeRequests,
    ]

    package static let journalEnd = Metric(
        "waybill_journal_end_bytes", .gauge, "Position up to which the journal is durable.",
        more: "A merger's is that of the merged journal.")
    static let dataBytes = Metric(
        "waybill_data_bytes", .gauge, "Bytes of the data directory's parts, as counted last.",
        more: """
            A scrape has the last count and begins another one, at most every ten seconds and for a twentieth of the time. \
            Missing before the first.
            """,
        labels: [
            MetricLabel(
                "part",
                any:
                    "`journal`, `archive`, `quarantine`, `state`, `exports/NAME` and other folders of the data directory"
            )
        ])
    static let freeBytes = Metric(
        "waybill_disk_free_bytes", .gauge, "Free space on the disk of the data directory.",
        more: "Missing if it cannot be measured.")
    static let clockDoubted = Metric(
        "waybill_clock_doubted", .gauge, "1 while the clock cannot be trusted; seals and retention wait.",
        more: "Alert (`formats/archive.md`, section 5).")

    // MARK: Lines

    static let readLines = Metric(
        "waybill_projection_read_lines_total", .counter, "Lines that a projection has read, as of its last checkpoint.",
        labels: [projection])
    static let lines = Metric(
        "waybill_projection_lines_total", .counter, "Where those lines went; held ones have their own metric.",
        labels: [
            projection, MetricLabel("outcome", LineOutcome.allCases),
            MetricLabel(
                "reason",
                any: """
                    with `skipped` \(MetricLabel("reason", NotExported.allCases).text); with `refused` the reasons of that \
                    provider (`formats/exports.md`, section 4); with `quarantined` of the archive the names of the \
                    quarantine's files (`formats/archive.md`, section 4)
                    """),
        ])
    static let fixes = Metric(
        "waybill_projection_fixes_total", .counter, "Changes to values that the provider would not take as they are.",
        labels: [export, MetricLabel("reason", FixCode.allCases)])
    static let notAllowedLines = Metric(
        "waybill_not_allowed_lines_total", .counter,
        "Lines in the quarantine because their principal may not write their `env` or `bundle`.",
        more: "Not every principal is listed before its first one.",
        labels: [MetricLabel("principal", any: "a name in `agents`")])
    static let heldLines = Metric(
        "waybill_projection_held_lines", .gauge, "Lines held since the start, less those that were released since.",
        more: "Negative when lines held before the start are released.", labels: [export])
    static let overflowedLines = Metric(
        "waybill_archive_overflowed_lines_total", .counter,
        "Lines archived in `_overflow`, because of too many new apps or days.")
    static let openRecords = Metric(
        "waybill_projection_open_records", .gauge,
        "Records in open parts of an export, as of the last checkpoint.",
        more: "They are not sent before the parts are full or as old as `close_after`.", labels: [export])
    static let oldestOpen = Metric(
        "waybill_projection_oldest_open_seconds", .gauge,
        "When the oldest of those records was received, in seconds since 1970; 0 if there is none.",
        labels: [export])
    static let unaccountedLines = Metric(
        "waybill_projection_unaccounted_lines", .gauge, "Lines that were read and have no outcome.",
        more: "0 unless there is a bug: alert.", labels: [projection])

    enum LineOutcome: String, CaseIterable {
        case archived, quarantined, exported, refused, skipped
    }

    /// `Protocol/metrics.md` says which they are.
    private static let projection = MetricLabel("projection")
    private static let export = MetricLabel("projection", any: "an export")

    // MARK: Work

    static let pendingBytes = Metric(
        "waybill_projection_pending_bytes", .gauge, "Bytes of the journal after the projection's last checkpoint.",
        labels: [projection])
    static let failures = Metric(
        "waybill_projection_failures_total", .counter, "Times that the disk refused a projection.",
        labels: [projection])
    static let waiting = Metric(
        "waybill_projection_waiting", .gauge,
        "1 while the projection waits because `reserve_mib` is left to the journal.", more: "Alert.",
        labels: [projection])
    static let seals = Metric(
        "waybill_seals_total", .counter, "Days that were sealed, counting each revision.", labels: [projection])
    static let deletions = Metric(
        "waybill_deletions_total", .counter, "Sealed days that retention deleted.", labels: [projection])
    static let retentionDeletions = Metric(
        "waybill_retention_deletions_total", .counter, "Days, files and segments that retention deleted.",
        more: "A part has the reasons for which it has a limit. Alert on `unsealed`.",
        labels: [
            MetricLabel(
                "part", RetainedPart.allCases,
                [
                    .exports: "sealed days", .unsealed: "days that could not be sealed",
                    .journal: "segments deleted by `journal.gib` and `journal.hours`",
                ]), MetricLabel("reason", Deletion.Reason.allCases),
        ])
    static let retentionLines = Metric(
        "waybill_retention_deleted_lines_total", .counter, "Lines in them, as far as they are known.",
        more: "Of `dead` and `exports` the records, of `set-aside` and `journal` no lines.",
        labels: retentionDeletions.labels)
    static let retentionBytes = Metric(
        "waybill_retention_deleted_bytes_total", .counter, "Bytes in them, as far as they are known.",
        labels: retentionDeletions.labels)
    static let keptFolders = Metric(
        "waybill_retention_kept_folders", .gauge,
        "Days over a limit that stay because they are not delivered (`retention.only`).",
        more: "Alert: the limit is not reached.", labels: [projection])
    static let journalExcess = Metric(
        "waybill_journal_excess_bytes", .gauge, "Bytes of the journal above `journal.gib`, which must be read first.",
        more: "The archive has to read them, or with `retention.only` an export that is sent.")
    static let missedBytes = Metric(
        "waybill_projection_missed_bytes_total", .counter,
        "Bytes of the journal that were deleted before an export read them.",
        more: "`waybill replay` adds their events from the archive: alert.", labels: [export])
    static let storeRequests = Metric(
        "waybill_store_requests_total", .counter, "Requests to the bucket; what is sent again counts once.",
        labels: [
            MetricLabel("method", MeteredStore.Method.allCases),
            MetricLabel("outcome", MeteredStore.Outcome.allCases),
        ])
}
