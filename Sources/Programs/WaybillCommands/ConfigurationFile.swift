import ArgumentParser
import WaybillAgent
import WaybillEvent
import WaybillExport
import WaybillHost
import WaybillIngest
import WaybillMerger
import WaybillReceiver
import WaybillSystem
import WaybillTail
import WaybillYAML

/// The configuration file of receiver and agent; ``ConfigurationTable`` lists its keys.
///
///     receiver:                              agent:
///       data: /var/lib/waybill                 state: /var/lib/waybill-agent
///       listen: 0.0.0.0:4390                   to: ["${COLLECTOR}:4390"]
///       archive: {zone: UTC, cut_off: "04:00"} sources:
///       exports:                                 - {spool: /var/spool/shop}
///         - {provider: ga4, zone: Asia/Seoul}    - {files: ["/var/log/nginx/*.json"], env: prod, bundle: com.example.web}
///
/// One pass finds all problems, each with its line, its key and what to do. Unknown keys are problems.
struct ConfigurationFile {
    /// A problem in a file.
    struct Problem: Error, Hashable {
        enum Severity: String, Hashable {
            case error, warning
        }

        var severity = Severity.error
        /// The file, if it is not the one that was read first.
        var file: String?
        let line: Int
        let key: String
        let text: String

        func inFile(_ path: String) -> Problem {
            var problem = self
            problem.file = path
            return problem
        }

        /// The problem with its file's name; `path` is the name of the file that was read first.
        func text(in path: String) -> String {
            "\(self.file ?? path): line \(self.line): \(self.key): \(self.text)"
        }

        /// The problem with its severity and file.
        func finding(in path: String) -> String {
            "\(self.severity.rawValue): \(self.text(in: path))"
        }
    }

    var receiver: ReceiverConfiguration?
    var merger: MergerConfiguration?
    /// What is written where, by a receiver or a merger.
    var host: HostConfiguration? { self.receiver?.host ?? self.merger?.host }
    var agent: AgentConfiguration?
    var deliver: DeliverConfiguration?
    var store: StoreConfiguration?
    var ingest: DoorConfiguration?
    var problems: [Problem] = []
    /// The lines of keys, by path.
    private(set) var lines: [String: Int] = [:]

    /// Reads a file; prints its problems and throws exit code 78 if there are any.
    static func load(_ path: String) throws -> ConfigurationFile {
        let file = self.read(path)
        guard file.problems.isEmpty else {
            for problem in file.problems { Console.end(.configurationWrong, problem.finding(in: path)) }
            throw ExitCode.badConfiguration
        }
        return file
    }

    /// Reads a file and the files that it names; ``problems`` lists what is wrong.
    static func read(_ path: String) -> ConfigurationFile {
        do throws(Problem) {
            return ConfigurationFile(yaml: try self.contents(of: path), directory: Path.parent(of: path))
        } catch {
            var file = ConfigurationFile()
            file.problems = [error]
            return file
        }
    }

    /// The text of a file of at most 1 MiB.
    static func contents(of path: String) throws(Problem) -> String {
        let bytes: [UInt8]?
        do throws(FileSystemError) {
            bytes = try POSIXFileSystem().contents(of: path, byteCountMax: 1 << 20)
        } catch {
            throw Problem(file: path, line: 1, key: "file", text: "cannot be read: \(error)")
        }
        guard let bytes else {
            throw Problem(file: path, line: 1, key: "file", text: "does not exist; correct the path")
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw Problem(file: path, line: 1, key: "file", text: "is not UTF-8; save it as UTF-8")
        }
        return text
    }

    /// Parses a file's text, which must be a mapping.
    ///
    /// - Parameters:
    ///   - hint: what to do if the text is not a mapping.
    ///   - substitute: returns the value for a scalar's text.
    static func compose(
        _ yaml: String, hint: String,
        substitute: (String) throws(YAMLSubstitutionError) -> String = { (text) throws(YAMLSubstitutionError) in text }
    ) throws(Problem) -> YAMLNode {
        let root: YAMLNode?
        do throws(YAMLError) {
            root = try YAMLNode.document(yaml, substitute: substitute)
        } catch {
            if let key = error.duplicateKey {
                throw Problem(line: error.line, key: key, text: "appears twice in one section; remove one")
            }
            throw Problem(
                line: error.line, key: "file",
                text: "is not valid YAML: \(error.description); check indentation and quotes")
        }
        guard let root, root.mapping != nil else { throw Problem(line: 1, key: "file", text: hint) }
        return root
    }

