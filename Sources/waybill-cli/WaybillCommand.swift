import ArgumentParser
import WaybillConsole

/// `waybill`: one program, one subcommand for each part.
///
///     waybill receiver … ◀── TCP ── waybill agent …        long-running services
///     waybill replay, transform                             exports again, from what was kept or as a filter
///     waybill requeue                                       what was set aside, for an agent once more
///     waybill deliver ── HTTPS ──▶ providers                closed parts of exports: `waybill-deliver`
///     waybill check, configuration                          a configuration's problems; every key with its default
///     waybill demo                                          the whole way in a minute
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
        version: packageVersion,
        subcommands: [
            ReceiverCommand.self, AgentCommand.self, SealCommand.self, ReplayCommand.self, RequeueCommand.self,
            DeliverCommand.self, InspectCommand.self, TransformCommand.self, CheckCommand.self,
            ConfigurationCommand.self, DemoCommand.self, DemoAppCommand.self,
        ])
}
