extension NoticeText {
    static let deliveries: [Notice: NoticeText] = [
        .deliveryRefused: NoticeText(
            "The provider refuses a delivery", of: ["delivery", "detail"],
            cause: "The provider refuses the credentials, the project or all records. `detail` has its words.",
            effect: "Nothing is sent to it, and it is tried again later. Nothing is lost.",
            remedy: "Correct the credentials or the endpoint in deliver:; SIGHUP applies them."),
        .deliveryFailed: NoticeText(
            "A delivery cannot continue", of: ["delivery", "detail"],
            cause: "Files, credentials or another delivery of the same export are in the way. `detail` says which.",
            effect: "Nothing is delivered until it is tried again. Nothing is lost.",
            remedy: "Do what `detail` says."),
        .connectionsNotClosed: NoticeText(
            "Connections could not be closed", of: ["delivery"],
            cause: "The HTTP client could not close its connections in time.",
            effect: "None for events.",
            remedy: "None, unless it repeats: then restart the service."),
        .dayRemade: NoticeText(
            "A day was regenerated after it was sent", of: ["day"],
            cause:
                "A replay made a day again of which events had been sent, to a provider that would count them twice.",
            effect: "The day is not sent again.",
            remedy: "Compare both, and use waybill deliver --force if the provider must get it again."),
        .dayInDoubt: NoticeText(
            "It is not known whether a day was sent", of: ["day"],
            cause: """
                The data directory was restored from the bucket, which has no record of what was sent, and the provider would \
                count events twice.
                """,
            effect: "The day is not sent. Days after the restore are.",
            remedy: """
                Look up at the provider up to which day it has the events, and run waybill deliver --sent-before DAY once; or \
                use --force to send a day in any case.
                """),
        .partRemade: NoticeText(
            "A part was regenerated while it was delivered", of: ["part"],
            cause: "A replay replaced a part during its delivery.",
            effect: "The new part is delivered next.",
            remedy: "None."),
        .requestNotAccepted: NoticeText(
            "A provider did not accept a request", of: ["delivery", "detail"],
            cause: "The provider answered with an error, or could not be reached. `detail` has its words.",
            effect: "The records are sent again later, or are buried with the reason in dead/.",
            remedy: "None if it passes. Otherwise do what `detail` says."),
        .deliveryStateRecovered: NoticeText(
            "The state of a delivery was repaired", of: ["found"],
            cause: "The file with the delivery's progress was damaged, by a crash or the disk.",
            effect: "An earlier state applies, which is safe: records may be sent again where that does no harm.",
            remedy: "None after a crash; otherwise check the disk."),
        .partDamaged: NoticeText(
            "A part is damaged", of: ["part"],
            cause: "A closed part does not match its checksum.",
            effect: "It is not delivered; other parts are.",
            remedy: "Run the command in `replay`, which makes the day again."),
        .deliveryReloadRefused: NoticeText(
            "The new configuration is refused", of: nil,
            cause: "The configuration file has a problem, which `detail` names with its line.",
            effect: "The old configuration stays in force.",
            remedy: "Correct the file, check it with waybill check, and send SIGHUP again."),
        .environmentWithoutCredentials: NoticeText(
            "An environment has no credentials", of: [],
            cause: "An export has parts of an environment for which no credentials are set.",
            effect: "Parts of this environment are not sent. They wait.",
            remedy: "Set the variables that the message names."),
        .claimsNotAsked: NoticeText(
            "The bucket does not say who sends which part", of: ["delivery"],
            cause: "A merger sends a part only when the bucket says that no other one does, and it does not answer.",
            effect: "Parts wait. Nothing is lost.",
            remedy: "Do what `detail` says; it is tried again by itself."),
        .claimDamaged: NoticeText(
            "A claim cannot be read", of: ["part"],
            cause: "The object of the bucket that `object` names says who sends the part, and has other bytes.",
            effect: "The part is not sent. Others are.",
            remedy:
                "Find out who changed it. Delete it if it ends in .done; then run waybill deliver --config FILE --take-over damaged."
        ),
        .partTakenOver: NoticeText(
            "Another merger took over a part", of: ["part"],
            cause: "The part was being sent here, and waybill deliver --take-over gave it to another merger.",
            effect: "It is not sent further here. What was sent before may be sent again there.",
            remedy: "None if it was intended. Take over only from a merger that does not run."),
        .partHeldElsewhere: NoticeText(
            "Another merger holds parts and does not finish them", of: ["merger"],
            cause: "The merger `merger` claimed parts and is stopped, lost or refused by the provider.",
            effect: "These parts are not delivered until it runs again. Others are.",
            remedy: "Start that merger. If it is gone for good, run `command` on another one."),
    ]

