internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix

/// As the door is built: a pipeline of SwiftNIO and one handler, which has no hop between a request's end and its answer.
enum NIOServer {
    static func run(port: Int, on group: MultiThreadedEventLoopGroup) async throws {
        let channel = try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.maxMessagesPerRead, value: 4)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline(withPipeliningAssistance: true)
                    try channel.pipeline.syncOperations.addHandler(Handler())
                }
            }
            .bind(host: "127.0.0.1", port: port).get()
        try await channel.closeFuture.get()
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private var body: [UInt8] = []

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch self.unwrapInboundIn(data) {
            case .head: self.body.removeAll(keepingCapacity: true)
            case .body(let bytes):
                guard self.body.count + bytes.readableBytes <= Answer.bodyByteCountMax else {
                    return context.close(promise: nil)
                }
                self.body.append(contentsOf: bytes.readableBytesView)
            case .end:
                let answer = Answer.text(bodyByteCount: self.body.count)
                let headers = HTTPHeaders([
                    ("Content-Type", "application/json"), ("Content-Length", "\(answer.utf8.count)"),
                ])
                let head = HTTPResponseHead(version: .http1_1, status: .ok, headers: headers)
                context.write(self.wrapOutboundOut(.head(head)), promise: nil)
                context.write(self.wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: answer)))), promise: nil)
                context.writeAndFlush(self.wrapOutboundOut(.end(nil)), promise: nil)
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}
