import ArgumentParser
import WaybillEvent
import WaybillExport
import WaybillProtocol
import WaybillSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

struct TransformCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "transform",
        abstract: "Turn events into a provider's records on standard output.",
        discussion: """
            Examples:
              waybill transform --provider csv --zone Asia/Seoul data/archive/env=prod/…/part-00001.ndjson.gz > day.csv
              waybill transform --provider ga4 --dead refused.ndjson < events.ndjson > requests.ndjson
              waybill transform --provider warehouse --config waybill.yaml < events.ndjson > rows.csv
              waybill transform --provider posthog --env prod --bundle com.example.web --stream access.json \\
                  --anonymous-member cookie_id < access.json > events.ndjson

            Runs the same code as the live export. Counts, with what was fixed for the provider, go to standard error as
            one line of JSON; the exit code is 65 if any line was not an event.

            A file of an archive is read with the .sources next to it, which know each line's stream, members and time of
            receipt: its events have the same ids as in the live export, and their age is judged as it was on arrival. For
            other input, rules about an event's age apply only with --as-of, and --stream names the stream from which the
            ids of lines without one are made.

            The lines of people who were erased with waybill erase are left out: of a file below archive/ or quarantine/ by
            the record of its data directory, of other input by that of the directory that --data names.
            """)

    @Argument(help: "Files of lines, also compressed (.gz). (default: standard input)")
    var files: [String] = []

    @Option(help: "Which export: \(Destination.list).")
    var provider: String

    @Option(help: "A receiver's data directory, whose erased people are left out. (default: that of each file)")
    var data: String?

    @Option(help: "A receiver's configuration file, for the export's mapping and options and for custom providers.")
    var config: String?

    @Option(help: "The report's zone. (default: the configuration file's, else UTC)")
    var zone: String?

    @Option(help: "Judge the age of events as if they were received at this time (RFC 3339).")
    var asOf: String?

    @Option(help: "The file for refused events, with the reason. (default: none)")
    var dead: String?

    @Option(help: "The environment of lines that are not Waybill events; with --bundle.")
    var env: DeploymentEnvironment?

    @Option(help: "The app of lines that are not Waybill events; with --env.")
    var bundle: String?

    @Option(help: "With --env: the member that holds the time of a line.")
    var timeMember: String?

    @Option(help: "With --env: the member that holds the name of a line.")
    var nameMember: String?

    @Option(help: "With --env: the member that holds the id of a line's user.")
    var userMember: String?

    @Option(help: "With --env: the member that holds the id of a line's device or browser.")
    var anonymousMember: String?

    @Option(help: "With --env: the stream that begins with the first line; ids are made from it and from offsets.")
    var stream: String?

    @Option(help: "With --stream: the principal that owns the stream. (default: none)")
    var principal: String?

    func validate() throws {
        if self.config == nil { _ = try OptionReader.provider(self.provider) }
        if (self.env == nil) != (self.bundle == nil) { throw ValidationError("--env and --bundle require each other") }
        let options = [
            ("--time-member", self.timeMember), ("--name-member", self.nameMember), ("--user-member", self.userMember),
            ("--anonymous-member", self.anonymousMember), ("--stream", self.stream),
        ]
        if self.env == nil, let option = options.first(where: { $0.1 != nil }) {
            throw ValidationError("\(option.0) is for lines that are not Waybill events; add --env and --bundle")
        }
        if let stream, StreamID(stream) == nil {
            throw ValidationError("--stream must be 1 to 128 letters, digits, -, _, . or :")
        }
        if self.principal != nil, self.stream == nil { throw ValidationError("--principal requires --stream") }
        if self.stream != nil, self.files.count > 1 { throw ValidationError("--stream is for one file at a time") }
        if let asOf, TimeText.parse(text: asOf) == nil {
            throw ValidationError("--as-of must be a time such as 2026-11-20T12:00:00Z")
        }
    }

    func run() throws {
        var options = try OptionReader.export(self.provider, config: self.config)
        if let zone = try self.zone.map(OptionReader.zone) { options.zone = zone }
        options.keepsRefusedEvents = true
        var transform = try Transform(
            options: options, source: self.source, asOf: self.asOf.flatMap(TimeText.parse(text:)), dead: self.dead,
            dataDirectory: self.data)
        if self.files.isEmpty {
            try transform.run(from: FileID(rawValue: STDIN_FILENO), named: "standard input")
        } else {
            for file in self.files { try transform.run(file: file) }
        }
        let counts = try transform.finish()
        Console.write(counts.json + "\n", to: STDERR_FILENO)
        if counts.badLines > 0 || counts.unexplainedByteCount > 0 { throw ExitCode.badInput }
    }

    /// How lines are read whose `.sources` are not at hand.
    private var source: SourceDescription {
        SourceDescription(
            env: self.env ?? .prod, bundle: self.bundle ?? "unknown", isForeign: self.env != nil,
            timeMember: self.timeMember, nameMember: self.nameMember, userMember: self.userMember,
            anonymousMember: self.anonymousMember,
            stream: self.stream.map { LineStream(principal: self.principal ?? "", id: $0) })
    }
}
