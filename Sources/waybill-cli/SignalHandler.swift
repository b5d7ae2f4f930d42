import Logging
import ServiceLifecycle
import UnixSignals

/// Takes the signals that would end the process by default and do not mean that; SIGHUP reloads the configuration.
struct SignalHandler: Service {
    private let signals: UnixSignalsSequence
    private let logger: Logger
    private let onHangup: (@Sendable () -> Void)?

    /// Takes the signals over before this returns.
    ///
    /// - Parameter onHangup: `nil` where there is nothing to reload. One call ends before the next begins.
    init(logger: Logger, onHangup: (@Sendable () -> Void)?) async {
        self.signals = await UnixSignalsSequence(trapping: .sighup, .sigpipe, .sigusr1, .sigusr2)
        self.logger = logger
        self.onHangup = onHangup
    }

    func run() async {
        for await signal in self.signals.cancelOnGracefulShutdown() where signal == .sighup {
            guard let onHangup else {
                self.logger.notice(
                    "SIGHUP: there is nothing to reload; restart the program after its configuration changed")
                continue
            }
            onHangup()
        }
    }
}
