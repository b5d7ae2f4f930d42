import Testing
import WaybillProtocol
import WaybillSystem

@testable import WaybillReceiver
@testable import WaybillHost

@Suite struct AgentRegisterTests {
    private static let now = WallTime(milliseconds: 1_790_000_000_000)
    private static let oldToken = "old-token-0123456789"
    private static let newToken = "new-token-0123456789"

    private static func principal(
        _ name: String, tokens: [String] = [], certificates: [String] = [],
        _ change: (inout Principal) -> Void = { _ in }
    ) -> Principal {
        var principal = Principal(name: name)
        principal.tokens = tokens.map { TokenDigest(of: $0) }
        principal.certificates = certificates.compactMap(CertificatePattern.init)
        change(&principal)
        return principal
    }

    private static func hello(_ agent: String = "a", token: String? = nil, key: String? = nil) -> Hello {
        Hello(versions: [1], agent: agent, instance: "1", token: token, key: key, encodings: ["zlib"])
    }

    private static func certificate(
        _ names: [String], digit: Character = "a", isForClients: Bool = true, expiresIn milliseconds: Int64 = 1000
    ) -> PeerCertificate {
        PeerCertificate(
            fingerprint: String(repeating: digit, count: 64), names: names, isForClients: isForClients,
            expiry: WallTime(milliseconds: Self.now.milliseconds + milliseconds))
    }

    private static func admitted(
        _ hello: Hello, _ certificate: PeerCertificate? = nil, by register: AgentRegister
    ) -> Result<String, AgentRefusal> {
        register.authenticate(AgentCredentials(hello, certificate: certificate), at: Self.now).map(\.fullName)
    }

    @Test func `without agents the one token admits everybody, as one principal`() {
        let register = AgentRegister(token: Secret(Self.newToken))
        #expect(Self.admitted(Self.hello(token: Self.newToken), by: register) == .success("a"))
        #expect(Self.admitted(Self.hello(token: Self.oldToken), by: register) == .failure(.token))
        #expect(Self.admitted(Self.hello(), by: register) == .failure(.token))
        #expect(Self.admitted(Self.hello(token: "any"), by: AgentRegister(token: nil)) == .success("a"))
    }

    @Test func `both tokens of a principal are valid, and name it`() {
        let register = AgentRegister([
            Self.principal("web", tokens: [Self.oldToken, Self.newToken]),
            Self.principal("api", tokens: ["api-token-0123456789"]),
        ])
        #expect(Self.admitted(Self.hello(token: Self.oldToken), by: register) == .success("web/a"))
        #expect(Self.admitted(Self.hello(token: Self.newToken), by: register) == .success("web/a"))
        #expect(Self.admitted(Self.hello(token: "api-token-0123456789"), by: register) == .success("api/a"))
        for token in [nil, "", "old-token-012345678", "old-token-01234567890"] {
            #expect(Self.admitted(Self.hello(token: token), by: register) == .failure(.token))
        }
    }

    @Test func `a certificate names the principal, and a token with it must agree`() {
        let register = AgentRegister([
            Self.principal("web", tokens: [Self.newToken], certificates: ["web.example.com"]),
            Self.principal(
                "api", tokens: [Self.oldToken], certificates: ["sha256:" + String(repeating: "b", count: 64)]),
        ])
        let web = Self.certificate(["x", "web.example.com"])
        #expect(Self.admitted(Self.hello(), web, by: register) == .success("web/a"))
        #expect(Self.admitted(Self.hello(token: Self.newToken), web, by: register) == .success("web/a"))
        #expect(Self.admitted(Self.hello(token: Self.oldToken), web, by: register) == .failure(.mismatch))
        #expect(Self.admitted(Self.hello(token: "wrong"), web, by: register) == .failure(.mismatch))
        #expect(Self.admitted(Self.hello(), Self.certificate([], digit: "b"), by: register) == .success("api/a"))
    }

