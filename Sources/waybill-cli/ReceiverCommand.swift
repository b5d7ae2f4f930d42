import ArgumentParser
import Logging
import ServiceLifecycle
import UnixSignals
import WaybillAgent
import WaybillArchive
import WaybillConsole
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
              waybill receiver --data ./data --listen 0.0.0.0:4390 --tls-certificate receiver.pem --tls-key receiver.key
              waybill receiver --config /etc/waybill/waybill.yaml

            SIGHUP reads the configuration file anew: mappings and options of exports hold from the next batch on, a file
            with problems changes nothing, and what needs a restart is said.
            Agents must show the token in the environment variable WAYBILL_TOKEN when it is set.
            SIGTERM makes durable what was taken and leaves; agents send the rest to the next receiver.
            """)

    @Option(help: "The data directory; made when it is missing.")
    var data: String?

    @Option(help: "Where to listen. (default: 127.0.0.1:4390)")
    var listen: NetworkAddress?

    @Option(help: "A configuration file (YAML); options given here win over it.")
    var config: String?

    @Option(
        help: """
            Exports to write, separated by commas, or none: \(Destination.list). (default: ga4,mixpanel,csv; with \
            --config the file's)
            """)
    var exports: String?

    @Option(help: "The zone of the exports' days, e.g. Asia/Seoul. (default: UTC)")
    var zone: String?

    @Option(help: "Answer GET /metrics (Prometheus) at this address, e.g. 127.0.0.1:4391.")
    var metrics: NetworkAddress?

    @OptionGroup var tls: ReceiverTLSOptions

    @OptionGroup var log: LogOptions

    func run() async throws {
        let configuration = try self.receiverConfiguration(of: try self.config.map { try ConfigurationFile.load($0) })
        let logger = Console.logger("receiver", level: self.log.logLevel)
        let receiver = Receiver(configuration: configuration, logger: logger)
        var reload: (@Sendable () -> Void)?
        if let config { reload = { [self] in self.reload(config, receiver) } }
        let signals = await SignalHandler(logger: logger, onHangup: reload)
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [
                    .init(service: signals),
                    .init(service: receiver, successTerminationBehavior: .gracefullyShutdownGroup),
                ],
                gracefulShutdownSignals: [.sigterm, .sigint], logger: Console.logger("lifecycle", level: .error)))
        do {
            try await group.run()
        } catch let failure as Receiver.Failure {
            Console.printError("\(failure)")
            switch failure {
            case .data(.locked), .exports, .tls: throw ExitCode.badConfiguration
            case .data(.unusable), .disk, .listen, .metrics: throw ExitCode.files
            }
        }
    }

    /// Gives the receiver what the configuration file says now.
    private func reload(_ path: String, _ receiver: Receiver) {
        let file = ConfigurationFile.read(path)
        guard file.problems.isEmpty else { return receiver.refuseReload(file.problems.map { $0.text(in: path) }) }
        do {
            receiver.reload(try self.receiverConfiguration(of: file))
        } catch {
            receiver.refuseReload(["\(path): \(error)"])
        }
    }

    private func receiverConfiguration(of file: ConfigurationFile?) throws -> ReceiverConfiguration {
        var configuration = ReceiverConfiguration(dataDirectory: "")
        configuration.name = ProcessID.hostName
        if let file {
            guard let receiver = file.receiver else {
                throw ValidationError("\(self.config ?? "") has no section receiver:")
            }
            configuration = receiver
        }
        if let data { configuration.dataDirectory = data }
        guard !configuration.dataDirectory.isEmpty else {
            throw ValidationError("name the data directory with --data DIR, or in the configuration file")
        }
        if let listen {
            configuration.host = listen.host
            configuration.port = listen.port
        }
        if let metrics { configuration.metrics = metrics }
        if self.config == nil || self.exports != nil {
            configuration.exports = try OptionReader.providers(self.exports ?? "ga4,mixpanel,csv").map {
                ExportOptions(provider: $0)
            }
        }
        if let zone = try self.zone.map(OptionReader.zone) {
            for index in configuration.exports.indices { configuration.exports[index].zone = zone }
        }
        try self.tls.apply(to: &configuration.tls)
        configuration.token = OptionReader.token
        return configuration
    }
}
