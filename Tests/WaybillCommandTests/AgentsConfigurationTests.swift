import Testing
import WaybillProjection
import WaybillReceiver
import WaybillSystem

@testable import WaybillCommands

/// `agents:` in the receiver's section, and in a file of its own.
@Suite struct AgentsConfigurationTests {
    private static let digest = "sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f"

    private static func file(_ agents: String, tls: String = "") -> ConfigurationFile {
        ConfigurationFile(yaml: "receiver:\n  data: d\n\(tls)  agents:\n\(agents)", directory: ".")
    }

    private static func problems(_ agents: String, tls: String = "") -> [String] {
        self.file(agents, tls: tls).problems.map { $0.text(in: "f") }
    }

    @Test func `each key of an entry has its place`() throws {
        let file = Self.file(
            """
                - {name: web, tokens: "\(Self.digest)", envs: prod, bundles: [com.example.*, tool], formerly: [www, old]}
                - {name: phones, tokens: ["sha256:\(String(repeating: "ab", count: 32))"], devices: on, share: 20,
                   adopt: on, skip_mib: 3,
                   quotas: {connections: 9, kib_second: 64, agent_kib_second: 8, day_mib: 2, streams: 7, apps: 6, days: 5}}

            """)
        #expect(file.problems.isEmpty)
        let agents = try #require(file.receiver?.agents)
        #expect(agents.map(\.name) == ["web", "phones"])
        #expect(agents[0].tokens == [TokenDigest(of: "0123456789abcdef")])
        #expect(agents[0].environments == ["prod"] && agents[0].bundles == ["com.example.*", "tool"])
        #expect(agents[0].formerly == ["www", "old"] && !agents[0].adopts && !agents[0].hasDevices)
        #expect(agents[1].hasDevices && agents[1].adopts && agents[1].share == 20)
        #expect(agents[1].skippedByteCountMax == 3 << 20)
        #expect(agents[0].quotas == PrincipalQuotas())
        let quotas = agents[1].quotas
        #expect(quotas.connectionCountMax == 9 && quotas.byteRateMax == 64 << 10 && quotas.agentByteRateMax == 8 << 10)
        #expect(quotas.dayByteCountMax == 2 << 20 && quotas.ofAgent.streamCountMax == 7)
        #expect(quotas.ofAgent.appCountMax == 6 && quotas.ofAgent.dayCountMax == 5)
    }

    @Test(arguments: [
        ("    - {tokens: \"\(Self.digest)\"}\n", "agents[0].name: is missing: the principal's name"),
        ("    - {name: a/b, tokens: \"\(Self.digest)\"}\n", "agents[0].name: must be 1 to 64 letters"),
        ("    - {name: a}\n", "agents[0].tokens: are missing"),
        ("    - {name: a, tokens: \"sha256:12\"}\n", "agents[0].tokens: must be a list of at most 2"),
        ("    - {name: a, tokens: /no/such.token}\n", "agents[0].tokens: /no/such.token: does not exist"),
        ("    - {name: a, token: \"\(Self.digest)\"}\n", "agents[0].token: is not a key of receiver.agents[0]:"),
        ("    - {name: a, certificates: [x]}\n", "agents[0].certificates: need tls.client_ca"),
        (
            "    - {name: a, tokens: \"\(Self.digest)\", quotas: {stream: 1}}\n",
            "agents[0].quotas.stream: is not a key of receiver.agents[0].quotas:; did you mean streams?"
        ),
        (
            "    - {name: a, tokens: \"\(Self.digest)\", quotas: {kib_second: 0}}\n",
            "agents[0].quotas.kib_second: must be"
        ),
        (
            "    - {name: a, tokens: \"\(Self.digest)\"}\n    - {name: b, tokens: \"\(Self.digest)\"}\n",
            "agents[1].tokens: has a token that is listed twice"
        ),
        ("    []\n", "agents: lists no one"),
    ])
    func `a problem names the entry and what to do`(agents: String, expected: String) {
        #expect(Self.problems(agents).contains { $0.contains("receiver.\(expected)") }, "\(Self.problems(agents))")
    }

    @Test func `with client_ca every principal needs a certificate`() {
        let tls = "  tls: {certificate: a.pem, key: a.key, client_ca: ca.pem}\n"
        #expect(
            Self.problems("    - {name: a, tokens: \"\(Self.digest)\"}\n", tls: tls).contains {
                $0.contains("receiver.agents[0].certificates: are needed")
            })
        #expect(Self.problems("    - {name: a, certificates: [a.example.com]}\n", tls: tls).isEmpty)
    }

    @Test func `a token crosses no network in clear text unless that is allowed`() throws {
        func insecurity(_ keys: String) throws -> Bool {
            let yaml = "receiver:\n  data: d\n\(keys)  agents:\n    - {name: a, tokens: \"\(Self.digest)\"}\n"
            return try #require(ConfigurationFile(yaml: yaml, directory: ".").receiver).insecurity != nil
        }
        #expect(try insecurity("  listen: 0.0.0.0:4390\n"))
        #expect(try !insecurity("  listen: 127.0.0.1:4390\n"))
        #expect(try !insecurity("  listen: localhost:4390\n"))
        #expect(try !insecurity("  listen: 0.0.0.0:4390\n  insecure: on\n"))
        #expect(try !insecurity("  listen: 0.0.0.0:4390\n  tls: {certificate: a.pem, key: a.key}\n"))
    }
}
