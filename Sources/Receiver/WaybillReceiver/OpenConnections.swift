internal import NIOCore
internal import WaybillHost
internal import WaybillProtocol

/// The open connections: bounded, and known to a stop, which closes them.
///
/// An agent's address is its group until `HELLO`; agents that have delivered something keep their places.
final class OpenConnections: Sendable {
    let places = ConnectionPlaces()
    private let limits: ConnectionLimits
    private let telemetry: ReceiverTelemetry

    init(countMax: Int, silentPerAddressMax: Int, telemetry: ReceiverTelemetry) {
        self.limits = ConnectionLimits(
            countMax: countMax, silentCountMax: max(1, countMax / 4), groupCountMax: silentPerAddressMax)
        self.telemetry = telemetry
    }

    /// - Parameter address: whom it is charged to until `HELLO`.
    /// - Returns: whether there is room for one more; another one may end for it.
    func add(_ channel: any Channel, from address: String) -> Bool {
        switch self.places.take(for: channel, of: address, self.limits) {
        case .admitted: return true
        case .admittedInsteadOf(_, let limit):
            self.telemetry.limited(limit.counted)
            return true
        case .refused:
            self.telemetry.limited(.connections)
            return false
        }
    }

    /// Sends a last message to all and waits until they are gone.
    func closeAll(saying message: Message) async {
        let channels = self.places.channels
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

extension ConnectionLimit {
    fileprivate var counted: ReceiverTelemetry.Limit {
        switch self {
        case .group: .silentConnectionsOfAddress
        case .silent: .silentConnections
        case .all: .connections
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
