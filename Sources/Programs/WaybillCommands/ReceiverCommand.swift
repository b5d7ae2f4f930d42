import ArgumentParser
import Logging
import ServiceLifecycle
import UnixSignals
import WaybillAgent
import WaybillData
import WaybillExport
import WaybillFleet
import WaybillHost
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
            If the environment variable WAYBILL_TOKEN is set, agents must send the same token; with agents: in the
            configuration file, each principal has its own, and the variable is not read.
            SIGTERM makes durable what was received and exits; agents send the rest to the next receiver.
            """)

    /// The exports without a configuration file.
    static let usualExports = "ga4,mixpanel,csv"

    @Option(help: .key("receiver.data"))
    var data: String?

    @Option(help: .key("receiver.listen"), transform: OptionReader.address)
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

    @Option(help: .key("receiver.metrics"), transform: OptionReader.address)
    var metrics: NetworkAddress?

    @Option(help: .key("receiver.status_socket"))
    var statusSocket: String?

    @Option(help: .key("receiver.stop_seconds"))
    var stopSeconds: Int?

    @OptionGroup var tls: ReceiverTLSOptions

    @Flag(help: .key("receiver.insecure"))
    var insecure = false

    @OptionGroup var log: LogOptions

    func run() async throws {
        let file = try self.config.map { try ConfigurationFile.load($0) }
        let configuration = try self.receiverConfiguration(of: file)
        let bucket = try file?.store.map { try self.bucket($0, of: configuration) }
        defer { bucket?.open.close() }
        let store = bucket.map { StoreAttachment(store: $0.open.store, fleet: $0.fleet, sealInterval: $0.sealInterval) }
        let logger = Console.logger("receiver", level: self.log.logLevel)
        let config = self.config
        let manager = ServiceManager.ofThisProcess
        let receiver = Receiver(configuration: configuration, logger: logger, manager: manager, store: store) {
            [self] receiver in
            guard let new = receiver.reread(config, self.receiverConfiguration) else { return }
            receiver.reloadTrust(new)
        }
        var reload: (@Sendable () -> Void)?
        if let config {
            reload = { [self] in
                receiver.reload(config, self.receiverConfiguration, changes: ConfigurationTable.changes)
            }
        }
        let signals = await SignalHandler(logger: logger, manager: manager, onHangup: reload)
        do {
            try await signals.group(with: receiver).run()
        } catch let failure as Receiver.Failure {
            Console.end(failure.notice, "\(failure)")
            throw failure.exitCode
        }
    }

    /// Opens the bucket that the journal goes to.
    private func bucket(
        _ section: StoreConfiguration, of configuration: ReceiverConfiguration
    ) throws -> AttachedBucket {
        try NetworkClient.own.require()
        guard ChainName.isReceiver(configuration.name) else {
            Console.end(
                .configurationWrong,
                "receiver.name names its pieces in the bucket: give it 1 to 64 letters, digits, '.', '_' and '-'")
            throw ExitCode.badConfiguration
        }
        do {
            return try AttachedBucket(try section.location(), known: UploadState.fleet(in: configuration.dataDirectory))
        } catch let error as StoreError {
            throw NetworkClient.ending(error)
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
        if let listen { configuration.listen = listen }
        if let metrics { configuration.status.metrics = metrics }
        if let statusSocket { configuration.status.socket = statusSocket }
        configuration.status.token = try OptionReader.statusToken(configuration.status.tokenFile)
        configuration.software = OptionReader.software
        if let stopSeconds {
            guard (0...3600).contains(stopSeconds) else { throw ValidationError("--stop-seconds is 0 to 3600") }
            configuration.stopPatience = .seconds(stopSeconds)
        }
        if self.config == nil || self.exports != nil {
            configuration.exports = try OptionReader.exports(self.exports ?? Self.usualExports)
        }
        try OptionReader.setZone(self.zone, of: &configuration.exports)
        try self.tls.apply(to: &configuration.tls)
        if self.insecure { configuration.isInsecure = true }
        if configuration.agents == nil { configuration.token = try OptionReader.receiverToken }
        if let insecurity = configuration.insecurity { throw ValidationError(insecurity) }
        configuration.programDate = ClockCommand.programDate
        configuration.programVersion = packageVersion
        return configuration
    }
}

extension Receiver.Failure {
    var exitCode: ExitCode {
        switch self {
        case .host(let failure): failure.exitCode
        case .tls, .turn: .badConfiguration
        case .listen, .lost: .files
        }
    }

    var notice: Notice {
        switch self {
        case .host(let failure): failure.notice
        case .turn: .configurationWrong
        case .tls: .tlsUnusable
        case .listen: .addressUnusable
        case .lost: .journalLost
        }
    }
}

extension ProjectionHost.Failure {
    var exitCode: ExitCode {
        switch self {
        case .data(.locked): .inUse
        case .exports: .badConfiguration
        case .data(.unusable), .disk, .metrics: .files
        }
    }

    var notice: Notice {
        switch self {
        case .data(.locked): .inUse
        case .exports: .exportsConflict
        case .data(.unusable), .disk: .filesUnusable
        case .metrics: .addressUnusable
        }
    }
}
