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

            SIGHUP reloads the configuration file and the certificates. The log names each changed key with its old and
            new value, and those that need a restart. A file with problems changes nothing.
            If the environment variable WAYBILL_TOKEN is set, agents must send the same token.
            SIGTERM makes durable what was received and exits; agents send the rest to the next receiver.
            """)

    /// The exports without a configuration file.
    static let usualExports = "ga4,mixpanel,csv"

    @Option(help: .key("receiver.data"))
    var data: String?

    @Option(help: .key("receiver.listen"))
    var listen: NetworkAddress?

    @Option(help: "A configuration file (YAML); command-line options take precedence.")
    var config: String?

    @Option(
        help: """
            Exports to write, separated by commas, or none: \(Destination.list). (default: \(Self.usualExports); with \
            --config the file's)
            """)
    var exports: String?

    @Option(help: .key("receiver.exports.zone"))
    var zone: String?

    @Option(help: .key("receiver.metrics"))
    var metrics: NetworkAddress?

    @Option(help: .key("receiver.stop_seconds"))
    var stopSeconds: Int?

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

    /// Reads the configuration file again, compares it key by key, and passes it to the receiver.
    private func reload(_ path: String, _ receiver: Receiver) {
        let file = ConfigurationFile.read(path)
        guard file.problems.isEmpty else { return receiver.refuseReload(file.problems.map { $0.text(in: path) }) }
        do {
            let new = try self.receiverConfiguration(of: file)
            receiver.reload(new) { ConfigurationTable.changes(from: $0, $1, to: new) }
        } catch {
            receiver.refuseReload(["\(path): \(error)"])
        }
    }

    private func receiverConfiguration(of file: ConfigurationFile?) throws -> ReceiverConfiguration {
        var configuration = ReceiverConfiguration.defaults
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
        if let stopSeconds {
            guard (0...3600).contains(stopSeconds) else { throw ValidationError("--stop-seconds is 0 to 3600") }
            configuration.stopPatience = .seconds(stopSeconds)
        }
        if self.config == nil || self.exports != nil {
            configuration.exports = try OptionReader.providers(self.exports ?? Self.usualExports).map {
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
