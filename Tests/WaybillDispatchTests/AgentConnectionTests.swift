import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTail

@testable import WaybillAgent

private func time(_ seconds: Int) -> MonotonicTime {
    MonotonicTime(nanoseconds: 0) + .seconds(seconds)
}

/// Remembers what was done to it.
private final class RecordingLink: AgentLink {
    private let done = Lock<[String]>([])

    var calls: [String] { self.done.withLock { $0 } }

    func send(_ message: Message) { self.done.withLock { $0.append("\(message)") } }
    func send(_ batch: RawBatch) { self.done.withLock { $0.append("batch") } }
    func read() { self.done.withLock { $0.append("read") } }
    func lookAtPeer() { self.done.withLock { $0.append("look") } }
    func close() { self.done.withLock { $0.append("close") } }
}

struct AgentConnectionTests {
    private let link = RecordingLink()
    private let address: NetworkAddress
    /// What a receiver answers to HELLO.
    private let ready: [UInt8]

    init() throws {
        self.address = try #require(NetworkAddress("receiver.example:9820"))
        let receiver = try #require(
            ReceiverIdentity(
                name: "r1", incarnation: Incarnation(1, 2), starts: [ReceiverStart(id: 3, position: 0)], end: 0))
        let version = try #require(LineProtocol.versions.first)
        let ready = Ready(version: version, receiver: receiver, limits: ProtocolLimits(), milliseconds: 0)
        self.ready = Message.ready(ready).encoded
    }

    private func connection() -> AgentConnection {
        AgentConnection(instance: "0123", at: time(0)) { [link] _, _ in link }
    }

    /// A connection that said HELLO.
    private func greeted() throws -> AgentConnection {
        var connection = self.connection()
        connection.begin(to: self.address)
        let name = try #require(AgentName("a1"))
        let configuration = AgentConfiguration(name: name, stateDirectory: "/state", receivers: [], sources: [])
        let action = connection.greet(configuration, token: "t", at: WallTime(milliseconds: -4))
        if case .send(.hello(let hello)) = action {
            #expect(hello.agent == "a1" && hello.instance == "0123" && hello.token == "t" && hello.milliseconds == 0)
        } else {
            Issue.record("\(action)")
        }
        return connection
    }

    /// What follows from these bytes.
    private func actions(
        of connection: inout AgentConnection, after bytes: [UInt8]
    ) throws(WireError) -> [SenderSession.Action] {
        connection.received(bytes)
        var actions: [SenderSession.Action] = []
        while let action = try connection.nextAction() { actions.append(action) }
        return actions
    }

    @Test func `a connection is due at its time, and each has a generation of its own`() {
        var connection = self.connection()
        #expect(connection.isDue(at: time(0)) && connection.hasBegun == false && connection.isOpen == false)
        connection.postpone(until: time(3))
        #expect(connection.isDue(at: time(2)) == false && connection.isDue(at: time(3)))
        connection.begin(to: self.address)
        let first = connection.generation
        #expect(connection.phase == .connecting && connection.hasBegun && connection.isDue(at: time(9)) == false)
        connection.end(retryAt: time(5))
        #expect(connection.phase == .disconnected(retryAt: time(5)) && connection.isOpen == false)
        #expect(connection.generation != first)
        connection.send(.bye)
        connection.read()
        #expect(self.link.calls == ["close"])
        connection.begin(to: self.address)
        connection.send(.bye)
        connection.read()
        connection.lookAtPeer()
        #expect(self.link.calls == ["close", "bye", "read", "look"])
    }

    @Test func `messages are taken one by one, wherever their bytes are cut`() throws {
        var connection = try self.greeted()
        let bytes = self.ready + Message.ping(7).encoded + Message.pong(1).encoded + Message.ping(8).encoded
        var actions: [SenderSession.Action] = []
        for byte in bytes { actions += try self.actions(of: &connection, after: [byte]) }
        guard case .start = actions.first else {
            Issue.record("\(actions)")
            return
        }
        #expect(actions.dropFirst() == [.send(.pong(7)), .send(.pong(8))])
    }

    @Test func `nothing is taken from a connection that has ended, nor kept for the next one`() throws {
        var connection = try self.greeted()
        connection.received(self.ready + Message.ping(7).encoded)
        let first = try connection.nextAction()
        #expect(first != nil)
        connection.close()
        let afterClose = try self.actions(of: &connection, after: [])
        connection.end(retryAt: time(1))
        connection.begin(to: self.address)
        let afterBegin = try self.actions(of: &connection, after: [])
        #expect(afterClose.isEmpty && afterBegin.isEmpty)
    }

    @Test func `the words of a stranger are printable, and a receiver is none`() throws {
        var connection = try self.greeted()
        #expect(connection.strangersWords == nil)
        let words = Array("HTTP/1.1 400 \"Bad\"\u{7} Request\r\nServer: x\r\n".utf8)
        #expect(throws: WireError.self) { try self.actions(of: &connection, after: words) }
        #expect(connection.strangersWords == "HTTP/1.1 400 ?Bad?? Request")
        connection = try self.greeted()
        let first = try self.actions(of: &connection, after: self.ready)
        #expect(first.count == 1)
        connection.accepted()
        #expect(throws: WireError.self) { try self.actions(of: &connection, after: words) }
        #expect(connection.strangersWords == nil)
    }
}
