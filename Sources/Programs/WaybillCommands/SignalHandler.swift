import Logging
import ServiceLifecycle
import UnixSignals
import WaybillHost
import WaybillSystem

/// Handles the signals that end a process by default but must not end this one; SIGHUP reloads the configuration.
///
/// It tells the service's manager when a reload begins and ends, and when the service stops.
struct SignalHandler: Service {
    private let signals: UnixSignalsSequence
    private let logger: Logger
    private let manager: ServiceManager
    private let onHangup: (@Sendable () -> Void)?

    /// Installs the handlers before it returns.
    ///
    /// - Parameter onHangup: `nil` if there is nothing to reload. Each call ends before the next begins.
    init(logger: Logger, manager: ServiceManager, onHangup: (@Sendable () -> Void)?) async {
        IdleSignals.ignore()
        self.signals = await UnixSignalsSequence(trapping: .sighup)
        self.logger = logger
        self.manager = manager
        self.onHangup = onHangup
    }

    /// Runs a service with this handler until it ends, or SIGTERM or SIGINT ends it.
    func group(with service: any Service) -> ServiceGroup {
        ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [
                    .init(service: self),
                    .init(service: service, successTerminationBehavior: .gracefullyShutdownGroup),
                ],
                gracefulShutdownSignals: [.sigterm, .sigint], logger: Console.logger("lifecycle", level: .error)))
    }

    func run() async {
        for await _ in self.signals.cancelOnGracefulShutdown() {
            guard let onHangup else {
                self.logger.notice(
                    "SIGHUP: there is nothing to reload; restart the program after its configuration changed")
                continue
            }
            self.manager.tell(.reloading(at: POSIXClock().monotonicTime()))
            onHangup()
            self.manager.tell(.ready)
        }
        self.manager.tell(.stopping)
    }
}

extension ReloadableService {
    /// Reads the configuration file again, compares it key by key, and applies it.
    ///
    /// - Parameters:
    ///   - read: takes the section, and the options that take precedence.
    ///   - changes: compares with the configuration at the start and the one taken last.
    func reload(
        _ path: String, _ read: (ConfigurationFile?) throws -> Configuration,
        changes: (_ started: Configuration, _ taken: Configuration, _ new: Configuration) -> [ConfigurationChange]
    ) {
        guard let new = self.reread(path, read) else { return }
        self.reload(new) { changes($0, $1, new) }
    }

    /// Reads the configuration again; `nil` after a refusal.
    ///
    /// - Parameter path: the file; `nil`: there are options alone.
    func reread(_ path: String?, _ read: (ConfigurationFile?) throws -> Configuration) -> Configuration? {
        let file = path.map { ConfigurationFile.read($0) }
        let problems = file?.problems.map { $0.text(in: path ?? "") } ?? []
        do {
            guard problems.isEmpty else { throw ConfigurationProblems(problems) }
            return try read(file)
        } catch let refusal as ConfigurationProblems {
            self.refuseReload(refusal)
        } catch {
            self.refuseReload(["\(path ?? "options"): \(error)"])
        }
        return nil
    }
}
