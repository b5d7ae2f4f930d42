internal import NIOCore
internal import WaybillData
package import WaybillHost
internal import WaybillProjection
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

    private let identityAtStart: ReceiverIdentity
    private let feed: JournalFeed
    let limits: ProtocolLimits
    let timeouts: Timeouts
    /// Which agents are let in now.
    private let registerInForce: Lock<AgentRegister>
    /// What principals with a bound on bytes a second have sent.
    let rates = Lock(ByteRates())
    /// Attempts to be let in that failed.
    let failures = Lock(FailureDelay())
    let budget: AdmissionBudget
    let admissionByteCount: Int
    let checker: BatchChecker
    let committer: Committer
    let agents = ConnectedAgents()
    let conditions: HostConditions
    let clock: any SystemClock
    let started: WallTime
    let software: String
    package let telemetry: ReceiverTelemetry
    /// The descriptions of open streams.
    let streams: StreamLedger
    let connections: OpenConnections
    /// The fleet that this receiver belongs to; `nil` when it stands alone.
    let membership: FleetMembership?

    /// Which receiver this is, and how far its journal is durable now.
    var identity: ReceiverIdentity {
        self.identityAtStart.reaching(UInt64(self.feed.end.rawValue))
    }

    var register: AgentRegister { self.registerInForce.withLock { $0 } }

    /// Judges open connections by another register; those of agents that it does not let in end.
    func replace(_ register: AgentRegister) {
        self.registerInForce.withLock { $0 = register }
        self.agents.recheck(isChanged: true)
    }

    package init(
        configuration: ReceiverConfiguration, identity: ReceiverIdentity, feed: JournalFeed, budget: AdmissionBudget,
        checker: BatchChecker, committer: Committer, conditions: HostConditions,
        clock: any SystemClock, telemetry: ReceiverTelemetry, revocations: RevocationList = .empty
    ) {
        self.identityAtStart = identity
        self.membership = configuration.membership
        self.feed = feed
        self.limits = configuration.limits
        let idle = TimeAmount.milliseconds(Int64(configuration.limits.idleMilliseconds))
        self.timeouts = Timeouts(idle: idle, keepalive: .nanoseconds(idle.nanoseconds / 3))
        self.registerInForce = Lock(configuration.register(revocations: revocations))
        self.budget = budget
        self.admissionByteCount = configuration.admissionByteCount
        self.checker = checker
        self.committer = committer
        self.conditions = conditions
        self.clock = clock
        self.started = clock.wallTime()
        self.software = configuration.software
        self.telemetry = telemetry
        self.streams = StreamLedger(
            byteCountMax: configuration.descriptionByteCount, streamCountMax: configuration.quotas.streamCountMax)
        self.connections = OpenConnections(
            countMax: configuration.connectionCountMax,
            silentPerAddressMax: configuration.quotas.silentConnectionCountMax, telemetry: telemetry)
    }
}

/// Which agents are connected: a second one of a principal with the same name is rejected, the same one reconnecting is admitted.
final class ConnectedAgents: Sendable {
    /// Whether an agent may stay.
    enum Entrance {
        case admitted
        case nameInUse(by: ConnectionHandle)
        /// Its principal has as many connections as it may.
        case tooMany
    }

    private struct Entry {
        let instance: String
        let connection: ConnectionHandle
    }

    private struct State {
        var entries: [String: Entry] = [:]
        /// Connected agents by the name of their principal.
        var counts: [String: Int] = [:]
        var absent = AbsentAgents()
    }

    private let state = Lock(State())

    func entered(_ connection: ConnectionHandle, instance: String) -> Entrance {
        let admitted = connection.admitted
        let (entrance, superseded) = self.state.withLock { state -> (Entrance, ConnectionHandle?) in
            let entry = state.entries[admitted.fullName]
            if let entry, entry.instance != instance { return (.nameInUse(by: entry.connection), nil) }
            if entry == nil {
                let count = state.counts[admitted.principal.name] ?? 0
                guard count < admitted.principal.quotas.connectionCountMax ?? .max else { return (.tooMany, nil) }
                state.counts[admitted.principal.name] = count + 1
            }
            state.entries[admitted.fullName] = Entry(instance: instance, connection: connection)
            state.absent.came(admitted.fullName)
            return (.admitted, entry?.connection)
        }
        superseded?.supersede()
        return entrance
    }

    var count: Int { self.state.withLock { $0.entries.count } }

    /// Lets every connection judge its agent again.
    func recheck(isChanged: Bool) {
        for connection in self.connections {
            connection.recheck(isChanged: isChanged)
        }
    }

    /// Tells each agent that is connected what of its lines was put into the quarantine.
    func tell(_ counts: QuarantineCounts) {
        guard !counts.isEmpty else { return }
        let byAccount = counts.byAccount
        for connection in self.connections {
            if let counts = byAccount[connection.account] { connection.tell(counts) }
        }
    }

    /// The agents that are connected, by name.
    var connections: [ConnectionHandle] {
        // Sorted when the lock is free again: there may be thousands.
        self.state.withLock { $0.entries }.sorted { $0.key < $1.key }.map(\.value.connection)
    }

    /// How many were connected, and have not been for ten minutes or longer.
    func silentCount(at now: MonotonicTime) -> Int {
        self.state.withLock { $0.absent.silentCount(at: now) }
    }

    func left(_ connection: ConnectionHandle, at time: MonotonicTime) {
        self.state.withLock { state in
            let name = connection.admitted.fullName
            guard state.entries[name]?.connection === connection else { return }
            state.entries[name] = nil
            state.absent.left(name, at: time)
            let principal = connection.admitted.principal.name
            let count = (state.counts[principal] ?? 1) - 1
            state.counts[principal] = count > 0 ? count : nil
        }
    }
}

/// The agents that were connected since the start and are not, as far as there is room for their names.
struct AbsentAgents {
    /// More are not counted: memory does not depend on how many there were.
    static let countMax = 10_000
    /// For less, an agent may just connect again.
    static let silence = Duration.seconds(600)

    private var times: [String: MonotonicTime] = [:]

    mutating func came(_ name: String) {
        self.times[name] = nil
    }

    mutating func left(_ name: String, at time: MonotonicTime) {
        if self.times.count < Self.countMax { self.times[name] = time }
    }

    /// How many have been absent for ``silence`` or longer.
    func silentCount(at now: MonotonicTime) -> Int {
        self.times.values.count { now - $0 >= Self.silence }
    }
}
