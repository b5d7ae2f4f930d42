#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif
package import WaybillProtocol
internal import WaybillTestSupport

/// An agent's side of a connection, message by message; blocks the thread that it is used on.
package final class LineClient {
    private let file: Int32
    private var received: [UInt8] = []

    /// Connects as soon as someone listens.
    package init(port: Int) throws {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = UInt16(port).bigEndian
        for _ in 0..<600_000 {
            let file = Place.newSocket()
            let result = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    connect(file, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            if result == 0 {
                self.file = file
                return
            }
            close(file)
            _ = poll(nil, 0, 1)
        }
        throw Violation("no one listens on port \(port)")
    }

    deinit {
        close(self.file)
    }

    /// Greets and returns what the receiver grants.
    package func greet(as agent: String = "client", instance: String = "1") throws -> Ready {
        try self.send(
            .hello(Hello(versions: [1], agent: agent, instance: instance, token: nil, encodings: ["zlib"])))
        guard case .ready(let ready) = try self.next() else { throw Violation("no READY") }
        return ready
    }

    package func send(_ message: Message, payload: [UInt8] = []) throws {
        let bytes = Array(message.encoded) + payload
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes { write(self.file, $0.baseAddress, $0.count) }
            guard count > 0 || errno == EINTR else { throw Violation("write: \(errno)") }
            sent += max(0, count)
        }
    }

    /// The next message of the receiver; waits for it.
    package func next() throws -> Message {
        while true {
            let decoded = try self.received.withUnsafeBytes { try Message.decode(prefixOf: $0) }
            if let (message, byteCount) = decoded {
                self.received.removeFirst(byteCount)
                return message
            }
            var part = [UInt8](repeating: 0, count: 1 << 16)
            let count = read(self.file, &part, part.count)
            guard count > 0 || errno == EINTR else { throw Violation("the receiver closed: \(errno)") }
            self.received += part[..<max(0, count)]
        }
    }

    /// What the receiver says until it answers a `PING`.
    package func flush() throws -> [Message] {
        try self.send(.ping(4711))
        var messages: [Message] = []
        while true {
            let message = try self.next()
            if message == .pong(4711) { return messages }
            messages.append(message)
        }
    }
}
