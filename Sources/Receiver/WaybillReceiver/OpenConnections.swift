internal import NIOCore
internal import WaybillSystem
internal import WaybillProtocol

/// The open connections: bounded, and known to a stop, which closes them.
final class OpenConnections: Sendable {
    private struct State {
        var table: ConnectionTable<ObjectIdentifier>
        var channels: [ObjectIdentifier: any Channel] = [:]
    }

    private let state: Lock<State>
    private let telemetry: ReceiverTelemetry

    init(countMax: Int, silentPerAddressMax: Int, telemetry: ReceiverTelemetry) {
        self.state = Lock(
            State(table: ConnectionTable(countMax: countMax, silentPerAddressMax: silentPerAddressMax)))
        self.telemetry = telemetry
    }

    /// - Parameter address: whom it is charged to until `HELLO`.
    /// - Returns: whether there is room for one more; another one may end for it.
    func add(_ channel: any Channel, from address: String) -> Bool {
        let key = ObjectIdentifier(channel)
        let (arrival, victim) = self.state.withLock { state in
            let arrival = state.table.arrived(key, from: address)
            if arrival != .refused { state.channels[key] = channel }
            guard case .admittedInsteadOf(let other, _) = arrival else { return (arrival, (any Channel)?.none) }
            return (arrival, state.channels.removeValue(forKey: other))
        }
        switch arrival {
        case .admitted: break
        case .admittedInsteadOf(_, let limit):
            self.telemetry.limited(limit.counted)
            victim?.close(promise: nil)
        case .refused:
            self.telemetry.limited(.connections)
            return false
        }
        channel.closeFuture.whenComplete { _ in self.remove(key) }
        return true
    }

    private func remove(_ key: ObjectIdentifier) {
        self.state.withLock { state in
            state.table.left(key)
            state.channels[key] = nil
        }
    }

    var count: Int { self.state.withLock { $0.table.count } }

    /// The channel's `HELLO` was accepted.
    func identified(_ channel: any Channel) {
        self.state.withLock { $0.table.identified(ObjectIdentifier(channel)) }
    }

    /// Something that the channel brought is durable.
    func known(_ channel: any Channel) {
        self.state.withLock { $0.table.known(ObjectIdentifier(channel)) }
    }

    /// Sends a last message to all and waits until they are gone.
    func closeAll(saying message: Message) async {
        let channels = self.state.withLock { Array($0.channels.values) }
        for channel in channels {
            channel.writeAndFlush(ByteBuffer(bytes: message.encoded), promise: nil)
            channel.close(promise: nil)
        }
        for channel in channels {
            // A connection that ended with an error is gone as well.
            _ = try? await channel.closeFuture.get()
        }
    }
}

extension ConnectionTable.Limit {
    fileprivate var counted: ReceiverTelemetry.Limit {
        switch self {
        case .address: .silentConnectionsOfAddress
        case .silent: .silentConnections
        case .connections: .connections
        }
    }
}

extension SocketAddress {
    /// What is charged before `HELLO`: an IPv4 address, or the 64 bits of an IPv6 address that name its network.
    var accountAddress: String {
        guard case .v6 = self, let text = self.ipAddress else { return self.ipAddress ?? "unix" }
        let halves = text.split(separator: "::", maxSplits: 1, omittingEmptySubsequences: false)
        var groups = halves[0].split(separator: ":").map(String.init)
        if halves.count == 2 { groups += Array(repeating: "0", count: 8) }
        return groups.prefix(4).joined(separator: ":")
    }
}
