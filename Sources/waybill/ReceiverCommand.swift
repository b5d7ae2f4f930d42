import ArgumentParser
import Logging
import ServiceLifecycle
import UnixSignals
import WaybillArchive
import WaybillAgent
import WaybillExport
import WaybillReceiver
import WaybillSystem

struct ReceiverCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "receiver",
        abstract: "Receive batches from agents; write daily files and exports.",
        discussion: """
            Examples:
              waybill receiver --data /var/lib/waybill
              waybill receiver --data ./data --listen 0.0.0.0:4390 --exports ga4,mixpanel --zone Asia/Seoul
              waybill receiver --config /etc/waybill/waybill.yaml

            Agents must show the token in the environment variable WAYBILL_TOKEN when it is set.
            SIGTERM finishes what was received, makes it durable and leaves.
            """)

    @Option(help: "The data directory; made when it is missing.")
    var data: String?

    @Option(help: "Where to listen. (default: 127.0.0.1:4390)")
    var listen: NetworkAddress?

    @Option(help: "A configuration file (YAML); options given here win over it.")
    var config: String?

    @Option(help: "Exports to write, separated by commas, or none. (default: ga4,mixpanel,csv)")
    var exports: String?

    @Option(help: "The zone of the exports' days, e.g. Asia/Seoul. (default: UTC)")
    var zone: String?

    @OptionGroup var log: LogOptions

    func run() async throws {
        let configuration = try self.receiverConfiguration()
        let logger = Console.logger("receiver", level: self.log.logLevel)
        let receiver = Receiver(configuration: configuration, logger: logger)
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [.init(service: receiver, successTerminationBehavior: .gracefullyShutdownGroup)],
                gracefulShutdownSignals: [.sigterm, .sigint], logger: Console.logger("lifecycle", level: .error)))
        do {
            try await group.run()
        } catch let failure as Receiver.Failure {
            Console.printError("\(failure)")
            if case .data(.locked) = failure { throw ExitCode.badConfiguration }
            throw ExitCode.files
        }
    }

    private func receiverConfiguration() throws -> ReceiverConfiguration {
        var configuration = ReceiverConfiguration(dataDirectory: "")
        configuration.name = ProcessID.hostName
        if let config { configuration = try ConfigurationFile.load(config).receiver ?? configuration }
        if let data { configuration.dataDirectory = data }
        guard !configuration.dataDirectory.isEmpty else {
            throw ValidationError("name the data directory with --data DIR, or in the configuration file")
        }
        if let listen {
            configuration.host = listen.host
            configuration.port = listen.port
        }
        if self.config == nil || self.exports != nil || self.zone != nil {
            let zone = try OptionReader.zone(self.zone ?? "UTC")
            configuration.exports = try OptionReader.providers(self.exports ?? "ga4,mixpanel,csv").map {
                ExportOptions(provider: $0, zone: zone)
            }
        }
        configuration.token = OptionReader.token
        return configuration
    }
}
