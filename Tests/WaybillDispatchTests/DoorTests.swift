import Logging
import ServiceLifecycle
import Testing
import Waybill
@testable import WaybillAgent
@testable import WaybillDispatch
import WaybillDoor
import WaybillIngest
import WaybillHost
import WaybillProtocol
import WaybillReceiver
import WaybillServerTestSupport
import WaybillSystem

/// Rounds through a tunnel: by a door to a receiver, with the promises of a connection.
@Suite struct DoorTests {
    private static let token = "app-0123456789abcdef"

    /// A receiver's place, and one whose port the door has.
    private struct Places {
        let place: Place
        let door: Place
        var url: String { "http://127.0.0.1:\(self.door.port)/" }
        /// Where the receiver's proxies arrive.
        var socket: String { "\(self.door.path)/line.sock" }

        init() throws {
            self.place = try Place()
            self.door = try Place()
        }

        func configuration(_ url: String? = nil, security: Dispatcher.Security = .tls) -> Dispatcher.Configuration {
            var configuration = Dispatcher.Configuration(
                spool: self.place.spool, receivers: [url ?? self.url], mode: .manual, security: security,
                token: DoorTests.token)
            configuration.patience = .seconds(86_400)
            return configuration
        }
    }

    private static let agents: [Principal] = {
        var app = Principal(name: "app")
        app.tokens = [TokenDigest(of: DoorTests.token)]
        app.hasDevices = true
        return [app]
    }()

    /// Runs a door while `body` runs.
    private static func forwarding<Result>(
        _ places: Places, identity: CertificateFiles? = nil, _ body: () async throws -> Result
    ) async throws -> Result {
        let path = places.door.path
        var configuration = DoorConfiguration(
            listen: NetworkAddress(host: "127.0.0.1", port: places.door.port), spool: "\(path)/spools",
            quarantine: "\(path)/quarantine")
        configuration.freeByteCountMin = 0
        (configuration.certificate, configuration.privateKey) = (identity?.chain, identity?.key)
        configuration.line.receiver = .socket(places.socket)
        var logger = Logger(label: "door")
        logger.logLevel = .critical
        let group = ServiceGroup(
            services: [DoorService(configuration, logger: logger)], logger: logger)
        async let end: Void = group.run()
        let result = try await body()
        await group.triggerGracefulShutdown()
        try await end
        return result
    }

    private static func receiving<Result>(
        _ places: Places, _ body: () async throws -> Result
    ) async throws -> Result {
        try await places.place.receiving(
            adjusting: {
                $0.agents = Self.agents
                $0.proxied.place = .socket(places.socket)
            }, body)
    }

