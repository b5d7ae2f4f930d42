internal import NIOCore

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

    /// - Parameter end: the journal's durable end.
    func deliver(_ replies: [Reply], end: UInt64) {
        self.eventLoop.execute { self.handler.value.receive(replies, end: end) }
    }

    /// Closes the connection because the receiver can acknowledge nothing.
    func refuse(_ text: String) {
        self.eventLoop.execute { self.handler.value.refuse(text) }
    }

    /// Closes the connection because its agent has reconnected.
    func supersede() {
        self.eventLoop.execute { self.handler.value.supersede() }
    }
}
