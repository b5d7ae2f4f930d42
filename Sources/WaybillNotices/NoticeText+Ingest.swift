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
        .doorReceiverAway: NoticeText(
            "The door cannot forward streams to its receiver", of: [],
            cause: """
                The receiver of `ingest.streams.receiver` does not answer, or does not let the door in. `reason` says which.
                """,
            effect: """
                Requests of `/v1/streams` are answered 503 with `Retry-After`. Clients keep their events and send them again; \
                nothing is lost. Events of SDKs are taken as before.
                """,
            remedy: """
                Start the receiver, or correct `receiver`, `tls` and `token_file`. The principal of the token needs \
                `may_forward: true` at the receiver.
                """),
        .doorAgentsUnusable: NoticeText(
            "The door's list of clients cannot be used", of: [],
            cause:
                "The file of `ingest.streams.agents_file`, or a token's file in it, has changed and is wrong. `problems` say how.",
            effect: "The list before stays in force: a credential that was removed is still let in, a new one is not.",
            remedy: "Correct the file. It is read again when it changes."),
        .doorAgentRefused: NoticeText(
            "A client is not let in at the door", of: ["reason"],
            cause: """
                The token or the key of one of Waybill's own clients does not fit the list of `ingest.streams.agents_file`.
                """,
            effect: """
                Its requests of `/v1/streams` are answered 401, later and later. It keeps its events and tries again.
                """,
            remedy: """
                If the address is one of yours, give that client the right token, or add it to the list. If not, somebody is \
                trying: a firewall or the proxy in front of the door keeps them out.
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
