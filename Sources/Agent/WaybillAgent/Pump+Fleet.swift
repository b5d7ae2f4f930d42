internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail

/// Which receiver of a fleet this agent ships to, and for how long.
extension Pump where Hints: ~Copyable {
    /// The receivers in the order in which they are tried: the configured one, or the fleet's.
    var receiversInOrder: [NetworkAddress] {
        guard self.tail.fleet != nil else { return self.configuration.receivers }
        var order = Rendezvous.order(
            self.configuration.receivers, of: self.configuration.name.description, by: \.description)
        if let first = self.tail.addressToAskFirst, let index = order.firstIndex(where: { $0.description == first }) {
            order.insert(order.remove(at: index), at: 0)
        }
        return order
    }

    /// Whether the receiver answers `SEAL` only when its fleet's store has the end.
    var sealsLate: Bool { self.tail.isInFleet || self.acceptance.isFleetDoubted }

    /// The receiver wants no connection now: the next attempt begins with the one after it.
    mutating func turnAway() {
        if self.tail.isInFleet { self.choice.turnAway(in: self.receiversInOrder) }
    }

    /// Ends a connection that has its age, once what was sent is acknowledged, and begins another one.
    mutating func renewIfDue() {
        let now = self.clock.monotonicTime()
        guard self.connection.isReady, !self.goal.isStopping,
            self.choice.isRenewalDue(isInFlight: self.connection.isInFlight, now)
        else { return }
        self.checkpoint(self.now)
        self.send(.bye)
        self.endConnection(retryAt: now)
    }

    /// Whether the fleet's store has not taken all that was sent.
    var awaitsStorage: Bool { self.sealsLate && (self.tail.isAwaitingStorage || self.connection.session.isSealing) }
}
