internal import Logging
internal import WaybillHost
internal import WaybillProjection

extension ReceiverTelemetry {
    /// Closed parts could not be compressed; each is tried again once a minute.
    func closingFailed(_ name: String, _ failures: [ClosingFailure]) {
        guard let first = failures.first else { return }
        self.logger.error(
            .partsNotClosed, "parts are closed but damaged or unreadable; the others continue",
            metadata: ["projection": "\(name)", "first": "\(first)", "count": .number(failures.count)])
    }
}
