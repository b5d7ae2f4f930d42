internal import NIOCore
package import WaybillProtocol
internal import WaybillSystem
internal import WaybillHost

/// Who the peer is, and which streams it may open.
extension ConnectionHandler {
    func admit(_ hello: Hello, _ context: ChannelHandlerContext) {
        let credentials = AgentCredentials(
            hello, certificate: PeerCertificate.ofPeer(on: context.pipeline.syncOperations))
        let admitted: AdmittedAgent
        switch self.shared.register.authenticate(credentials, at: self.shared.clock.wallTime()) {
        case .success(let agent): admitted = agent
        case .failure(let refusal): return self.refuse(refusal, agent: hello.agent, context)
        }
        if let text = self.shared.conditions.withheld {
            return self.perform(self.session.refuse(.unavailable, text: text), context)
        }
        let connection = ConnectionHandle(
            admitted, hello, origin: self.origin,
            credentials: credentials, since: self.shared.clock.wallTime(), handler: self,
            eventLoop: context.eventLoop)
        switch self.shared.agents.entered(connection, instance: hello.instance) {
        case .admitted: break
        case .nameInUse(let other):
            self.shared.telemetry.refused(
                .agentInUse, agent: hello.agent, from: self.origin, instead: other)
            let text = "another agent named \(hello.agent) is connected; give each agent a name of its own"
            return self.perform(self.session.refuse(.agentInUse, text: text), context)
        case .tooMany:
            self.shared.telemetry.limited(.connectionsOfPrincipal)
            let text = "the principal of this agent has as many connections as it may; see agents: quotas.connections"
            return self.perform(self.session.refuse(.unavailable, text: text), context)
        }
        self.connection = connection
        self.account = connection.account
        self.shared.connections.places.change(context.channel) { $0.identified($1) }
        let ready = Ready(
            version: 1, receiver: self.shared.identity, fleet: self.shared.membership?.fleet,
            level: self.shared.membership == nil ? .durable : .stored, limits: self.shared.limits,
            milliseconds: max(0, self.shared.clock.wallTime().milliseconds))
        self.write(self.session.admit(ready), context)
        self.setDeadline(after: self.shared.timeouts.idle, context)
        self.shared.telemetry.connected(connection, address: self.address)
    }

    /// Answers an agent that is not let in; later, the more often its address has failed.
    func refuse(_ refusal: AgentRefusal, agent: String, _ context: ChannelHandlerContext) {
        let now = self.shared.clock.monotonicTime()
        let delay = self.shared.failures.withLock { $0.failed(from: self.address, at: now) }
        self.shared.telemetry.refused(refusal, agent: agent, from: self.origin)
        guard delay > .zero else {
            return self.perform(self.session.refuse(.token, text: refusal.text), context)
        }
        // What arrives meanwhile gets no answer.
        self.mode = .discarding(byteCount: .max)
        self.deadline.suspend()
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(in: .nanoseconds(delay.nanoseconds)) {
            guard let context = bound.value.context else { return }
            bound.value.perform(bound.value.session.refuse(.token, text: refusal.text), context)
        }
    }

    /// The configuration has changed, or time has passed: closes the connection if its agent would not be let in now as
    /// it was.
    func recheck(isChanged: Bool) {
        guard let context, let connection, self.session.isReady else { return }
        let admitted = connection.admitted
        switch self.shared.register.authenticate(connection.credentials, at: self.shared.clock.wallTime()) {
        case .success(admitted): return
        case .success:
            let text = "the receiver's configuration of this agent has changed; connect again"
            self.perform(self.session.refuse(.unavailable, text: text), context)
        case .failure(let refusal):
            self.shared.telemetry.refused(
                refusal, agent: admitted.fullName, from: self.origin)
            self.perform(self.session.refuse(.token, text: refusal.text), context)
        }
    }

    /// Opens a stream of the agent, if the patterns allow it.
    func open(
        _ number: StreamNumber, _ description: StreamDescription, _ claim: OpenClaim, _ context: ChannelHandlerContext
    ) {
        guard let connection else { return }
        let tenant = connection.admitted
        guard tenant.mayOpen(description) else {
            let text = "env \(description.environment) or bundle \(description.bundle) is not among this agent's"
            return self.refuseOpen(number, description, text, context)
        }
        guard let owned = description.owned(by: tenant.owner) else {
            let text = "the description leaves no room for its owner; shorten time, name or bundle"
            return self.refuseOpen(number, description, text, context)
        }
        guard let kept = self.keep(owned, of: number, context) else { return }
        self.storage.remember(claim, of: number)
        self.admit(.open(connection, number, kept, StreamTenancy(tenant: tenant, claim: claim)), context)
    }

    private func refuseOpen(
        _ number: StreamNumber, _ description: StreamDescription, _ text: String, _ context: ChannelHandlerContext
    ) {
        if let connection {
            let untoldCount = self.denials.admit(at: self.shared.clock.monotonicTime())
            self.shared.telemetry.denied(
                "OPEN", of: description, .notAllowed, by: connection, untoldCount: untoldCount)
        }
        for message in self.session.openRefused(number, at: StreamOffset(0), .notAllowed, text: text) {
            self.write(message, context)
        }
    }
}

/// Whose stream an `OPEN` is about, and what it claims.
package struct StreamTenancy: Hashable, Sendable {
    /// The connection's agent.
    let tenant: AdmittedAgent
    package var claim: OpenClaim
}
