internal import NIOCore
internal import Synchronization
internal import WaybillProtocol
package import WaybillSystem

/// What all connections of a receiver share.
package final class ReceiverShared: Sendable {
    /// Absolute limits: a message that is incomplete by then closes the connection.
    struct Timeouts: Sendable {
        var handshake = TimeAmount.seconds(10)
        var payload = TimeAmount.seconds(60)
        var idle: TimeAmount
        /// How often an arriving payload is checked.
        var payloadCheck = TimeAmount.milliseconds(500)
        /// The minimum bytes per second of a payload while others wait for the memory it holds.
        var payloadByteRateMin = 256 << 10
        /// How long a payload may stand still meanwhile.
        var payloadGrace = TimeAmount.milliseconds(500)
        /// How long a peer may read the reason before its connection is closed for good.
        var linger = TimeAmount.seconds(1)
        /// After this long without an answer the receiver sends `PING`, so that agents see it is alive.
        var keepalive: TimeAmount
    }

    let name: String
    let limits: ProtocolLimits
    let timeouts: Timeouts
    let token: TokenCheck
    let budget: AdmissionBudget
    let admissionByteCount: Int
    let checker: BatchChecker
    let committer: Committer
    let agents = ConnectedAgents()
    let clock: any SystemClock
    package let telemetry: ReceiverTelemetry
    /// The descriptions of open streams.
    let streams: StreamLedger
    let connections: OpenConnections

    package init(
        configuration: ReceiverConfiguration, budget: AdmissionBudget, checker: BatchChecker, committer: Committer,
        clock: any SystemClock, telemetry: ReceiverTelemetry
    ) {
        self.name = configuration.name
        self.limits = configuration.limits
        let idle = TimeAmount.milliseconds(Int64(configuration.limits.idleMilliseconds))
        self.timeouts = Timeouts(idle: idle, keepalive: .nanoseconds(idle.nanoseconds / 3))
        self.token = TokenCheck(expected: configuration.token)
        self.budget = budget
        self.admissionByteCount = configuration.admissionByteCount
        self.checker = checker
        self.committer = committer
        self.clock = clock
        self.telemetry = telemetry
        self.streams = StreamLedger(
            byteCountMax: configuration.descriptionByteCount, streamCountMax: configuration.quotas.streamCountMax)
        self.connections = OpenConnections(
            countMax: configuration.connectionCountMax,
            silentPerAddressMax: configuration.quotas.silentConnectionCountMax, telemetry: telemetry)
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
