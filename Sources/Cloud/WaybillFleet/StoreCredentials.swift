package import WaybillSystem

/// What requests are signed with; the secret parts never print.
package struct StoreCredentials: Hashable, Sendable, CustomStringConvertible {
    package let keyID: String
    package let secret: Secret
    /// The token of a session.
    package let token: Secret?
    /// When they end; `nil` for never.
    package let expiry: WallTime?

    package init(keyID: String, secret: Secret, token: Secret? = nil, expiry: WallTime? = nil) {
        self.keyID = keyID
        self.secret = secret
        self.token = token
        self.expiry = expiry
    }

    package var description: String {
        "\(self.keyID.prefix(4))…\(self.token == nil ? "" : " with a session's token")"
    }
}

/// Where credentials come from.
package enum CredentialSource: Hashable, Sendable {
    /// They are fixed.
    case fixed(StoreCredentials, from: String)
    /// Exchanged for a service account's token (AWS STS).
    case webIdentity(WebIdentity)
    /// Asked for at an address (ECS, EKS).
    case container(Container)
    /// Asked for at the machine's own address (EC2, IMDSv2).
    case instance

    package struct Container: Hashable, Sendable {
        package let url: String
        package var authorization: Secret?
        /// Has the authorization, and is replaced before it ends; read each time.
        package var tokenFile: String?
    }

    package struct WebIdentity: Hashable, Sendable {
        package let roleARN: String
        package let tokenFile: String
        package let session: String
    }

    /// The file that must be read before each request for credentials.
    package var tokenFile: String? {
        switch self {
        case .fixed, .instance: nil
        case .webIdentity(let identity): identity.tokenFile
        case .container(let container): container.tokenFile
        }
    }

    /// For people; no secret is in it.
    package var text: String {
        switch self {
        case .fixed(_, let place): place
        case .webIdentity: "a web identity (STS)"
        case .container: "the container's credential address"
        case .instance: "the instance's metadata (IMDSv2)"
        }
    }
}

