import ArgumentParser
import Logging
import ServiceLifecycle
import UnixSignals
import WaybillExport
import WaybillFleet
import WaybillHost
import WaybillJSON
import WaybillMerger
import WaybillProtocol
import WaybillReceiver
import WaybillSystem

/// `waybill merge`: archive and exports whose input is the bucket.
struct MergeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "merge",
        abstract: "Join the journals of a fleet's receivers; write daily files and exports once.",
        discussion: """
            Examples:
              waybill merge --config /etc/waybill/merge.yaml
              waybill merge --config merge.yaml --once        what the bucket has now; prints counts

            The file has a section store:, and a section merger: that says what is written where: data, exports, archive,
            retention. Several mergers of a fleet have one configuration, except for data and name, and the same files:
            any of them may be stopped or lost.

            SIGHUP reloads the configuration file; the log names each changed key, and those that need a restart.
            """)

    @Option(help: "A configuration file (YAML) with the sections store: and merger:.")
    var config: String

    @Option(help: .key("merger.data"))
    var data: String?

    @Option(help: .key("merger.metrics"), transform: OptionReader.address)
    var metrics: NetworkAddress?

    @Option(help: .key("merger.status_socket"))
    var statusSocket: String?

    @Flag(help: "End when everything that the bucket has is merged; print one line of JSON.")
    var once = false

    @OptionGroup var log: LogOptions

    func run() async throws {
        try NetworkClient.own.require()
        let (section, merger) = try self.sections(of: try ConfigurationFile.load(self.config))
        let bucket = try AttachedBucket(try section.location())
        defer { bucket.open.close() }
        try Self.refuseUnsafe(bucket.open.store)
        guard let fleet = Incarnation(bucket.fleet.utf8) else { throw ExitCode.badInput }
        var setup = MergeService.Setup(merger, store: bucket.open.store, fleet: fleet)
        setup.isOnce = self.once
        setup.sealInterval = bucket.sealInterval
        let logger = Console.logger("merger", level: self.log.logLevel)
        let manager = ServiceManager.ofThisProcess
        let service = MergeService(setup, logger: logger, manager: manager)
        let signals = await SignalHandler(logger: logger, manager: manager) { [self] in
            var store = section
            service.reload(self.config) { file in
                let sections = try self.sections(of: file)
                store = sections.0
                return sections.1
            } changes: { started, taken, new in
                ConfigurationTable.changes(from: started, taken, to: new)
                    + ConfigurationTable.changes(from: section, to: store)
            }
        }
        do {
            try await signals.group(with: service).run()
        } catch let failure as MergeFailure {
            Console.end(.mergeFailed, "\(failure)")
            throw ExitCode.badConfiguration
        } catch let failure as ProjectionHost.Failure {
            Console.end(failure.notice, "\(failure)")
            throw failure.exitCode
        }
        if self.once { self.printReport(service.report) }
    }

    /// Mergers rely on it that the first one to create an object wins; what else the store refuses is told while it runs.
    private static func refuseUnsafe(_ store: any ObjectStore) throws {
        let id = Hexadecimal.text(SystemRandom.seed(), digitCount: 16)
        var probe = StoreProbe(store, clock: POSIXClock(), id: id)
        probe.run(race: StoreCheckCommand.race)
        guard let error = probe.failure, error.kind == .unsafe else { return }
        throw NetworkClient.ending(error)
    }

    /// The two sections of a file, with the options that take precedence.
    private func sections(of file: ConfigurationFile?) throws -> (StoreConfiguration, MergerConfiguration) {
        guard let section = file?.store, var merger = file?.merger else {
            let hint = file?.receiver == nil ? "" : "; what receiver: said of a merger belongs into merger:"
            Console.end(.configurationWrong, "\(self.config) needs the sections store: and merger:\(hint)")
            throw ExitCode.badConfiguration
        }
        if let data { merger.dataDirectory = data }
        if let metrics { merger.status.metrics = metrics }
        if let statusSocket { merger.status.socket = statusSocket }
        merger.status.token = try OptionReader.statusToken(merger.status.tokenFile)
        merger.software = OptionReader.software
        merger.programDate = ClockCommand.programDate
        merger.programVersion = packageVersion
        return (section, merger)
    }

    private func printReport(_ report: MergeService.Report) {
        print(
            JSONWriter.line { json in
                json.member("rounds", report.roundCount)
                json.member("lines", report.tally.lineCount)
                json.member("dropped_lines", report.tally.droppedLineCount)
                json.member("conflict_lines", report.tally.conflictLineCount)
                json.member("unproven_lines", report.tally.unprovenLineCount)
                json.member("damaged_bytes", report.tally.damagedByteCount)
                json.member("published", report.publishedCount)
                if report.erasureCount > 0 {
                    json.member("erasures", report.erasureCount)
                    json.member("erased_lines", report.erasedLineCount)
                    json.member("erased_records", report.erasedRecordCount)
                    json.member("replaced", report.replacedCount)
                }
                json.member("missing", report.missing.count)
            })
    }
}
