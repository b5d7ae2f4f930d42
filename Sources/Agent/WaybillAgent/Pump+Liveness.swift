internal import WaybillProtocol
internal import WaybillSystem

/// Whether the receiver is still there, and what is said when it is not heard.
extension Pump where Hints: ~Copyable {
    mutating func send(_ message: Message) {
        self.liveness.sent(at: self.clock.monotonicTime())
        self.connection.send(message)
    }

    /// How long the receiver keeps a silent connection; capped at a day, which fits into every clock.
    static func idle(of ready: Ready) -> Duration {
        .milliseconds(min(ready.limits.idleMilliseconds, 86_400_000))
    }

    /// Whether the receiver has acknowledged nothing for a minute of what is in flight.
    var isStalled: Bool {
        self.liveness.isStalled(isInFlight: self.connection.isInFlight, at: self.clock.monotonicTime())
    }

    mutating func keepAlive() {
        let now = self.clock.monotonicTime()
        self.tellSilence(now)
        switch self.connection.phase {
        case .disconnected: return
        case .connecting, .ready: self.take(self.liveness.step(isInFlight: self.connection.isInFlight, at: now))
        }
    }

    /// The kernel has answered.
    mutating func weigh(_ peer: TCPPeer) {
        self.take(self.liveness.weigh(peer, isInFlight: self.connection.isInFlight, at: self.clock.monotonicTime()))
    }

    private mutating func take(_ step: Liveness.Step?) {
        switch step {
        case .ping: self.send(.ping(UInt64(self.connection.generation)))
        case .askKernel: self.connection.lookAtPeer()
        case .close(let silence):
            guard self.connection.isReady else { return self.disconnect("the receiver does not answer", .broken) }
            self.turnAway()
            self.disconnect(AgentTelemetry.unheard(for: silence), .broken)
        case nil: break
        }
    }

    /// Logs that acknowledgements stay away, and that they come again.
    private mutating func tellSilence(_ now: MonotonicTime) {
        guard let report = self.liveness.report(isInFlight: self.connection.isInFlight, at: now) else { return }
        self.telemetry.acknowledgements(
            report, from: self.choice.address, inFlightByteCount: self.connection.session.inFlightByteCount)
    }
}
