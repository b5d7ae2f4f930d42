package import WaybillSystem

/// What other machines must show for `GET /status`; a reload may replace it.
package final class StatusToken: Sendable {
    private let token: Lock<Secret?>

    /// - Parameter token: `nil`: other machines get nothing.
    package init(_ token: Secret?) {
        self.token = Lock(token)
    }

    /// The token for requests from now on.
    package var current: Secret? {
        get { self.token.withLock { $0 } }
        set { self.token.withLock { $0 = newValue } }
    }
}
