import ArgumentParser

/// `waybill`: one binary, one subcommand for each part.
///
///     waybill receiver … ◀── TCP ── waybill agent …        long-running services
///     waybill replay, transform                             exports again, from what was kept or as a filter
///     waybill requeue                                       what was set aside, for an agent once more
///     waybill deliver ── HTTPS ──▶ providers                closed parts of exports, on demand alone
///     waybill check, demo                                   a configuration's problems; the whole way in a minute
///
///     waybill inspect                                       what is in files and folders, and whether they hold together
///
/// Exit codes: 0 done, 64 usage, 65 bad input, 66 no input, 69 no receiver or provider, 74 files cannot be used,
/// 75 interrupted, 77 credentials refused, 78 bad configuration.
@main
struct WaybillCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "waybill",
        abstract: "Product-analytics events from app to collection host: nothing lost, nothing twice.",
        discussion: """
            A first look:        waybill demo
            On collection hosts: waybill receiver --data /var/lib/waybill
            Beside each app:     waybill agent --state /var/lib/waybill-agent --to HOST:4390 --spool /var/spool/app
            Shell completions:   waybill --generate-completion-script bash
            """,
        version: "0.1.0",
        subcommands: [
            ReceiverCommand.self, AgentCommand.self, SealCommand.self, ReplayCommand.self, RequeueCommand.self,
            DeliverCommand.self, InspectCommand.self, TransformCommand.self, CheckCommand.self, DemoCommand.self,
            DemoAppCommand.self,
        ])
}

extension ExitCode {
    /// The input is not what it should be (`EX_DATAERR`).
    static let badInput = ExitCode(65)
    /// No receiver or provider took what was to be sent (`EX_UNAVAILABLE`).
    static let unreachable = ExitCode(69)
    /// Stopped by a signal in a state that the same command goes on from (`EX_TEMPFAIL`).
    static let interrupted = ExitCode(75)
    /// Files or directories cannot be used (`EX_IOERR`).
    static let files = ExitCode(74)
    /// Whoever was asked refuses the credentials (`EX_NOPERM`).
    static let noPermission = ExitCode(77)
    /// The configuration is wrong (`EX_CONFIG`).
    static let badConfiguration = ExitCode(78)
}
