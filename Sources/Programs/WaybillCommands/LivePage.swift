import ServiceLifecycle
import WaybillLive
import WaybillSystem

/// The page as a service, for `waybill live` with and without `--dev`.
struct LivePage: Service {
    var configuration: LiveConfiguration
    let isTokenShown: Bool

    func run() async throws {
        let server = try await self.start()
        Console.write(self.address(port: server.port) + "\n", to: 1)
        self.configuration.manager.tell(.ready, .status("listening on \(self.listen(port: server.port))"))
        try await gracefulShutdown()
        try await server.stop()
    }

    /// Starts to answer.
    func start() async throws -> LiveServer {
        let reports = PageReports(data: self.configuration.data, isMasked: !self.configuration.mask.isEmpty)
        return try await LiveServer.start(self.configuration) { parameters throws(Access.Refusal) in
            try reports.json(parameters)
        }
    }

    /// What to open in the browser; the part after # is in no request and in no log of a server.
    func address(port: Int) -> String {
        let scheme = self.configuration.tls == nil ? "http" : "https"
        let fragment = self.isTokenShown ? "#t=\(self.configuration.token.revealed)" : ""
        return "\(scheme)://\(self.listen(port: port))/\(fragment)"
    }

    private func listen(port: Int) -> NetworkAddress {
        var address = self.configuration.listen
        address.port = port
        return address
    }
}
