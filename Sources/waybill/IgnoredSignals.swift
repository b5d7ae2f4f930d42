import Logging
import ServiceLifecycle
import UnixSignals

/// Signals that would end the process by default and mean nothing here: work goes on.
struct IgnoredSignals: Service {
    private let signals: UnixSignalsSequence
    private let logger: Logger

    /// Takes the signals over before this returns.
    init(logger: Logger) async {
        self.signals = await UnixSignalsSequence(trapping: .sighup, .sigusr1, .sigusr2)
        self.logger = logger
    }

    func run() async {
        for await signal in self.signals.cancelOnGracefulShutdown() where signal == .sighup {
            self.logger.notice(
                "SIGHUP: there is nothing to reload; start the program anew after a configuration changed")
        }
    }
}