    @Test func `rounds through a door deliver everything once, and seal what has ended`() async throws {
        let places = try Places()
        let dispatcher = try Dispatcher(places.configuration())
        let results = try await Self.receiving(places) {
            try await Self.forwarding(places) {
                var results: [DispatchResult] = []
                do {
                    let waybill = try places.place.waybill()
                    for number in 0..<10 { waybill.track("e\(number)") }
                    results.append(await dispatcher.flush())
                    results.append(await dispatcher.flush())
                    for number in 10..<2000 { waybill.track("e\(number)") }
                    results.append(await dispatcher.drain(until: .now + .seconds(86_400)))
                }
                results.append(await dispatcher.flush())
                return results
            }
        }
        #expect(
            results == [
                .delivered(10, remaining: 0), .nothingToSend, .delivered(1990, remaining: 0), .nothingToSend,
            ])
        #expect(try places.place.archivedNames() == (0..<2000).map { "e\($0)" })
        #expect(try places.place.files(under: "spool").filter { $0.hasSuffix(".ndjson") } == [])
    }

    @Test func `without the door, or without the receiver behind it, everything is kept for the next round`()
        async throws
    {
        let places = try Places()
        let waybill = try places.place.waybill()
        waybill.track("e0")
        var configuration = places.configuration()
        configuration.patience = .milliseconds(50)
        let impatient = try Dispatcher(configuration)
        guard case .failed(let first) = await impatient.flush() else {
            Issue.record("delivered to no one")
            return
        }
        #expect(first.code == .unreachable && first.remainingCount == 1)
        let second = try await Self.forwarding(places) {
            try await failure(until: { $0.message.contains("the receiver cannot be reached") }) { limit in
                var configuration = places.configuration()
                configuration.patience = limit
                return try await Dispatcher(configuration).flush()
            }
        }
        #expect(second.code == .unreachable && second.remainingCount == 1)
        let dispatcher = try Dispatcher(places.configuration())
        let result = try await Self.receiving(places) {
            try await Self.forwarding(places) { await dispatcher.flush() }
        }
        #expect(result == .delivered(1, remaining: 0))
        #expect(try places.place.archivedNames() == ["e0"])
    }

    @Test func `a receiver that was started again between rounds is the same`() async throws {
        let places = try Places()
        let waybill = try places.place.waybill()
        let dispatcher = try Dispatcher(places.configuration())
        for round in 0..<3 {
            waybill.track("e\(round)")
            let result = try await Self.receiving(places) {
                try await Self.forwarding(places) { await dispatcher.flush() }
            }
            #expect(result == .delivered(1, remaining: 0))
        }
        #expect(try places.place.archivedNames() == ["e0", "e1", "e2"])
    }

    @Test func `a wrong token is named`() async throws {
        let places = try Places()
        try places.place.waybill().track("e0")
        let refused = try await Self.receiving(places) {
            try await Self.forwarding(places) {
                try await failure(until: { $0.message.contains("token") }) { limit in
                    var configuration = Dispatcher.Configuration(
                        spool: places.place.spool, receivers: [places.url], mode: .manual,
                        token: "wrong-0123456789abcdef")
                    configuration.patience = limit
                    return try await Dispatcher(configuration).flush()
                }
            }
        }
        #expect(refused.code == .unreachable)
        #expect(refused.message.contains("the token is missing or wrong (token)"))
    }

    @Test(.enabled(if: Dispatcher.doorsTakeAuthorities))
    func `over TLS the door's certificate is verified`() async throws {
        let places = try Places()
        try places.place.waybill().track("e0")
        let made = try SelfMadeCertificate(host: "127.0.0.1", at: POSIXClock().wallTime())
        let identity = CertificateFiles(chain: "\(places.door.path)/c.pem", key: "\(places.door.path)/k.pem")
        try POSIXFileSystem().replace(identity.chain, with: made.certificate)
        try POSIXFileSystem().replace(identity.key, with: made.key)
        let url = "https://127.0.0.1:\(places.door.port)"
        let trusting = try Dispatcher(places.configuration(url, security: .tls(authorities: identity.chain)))
        let (refused, result) = try await Self.receiving(places) {
            try await Self.forwarding(places, identity: identity) {
                let refused = try await failure(until: { $0.message.lowercased().contains("certificate") }) { limit in
                    var configuration = places.configuration(url)
                    configuration.patience = limit
                    return try await Dispatcher(configuration).flush()
                }
                return (refused, await trusting.flush())
            }
        }
        #expect(refused.remainingCount == 1)
        #expect(result == .delivered(1, remaining: 0))
        #expect(try places.place.archivedNames() == ["e0"])
    }

    @Test(arguments: [
        ("http://events.example.com/", Dispatcher.Security.tls, "in the clear"),
        ("ftp://events.example.com/", .tls, "is not an address"),
        ("https://user@events.example.com/", .tls, "a user"),
        ("https://events.example.com/?a=b", .tls, "a query"),
        ("https:///", .tls, "is not an address"),
        ("https://events.example.com", .pinned(sha256: String(repeating: "0", count: 64)), "pinned"),
    ])
    func `an address that is no door's is refused`(
        address: String, security: Dispatcher.Security, text: String
    ) throws {
        let places = try Places()
        let failure = #expect(throws: DispatchFailure.self) {
            try Dispatcher(places.configuration(address, security: security))
        }
        #expect(failure?.code == .configuration)
        #expect(failure?.message.contains(text) == true, "\(failure?.message ?? "")")
    }

    @Test(arguments: [
        ("https://events.example.com", "wss://events.example.com:443/v1/line"),
        ("HTTPS://events.example.com:8443/waybill", "wss://events.example.com:8443/waybill/v1/line"),
        ("http://127.0.0.1:4380/", "ws://127.0.0.1:4380/v1/line"), ("http://[::1]:4380", "ws://[::1]:4380/v1/line"),
        ("http://localhost/a/b/", "ws://localhost:80/a/b/v1/line"),
    ])
    func `an address has its port and its path`(text: String, url: String) throws {
        #expect(try DoorAddress(text).url == url)
    }
}
