/// What one round of dispatch came to.
public enum DispatchResult: Hashable, Sendable {
    /// So many events became durable at the receiver; `remaining` were tracked meanwhile, or had no time left.
    case delivered(Int, remaining: Int)
    /// Everything is durable already; unless a segment waited to be sealed, no receiver was even asked.
    case nothingToSend
    /// Not everything could be delivered; what was not is still on the disk, and goes with the next round.
    case failed(DispatchFailure)
}

/// Why a round did not deliver everything.
public struct DispatchFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// A bounded word for metrics: "configuration", "unreachable", "in-use", "deadline", "stopped", "suspended", "tls", or
    /// of the file system, as "permission" or "disk-full".
    public let code: String
    /// What happened, and what to do.
    public let message: String
    /// Events that became durable nevertheless.
    public let deliveredCount: Int
    /// Events that wait; 0 where the round did not come to counting them.
    public let remainingCount: Int

    /// A failure, for the tests of an app that shows them.
    public init(code: String, message: String, deliveredCount: Int = 0, remainingCount: Int = 0) {
        self.code = code
        self.message = message
        self.deliveredCount = deliveredCount
        self.remainingCount = remainingCount
    }

    /// Code and message.
    public var description: String {
        "\(self.code): \(self.message)"
    }
}
