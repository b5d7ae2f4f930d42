package import NIOCore
internal import WaybillSystem

/// Limits how many connections are open at once: for one more, the one that has been silent longest ends.
package final class ConnectionPlaces: Sendable {
    private struct Place {
        let channel: any Channel
        /// Grows with each connection that comes and each answer.
        var turn: Int
        /// It has sent a request, which is not answered.
        var isBusy = false
    }

    private struct State {
        var places: [ObjectIdentifier: Place] = [:]
        var turn = 0
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
            if state.places.count >= self.countMax {
                let oldest = state.places.lazy.filter { !$0.value.isBusy }.min { $0.value.turn < $1.value.turn }
                guard let oldest else { return (false, nil) }
                silent = oldest.value.channel
                state.places[oldest.key] = nil
            }
            state.turn += 1
            state.places[ObjectIdentifier(channel)] = Place(channel: channel, turn: state.turn)
            return (true, silent)
        }
        silent?.close(promise: nil)
        guard isAdmitted else { return false }
        channel.closeFuture.whenComplete { _ in self.leave(channel) }
        return true
    }

    /// The channel has sent its request.
    package func asked(_ channel: any Channel) {
        self.state.withLock { $0.places[ObjectIdentifier(channel)]?.isBusy = true }
    }

    /// The channel's request was answered, and it may send another one.
    package func rested(_ channel: any Channel) {
        self.state.withLock { state in
            state.turn += 1
            state.places[ObjectIdentifier(channel)]?.turn = state.turn
            state.places[ObjectIdentifier(channel)]?.isBusy = false
        }
    }

    private func leave(_ channel: any Channel) {
        self.state.withLock { $0.places[ObjectIdentifier(channel)] = nil }
    }
}
