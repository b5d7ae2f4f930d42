extension NoticeText {
    static let fleet: [Notice: NoticeText] = [
        .uploadFailed: NoticeText(
            "The bucket did not take a piece of the journal", of: ["code"],
            cause: "The object store refuses, is not reached, or is too slow; or the disk does not give the piece.",
            effect: """
                Nothing is lost: lines are acknowledged as before and the journal keeps them, so the disk fills. Agents keep \
                what the bucket does not have yet.
                """,
            remedy: "Do what `cause` says; `waybill store check` tries every right. The receiver goes on by itself."),
        .chainDiverged: NoticeText(
            "The bucket has other bytes under this receiver's name", of: ["chain"],
            cause: """
                The data directory was put back from a copy, or copied; another receiver has the same name; or somebody \
                wrote into the bucket.
                """,
            effect:
                "None for the lines: the journal goes on in a chain of its own, and a merger drops what comes twice.",
            remedy: "If two receivers run with one name or one data directory, stop one of them."),
        .mergeFailed: NoticeText(
            "The merger cannot go on", of: [],
            cause: "The bucket or the disk refuses, or an object that a round names is gone or was overwritten.",
            effect: "Nothing is lost: pieces stay in the bucket. Archive and exports behind this merger stand still.",
            remedy: "Do what `cause` says. The merger goes on by itself."),
        .mergeConflict: NoticeText(
            "Receivers have different bytes at one place of a stream", of: [],
            cause: """
                A log was cut and written again while its agent lost its registry, a machine was cloned, or somebody writes \
                under another agent's name.
                """,
            effect: """
                All versions are in the archive. `unproven` counts lines that came again after so long that they could not be \
                compared; these were dropped.
                """,
            remedy: "Find the agents with the same name or files; the audit logs of the receivers name them."),
        .pieceDamaged: NoticeText(
            "Pieces of a journal in the bucket are damaged", of: [],
            cause: "An object has bytes that are no frames: a disk of the receiver or of the store changed them.",
            effect: "The lines of these bytes are not in the archive; those before and behind them are.",
            remedy: """
                Check the disks. Lines that the receiver's journal still has come again when its directory begins another \
                chain.
                """),
        .publishFailed: NoticeText(
            "A sealed day could not be put into the bucket", of: [],
            cause: "The bucket refuses, or the disk does not give the file.",
            effect: "The day is complete in the merger's data directory; readers of the bucket do not see it yet.",
            remedy: "Do what `cause` says. The merger tries again by itself."),
        .publishDiffers: NoticeText(
            "The bucket has other bytes for a sealed day", of: [],
            cause: """
                Mergers of different versions or configurations, or somebody wrote into the bucket; also when what was kept of \
                a day was erased or replaced by hand.
                """,
            effect: "The bucket's object stays as it is.",
            remedy:
                "Give all mergers one configuration and version. Then delete the named objects; they are made again."),
    ]
}
