package import NIOCore
internal import WaybillSystem

/// The open connections of a server; each leaves when it closes, and ``ConnectionTable`` says which one ends for a newcomer.
package final class ConnectionPlaces: Sendable {
    package typealias Table = ConnectionTable<ObjectIdentifier>

    private struct State {
        var table = Table()
        var channels: [ObjectIdentifier: any Channel] = [:]
    }

    private let state = Lock(State())

    package init() {}

    package var count: Int { self.state.withLock { $0.table.count } }
    package var channels: [any Channel] { self.state.withLock { Array($0.channels.values) } }

    /// Takes a place, and closes the channel that ends for it.
    ///
    /// - Parameter group: `nil`: it counts for none.
    package func take(for channel: any Channel, of group: String?, _ limits: ConnectionLimits) -> Table.Arrival {
        let key = ObjectIdentifier(channel)
        let (arrival, victim) = self.state.withLock { state in
            let arrival = state.table.arrived(key, of: group, limits)
            if arrival != .refused { state.channels[key] = channel }
            guard case .admittedInsteadOf(let other, _) = arrival else { return (arrival, (any Channel)?.none) }
            return (arrival, state.channels.removeValue(forKey: other))
        }
        victim?.close(promise: nil)
        guard arrival != .refused else { return .refused }
        channel.closeFuture.whenComplete { _ in
            self.state.withLock { state in
                state.table.left(ObjectIdentifier(channel))
                state.channels[ObjectIdentifier(channel)] = nil
            }
        }
        return arrival
    }

    /// Closes the channel that has been silent longest.
    ///
    /// - Returns: whether one was silent.
    package func endSilent() -> Bool {
        let silent = self.state.withLock { state in
            state.table.endSilent().flatMap { state.channels.removeValue(forKey: $0) }
        }
        silent?.close(promise: nil)
        return silent != nil
    }

    /// Takes what has happened to a channel into the table: `change(channel, { $0.asked($1) })`.
    package func change(_ channel: any Channel, _ change: (inout Table, ObjectIdentifier) -> Void) {
        self.state.withLock { change(&$0.table, ObjectIdentifier(channel)) }
    }
}
