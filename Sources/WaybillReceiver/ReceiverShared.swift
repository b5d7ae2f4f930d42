internal import NIOCore
internal import Synchronization
internal import WaybillJournal
package import WaybillProtocol
package import WaybillSystem

/// What all connections of a receiver share.
package final class ReceiverShared: Sendable {
    /// Absolute limits: a message that is incomplete by then closes the connection.
    struct Timeouts: Sendable {
        var handshake = TimeAmount.seconds(10)
        var payload = TimeAmount.seconds(60)
        var idle: TimeAmount
        /// How often an arriving payload is checked.
        var payloadCheck = TimeAmount.seconds(2)
        /// The minimum bytes per second of a payload while others wait for the memory it holds.
        var payloadByteRateMin = 64 << 10
        /// How long a peer may read the reason before its connection is closed for good.
        var linger = TimeAmount.seconds(1)
        /// After this long without an answer the receiver sends `PING`, so that agents see it is alive.
        var keepalive: TimeAmount
    }

    private let identityAtStart: ReceiverIdentity
    private let feed: JournalFeed
    let limits: ProtocolLimits
    let timeouts: Timeouts
    let token: TokenCheck
    let budget: AdmissionBudget
    let admissionByteCount: Int
    let checker: BatchChecker
    let committer: Committer
    let agents = ConnectedAgents()
    let conditions: HostConditions
    let clock: any SystemClock
    package let telemetry: ReceiverTelemetry
    let connectionCountMax: Int
    /// For the open streams of one connection; enough for the maximum number of streams with paths of usual length.
    let connectionDescriptionByteCountMax = 96 << 20
    /// For the open streams of all connections.
    let descriptionByteCountMax = 112 << 20
    /// How much of ``descriptionByteCountMax`` is in use.
    let descriptionByteCount = Atomic(0)
    let connectionCount = Atomic(0)

    /// Which receiver this is, and how far its journal is durable now.
    var identity: ReceiverIdentity {
        self.identityAtStart.reaching(UInt64(self.feed.end.rawValue))
    }

    package init(
        configuration: ReceiverConfiguration, identity: ReceiverIdentity, feed: JournalFeed, budget: AdmissionBudget,
        checker: BatchChecker, committer: Committer, conditions: HostConditions,
        clock: any SystemClock, telemetry: ReceiverTelemetry
    ) {
        self.identityAtStart = identity
        self.feed = feed
        self.limits = configuration.limits
        let idle = TimeAmount.milliseconds(Int64(configuration.limits.idleMilliseconds))
        self.timeouts = Timeouts(idle: idle, keepalive: .nanoseconds(idle.nanoseconds / 3))
        self.token = TokenCheck(expected: configuration.token)
        self.budget = budget
        self.admissionByteCount = configuration.admissionByteCount
        self.checker = checker
        self.committer = committer
        self.conditions = conditions
        self.clock = clock
        self.telemetry = telemetry
        self.connectionCountMax = configuration.connectionCountMax
    }
}

/// Decides whether an agent's token admits it.
struct TokenCheck: Sendable {
    let expected: Secret?

    func isMatched(by token: String?) -> Bool {
        guard let expected else { return true }
        return expected.isEqual(to: token ?? "")
    }
}

/// Which agents are connected: a second one with the same name is rejected, the same one reconnecting is admitted.
final class ConnectedAgents: Sendable {
    private struct Entry {
        let instance: String
        let connection: ConnectionHandle
    }

    private let entries = Mutex<[String: Entry]>([:])

    /// - Returns: whether the agent may stay.
    func entered(_ connection: ConnectionHandle, instance: String) -> Bool {
        let (isAdmitted, superseded) = self.entries.withLock { entries -> (Bool, ConnectionHandle?) in
            if let entry = entries[connection.agent] {
                guard entry.instance == instance else { return (false, nil) }
                entries[connection.agent] = Entry(instance: instance, connection: connection)
                return (true, entry.connection)
            }
            entries[connection.agent] = Entry(instance: instance, connection: connection)
            return (true, nil)
        }
        superseded?.supersede()
        return isAdmitted
    }

    var count: Int { self.entries.withLock { $0.count } }

    func left(_ connection: ConnectionHandle) {
        self.entries.withLock { entries in
            if entries[connection.agent]?.connection === connection { entries[connection.agent] = nil }
        }
    }
}
