import ArgumentParser
import Logging
import ServiceLifecycle
import UnixSignals
import WaybillConsole
import WaybillExport
import WaybillFleet
import WaybillJSON
import WaybillNotices
import WaybillProtocol
import WaybillReceiver
import WaybillSystem

/// `waybill merge`: a receiver whose input is the bucket.
struct MergeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "merge",
        abstract: "Join the journals of a fleet's receivers; write daily files and exports once.",
        discussion: """
            Examples:
              waybill merge --config /etc/waybill/merge.yaml
              waybill merge --config merge.yaml --once        what the bucket has now; prints counts

            The file has a section store:, and a section receiver: that says what is written where: data, exports, archive,
            retention. Several mergers of a fleet have one configuration, except for data, and the same files: any of
            them may be stopped or lost.
            """)

    @Option(help: "A configuration file (YAML) with the sections store: and receiver:.")
    var config: String

    @Option(help: .key("receiver.data"))
    var data: String?

    @Flag(help: "End when everything that the bucket has is merged; print one line of JSON.")
    var once = false

    @OptionGroup var log: LogOptions

    func run() async throws {
        try BucketClient.requireFleetProgram()
        let file = try ConfigurationFile.load(self.config)
        guard let section = file.store, var receiver = file.receiver else {
            Console.end(.configurationWrong, "\(self.config) needs the sections store: and receiver:")
            throw ExitCode.badConfiguration
        }
        if let data { receiver.dataDirectory = data }
        let bucket = try AttachedBucket(try section.location())
        defer { bucket.open.close() }
        guard let fleet = Incarnation(bucket.fleet.utf8) else { throw ExitCode.badInput }
        var setup = MergeService.Setup(receiver: receiver, store: bucket.open.store, fleet: fleet)
        setup.isOnce = self.once
        let logger = Console.logger("merger", level: self.log.logLevel)
        let service = MergeService(setup, logger: logger, manager: .ofThisProcess)
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [.init(service: service, successTerminationBehavior: .gracefullyShutdownGroup)],
                gracefulShutdownSignals: [.sigterm, .sigint], logger: Console.logger("lifecycle", level: .error)))
        do {
            try await group.run()
        } catch let failure as MergeFailure {
            Console.end(.mergeFailed, "\(failure)")
            throw ExitCode.badConfiguration
        } catch let failure as Receiver.Failure {
            Console.end(failure.notice, "\(failure)")
            throw failure.exitCode
        }
        if self.once { self.printReport(service.report) }
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
                json.member("missing", report.missing.count)
            })
    }
}
