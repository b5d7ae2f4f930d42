package import NIOCore
package import NIOHTTP1
package import NIOPosix

/// What a connection's request is answered with; confined to the connection's event loop.
package protocol HTTPRoutes: AnyObject {
    /// A part of the request came, or of what follows it.
    func take(_ part: HTTPServerRequestPart, _ exchange: HTTPExchange)
    /// The connection ended.
    func closed()
}

/// A connection that answers one request and ends.
///
/// It ends as well when its time is over, for invalid HTTP, which the pipeline answers with 400, and as the one that has been
/// silent longest, for one too many (``ConnectionPlaces``).
package final class HTTPExchange: ChannelInboundHandler {
    package typealias InboundIn = HTTPServerRequestPart

    package let channel: any Channel
    private let routes: any HTTPRoutes
    private let places: ConnectionPlaces
    private var deadline: Scheduled<Void>?

    init(_ channel: any Channel, _ routes: any HTTPRoutes, _ places: ConnectionPlaces, in time: TimeAmount) {
        self.channel = channel
        self.routes = routes
        self.places = places
        self.end(in: time)
    }

    /// Accepts connections that answer one request each.
    ///
    /// - Parameters:
    ///   - countMax: how many may be open, and how many may wait to be accepted.
    ///   - time: for a request.
    ///   - routes: those of a connection; `nil`: the server does not answer yet.
    package static func bootstrap(
        _ group: any EventLoopGroup, _ places: ConnectionPlaces, countMax: Int, tls: TLSServer? = nil,
        in time: TimeAmount, _ routes: @escaping @Sendable () -> (any HTTPRoutes)?
    ) -> ServerBootstrap {
        ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: Int32(countMax))
            .childChannelInitializer { channel in
                let limits = ConnectionLimits(countMax: countMax)
                guard let routes = routes(), places.take(for: channel, of: nil, limits) != .refused else {
                    return channel.close()
                }
                let exchange = HTTPExchange(channel, routes, places, in: time)
                return channel.eventLoop.makeCompletedFuture {
                    try tls?.addHandlers(to: channel, linger: .seconds(1)) { _, _, _ in }
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(exchange)
                }
            }
    }

    package func channelInactive(context: ChannelHandlerContext) {
        self.deadline?.cancel()
        self.routes.closed()
        context.fireChannelInactive()
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.routes.take(self.unwrapInboundIn(data), self)
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The pipeline has answered invalid HTTP with 400.
        context.close(promise: nil)
    }

    /// - Parameter time: from now on; `nil`: as long as the peer stays.
    package func end(in time: TimeAmount?) {
        self.deadline?.cancel()
        self.deadline = time.map { [channel] in
            channel.eventLoop.scheduleTask(in: $0) { channel.close(promise: nil) }
        }
    }

    /// Its request is answered before it ends for another one.
    package func keep() {
        self.places.change(self.channel) { $0.asked($1) }
    }

    /// Answers the request; a peer that does not read gives its place to the next.
    ///
    /// - Parameter time: for the answer; `nil`: what is left of the request's.
    package func answer(
        _ status: HTTPResponseStatus, _ headers: HTTPHeaders, _ body: [UInt8]?, in time: TimeAmount? = nil
    ) {
        guard self.channel.isActive else { return }
        if let time { self.end(in: time) }
        self.places.change(self.channel) { $0.rested($1) }
        self.channel.answer(HTTPResponseHead(version: .http1_1, status: status, headers: headers), body)
            .whenComplete { [channel] _ in channel.close(promise: nil) }
    }
}

extension Channel {
    /// Sends a whole answer.
    package func answer(_ head: HTTPResponseHead, _ body: [UInt8]?) -> EventLoopFuture<Void> {
        self.write(HTTPServerResponsePart.head(head), promise: nil)
        if let body { self.write(HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(bytes: body))), promise: nil) }
        return self.writeAndFlush(HTTPServerResponsePart.end(nil))
    }
}
