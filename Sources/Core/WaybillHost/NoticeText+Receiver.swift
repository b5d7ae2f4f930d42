extension NoticeText {
    static let journal: [Notice: NoticeText] = [
        .segmentSetAside: NoticeText(
            "A journal segment was set aside", of: ["path"],
            cause: "A segment of the journal has no whole head. A crash or a full disk leaves such a file.",
            effect: "Nothing acknowledged is lost: a segment without a head holds no batch.",
            remedy: "None. Delete the file when the next backup has been made."),
        .recordsLost: NoticeText(
            "Records of the journal or the archive were lost", of: [],
            cause:
                "The disk holds less than the receiver had acknowledged: a damaged disk, an old backup, deleted files.",
            effect:
                "The receiver takes a new incarnation. Agents compare their files with what is left and send the rest again.",
            remedy: "Keep the agents running until their backlog is sent. Check the disk (smartctl, dmesg)."),
        .startDelayed: NoticeText(
            "The start could not be recorded", of: ["code"],
            cause: "The disk refused the first write of the journal.",
            effect: "Nothing is acknowledged until the first group can be written; agents keep their lines.",
            remedy: "Free disk space, or fix what `cause` names. The receiver tries again by itself."),
        .journalDamaged: NoticeText(
            "A range of the journal is damaged", of: ["path", "first_byte"],
            cause: "Bytes of an older group do not match their checksum: the disk has changed them.",
            effect: "Archive and exports that had not read the range lack its lines. What had read it has them.",
            remedy: """
                Check the disk (smartctl, dmesg). If the archive has the lines and an export lacks them, run waybill \
                replay for the days; `waybill inspect --verify DATA` compares both.
                """),
        .commitSlow: NoticeText(
            "A commit took more than a second", of: [],
            cause: "The disk needed more than a second to make a group durable.",
            effect: "Acknowledgements are late. Nothing is lost.",
            remedy: "Look for other load on the disk, and compare waybill_journal_commit_seconds with other times."),
        .commitFailed: NoticeText(
            "The journal could not be written", of: ["code"],
            cause: "The disk refuses writes: it is full, read-only or broken. `code` and `cause` say which.",
            effect: "Nothing is acknowledged, so nothing is lost: agents keep their lines and send them later.",
            remedy: "Free space or lower retention: (the receiver continues by itself); replace a disk that fails."),
        .journalTooLarge: NoticeText(
            "The journal is larger than its limit", of: [],
            cause: """
                The limit journal.gib is reached, and the archive has not read the journal's beginning; or, with \
                retention.only, an export that is sent has not.
                """,
            effect: "Nothing is deleted, and the disk fills.",
            remedy: "See why that projection does not continue: waybill status shows how far behind each is."),
        .journalLost: NoticeText(
            "The journal's files are gone", of: [],
            cause: "The journal's folder or a segment was deleted, moved or replaced while the receiver was running.",
            effect: "The receiver acknowledges nothing more and ends with exit code 74.",
            remedy:
                "Put the folder back, or restore a backup, and start the receiver again. Its last message says more."),
        .retirementFailed: NoticeText(
            "A journal segment could not be deleted", of: [],
            cause: "The disk or the folder's permissions refused to delete a segment that is not needed any more.",
            effect: "The segment takes up space. Nothing is lost.",
            remedy: "Give the receiver's user the journal's folder (chown). It tries again by itself."),
        .clockDoubted: NoticeText(
            "The clock cannot be trusted", of: [],
            cause: "This host's clock is far from the time of the last run, of this version, or of the agents.",
            effect: "What depends on the time waits: sealing, retention, and refusals by age.",
            remedy: "Set the clock. If it is right, run waybill clock --accept."),
        .restartNeeded: NoticeText(
            "Changes of the configuration need a restart", of: nil,
            cause: "The configuration file was reloaded, and some changed keys apply only at a start.",
            effect: "The old values apply until then. All other changes apply.",
            remedy: "Restart the service; agents wait for it."),
        .reloadRefused: NoticeText(
            "The new configuration is refused", of: nil,
            cause: "The configuration file has a problem, which `problem` names with its line.",
            effect: "The old configuration stays in force.",
            remedy: "Correct the file, check it with waybill check, and reload again."),
        .certificateExpired: NoticeText(
            "The receiver's certificate has expired", of: [],
            cause: "The certificate that the receiver serves is not valid any more.",
            effect: "Agents refuse to connect. Their lines stay on their disks.",
            remedy: "Renew the certificate under the same path; the receiver loads it within a minute, or on SIGHUP."),
        .dataOpenToOthers: NoticeText(
            "Users outside the group can read data", of: ["path"],
            cause: "A folder in the data directory can be read by other users and belongs to another user.",
            effect: "Any user of this host can read events.",
            remedy: "Run chmod o= on the folder as its owner."),
    ]

    static let connections: [Notice: NoticeText] = [
        .agentRefused: NoticeText(
            "An agent is refused", of: ["reason", "address"],
            cause: "The token, the certificate or the key of an agent does not fit what the receiver expects.",
            effect: "The agent sends nothing. It keeps its lines and tries again.",
            remedy: """
                If the address is one of yours, give that agent the right token (WAYBILL_TOKEN or --token-file) or add it \
                to agents:. If not, someone is trying: a firewall keeps them out.
                """),
        .agentDenied: NoticeText(
            "An agent asked for what it may not do", of: ["agent", "what", "code"],
            cause: "An agent named an environment, a bundle or a stream that its principal may not write.",
            effect: "The stream is refused; its lines stay at the agent.",
            remedy: "Correct the source at the agent, or extend the principal's env: and bundle: in agents:."),
        .tlsRefused: NoticeText(
            "A connection without valid TLS is closed", of: ["code", "address"],
            cause: "A peer speaks no TLS, or presents a certificate that does not fit. `cause` says what.",
            effect: "The connection is closed. An agent keeps its lines and tries again.",
            remedy: "Give the agent --tls and the right CA or pin, and the certificate that the receiver asks for."),
        .proxyRefused: NoticeText(
            "A connection to the proxies' address is closed", of: ["reason", "address"],
            cause: """
                It is not from a proxy that receiver.proxied.from lists (address), proxies have as many connections as they \
                may (connections), or the connection does not begin with a header of the PROXY protocol, version 2 \
                (header, timeout).
                """,
            effect: "The connection is closed. An agent keeps its lines and tries again.",
            remedy: """
                List the proxy's address, let it send the header (HAProxy: send-proxy-v2), or give agents that need no proxy \
                the address of receiver.listen.
                """),
        .batchRefused: NoticeText(
            "A batch was refused", of: ["code", "address"],
            cause: "A batch did not pass its checks: checksum, size or lines. `code` is that of the protocol.",
            effect: "Nothing of it is stored. The agent sends it again.",
            remedy: "If it repeats for one agent, look for a proxy that changes bytes, or update that agent."),
        .auditFailed: NoticeText(
            "The audit log cannot be written", of: ["code"],
            cause: "The file that audit: names cannot be written.",
            effect: "Entries are lost until it can. Events are not affected.",
            remedy: "Free disk space, or give the receiver's user the file."),
    ]

    static let projections: [Notice: NoticeText] = [
        .projectionRecovered: NoticeText(
            "A projection repaired its files at its start", of: ["projection"],
            cause: "Archive or export files held more or less than the last checkpoint, as a crash leaves them.",
            effect: "None: what was cut is written again from the journal. `recovery` says what was done.",
            remedy: "None after a crash. Otherwise find out what writes to the data directory."),
        .projectionFailed: NoticeText(
            "An archive or an export cannot write", of: ["projection", "code"],
            cause: "The disk refuses writes: it is full, read-only or broken. `code` and `cause` say which.",
            effect: """
                Nothing is lost: what was acknowledged waits in the journal, and this projection is late; exports wait \
                for the archive.
                """,
            remedy: "Free space or lower retention:; the projection continues by itself."),
        .projectionHeld: NoticeText(
            "A projection waits for disk space", of: ["projection"],
            cause: "The disk has less free space than the journal reserves.",
            effect: "This projection writes nothing, so that events can still be acknowledged.",
            remedy: "Free space, or lower retention:; the projection continues by itself."),
        .linksNotSetAside: NoticeText(
            "A link could not be set aside", of: ["projection"],
            cause: "A symbolic link stands where the receiver writes, and it could not be moved away.",
            effect: "The projection writes nothing through it, and waits.",
            remedy: "Remove the link that `cause` names. Find out who has put it there."),
        .linksSetAside: NoticeText(
            "Links were set aside", of: ["projection"],
            cause: "Symbolic links stood where the receiver writes.",
            effect: "They were renamed. Nothing was written through them.",
            remedy: "Find out who has put them there. To keep data elsewhere, mount a file system."),
        .partsNotClosed: NoticeText(
            "Closed parts cannot be compressed", of: ["projection"],
            cause: "Parts of an export are damaged or cannot be read.",
            effect: "They stay as they are, and are not delivered. Others continue.",
            remedy: "Run waybill replay for the days that `first` names."),
        .linesQuarantined: NoticeText(
            "Lines were put into the quarantine", of: nil,
            cause: "Lines are no events: no JSON, no time, too long. The message has the reason.",
            effect: "They are kept in quarantine/REASON, and are in no archive and no export.",
            remedy: "Do what the message says; then waybill requeue sends the lines again."),
        .eventsRefused: NoticeText(
            "An export refused events", of: nil,
            cause: "The provider would not take these events: they lack something, or break one of its limits.",
            effect: "They are in the archive, and in the export's dead/ with the reason.",
            remedy:
                "Do what the message says: usually a mapping, or env: of the export. waybill replay --refused exports them."
        ),
        .eventsChanged: NoticeText(
            "An export changed values", of: nil,
            cause: "Values exceed a limit of the provider and were shortened or converted.",
            effect: "The provider gets the changed values; the archive has the originals.",
            remedy: "Do what the message says, in the app or in a mapping."),
        .eventsSkipped: NoticeText(
            "An export left events out", of: nil,
            cause: "The events are outside of what the export may send.",
            effect: "They are in the archive, and not at the provider.",
            remedy: "Do what the message says."),
        .unsealedDayDeleted: NoticeText(
            "A day was deleted that could not be sealed", of: ["day"],
            cause: "The day is older than retention.unsealed_days, and its seal failed until then.",
            effect: "Its lines are gone, but for what the journal still has. `archive/_deleted.ndjson` has the counts.",
            remedy: "Look for earlier errors of this day, and check the disk."),
        .daysNotDelivered: NoticeText(
            "Days over a limit are kept because they are not delivered", of: ["projection"],
            cause: "The key retention.only is `delivered`, and waybill deliver has not sent all of these days.",
            effect: "The limit is not reached, and the disk fills.",
            remedy: "Deliver them; or remove `only`, or name the environments of the export with env."),
        .journalFreed: NoticeText(
            "A segment of the journal was deleted that an export had not read", of: ["projection"],
            cause:
                "The limit journal.gib or journal.hours is reached, and the export stands still. The archive has the events.",
            effect: "The export lacks the events of this range.",
            remedy: "Fix the export's cause, then run the waybill replay that `command` has."),
        .exportMissed: NoticeText(
            "An export continues after a deleted part of the journal", of: ["projection"],
            cause: "The journal was deleted up to there before the export had read it.",
            effect: "The export lacks the events between `from` and `to`.",
            remedy: "Run the waybill replay that the line of the deletion (WB1313) has."),
        .readerDied: NoticeText(
            "The program died while it read a batch", of: ["reader"],
            cause: "A defect of this version: reading one of the batch's lines ended the program (`signal`).",
            effect: "Nothing is lost. The lines are read one by one; the one that does it again is set aside (WB1316).",
            remedy: "Send the batch's stream and offset with the version to the maintainers (SECURITY.md)."),
        .poisonSetAside: NoticeText(
            "A line that ended the program was set aside", of: ["reader"],
            cause: "A defect of this version: reading the line ended the program twice.",
            effect: """
                This reader does not read the line. The archive's is in `quarantine/date=…/poison.ndjson`, byte for byte; \
                an export's is a dead letter with the reason poison, and the archive has it. The door's stays in its segment. \
                An agent's registry is kept at `path`, and the receiver is asked.
                """,
            remedy: """
                Send the line to the maintainers (SECURITY.md). After an upgrade that reads it, run `waybill requeue` \
                with `--after-version`.
                """),
        .readerStopped: NoticeText(
            "A reader stands still before a batch that ends the program", of: ["reader"],
            cause: """
                Reading the batch ended the program, and no line of it does so alone; or this is a merger, which never \
                sets a line aside by itself.
                """,
            effect: """
                This reader goes no further, and exports wait where the archive does. Others continue, and the journal \
                keeps what it lacks.
                """,
            remedy: """
                Set the line at `offset` aside with `waybill set-aside`, for mergers with `--store`; or, after an upgrade that reads it, stop the \
                program, delete `state/readers` in the data directory, and start it again.
                """),
        .readerEnded: NoticeText(
            "Several starts in a row ended at one batch", of: ["reader"],
            cause: "Something else than a fault of the program ended it each time: no memory, a kill, a power cut.",
            effect: "Nothing is set aside. The batch is read again at each start.",
            remedy: """
                Look who ended it (dmesg, journalctl). If its memory was full because of the line at `offset`, stop the \
                program and run `waybill set-aside` with `stream` and `offset`.
                """),
    ]
}
