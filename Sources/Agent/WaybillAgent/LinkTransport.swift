/// Connects links: through Network.framework on Apple's systems, through BSD sockets elsewhere.
///
/// Why: on an iPhone a socket does not wake the cellular radio, does not start a VPN on demand, and does not use the system's
/// proxies; a connection of Network.framework does (Apple's TN3151).
///
///     Link ─▶ LinkTransport.connect ─▶ NIOTSConnectionBootstrap │ ClientBootstrap ─▶ TLS (NIOSSL) ─▶ LinkHandler
///
/// TLS is NIOSSL's over both, not the framework's: pinned certificates, an app's own authorities, an agent's
/// certificate and the texts of failures then have one implementation, whose tests run on Linux too.
internal import NIOCore
internal import NIOPosix
internal import WaybillSystem

#if canImport(Network)
    internal import NIOTransportServices
#endif

enum LinkTransport {
    /// The size of a read.
    private static let readByteCount = 16 << 10

    #if canImport(Network)
        /// How long a receiver's name and all its addresses, which the system tries, have to answer.
        private static let connectTimeout = TimeAmount.seconds(30)

        /// Makes the event loop that carries the bytes of links.
        static func makeGroup() -> any EventLoopGroup {
            NIOTSEventLoopGroup(loopCount: 1)
        }

        /// Connects to a receiver.
        ///
        /// - Parameter prepare: adds the handlers of a channel, before it connects.
        static func connect(
            to address: NetworkAddress, on group: any EventLoopGroup,
            prepare: @escaping @Sendable (any Channel) throws -> Void
        ) -> EventLoopFuture<any Channel> {
            NIOTSConnectionBootstrap(group: group)
                .channelOption(.tcpOption(.tcp_nodelay), value: 1)
                .channelOption(.socketOption(.so_keepalive), value: 1)
                // A refused connection fails at once, instead of waiting for another network: the pump tries again.
                .channelOption(NIOTSChannelOptions.waitForActivity, value: false)
                .channelOption(NIOTSChannelOptions.maximumReceiveLength, value: Self.readByteCount)
                // One read at a time, when the pump has room: see below.
                .channelOption(.autoRead, value: false)
                .connectTimeout(Self.connectTimeout)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture { try prepare(channel) }
                }
                .connect(host: address.host, port: address.port)
        }
    #else
        /// How long one address of a receiver has to answer.
        private static let connectTimeout = TimeAmount.seconds(10)
        /// Never reached: an attempt ends earlier, once the name is looked up and all its addresses have been tried.
        private static let attemptTimeout = TimeAmount.hours(1)

        /// Makes the event loop that carries the bytes of links.
        static func makeGroup() -> any EventLoopGroup {
            MultiThreadedEventLoopGroup(numberOfThreads: 1)
        }

        /// Connects to a receiver.
        ///
        /// - Parameter prepare: adds the handlers of a channel, before it connects; called for each address.
        static func connect(
            to address: NetworkAddress, on group: any EventLoopGroup,
            prepare: @escaping @Sendable (any Channel) throws -> Void
        ) -> EventLoopFuture<any Channel> {
            ClientBootstrap(group: group)
                .channelOption(.tcpOption(.tcp_nodelay), value: 1)
                .channelOption(.socketOption(.so_keepalive), value: 1)
                .channelOption(.connectTimeout, value: Self.connectTimeout)
                .connectTimeout(Self.attemptTimeout)
                // A receiver cannot flood the inbox: reading continues only while the pump takes what arrived. Its
                // messages are short, and an answer to each of thousands takes more memory than they do.
                .channelOption(.autoRead, value: false)
                .channelOption(.maxMessagesPerRead, value: 1)
                .channelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: Self.readByteCount))
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture { try prepare(channel) }
                }
                .connect(host: address.host, port: address.port)
        }
    #endif

    #if os(Linux)
        /// What the kernel knows about the other end; `nil` when the connection is gone.
        ///
        /// Why no `TCP_USER_TIMEOUT`: Linux ends a connection by it also while the peer answers every probe of its window,
        /// which is what the host of a receiver does that pauses reading.
        static func peer(of channel: any Channel) -> TCPPeer? {
            do {
                return try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
                    of: NIOBSDSocket.Handle.self
                ) { TCPPeer(of: $0) } ?? nil
            } catch {
                return nil
            }
        }
    #endif
}

extension EventLoopGroup {
    /// The group for a server's sockets next to links: they do not run on an event loop of Network.framework.
    var forSockets: any EventLoopGroup {
        #if canImport(Network)
            MultiThreadedEventLoopGroup.singleton
        #else
            self
        #endif
    }
}
