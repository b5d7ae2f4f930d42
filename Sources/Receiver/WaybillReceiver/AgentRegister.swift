package import WaybillProtocol
package import WaybillSystem
package import WaybillHost

/// Which agents are let in, and as whom: decides, without clock, file or connection.
///
///     HELLO, certificate ─▶ AgentCredentials ─▶ authenticate ─▶ AdmittedAgent, or why not
///
/// A certificate decides; a token with it must belong to the same principal. Credentials are kept while a connection is
/// open, so that a changed register can judge them again; tokens are kept as digests only.
package struct AgentRegister: Sendable {
    private enum Entrance {
        /// Without `agents:`: every agent that shows the one token, or every agent.
        case everyone(TokenDigest?)
        case principals([Principal])
    }

    private let entrance: Entrance
    /// Certificates that are no longer valid.
    package let revocations: RevocationList

    /// A receiver without `agents:`.
    package init(token: Secret?, revocations: RevocationList = .empty) {
        self.entrance = .everyone(token.map { TokenDigest(of: $0.revealed) })
        self.revocations = revocations
    }

    /// - Parameter principals: as ``problems(of:requiresCertificates:)`` finds them good.
    package init(_ principals: [Principal], revocations: RevocationList = .empty) {
        self.entrance = .principals(principals)
        self.revocations = revocations
    }

    package func authenticate(
        _ credentials: AgentCredentials, at time: WallTime
    ) -> Result<AdmittedAgent, AgentRefusal> {
        if let certificate = credentials.certificate {
            if self.revocations.revokes(certificate) { return .failure(.revoked) }
            if certificate.expiry < time { return .failure(.expired) }
        }
        switch self.entrance {
        case .everyone(let token):
            guard let token else { break }
            guard let shown = credentials.token, token.isEqual(to: shown) else { return .failure(.token) }
        case .principals(let principals):
            return Self.principal(of: credentials, principals).flatMap { principal in
                guard !principal.hasDevices || credentials.deviceName == credentials.agent else {
                    return .failure(.device)
                }
                return .success(AdmittedAgent(principal: principal, agent: credentials.agent))
            }
        }
        return .success(AdmittedAgent(principal: .everyone, agent: credentials.agent))
    }

    private static func principal(
        of credentials: AgentCredentials, _ principals: [Principal]
    ) -> Result<Principal, AgentRefusal> {
        // Every digest is compared, whatever the others gave.
        var named: Principal?
        if let token = credentials.token {
            for principal in principals {
                for digest in principal.tokens where digest.isEqual(to: token) { named = principal }
            }
        }
        guard let certificate = credentials.certificate else {
            return named.map { .success($0) } ?? .failure(.token)
        }
        guard certificate.isForClients else { return .failure(.usage) }
        let matching = principals.filter { $0.certificates.contains { $0.matches(certificate) } }
        guard let principal = matching.first, matching.count == 1 else { return .failure(.certificate) }
        guard credentials.token == nil || named == principal else { return .failure(.mismatch) }
        return .success(principal)
    }

    // MARK: Checks

    /// A problem with an entry of `agents:`.
    package struct Problem: Hashable, Sendable {
        /// The entry's place in the list.
        package let index: Int
        package let key: String
        package let text: String
    }

    /// What is wrong with a list of principals; the texts say what to do.
    ///
    /// - Parameter requiresCertificates: whether TLS asks every agent for a certificate.
    package static func problems(of principals: [Principal], requiresCertificates: Bool) -> [Problem] {
        var problems: [Problem] = []
        var tokens: [TokenDigest: String] = [:]
        var certificates: [CertificatePattern: String] = [:]
        var formerly: [String: String] = [:]
        let names = Set(principals.map(\.name))
        for (index, principal) in principals.enumerated() {
            func add(_ key: String, _ text: String) {
                problems.append(Problem(index: index, key: key, text: text))
            }
            if principals[..<index].contains(where: { $0.name == principal.name }) {
                add("name", "\(principal.name) appears twice; give each principal a name of its own")
            }
            if principal.tokens.count > Principal.tokenCountMax {
                add("tokens", "are more than \(Principal.tokenCountMax), an old and a new one; remove what is not used")
            }
            for token in principal.tokens where tokens.updateValue(principal.name, forKey: token) != nil {
                add("tokens", "has a token that is listed twice; give each principal tokens of its own")
            }
            for pattern in principal.certificates
            where certificates.updateValue(principal.name, forKey: pattern) != nil {
                add("certificates", "\(pattern) is listed twice; one certificate has one principal")
            }
            for name in principal.formerly {
                if let other = formerly.updateValue(principal.name, forKey: name) {
                    add("formerly", "\(name) is also a former name of \(other); one of the two has its streams")
                } else if names.contains(name) {
                    add("formerly", "\(name) is the name of a principal, which would share its streams; remove one")
                }
            }
            if requiresCertificates, principal.certificates.isEmpty {
                add("certificates", "are needed: with tls.client_ca every agent shows one, and it names the principal")
            } else if !requiresCertificates, !principal.certificates.isEmpty {
                add("certificates", "need tls.client_ca: without it no agent is asked for its certificate")
            } else if principal.tokens.isEmpty, principal.certificates.isEmpty {
                add("tokens", "are missing: give a file with a token, or the digest of one; see: waybill token --help")
            }
        }
        return problems
    }
}

/// What an agent has shown; kept while its connection is open.
package struct AgentCredentials: Hashable, Sendable {
    let agent: String
    let token: TokenDigest?
    /// The name that the agent's key proves; `nil` without a key of 16 bytes.
    let deviceName: String?
    let certificate: PeerCertificate?

    /// For the audit log.
    var kind: String {
        let kinds = [(self.certificate != nil, "certificate"), (self.token != nil, "token")]
        let shown = kinds.filter(\.0).map(\.1)
        return shown.isEmpty ? "nothing" : shown.joined(separator: " and ")
    }

    package init(_ hello: Hello, certificate: PeerCertificate?) {
        self.agent = hello.agent
        self.token = hello.token.map { TokenDigest(of: $0) }
        self.deviceName = hello.key.flatMap { DeviceKey(text: $0.utf8)?.agentName }
        self.certificate = certificate
    }
}

/// Why an agent, or what it asked for, was refused; the raw value is the metric's label.
package enum AgentRefusal: String, Error, CaseIterable, Sendable {
    case token
    case certificate
    case usage = "certificate-usage"
    case expired = "certificate-expired"
    case revoked = "certificate-revoked"
    case mismatch
    case device
    case agentInUse = "agent-in-use"

    /// For the peer, who may be a stranger: it names no one.
    package var text: String {
        switch self {
        case .token: "the token is missing or wrong"
        case .certificate: "the certificate belongs to no agent of this receiver"
        case .usage: "the certificate is not for clients (extended key usage)"
        case .expired: "the certificate has expired"
        case .revoked: "the certificate is revoked"
        case .mismatch: "the token and the certificate belong to different agents"
        case .device: "the agent's name does not follow from its key; update the app"
        case .agentInUse: "another agent of this name is connected; give each agent a name of its own"
        }
    }
}
