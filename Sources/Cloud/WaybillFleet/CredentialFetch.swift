internal import WaybillJSON
package import WaybillSystem

/// A request for credentials: no signature, no body, not to the store.
package struct CredentialRequest: Hashable, Sendable {
    package let method: StoreRequest.Method
    package let url: String
    package let headers: [StoreRequest.Field]
    /// Whether the address is of this machine or container, so that no proxy may see it.
    package let isLocal: Bool
}

/// Asks a source for credentials, answer by answer.
///
///     web identity    GET https://sts.REGION…/?Action=AssumeRoleWithWebIdentity…          XML
///     container       GET the address of the environment                                  JSON
///     instance        PUT /latest/api/token, GET the role's name, GET its credentials     IMDSv2; JSON
package struct CredentialFetch: Sendable {
    package enum Step: Hashable, Sendable {
        case send(CredentialRequest)
        case done(StoreCredentials)
        case fail(StoreError)
    }

    private enum State: Sendable {
        case webIdentity
        case container
        /// Of the instance: waits for the token.
        case token
        case role(token: String)
        case keys(token: String)
        case ended
    }

    private var state: State
    /// The first request, or why there is none.
    package let first: Step

    private static let instanceAddress = "http://169.254.169.254/latest"
    private static let instanceRoles = "/meta-data/iam/security-credentials/"

    /// - Parameter token: the content of the source's file.
    package init(_ source: CredentialSource, region: String, token: String?) {
        switch source {
        case .fixed(let credentials, _):
            (self.state, self.first) = (.ended, .done(credentials))
        case .webIdentity(let identity):
            self.state = .webIdentity
            self.first = Self.webIdentity(identity, region: region, token: token)
        case .container(let container):
            self.state = .container
            self.first = Self.container(container, token: token)
        case .instance:
            self.state = .token
            let ttl = StoreRequest.Field("X-aws-ec2-metadata-token-ttl-seconds", "21600")
            self.first = .send(
                CredentialRequest(method: .put, url: Self.instanceAddress + "/api/token", headers: [ttl], isLocal: true)
            )
        }
    }

    private static func webIdentity(_ identity: CredentialSource.WebIdentity, region: String, token: String?) -> Step {
        guard let token, !token.isEmpty else { return Self.noToken(identity.tokenFile) }
        let domain = region.hasPrefix("cn-") ? "amazonaws.com.cn" : "amazonaws.com"
        let request = StoreRequest(
            .get, isEncrypted: true, host: "sts.\(region).\(domain)", path: "/",
            query: [
                .init("Action", "AssumeRoleWithWebIdentity"), .init("Version", "2011-06-15"),
                .init("RoleArn", identity.roleARN), .init("RoleSessionName", identity.session),
                .init("WebIdentityToken", token),
            ])
        return .send(CredentialRequest(method: .get, url: request.url, headers: [], isLocal: false))
    }

    private static func noToken(_ file: String) -> Step {
        .fail(StoreError(.credentials, code: "token-file", detail: "the file \(file) has no token"))
    }

    /// HTTP without TLS is allowed to this machine and the addresses of ECS and EKS alone: the token would be seen.
    private static func container(_ container: CredentialSource.Container, token: String?) -> Step {
        let url = container.url
        let authorization = container.tokenFile == nil ? container.authorization : token.flatMap(Secret.init)
        if let file = container.tokenFile, authorization == nil { return Self.noToken(file) }
        let hosts = ["http://169.254.170.2/", "http://169.254.170.23/", "http://[fd00:ec2::23]/"]
        let local = ["http://localhost", "http://127.0.0.1", "http://[::1]"]
        let isLocal =
            hosts.contains(where: url.hasPrefix)
            || local.contains { url.hasPrefix($0) && [":", "/"].contains(url.dropFirst($0.count).first) }
        guard isLocal || url.hasPrefix("https://"), !url.contains("@") else {
            return .fail(
                StoreError(
                    .credentials, code: "container", detail: "the container's credential address is not allowed",
                    remedy: "correct AWS_CONTAINER_CREDENTIALS_FULL_URI"))
        }
        let headers = authorization.map { [StoreRequest.Field("Authorization", $0.revealed)] } ?? []
        return .send(CredentialRequest(method: .get, url: url, headers: headers, isLocal: isLocal))
    }

    /// Takes the answer to the last request.
    package mutating func answered(_ answer: StoreAnswer) -> Step {
        let state = self.state
        self.state = .ended
        guard answer.status == 200 else {
            return .fail(
                StoreError(
                    .credentials, code: answer.problem.code ?? "answer", status: answer.status,
                    detail: answer.problem.message ?? "the source of credentials refused"))
        }
        switch state {
        case .webIdentity: return Self.sts(answer.body)
        case .container, .keys: return Self.json(answer.body)
        case .token:
            guard let token = Self.word(answer.body) else { return Self.malformed }
            self.state = .role(token: token)
            return Self.instance(Self.instanceRoles, token)
        case .role(let token):
            guard let role = Self.word(answer.body) else { return Self.malformed }
            self.state = .keys(token: token)
            return Self.instance(Self.instanceRoles + URIText.encode(role), token)
        case .ended: return Self.malformed
        }
    }

    private static func instance(_ path: String, _ token: String) -> Step {
        let header = StoreRequest.Field("X-aws-ec2-metadata-token", token)
        return .send(
            CredentialRequest(method: .get, url: Self.instanceAddress + path, headers: [header], isLocal: true))
    }

    private static let malformed = Step.fail(
        StoreError(.credentials, code: "malformed", detail: "the source of credentials answered something else"))

    /// The first line, of printable ASCII.
    private static func word(_ body: [UInt8]) -> String? {
        let line = body.prefix { $0 != 0x0A && $0 != 0x0D }
        guard (1...4096).contains(line.count), line.allSatisfy({ (0x21...0x7E).contains($0) }) else { return nil }
        return String(decoding: line, as: UTF8.self)
    }

    private static func credentials(_ keyID: String?, _ secret: String?, _ token: String?, _ expiry: String?) -> Step {
        guard let keyID, let secret = secret.flatMap(Secret.init), !keyID.isEmpty, !keyID.contains("/"),
            [keyID, secret.revealed, token ?? ""].allSatisfy({ $0.utf8.allSatisfy { (0x21...0x7E).contains($0) } })
        else { return Self.malformed }
        var end: WallTime?
        if let expiry {
            guard let time = HTTPDate.timestamp(expiry) else { return Self.malformed }
            end = time
        }
        return .done(StoreCredentials(keyID: keyID, secret: secret, token: token.flatMap(Secret.init), expiry: end))
    }

    private static func json(_ body: [UInt8]) -> Step {
        guard body.count <= StoreAnswer.errorByteCountMax, let json = JSONValue(body) else { return Self.malformed }
        return Self.credentials(
            json["AccessKeyId"]?.string, json["SecretAccessKey"]?.string, json["Token"]?.string,
            json["Expiration"]?.string)
    }

    private static func sts(_ body: [UInt8]) -> Step {
        let result = XMLElement.parse(body)?.first("AssumeRoleWithWebIdentityResult")?.first("Credentials")
        return Self.credentials(
            result?.text(of: "AccessKeyId"), result?.text(of: "SecretAccessKey"), result?.text(of: "SessionToken"),
            result?.text(of: "Expiration"))
    }
}

