extension NoticeText {
    static let agent: [Notice: NoticeText] = [
        .registryDamaged: NoticeText(
            "Parts of the registry could not be read", of: ["found"],
            cause: "The agent's state is damaged, by the disk or by another program.",
            effect: "Nothing is lost: the receiver knows every position, and is asked.",
            remedy: "Check the disk (smartctl, dmesg)."),
        .deviceKeyDamaged: NoticeText(
            "The key of an install was damaged", of: ["kept"],
            cause: "The file with the key of this install is not whole.",
            effect: "The install continues with a new key, under a new name.",
            remedy: "Restore the file from a backup if the name matters. The damaged one is kept at `kept`."),
        .registryEntriesUnreadable: NoticeText(
            "Entries of the registry are left out", of: [],
            cause: "Entries have a form that this version cannot read.",
            effect: "Nothing is lost: the receiver knows every position, and is asked.",
            remedy: "None, unless an older version was started over the state of a newer one: then start the newer one."
        ),
        .stateOpenToOthers: NoticeText(
            "Other users can read a folder of the agent", of: ["path"],
            cause: "A folder with copies of lines can be read by others and belongs to another user.",
            effect: "Any user of this host can read the lines in it.",
            remedy: "Run chmod go= FOLDER as its owner."),
        .registryFailed: NoticeText(
            "The registry could not be written", of: ["code"],
            cause: "The disk refuses writes in the state directory. `code` and `cause` say why.",
            effect: "Nothing is lost: after a restart the receiver is asked for every position.",
            remedy: "Free disk space, or give the agent's user its state directory."),
        .disconnected: NoticeText(
            "The agent is not connected", of: ["receiver", "reason"],
            cause: "No receiver can be reached, or it closed the connection. `reason` says which.",
            effect: "Nothing is lost: what is not acknowledged stays on disk. `waiting_bytes` is how much.",
            remedy:
                "Do what `reason` says: start the receiver, correct to:, token or certificate. The agent tries again."),
        .receiverOlder: NoticeText(
            "The receiver came back older than it was", of: ["receiver"],
            cause: "The receiver has lost data that it had acknowledged: an old backup, or a damaged disk.",
            effect: "The agent asks for every file that still exists, and sends what the receiver lacks.",
            remedy: "None at the agent. Look at the receiver's log for WB1002."),
        .linesQuarantinedThere: NoticeText(
            "The receiver put lines of this agent into its quarantine", of: ["first"],
            cause: "Lines of this agent's files are no events. `first` names a stream and the reason.",
            effect: "The receiver keeps them in its quarantine; no export has them.",
            remedy: "Correct what writes the lines, or leave the file out with exclude."),
        .eventsRefusedThere: NoticeText(
            "Exports refused events of this agent", of: ["export", "reason"],
            cause: "A provider would not take events of this agent. `reason` says why.",
            effect: "They are in the archive, and in the export's dead/.",
            remedy: "The receiver's log has the remedy, under WB1308."),
        .streamRefused: NoticeText(
            "The receiver refused a stream", of: ["stream", "code"],
            cause: "The receiver does not take this file now. `code` and `reason` say why.",
            effect: "The file waits; the agent opens it again.",
            remedy: "in-use: another agent ships the file. not-allowed: extend the principal in the receiver's agents:."
        ),
        .receiverForgot: NoticeText(
            "The receiver holds less than it acknowledged", of: ["stream"],
            cause: "The receiver has lost data: an old backup, or a damaged disk.",
            effect: "The agent sends the rest again.",
            remedy: "None at the agent. Look at the receiver's log."),
        .segmentsMissing: NoticeText(
            "Delivered segments are missing at the receiver", of: [],
            cause: "The receiver lacks segments that were acknowledged, and that the agent has deleted since.",
            effect: "Their events are lost, unless a backup of the receiver has them.",
            remedy: "Restore a newer backup of the receiver's data directory."),
        .acksMissing: NoticeText(
            "The receiver acknowledges nothing", of: ["address"],
            cause: """
                The agent is connected and has sent batches, and for a minute none was acknowledged. The message says \
                whether the receiver answers otherwise, or nothing at all was heard.
                """,
            effect: "Nothing is lost: the lines stay on disk until they are acknowledged.",
            remedy: """
                If it answers, look at the receiver's log: its disk may be full (WB1006) or slow (WB1005). If nothing \
                was heard, look at the network and at the receiver's host.
                """),
        .agentRestartNeeded: NoticeText(
            "Changes of the agent's configuration need a restart", of: nil,
            cause: "The configuration was reloaded, and some changed keys apply only at a start.",
            effect: "The old values of these keys stay. All other changes apply.",
            remedy: "Restart the agent when it suits you: nothing is lost or sent twice."),
        .agentReloadRefused: NoticeText(
            "The agent's new configuration is refused", of: nil,
            cause: "The file, or a file that it names, has the problem that `problem` says.",
            effect: "Nothing changes: the agent works on with the old configuration.",
            remedy: "Correct the file, check it with waybill check, and reload again."),
        .segmentsReturned: NoticeText(
            "Kept segments are shipped again", of: [],
            cause:
                "The receiver at this address is another one, or an older copy: it does not have what was shipped there.",
            effect: "The segments that `keep` left are shipped again. What the receiver has is stored once.",
            remedy: "None, if you restored or replaced the receiver. Otherwise see where its data directory went."),
        .fleetDoubted: NoticeText(
            "A receiver's fleet is not believed", of: ["address"],
            cause:
                "The receiver says that it belongs to `fleet`. Anybody may say so, and there is neither TLS, nor a "
                + "loopback address, nor fleet: with this id.",
            effect:
                "Nothing is lost. Another receiver of the fleet gets everything again, and logs may be stored twice.",
            remedy: "Use TLS. Or set fleet: to this id, if waybill store list shows it and you trust the network."),
    ]

