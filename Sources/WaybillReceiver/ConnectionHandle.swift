internal import NIOCore
internal import WaybillProjection
internal import WaybillProtocol

/// How the committer reaches a connection: answers hop to its event loop once per group.
package final class ConnectionHandle: Sendable {
    let admitted: AdmittedAgent
    let peer: String
    /// What proved who the agent is, for the audit log.
    let credential: String
    /// Who is charged for what it brings.
    var account: Account { self.admitted.account }

    private let eventLoop: any EventLoop
    private let handler: NIOLoopBound<ConnectionHandler>

    init(
        _ admitted: AdmittedAgent, peer: String, credential: String, handler: ConnectionHandler,
        eventLoop: any EventLoop
    ) {
        self.admitted = admitted
        self.peer = peer
        self.credential = credential
        self.eventLoop = eventLoop
        self.handler = NIOLoopBound(handler, eventLoop: eventLoop)
    }

    /// - Parameter end: the journal's durable end.
    func deliver(_ replies: [Reply], end: UInt64) {
        self.eventLoop.execute { self.handler.value.receive(replies, end: end) }
    }

    /// Tells the agent what of its lines was put into the quarantine.
    func tell(_ counts: [QuarantineCount]) {
        self.eventLoop.execute { self.handler.value.tell(counts) }
    }

    /// Closes the connection because the receiver can acknowledge nothing.
    func refuse(_ text: String) {
        self.eventLoop.execute { self.handler.value.end(.unavailable, text: text) }
    }

    /// Closes the connection because its agent has reconnected.
    func supersede() {
        self.end(.agentInUse, text: "the agent has connected again; this connection is closed")
    }

    /// Closes the connection with an error.
    func end(_ code: ErrorCode, text: String) {
        self.eventLoop.execute { self.handler.value.end(code, text: text) }
    }

    /// Closes the connection if its agent would not be let in now as it was.
    ///
    /// - Parameter isChanged: whether the register is another one.
    func recheck(isChanged: Bool) {
        self.eventLoop.execute { self.handler.value.recheck(isChanged: isChanged) }
    }
}
