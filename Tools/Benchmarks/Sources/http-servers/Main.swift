internal import NIOPosix

/// Two bare HTTP servers, which take a body and answer, with nothing behind them: what a server's library costs.
///
///     http-servers nio|hummingbird PORT
@main
enum Main {
    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        guard arguments.count == 2, let port = arguments.last.flatMap({ Int($0) }) else {
            fatalError("usage: http-servers nio|hummingbird PORT")
        }
        // As the door has.
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        switch arguments.first {
        case "nio": try await NIOServer.run(port: port, on: group)
        case "hummingbird": try await HummingbirdServer.run(port: port, on: group)
        default: fatalError("usage: http-servers nio|hummingbird PORT")
        }
    }
}

enum Answer {
    static let bodyByteCountMax = 4 << 20

    /// As long as the door's.
    static func text(bodyByteCount: Int) -> String { "{\"success\":true,\"stored\":\(bodyByteCount),\"repeated\":0}" }
}
