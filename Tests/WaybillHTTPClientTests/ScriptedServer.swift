import NIOCore
import NIOPosix
import WaybillSystem

/// An HTTP server in this process that answers each request with bytes that a test wrote, and keeps what it was asked.
final class ScriptedServer: Sendable {
    struct Request: Sendable {
        var head: String
        var body: [UInt8]

        var line: String { String(self.head.prefix { $0 != "\r\n" }) }

        func header(_ name: String) -> String? {
            for line in self.head.split(separator: "\r\n").dropFirst() {
                let parts = line.split(separator: ":", maxSplits: 1)
                if parts.count == 2, parts[0].lowercased() == name { return String(parts[1].drop { $0 == " " }) }
            }
            return nil
        }
    }

    /// The bytes of an answer, after which the connection stays open or ends.
    struct Reply: Sendable {
        var bytes: [UInt8]
        var closes = false
        /// Sent again and again until the client goes.
        var endless: [UInt8] = []

        init(_ status: Int, _ headers: [String] = [], body: String = "", closes: Bool = false) {
            let lines = ["HTTP/1.1 \(status) Status", "Content-Length: \(body.utf8.count)"] + headers
            self.bytes = Array((lines.joined(separator: "\r\n") + "\r\n\r\n" + body).utf8)
            self.closes = closes
        }

        init(raw: String, closes: Bool) {
            self.bytes = Array(raw.utf8)
            self.closes = closes
        }
    }

    private let channel: any Channel
    private let script: Script

    final class Script: Sendable {
        let requests = Monitor([Request]())
        let reply: @Sendable (Int, Request) -> Reply?

        init(_ reply: @escaping @Sendable (Int, Request) -> Reply?) { self.reply = reply }

        func take(_ request: Request) -> Reply? {
            let number = self.requests.update { requests in
                requests.append(request)
                return requests.count - 1
            }
            return self.reply(number, request)
        }
    }

    var requests: [Request] { self.script.requests.withLock { $0 } }
    var address: String { "http://127.0.0.1:\(self.channel.localAddress?.port ?? 0)" }

    /// - Parameter reply: the answer to a request by its number; `nil` for silence.
    init(_ reply: @escaping @Sendable (Int, Request) -> Reply?) throws {
        let script = Script(reply)
        self.script = script
        self.channel = try ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Connection(script))
                }
            }
            .bind(host: "127.0.0.1", port: 0).wait()
    }

    func close() throws { try self.channel.close().wait() }

    /// Waits until that many requests have come.
    func awaitRequests(_ count: Int) {
        _ = self.script.requests.wait { $0.count >= count ? true : nil }
    }
}

private final class Connection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let script: ScriptedServer.Script
    private var bytes: [UInt8] = []
    /// A request whose body is not whole.
    private var open: ScriptedServer.Request?

    init(_ script: ScriptedServer.Script) { self.script = script }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.bytes += self.unwrapInboundIn(data).readableBytesView
        while let request = self.next() {
            guard let reply = self.script.take(request) else { return }
            context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(bytes: reply.bytes)), promise: nil)
            if !reply.endless.isEmpty { Self.flood(context.channel, ByteBuffer(bytes: reply.endless)) }
            if reply.closes { context.close(promise: nil) }
        }
    }

    /// Writes until it fails, which it does when the client has gone.
    private static func flood(_ channel: any Channel, _ piece: ByteBuffer) {
        channel.writeAndFlush(piece).whenSuccess { Self.flood(channel, piece) }
    }

    /// Reads the head once, however many pieces its body comes in.
    private func next() -> ScriptedServer.Request? {
        if self.open == nil {
            let end = self.bytes.indices.first { self.bytes[$0...].starts(with: Array("\r\n\r\n".utf8)) }
            guard let end else { return nil }
            self.open = ScriptedServer.Request(head: String(decoding: self.bytes[..<end], as: UTF8.self), body: [])
            self.bytes.removeFirst(end + 4)
        }
        guard var request = self.open else { return nil }
        let count = request.header("content-length").flatMap(Int.init) ?? 0
        guard self.bytes.count >= count else { return nil }
        request.body = Array(self.bytes[..<count])
        self.bytes.removeFirst(count)
        self.open = nil
        return request
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
