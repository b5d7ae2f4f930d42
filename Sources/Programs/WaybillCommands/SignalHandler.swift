import Logging
import ServiceLifecycle
import UnixSignals
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
