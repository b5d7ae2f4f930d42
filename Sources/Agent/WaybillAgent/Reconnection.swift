package import WaybillProtocol
package import WaybillSystem

/// When to try again after a connection failed or ended: a random time, so that many agents do not come back together.
///
/// Its bound doubles with each attempt, and is not wider than the receiver was away: after an outage of 20 s all agents are
/// back within 20 s more. A second's outage is spread over two, so that a receiver of thousands of agents is not met by all
/// of them at once.
package struct Reconnection: Sendable {
    /// Why there is no connection, as far as the next attempt depends on it.
    package enum Cause: Sendable {
        /// It failed or ended: the receiver, or the way to it, may be back at any time.
        case broken
        /// One of the two sides does not want to talk to the other.
        case refused
        /// One of the two sides has to be changed first: the next attempt waits longest.
        case hopeless
    }

    /// What the bound may always be, however short the outage is.
    private static let narrowest = Duration.seconds(2)
    private static let longest = Duration.seconds(60)

    private var backoff: Backoff
    /// Since when attempts fail; `nil` before the first failure.
    private var outageSince: MonotonicTime?
    /// Since when a receiver has accepted this agent; `nil` while none has.
    private var acceptedAt: MonotonicTime?

    package init(_ generator: SeededGenerator) {
        self.backoff = Backoff(from: .milliseconds(500), to: Self.longest, generator)
    }

    /// How long to wait now that there is no connection.
    package mutating func failed(_ cause: Cause, at now: MonotonicTime) -> Duration {
        // An agent that has nothing to send gets no acknowledgement either.
        if let acceptedAt, now - acceptedAt >= Self.longest { self.succeeded() }
        self.acceptedAt = nil
        let since = self.outageSince ?? now
        self.outageSince = since
        switch cause {
        case .broken: return self.backoff.fail(noLongerThan: max(Self.narrowest, now - since))
        case .refused: return self.backoff.fail()
        case .hopeless: return self.backoff.failForLong()
        }
    }

    /// A receiver has accepted this agent, which may be all that it does before it fails again.
    package mutating func accepted(at now: MonotonicTime) {
        self.acceptedAt = now
    }

    /// A receiver has acknowledged something.
    package mutating func succeeded() {
        self.backoff.succeed()
        self.outageSince = nil
    }
}

extension SenderSession.Failure {
    /// What it means for the next attempt.
    var cause: Reconnection.Cause {
        switch self {
        case .refused(.token, _), .refused(.version, _): .hopeless
        case .receiverLeft: .broken
        case .refused, .ackOutOfRange, .unexpected, .unknownStream, .version, .wire: .refused
        }
    }

    /// For the operator.
    package var text: String {
        switch self {
        case .refused(let code, let text): "the receiver refuses: \(text) (\(code.rawValue))"
        case .receiverLeft: "the receiver is stopping"
        case .ackOutOfRange(let stream, let offset):
            "the receiver acknowledged byte \(offset.rawValue) of stream \(stream.rawValue), which was not sent"
        case .unexpected(let text): "protocol violation: \(text)"
        case .unknownStream(let stream): "protocol violation: stream \(stream.rawValue) was not opened"
        case .version(let version): "the receiver chose version \(version), which this agent does not speak"
        case .wire(let error): "protocol violation: \(error.text)"
        }
    }
}
