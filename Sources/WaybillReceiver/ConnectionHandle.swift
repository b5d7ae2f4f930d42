internal import NIOCore
internal import WaybillProjection
internal import WaybillProtocol

/// How the committer reaches a connection: answers hop to its event loop once per group.
package final class ConnectionHandle: Sendable {
    let agent: String
    /// Who is charged for what it brings.
    let account: Account

    private let eventLoop: any EventLoop
    private let handler: NIOLoopBound<ConnectionHandler>

    init(agent: String, account: Account, handler: ConnectionHandler, eventLoop: any EventLoop) {
        self.agent = agent
        self.account = account
        self.eventLoop = eventLoop
        self.handler = NIOLoopBound(handler, eventLoop: eventLoop)
    }

    func deliver(_ replies: [Reply]) {
        self.eventLoop.execute { self.handler.value.receive(replies) }
    }

    /// Closes the connection because its agent has reconnected.
    func supersede() {
        self.end(.agentInUse, text: "the agent has connected again; this connection is closed")
    }

    /// Closes the connection with an error.
    func end(_ code: ErrorCode, text: String) {
        self.eventLoop.execute { self.handler.value.end(code, text: text) }
    }
}
