package import WaybillEvent
package import WaybillExport
package import WaybillSystem

/// Why credentials cannot be used; names variables and lines, never values.
package enum CredentialError: Error, Hashable, Sendable, CustomStringConvertible {
    case unreadable(FileSystemError)
    case missing(path: String)
    /// Users other than its owner may read the file.
    case openToOthers(path: String, permissions: UInt16)
    case badLine(path: String, line: Int)
    /// Two environments have the same secret, so that their events would be mixed.
    case shared(CredentialName, DeploymentEnvironment, DeploymentEnvironment)
    case badValue(variable: String)

    package var description: String {
        switch self {
        case .unreadable(let error): "the credentials cannot be read: \(error)"
        case .missing(let path): "there is no credentials file \(path); name another one with --credentials"
        case .openToOthers(let path, let permissions):
            "other users may read \(path) (mode \(String(permissions, radix: 8))); restrict it to its owner: chmod 600 \(path)"
        case .badLine(let path, let line): "\(path):\(line) is not NAME=value; correct it or start it with #"
        case .shared(let name, let first, let second):
            "\(name.variable(first)) and \(name.variable(second)) are the same; each environment needs its own, "
                + "so that test events do not mix with customers' events"
        case .badValue(let variable): "\(variable) contains control characters or spaces; set it again"
        }
    }
}

/// The credentials of one environment; they are never printed.
package struct Credentials: Hashable, Sendable {
    private let values: [CredentialName: Secret]
    package let env: DeploymentEnvironment

    init(_ values: [CredentialName: Secret], env: DeploymentEnvironment) {
        self.values = values
        self.env = env
    }

    func revealed(_ name: CredentialName) -> String {
        guard let secret = self.values[name] else {
            preconditionFailure("\(name.variable(self.env)) was checked before anything is sent")
        }
        return secret.revealed
    }

    /// Removes secrets from text of others.
    func redacted(_ text: String) -> String {
        var text = text
        for (name, secret) in self.values.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            for form in [
                secret.revealed, URIText.encode(secret.revealed), RequestText.escaped(secret.revealed),
            ] {
                text = text.replacing(form, with: "${\(name.variable(self.env))}")
            }
        }
        return text
    }
}

/// A source of credentials: environment variables of this process, or `NAME=value` lines of a file.
package struct CredentialSource: Sendable {
    private var values: [String: String] = [:]
    private let usesEnvironment: Bool

    /// Uses the environment variables of this process.
    package init() {
        self.usesEnvironment = true
    }

    /// Uses only these values, for tests and for files.
    package init(_ values: [String: String]) {
        self.values = values
        self.usesEnvironment = false
    }

    private static let fileByteCountMax = 1 << 20

    /// Reads the lines of a file that only its owner may read.
    package init(file path: String, files: some FileSystem) throws(CredentialError) {
        self.usesEnvironment = false
        let (contents, permissions) = try Self.read(path, files)
        if permissions & 0o077 != 0 { throw .openToOthers(path: path, permissions: permissions) }
        let lines = String(decoding: contents, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        for (index, line) in lines.enumerated() {
            let text = String(line).trimmed
            if text.isEmpty || text.hasPrefix("#") { continue }
            guard let equals = text.firstIndex(of: "="), equals != text.startIndex else {
                throw .badLine(path: path, line: index + 1)
            }
            self.values[String(text[..<equals]).trimmed] = String(text[text.index(after: equals)...]).trimmed
        }
    }

    /// Reads both from the same open file, so that it cannot be replaced in between.
    private static func read(
        _ path: String, _ files: some FileSystem
    ) throws(CredentialError) -> (contents: [UInt8], permissions: UInt16) {
        do throws(FileSystemError) {
            if try files.status(at: path)?.kind == .regular {
                let file = try files.open(path, .read)
                defer { files.close(file) }
                let status = try files.status(file)
                var contents = [UInt8](repeating: 0, count: min(status.byteCount, Self.fileByteCountMax))
                let count = try files.readFully(file, at: 0, into: &contents)
                return (Array(contents[..<count]), status.permissions)
            }
        } catch {
            throw .unreadable(error)
        }
        throw .missing(path: path)
    }

    private func value(_ variable: String) -> Secret? {
        (self.usesEnvironment ? ProcessEnvironment[variable] : self.values[variable]).flatMap(Secret.init)
    }

    /// The credentials that a provider needs in an environment.
    ///
    /// - Returns: `nil` if a variable is missing; ``missingVariables(for:_:)`` names it.
    package func credentials(
        for provider: DeliverableProvider, _ env: DeploymentEnvironment
    ) throws(CredentialError) -> Credentials? {
        var values: [CredentialName: Secret] = [:]
        for name in provider.facts.credentials {
            guard let secret = self.value(name.variable(env)) else { return nil }
            guard secret.revealed.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
                throw .badValue(variable: name.variable(env))
            }
            for other in DeploymentEnvironment.allCases where other != env {
                if self.value(name.variable(other)) == secret { throw .shared(name, env, other) }
            }
            values[name] = secret
        }
        return Credentials(values, env: env)
    }

    package func missingVariables(for provider: DeliverableProvider, _ env: DeploymentEnvironment) -> [String] {
        provider.facts.credentials.map { $0.variable(env) }.filter { self.value($0) == nil }
    }
}