    private init() {}

    /// - Parameters:
    ///   - directory: the folder that contains the files named in `yaml`.
    ///   - providers: what an export can be for.
    init(yaml: String, directory: String, providers: ProviderRegistry = .standard) {
        let root: YAMLNode
        do throws(Problem) {
            root = try Self.compose(
                yaml, hint: "is empty; give it a section receiver:, agent:, merger:, deliver: or ingest:",
                substitute: EnvironmentText.expand)
        } catch {
            self.problems = [error]
            return
        }
        var section = ConfigurationSection(root, path: "", directory: directory)
        self.receiver = section.read("receiver") { Self.receiver(&$0, providers) }
        self.merger = section.read("merger") { Self.merger(&$0, providers) }
        self.agent = section.read("agent", Self.agent)
        self.deliver = section.read("deliver", Self.deliver)
        self.store = section.read("store", Self.store)
        self.ingest = section.read("ingest", Self.ingest)
        section.finish()
        self.receiver?.writtenTexts = section.writtenTexts
        self.merger?.writtenTexts = section.writtenTexts
        self.agent?.writtenTexts = section.writtenTexts.filter { $0.key.hasPrefix("agent.") }
        self.ingest?.writtenTexts = section.writtenTexts.filter { $0.key.hasPrefix("ingest.") }
        self.deliver?.writtenTexts = section.writtenTexts.filter { $0.key.hasPrefix("deliver.") }
        self.lines = section.lines
        self.problems = section.problems.sorted { ($0.file ?? "", $0.line) < ($1.file ?? "", $1.line) }
    }

    /// The line of a key, or of the section it is missing from.
    func line(of key: String) -> Int {
        var key = key[...]
        while !key.isEmpty {
            if let line = self.lines[String(key)] { return line }
            key = key[..<(key.lastIndex(of: ".") ?? key.startIndex)]
        }
        return 1
    }

    // MARK: Sections

    private static func receiver(
        _ section: inout ConfigurationSection, _ providers: ProviderRegistry
    ) -> ReceiverConfiguration {
        var configuration = ReceiverConfiguration.defaults
        let hasTLS = section.has("tls")
        if section.takeFormer("merge") {
            section.complain("merge", "stands in a section of its own: merger: {checkpoint_hours: …, pieces_days: …}")
        }
        section.read(ConfigurationTable.receiver, into: &configuration)
        if hasTLS {
            let isComplete = Self.checkCertificate(
                configuration.certificate, configuration.privateKey, &section, hint: "certificate: FILE, key: FILE")
            if !isComplete { configuration.tls = nil }
        }
        configuration.exports = Self.exports(&section, providers)
        let requiresCertificates = configuration.tls?.clientAuthorities != nil
        if let agents = Self.agents(&section, requiresCertificates: requiresCertificates) {
            configuration.agents = agents.principals
            configuration.agentsFiles = agents.files
        }
        if let problem = configuration.proxied.problem(hasCertificate: configuration.tls != nil) {
            section.complain("proxied.\(problem.key)", problem.text)
        }
        if configuration.tls?.revocations != nil, !requiresCertificates {
            section.complain("tls.crl", "needs client_ca: without it no agent is asked for its certificate")
        }
        return configuration
    }

    private static func merger(
        _ section: inout ConfigurationSection, _ providers: ProviderRegistry
    ) -> MergerConfiguration {
        var configuration = MergerConfiguration.defaults
        section.read(ConfigurationTable.merger, into: &configuration)
        configuration.exports = Self.exports(&section, providers)
        return configuration
    }

    private static func agent(_ section: inout ConfigurationSection) -> AgentConfiguration {
        var configuration = AgentConfiguration.defaults
        if section.isScalar("tls") {
            if section.value("tls", ValueType<Bool>.flag) == true { configuration.tls = TLSClientConfiguration() }
        } else if section.has("tls") {
            configuration.tls = TLSClientConfiguration()
        }
        section.read(ConfigurationTable.agent, into: &configuration)
        Self.checkCertificate(configuration.certificate, configuration.privateKey, &section)
        if configuration.pins != nil, configuration.authorities != nil {
            section.complain("tls.ca", "cannot stand with pinned, which asks no authority; remove one of them")
        }
        section.require("sources", "spool: DIR or files: [PATTERN]")
        section.each("sources") { section in
            var source = SourceEntry.defaults
            section.read(ConfigurationTable.source, into: &source)
            if let source = Self.source(source, &section) { configuration.sources.append(source) }
        }
        return configuration
    }