/// Keeps credentials until shortly before their end; one caller at a time gets new ones.
package struct CredentialCache: Sendable {
    /// What a caller that needs credentials does.
    package enum Step: Hashable, Sendable {
        case use(StoreCredentials)
        /// Get new ones, then say ``refreshed(_:)`` or ``refreshFailed(at:)``.
        case refresh
        /// Another caller gets them.
        case wait
    }

    private var credentials: StoreCredentials?
    private var isRefreshing = false
    /// No refresh begins before, after one failed.
    private var restUntil: WallTime?

    /// The time before their end from which they are replaced.
    package static let leadMilliseconds: Int64 = 5 * 60_000
    private static let restMilliseconds: Int64 = 10_000

    package init() {}

    package mutating func need(at now: WallTime) -> Step {
        let end = self.credentials?.expiry?.milliseconds ?? .max
        let isResting = self.restUntil.map { now < $0 } ?? false
        if let credentials, now.milliseconds < end - (end == .max ? 0 : Self.leadMilliseconds) {
            return .use(credentials)
        }
        // Until their end, the old ones serve those who would wait.
        if let credentials, now.milliseconds < end, self.isRefreshing || isResting { return .use(credentials) }
        if self.isRefreshing { return .wait }
        self.isRefreshing = true
        return .refresh
    }

    package mutating func refreshed(_ credentials: StoreCredentials) {
        (self.credentials, self.isRefreshing, self.restUntil) = (credentials, false, nil)
    }

    package mutating func refreshFailed(at now: WallTime) {
        self.isRefreshing = false
        self.restUntil = WallTime(milliseconds: now.milliseconds + Self.restMilliseconds)
    }

    /// Forgets `used`: the store says that they have ended.
    package mutating func refused(_ used: StoreCredentials) {
        if self.credentials == used { self.credentials = nil }
    }
}
