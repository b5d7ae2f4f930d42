import ArgumentParser
import WaybillExport

/// `waybill`: one program, one subcommand for each part.
///
///     waybill receiver … ◀── TCP ── waybill agent …        long-running services
///     waybill merge, restore, store ── HTTPS ──▶ bucket              a fleet's receivers joined; its bucket: `waybill-net`
///     waybill replay, transform                             regenerates exports, or maps events as a filter
///     waybill report                                        people, screens, funnels and more, counted over the archive
///     waybill requeue                                       set-aside lines, for an agent to ship again
///     waybill reship                                        disputed segments, to be shipped under another id
///     waybill token                                         a token for agents, and its digest for the receiver
///     waybill store                                         a fleet's bucket: `waybill-net`
///     waybill deliver ── HTTPS ──▶ providers                closed parts of exports: `waybill-net`
///     waybill ingest ◀── HTTP ── browsers, SDKs            events into spools: `waybill-ingest`
///     waybill sealed                                        new revisions of sealed days, for whatever takes files
///     waybill check, configuration                          a configuration's problems; every key with its default
///     waybill status, top ── HTTP, UNIX socket ──▶ …       how receivers and agents are doing
///     waybill fleet                                         how a fleet is doing: receivers, mergers, what is missing
///     waybill clock                                         whether a receiver can trust this host's clock
///     waybill live ── HTTP ──▶ browser, waybill tap          events as they arrive, on a page or as lines
///     waybill demo                                          the whole pipeline in a minute
///
///     waybill inspect                                       what files and folders contain, and whether they are consistent
///
///     waybill explain                                       what an identifier of a log line means, and what to do
///
/// `ExitStatus` has the exit codes.
struct WaybillCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "waybill",
        abstract: "Product-analytics events from app to collection host: nothing lost, nothing twice.",
        discussion: """
            A first look:        waybill demo
            On collection hosts: waybill receiver --data /var/lib/waybill
            Next to each app:    waybill agent --state /var/lib/waybill-agent --to HOST:4390 --spool /var/spool/app
            Shell completions:   waybill --generate-completion-script bash
            """,
        version: packageVersion,
        subcommands: [
            ReceiverCommand.self, AgentCommand.self, MergeCommand.self, SealCommand.self, SealedCommand.self,
            ReplayCommand.self,
            RequeueCommand.self, SetAsideCommand.self, EraseCommand.self, RestoreCommand.self,
            ReshipCommand.self, DeliverCommand.self, ClockCommand.self, InspectCommand.self, TransformCommand.self,
            ReportCommand.self, CheckCommand.self, ConfigurationCommand.self, TokenCommand.self, LiveCommand.self,
            TapCommand.self, StatusCommand.self, StoreCommand.self, FleetCommand.self, IngestCommand.self,
            ExplainCommand.self, TopCommand.self,
            DemoCommand.self,
            DemoAppCommand.self,
        ])

    /// Which command was meant by a misspelled one.
    static func advice(for word: String) -> String? {
        let commands = Self.configuration.subcommands.compactMap { $0.configuration.commandName }
        guard !word.hasPrefix("-"), !commands.contains(word), word != "help" else { return nil }
        return NearestName.find(word, in: commands).map { "did you mean waybill \($0)?" }
    }

    /// Without a command there is nothing to do: a service whose command line was lost must not look finished.
    func run() async throws {
        Console.printError("no command was given; name one of these\n\n\(Self.helpMessage())")
        throw ExitCode.validationFailure
    }
}

/// What `waybill`, `waybill-net` and `waybill-ingest` run.
package enum WaybillProgram {
    package static func main() async {
        await Console.main(WaybillCommand.self) {
            WaybillCommand.advice(for: CommandLine.arguments.dropFirst().first ?? "")
        }
    }
}
