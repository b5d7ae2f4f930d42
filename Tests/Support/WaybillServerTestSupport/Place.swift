#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif
internal import Logging
internal import ServiceLifecycle
package import Waybill
package import WaybillDispatch
package import WaybillReceiver
internal import WaybillSystem
internal import WaybillTestSupport

#if canImport(Glibc)
    private let streamSocket = Int32(SOCK_STREAM.rawValue)
#else
    private let streamSocket = SOCK_STREAM
#endif

/// A folder for one test: a spool, and a receiver's data.
package final class Place: Sendable {
    package let path: String
    /// No one listens on it, and no other test is given it.
    package let port: Int
    /// Keeps the port; a receiver may bind it beside.
    private let keeper: Int32

    package init() throws {
        self.path = try makeFolder()
        (self.keeper, self.port) = Self.boundSocket()
    }

    deinit {
        close(self.keeper)
        removeFolder(self.path)
    }

    package var spool: String { "\(self.path)/spool" }

    static func newSocket() -> Int32 { socket(AF_INET, streamSocket, 0) }

    /// A bound socket of any port, which others may bind as long as none listens.
    static func boundSocket() -> (file: Int32, port: Int) {
        let file = Self.newSocket()
        var isShared: Int32 = 1
        setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &isShared, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                _ = bind(file, generic, length)
                getsockname(file, generic, &length)
            }
        }
        return (file, Int(UInt16(bigEndian: address.sin_port)))
    }

    package var configuration: WaybillClient.Configuration {
        WaybillClient.Configuration(
            spool: self.spool, environment: .prod, bundle: "com.example.shop", version: "1.4.2", build: "118")
    }

    package func waybill() throws -> WaybillClient {
        try WaybillClient(self.configuration)
    }

    package func dispatcher(
        port: Int? = nil, mode: Dispatcher.Mode = .manual, security: Dispatcher.Security = .plain,
        patience: Duration = .seconds(86_400), finished: (@Sendable (DispatchResult) -> Void)? = nil
    ) throws -> Dispatcher {
        var configuration = Dispatcher.Configuration(
            spool: self.spool, receivers: ["127.0.0.1:\(port ?? self.port)"], mode: mode, security: security)
        configuration.patience = patience
        configuration.finished = finished
        return try Dispatcher(configuration)
    }

    /// Runs a receiver while `body` runs, and lets it finish.
    package func receiving<Result>(
        adjusting adjust: (inout ReceiverConfiguration) -> Void = { _ in }, _ body: () async throws -> Result
    ) async throws -> Result {
        var configuration = ReceiverConfiguration(dataDirectory: "\(self.path)/data")
        configuration.listen.port = self.port
        adjust(&configuration)
        var logger = Logger(label: "receiver")
        logger.logLevel = .error
        let (starts, start) = AsyncStream<Void>.makeStream()
        let receiver = Receiver(
            configuration: configuration, logger: logger, onListening: { _ in start.finish() })
        let group = ServiceGroup(services: [receiver], logger: logger)
        async let end: Void = {
            defer { start.finish() }
            try await group.run()
        }()
        for await _ in starts {}
        let result = try await body()
        await group.triggerGracefulShutdown()
        try await end
        return result
    }

    /// The names of all archived events, in the files' order.
    package func archivedNames() throws -> [String] {
        try self.files(under: "data/archive").filter { $0.hasSuffix(".ndjson") }.flatMap { path in
            let bytes = try POSIXFileSystem().contents(of: path) ?? []
            return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map { line in
                let start = line.firstRange(of: "\"name\":\"")?.upperBound ?? line.endIndex
                return String(line[start...].prefix { $0 != "\"" })
            }
        }
    }

    /// The paths of all files below a folder of this place.
    package func files(under folder: String) throws -> [String] {
        try Self.files(under: Path.join(self.path, folder))
    }

    private static func files(under path: String) throws -> [String] {
        let files = POSIXFileSystem()
        guard let status = try files.status(at: path) else { return [] }
        guard status.kind == .directory else { return [path] }
        return try files.list(path).flatMap { try Self.files(under: Path.join(path, $0)) }
    }
}

/// Takes connections and says nothing.
package final class SilentReceiver: Sendable {
    private let file: Int32
    package let port: Int

    package init() {
        (self.file, self.port) = Place.boundSocket()
        listen(self.file, 16)
    }

    deinit {
        close(self.file)
    }

    /// Whether anybody has connected.
    package var hasCaller: Bool {
        var listener = pollfd(fd: self.file, events: Int16(POLLIN), revents: 0)
        return poll(&listener, 1, 0) != 0
    }
}
