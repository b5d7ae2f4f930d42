internal import WaybillSystem
internal import WaybillExport
package import WaybillProjection
package import WaybillProtocol
internal import WaybillHost

/// Who owns streams: an entry of `agents:` in the receiver's configuration.
package struct Principal: Hashable, Sendable {
    package var name: String
    /// The digests of its tokens; two, while one is replaced by another.
    package var tokens: [TokenDigest] = []
    package var certificates: [CertificatePattern] = []
    /// Patterns for the `env` of its lines; empty: every one.
    package var environments: [String] = []
    /// Patterns for the `bundle` of its lines; empty: every one.
    package var bundles: [String] = []
    /// Names that it had before; their streams are its own.
    package var formerly: [String] = []
    /// Whether it takes over streams from before `agents:` existed, of which its agents have the files.
    package var adopts = false
    /// Whether it stands for many devices with one credential; each proves its own name and has its own streams.
    package var hasDevices = false
    /// How many single agents it counts as when turns are taken.
    package var share = 1
    /// The most bytes that its agents may skip on one day.
    package var skippedByteCountMax: UInt64 = 64 << 30
    package var quotas = PrincipalQuotas()

    package init(name: String) {
        self.name = name
    }

    /// The principal of all agents at a receiver without `agents:`.
    package static let everyone = Principal(name: "")

    /// The most tokens that are valid at once.
    package static let tokenCountMax = 2

    package static let nameRule = "1 to 64 letters, digits, '.', '_' and '-'"

    package static func isName(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy(\.isNameByte)
    }
}

/// What a principal may take; `nil`: any number.
package struct PrincipalQuotas: Hashable, Sendable {
    /// Connections of all its agents at once.
    package var connectionCountMax: Int?
    /// Bytes a second that all its agents may send, inflated.
    package var byteRateMax: Int?
    /// Bytes a second that one of its agents may send, inflated.
    package var agentByteRateMax: Int?
    /// Bytes, inflated, that the receiver stores for it on one day.
    package var dayByteCountMax: UInt64?
    /// What each of its agents may take.
    package var ofAgent = AccountLimits()

    package init() {}
}

/// The SHA-256 of a token; the receiver keeps no token itself.
package struct TokenDigest: Hashable, Sendable, CustomStringConvertible {
    /// Shorter tokens could be guessed.
    package static let tokenByteCountMin = 16

    private let bytes: [UInt8]

    package init(of token: String) {
        self.bytes = SHA256.digest(token.utf8)
    }

    /// Reads `sha256:` and 64 lower-case hexadecimal digits; `nil` for any other text.
    package init?(_ text: String) {
        guard text.hasPrefix("sha256:"), let bytes = Hexadecimal.bytes(text.dropFirst(7)), bytes.count == 32 else {
            return nil
        }
        self.bytes = bytes
    }

    /// What ``init(_:)`` reads.
    package var text: String { "sha256:" + Hexadecimal.text(self.bytes) }

    /// Compares in constant time.
    func isEqual(to other: TokenDigest) -> Bool {
        zip(self.bytes, other.bytes).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }

    package var description: String { "<digest>" }
}

/// What an agent's certificate must have.
package enum CertificatePattern: Hashable, Sendable, CustomStringConvertible {
    /// A subject alternative name: a DNS name, an e-mail address or a URI.
    case name(String)
    /// The SHA-256 of the certificate, as 64 lower-case hexadecimal digits.
    case fingerprint(String)

    /// Reads `sha256:` and the digits, or a name; `nil` for an empty text, or for other digits.
    package init?(_ text: String) {
        guard text.hasPrefix("sha256:") else {
            guard !text.isEmpty else { return nil }
            self = .name(text)
            return
        }
        let digits = String(text.dropFirst(7))
        guard Hexadecimal.bytes(digits)?.count == 32 else { return nil }
        self = .fingerprint(digits)
    }

    func matches(_ certificate: PeerCertificate) -> Bool {
        switch self {
        case .name(let name): certificate.names.contains(name)
        case .fingerprint(let digits): certificate.fingerprint == digits
        }
    }

    package var description: String {
        switch self {
        case .name(let name): name
        case .fingerprint(let digits): "sha256:\(digits)"
        }
    }
}

/// An agent that was let in, and the principal that it belongs to.
package struct AdmittedAgent: Hashable, Sendable {
    package let principal: Principal
    package let agent: String

    package init(principal: Principal, agent: String) {
        self.principal = principal
        self.agent = agent
    }

    /// Its name, unique among all agents.
    package var fullName: String {
        self.principal.name.isEmpty ? self.agent : "\(self.principal.name)/\(self.agent)"
    }

    /// Who is charged for what it brings.
    package var account: Account {
        Account(
            principal: self.principal.name, device: self.agent, share: self.principal.share,
            limits: self.principal.quotas.ofAgent)
    }

    /// The owner of its streams: a device owns its own.
    package var owner: StreamOwner {
        StreamOwner(
            principal: self.ownerName(of: self.principal.name), environments: self.principal.environments,
            bundles: self.principal.bundles)
    }

    /// The owner's names before, in the order in which they are looked up.
    var formerOwners: [String] { self.principal.formerly.map(self.ownerName) }

    private func ownerName(of principal: String) -> String {
        self.principal.hasDevices ? "\(principal)/\(self.agent)" : principal
    }

    /// Whether the lines of a stream with this description may all be outside the patterns.
    ///
    /// Waybill's own lines name their `env` and `bundle` themselves and are judged one by one.
    func mayOpen(_ description: StreamDescription) -> Bool {
        guard description.format == .ndjson else { return true }
        let patterns = [
            (self.principal.environments, description.environment), (self.principal.bundles, description.bundle),
        ]
        return patterns.allSatisfy { patterns, text in
            patterns.isEmpty || patterns.contains { TextPattern($0).matches(text) }
        }
    }
}
