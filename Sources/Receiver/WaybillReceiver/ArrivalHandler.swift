internal import NIOCore
internal import WaybillProtocol

/// Counts a connection as soon as its address is known, and leaves the pipeline.
///
/// When there is no room it tells the agent to come back later; with TLS that would take a handshake, so it only closes.
final class ArrivalHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let connections: OpenConnections
    private let origin: ConnectionOrigin
    private let hasTLS: Bool

    init(_ connections: OpenConnections, from origin: ConnectionOrigin, hasTLS: Bool) {
        self.connections = connections
        self.origin = origin
        self.hasTLS = hasTLS
    }

    func channelActive(context: ChannelHandlerContext) {
        guard self.connections.add(context.channel, from: self.origin.account) else { return self.refuse(context) }
        context.fireChannelActive()
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    private func refuse(_ context: ChannelHandlerContext) {
        guard !self.hasTLS else { return context.close(promise: nil) }
        let message = Message.err(
            .unavailable, text: "this receiver has as many connections as it may; come back later")
        context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(bytes: message.encoded)), promise: nil)
        context.close(promise: nil)
    }
}