/// What the environment and AWS's own files say about credentials and region.
///
/// In this order: variables, the shared files' profile, a web identity, a container's address, the instance.
package struct CredentialSettings: Sendable {
    package let source: CredentialSource
    /// `AWS_REGION`, `AWS_DEFAULT_REGION` or the profile's.
    package let region: String?
    /// `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`.
    package let endpoint: String?

    /// The longest shared file.
    private static let fileByteCountMax = 1 << 20

    /// - Parameters:
    ///   - variables: the environment.
    ///   - files: where the shared files are read.
    package static func find(
        variables: (String) -> String?, files: some FileSystem
    ) throws(StoreError) -> CredentialSettings {
        func variable(_ name: String) -> String? { variables(name).flatMap { $0.isEmpty ? nil : $0 } }
        let name = variable("AWS_PROFILE") ?? "default"
        let home = variable("HOME").map { $0 + "/.aws/" }
        var profile: [String: String] = [:]
        let places = [
            (variable("AWS_CONFIG_FILE") ?? home.map { $0 + "config" }, name == "default" ? name : "profile \(name)"),
            (variable("AWS_SHARED_CREDENTIALS_FILE") ?? home.map { $0 + "credentials" }, name),
        ]
        for (path, section) in places {
            guard let path, let text = try Self.text(of: path, files) else { continue }
            profile.merge(ProfileFile.section(section, of: text)) { $1 }
        }
        if variable("AWS_PROFILE") != nil, profile.isEmpty {
            throw StoreError(
                .credentials, code: "profile", detail: "the profile \(name) of AWS_PROFILE is in no file",
                remedy: "correct AWS_PROFILE, or add the profile to ~/.aws/credentials")
        }
        return CredentialSettings(
            source: try Self.source(variable, profile, name: name),
            region: variable("AWS_REGION") ?? variable("AWS_DEFAULT_REGION") ?? profile["region"],
            endpoint: variable("AWS_ENDPOINT_URL_S3") ?? variable("AWS_ENDPOINT_URL"))
    }

    private static func text(of path: String, _ files: some FileSystem) throws(StoreError) -> String? {
        do throws(FileSystemError) {
            guard let bytes = try files.contents(of: path, byteCountMax: Self.fileByteCountMax) else { return nil }
            return String(decoding: bytes, as: UTF8.self)
        } catch {
            throw StoreError(.credentials, code: error.code.rawValue, detail: error.description, remedy: error.remedy)
        }
    }

    private static func source(
        _ variable: (String) -> String?, _ profile: [String: String], name: String
    ) throws(StoreError) -> CredentialSource {
        let keyID = variable("AWS_ACCESS_KEY_ID")
        let secret = variable("AWS_SECRET_ACCESS_KEY").flatMap(Secret.init)
        guard (keyID == nil) == (secret == nil) else {
            throw StoreError(
                .credentials, code: "environment",
                detail: "one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set without the other")
        }
        if let keyID, let secret {
            let token = variable("AWS_SESSION_TOKEN").flatMap(Secret.init)
            return .fixed(try Self.checked(keyID, secret, token), from: "the environment")
        }
        if let keyID = profile["aws_access_key_id"],
            let secret = profile["aws_secret_access_key"].flatMap(Secret.init)
        {
            let token = profile["aws_session_token"].flatMap(Secret.init)
            return .fixed(try Self.checked(keyID, secret, token), from: "the profile \(name)")
        }
        let session = variable("AWS_ROLE_SESSION_NAME") ?? profile["role_session_name"] ?? "waybill"
        if let file = variable("AWS_WEB_IDENTITY_TOKEN_FILE") ?? profile["web_identity_token_file"],
            let role = variable("AWS_ROLE_ARN") ?? profile["role_arn"]
        {
            return .webIdentity(.init(roleARN: role, tokenFile: file, session: session))
        }
        let relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").map { "http://169.254.170.2" + $0 }
        if let url = relative ?? variable("AWS_CONTAINER_CREDENTIALS_FULL_URI") {
            return .container(
                CredentialSource.Container(
                    url: url, authorization: variable("AWS_CONTAINER_AUTHORIZATION_TOKEN").flatMap(Secret.init),
                    tokenFile: variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")))
        }
        guard variable("AWS_EC2_METADATA_DISABLED")?.lowercased() != "true" else {
            throw StoreError(.credentials, code: "none", detail: "no credentials for the store were found")
        }
        return .instance
    }

    /// Refuses what would break a header.
    private static func checked(
        _ keyID: String, _ secret: Secret, _ token: Secret?
    ) throws(StoreError) -> StoreCredentials {
        let texts = [keyID, secret.revealed, token?.revealed ?? ""]
        guard texts.allSatisfy({ $0.utf8.allSatisfy { (0x21...0x7E).contains($0) } }), !keyID.contains("/") else {
            throw StoreError(
                .credentials, code: "malformed", detail: "the credentials contain spaces or control characters",
                remedy: "set them again, without quotes and line ends")
        }
        return StoreCredentials(keyID: keyID, secret: secret, token: token)
    }
}

/// AWS's shared files: `[section]` and `key = value`; comments begin with `#` or `;`.
enum ProfileFile {
    static func section(_ name: String, of text: String) -> [String: String] {
        var values: [String: String] = [:]
        var isInside = false
        for line in text.split(whereSeparator: \.isNewline) {
            let trimmed = Self.trimmed(line)
            if trimmed.isEmpty || trimmed.hasPrefix("#") || trimmed.hasPrefix(";") { continue }
            if trimmed.hasPrefix("[") {
                let words = trimmed.dropFirst().prefix { $0 != "]" }.split(separator: " ")
                isInside = words.joined(separator: " ") == name
                continue
            }
            // What is indented belongs to the key before it.
            guard isInside, line.first?.isWhitespace == false, let equals = trimmed.firstIndex(of: "=") else {
                continue
            }
            let value = Self.trimmed(trimmed[trimmed.index(after: equals)...])
            if !value.isEmpty { values[Self.trimmed(trimmed[..<equals]).lowercased()] = value }
        }
        return values
    }

    private static func trimmed(_ text: Substring) -> String {
        String(text.drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed())
    }

    private static func trimmed(_ text: String) -> String { Self.trimmed(text[...]) }
}
