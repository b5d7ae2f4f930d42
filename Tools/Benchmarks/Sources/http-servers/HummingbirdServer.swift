internal import Hummingbird
internal import Logging
internal import NIOPosix

/// As hummingbird's guide builds a server: a router and one route.
enum HummingbirdServer {
    static func run(port: Int, on group: MultiThreadedEventLoopGroup) async throws {
        let router = Router()
        router.post("/v1/b") { request, _ in
            let body = try await request.body.collect(upTo: Answer.bodyByteCountMax)
            return Response(
                status: .ok, headers: [.contentType: "application/json"],
                body: ResponseBody(
                    byteBuffer: ByteBuffer(string: Answer.text(bodyByteCount: body.readableBytes))))
        }
        let logger = Logger(label: "http-servers") { _ in SwiftLogNoOpLogHandler() }
        let application = Application(
            router: router, configuration: .init(address: .hostname("127.0.0.1", port: port), backlog: 1024),
            eventLoopGroupProvider: .shared(group), logger: logger)
        try await application.runService()
    }
}
