extension NoticeText {
    static let fleet: [Notice: NoticeText] = [
        .uploadFailed: NoticeText(
            "The bucket did not take a piece of the journal", of: ["code"],
            cause: "The object store refuses, is not reached, or is too slow; or the disk does not give the piece.",
            effect: """
                Nothing is lost: lines are acknowledged as before and the journal keeps them, so the disk fills. Agents keep \
                what the bucket does not have yet.
                """,
            remedy: "Do what `cause` says; `waybill store check` tries every right. The receiver continues by itself."),
        .chainDiverged: NoticeText(
            "The bucket has other bytes under this receiver's name", of: ["chain"],
            cause: """
                The data directory was put back from a copy, or copied; another receiver has the same name; or someone \
                wrote into the bucket.
                """,
            effect:
                "None for the lines: the journal continues in a chain of its own, and a merger drops what comes twice.",
            remedy: "If two receivers run with one name or one data directory, stop one of them."),
        .mergeFailed: NoticeText(
            "The merger cannot continue", of: [],
            cause: "The bucket or the disk refuses, or an object that a round names is gone or was overwritten.",
            effect: "Nothing is lost: pieces stay in the bucket. Archive and exports behind this merger stand still.",
            remedy: "Do what `cause` says. The merger continues by itself."),
        .mergeConflict: NoticeText(
            "Receivers have different bytes at one place of a stream", of: [],
            cause: """
                A log was cut and written again while its agent lost its registry, a machine was cloned, or someone writes \
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
        .checkpointFailed: NoticeText(
            "A merger made no checkpoint", of: [],
            cause: """
                The bucket or the disk refuses, or files changed while they were copied, as when a day is sealed, replayed or \
                erased.
                """,
            effect: "A merger without its disk begins from an older checkpoint. The bucket keeps more pieces.",
            remedy: "Do what `cause` says. The merger tries again by itself."),
        .piecesKept: NoticeText(
            "A merger may not delete old pieces", of: [],
            cause: "The policy of the merger's credentials does not allow `s3:DeleteObject`.",
            effect: "The bucket grows: it keeps all pieces, rounds and checkpoints. Nothing else depends on it.",
            remedy: "Allow it (Documentation/fleet.md), or set `pieces_days` to what the bucket's own rules keep."),
        .clocksApart: NoticeText(
            "A merger's clock and the store's differ", of: ["ahead_of_store_s"],
            cause: "They are apart by more than a minute; one of the two is wrong.",
            effect:
                "Days are sealed and old pieces deleted by the earlier of the two: late, if that is the wrong one.",
            remedy: "Set this host's clock (NTP). If the store's is wrong, set `store.clock: host` on all mergers."),
        .mergerRestored: NoticeText(
            "A merger began from a checkpoint in the bucket", of: [],
            cause: "Its data directory had no state, or was so old that rounds behind it are deleted.",
            effect: """
                None for archive and exports. Parts that the former delivery had begun to send are its own still. `damaged` \
                names newer checkpoints that are not whole; `aside` is the old directory.
                """,
            remedy: "See Documentation/fleet.md for deliveries. Delete `aside` when nothing is missed."),
        .agentsDiffer: NoticeText(
            "Receivers of a fleet have different `agents:`", of: [],
            cause: "`agents:` was added, changed or forgotten on some receivers of the fleet.",
            effect: """
                An agent has other rights, and its streams another owner, at another receiver: lines may be refused, and a \
                stream that moves to a receiver without `agents:` is merged twice.
                """,
            remedy:
                "Give all receivers one `agents:`, as with `agents_file`; `waybill store check --config` compares it."),
        .publishDiffers: NoticeText(
            "The bucket has other bytes for a sealed day", of: [],
            cause: """
                Mergers of different versions or configurations, or someone wrote into the bucket; also when what was kept of \
                a day was erased or replaced by hand.
                """,
            effect: "The bucket's object stays as it is.",
            remedy:
                "Give all mergers one configuration and version. Then delete the named objects; they are made again."),
        .erasureWaits: NoticeText(
            "A merger cannot erase a person yet", of: [],
            cause: """
                A delivery of parts was begun and not finished, so that it is unknown which events the provider has; a \
                delivery or a replay runs; or a day is being sealed.
                """,
            effect: """
                Nothing is lost: the merger continues merging. Its archive and exports stand still at the erasure, and the \
                person's lines are still in them.
                """,
            remedy: """
                Do what `cause` says. A running `waybill deliver` finishes the parts that it has begun and lets the merger \
                by; if none runs, start it.
                """),
        .erasedDayRepaired: NoticeText(
            "An older merger had written into an erased day of the bucket", of: [],
            cause: "A merger that was paused in the middle of a write went on after others had erased a person.",
            effect: "The person's lines were in the bucket again for a while; they are not any more.",
            remedy: "None is needed. Copies that were made of the day meanwhile have the lines."),
        .restoreLacks: NoticeText(
            "A part of a journal could not be restored", of: [],
            cause: "A piece in the bucket is missing or damaged, or something else is under its key.",
            effect: """
                The lines of this range are not in the restored directory; those before and behind it are. The command ends \
                with exit code 65.
                """,
            remedy: """
                If the store keeps earlier versions of objects, put the piece back and restore again. Agents ship what they \
                still have and the journal does not; files whose later lines are in it wait for waybill reship.
                """),
        .restoreLeavesOut: NoticeText(
            "Another history of this receiver is in the bucket", of: [],
            cause: """
                The data directory was put back from a copy, was replaced by an empty one, or was used twice, so the receiver \
                has several chains.
                """,
            effect: "The named lines are in the bucket and not in the restored directory.",
            remedy: """
                Join all chains, each line once, with waybill merge. Or restore the other one with --chain into another \
                directory.
                """),
    ]
}
