package import WaybillEvent
package import WaybillExport
internal import WaybillSystem

internal import WaybillCompression

/// Why an address cannot be used.
package enum EndpointError: Error, Hashable, Sendable, CustomStringConvertible {
    case malformed(String)
    case holdsCredentials
    /// Credentials would be sent unencrypted.
    case cleartext(String)
    case missing(DeliverableProvider)
    case noRegion(DeliverableProvider)

    package var description: String {
        switch self {
        case .malformed(let text): "--endpoint \(text) is not an address such as https://collector.example.com"
        case .holdsCredentials:
            "--endpoint contains a name and a password, which every user of this machine can see in the list of "
                + "processes; leave them out"
        case .cleartext(let text):
            "\(text) is not encrypted, and the credentials would be readable on the network; use https"
        case .missing(let provider): "name your collector: --endpoint https://… (\(provider.rawValue) has no other)"
        case .noRegion(let provider): "\(provider.rawValue) has no regions; leave --region out"
        }
    }
}

extension RequestText {
    func revealed(_ credentials: Credentials) -> String {
        self.pieces.map { piece in
            switch piece {
            case .plain(let text): text
            case .isHistorical: "false"
            case .query(let name): URIText.encode(credentials.revealed(name))
            case .json(let name): Self.escaped(credentials.revealed(name))
            case .basic(let user, let password):
                Base64.text(Array("\(credentials.revealed(user)):\(credentials.revealed(password))".utf8))
            }
        }.joined()
    }

    /// As the body of a JSON string; credentials are printable ASCII.
    static func escaped(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
    }

    /// The text for a part that is an import.
    var historical: RequestText {
        RequestText(self.pieces.map { $0 == .isHistorical ? .plain("true") : $0 })
    }

    /// The text with `${NAME}` in place of each credential.
    func shown(_ env: DeploymentEnvironment) -> String {
        self.pieces.map { piece in
            switch piece {
            case .plain(let text): text
            case .isHistorical: "false"
            case .query(let name), .json(let name): "${\(name.variable(env))}"
            case .basic(let user, let password): "base64(${\(user.variable(env))}:${\(password.variable(env))})"
            }
        }.joined()
    }
}

/// One request including credentials: it is sent, but never printed.
package struct DeliveryRequest: Sendable, CustomStringConvertible {
    package let url: String
    package let headers: [(name: String, value: String)]
    package let body: [UInt8]

    package var description: String { "<request>" }
}

