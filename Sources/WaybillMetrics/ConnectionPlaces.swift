package import NIOCore
internal import WaybillSystem

/// Limits how many connections are open at once: for one more, the one that has been silent longest ends.
package final class ConnectionPlaces: Sendable {
    private struct State {
        /// In the order in which they came.
        var channels: [any Channel] = []
        /// Those that have sent a request; they end once it is answered.
        var busy: Set<ObjectIdentifier> = []
    }

    private let state = Lock(State())
    private let countMax: Int

    package init(countMax: Int) {
        self.countMax = countMax
    }

    /// - Returns: whether a place was free or became free; the channel releases it when it closes.
    package func take(for channel: any Channel) -> Bool {
        let (isAdmitted, silent) = self.state.withLock { state -> (Bool, (any Channel)?) in
            var silent: (any Channel)?
            if state.channels.count >= self.countMax {
                let index = state.channels.firstIndex { !state.busy.contains(ObjectIdentifier($0)) }
                guard let index else { return (false, nil) }
                silent = state.channels.remove(at: index)
            }
            state.channels.append(channel)
            return (true, silent)
        }
        silent?.close(promise: nil)
        guard isAdmitted else { return false }
        channel.closeFuture.whenComplete { _ in self.leave(channel) }
        return true
    }

    /// The channel has sent its request.
    package func asked(_ channel: any Channel) {
        self.state.withLock { _ = $0.busy.insert(ObjectIdentifier(channel)) }
    }

    private func leave(_ channel: any Channel) {
        self.state.withLock { state in
            state.channels.removeAll { $0 === channel }
            state.busy.remove(ObjectIdentifier(channel))
        }
    }
}
