extension NoticeText {
    static let ingest: [Notice: NoticeText] = [
        .doorFull: NoticeText(
            "The disk of the door's spools is full", of: [],
            cause: "The file system has less free space than `ingest.reserve_mib`, or none.",
            effect: """
                Requests are answered 503 with `Retry-After`. SDKs keep their events and send them again, most of them for some \
                minutes only.
                """,
            remedy: "Free space, and see whether the agent ships the spools. The door continues by itself."),
        .doorFailed: NoticeText(
            "The door's spools cannot be written", of: [],
            cause: "The disk fails, or the folder cannot be written by the door's user.",
            effect: "Requests are answered 503 with `Retry-After`; SDKs send their events again.",
            remedy: "Look at the folder's owner and at `dmesg`. The door continues by itself."),
        .doorReceiverAway: NoticeText(
            "No tunnel reaches the door's receiver", of: [],
            cause: "The receiver of `ingest.line.receiver` does not answer. `reason` says how.",
            effect: """
                Requests for a tunnel are answered 503 with `Retry-After`. Agents keep their events and try again; nothing is \
                lost. Events of SDKs are taken as before.
                """,
            remedy: """
                Start the receiver, or correct `receiver`, `tls` and `ca`. The receiver needs `proxied:` with the door's address \
                in `from`.
                """),
        .doorQuarantineKept: NoticeText(
            "Old days of the door's quarantine stay", of: [],
            cause: """
                Their folders in `ingest.quarantine` cannot be listed or deleted, or the clock shows a time before the youngest \
                of them or before the date of the program. `reason` says which.
                """,
            effect: """
                Events are taken as before. The quarantine grows; the deletion is tried again on the next day, and after a \
                reload.
                """,
            remedy: """
                Give the folders to the door's user, or set the host's clock. If it was ahead once, delete the folders of days \
                to come.
                """),
        .doorRestartNeeded: NoticeText(
            "Changes of the door's configuration need a restart", of: nil,
            cause: "The configuration was reloaded, and some changed keys apply only at a start.",
            effect: "The old values of these keys stay. All other changes apply.",
            remedy: "Restart the door when it suits you: senders repeat what is not answered."),
        .doorReloadRefused: NoticeText(
            "The door's new configuration is refused", of: nil,
            cause: "The file, or a file that it names, has the problem that `problem` says.",
            effect: "Nothing changes: the door works on with the old configuration.",
            remedy: "Correct the file, check it with waybill check, and reload again."),
    ]
}
