internal import NIOCore
internal import NIOPosix
internal import WaybillProtocol
package import WaybillSystem
package import WaybillHost

/// Tries out what a configuration names: a port to listen on, a receiver to ship to.
package enum ConfigurationProbe {
    /// Why the address cannot be used.
    package struct Failure: Error, Hashable, CustomStringConvertible {
        package let description: String
    }

    /// What a receiver says of itself.
    package struct Greeting: Hashable, Sendable {
        package let receiver: String
        /// The fleet that it names; `nil` for a receiver that stands alone.
        package let fleet: String?
        /// Whether the agent would believe the fleet.
        package var isBelieved = true
    }

    /// How long a receiver has to answer.
    private static let patience = Duration.seconds(15)
    /// One for all greetings, so that two addresses of one receiver do not refuse each other.
    private static let instance = Hexadecimal.text(SystemRandom.seed(), digitCount: 16)

    /// Greets a receiver as `<agent>~probe`, and leaves without opening a stream.
    ///
    /// No agent can have that name, so the probe never disconnects or blocks a real agent.
    ///
    package static func greet(
        _ address: NetworkAddress, for agent: AgentConfiguration
    ) throws(Failure) -> Greeting {
        var greeting = try Self.greet(address, as: "\(agent.name)", tls: agent.tls) {
            try agent.presentToken(on: POSIXFileSystem())
        }
        if let fleet = greeting.fleet { greeting.isBelieved = agent.believes(fleet, of: address) }
        return greeting
    }

    /// Greets a receiver as `<name>~probe`.
    ///
    /// - Parameters:
    ///   - tls: `nil` without TLS.
    ///   - token: the token to show; `nil` for none.
    package static func greet(
        _ address: NetworkAddress, as name: String, tls configuration: TLSClientConfiguration?,
        token: () throws -> Secret?
    ) throws(Failure) -> Greeting {
        do {
            let tls = try configuration.map { try TLSClient($0) }
            let inbox = try PumpInbox()
            let group = LinkTransport.makeGroup()
            let attempts = ConnectionAttempts()
            // No batch is sent, so its threads need not run.
            let compressor = BatchCompressor(threadCount: 1, level: 0, rawByteCountMax: 1) {}
            let link = Link(
                to: address, group: group, attempts: attempts, tls: tls, compressor: compressor, inbox: inbox,
                generation: 0)
            defer {
                link.close()
                attempts.whenOver { group.shutdownGracefully { _ in } }
            }
            let hello = Hello(
                versions: LineProtocol.versions, agent: "\(name)~probe", instance: self.instance,
                token: try token()?.revealed, encodings: ["zlib"])
            return try Self.converse(hello, link, inbox)
        } catch let failure as Failure {
            throw failure
        } catch {
            throw Failure(description: "\(error)")
        }
    }

    /// Connects to a receiver's proxied listener, as a proxy that checks it.
    package static func reach(_ place: ListeningPlace) throws(Failure) {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        defer { group.shutdownGracefully { _ in } }
        let bootstrap = ClientBootstrap(group: group).connectTimeout(.nanoseconds(Self.patience.nanoseconds))
        do {
            let channel =
                switch place {
                case .address(let address): try bootstrap.connect(host: address.host, port: address.port).wait()
                case .socket(let path): try bootstrap.connect(unixDomainSocketPath: path).wait()
                }
            let header = ProxyHeader(source: .proxy, software: "check").encoded
            try channel.writeAndFlush(ByteBuffer(bytes: header)).wait()
            try channel.close().wait()
        } catch {
            throw Failure(description: ConnectionFailure.reasons(of: error))
        }
    }

    private static func converse(_ hello: Hello, _ link: Link, _ inbox: PumpInbox) throws -> Greeting {
        let clock = POSIXClock()
        let deadline = clock.monotonicTime() + Self.patience
        var bytes: [UInt8] = []
        while clock.monotonicTime() < deadline {
            for (_, event) in inbox.drain() {
                switch event {
                case .connected:
                    link.send(.hello(hello))
                    link.read()
                case .received(let received):
                    bytes += received
                    link.read()
                    if let greeting = try Self.answer(bytes) {
                        link.send(.bye)
                        return greeting
                    }
                case .closed(let reason): throw Failure(description: reason)
                case .stop, .bufferFreed, .asked, .peer: break
                }
            }
            _ = inbox.wake.wait(for: nil, timeout: deadline - clock.monotonicTime())
        }
        throw Failure(description: "it does not answer HELLO")
    }

    /// What the receiver says, once its `READY` is complete.
    private static func answer(_ bytes: [UInt8]) throws -> Greeting? {
        let decoded = try bytes.withUnsafeBytes { bytes in try Message.decode(prefixOf: bytes) }
        switch decoded?.message {
        case .ready(let ready): return Greeting(receiver: ready.receiver.name, fleet: ready.fleet)
        case .err(let code, let text): throw Failure(description: "it refuses this agent (\(code.rawValue)): \(text)")
        case .move: throw Failure(description: "it sends agents to other receivers (MOVE); name one of those")
        case .some: throw Failure(description: "it answers HELLO with another message than READY; is it a receiver?")
        case nil: return nil
        }
    }

    /// Listens on an address briefly.
    package static func bind(_ address: NetworkAddress) throws(Failure) {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        defer { group.shutdownGracefully { _ in } }
        do {
            try ServerBootstrap(group: group).serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .bind(host: address.host, port: address.port).wait().close().wait()
        } catch {
            throw Failure(description: ConnectionFailure.reason(of: error))
        }
    }
}
