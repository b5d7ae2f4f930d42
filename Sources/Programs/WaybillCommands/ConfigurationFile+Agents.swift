import WaybillReceiver
import WaybillSystem
import WaybillYAML

/// The agents that a receiver lets in, in its own section or in a file of their own.
///
///     agents:
///       - {name: web, tokens: [web.token], envs: [prod], bundles: [com.example.*]}
///       - {name: phones, tokens: ["sha256:9f86…"], devices: true, share: 20}
extension ConfigurationFile {
    /// - Returns: `nil` if the file names no agents.
    static func agents(
        _ section: inout ConfigurationSection, requiresCertificates: Bool
    ) -> (principals: [Principal], files: [String])? {
        let path = section.value("agents_file", ValueType<String>.file)
        guard let path else {
            guard section.has("agents") else { return nil }
            return Self.principals(&section, requiresCertificates: requiresCertificates)
        }
        if section.has("agents") {
            section.complain("agents_file", "agents: is here as well; keep one of the two")
            section.forget()
            return nil
        }
        let (list, problems) = Self.agents(inFile: path, requiresCertificates: requiresCertificates)
        section.add(problems)
        return list
    }

    /// The agents of a file of their own, and what is wrong with it; no agents if it cannot be read at all.
    static func agents(
        inFile path: String, requiresCertificates: Bool
    ) -> (list: (principals: [Principal], files: [String])?, problems: [Problem]) {
        let root: YAMLNode
        do throws(Problem) {
            root = try Self.compose(try Self.contents(of: path), hint: "is empty; give it a list agents:")
        } catch {
            return (nil, [error.inFile(path)])
        }
        var file = ConfigurationSection(root, path: "", directory: Path.parent(of: path))
        file.require("agents", "a list; each entry begins with \"- name:\"")
        let (principals, files) = Self.principals(&file, requiresCertificates: requiresCertificates)
        file.finish()
        return ((principals, [path] + files), file.problems.map { $0.inFile(path) })
    }

    private static func principals(
        _ section: inout ConfigurationSection, requiresCertificates: Bool
    ) -> (principals: [Principal], files: [String]) {
        var principals: [Principal] = []
        var files: [String] = []
        section.each("agents") { section in
            var entry = AgentEntry.defaults
            section.read(ConfigurationTable.agentEntry, into: &entry)
            files += entry.tokenFiles
            principals.append(entry.principal)
        }
        for problem in AgentRegister.problems(of: principals, requiresCertificates: requiresCertificates) {
            section.complain(inEntry: problem.index, of: "agents", problem.key, problem.text)
        }
        if principals.isEmpty { section.complain("agents", "lists no one: no agent would be let in") }
        return (principals, files)
    }
}

/// An entry of `agents`.
struct AgentEntry: ConfigurationRoot {
    var principal = Principal(name: "")
    var tokens: [AgentToken] {
        get { self.tokenList }
        set {
            self.tokenList = newValue
            self.principal.tokens = newValue.map(\.digest)
        }
    }
    private var tokenList: [AgentToken] = []
    /// The files that tokens were read from.
    var tokenFiles: [String] { self.tokens.compactMap(\.path) }

    static var defaults: AgentEntry { AgentEntry() }
}

/// A token in the configuration: its digest, or a file that holds it.
struct AgentToken {
    let digest: TokenDigest
    /// The file; `nil` for a digest.
    let path: String?

    /// What to write; completes "must be …".
    static let rule =
        "a list of at most \(Principal.tokenCountMax): sha256: and 64 hexadecimal digits, or a file with a token of at "
        + "least \(TokenDigest.tokenByteCountMin) bytes"

    /// Reads the token from a file; a line feed at its end does not belong to it.
    static func read(_ path: String) throws(ConfigurationFile.Problem) -> AgentToken {
        var text = try ConfigurationFile.contents(of: path)[...]
        while text.last?.isNewline == true { text.removeLast() }
        guard text.utf8.count >= TokenDigest.tokenByteCountMin else {
            throw ConfigurationFile.Problem(
                file: path, line: 1, key: "token",
                text: "has fewer than \(TokenDigest.tokenByteCountMin) bytes; make one with: waybill token")
        }
        return AgentToken(digest: TokenDigest(of: String(text)), path: path)
    }
}

extension ValueType<[AgentToken]> {
    static var tokens: ValueType {
        ValueType(name: "list of digests and files") { node, reading in
            let nodes = node.isScalar ? [node] : node.sequence ?? []
            if nodes.isEmpty { reading.problems.append(ValueProblem(text: "must be \(AgentToken.rule)")) }
            return nodes.compactMap { node -> AgentToken? in
                guard let text = node.string, !text.isEmpty else {
                    reading.problems.append(ValueProblem(line: node.line, text: "must be \(AgentToken.rule)"))
                    return nil
                }
                if text.hasPrefix("sha256:") {
                    if let digest = TokenDigest(text) { return AgentToken(digest: digest, path: nil) }
                    reading.problems.append(ValueProblem(line: node.line, text: "must be \(AgentToken.rule)"))
                    return nil
                }
                let path = text.hasPrefix("/") ? text : Path.join(reading.directory, text)
                do throws(ConfigurationFile.Problem) {
                    return try AgentToken.read(path)
                } catch {
                    reading.problems.append(ValueProblem(line: node.line, text: "\(path): \(error.text)"))
                    return nil
                }
            }
        } show: {
            "\($0.count)"
        }
    }
}

extension ValueType<[CertificatePattern]> {
    static var certificates: ValueType {
        ValueType.list(
            of: "names and fingerprints",
            rule: "a subject alternative name, or sha256: and the 64 hexadecimal digits of a fingerprint"
        ) {
            $0.description
        } read: {
            $0.string.flatMap(CertificatePattern.init)
        }
    }
}

extension ValueType<[String]> {
    /// Names of principals.
    static var principalNames: ValueType {
        ValueType.list(of: "names", rule: "a name: \(Principal.nameRule)") {
            $0
        } read: {
            $0.string.flatMap { Principal.isName($0) ? $0 : nil }
        }
    }

    /// Patterns, as the journal can keep them with every stream.
    static var linePatterns: ValueType {
        ValueType.list(of: "patterns", rule: "a text of 1 to 255 bytes, where * stands for any characters") {
            $0
        } read: {
            $0.string.flatMap { (1...255).contains($0.utf8.count) ? $0 : nil }
        }
    }
}