    private static func source(_ source: SourceEntry, _ section: inout ConfigurationSection) -> AgentSource? {
        let kind: SourceConfiguration.Kind
        for (key, pattern, problem) in SourcePatterns.problems(of: source) {
            section.complain(key, pattern.isEmpty ? problem : "\(pattern) \(problem)")
        }
        switch (source.spool, source.files) {
        case (let directory?, nil):
            kind = .spool(directory: directory)
            for (key, value) in [
                ("time", source.timeMember), ("name", source.nameMember), ("user", source.userMember),
                ("anonymous", source.anonymousMember),
            ] where value != nil {
                section.complain(key, "is for `files` only; remove it")
            }
            if source.followsLinks { section.complain("follow_links", "is for `files` only; remove it") }
            if source.excludes != nil { section.complain("exclude", "is for `files` only; remove it") }
            if source.group != nil, GlobPattern.hasWildcard(directory) {
                section.complain("group", "is for one folder; name it without wildcards")
            }
        case (nil, let patterns?):
            kind = .files(patterns: patterns)
            if source.group != nil { section.complain("group", "is for `spool` only; remove it") }
            section.require("env", choiceList(DeploymentEnvironment.self))
            section.require("bundle", "the app's name, e.g. com.example.web")
        default:
            section.complain("spool", "a source has either spool: DIR or files: [PATTERN]")
            return nil
        }
        var agentSource = AgentSource(
            files: kind, environment: (source.environment ?? .prod).rawValue, bundle: source.bundle ?? "unknown",
            timeMember: source.timeMember, nameMember: source.nameMember, userMember: source.userMember,
            anonymousMember: source.anonymousMember)
        agentSource.followsLinks = source.followsLinks
        agentSource.excludes = source.excludes ?? []
        agentSource.isPolled = source.isPolled
        agentSource.group = source.group
        return agentSource
    }

    /// - Parameter hint: what to write if neither is given; empty if neither is needed.
    /// - Returns: whether both are given.
    @discardableResult private static func checkCertificate(
        _ certificate: String?, _ key: String?, _ section: inout ConfigurationSection, hint: String = ""
    ) -> Bool {
        switch (certificate, key) {
        case (_?, _?): return true
        case (_?, nil): section.complain("tls.certificate", "needs its private key; add key: FILE")
        case (nil, _?): section.complain("tls.key", "needs its certificate; add certificate: FILE")
        case (nil, nil) where hint.isEmpty: break
        case (nil, nil): section.complain("tls.certificate", "is missing: \(hint)")
        }
        return false
    }
}

/// Environment variables in values.
///
///     to: ["${COLLECTOR}:4390"]      the value of COLLECTOR
///     screen_event: "$${name}"       the text ${name}
enum EnvironmentText {
    static func expand(_ text: String) throws(YAMLSubstitutionError) -> String {
        var result = ""
        var rest = text[...]
        while let start = rest.firstIndex(of: "$") {
            result += rest[..<start]
            rest = rest[start...]
            if rest.hasPrefix("$${") {
                result += "${"
                rest = rest.dropFirst(3)
            } else if rest.hasPrefix("${") {
                let name = rest.dropFirst(2).prefix { $0 != "}" }
                guard name.endIndex < rest.endIndex, Self.isName(name) else {
                    throw YAMLSubstitutionError(
                        "write ${NAME} with letters, digits and _ for an environment variable, or $${ for the text ${")
                }
                guard let value = ProcessEnvironment[String(name)] else {
                    throw YAMLSubstitutionError(
                        "the environment variable \(name) is not set; set it, or write the value")
                }
                result += value
                rest = rest[name.endIndex...].dropFirst()
            } else {
                result += "$"
                rest = rest.dropFirst()
            }
        }
        return result + rest
    }

    private static func isName(_ name: Substring) -> Bool {
        name.first?.isNumber == false
            && name.utf8.allSatisfy { 0x30...0x39 ~= $0 || 0x41...0x5A ~= $0 || 0x61...0x7A ~= $0 || $0 == 0x5F }
    }
}