/// The shape of a provider's requests.
package struct RequestTemplate: Hashable, Sendable {
    /// Scheme, host and path.
    package let address: String
    private let provider: DeliverableProvider
    private let url: RequestText
    private let headers: [Header]
    private let prefix: RequestText

    private struct Header: Hashable {
        let name: String
        let value: RequestText
    }

    /// - Parameters:
    ///   - endpoint: scheme and host, with or without a path; `nil` for the provider's own.
    ///   - isValidation: whether to use the endpoint that validates requests and stores nothing, if there is one.
    ///   - isHistorical: whether the part is an import, not live traffic.
    package init(
        _ provider: DeliverableProvider, region: ProviderRegion?, endpoint: String?, isValidation: Bool = false,
        isHistorical: Bool = false
    ) throws(EndpointError) {
        let facts = provider.facts
        if facts.hosts == nil, region != nil { throw .noRegion(provider) }
        let path = isValidation ? facts.validationPath ?? facts.path : facts.path
        if let endpoint {
            self.address = try Self.address(endpoint, path: path, hasSecrets: !facts.credentials.isEmpty)
        } else if let hosts = facts.hosts {
            self.address = (region == .eu ? hosts.eu : hosts.us) + path
        } else {
            throw .missing(provider)
        }
        self.provider = provider
        self.url = RequestText([.plain(self.address)] + facts.query.pieces)
        var headers = [Header(name: "Content-Type", value: RequestText([.plain(facts.contentType)]))]
        if let authorization = facts.authorization {
            headers.append(Header(name: "Authorization", value: authorization))
        }
        if facts.isCompressed { headers.append(Header(name: "Content-Encoding", value: "gzip")) }
        self.headers = headers
        self.prefix = isHistorical ? facts.prefix.historical : facts.prefix
    }

    private static func address(_ text: String, path: String, hasSecrets: Bool) throws(EndpointError) -> String {
        guard let parts = URLParts(text) else { throw .malformed(URLParts.withoutCredentials(text)) }
        if parts.hasCredentials { throw .holdsCredentials }
        if !parts.isEncrypted, hasSecrets, !parts.isLoopback { throw .cleartext(text) }
        return parts.origin + (parts.path.isEmpty || parts.path == "/" ? path : parts.path)
    }

    package func request(_ records: [[UInt8]], _ credentials: Credentials) -> DeliveryRequest {
        let facts = self.provider.facts
        let token = facts.updateToken.map { Array(RequestText.escaped(credentials.revealed($0)).utf8) }
        var body = Array(self.prefix.revealed(credentials).utf8)
        for (index, record) in records.enumerated() {
            if index > 0 { body += facts.separator.utf8 }
            body += token.map { ProfileRecord.filled(record, token: $0) } ?? record
        }
        body += facts.suffix.revealed(credentials).utf8
        if facts.isCompressed { body = Gzip.member(of: body) }
        return DeliveryRequest(
            url: self.url.revealed(credentials),
            headers: self.headers.map { ($0.name, $0.value.revealed(credentials)) },
            body: body)
    }

    private static let shownByteCountMax = 160

    /// What ``request(_:_:)`` would send, for display: without credentials, and with the start of the body.
    package func shown(_ records: [[UInt8]], _ env: DeploymentEnvironment) -> String {
        var lines = ["POST \(self.url.shown(env))"]
        lines += self.headers.map { "\($0.name): \($0.value.shown(env))" }
        let byteCount = records.reduce(0) { $0 + $1.count + self.provider.facts.separator.utf8.count }
        lines.append("# \(records.count) records, \(byteCount) bytes in total")
        var body = self.prefix.shown(env)
        body += String(decoding: records.first?.prefix(Self.shownByteCountMax) ?? [], as: UTF8.self)
        lines.append(body + (byteCount > Self.shownByteCountMax ? "…" : "") + self.provider.facts.suffix.shown(env))
        return lines.joined(separator: "\n").replacing("\n\n", with: "\n") + "\n"
    }
}

/// The relevant parts of an address.
struct URLParts: Hashable {
    /// Scheme, host and port.
    let origin: String
    let host: String
    let path: String
    let isEncrypted: Bool
    let hasCredentials: Bool

    init?(_ text: String) {
        guard let scheme = ["https://", "http://"].first(where: text.lowercased().hasPrefix),
            text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }), !text.contains("?"), !text.contains("#")
        else { return nil }
        self.isEncrypted = scheme == "https://"
        let rest = text.dropFirst(scheme.count)
        let authority = rest.prefix { $0 != "/" }
        self.path = String(rest.dropFirst(authority.count))
        self.hasCredentials = authority.contains("@")
        self.origin = scheme + authority
        let address = authority.split(separator: "@").last ?? ""
        self.host =
            address.hasPrefix("[")
            ? String(address.dropFirst().prefix { $0 != "]" }) : String(address.prefix { $0 != ":" })
        if self.host.isEmpty { return nil }
    }

    var isLoopback: Bool {
        self.host == "localhost" || self.host == "::1"
            || self.host.hasPrefix("127.") && self.host.utf8.allSatisfy { $0 == 0x2E || (0x30...0x39).contains($0) }
    }

    /// The text for messages.
    static func withoutCredentials(_ text: String) -> String {
        text.lastIndex(of: "@").map { "…" + text[$0...] } ?? text
    }
}