    static let sources: [Notice: NoticeText] = [
        .spoolUnusable: NoticeText(
            "A spool does not exist or is not a directory", of: ["path"],
            cause: "The path of a source names nothing, or something else than a folder.",
            effect: "Nothing of it is shipped. The agent looks again.",
            remedy: "Correct the path; a spool that an app has yet to create needs nothing."),
        .nothingMatches: NoticeText(
            "No file matches", of: ["patterns"],
            cause: "No file with a whole line matches the patterns of a source.",
            effect: "Nothing of it is shipped. The agent looks again.",
            remedy: "Correct the patterns, unless the files have yet to be written."),
        .foldersDenied: NoticeText(
            "Folders may not be read", of: ["first"],
            cause: "The agent's user may not list folders of a source.",
            effect: "New files in them are found late or not at all.",
            remedy: "Let the agent's user read the folders (group, setfacl)."),
        .foldersPolled: NoticeText(
            "Folders are polled", of: [],
            cause: "The system refuses to watch more folders.",
            effect: "New lines in them are seen with a delay.",
            remedy: "Raise fs.inotify.max_user_watches (sysctl)."),
        .fewDescriptors: NoticeText(
            "The process may open no more files", of: [],
            cause:
                "The limit of open files (ulimit -n) is lower than what the agent uses, or there are more spools than it allows.",
            effect:
                "Fewer files are held open, and all are shipped in turn; spools take turns, too. A file that is deleted while it is closed is lost.",
            remedy: "Raise the limit (systemd: LimitNOFILE), or lower limits.open_files."),
        .mountHangs: NoticeText(
            "A file system does not answer", of: ["path"],
            cause: "A server (NFS, SMB) or program (FUSE) that serves the mount `path` is down, stopped or very slow.",
            effect: "What is on it waits; nothing of it is taken for gone. All other files are shipped as ever.",
            remedy: "Bring the server or program back; the agent continues by itself. If none will come: umount -l."),
        .locksUnseen: NoticeText(
            "Locks of a spool's writers may not be seen", of: ["path"],
            cause:
                "The spool is on a network mount or on FUSE, where a program on another host or mount may write unseen.",
            effect:
                "Nothing waits: lines are shipped as they come. A segment stays until its writer has begun another one, or has not written to it for an hour; what it writes later is lost.",
            remedy: "Keep the spool on a local disk of the host where the app and an agent run."),
        .fileUnreadable: NoticeText(
            "A file or folder cannot be read", of: ["path"],
            cause: "Permissions or the disk refuse it, or its name is not UTF-8. `cause` says which.",
            effect: "What is in it is not shipped. The agent tries again.",
            remedy: "Let the agent's user read it, check the disk, or give it another name."),
        .fileRefused: NoticeText(
            "A file is not followed", of: ["path"],
            cause: "The file is compressed, or another user may have put it there. `reason` says which.",
            effect: "It is not shipped.",
            remedy: "Do what `remedy` says."),
        .foreignFormat: NoticeText(
            "A file has another format", of: ["path"],
            cause: "The first bytes of a file are those of a format that is not JSON lines.",
            effect: "Its lines would go to the receiver's quarantine.",
            remedy: "Do what the message says, or leave the file out with exclude."),
        .notRegular: NoticeText(
            "A path is not a regular file", of: ["path"],
            cause: "A pipe, a socket or a device matches the patterns.",
            effect: "It is not followed.",
            remedy: "Leave it out with exclude."),
        .notSegment: NoticeText(
            "A spool contains another file", of: ["path"],
            cause: "A file in a spool does not have the name of a segment.",
            effect: "It is not shipped.",
            remedy: "Move it elsewhere; a spool belongs to the client library."),
        .fileCut: NoticeText(
            "A file was cut", of: ["stream"],
            cause: "A program cut a file that had not been shipped to its end (logrotate's copytruncate does this).",
            effect: "Bytes that were not shipped are lost at the source; `lost_bytes` of them had been seen.",
            remedy: "Rotate by renaming (logrotate: create in place of copytruncate)."),
        .fileShorter: NoticeText(
            "A file was shorter than what was shipped of it", of: ["stream"],
            cause:
                "A network mount reported an old length, or a program took lines back that it had written, or wrote the file again.",
            effect:
                "Nothing of it is lost. If the same bytes are back within 5 s, it continues. Otherwise what it has from the last batch on that is unchanged is shipped, `reread_bytes` of it a second time.",
            remedy: "Let programs only append to logs; on a network mount nothing is to be done."),
        .endUnseen: NoticeText(
            "Files may have had more lines", of: [],
            cause:
                "While no agent ran, `files` files were moved out of the folders in `searched`, or deleted. They are in none of the folders in these either, of which at most 4,096 names are looked at. What was seen of them is shipped, or told as lost.",
            effect: "Lines that were written after the agent stopped are not shipped, if there are any.",
            remedy:
                "Look where your rotation moves files (olddir, another release's folder). Add that folder to the patterns: the file is then continued where it was read to."
        ),
        .fileHole: NoticeText(
            "NULs before a line", of: ["stream"],
            cause:
                "A log was cut (`copytruncate`, `>`) while its program writes to it without `O_APPEND`: the program continues at its old offset, and what is before it reads as NULs.",
            effect: "The NULs (`bytes`) are skipped, the lines behind them are shipped. Nothing is lost.",
            remedy: "Open the log with `O_APPEND` (`>>` in a shell), or rotate by renaming (logrotate: `create`)."),
        .fileGone: NoticeText(
            "A file is gone", of: [],
            cause: "A file was deleted before it had been shipped to its end.",
            effect:
                "Bytes that were not shipped are lost at the source; `lost_bytes` of them had been seen, and `lost_bytes_total` in all files since the start.",
            remedy: "Keep rotated files for as long as the receiver may be away."),
        .duplicateSegment: NoticeText(
            "A segment exists twice", of: ["stream"],
            cause: "Two files have the name of one segment: a spool was copied.",
            effect: "One of them is shipped: the longer one, if it begins with the other.",
            remedy: "Remove the copy."),
        .segmentDisputed: NoticeText(
            "The receiver does not prove that it holds a segment", of: ["stream"],
            cause:
                "The receiver says that it holds the segment, and cannot prove it: it may be a false receiver, hold other bytes, have got a shorter copy first, or lack `skipped` bytes that another agent with the same credential skipped.",
            effect: "The segment stays on disk.",
            remedy: "If the receiver is the right one, run waybill reship on the file."),
        .segmentAwaits: NoticeText(
            "A segment waits for a receiver that stood alone", of: ["stream"],
            cause:
                "`receiver` took the first `bytes` of the segment before it belonged to the fleet, so its own archive alone has them.",
            effect:
                "The segment stays on disk until that receiver has sealed it, too. If it comes back without them, or not within 7 days, the bytes are sent to the fleet.",
            remedy: "Start that receiver with its data directory."),
        .notReshipped: NoticeText(
            "A disputed segment cannot be shipped again yet", of: ["path"],
            cause: "Renaming the segment failed. `cause` says why.",
            effect: "The segment stays on disk. The agent tries again.",
            remedy: "Fix what `cause` names."),
        .segmentShortened: NoticeText(
            "The receiver holds more of a segment than the file has", of: ["stream"],
            cause: "This machine lost the end of the file, in a power failure or by a restored backup.",
            effect: "Nothing is lost: the receiver has the end.",
            remedy: "None."),
        .segmentUndeletable: NoticeText(
            "A shipped segment cannot be deleted", of: ["path"],
            cause: "The agent's user may not delete files in the spool.",
            effect: "The spool grows until its quota is reached.",
            remedy: "Let the agent's user write to the spool (see Documentation/secure.md)."),
        .segmentGrew: NoticeText(
            "A segment grew after its end", of: ["stream"],
            cause: "A program wrote to a segment after its writer had closed it.",
            effect: "The segment is kept; what was added is not shipped.",
            remedy: "Find the program; only the client library writes segments."),
        .lineTooLong: NoticeText(
            "A line is too long", of: ["stream"],
            cause: "A line is longer than the receiver takes.",
            effect: "It was moved to the agent's quarantine (`kept`), and is not shipped.",
            remedy: "Write shorter lines: an event of more than a megabyte has a document in it."),
        .lineWithoutEnd: NoticeText(
            "A line is too long and has no end", of: nil,
            cause: "The last line of a file is longer than the receiver takes, and still has no LF.",
            effect: "The file waits for the line's end.",
            remedy: "Let the program end the line, or delete the file."),
        .longLineNotKept: NoticeText(
            "A long line could not be moved to the quarantine", of: ["stream"],
            cause: "The disk refused to write the agent's quarantine. `cause` says why.",
            effect: "The stream waits.",
            remedy: "Free disk space, or give the agent's user its state directory."),
    ]
}
