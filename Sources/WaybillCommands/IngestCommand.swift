import ArgumentParser
import Logging
import ServiceLifecycle
import UnixSignals
import WaybillConsole
import WaybillDoor
import WaybillNotices
import WaybillSystem
import WaybillTLS

/// `waybill ingest`: a door for programs that speak HTTP.
struct IngestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ingest",
        abstract: "Take events over HTTP, from browsers and other products' SDKs, into spools.",
        discussion: """
            Examples:
              waybill ingest --config /etc/waybill/ingest.yaml
              curl -u KEY: http://127.0.0.1:4380/v1/events -d '{"name":"bought","user":"u-1"}'

            The file has a section ingest: with the write keys. A request is answered once its events are on the disk. An agent
            ships the spools: waybill agent --spool '/var/spool/waybill-ingest/*' …
            """)

    @Option(help: "A configuration file (YAML) with the section ingest:.")
    var config: String

    @OptionGroup var log: LogOptions

    func run() async throws {
        guard var ingest = try ConfigurationFile.load(self.config).ingest else {
            Console.end(.configurationWrong, "\(self.config) has no section ingest:")
            throw ExitCode.badConfiguration
        }
        ingest.door.manager = .ofThisProcess
        let logger = Console.logger("ingest", level: self.log.logLevel)
        let service = DoorService(ingest.door, logger: logger)
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [.init(service: service, successTerminationBehavior: .gracefullyShutdownGroup)],
                gracefulShutdownSignals: [.sigterm, .sigint], logger: Console.logger("lifecycle", level: .error)))
        do {
            try await group.run()
        } catch let failure as DoorService.Failure {
            Console.end(.addressUnusable, "\(failure)")
            throw ExitCode.files
        } catch let failure as TLSSetupError {
            Console.end(.tlsUnusable, "\(failure)")
            throw ExitCode.badConfiguration
        } catch let failure as FileSystemError {
            Console.end(.filesUnusable, "\(failure)")
            throw ExitCode.files
        }
    }
}
