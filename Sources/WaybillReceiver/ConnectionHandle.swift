internal import NIOCore
internal import WaybillProtocol

/// How the committer reaches a connection: answers hop to its event loop once per group.
package final class ConnectionHandle: Sendable {
    let agent: String

    private let eventLoop: any EventLoop
    private let handler: NIOLoopBound<ConnectionHandler>

    init(agent: String, handler: ConnectionHandler, eventLoop: any EventLoop) {
        self.agent = agent
        self.eventLoop = eventLoop
        self.handler = NIOLoopBound(handler, eventLoop: eventLoop)
    }

    func deliver(_ replies: [Reply]) {
        self.eventLoop.execute { self.handler.value.receive(replies) }
    }

    /// Closes the connection because the receiver can acknowledge nothing.
    func refuse(_ text: String) {
        self.eventLoop.execute { self.handler.value.end(.unavailable, text) }
    }

    /// Closes the connection because its agent has reconnected.
    func supersede() {
        let text = "the agent has connected again; this connection is closed"
        self.eventLoop.execute { self.handler.value.end(.agentInUse, text) }
    }
}
