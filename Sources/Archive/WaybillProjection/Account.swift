/// The one who is charged for what a connection costs: bytes, lines, streams, new days and apps.
///
/// Until `HELLO` is accepted that is the peer's address; afterwards the principal and, within it, the device, which is
/// an agent's name. Without `agents:` in the configuration all agents belong to one principal with an empty name.
package struct Account: Hashable, Sendable {
    package let principal: String
    /// The agent's name; `nil` where only the principal is known, as in the journal.
    package let device: String?
    /// How many single agents the principal counts as when turns are taken.
    package let share: Int
    package let limits: AccountLimits

    package init(principal: String, device: String?, share: Int = 1, limits: AccountLimits = AccountLimits()) {
        self.principal = principal
        self.device = device
        self.share = max(1, share)
        self.limits = limits
    }

    package static func == (left: Account, right: Account) -> Bool {
        left.principal == right.principal && left.device == right.device
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(self.principal)
        hasher.combine(self.device)
    }
}

/// What one account may take, where its principal's entry says so; `nil`: as the receiver's `limits` say.
package struct AccountLimits: Hashable, Sendable {
    /// Streams that it has open, and streams that it begins on a day and does not seal.
    package var streamCountMax: Int?
    /// New apps on a day.
    package var appCountMax: Int?
    /// Days of apps that it begins on a day.
    package var dayCountMax: Int?

    package init() {}
}
