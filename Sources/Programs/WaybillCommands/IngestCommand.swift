import ArgumentParser
import Logging
import ServiceLifecycle
import UnixSignals
import WaybillHost
import WaybillIngest
import WaybillSystem

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

            SIGHUP reloads the configuration file and the certificate: keys come, go and change without a connection that ends.
            The log names each changed key with its old and new value, and those that need a restart. A file with problems
            changes nothing. SIGTERM answers what waits for the disk, and exits.
            """)

    @Option(help: "A configuration file (YAML) with the section ingest:.")
    var config: String

    @Option(help: .key("ingest.metrics"), transform: OptionReader.address)
    var metrics: NetworkAddress?

    @Option(help: .key("ingest.status_socket"))
    var statusSocket: String?

    @OptionGroup var log: LogOptions

    func run() async throws {
        let program = try DoorProgram.own.require()
        let file = try ConfigurationFile.load(self.config)
        guard file.ingest != nil else {
            Console.end(.configurationWrong, "\(self.config) has no section ingest:")
            throw ExitCode.badConfiguration
        }
        let door = try self.doorConfiguration(of: file)
        let logger = Console.logger("ingest", level: self.log.logLevel)
        let service = program.open(door, logger)
        let signals = await SignalHandler(logger: logger, manager: door.manager) { [self] in
            service.reload(self.config, self.doorConfiguration, changes: ConfigurationTable.changes)
        }
        do {
            try await signals.group(with: service).run()
        } catch let failure as DoorFailure {
            Console.end(.addressUnusable, "\(failure)")
            throw ExitCode.files
        } catch let failure as MetricsServer.Failure {
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

    private func doorConfiguration(of file: ConfigurationFile?) throws -> DoorConfiguration {
        guard var door = file?.ingest else { throw ValidationError("\(self.config) has no section ingest:") }
        if let metrics { door.status.metrics = metrics }
        if let statusSocket { door.status.socket = statusSocket }
        door.status.token = try OptionReader.statusToken(door.status.tokenFile)
        door.software = OptionReader.software
        door.programDate = ClockCommand.programDate
        door.manager = .ofThisProcess
        return door
    }
}
