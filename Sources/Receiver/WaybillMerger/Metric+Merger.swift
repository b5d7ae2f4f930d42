internal import WaybillFleet
package import WaybillHost

/// What a merger counts; ``Metric/files`` has what it shares with a receiver.
extension Metric {
    package static let merger = [
        rounds, round, lag, failing, chains, staleChains, missingBytes, frames, mergedLines, droppedLines, droppedBytes,
        conflictLines, unprovenLines, damagedBytes, published, publishedBytes,
    ]

    static let rounds = Metric(
        "waybill_merge_rounds_total", .counter, "Rounds of the fleet's log that were applied.")
    static let round = Metric(
        "waybill_merge_round", .gauge, "The number of the last round that was applied.",
        more: "Mergers of a fleet are a few apart at most.")
    static let lag = Metric(
        "waybill_merge_lag_seconds", .gauge,
        "How long the oldest piece that is not merged may have been in the bucket, of the slowest receiver.",
        more: """
            It is the time since the bucket had nothing more, or the age of what the last round had. Alert when it grows.
            """)
    static let failing = Metric(
        "waybill_merge_failing", .gauge, "1 for the reason why nothing is merged.", more: "Alert.",
        labels: [
            MetricLabel(
                "reason", MergeFailure.Code.allCases,
                [
                    .store: "the bucket", .piece: "one that a round names is missing or was changed",
                    .round: "a damaged one", .behind: "rounds that it lacks are deleted",
                    .checkpoint: "none is whole, and the first rounds are deleted",
                    .erasure: "a request is missing or damaged, or the record of them is not the fleet's",
                    .poison: "a line that is not to be read is in the archive, or its request is gone",
                ])
        ])
    static let chains = Metric("waybill_merge_chains", .gauge, "Chains that were merged.")
    static let staleChains = Metric(
        "waybill_merge_stale_chains", .gauge,
        "Receivers that have been silent for more than half an hour and less than a week.", more: "Alert.")
    static let missingBytes = Metric(
        "waybill_merge_missing_bytes", .gauge,
        "Bytes of streams that no piece has, though the fleet should have them.",
        more: """
            They are below the stream's end, or a receiver was told that the fleet has them. More than 0 for a moment while \
            pieces are on their way: alert when it stays.
            """)

    // MARK: Lines

    static let frames = Metric(
        "waybill_merge_frames_total", .counter, "Batches of pieces, by what was done with them.",
        labels: [
            MetricLabel(
                "outcome", FrameOutcome.allCases, [.trimmed: "some lines were there", .dropped: "all were"])
        ])
    static let mergedLines = Metric("waybill_merge_lines_total", .counter, "Lines that were merged.")
    static let droppedLines = Metric(
        "waybill_merge_dropped_lines_total", .counter, "Lines that came again, equal, and were dropped.")
    static let droppedBytes = Metric(
        "waybill_merge_dropped_bytes_total", .counter, "Bytes of the lines that were dropped.")
    static let conflictLines = Metric(
        "waybill_merge_conflict_lines_total", .counter,
        "Lines with other bytes than the merged journal has at their offsets; all are kept.", more: "Alert.")
    static let unprovenLines = Metric(
        "waybill_merge_unproven_lines_total", .counter,
        "Lines that came again so late that they could not be compared; they are dropped.", more: "Alert.")
    static let damagedBytes = Metric(
        "waybill_merge_damaged_bytes_total", .counter, "Bytes of pieces that are no frames.", more: "Alert.")

    // MARK: Sealed days

    static let published = Metric(
        "waybill_publish_total", .counter, "Files of sealed days for the bucket.",
        labels: [
            MetricLabel(
                "outcome", PublishOutcome.allCases,
                [.present: "equal", .different: "they stay: alert", .failed: "counts attempts"])
        ])
    static let publishedBytes = Metric(
        "waybill_publish_bytes_total", .counter, "Bytes of the files that were created in the bucket.")

    enum FrameOutcome: String, CaseIterable {
        case copied, trimmed, dropped
    }

    enum PublishOutcome: String, CaseIterable {
        case created, present, different, failed
    }
}