    static let programs: [Notice: NoticeText] = [
        .usageWrong: NoticeText(
            "The command line is wrong", of: [],
            cause: "An option or an argument is missing, unknown or has an impossible value.",
            effect: "The program ends with exit code 64; nothing was changed.",
            remedy: "Correct what the message names; --help shows every option."),
        .configurationWrong: NoticeText(
            "The configuration is wrong", of: [],
            cause: "The configuration file, or what it names, has a problem.",
            effect: "The program ends with exit code 78; nothing was changed.",
            remedy: "Correct what the message names; waybill check shows all problems at once."),
        .inUse: NoticeText(
            "Another process uses it", of: [],
            cause: "The data directory, the state directory, a spool or a delivery is locked by another process.",
            effect: "The program ends with exit code 75; a service manager starts it again.",
            remedy: "Stop the other process, which the message names if it is known, or choose another path."),
        .filesUnusable: NoticeText(
            "Files cannot be used", of: [],
            cause: "A directory or a file is missing, read-only, full or damaged. The message says which.",
            effect: "The program ends with exit code 74.",
            remedy: "Do what the message says."),
        .addressUnusable: NoticeText(
            "An address cannot be listened on", of: [],
            cause: "The address is not of this host, or another program listens on the port.",
            effect: "The program ends with exit code 74. It has taken nothing.",
            remedy: "Choose another address, or stop the other program."),
        .unreachable: NoticeText(
            "No one took what was to be sent", of: [],
            cause: "No receiver or provider could be reached, or it took nothing, for as long as --patience allows.",
            effect: "The program ends with exit code 69. Nothing is lost.",
            remedy: "Fix what the message names and run the program again."),
        .interrupted: NoticeText(
            "The program was interrupted", of: [],
            cause: "A signal (SIGTERM, SIGINT) ended the program before its work was done.",
            effect: "The program ends with exit code 75. Nothing is lost.",
            remedy: "Run the program again: it continues where it stopped."),
        .nameChanged: NoticeText(
            "The agent has another name than its state", of: [],
            cause: "The agent's configured name is not the one that its state has logs under.",
            effect: "The program ends with exit code 78: under another name every log would be shipped again.",
            remedy:
                "Go back to the former name, or accept that every log is shipped again: start once with --renamed-from and the former name."
        ),
        .tlsUnusable: NoticeText(
            "TLS cannot be set up", of: [],
            cause: "A certificate, a key or a CA file is missing, damaged or does not fit.",
            effect: "The program ends with exit code 78.",
            remedy: "Correct the file that the message names; waybill check --probe opens them all."),
        .exportsConflict: NoticeText(
            "An export cannot continue with these options", of: [],
            cause: "An option of an export was changed that decides what is already written.",
            effect: "The receiver does not start, and ends with exit code 78.",
            remedy: "Take the change back, or do what the message says."),
        .inputUnreadable: NoticeText(
            "Input cannot be read", of: [],
            cause: "Files or folders do not exist or cannot be read; earlier warnings name them.",
            effect: "The program did what it could, and ends with exit code 66.",
            remedy: "Let the program's user read them, and run it again."),
        .inputWrong: NoticeText(
            "Input is wrong", of: [],
            cause: "Data is damaged, or is not what the command works on.",
            effect: "The program did what it could, and ends with exit code 65.",
            remedy: "Do what the message says."),
        .credentialsRefused: NoticeText(
            "The provider refused the credentials", of: [],
            cause: "The provider does not know the credentials, or they may not write.",
            effect: "The program ends with exit code 77. Nothing is lost.",
            remedy: "Correct the credentials of the environment that the message names."),
        .storeUnsafe: NoticeText(
            "The store overwrites what it must keep", of: [],
            cause: "The store took a second PUT with If-None-Match: * of one key.",
            effect: "The program ends with exit code 78: two mergers would destroy each other's objects.",
            remedy:
                "Use a store that honours conditional writes, or a newer version of it; waybill store check tries it."),
        .libraryFailed: NoticeText(
            "A library reports a problem", of: [],
            cause: "A package that Waybill uses, as the one that starts and stops its parts, has logged it.",
            effect: "The message says. If the program ends, its last line has an identifier of its own.",
            remedy: "Read the next line; report it as a bug if there is none."),
    ]
}
