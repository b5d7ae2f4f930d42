extension NoticeText {
    static let ingest: [Notice: NoticeText] = [
        .doorFull: NoticeText(
            "The disk of the door's spools is full", of: [],
            cause: "The file system has less free space than `ingest.reserve_mib`, or none.",
            effect: """
                Requests are answered 503 with `Retry-After`. SDKs keep their events and send them again, most of them for some \
                minutes only.
                """,
            remedy: "Free space, and see whether the agent ships the spools. The door goes on by itself."),
        .doorFailed: NoticeText(
            "The door's spools cannot be written", of: [],
            cause: "The disk fails, or the folder cannot be written by the door's user.",
            effect: "Requests are answered 503 with `Retry-After`; SDKs send their events again.",
            remedy: "Look at the folder's owner and at `dmesg`. The door goes on by itself."),
    ]
}
