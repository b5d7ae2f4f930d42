/// The time that a system grants an app after it has left the foreground; a test grants it and ends it.
@MainActor
package protocol BackgroundTime {
    /// Asks for time, which lasts until ``end(_:)``.
    ///
    /// - Parameter expired: called when the time is nearly over.
    /// - Returns: `nil` if the system grants none.
    func begin(_ expired: @escaping @MainActor @Sendable () -> Void) -> BackgroundGrant?

    /// Gives the rest back; the system may then suspend the app.
    func end(_ grant: BackgroundGrant)
}

/// Granted time.
package struct BackgroundGrant: Hashable, Sendable {
    /// The system's number for it.
    package let number: Int
    /// How much of it can be used.
    package let rest: Duration

    package init(number: Int, rest: Duration) {
        self.number = number
        self.rest = rest
    }
}

#if canImport(UIKit) && !os(watchOS)
    internal import UIKit

    /// A running app's time.
    struct ApplicationTime: BackgroundTime {
        /// What is left for the app's other work when a drain has used its time.
        private static let reserve = 3.0

        func begin(_ expired: @escaping @MainActor @Sendable () -> Void) -> BackgroundGrant? {
            let application = UIApplication.shared
            let task = application.beginBackgroundTask(withName: "waybill.drain", expirationHandler: expired)
            guard task != .invalid else { return nil }
            // In the foreground there is no limit, which is said by the largest number.
            let seconds = min(application.backgroundTimeRemaining, 3600) - Self.reserve
            return BackgroundGrant(number: task.rawValue, rest: .seconds(max(0, seconds)))
        }

        func end(_ grant: BackgroundGrant) {
            UIApplication.shared.endBackgroundTask(UIBackgroundTaskIdentifier(rawValue: grant.number))
        }
    }
#endif