    @Test func `a certificate that does not fit is refused though the token be right`() {
        let register = AgentRegister([
            Self.principal("web", tokens: [Self.newToken], certificates: ["web.example.com"]),
            Self.principal("api", certificates: ["*.example.com", "both.example.com"]),
            Self.principal("ops", certificates: ["both.example.org"]),
        ])
        let hello = Self.hello(token: Self.newToken)
        #expect(Self.admitted(hello, Self.certificate(["other.example.com"]), by: register) == .failure(.certificate))
        #expect(Self.admitted(hello, Self.certificate([]), by: register) == .failure(.certificate))
        // Two principals: it is unknown whose it is.
        let both = Self.certificate(["both.example.com", "both.example.org"])
        #expect(Self.admitted(Self.hello(), both, by: register) == .failure(.certificate))
        let server = Self.certificate(["web.example.com"], isForClients: false)
        #expect(Self.admitted(hello, server, by: register) == .failure(.usage))
        let old = Self.certificate(["web.example.com"], expiresIn: -1)
        #expect(Self.admitted(hello, old, by: register) == .failure(.expired))
    }

    @Test func `a revoked certificate is refused, with agents and without`() throws {
        let revocations = try #require(RevocationList(pem: CertificateSamples.list))
        let certificate = try CertificateSamples.certificate(CertificateSamples.revoked)
        let good = try CertificateSamples.certificate(CertificateSamples.good)
        let agents = [
            Self.principal("web", certificates: ["good.example.com"]),
            Self.principal("api", certificates: ["bad.example.com"]),
        ]
        #expect(Self.admitted(Self.hello(), certificate, by: AgentRegister(agents)) == .success("api/a"))
        let register = AgentRegister(agents, revocations: revocations)
        #expect(Self.admitted(Self.hello(), certificate, by: register) == .failure(.revoked))
        #expect(Self.admitted(Self.hello(), good, by: register) == .success("web/a"))
        let open = AgentRegister(token: nil, revocations: revocations)
        #expect(Self.admitted(Self.hello(), certificate, by: open) == .failure(.revoked))
        #expect(Self.admitted(Self.hello(), good, by: open) == .success("a"))
    }

    @Test func `a device proves its name with its key, and owns its streams alone`() throws {
        let register = AgentRegister([
            Self.principal("phones", tokens: [Self.newToken]) { principal in
                principal.hasDevices = true
                principal.formerly = ["app"]
                principal.bundles = ["com.example.*"]
            }
        ])
        // Sixteen zeros; the name is the beginning of their SHA-256, as `sha256sum` gives it.
        let key = try #require(DeviceKey([UInt8](repeating: 0, count: 16))).text
        let name = "374708fff7719dd5979ec875d56cd228"
        let credentials = AgentCredentials(Self.hello(name, token: Self.newToken, key: key), certificate: nil)
        let device = try register.authenticate(credentials, at: Self.now).get()
        #expect(device.owner == StreamOwner(principal: "phones/\(name)", bundles: ["com.example.*"]))
        #expect(device.owner.principalName == "phones")
        #expect(device.formerOwners == ["app/\(name)"])
        for (agent, key) in [
            (name, nil), ("app", key),
            (name, DeviceKey([UInt8](repeating: 1, count: 16))?.text),
            (name, String(key.dropLast(2))), (name, "no base64"),
        ] {
            let hello = Self.hello(agent, token: Self.newToken, key: key)
            #expect(Self.admitted(hello, by: register) == .failure(.device))
        }
    }

    @Test func `a foreign file opens only within the patterns`() {
        func may(_ format: StreamFormat, _ env: String, _ bundle: String) -> Bool {
            var principal = Principal(name: "web")
            principal.environments = ["prod"]
            principal.bundles = ["com.example.*", "tool"]
            let description = StreamDescription(
                id: StreamID(unchecked: "s"), source: "/f", environment: env, bundle: bundle, format: format)
            return AdmittedAgent(principal: principal, agent: "a").mayOpen(description)
        }
        #expect(may(.ndjson, "prod", "com.example.web") && may(.ndjson, "prod", "tool"))
        #expect(!may(.ndjson, "dev", "com.example.web") && !may(.ndjson, "prod", "com.rival"))
        // Its lines name env and bundle themselves.
        #expect(may(.waybill, "dev", "unknown"))
    }

