import ArgumentParser
import Logging
import ServiceLifecycle
import UnixSignals
import WaybillAgent
import WaybillHost
import WaybillProtocol
import WaybillSystem
import WaybillTail

struct AgentCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "agent",
        abstract: "Tail spools and NDJSON files; ship them to a receiver.",
        discussion: """
            Examples:
              waybill agent --state /var/lib/waybill-agent --to collect.example.com:4390 --spool /var/spool/shop
              waybill agent --state ./agent --to 127.0.0.1:4390 --glob '/var/log/nginx/*.json' \\
                  --env prod --bundle com.example.web --time-member time
              waybill agent --state ./agent --to 127.0.0.1:4390 --spool ./spool --once
              waybill agent --state ./agent --to collect.example.com:4390 --tls --spool ./spool
              WAYBILL_ADDRESS=waybill://… waybill agent --state ./agent --spool ./spool

            WAYBILL_ADDRESS takes the whole address that waybill live --dev prints: receiver, token and certificate.

            --once ships everything available, waits until it is durable, and prints one line of JSON;
            the exit code is 66 if files could not be read, and 75 if a signal ended it before all was shipped.
            SIGHUP reloads the configuration file, the token and the certificates. The log names each changed key with its
            old and new value, and those that need a restart. A file with problems changes nothing.
            SIGTERM ships what is available and exits; lines not acknowledged by then stay on disk.
            """)

    @Option(help: .key("agent.state"))
    var state: String?

    @Option(name: .customLong("to"), help: .key("agent.to"), transform: OptionReader.address)
    var receivers: [NetworkAddress] = []

    @OptionGroup var sources: AgentSourceOptions

    @OptionGroup var tls: AgentTLSOptions

    @Option(help: .key("agent.token_file"))
    var tokenFile: String?

    @Option(help: .key("agent.name"))
    var name: String?

    @Option(
        help: ArgumentHelp(
            "Accept that the agent no longer has the name that its state was begun with, and ships every log again.",
            valueName: "name"))
    var renamedFrom: String?

    @Option(help: .key("agent.compression"))
    var compression: Int?

    @Option(help: .key("agent.compression_threads"))
    var compressionThreads: Int?

    @Flag(help: "Ship everything available, wait until it is durable, print a summary, and exit.")
    var once = false

    @Option(help: "With --once: how many seconds to try to reach a receiver.")
    var patience: Int = 15

    @Option(help: "A configuration file (YAML); command-line options take precedence.")
    var config: String?

    @Option(help: .key("agent.metrics"), transform: OptionReader.address)
    var metrics: NetworkAddress?

    @Option(help: .key("agent.status_socket"))
    var statusSocket: String?

    @OptionGroup var log: LogOptions

    func validate() throws {
        guard (0...86_400).contains(self.patience) else {
            throw ValidationError("--patience must be 0 to 86400 seconds")
        }
        try self.sources.check()
    }

    func run() async throws {
        try Self.raiseOpenFileCount()
        var configuration = try self.agentConfiguration(of: try self.config.map { try ConfigurationFile.load($0) })
        let bar = Monitor(ProgressBar("shipping", isQuiet: !Console.isTerminal))
        if self.once, Console.isTerminal {
            configuration.run.progress = { done, total in bar.update { $0.show(done, of: total) } }
        }
        let logger = Console.logger("agent", level: self.log.logLevel)
        let manager = ServiceManager.ofThisProcess
        let agent = Agent(configuration: configuration, logger: logger, manager: manager)
        var reload: (@Sendable () -> Void)?
        if let config, !self.once { reload = { [self] in self.reload(config, agent) } }
        let signals = await SignalHandler(logger: logger, manager: manager, onHangup: reload)
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [
                    .init(service: signals),
                    .init(service: agent, successTerminationBehavior: .gracefullyShutdownGroup),
                ],
                gracefulShutdownSignals: [.sigterm, .sigint], logger: Console.logger("lifecycle", level: .error)))
        try await group.run()
        bar.update { $0.finish() }
        try self.report(agent.outcome)
    }

    /// Takes as many descriptors as the process may have; a few are too few.
    private static func raiseOpenFileCount() throws {
        let count = ProcessLimits.raiseOpenFileCount(to: .max)
        guard count < TailLimits.descriptorCountMin else { return }
        Console.end(
            .configurationWrong,
            "this process may have \(count) files open, and needs \(TailLimits.descriptorCountMin); raise its hard limit "
                + "(ulimit -Hn, LimitNOFILE)")
        throw ExitCode.badConfiguration
    }

    /// Says how the run ended, where that is not what its operator asked for.
    private func report(_ outcome: AgentOutcome?) throws {
        switch outcome {
        case .drained(let summary):
            guard self.once else { break }
            print(summary.json)
            guard summary.files.unreadableCount == 0 else {
                Console.end(
                    .inputUnreadable,
                    "\(summary.files.unreadableCount) files or folders could not be read; the warnings name them")
                throw ExitCode.noInput
            }
        case .stopped(let summary):
            guard self.once else { break }
            print(summary.json)
            Console.end(.interrupted, "interrupted before all was shipped; nothing is lost, run it again")
            throw ExitCode.interrupted
        case .unreachable(let reason, let summary):
            if self.once { print(summary.json) }
            Console.end(.unreachable, "no receiver accepted the lines: \(reason); nothing is lost, run it again")
            throw ExitCode.unreachable
        case .failed(let error):
            let isInUse = error.errno == Errno.inUse
            Console.end(
                isInUse ? .inUse : .filesUnusable, "the state directory or a spool cannot be used: \(error)")
            throw isInUse ? ExitCode.inUse : ExitCode.files
        case .unsecurable(let error):
            Console.end(.tlsUnusable, "\(error)")
            throw ExitCode.badConfiguration
        case .unmeasurable(let failure):
            Console.end(.addressUnusable, "\(failure)")
            throw ExitCode.files
        case .misnamed(let change):
            Console.end(
                .nameChanged,
                "the agent's name is \(change.name), and its state has \(change.logCount) logs under \(change.former): "
                    + "each would be shipped again; go back to that name (agent.name, --name), or accept it with "
                    + "--renamed-from \(change.former)")
            throw ExitCode.badConfiguration
        case nil:
            guard self.once else { break }
            Console.end(.interrupted, "interrupted before anything was shipped; nothing is lost, run it again")
            throw ExitCode.interrupted
        }
    }

    /// Reads the configuration file again, compares it key by key, and passes it to the agent.
    private func reload(_ path: String, _ agent: Agent) {
        let file = ConfigurationFile.read(path)
        guard file.problems.isEmpty else { return agent.refuseReload(file.problems.map { $0.text(in: path) }) }
        do {
            let new = try self.agentConfiguration(of: file)
            agent.reload(new) { ConfigurationTable.changes(from: $0, $1, to: new) }
        } catch {
            agent.refuseReload(["\(path): \(error)"])
        }
    }

    private func agentConfiguration(of file: ConfigurationFile?) throws -> AgentConfiguration {
        var configuration = AgentConfiguration.defaults
        if let file {
            guard let agent = file.agent else { throw ValidationError("\(self.config ?? "") has no section agent:") }
            configuration = agent
        }
        if let name { configuration.name = try Self.agentName(name, "--name") }
        configuration.naming.acceptedFormerName = try self.renamedFrom.map {
            try Self.agentName($0, "--renamed-from")
        }
        if let state { configuration.stateDirectory = state }
        if !self.receivers.isEmpty { configuration.receivers = self.receivers }
        configuration.sources += try self.sources.sources()
        if let compression {
            configuration.compression.level = try Self.checked(
                compression, "--compression", in: Self.compressionLevels)
        }
        if let compressionThreads {
            configuration.compression.threadCount = try Self.checked(
                compressionThreads, "--compression-threads", in: Self.compressionThreadCounts)
        }
        if let metrics { configuration.status.metrics = metrics }
        if let statusSocket { configuration.status.socket = statusSocket }
        configuration.status.token = try OptionReader.statusToken(configuration.status.tokenFile)
        configuration.run.software = OptionReader.software
        if self.once { configuration.run.mode = .once(patience: .seconds(self.patience)) }
        try self.tls.apply(to: &configuration.tls)
        if let tokenFile { configuration.tokenFile = tokenFile }
        configuration.token = OptionReader.token
        try self.applyAddress(to: &configuration)
        guard !configuration.stateDirectory.isEmpty else {
            throw ValidationError("name the state directory: --state DIR")
        }
        guard !configuration.receivers.isEmpty else { throw ValidationError("name a receiver: --to HOST:PORT") }
        guard !configuration.sources.isEmpty else {
            throw ValidationError("name what to ship: --spool DIR or --glob PATTERN")
        }
        return configuration
    }

    /// Applies the address from the environment, which has everything about the receiver; as an argument, its token would
    /// show in the list of processes.
    private func applyAddress(to configuration: inout AgentConfiguration) throws {
        guard let text = ProcessEnvironment["WAYBILL_ADDRESS"] else { return }
        guard configuration.receivers.isEmpty, configuration.tls == nil, configuration.token == nil,
            configuration.tokenFile == nil
        else {
            throw ValidationError(
                "WAYBILL_ADDRESS has receiver, token and certificate: leave out --to, --tls…, --token-file and "
                    + "WAYBILL_TOKEN, or unset it")
        }
        do throws(ReceiverAddress.Failure) {
            let address = try ReceiverAddress(text)
            configuration.receivers = [address.address]
            configuration.tls = TLSClientConfiguration(pins: [address.pin])
            configuration.token = address.token
        } catch {
            throw ValidationError("WAYBILL_ADDRESS: \(error)")
        }
    }

    static let compressionLevels = 0...9
    static let compressionThreadCounts = 1...64

    private static func checked(_ value: Int, _ option: String, in range: ClosedRange<Int>) throws -> Int {
        guard range.contains(value) else {
            throw ValidationError("\(option) must be \(range.lowerBound) to \(range.upperBound)")
        }
        return value
    }

    private static func agentName(_ name: String, _ option: String) throws -> AgentName {
        guard let agentName = AgentName(name) else { throw ValidationError("\(option) must be \(AgentName.rule)") }
        return agentName
    }
}

/// A stable name for the machine: derived from `/etc/machine-id`, or else from the host's name.
enum DefaultAgentName {
    static var value: AgentName {
        let files = POSIXFileSystem()
        let machine = ["/etc/machine-id", "/etc/hostname"].lazy.compactMap { path -> [UInt8]? in
            // If a file cannot be read, the next one is tried.
            guard let bytes = try? files.contents(of: path, byteCountMax: 256), !bytes.isEmpty else { return nil }
            return bytes
        }.first
        let hash = FNV1a.hash(machine ?? Array("waybill".utf8))
        guard let name = AgentName("agent-" + Hexadecimal.text(hash, digitCount: 16)) else {
            preconditionFailure("22 letters and digits are a name")
        }
        return name
    }
}