    @Test func `a digest is read as text and never printed`() throws {
        let digits = "6e6a5a0f8c0c2d7e4a7f1e1e2f3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a"
        let digest = try #require(TokenDigest("sha256:" + digits))
        #expect("\(digest)" == "<digest>")
        for text in ["", digits, "sha256:", "sha256:" + digits.uppercased(), "sha256:" + digits.dropLast(2)] {
            #expect(TokenDigest(text) == nil)
        }
        // printf %s 0123456789abcdef | sha256sum
        let known = TokenDigest("sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f")
        #expect(known == TokenDigest(of: "0123456789abcdef"))
    }

    // MARK: Checks

    private static func problems(_ principals: [Principal], requiresCertificates: Bool = false) -> [String] {
        AgentRegister.problems(of: principals, requiresCertificates: requiresCertificates).map { problem in
            "\(problem.index).\(problem.key): \(problem.text)"
        }
    }

    @Test func `good principals have no problems`() {
        #expect(
            Self.problems([
                Self.principal("a", tokens: [Self.oldToken, Self.newToken]) { $0.formerly = ["b", "c"] },
                Self.principal("d", tokens: ["d-token-0123456789"]) { $0.formerly = ["e"] },
            ]).isEmpty)
        #expect(Self.problems([Self.principal("a", certificates: ["x"])], requiresCertificates: true).isEmpty)
    }

    @Test func `two principals never share a name, a credential or a past`() {
        let found = Self.problems([
            Self.principal("a", tokens: [Self.oldToken]) { $0.formerly = ["x"] },
            Self.principal("a", tokens: [Self.oldToken]) { $0.formerly = ["x"] },
            Self.principal("b", tokens: [Self.newToken]) { $0.formerly = ["a"] },
        ])
        #expect(found.count == 4)
        #expect(found.contains("1.name: a appears twice; give each principal a name of its own"))
        #expect(found.contains { $0.hasPrefix("1.tokens: has a token that is listed twice") })
        #expect(found.contains("1.formerly: x is also a former name of a; one of the two has its streams"))
        #expect(found.contains { $0.hasPrefix("2.formerly: a is the name of a principal") })
    }

    @Test func `a principal has credentials that someone can show`() {
        #expect(Self.problems([Self.principal("a")]).map { $0.prefix(20) } == ["0.tokens: are missin"])
        #expect(
            Self.problems([Self.principal("a", tokens: ["1", "2", "3"])]).map { $0.prefix(22) }
                == ["0.tokens: are more tha"])
        #expect(
            Self.problems([Self.principal("a", tokens: [Self.newToken])], requiresCertificates: true).map {
                $0.prefix(30)
            } == ["0.certificates: are needed: wi"])
        #expect(
            Self.problems([Self.principal("a", certificates: ["x"])]).map { $0.prefix(28) }
                == ["0.certificates: need tls.cli"])
    }
}

@Suite struct FailureDelayTests {
    private func time(_ seconds: Int64) -> MonotonicTime {
        MonotonicTime(nanoseconds: 1_000_000_000 * (100 + seconds))
    }

    @Test func `each failure of an address is answered later, up to a bound`() {
        var pace = FailureDelay()
        let delays = (0..<12).map { _ in pace.failed(from: "a", at: self.time(0)) }
        #expect(delays[0...3] == [.zero, .zero, .zero, .milliseconds(250)])
        #expect(zip(delays, delays.dropFirst()).allSatisfy { $0 <= $1 })
        let other = pace.failed(from: "b", at: self.time(0))
        #expect([delays[11], other] == [.seconds(5), .zero])
    }

    @Test func `a minute without failures is forgiven`() {
        var pace = FailureDelay()
        for _ in 0..<9 { _ = pace.failed(from: "a", at: self.time(0)) }
        let delays = [59, 120].map { pace.failed(from: "a", at: self.time($0)) }
        #expect(delays == [.seconds(5), .zero])
    }

    @Test func `the number of addresses is bounded`() {
        var pace = FailureDelay()
        for _ in 0..<5 { _ = pace.failed(from: "first", at: self.time(0)) }
        for number in 0..<20_000 { _ = pace.failed(from: "\(number)", at: self.time(0)) }
        let delay = pace.failed(from: "first", at: self.time(0))
        #expect(delay == .zero)
    }
}
